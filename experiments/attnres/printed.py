"""Printed numbers of the paper of Attention Residuals: losses, fits and downstream results."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.training.printed import BASELINE, Reported, compared
from theory.attnres.compute import PowerLaw
from theory.attnres.paper import PAPER

ATTNRES = f"{PAPER.name} (001)"
HALF_UNIT = 0.0005  # of losses, and of the numbers of fits
LOSSES = {
    "194M": (1.931, 1.909, 1.899),
    "241M": (1.895, 1.875, 1.874),
    "296M": (1.829, 1.809, 1.804),
    "436M": (1.766, 1.746, 1.737),
    "528M": (1.719, 1.693, 1.692),
}  # Table 2: baseline, Block with 8 blocks, Full
FITS = (PowerLaw(1.891, 0.057), PowerLaw(1.870, 0.058), PowerLaw(1.865, 0.057))  # Fig. 4, in PFLOP/s-days
PLACE = "paper, ablation"
ABLATION = {
    BASELINE: 1.766,
    "denseformer": 1.767,
    "attnres": 1.737,
    "attnres-block": 1.746,
    "attnres-input-query": 1.731,
    "attnres-static": 1.749,
    "attnres-sigmoid": 1.741,
    "attnres-no-key-norm": 1.743,
    "attnres-window": 1.764,
    "attnres-heads": 1.752,
}  # at 436M; mHC, 1.747, is no plan of ours
DOWNSTREAM = {
    "MMLU": ("73.5", "74.6"),
    "GPQA-Diamond": ("36.9", "44.4"),
    "BBH": ("76.3", "78.0"),
    "TriviaQA": ("69.9", "71.8"),
    "Math": ("53.5", "57.1"),
    "HumanEval": ("59.1", "62.2"),
    "MBPP": ("72.0", "73.9"),
    "CMMLU": ("82.0", "82.9"),
    "C-Eval": ("79.6", "82.5"),
}  # baseline, Block


def printed() -> Iterator[Reported]:
    ablation = {name: loss for name, loss in ABLATION.items() if name != BASELINE}
    yield from compared(ATTNRES, PLACE, ABLATION[BASELINE], "436M", ablation)
    for size, (base, block, full) in LOSSES.items():
        if size == "436M":
            continue  # the ablation's baseline, Block and Full: the same runs
        yield from compared(ATTNRES, "paper, scaling runs", base, size, {"attnres-block": block, "attnres": full})
