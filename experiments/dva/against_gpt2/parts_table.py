"""Which part of the difference comes from what, as a table in Markdown."""

from __future__ import annotations

from experiments.dva.against_gpt2.factors import FACTORS, MODEL_B
from experiments.dva.against_gpt2.verdicts import differences, what_adds
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.verdicts.intervals import Interval

HEADS = ("model b's loss less model a's, nats a token", "mean of all orders", "first, from model a", "last, to model b")


def table(measurement: Json) -> str:
    """A row a factor, and their sum; intervals of the rows hold for all numbers of the rows at once, at 95 %."""
    rows = [
        [FACTORS[factor], _said(part.mean), _said(part.earliest), _said(part.latest)]
        for factor, part in what_adds(measurement).items()
    ]
    together = differences(measurement)[MODEL_B, BASELINE]
    lines = [HEADS, ("---", *["---:"] * (len(HEADS) - 1)), *rows, ["together", _said(together), "", ""]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _said(interval: Interval) -> str:
    return f"{interval.mean:+.3f} ± {interval.half_width:.3f}"
