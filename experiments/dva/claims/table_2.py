"""Claims on what the cells of Table 2 say of each other."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import correlation, fmean

from experiments.dva.tables import TABLE_2, curve
from experiments.ledger.claim import Claim
from theory.dva.paper import PAPER

VOCAB = 50_257  # Table 1

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


@CELLS.check(
    "by how much the first row is below the loss of a model that knows nothing, in thousandths",
    states=(941, 960, 204, 84),
    control=(0, 0, 0, 0),
    wrong="not at all, as of untrained models",
    kind="exact",
)
def below_untrained(thousandths: tuple[int, ...]) -> bool:
    return tuple(round(1000 * (math.log(VOCAB) - loss)) for loss in TABLE_2[0]) == thousandths


@CELLS.check(
    "after the first row, in thousandths on average: validation less training, of models a and b, and model a less "
    "model b, in training and on validation text",
    states=(317, 537, 262, 42),
    control=(317, 317, 262, 262),
    wrong="as far apart on validation text as in training",
    kind="exact",
)
def gaps(thousandths: tuple[int, ...]) -> bool:
    columns = {(m, part): fmean(curve(m, part)[1:]) for m in "ab" for part in ("training", "validation")}
    gap = [columns[m, "validation"] - columns[m, "training"] for m in "ab"]
    ahead = [columns["a", part] - columns["b", part] for part in ("training", "validation")]
    if abs((gap[1] - gap[0]) - (ahead[0] - ahead[1])) > 1e-12:
        return False
    return tuple(round(1000 * x) for x in (*gap, *ahead)) == thousandths


@CELLS.check(
    "correlation of both models' changes from row to row after the first, in percent: in training, on validation text",
    states=(30, 85),
    control=(85, 85),
    wrong="alike in training, too",
    kind="exact",
)
def changes_alike(percent: tuple[int, int]) -> bool:
    def changes(m: str, part: str) -> list[float]:
        return [after - before for before, after in pairwise(curve(m, part)[1:])]

    found = (correlation(changes("a", part), changes("b", part)) for part in ("training", "validation"))
    return tuple(round(100 * x) for x in found) == percent
