"""Printed losses and accuracies of SkipV1Former's paper, and where its code does otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from experiments.training.printed import BASELINE, Reported, compared, over_sizes, signs_in_text
from theory.skipv1.paper import PAPER

SKIPV1 = f"{PAPER.name} (003)"


# Of SkipV1Former's comparisons.  Whether the printed losses come from the code as it is public is not known.
CODE = {
    "cla-v": "the authors' code never resets the values that CLA shares: every layer has layer 1's, as in SVFormer, "
    "beside value projections that nothing reads",
    "yoco-v": "the authors' code of YOCO shares the values of layer L/2 + 1, one later than the text says",
}


def note_of(*variants: str) -> str:
    """Return the remark on SkipV1Former's printed numbers of these variants; mostly empty."""
    return "; ".join(CODE[name] for name in variants if name in CODE)


def _as_the_text_has_it() -> Iterator[Reported]:
    c4 = {
        "LLaMA-60M, 1.3B tokens of C4": (3.549, 3.504),
        "LLaMA-130M, 2.6B tokens of C4": (3.229, 3.192),
        "LLaMA-350M, 7.8B tokens of C4": (2.931, 2.885),
        "LLaMA-1B, 13.1B tokens of C4": (2.723, 2.711),
        "LLaMA-3B, 15.7B tokens of C4": (2.664, 2.652),
    }
    yield from over_sizes(SKIPV1, "section 6.2, Fig. 5a", c4, "skipv1")
    kinds = {
        "LLaMA-350M, grouped queries, OpenWebText2": (2.912, 2.893),
        "LLaMA-350M, a latent, OpenWebText2": (2.896, 2.888),
    }
    yield from over_sizes(SKIPV1, "section 6.4, Table 2", kinds, "skipv1")
    tiny = {"1.1B": (2.750, 2.742), "315M": (2.936, 2.916), "125M": (3.420, 3.370)}
    tiny = {f"TinyLLaMA-{size}, groups of four": pair for size, pair in tiny.items()}
    yield from over_sizes(SKIPV1, "appendix B.2, Table 6", tiny, "skipv1")
    quarter, three = "skipv1:ratio=0.25", "skipv1:ratio=0.75"
    yield from compared(
        SKIPV1, "appendix B.2, Table 7", 2.723, "LLaMA-1B, 13.1B tokens of C4", {quarter: 2.716, three: 2.717}
    )
    yield from compared(
        SKIPV1, "appendix B.2, Table 7", 2.711, "LLaMA-1B, 13.1B tokens of C4", {quarter: 2.716, three: 2.717}, "skipv1"
    )
    injected = {"skipv1-pooling": 2.881, "skipv1-dynamic": 2.885, "skipv1-odd-even": 2.883, "skipv1-resformer": 2.889}
    place, size = "appendix C.4, Table 13", "LLaMA-350M, 7.8B tokens of C4"
    yield from compared(SKIPV1, f"{place}, and Fig. 5a", 2.931, size, injected)
    yield from compared(SKIPV1, place, 2.885, size, injected, "skipv1")
    better, worse = -1, 1
    yield from signs_in_text(
        SKIPV1,
        "section 6.1, Fig. 4: the lowest loss overall, as low as ResFormer's",
        "GPT2-125M to 550M, 5B tokens of OpenWebText2",
        {
            ("skipv1", BASELINE): better,
            ("resformer", BASELINE): better,
            ("skipv1", "resformer"): 0,
            ("skipv1", "denseformer"): better,
            ("skipv1", "yoco-v"): better,
            ("skipv1", "cla-v"): better,
        },
    )
    yield from signs_in_text(
        SKIPV1,
        "section 6.5, Fig. 9a",
        "GPT2-355M, 5B tokens of OpenWebText2",
        {(quarter, "skipv1"): worse, (three, "skipv1"): worse},
    )
    yield from signs_in_text(
        SKIPV1,
        "section 6.5, Fig. 9b: layer 2's values gain a little, none at all degrade severely",
        "GPT2, OpenWebText2",
        {("skipv2", BASELINE): better, ("skipv0", BASELINE): worse, ("skipv1", "skipv2"): better},
    )
    yield from signs_in_text(
        SKIPV1, "appendix B.2: clear performance degradation, citing ResFormer", "", {("svformer", BASELINE): worse}
    )
    yield from signs_in_text(
        SKIPV1,
        "appendix C.5, Fig. 15",
        "GPT2-125M to 355M, 5B tokens of OpenWebText2",
        {
            ("skipkv1", BASELINE): worse,
            ("skipv1-yoco", BASELINE): better,
            ("skipv1", "skipkv1"): better,
            ("skipv1", "skipv1-yoco"): better,
        },
    )


def printed() -> Iterator[Reported]:
    """Yield the printed comparisons, with a note where the code is known to differ from the words."""
    for r in _as_the_text_has_it():
        yield replace(r, note=note_of(r.variant, r.against)) if r.nats is None else r


# SkipV1Former, appendix C.3, Tables 8 to 11: zero-shot accuracy in per cent, mean over seven tasks, of GPT2-125M, 200M,
# 355M and 550M.  The only numbers that are printed of YOCO-V and CLA-V; of both see `CODE`.
ACCURACIES: dict[str, tuple[float, ...]] = {
    BASELINE: (39.9, 40.5, 41.8, 42.7),
    "skipv1": (40.1, 40.8, 42.3, 42.8),
    "resformer": (40.1, 41.1, 41.5, 43.2),
    "denseformer": (39.8, 40.3, 41.8, 42.1),
    "yoco-v": (39.5, 40.6, 40.9, 41.9),
    "cla-v": (39.5, 39.8, 41.0, 41.8),
}
