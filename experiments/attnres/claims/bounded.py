"""Claims on what Attention Residuals bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from experiments.attnres.claims.growth import CLOSE, SIZES, UNJUDGED
from experiments.ledger.claim import Claim
from theory.attnres import bounds as attnres
from theory.attnres.bounds import read_bounds
from theory.attnres.growth import extremal
from theory.attnres.paper import PAPER
from theory.plans.names import resolve
from theory.plans.presets import llama

BLOCK = "attnres-block:blocks=2"

BOUNDED = Claim(
    "attnres.bounded",
    PAPER.name,
    place="summary: output magnitudes remain bounded across depth",
    statement="With a norm before every sublayer, what Full AttnRes reads is never larger than the largest bound "
    "C_i that a sublayer's weights put on its output, or the embedding, whatever the depth; what Block reads, than "
    "S times that for blocks of S sublayers; PreNorm's stream can be as large as the sum of all.",
    assumes="one-headed softmax over depth; softmax attention over a layer's own values; no biases",
    verdict="corrected",
    correction="It depends on what bounds it, and when: a fixed number of blocks is bounded by L/N max C_i, which "
    "grows with depth like PreNorm; without a norm before or after the sublayers there is a bound for small sublayers "
    "alone (attnres.norms); with several heads over depth the largest source is no bound; and there is no lower bound, "
    "as sources can cancel.  Of trained networks it says little, as weights grow: in one run on text that is not kept, "
    "3 to 24 layers, Full's largest read grew as the depth to the power 0.95, within its bounds; others are listed in "
    "attnres-bounds.",
    proof=attnres,
    uses=("attnres.attention-output", "attnres.feed-forward-output"),
    unjudged=UNJUDGED,
)


@BOUNDED.check(
    "decoders whose outputs are aligned within a block and whose queries are long attain every bound, 2 to 16 layers",
    states={"attnres": lambda n: 1, BLOCK: lambda n: n / 2, "vanilla": lambda n: n + 1},
    control={"attnres": lambda n: 1, BLOCK: lambda n: 1, "vanilla": lambda n: n + 1},
    wrong="Block is bounded by the largest output, as Full is",
    kind="float64",
)
def decoders_attain(largest: Mapping[str, Callable[[int], float]]) -> bool:
    """largest: for each depth rule, the largest bound at a number of sublayers, with outputs of length 1."""
    from experiments.attnres.networks import growing, read_norms

    for name, bound_at in largest.items():
        for layers in (2, 4, 8, 16):
            config = replace(SIZES, n_layers=layers, context=layers)
            plan, outputs = resolve(name, config.shape), [1.0] * (2 * layers)
            network = extremal(config, plan, 1.0, outputs)
            found, bounds = read_norms(growing(config, plan, network, query=1e4)), read_bounds(config, plan, 1, outputs)
            if not np.allclose(found, bounds, rtol=CLOSE, atol=0) or abs(max(found) - bound_at(2 * layers)) > CLOSE:
                return False
    return True


@BOUNDED.check(
    "two and four heads over depth, each at a source of its own, through a decoder's depth rule: the read over its "
    "largest source",
    states=0.5,
    control=0.0,
    wrong="the largest source bounds it, as with one head",
)
def heads_read_more_than_a_source(power: float) -> bool:
    """The number of heads to this power."""
    import torch

    from icl.models.decoder import Decoder

    for heads in (2, 4):
        config = replace(SIZES, d_model=2 * heads, n_heads=heads, n_layers=heads, d_ff=0)
        plan = resolve(f"attnres-heads:heads={heads}", config.shape)
        model = Decoder(config, plan).double()
        sources = torch.eye(2 * heads, dtype=torch.float64)[::2, None, None]  # of norm 1, each in a part of its own
        with torch.no_grad():
            model.get_parameter("depth.query").fill_(1e3)
        rule = model.depth
        state = rule.start(sources[0])
        for i, source in enumerate(sources[1:]):
            state = rule.write(i, state, source)
        found = float(rule.read(heads - 1, state).detach().norm())
        allowed = read_bounds(config, plan, 1.0, [1.0] * heads)[heads - 1]
        if abs(found - heads**power) > CLOSE or abs(found - allowed) > CLOSE:
            return False
    return True


@BOUNDED.check(
    "random decoders with weights of every size keep below the bounds at every read, float64",
    states=1.0,
    control=0.25,
    wrong="a bound that takes the length of a normed vector, sqrt(16), for 1",
    kind="float64",
)
def decoders_stay_below(factor: float) -> bool:
    """Norms at every read but the first, the embedding, over `factor` times their bounds."""
    import torch

    from experiments.training.magnitude_probe import bounds
    from icl.models.decoder import Decoder
    from icl.probes.magnitude import magnitudes

    config = llama(d_model=16, n_heads=2, n_layers=4, d_ff=32, vocab=64, context=8)
    tokens = torch.arange(64).view(8, 8)
    for name in ("vanilla", "attnres", BLOCK):
        for std in (0.02, 0.3, 3.0):
            model = Decoder(config, resolve(name, config.shape), std=std).double()
            measured = magnitudes(model, tokens, lambda answer: answer.square().mean())
            allowed = bounds(model, measured.output_max[0])
            pairs = zip(measured.read_max[1:], allowed[1:], strict=True)
            if any(norm > factor * bound * (1 + 1e-12) for norm, bound in pairs):
                return False
    return True
