"""Claims on sections 4 and 5: what the paper prints of its models and their training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from statistics import correlation, fmean, pstdev

from experiments.dva.tables import CONTEXT, PARAMETERS, SECONDS, TABLE_2, TOKENS, TRAINED_SHARE, curve
from experiments.ledger.claim import Claim, Conditions
from experiments.toys.unjudged import OF_PARAMETERS
from theory.dva.paper import PAPER
from theory.plans.accounting import flops, parameters, total_parameters
from theory.plans.names import model

MODELS = {"a": ("dva-a", "vanilla"), "b": ("dva-b", "dva")}
WIDTH, VOCAB, LAYERS = 768, 50_257, 12  # Table 1
HALF_CONTEXT = (CONTEXT + 1) // 2
PARTS = ("training", "validation")
LOSSES = {(m, part): curve(m, part) for m in MODELS for part in PARTS}
SEQUENCES = int(TRAINED_SHARE * TOKENS) // CONTEXT

TABLE_1 = Claim(
    "dva.table-1",
    PAPER.name,
    place="section 4, Table 1, total number of parameters",
    statement="Model a has 162,419,712 parameters and model b 112,800,768.",
    assumes="model b's block is five d x d matrices without bias and one LayerNorm, no output projection, and the "
    "head is not tied; the paper does not say so",
    verdict="verified",
    proof=parameters,
    unjudged=OF_PARAMETERS,
)


@TABLE_1.check(
    "model b by the accounting",
    states=("dva-b", "dva", PARAMETERS["b"]),
    control=("dva-b", "vanilla", PARAMETERS["b"]),
    wrong="a vanilla block",
    kind="exact",
)
@TABLE_1.check(
    "model a as a GPT-2 with biases outside queries, keys and values, by the accounting",
    states=("dva-a", "vanilla", PARAMETERS["a"]),
    control=("dva-a", "dva-attention", PARAMETERS["a"]),
    wrong="with dynamic values beside the feed-forward",
    kind="exact",
)
def dva_parameters(version: tuple[str, str, int]) -> bool:
    """Compare the number of parameters of a preset as a variant."""
    preset, variant, total = version
    return total_parameters(*model(preset, variant)) == total


@TABLE_1.check(
    "model a by hand: twelve matrices' worth, the biases of output, up and down, two norms",
    states=(12, 6, 2, PARAMETERS["a"]),
    control=(12, 9, 2, PARAMETERS["a"]),
    wrong="with biases of queries, keys and values",
    kind="exact",
)
@TABLE_1.check(
    "model b from its parts, counted by hand: five matrices and one norm a layer",
    states=(5, 0, 1, PARAMETERS["b"]),
    control=(6, 1, 1, PARAMETERS["b"]),
    wrong="with an output projection",
    kind="exact",
)
def dva_by_hand(version: tuple[int, int, int, int]) -> bool:
    """Count two embeddings, positions, layers of d x d matrices, biases and norms; a norm."""
    matrices, biases, norms, total = version
    layer = matrices * WIDTH**2 + (biases + 2 * norms) * WIDTH
    return (2 * VOCAB + CONTEXT + 2) * WIDTH + LAYERS * layer == total


TIME = Claim(
    "dva.time",
    PAPER.name,
    place="abstract, section 5: saves 37.6 % of the training time",
    statement="Model b trains in 9:51 where model a takes 15:47, 37.6 % less.",
    assumes="one run each, of five epochs, on what Kaggle calls a GPU-100, by PyTorch 2.6.0; numbers a batch, their "
    "precision and how attention is worked out are not stated",
    verdict="corrected",
    correction="The quotient is right.  By our formulas a token of model b takes 38 % fewer FLOPs than one of model a, "
    "on 69 % of its parameters: nothing is matched, in parameters, FLOPs or time.  Time need not follow FLOPs.",
    proof=flops,
    unjudged=OF_PARAMETERS,
)


TIME.row(
    "the saving of the printed times, in percent",
    Fraction(376, 10),
    lambda: round(100 * (1 - Fraction(SECONDS["b"], SECONDS["a"])), 1),
    control=Fraction(375, 10),
    wrong="rounded down",
)


@TIME.number(
    "FLOPs of a token of both models by the accounting: model b's share of model a's, in percent, beside parameters'",
    (62, 69),
    control=(69, 69),
    wrong="the share of the parameters",
)
def flops_saved() -> tuple[int, int]:
    a, b = (flops(*model(*names), HALF_CONTEXT) for names in MODELS.values())
    return round(100 * b / a), round(100 * PARAMETERS["b"] / PARAMETERS["a"])


@TIME.check(
    "the same FLOPs by hand: d x d matrices a layer, numbers a token attended to, reads of the stream",
    states={"a": (12, 4, 25), "b": (5, 6, 13)},
    control={"a": (12, 4, 25), "b": (5, 4, 13)},
    wrong="values that are not twice as wide",
    kind="exact",
)
def flops_by_hand(parts: dict[str, tuple[int, int, int]]) -> Conditions:
    for name, (matrices, attended, reads) in parts.items():
        products = 2 * (LAYERS * matrices * WIDTH**2 + VOCAB * WIDTH)
        by_hand = products + LAYERS * HALF_CONTEXT * attended * WIDTH + 2 * WIDTH * reads
        yield flops(*model(*MODELS[name]), HALF_CONTEXT) == by_hand


BETTER = Claim(
    "dva.table-2",
    PAPER.name,
    place="section 5, Table 2, Fig. 4",
    statement="Model b has the lower losses, learns deeper (4.572 for 4.909 in training at the last step), is at 5.000 "
    "after 800 steps where model a needs 1,400, and its curve is smoother.  Both are close to convergence after the "
    "first epoch; four more overfit.",
    assumes="one run each, of 1,500 steps; training losses are of single batches, it seems",
    verdict="corrected",
    correction="Model b's validation loss is lower at 13 of the 15 steps after the first, at the end by 0.024, and "
    "higher at 0, 700 and 900.  Training losses are 0.29 apart on average, but go up or down by 0.22 (model a) and "
    "0.15 from row to row: at the last step model b's is lower by 0.337, at the one before higher by 0.191.  How many "
    "steps earlier it is at a level depends on the level: in training, of all that both reach, none to 600 (at 5.000), "
    "230 on average; on validation text from 100 later to 400 earlier, 46 on average, less than the 100 from row to "
    "row.  Its curve is smoother: second differences from step 300 on have standard deviations of 0.23 against 0.49 in "
    "training and 0.05 against 0.08 on validation text.  Both validation losses are lowest at the last step printed, "
    "having come down by 0.106 and 0.085 in the last third.  Further epochs are not printed.",
    proof=None,
)


BETTER.row(
    "steps at which model b's validation loss is the higher one",
    [0, 700, 900],
    lambda: [step for step, row in TABLE_2.items() if row[3] > row[1]],
    control=[0],
    wrong="at the start alone",
)


def _first_below(part: str, level: float) -> list[int]:
    """Return the first step printed at which the loss is at most this, of models a and b."""
    return [next(step for step, loss in zip(TABLE_2, LOSSES[m, part], strict=True) if loss <= level) for m in "ab"]


BETTER.row(
    "first steps at which training losses are at most 5.000, of models a and b",
    [1400, 800],
    lambda: _first_below("training", 5.0),
    control=[1300, 800],
    wrong="a row earlier",
)


@BETTER.number(
    "steps that model b is ahead at all levels that both reach after the first row, in thousandths: least, most, mean",
    {"training": (0, 600, 230), "validation": (-100, 400, 46)},
    control={"training": (0, 600, 230), "validation": (0, 600, 230)},
    wrong="as far ahead on validation text",
)
def steps_ahead() -> Iterator[tuple[str, tuple[int, int, int]]]:
    for part in PARTS:
        a, b = (LOSSES[m, part][1:] for m in "ab")
        levels = range(round(1000 * max(min(a), min(b))), round(1000 * min(a[0], b[0])) + 1)
        ahead = [first - second for first, second in (_first_below(part, level / 1000) for level in levels)]
        yield part, (min(ahead), max(ahead), round(fmean(ahead)))


def _ahead(part: str) -> list[float]:
    """Return by how much model b's loss is lower, by row."""
    return [a - b for a, b in zip(LOSSES["a", part], LOSSES["b", part], strict=True)]


def _changes(losses: list[float]) -> list[float]:
    """Return the changes from row to row after the first."""
    return [after - before for before, after in pairwise(losses[1:])]


BETTER.row(
    "by how much model b's loss is lower at the last two steps, in thousandths: in training and on validation text",
    ([-191, 337], [19, 24]),
    lambda: [[round(1000 * x) for x in _ahead(part)[-2:]] for part in PARTS],
    control=([-191, 337], [-191, 337]),
    wrong="on validation text as in training",
)
BETTER.row(
    "training losses after the first row: mean changes from row to row of models a and b and mean distance of the two, "
    "in thousandths",
    (224, 153, 287),
    lambda: [
        round(1000 * fmean(map(abs, x)))
        for x in (*(_changes(LOSSES[m, "training"]) for m in "ab"), _ahead("training")[1:])
    ],
    control=(287, 287, 287),
    wrong="changes as large as the distance",
)


@BETTER.number(
    "validation losses of models a and b: where they are lowest, and by how much they fall after step 1000, in "
    "thousandths",
    ([1500, 1500], [106, 85]),
    control=([1500, 1500], [0, 0]),
    wrong="converged",
)
def still_falling() -> tuple[list[int], list[int]]:
    columns = [dict(zip(TABLE_2, LOSSES[m, "validation"], strict=True)) for m in "ab"]
    lowest = [min(losses, key=losses.__getitem__) for losses in columns]
    return lowest, [round(1000 * (losses[1000] - losses[1500])) for losses in columns]


@BETTER.number(
    "standard deviation of second differences from step 300 on, in thousandths: training and validation, a and b",
    ((490, 232), (82, 50)),
    control=((490, 232), (82, 41)),
    wrong="half as rough on validation text as well",
)
def roughness() -> list[list[int]]:
    changes = [[_changes(LOSSES[m, part])[2:] for m in "ab"] for part in PARTS]
    return [[round(1000 * pstdev(b - a for a, b in pairwise(each))) for each in row] for row in changes]


BETTER.row(
    "sequences an epoch of the novel, 256 tokens each, and sequences a step if 1,500 steps are an epoch",
    (3002, 2),
    lambda: (SEQUENCES, round(SEQUENCES / 1500)),
    control=(3336, 2),
    wrong="all of the novel's",
)


CELLS = Claim(
    "dva.table-2-cells",
    PAPER.name,
    place="sections 4 and 5, Table 2: its 64 cells",
    statement="Losses of both models, in training and on validation text, from step 0 on every 100 steps of the first "
    "epoch, under the same conditions.",
    assumes="nats a token, as PyTorch's cross-entropy has them; one run each",
    verdict="corrected",
    correction="The first row is not of untrained models: one that knows nothing has ln 50,257 = 10.825 nats, and all "
    "four cells are below, of model a by 0.941 and 0.960, of model b by 0.204 and 0.084.  After it validation losses "
    "lie above training losses by 0.317 of model a and by 0.537 of model b on average: of the 0.262 by which model b's "
    "training losses are lower, 0.042 is there on validation text.  From row to row the two models' validation losses "
    "change alike, with a correlation of 0.85, their training losses hardly, 0.30.",
    proof=None,
)


CELLS.row(
    "by how much the first row is below the loss of a model that knows nothing, in thousandths",
    (941, 960, 204, 84),
    lambda: [round(1000 * (math.log(VOCAB) - loss)) for loss in TABLE_2[0]],
    control=(0, 0, 0, 0),
    wrong="not at all, as of untrained models",
)


@CELLS.number(
    "after the first row, in thousandths on average: validation less training, of models a and b, and model a less "
    "model b, in training and on validation text",
    (317, 537, 262, 42),
    control=(317, 317, 262, 262),
    wrong="as far apart on validation text as in training",
)
def gaps() -> list[int]:
    means = {key: fmean(column[1:]) for key, column in LOSSES.items()}
    gap = [means[m, "validation"] - means[m, "training"] for m in "ab"]
    return [round(1000 * x) for x in (*gap, *(means["a", part] - means["b", part] for part in PARTS))]


CELLS.row(
    "correlation of both models' changes from row to row after the first, in percent: in training, on validation text",
    (30, 85),
    lambda: [round(100 * correlation(*(_changes(LOSSES[m, part]) for m in "ab"))) for part in PARTS],
    control=(85, 85),
    wrong="alike in training, too",
)
