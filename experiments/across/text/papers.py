"""What the papers' printed losses make a variant worth in parameters, beside the signs of `scale-loss`."""

from __future__ import annotations

import re

from experiments.across.loss.papers import PAPERS, PaperNumber
from experiments.across.printed import reported
from experiments.training.campaign import BASELINE
from experiments.verdicts.worth import worth

_SHARED_KEYS = next(r for r in reported() if (r.variant, r.against) == ("shared-keys", BASELINE))
SIGNS = {**PAPERS, "shared-keys": PaperNumber(_SHARED_KEYS.sign, None, f"{_SHARED_KEYS.paper}, {_SHARED_KEYS.place}")}
_SIZE = re.compile(r"([\d.]+)([MB])\b")
_UNITS = {"M": 1e6, "B": 1e9}


def printed_worth(variant: str) -> dict[float, float]:
    """By vanilla's parameters, where a paper prints the losses of both at that size and vanilla's at a larger one too.

    By the line that joins vanilla's printed losses in the logarithm of the parameters.  Each is of single trainings,
    so it has no interval; the sizes are those in the models' names.
    """
    found: dict[float, float] = {}
    for rows in _series(variant).values():
        vanilla = {size: [base, base] for size, (_, base) in rows.items()}
        for size, (value, _) in rows.items() if len(rows) > 1 else ():
            at = worth(size, [value, value], vanilla, better="lower").factor
            if 0 < at < float("inf"):
                found[size] = at
    return found


def _series(variant: str) -> dict[tuple[str, str], dict[float, tuple[float, float]]]:
    """Of each place in a paper, by size: the losses of the variant and of vanilla; of models of one kind alone."""
    series: dict[tuple[str, str], dict[float, tuple[float, float]]] = {}
    for r in reported():
        if (r.variant, r.against) == (variant, BASELINE) and r.value is not None and r.reference is not None:
            number = _SIZE.search(r.size)
            kind = _SIZE.sub("", r.size.split(",")[0])
            if number:
                rows = series.setdefault((r.place, kind), {})
                rows[float(number[1]) * _UNITS[number[2]]] = (r.value, r.reference)
    return series
