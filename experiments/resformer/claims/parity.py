"""What the paper's variants cost, counted by hand: without it a difference of losses says nothing of an idea."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_COUNTS
from theory.plans.accounting import cache, flops, parameters, total_parameters
from theory.plans.names import model
from theory.plans.variants import VARIANTS
from theory.resformer.paper import PAPER

Costs = tuple[int, int, int]
LENGTH = 2048
PRESETS = ("llama-2m", "llama-82m", "llama-180m", "llama-468m")
AS_VANILLA = (
    "resformer",
    "resformer-constant",
    "resformer-previous",
    "resformer-all",
    "residual-queries",
    "residual-keys",
    "identity-mapping",
    "neutreno",
    "resformer-neutreno",
)


def all_costs(preset: str, variant: str, length: int = LENGTH) -> Costs:
    """Parameters, numbers cached for a token, and FLOPs of one that attends over `length` tokens."""
    config, plan = model(preset, variant)
    return total_parameters(config, plan), cache(config, plan).total, flops(config, plan, length)


def cost_the_same(pairs: Iterable[tuple[str, str]], presets: Iterable[str] = ("llama-82m", "llama-468m")) -> bool:
    """Whether the two variants of every pair do, at every size."""
    return all(all_costs(preset, one) == all_costs(preset, other) for one, other in pairs for preset in presets)


ALIKE = "one of several variants that cost the same, of which any may stand for it"

COSTS = Claim(
    "resformer.costs",
    PAPER.ours,
    place="theory/plans/accounting.py, on the variants of sections 3 and 4",
    statement="ResFormer with any weights and from any layer, NeuTRENO, the identity mapping and residuals of queries "
    "or keys cost what vanilla costs; sharing values or keys over all layers saves one matrix and d cached numbers in "
    "each layer but one, over every two layers in half of them; sharing queries saves the matrix alone; cross-layer "
    "attention adds 4 d products and sums for each token in each layer but one.",
    assumes="the models of Table 4; parameters, cached numbers, forward FLOPs, in which the mixing of values is left "
    "out",
    verdict="verified",
    proof=parameters,
    unjudged={
        **OF_COUNTS,
        VARIANTS["resformer-previous"].make: ALIKE,
        VARIANTS["resformer-all"].make: ALIKE,
        VARIANTS["identity-mapping"].make: ALIKE,
        VARIANTS["residual-queries"].make: ALIKE,
        VARIANTS["residual-keys"].make: ALIKE,
    },
)


def saved(variant: str, layers: int) -> tuple[int, int]:
    """Matrices, and values or keys of a token, that are not built or kept: both for the whole model."""
    match variant:
        case "svformer" | "shared-keys":
            return layers - 1, layers - 1
        case "shared-queries":
            return layers - 1, 0
        case "cla-v" | "cla-k":
            return layers // 2, layers // 2
        case "cla":
            return layers, layers
    return 0, 0


def by_hand(preset: str, variant: str, length: int) -> Costs:
    """Two embeddings; four d x d and three d x d_ff matrices a layer, two norms; a last norm.

    A product and a sum are two FLOPs.  A token attended to takes 4 d of them a layer, for its score and its value, and
    each of the 2 L + 1 sublayers and reads adds d numbers to the stream, counted as a product and a sum.
    """
    layers, d, d_ff = {
        "llama-2m": (4, 16, 56),
        "llama-82m": (8, 512, 1792),
        "llama-180m": (12, 768, 2688),
        "llama-468m": (24, 1024, 3584),
    }[preset]
    matrices, kept = saved(variant, layers)
    weights = layers * (4 * d * d + 3 * d * d_ff) - matrices * d * d
    segments = 2 * layers - 1 if variant == "cross-layer" else layers
    products = 2 * (weights + 50_277 * d) + 4 * d * length * segments + 2 * d * (2 * layers + 1)
    return weights + 2 * 50_277 * d + (2 * layers + 1) * d, (2 * layers - kept) * d, products


@COSTS.check(
    "sixteen variants at four sizes and 2,048 tokens: all three numbers",
    states=by_hand,
    control=lambda preset, _variant, length: by_hand(preset, "vanilla", length),
    wrong="vanilla's for all of them",
    kind="exact",
)
def costs_are_by_hand(costs: Callable[[str, str, int], Costs]) -> bool:
    others = ("vanilla", "svformer", "shared-keys", "shared-queries", "cla-v", "cla-k", "cross-layer")
    return all(
        all_costs(preset, variant) == costs(preset, variant, LENGTH)
        for preset in PRESETS
        for variant in (*AS_VANILLA, *others)
    )


@COSTS.check(
    "vanilla, SVFormer and CLA at 1, 512 and 64,000 tokens",
    states=lambda length: length,
    control=lambda length: LENGTH,
    wrong="the FLOPs of 2,048",
    kind="exact",
)
def costs_by_length(read: Callable[[int], int]) -> bool:
    return all(
        all_costs("llama-82m", variant, length) == by_hand("llama-82m", variant, read(length))
        for variant in ("vanilla", "svformer", "cla")
        for length in (1, 512, 64_000)
    )
