"""What the paper of Attention Residuals prints of losses."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.training.printed import Reported, compared
from theory.attnres.paper import PAPER

ATTNRES = f"{PAPER.name} (001)"


def printed() -> Iterator[Reported]:
    ablation = {
        "denseformer": 1.767,
        "attnres": 1.737,
        "attnres-block": 1.746,
        "attnres-input-query": 1.731,
        "attnres-static": 1.749,
        "attnres-sigmoid": 1.741,
        "attnres-no-key-norm": 1.743,
        "attnres-window": 1.764,
        "attnres-heads": 1.752,
    }
    yield from compared(ATTNRES, "paper, ablation", 1.766, "436M", ablation)
    scaling = {
        "194M": (1.931, 1.909, 1.899),
        "241M": (1.895, 1.875, 1.874),
        "296M": (1.829, 1.809, 1.804),
        "528M": (1.719, 1.693, 1.692),
    }
    for size, (base, block, full) in scaling.items():
        yield from compared(ATTNRES, "paper, scaling runs", base, size, {"attnres-block": block, "attnres": full})
