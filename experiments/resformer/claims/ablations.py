"""Claims on the ablations of ResFormer's residual: what it carries, from which layer, and with which weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import gamma

import numpy as np

from experiments.ledger.claim import Claim
from experiments.resformer.claims.in_context import block_form_explains_more
from experiments.resformer.claims.smoothing import causal_attention
from theory.plans.heads import toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import Array
from theory.resformer import smoothing
from theory.resformer.paper import PAPER
from theory.resformer.weights import ValueFactors, value_factors
from theory.toy import value_maps

WHAT = Claim(
    "resformer.what-is-carried",
    PAPER.name,
    place="section 4.3, Fig. 7, and section 4.8, Fig. 16",
    statement="Of residual connections to queries, keys and values only that of values has a positive effect, and "
    "sharing layer 1's queries or keys in all layers does harm.",
    assumes="the assumed-copy toy of SkipV1Former's appendix, linear attention, W0 = 0; decoders are another matter",
    verdict="corrected",
    correction="In the toy, in entries of W*: values of layer 1 explain a d where MHA's infimum explains a (d - a).  A "
    "residual of queries changes nothing, and one of keys wins one entry a head at most.  Sharing all queries changes "
    "nothing either; sharing all keys leaves one entry a head.",
    proof=value_maps,
    uses=("toy.value-maps", "toy.raw-keys"),
)


@WHAT.check(
    "entries of W* that the plans' toys explain, d = 4, a = 2, one to three heads",
    states={
        "resformer": lambda heads: 8,
        "residual-queries": lambda heads: 4,
        "residual-keys": lambda heads: 4 + heads,
        "shared-queries": lambda heads: 4,
        "shared-keys": lambda heads: heads,
    },
    control={"residual-keys": lambda heads: 4},
    wrong="a residual of keys wins nothing",
    kind="exact",
)
def entries_are(entries: Mapping[str, Callable[[int], int]]) -> bool:
    return all(
        value_maps.explained_entries(toy_heads(resolve(name, Shape(2, heads))), 4, 2) == count(heads)
        for name, count in entries.items()
        for heads in (1, 2, 3)
    )


WHAT.check(
    "descents on the exact losses of the plans' toys with one head; d = 2, a = 1 and d = 3, a = 2",
    states={
        "resformer": lambda a, d: a * d,
        "residual-queries": lambda a, d: a * (d - a),
        "shared-queries": lambda a, d: a * (d - a),
        "shared-keys": lambda a, d: 1,
    },
    control={"residual-queries": lambda a, d: a * d},
    wrong="a residual of queries explains what one of values does",
    kind="descent",
)(block_form_explains_more)


SOURCE = Claim(
    "resformer.source-layer",
    PAPER.name,
    place="section 4.3, Fig. 9",
    statement="A layer should add layer 1's values, not those of the layer before or of all earlier layers.",
    assumes="nothing but attention, one matrix A in all layers, eigenvalues mu in (0, 1): what is asked for is that "
    "tokens stay apart at depth; of losses it says nothing",
    verdict="verified",
    correction="With layer 1's values the share mu / (2 - mu) stays at any depth; with all layers' mean it falls as "
    "n^(mu - 1), with the layer before's as r^n, r = (mu + sqrt(mu^2 + 8 mu)) / 4, without any as mu^n.  A toy of two "
    "layers cannot tell the three apart.",
    proof=smoothing,
    uses=("resformer.smoothing",),
)
Earlier = Callable[[list[Array]], Array]


@SOURCE.check(
    "attention layer by layer, by the equations, acts on A's eigenvectors as the plans' filters say; 12 layers",
    states={
        "resformer-previous": lambda v: (v[-1] + v[max(0, len(v) - 2)]) / 2,
        "resformer-all": lambda v: np.mean(v, axis=0),
    },
    control={"resformer-previous": lambda v: (v[-1] + v[0]) / 2},
    wrong="layer 1's values in the place of the layer before's",
    kind="float64",
)
def filters_are_the_equations(read: Mapping[str, Earlier]) -> bool:
    """`read`: what layer n attends over, from V_1, ..., V_n."""
    attention = causal_attention(4)
    eigenvalues, vectors = np.linalg.eig(attention)
    for name, mixed in read.items():
        values = [vectors]
        for filtered in smoothing.depth_filters(resolve(name, Shape(12, 1))):
            values.append(attention @ mixed(values))
            if not np.allclose(values[-1], filtered(eigenvalues) * vectors, rtol=0, atol=1e-9):
                return False
    return True


@SOURCE.check(
    "the plans' filters at 60 layers: the ratio of the last two, and what is left, over closed forms, to 1e-7 and 2 %",
    states=(lambda mu: (mu + np.sqrt(mu**2 + 8 * mu)) / 4, lambda mu, n: mu * n ** (mu - 1) / gamma(1 + mu)),
    control=(lambda mu: mu, lambda mu, n: mu / (2 - mu)),
    wrong="as without the layer before, and as with layer 1's values",
    kind="float64",
)
def falls_with_depth(version: tuple[Callable[[float], float], Callable[[float, int], float]]) -> bool:
    rate, left = version
    previous, mean = (smoothing.depth_filters(resolve(f"resformer-{x}", Shape(60, 1))) for x in ("previous", "all"))
    for mu in (0.2, 0.5, 0.9):
        ratio, kept = previous[-1](mu) / previous[-2](mu), mean[-1](mu)
        if abs(ratio - rate(mu)) > 1e-7 or abs(smoothing.previous_rate(mu) - rate(mu)) > 1e-12:
            return False
        if abs(kept / left(mu, 60) - 1) > 0.02 or abs(smoothing.mean_filter(mu, 60) / kept - 1) > 1e-9:
            return False
    return True


LAMBDA = Claim(
    "resformer.lambda",
    PAPER.name,
    place="section 4.2, Fig. 6: A_n (V_n + lambda V_1)",
    statement="Results improve as lambda grows, are best at lambda = 2, and are better than vanilla whatever lambda.",
    assumes="a Transformer whose values meet no norm on their way, as in the paper",
    verdict="corrected",
    correction="All lambda but zero, and the halves of Eqn. (7), are one set of functions: factors in W_V, and in W_O "
    "of layer 1, turn each into any other.  So lambda changes where training starts and what a step does, and at "
    "equal learning rates and initial weights Fig. 6 compares these.  Only weights that differ by layer add anything: "
    "L - 2 ratios.",
    proof=value_factors,
)


@LAMBDA.check(
    "decoders of three layers and two grouped heads under other weights of own and layer 1's values, their weights "
    "multiplied: the same logits, in float64",
    states=value_factors,
    control=lambda mix, other: replace(value_factors(mix, other), first_output=1),
    wrong="layer 1's output projection left as it was",
    kind="float64",
)
def same_logits(factors: Callable[..., ValueFactors]) -> bool:
    import torch

    from icl.models.decoder import Decoder
    from theory.plans.presets import llama

    config = llama(d_model=8, n_heads=4, n_layers=3, d_ff=12, vocab=16, context=6, n_kv_heads=2)
    text = torch.randint(0, 16, (2, 6), generator=torch.Generator().manual_seed(1))
    mixes = {"resformer": (0.5, 0.5), "resformer-constant:weight=0.25": (1.0, 0.25), "resformer-constant": (1.0, 2.0)}
    given = Decoder(config, resolve("resformer", config.shape), seed=4, std=0.5).double()
    for name, mix in mixes.items():
        found, by = Decoder(config, resolve(name, config.shape)).double(), factors(mixes["resformer"], mix)
        found.load_state_dict(given.state_dict())
        with torch.no_grad():
            for n, layer in enumerate(found.layers, 1):
                attention = layer.get_submodule("attention")
                attention.get_parameter("projections.value.weight").mul_(
                    float(by.first_values if n == 1 else by.later_values)
                )
                if n == 1:
                    attention.get_parameter("output.weight").mul_(float(by.first_output))
            if not torch.allclose(found(text), given(text), rtol=0, atol=1e-10):
                return False
    return True


@LAMBDA.check(
    "entries of W* that the toy explains at lambda = 0, 1/2, 2 and 8; two heads, d = 4, a = 2",
    states={0.0: 4, 0.5: 8, 2.0: 8, 8.0: 8},
    control={0.0: 4, 0.5: 5, 2.0: 8, 8.0: 8},
    wrong="more at a larger lambda",
    kind="exact",
)
def toys_are_alike(entries: Mapping[float, int]) -> bool:
    plans = {weight: resolve(f"resformer-constant:weight={weight}", Shape(2, 2)) for weight in entries}
    return all(value_maps.explained_entries(toy_heads(plans[w]), 4, 2) == count for w, count in entries.items())
