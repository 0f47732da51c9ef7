"""What the papers print of their variants' losses: every comparison at one size, on the same data, as data.

Numbers are those that stand in a text or a table, in nats a token.  Where a paper has only a curve, there is no number
here, only the sign that its words give to the difference.  Variants are named as in `theory.plans.variants`,
by what the text says of them; `CODE` says where the authors' code is known to do something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from statistics import stdev

RESFORMER, SKIPV1, ATTNRES = "ResFormer (002)", "SkipV1Former (003)", "Attention Residuals (001)"
NANOGPT = "modded-nanogpt"
BASELINE = "vanilla"


@dataclass(frozen=True)
class Reported:
    """One comparison.  sign: -1 if the variant's loss is the lower one, 1 if it is not, 0 if the two are called alike.

    value, reference   final losses of `variant` and of `against`, where they are printed
    nats               their difference, where it is printed
    half_width         how far that may be off for chance alone (95 %): see `paired_half_width`; 0 where there is a word
                       and no number
    note               what the authors' code does instead of what the text says of the two: see `CODE`
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
        """Whether the comparison says which of the two is better."""
        return bool(self.sign) and (self.nats is None or abs(self.nats) > self.half_width)


# Of SkipV1Former's comparisons.  Whether the printed losses come from the code as it is public is not known.
CODE = {
    "cla-v": "the authors' code never resets the values that CLA shares: every layer has layer 1's, as in SVFormer, "
    "beside value projections that nothing reads",
    "yoco-v": "the authors' code of YOCO shares the values of layer L/2 + 1, one later than the text says",
}

# SkipV1Former, appendix B.2, Table 5: LLaMA-1B, baseline and SkipV1Former, under three seeds.  No other table repeats a
# training.
REPEATED = ((2.723, 2.711), (2.753, 2.743), (2.744, 2.732))
NANOGPT_SEEDS = 0.004  # the larger of the standard deviations over seeds that are told of modded-nanogpt


@cache
def paired_half_width() -> float:
    """Of one paired difference, 95 %, from the three of `REPEATED`: Student's t at two degrees of freedom.

    An assumption where it is used for other models and papers, and where seeds were not paired: single runs of Table 5
    differ by up to 0.030.
    """
    level = 0.95
    quantile = level * (2 / (1 - level**2)) ** 0.5  # elementary at two degrees of freedom; scipy would slow `list` down
    return quantile * stdev(value - reference for reference, value in REPEATED)


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


def _printed(
    paper: str, place: str, reference: float, size: str, values: dict[str, float], against: str = BASELINE
) -> list[Reported]:
    """Losses of several variants beside one reference."""
    made = []
    for variant, value in values.items():
        nats = round(value - reference, 6)
        width = paired_half_width()
        made.append(Reported(variant, against, paper, place, size, _sign(nats), value, reference, nats, width))
    return made


def _over_sizes(
    paper: str, place: str, rows: dict[str, tuple[float, float]], variant: str = "skipv1"
) -> list[Reported]:
    """One variant at several sizes: (baseline, variant)."""
    return [r for size, (base, value) in rows.items() for r in _printed(paper, place, base, size, {variant: value})]


def _said(paper: str, place: str, size: str, signs: dict[tuple[str, str], int]) -> list[Reported]:
    """What a text says of a plot: the sign of (variant, against)."""
    made = [Reported(variant, against, paper, place, size, sign) for (variant, against), sign in signs.items()]
    return [replace(r, note=note_of(r.variant, r.against)) for r in made] if paper == SKIPV1 else made


def note_of(*variants: str) -> str:
    """What has to be said of SkipV1Former's figures of these variants; mostly nothing."""
    return "; ".join(CODE[name] for name in variants if name in CODE)


def _resformer() -> Iterable[Reported]:
    at_82m, ablations = "82M, 20B tokens of SlimPajama", "20B tokens of SlimPajama"
    rows = {"82M": (2.7389, 2.7117), "180M": (2.5015, 2.4692), "468M": (2.2806, 2.2537)}
    rows = {f"{size}, 20B tokens of SlimPajama": pair for size, pair in rows.items()}
    yield from _over_sizes(RESFORMER, "appendix A.6, Table 5, average", rows, "resformer")
    better, worse = -1, 1
    yield from _said(
        RESFORMER,
        "section 4.2, Fig. 1 (left)",
        at_82m,
        {
            ("resformer", "neutreno"): better,
            ("resformer", "denseformer"): better,
            ("resformer-neutreno", "resformer"): better,
        },
    )
    yield from _said(
        RESFORMER,
        "section 4.2, Fig. 6: better than vanilla whatever lambda, best at 2",
        ablations,
        {("resformer-constant", BASELINE): better, ("resformer-constant", "resformer-constant:weight=1"): better},
    )
    yield from _said(
        RESFORMER,
        "section 4.3, Fig. 7: of values only, the residual has a positive effect",
        ablations,
        {("residual-queries", BASELINE): worse, ("residual-keys", BASELINE): worse},
    )
    yield from _said(
        RESFORMER,
        "section 4.3, Fig. 8: identity mapping is poor, the current attention's final loss below the gold one's",
        ablations,
        {("identity-mapping", "resformer"): worse, ("cross-layer", "resformer"): worse},
    )
    yield from _said(
        RESFORMER,
        "section 4.3, Fig. 9: the first layer's values, not the nearest's or all",
        ablations,
        {("resformer-previous", "resformer"): worse, ("resformer-all", "resformer"): worse},
    )
    yield from _said(
        RESFORMER,
        "section 3.5, Fig. 4: sharing values has less negative impact than sharing keys",
        ablations,
        {("cla-v", BASELINE): worse, ("cla-k", BASELINE): worse, ("cla-v", "cla-k"): better},
    )
    yield from _said(
        RESFORMER,
        "section 4.6, Fig. 14: surpassed by vanilla in the end, at length 2,048",
        ablations,
        {("svformer", BASELINE): worse},
    )
    yield from _said(
        RESFORMER, "section 4.6, Fig. 13 (left), at length 64,000", ablations, {("svformer", "cla"): better}
    )
    yield from _said(
        RESFORMER,
        "section 4.8, Fig. 16: significantly impacts performance, as in Fig. 4",
        ablations,
        {("shared-queries", BASELINE): worse, ("shared-keys", BASELINE): worse},
    )


def _skipv1() -> Iterable[Reported]:
    c4 = {
        "LLaMA-60M, 1.3B tokens of C4": (3.549, 3.504),
        "LLaMA-130M, 2.6B tokens of C4": (3.229, 3.192),
        "LLaMA-350M, 7.8B tokens of C4": (2.931, 2.885),
        "LLaMA-1B, 13.1B tokens of C4": (2.723, 2.711),
        "LLaMA-3B, 15.7B tokens of C4": (2.664, 2.652),
    }
    yield from _over_sizes(SKIPV1, "section 6.2, Fig. 5a", c4)
    kinds = {
        "LLaMA-350M, grouped queries, OpenWebText2": (2.912, 2.893),
        "LLaMA-350M, a latent, OpenWebText2": (2.896, 2.888),
    }
    yield from _over_sizes(SKIPV1, "section 6.4, Table 2", kinds)
    tiny = {"1.1B": (2.750, 2.742), "315M": (2.936, 2.916), "125M": (3.420, 3.370)}
    yield from _over_sizes(
        SKIPV1, "appendix B.2, Table 6", {f"TinyLLaMA-{size}, groups of four": pair for size, pair in tiny.items()}
    )
    quarter, three = "skipv1:ratio=0.25", "skipv1:ratio=0.75"
    yield from _printed(
        SKIPV1, "appendix B.2, Table 7", 2.723, "LLaMA-1B, 13.1B tokens of C4", {quarter: 2.716, three: 2.717}
    )
    yield from _printed(
        SKIPV1, "appendix B.2, Table 7", 2.711, "LLaMA-1B, 13.1B tokens of C4", {quarter: 2.716, three: 2.717}, "skipv1"
    )
    injected = {"skipv1-pooling": 2.881, "skipv1-dynamic": 2.885, "skipv1-odd-even": 2.883, "skipv1-resformer": 2.889}
    place, size = "appendix C.4, Table 13", "LLaMA-350M, 7.8B tokens of C4"
    yield from _printed(SKIPV1, f"{place}, and Fig. 5a", 2.931, size, injected)
    yield from _printed(SKIPV1, place, 2.885, size, injected, "skipv1")
    better, worse = -1, 1
    yield from _said(
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
    yield from _said(
        SKIPV1,
        "section 6.5, Fig. 9a",
        "GPT2-355M, 5B tokens of OpenWebText2",
        {(quarter, "skipv1"): worse, (three, "skipv1"): worse},
    )
    yield from _said(
        SKIPV1,
        "section 6.5, Fig. 9b: layer 2's values gain a little, none at all degrade severely",
        "GPT2, OpenWebText2",
        {("skipv2", BASELINE): better, ("skipv0", BASELINE): worse, ("skipv1", "skipv2"): better},
    )
    yield from _said(
        SKIPV1, "appendix B.2: clear performance degradation, citing ResFormer", "", {("svformer", BASELINE): worse}
    )
    yield from _said(
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


def _attnres() -> Iterable[Reported]:
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
    yield from _printed(ATTNRES, "paper, ablation", 1.766, "436M", ablation)
    scaling = {
        "194M": (1.931, 1.909, 1.899),
        "241M": (1.895, 1.875, 1.874),
        "296M": (1.829, 1.809, 1.804),
        "528M": (1.719, 1.693, 1.692),
    }
    for size, (base, block, full) in scaling.items():
        yield from _printed(ATTNRES, "paper, scaling runs", base, size, {"attnres-block": block, "attnres": full})


def _nanogpt() -> Iterable[Reported]:
    """Differences alone, one run each; the noise of a difference of two runs that are not paired."""
    width = 1.96 * 2**0.5 * NANOGPT_SEEDS
    gains = {"66M": -0.07, "131M": -0.07, "262M": -0.04, "524M": -0.03, "1.7B": -0.012}
    for tokens, nats in gains.items():
        yield Reported(
            "resformer", BASELINE, NANOGPT, "ablation", f"124M, {tokens} tokens", -1, None, None, nats, width
        )
    yield Reported(
        "resformer-learned", BASELINE, NANOGPT, "ablation", "124M, 1.7B tokens", -1, None, None, -0.021, width
    )


@cache
def reported() -> tuple[Reported, ...]:
    """All of them."""
    return (*_resformer(), *_skipv1(), *_attnres(), *_nanogpt())


def report(variant: str, place: str, size: str) -> Reported:
    """The one comparison with vanilla whose place and size begin so.  Raises ValueError if there is not just one."""
    (found,) = (
        r
        for r in reported()
        if (r.variant, r.against) == (variant, BASELINE) and r.place.startswith(place) and r.size.startswith(size)
    )
    return found


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
