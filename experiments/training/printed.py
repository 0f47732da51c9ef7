"""Printed losses of papers, as data: every comparison at one size, on the same data.

Numbers are those that stand in a text or a table, in nats per token.  Where a paper has only a curve, there is no
number, only the sign that its words give to the difference.  Variants are named as in `theory.plans.variants`, by what
the text says of them.  A paper's own stand in `printed.py` of its room.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import stdev

BASELINE = "vanilla"  # what every variant is compared with


@dataclass(frozen=True)
class Reported:
    """One comparison.  sign: -1 if the variant's loss is the lower one, 1 if it is not, 0 if the two are called alike.

    value, reference   final losses of `variant` and of `against`, where they are printed
    nats               their difference, where it is printed
    half_width         how far that may be off for chance alone (95 %): see `paired_half_width`; 0 where there is a word
                       and no number
    note               what the authors' code does instead of what the text says of the two
    """

    variant: str
    against: str
    paper: str
    place: str
    size: str
    sign: int
    value: float | None = None
    reference: float | None = None
    nats: float | None = None
    half_width: float = 0.0
    note: str = ""

    @property
    def differs(self) -> bool:
        """True if the comparison says which of the two is better."""
        return bool(self.sign) and (self.nats is None or abs(self.nats) > self.half_width)


# SkipV1Former, appendix B.2, Table 5: LLaMA-1B, baseline and SkipV1Former, under three seeds.  No other table repeats a
# training.
REPEATED = ((2.723, 2.711), (2.753, 2.743), (2.744, 2.732))


@cache
def paired_half_width() -> float:
    """Return the half-width of one paired difference, 95 %, by Student's t from the three of `REPEATED`.

    Three have two degrees of freedom.

    An assumption where it is used for other models and papers, and where seeds were not paired: single runs of Table 5
    differ by up to 0.030.
    """
    level = 0.95
    quantile = level * (2 / (1 - level**2)) ** 0.5  # elementary at two degrees of freedom; scipy would slow `list` down
    return quantile * stdev(value - reference for reference, value in REPEATED)


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


def compared(
    paper: str, place: str, reference: float, size: str, values: dict[str, float], against: str = BASELINE
) -> list[Reported]:
    """Return losses of several variants beside one reference."""
    reports = []
    for variant, value in values.items():
        nats = round(value - reference, 6)
        width = paired_half_width()
        reports.append(Reported(variant, against, paper, place, size, _sign(nats), value, reference, nats, width))
    return reports


def over_sizes(paper: str, place: str, rows: dict[str, tuple[float, float]], variant: str) -> list[Reported]:
    """Return one variant at several sizes: (baseline, variant)."""
    return [r for size, (base, value) in rows.items() for r in compared(paper, place, base, size, {variant: value})]


def signs_in_text(paper: str, place: str, size: str, signs: dict[tuple[str, str], int]) -> list[Reported]:
    """Return what a text says of a plot: the sign of (variant, against)."""
    return [Reported(variant, against, paper, place, size, sign) for (variant, against), sign in signs.items()]
