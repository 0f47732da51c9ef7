"""Claims on tokens and losses: how many tokens the steps take, and what Table 5's gains are worth in parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log, sqrt

from experiments.ledger.claim import Claim
from experiments.resformer.claims.tables import TABLE_3, TABLE_5
from experiments.toys.unjudged import OF_PARAMETERS
from experiments.training.printed import paired_half_width
from theory.plans.accounting import total_parameters
from theory.plans.names import model
from theory.resformer.paper import PAPER

STEPS = 10_000
SIZES = ("82M", "180M", "468M")

ONE_EPOCH = Claim(
    "resformer.one-epoch",
    PAPER.name,
    place="sections 4.1.1 and 4.1.2, Table 3",
    statement="All models see nearly 20B tokens once: 10,000 steps of 2M tokens.",
    assumes="the batches of Table 3",
    verdict="corrected",
    correction="10,000 steps take 20.97B tokens at lengths up to 8,192 and 20.48B at 32,000 and 64,000: 2.4 % more at "
    "the short ones, and 5 % more than 20B, so that `one epoch' asks for more than 20B.",
    proof=None,
)


@ONE_EPOCH.check(
    "billions of tokens that 10,000 steps take, by length, to 0.01",
    states=lambda length: 20.97 if length <= 8192 else 20.48,
    control=lambda length: 20.0,
    wrong="20 at every length",
    kind="float64",
)
def tokens_of_all_steps(billions: Callable[[int], float]) -> bool:
    return all(abs(STEPS * n * batch / 1e9 - billions(n)) < 0.01 for n, (batch, _) in TABLE_3.items())


@ONE_EPOCH.check(
    "steps that 20B tokens last at 2,048 and at 64,000 tokens",
    states=(9536, 9765),
    control=(10_000, 10_000),
    wrong="10,000",
    kind="exact",
)
def steps_of_one_epoch(steps: tuple[int, int]) -> bool:
    return tuple(20 * 10**9 // (n * TABLE_3[n][0]) for n in (2048, 64_000)) == steps


GAINS = Claim(
    "resformer.table-5-gains",
    PAPER.ours,
    place="experiments/resformer/claims/data.py, on appendix A.6, Table 5, and section 4.2, Fig. 5",
    statement="ResFormer's gains are 0.0272, 0.0323 and 0.0269 nats: each is beyond chance, that they differ is not.  "
    "By the slope between vanilla's own sizes they are worth 9 % and 15 % more parameters at 82M and 180M.",
    assumes="plain means over domains; a straight line in the log of all parameters between neighbouring sizes; one "
    "run a model, and for chance the half width of `experiments.training.printed`, 0.0050 nats, taken from other "
    "models",
    verdict="verified",
    correction="One run each at three sizes bears no fitted curve (Fig. 5, middle, may have a fourth, 2M, which is not "
    "in Table 5): two parameters leave one degree of freedom, or two.",
    proof=None,
    uses=("resformer.table-4",),
    unjudged=OF_PARAMETERS,
)


def gain(size: str) -> float:
    return TABLE_5[f"Transformer ({size})"][1] - TABLE_5[f"ResFormer ({size})"][1]


@GAINS.check(
    "gains from the printed averages, each beyond its half width; how many half widths lie between two sizes' at least "
    "before they are said to differ",
    states=((0.0272, 0.0323, 0.0269), sqrt(2)),
    control=((0.0272, 0.0323, 0.0269), 1.0),
    wrong="one, as if only one of the two were measured",
    kind="float64",
)
def gains_are_alike(version: tuple[Sequence[float], float]) -> bool:
    nats, widths = version
    found, chance = [gain(size) for size in SIZES], paired_half_width()
    apart = [abs(a - b) for a, b in pairwise(found)]
    beyond = all(abs(a - b) < 1e-9 and a > chance for a, b in zip(found, nats, strict=True))
    return beyond and all(step <= widths * chance for step in apart)


@GAINS.check(
    "parameters of the vanilla model of the same loss over ResFormer's, in per cent, to one point",
    states=(9, 15),
    control=(16.1, 16.1),
    wrong="16 % at both",
    kind="float64",
)
def worth_in_parameters(more: tuple[float, float]) -> bool:
    log_sizes = [log(total_parameters(*model(f"llama-{size.lower()}", "vanilla"))) for size in SIZES]
    losses = [TABLE_5[f"Transformer ({size})"][1] for size in SIZES]
    for i, per_cent in enumerate(more):
        slope = (losses[i + 1] - losses[i]) / (log_sizes[i + 1] - log_sizes[i])
        if abs(100 * (exp(-gain(SIZES[i]) / slope) - 1) - per_cent) > 1:
            return False
    return True
