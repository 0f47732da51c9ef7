"""Claims on SVFormer's effective depth, and on the layers that renew its values: section 4.8."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from numpy.polynomial import Polynomial

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_COUNTS, OF_VALUES
from theory.plans.accounting import cache
from theory.plans.names import model, resolve
from theory.plans.plan import Shape
from theory.plans.variants import VARIANTS
from theory.resformer import smoothing
from theory.resformer.paper import PAPER

NO_FILTER = "filters are of values: any plan that leaves values alone has vanilla's"

EFFECTIVE_DEPTH = Claim(
    "resformer.effective-depth",
    PAPER.name,
    place="section 4.8: sharing the first layer's values may reduce the effective depth; anchors mend it",
    statement="With nothing but attention, one matrix A in all layers, SVFormer with a anchors applies A exactly a "
    "times, whatever the number of layers: its effective depth is the number of layers with values of their own.  "
    "Sharing keys or queries leaves A applied once a layer.",
    assumes="nothing but attention; of models with feed-forwards and residuals the losses must tell (resformer.fig-17)",
    verdict="verified",
    proof=smoothing.depth_filters,
    unjudged={
        **OF_VALUES,
        VARIANTS["shared-queries"].make: NO_FILTER,
        VARIANTS["shared-keys"].make: NO_FILTER,
    },
)


@EFFECTIVE_DEPTH.check(
    "the filter at 6 layers, for seven choices of anchors, is mu to the power of their number",
    states=len,
    control=lambda anchors: 6,
    wrong="the number of layers",
    kind="exact",
)
def anchors_are_depth(depth: Callable[[tuple[int, ...]], int]) -> bool:
    for anchors in ((1,), (1, 2), (1, 4), (1, 6), (1, 3, 5), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6)):
        plan = resolve(f"svformer:anchors={anchors}", Shape(6, 2))
        power = Polynomial([0] * depth(anchors) + [1])
        if (smoothing.depth_filters(plan)[-1] - power).trim() != Polynomial([0.0]):
            return False
    return True


@EFFECTIVE_DEPTH.check(
    "the power of mu after 1 to 5 layers, of what shares values, keys and queries",
    states={"svformer": lambda n: 1, "shared-keys": lambda n: n, "shared-queries": lambda n: n, "vanilla": lambda n: n},
    control={"svformer": lambda n: n, "shared-keys": lambda n: n, "shared-queries": lambda n: n},
    wrong="shared values leave depth as it is",
    kind="exact",
)
def only_values_carry_depth(powers: Mapping[str, Callable[[int], int]]) -> bool:
    for name, power in powers.items():
        for n, found in enumerate(smoothing.depth_filters(resolve(name, Shape(5, 1))), 1):
            if (found - Polynomial([0] * power(n) + [1])).trim() != Polynomial([0.0]):
                return False
    return True


FIG_17 = Claim(
    "resformer.fig-17",
    PAPER.name,
    place="section 4.8, Fig. 17",
    statement="SVFormer's loss falls as more layers renew the shared values.",
    assumes="the training of section 4.1.1, one run each",
    verdict="open",
    correction="Training decides it; no question asks it yet.  What holds without: each anchor "
    "gives back 1/(2 L) of the cache, and with all of them SVFormer is vanilla, so that the curve ends at vanilla's "
    "loss.",
    proof=cache,
    uses=("resformer.effective-depth", "resformer.costs"),
    unjudged=OF_COUNTS,
)


@FIG_17.check(
    "the cache with 1 to 8 anchors, as a share of vanilla's, times twice the layers",
    states=lambda anchors: 8 + anchors,
    control=lambda anchors: 8 + 1,
    wrong="one layer's values, whatever the anchors",
    kind="exact",
)
def anchors_are_cached(halves: Callable[[int], int]) -> bool:
    whole = cache(*model("llama-82m", "vanilla")).total
    for count in range(1, 9):
        kept = cache(*model("llama-82m", f"svformer:anchors={tuple(range(1, count + 1))}")).total
        if kept * 16 != whole * halves(count):
            return False
    return True


@FIG_17.check(
    "with an anchor in every layer the plan is vanilla's",
    states=(1, 2, 3, 4),
    control=(1, 2, 3),
    wrong="all layers but one",
    kind="exact",
)
def all_anchors_are_vanilla(anchors: tuple[int, ...]) -> bool:
    shape = Shape(4, 2)
    return resolve(f"svformer:anchors={anchors}", shape) == resolve("vanilla", shape)
