"""The claim on rotary positions under linear scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from theory.plans import mix
from theory.plans.architecture import Architecture, Vectors
from theory.plans.depth import DepthAttention
from theory.plans.names import resolve
from theory.plans.plan import Plan
from theory.resformer.variants import denseformer
from theory.skipv1.paper import PAPER
from theory.toy import parity

PARITY = Claim(
    "toy.rotary",
    PAPER.ours,
    place="theory/toy/parity.py; bears on SkipV1Former, appendix A.1, whose toy has linear scores and no positions",
    statement="With linear scores, rotary positions or none, and nothing constant in a token or a score, no decoder "
    "without feed-forward, of any width, depth and number of heads, explains anything of in-context regression that "
    "reads x and y as tokens of their own: its answer does not see the sign of y.",
    assumes="W* and the noise, given x, as likely as their negatives together; no feed-forward, no biases, no assumed "
    "copy, no dynamic values, no weights over depth that look at outputs; RMSNorm, LayerNorm or none",
    verdict="verified",
    proof=parity,
    unjudged={
        **dict.fromkeys(
            (mix.q, mix.k, mix.v, denseformer), "true of every plan whose heads read a token's own entries"
        ),
        Architecture.sublayers: "for how many weights over depth a decoder has room, not what they are",
        Architecture.has_feed_forward: "a decoder is built by what it says",
    },
)

_PLAIN = Architecture(
    d_model=6, n_layers=2, n_heads=2, d_ff=0, context=7, stem=Vectors(3), head_dim=4, norm="rms", score="linear"
)
_DEPARTURES: tuple[dict[str, Any], ...] = (
    {},
    {"positions": "none"},
    {"norm": "layer"},
    {"norm": "none", "n_layers": 3},
    {"positions": "bias"},
    {"positions": "learned"},
    {"score": "softmax"},
    {"d_ff": 5},
    {"qkv_bias": True},
    {"norm": "layer", "bias": True},
)


def turned(config: Architecture, plan: Plan, seed: int = 0) -> float:
    """How far an answer moves when all y turn their signs, over its size; all parameters are random."""
    import torch

    from icl.models.decoder import Decoder

    assert isinstance(config.stem, Vectors)
    generator = torch.Generator().manual_seed(seed)
    model = Decoder(config, plan).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    inputs = torch.randn(4, config.context, config.stem.width, generator=generator, dtype=torch.float64)
    signs = torch.tensor([(-1.0) ** t for t in range(config.context)], dtype=torch.float64)[:, None]
    plain, other = (model(x)[:, -1].detach() for x in (inputs, signs * inputs))
    return float((plain - other).norm() / plain.norm())


@PARITY.check(
    "decoders with random weights, 6 plans, 10 departures from the plainest: those of which it speaks see no sign, "
    "the others do",
    states=parity.keeps_signs,
    control=lambda config, plan: parity.keeps_signs(replace(config, score="linear"), plan),
    wrong="a softmax too",
    kind="float64",
)
def decoders_see_no_sign(speaks: Callable[[Architecture, Plan], bool]) -> bool:
    for departure in _DEPARTURES:
        config = replace(_PLAIN, **departure)
        plans = [resolve(name, config.shape) for name in ("vanilla", "skipv1", "denseformer")]
        plans += [replace(plans[0], depth=depth) for depth in (DepthAttention(), DepthAttention(query="static"))]
        plans += [replace(plans[0], feed_forward=False)]
        for plan in plans:
            if speaks(config, plan) != (turned(config, plan) < 1e-9):
                return False
    return True


@PARITY.check(
    "two layers with a residual stream, rational weights and rotations, d = 1 and 2, n = 1 to 3: over both signs the "
    "loss is that of zero and the answer's power, exactly",
    states=Fraction(0),
    control=Fraction(1, 2),
    wrong="half a point added to the score of a token and the one before it",
    kind="exact",
)
def both_signs_together(bias: Fraction) -> bool:
    draw = np.random.default_rng(0)

    def rational(*shape: int) -> Any:
        return np.vectorize(lambda x: Fraction(int(x), 7))(draw.integers(-7, 8, shape))

    for d, n in product((1, 2), (1, 2, 3)):
        read_in, head, layers = rational(2, d), rational(d, 2), rational(2, 3, 2, 2)
        x, w, noise = rational(2 * n + 1, d), rational(d, d), rational(n + 1, d)
        y = x[::2] @ w.T + noise
        tokens = x.copy()
        power = excess = 0
        for sign in (1, -1):
            tokens[::2], tokens[1::2] = x[::2], sign * y[:-1]
            found = head @ _last(layers, tokens @ read_in.T, bias)
            missed = sign * y[-1] - found
            power += found @ found
            excess += missed @ missed - y[-1] @ y[-1]
        if excess != power:
            return False
    return True


def _last(layers: Any, states: Any, bias: Fraction) -> Any:
    """The last state: layers of one head with linear scores, queries turned by one angle a token, and a residual
    stream."""
    turn = np.array([[Fraction(3, 5), Fraction(-4, 5)], [Fraction(4, 5), Fraction(3, 5)]], dtype=object)
    for query, key, value in layers:
        new = states.copy()
        for t, state in enumerate(states):
            turned = query @ state
            for i in range(t, -1, -1):
                score = turned @ key @ states[i] + (bias if i == t - 1 else 0)
                new[t] = new[t] + score * (value @ states[i])
                turned = turn.T @ turned
        states = new
    return states[-1]
