"""Claims on sections 3 and 6 and appendices B and C: what the paper prints of parameters, caches, losses and tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from statistics import fmean, stdev

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_CACHES, OF_PARAMETERS, OF_VALUES_IN_A_TABLE
from experiments.training.printed import BASELINE, REPEATED
from experiments.verdicts.intervals import quantile, t_interval
from theory.plans.accounting import cache, norm_parameters, parameters
from theory.plans.names import model, resolve
from theory.plans.plan import Shape
from theory.plans.presets import llama
from theory.skipv1.paper import PAPER

TABLE_4 = {"llama-60m": (512, 1376, 8), "llama-130m": (768, 2048, 12), "llama-350m": (1024, 2736, 24)}
ATTENTION = ("queries", "keys", "values", "latent", "output")

TABLE_2_PARAMETERS = Claim(
    "skipv1.table-2-parameters",
    PAPER.name,
    place="appendix B.2, GQA baseline and MLA baseline; section 6.4, Table 2, Params",
    statement="Attention has 3.7M parameters a layer with grouped queries and 3.9M with a latent, in 24 layers 101M "
    "and 93M; with the feed-forward's 201M, embeddings and norms it is 334.7M and 337.4M.  SkipV1Former saves 6.0M "
    "and 3.0M.",
    assumes="24 layers of width 1,024, 16 heads, two query heads a key/value head; a latent of 256 and a rotary key of "
    "32; embeddings and norms of one size in both models",
    verdict="corrected",
    correction="The matrices that are listed for grouped queries have 3.146M parameters a layer, 75.5M in 24 layers: "
    "101M are those of ungrouped heads, as is the cache of the same row (skipv1.table-2-cache).  Those listed for the "
    "latent have 3.670M, 88.1M in all; with keys from the latent, as the appendix defines them, they are 3.441M.  What "
    "is printed leaves 32.7M for embeddings and norms of one model and 43.4M of the other.  The savings are right, "
    "6.03M and 3.01M, but Table 2's totals with grouped queries differ by 5.8M.",
    proof=parameters,
    unjudged={**OF_PARAMETERS, norm_parameters: "norms are in what is left over"},
)


def _by_hand(width: int, inner: int, layers: int, kind: str) -> tuple[int, int]:
    """Return attention and feed-forward of all layers: heads of 64, a latent of width / 4, rotary parts of 32."""
    latent = 13 * width**2 // 4 + 129 * width // 4  # of width^2: queries 1 1/2, latent 1/4, from it 1/2, output 1
    attention = {"gqa": 3 * width**2, "mla": latent, BASELINE: 4 * width**2}[kind]
    return layers * attention, layers * 3 * width * inner


@TABLE_2_PARAMETERS.number(
    "attention and feed-forward of LLaMA-60M, 130M and 350M, by the accounting: grouped queries, a latent",
    {(name, kind): _by_hand(*sizes, kind) for name, sizes in TABLE_4.items() for kind in ("gqa", "mla")},
    control={(name, kind): _by_hand(*sizes, BASELINE) for name, sizes in TABLE_4.items() for kind in ("gqa", "mla")},
    wrong="ungrouped heads, which make the printed 101M",
)
def parts() -> dict[tuple[str, str], tuple[int, int]]:
    return {
        (name, kind): (_attention(name, kind), parameters(*model(name, kind))["feed_forward"])
        for name, kind in product(TABLE_4, ("gqa", "mla"))
    }


def _attention(preset: str, variant: str) -> int:
    """Return the attention parameters of all layers."""
    counts = parameters(*model(preset, variant))
    return sum(counts[part] for part in ATTENTION)


TABLE_2_PARAMETERS.row(
    "attention by hand, in thousands a layer and hundred thousands in 24 layers: grouped queries, a latent of which "
    "values alone are made, and keys too",
    [(3146, 755), (3670, 881), (3441, 826)],
    lambda: [
        (round(layer / 1000), round(24 * layer / 1e5))
        for layer in (3 * 1024**2, 3 * 1024**2 + 2 * 1024 * 256, _by_hand(1024, 2736, 1, "mla")[0])
    ],
    control=[(3700, 1010), (3900, 930), (3900, 930)],
    wrong="as printed",
)

TABLE_2_PARAMETERS.row(
    "what printed totals less printed parts leave for embeddings and norms, in hundred thousands",
    (327, 434),
    lambda: [3347 - 1010 - 2010, 3374 - 930 - 2010],
    control=(327, 327),
    wrong="the same in both models",
)


@TABLE_2_PARAMETERS.number(
    "all else in the accounting of LLaMA-350M, grouped queries and a latent: two embeddings of 32,000 tokens, 49 norms",
    {"gqa": 2 * 32_000 * 1024 + 49 * 1024, "mla": 2 * 32_000 * 1024 + 49 * 1024},
    control={"gqa": 2 * 32_000 * 1024 + 48 * 1024, "mla": 2 * 32_000 * 1024 + 48 * 1024},
    wrong="no norm at the end",
)
def all_else() -> dict[str, int]:
    counts = {kind: parameters(*model("llama-350m", kind)) for kind in ("gqa", "mla")}
    return {
        kind: sum(number for part, number in of.items() if part not in (*ATTENTION, "feed_forward"))
        for kind, of in counts.items()
    }


@TABLE_2_PARAMETERS.number(
    "what SkipV1Former saves with grouped queries and with a latent, by the accounting",
    {"gqa": 23 * 1024 * 256, "mla": 23 * 1024 * 128},
    control={"gqa": 5_800_000, "mla": 23 * 1024 * 128},
    wrong="as the totals of Table 2 differ",
)
def saved_parameters() -> dict[str, int]:
    return {k: _attention("llama-350m", k) - _attention("llama-350m", f"skipv1+{k}") for k in ("gqa", "mla")}


VALUE_SHARING = Claim(
    "skipv1.value-sharing-caches",
    PAPER.name,
    place="appendix B.1, on V-only YOCO and V-only CLA",
    statement="V-only YOCO, whose last L/2 layers reuse layer L/2's values, and V-only CLA, which shares them between "
    "two adjacent layers, save 25 % of the cache: the same regime as SkipV1Former.",
    assumes="an even number L of layers, as in all four GPT-2 models",
    verdict="verified",
    correction="Both save exactly a quarter, half of the values.  SkipV1Former saves (L - 1) / (4 L): 22.9 % of 12 "
    "layers and 24.1 % of 28.  If values were shared from layer L/2 + 1 on, YOCO would save 5/12 of the values of 12 "
    "layers, not 1/2.",
    proof=cache,
    unjudged=OF_CACHES,
)


@VALUE_SHARING.number(
    "values that a token keeps, and keys and values together, with 2, 12, 24 and 28 layers of width 8, by the "
    "accounting: V-only YOCO, V-only CLA, SkipV1Former",
    lambda layers, variant: _kept(layers, layers - (variant == "skipv1")),
    control=lambda layers, variant: _kept(layers, layers),
    wrong="SkipV1Former saves a quarter too",
    others={"YOCO shares layer L/2 + 1's": lambda layers, variant: _kept(layers, layers - 2 * (variant == "yoco-v"))},
    kind="exact",
)
def kept_by_sharing() -> dict[tuple[int, str], tuple[int, int]]:
    numbers = {}
    for layers, name in product((2, 12, 24, 28), ("yoco-v", "cla-v", "skipv1")):
        config = llama(d_model=8, n_heads=2, n_layers=layers, d_ff=8, vocab=8, context=4)
        kept = cache(config, resolve(name, config.shape))
        numbers[layers, name] = (sum(kept.values), kept.total)
    return numbers


def _kept(layers: int, halves: int) -> tuple[int, int]:
    """Return what is kept of width 8 if so many layers' halves of values are saved: values, and keys and values."""
    return 8 * layers - 4 * halves, 16 * layers - 4 * halves


VALUE_SHARING.row(
    "layers whose values are kept, by hand: YOCO and CLA with 12, 24 and 28 layers",
    {12: (6, 6), 24: (12, 12), 28: (14, 14)},
    lambda: {
        depth: (
            len({min(n, depth // 2) for n in range(1, depth + 1)}),
            len({(n + 1) // 2 for n in range(1, depth + 1)}),
        )
        for depth in (12, 24, 28)
    },
    control={12: (7, 6), 24: (13, 12), 28: (15, 14)},
    wrong="YOCO keeps those of layer L/2 + 1 too",
)


HEADS = Claim(
    "skipv1.listed-heads",
    PAPER.name,
    place="section 3.2, the selection of heads; appendix C.6, ViT-Tiny's heads",
    statement="Later layers keep heads 0 to H' and take heads H' + 1 to H from layer 1, with H' = H/2: half of the "
    "heads, and H in all.",
    assumes="ranges include both ends",
    verdict="corrected",
    correction="Heads 0 to H' are H' + 1, so that a layer would have H + 1 heads.  The formula above it is right: it "
    "keeps heads 1 to H'.  ViT-Tiny has three heads, of which no number is half; by our reading, which rounds what "
    "is skipped down, a third of the value heads are layer 1's.",
    unjudged=OF_VALUES_IN_A_TABLE,
)

HEADS.row(
    "heads of a later layer by the listed ranges, by the number of heads of the paper's models",
    lambda heads: heads + 1,
    lambda: {h: len(range(h // 2 + 1)) + len(range(h // 2 + 1, h + 1)) for h in (8, 12, 16, 20, 32)},
    control=lambda heads: heads,
    wrong="H",
)


@HEADS.number(
    "own heads and heads of layer 1 in each later layer of the plan, by the number of heads",
    {heads: {(heads // 2, heads // 2)} for heads in (2, 8, 12, 16, 20, 32)} | {3: {(2, 1)}},
    control={heads: {(heads // 2 + 1, heads // 2)} for heads in (2, 8, 12, 16, 20, 32)},
    wrong="H/2 + 1 own heads, as listed",
    others={"half of three heads, rounded up": {3: {(1, 2)}}},
)
def heads_of_the_plan() -> dict[int, set[tuple[int, int]]]:
    counts = {}
    for heads in (2, 3, 8, 12, 16, 20, 32):
        table = resolve("skipv1", Shape(4, heads)).table
        sources = [[mix.terms[0].source.layer for head in row for mix in head.values] for row in table]
        counts[heads] = {(layers.count(n), layers.count(1)) for n, layers in enumerate(sources[1:], start=2)}
    return counts


SEEDS = Claim(
    "skipv1.table-5-seeds",
    PAPER.name,
    place="appendix B.2, Table 5 and the text above it",
    statement="With three seeds LLaMA-1B ends at 2.740 +- 0.015 and SkipV1Former at 2.729 +- 0.016, a similar margin "
    "under both seeds.",
    assumes="the printed losses; the same seed is a pair",
    verdict="verified",
    correction="The seeds are three, not two, and the deviations are those of samples.  They are larger than the "
    "margin, and judged without pairs the margin would be no more than chance; seed by seed it is 0.011 +- 0.003 "
    "(95 %), and within 0.005 and 0.018 whatever was rounded.",
)

SEEDS.row(
    "means and standard deviations of three, in thousandths",
    ((2740, 15), (2729, 16)),
    lambda: [(round(1000 * fmean(row)), round(1000 * stdev(row))) for row in zip(*REPEATED, strict=True)],
    control=((2740, 13), (2729, 13)),
    wrong="deviations with three in place of two degrees of freedom",
)


@SEEDS.number(
    "ends of the 95 % interval of the baseline's loss less SkipV1Former's in ten thousandths: in pairs, over all "
    "roundings of the losses, without pairs",
    ((85, 142), (59, 174), (-246, 472)),
    control=((-246, 472), (-246, 472), (-246, 472)),
    wrong="as without pairs",
)
def margins() -> list[tuple[int, ...]]:
    paired = [baseline - skip for baseline, skip in REPEATED]
    rounded = [
        t_interval([x + y for x, y in zip(paired, by, strict=True)]) for by in product((-0.001, 0.001), repeat=3)
    ]
    without_pairs = quantile(0.975, 4) * math.hypot(*map(stdev, zip(*REPEATED, strict=True))) / math.sqrt(3)
    exact = t_interval(paired)
    ends = (
        (exact.mean - exact.half_width, exact.mean + exact.half_width),
        (min(t.mean - t.half_width for t in rounded), max(t.mean + t.half_width for t in rounded)),
        (exact.mean - without_pairs, exact.mean + without_pairs),
    )
    return [tuple(round(10_000 * end) for end in pair) for pair in ends]


PERPLEXITY = dict(  # by loss: Fig. 5a, then Table 2
    zip(
        (3.549, 3.504, 3.229, 3.192, 2.931, 2.885, 2.723, 2.711, 2.664, 2.652, 2.912, 2.893, 2.896, 2.888),
        (34.78, 33.25, 25.25, 24.34, 18.75, 17.90, 15.23, 15.04, 14.35, 14.18, 18.39, 18.04, 18.10, 17.95),
        strict=True,
    )
)

PERPLEXITIES = Claim(
    "skipv1.perplexities",
    PAPER.name,
    place="section 6.2, Fig. 5a; section 6.4, Table 2, PPL",
    statement="The perplexities printed beside 14 validation losses belong to them.",
    assumes="the perplexity is the exponential of the loss in nats",
    verdict="verified",
    correction="Twelve are the exponentials of the printed losses to the last digit.  SkipV1Former's in Table 2 would "
    "be 18.05 and 17.96, and are printed as 18.04 and 17.95, which the rounding of the losses allows.",
)

PERPLEXITIES.row(
    "losses whose exponential is not what is printed beside them, and their exponentials",
    [(2.893, 18.05), (2.888, 17.96)],
    lambda: [(loss, round(math.exp(loss), 2)) for loss, ppl in PERPLEXITY.items() if round(math.exp(loss), 2) != ppl],
    control=[],
    wrong="none",
)


@PERPLEXITIES.check(
    "every printed perplexity is that of a loss that rounds to the printed one",
    states=PERPLEXITY,
    control={2.893: 18.03},
    wrong="18.03 beside 2.893",
)
def within_rounding(printed: Mapping[float, float]) -> bool:
    half = 0.0005
    return all(
        math.exp(loss - half) <= ppl + 0.005 and ppl - 0.005 <= math.exp(loss + half) for loss, ppl in printed.items()
    )


# Of GPT-2, Tables 8 to 11: HellaSwag, ARC-C, ARC-E, PIQA, Winogrande, OBQA, SciQ and the average.
# Of LLaMA, Tables 12 and 1: ARC-C, ARC-E, BoolQ, HellaSwag, OBQA, PIQA, RTE, SciQ, Winogrande and the average.
ACCURACIES = """
GPT2-125M vanilla 27.2 17.5 40.9 60.1 51.0 14.6 67.7 39.9
GPT2-125M skipv1 27.3 18.0 40.9 60.1 51.5 15.0 67.6 40.1
GPT2-125M resformer 27.3 18.2 42.9 60.2 50.5 14.2 67.2 40.1
GPT2-125M denseformer 27.3 18.6 40.7 59.7 51.1 15.8 65.3 39.8
GPT2-125M yoco-v 27.2 17.6 39.4 59.6 52.0 14.4 66.2 39.5
GPT2-125M cla-v 27.2 19.1 39.9 59.4 49.3 14.4 67.0 39.5
GPT2-200M vanilla 27.6 18.9 42.1 61.4 50.4 13.8 69.2 40.5
GPT2-200M skipv1 28.0 17.7 43.7 60.1 49.0 14.8 72.2 40.8
GPT2-200M resformer 27.9 18.6 42.0 61.8 51.2 16.4 69.6 41.1
GPT2-200M denseformer 27.6 18.5 41.2 60.6 51.3 16.2 66.8 40.3
GPT2-200M yoco-v 27.6 18.3 41.4 60.3 51.5 16.0 69.3 40.6
GPT2-200M cla-v 27.5 17.7 40.7 60.2 50.7 15.2 66.9 39.8
GPT2-355M vanilla 28.6 21.0 42.2 61.5 51.3 16.6 71.6 41.8
GPT2-355M skipv1 29.1 18.9 43.6 62.6 52.5 15.8 73.5 42.3
GPT2-355M resformer 28.8 19.8 42.5 62.2 50.9 14.8 71.8 41.5
GPT2-355M denseformer 28.7 19.7 44.4 61.3 51.5 16.4 70.7 41.8
GPT2-355M yoco-v 28.5 18.8 42.4 61.4 51.0 15.4 68.6 40.9
GPT2-355M cla-v 28.5 19.4 41.7 61.3 51.0 15.8 69.3 41.0
GPT2-550M vanilla 29.5 19.9 46.9 62.8 51.1 16.6 72.4 42.7
GPT2-550M skipv1 29.6 18.5 46.1 62.7 51.4 17.6 73.9 42.8
GPT2-550M resformer 30.1 19.3 47.1 63.7 52.2 17.0 73.4 43.2
GPT2-550M denseformer 29.4 20.6 44.2 62.2 49.8 15.8 72.7 42.1
GPT2-550M yoco-v 29.2 19.7 45.0 62.2 50.5 15.0 71.5 41.9
GPT2-550M cla-v 28.8 19.0 43.2 62.1 51.5 15.8 72.1 41.8
LLaMA-60M vanilla 17.8 33.0 45.3 26.2 13.6 59.3 59.2 58.8 50.9 40.5
LLaMA-60M skipv1 16.7 33.0 60.1 26.6 12.8 58.9 52.3 64.3 51.0 41.7
LLaMA-130M vanilla 19.4 37.1 50.3 27.2 16.0 60.9 49.8 65.6 52.0 42.0
LLaMA-130M skipv1 17.8 39.3 61.3 27.7 14.8 61.9 53.8 68.5 49.8 43.9
LLaMA-350M vanilla 19.7 45.1 59.4 30.1 16.6 64.3 50.9 71.8 51.4 45.5
LLaMA-350M skipv1 20.8 44.9 53.0 30.9 18.0 66.3 52.7 74.5 51.5 45.8
LLaMA-1B vanilla 19.3 44.5 60.2 31.0 17.2 66.3 53.4 71.6 52.0 46.2
LLaMA-1B skipv1 19.3 44.1 59.6 31.2 17.4 66.9 52.3 73.8 50.9 46.2
LLaMA-3B vanilla 21.0 49.5 55.5 34.5 18.6 68.4 53.1 77.5 49.3 47.5
LLaMA-3B skipv1 21.0 49.4 60.3 35.1 17.6 69.3 53.8 79.1 49.5 48.3
"""
BOOLQ = 2
SIZES = ("60M", "130M", "350M", "1B", "3B")


def tenths() -> dict[tuple[str, str], tuple[list[int], int]]:
    """Return the accuracies of each task and the printed average, in tenths of a point, by model and variant."""
    table = {}
    for line in ACCURACIES.strip().splitlines():
        size, variant, *cells = line.split()
        *tasks, average = (round(10 * float(cell)) for cell in cells)
        table[size, variant] = (tasks, average)
    return table


AVERAGES = Claim(
    "skipv1.downstream-averages",
    PAPER.name,
    place="section 6.2, Table 1; appendix C.3, Tables 8 to 12: the averages",
    statement="34 rows of zero-shot accuracies have the averages printed beside them; at 3B they are 47.5 and 48.3.",
    assumes="plain means over tasks; all numbers are printed to a tenth of a point",
    verdict="verified",
    correction="33 are the means of the printed cells to the last digit, those at 3B among them (47.489 and 48.344).  "
    "The cells of ResFormer in Table 11 have the mean 43.257; 43.2 is printed, which the rounding of the cells allows.",
)

AVERAGES.row(
    "rows of which the mean of the cells does not round to the printed average: it in thousandths, and that in tenths",
    [("GPT2-550M", "resformer", 43_257, 432)],
    lambda: [
        (*row, round(100 * fmean(tasks)), average)
        for row, (tasks, average) in tenths().items()
        if round(fmean(tasks)) != average
    ],
    control=[],
    wrong="none",
)

AVERAGES.row(
    "rows of which the average is further from the mean than both roundings allow, rows in all, and the means at 3B in "
    "thousandths",
    (0, 34, 47_489, 48_344),
    lambda: (
        sum(abs(fmean(tasks) - average) > 1 for tasks, average in tenths().values()),
        len(tenths()),
        *(round(100 * fmean(tenths()["LLaMA-3B", variant][0])) for variant in (BASELINE, "skipv1")),
    ),
    control=(1, 34, 47_489, 48_344),
    wrong="Table 11's is",
)

RANKING = Claim(
    "skipv1.downstream-ranking",
    PAPER.name,
    place="section 6.1, last paragraph; section 6.2, Results; appendix C.3",
    statement="SkipV1Former and ResFormer have the highest average of six GPT-2 models at every size; on LLaMA "
    "SkipV1Former is consistently above the baseline.",
    assumes="the printed accuracies, one training each",
    verdict="corrected",
    correction="At 355M ResFormer is fourth, behind the baseline and DenseFormer; the two are first at the three other "
    "sizes.  On LLaMA-1B the nine accuracies have one and the same sum, 415.5, for both models.  Where SkipV1Former "
    "gains most, at 60M, 130M and 3B, more than half of it is BoolQ: without that task it is 0.4 points behind at 60M "
    "and 0.7 and 0.4 ahead at the two others.",
)


@RANKING.number(
    "ranks of SkipV1Former and ResFormer by the mean of their cells, at 125M, 200M, 355M and 550M",
    [{1, 2}, {1, 2}, {1, 4}, {1, 2}],
    control=[{1, 2}] * 4,
    wrong="first at every size",
)
def ranks() -> list[set[int]]:
    by_size: dict[str, dict[str, int]] = {}
    for (size, variant), (tasks, _) in tenths().items():
        by_size.setdefault(size, {})[variant] = sum(tasks)
    of_gpt2 = [sums for size, sums in by_size.items() if size.startswith("GPT2")]
    return [{1 + sum(other > sums[x] for other in sums.values()) for x in ("skipv1", "resformer")} for sums in of_gpt2]


@RANKING.number(
    "SkipV1Former's sum over nine tasks less the baseline's, and over eight without BoolQ, in tenths of a point, at "
    "60M, 130M, 350M, 1B and 3B",
    [(116, -32), (166, 56), (33, 97), (0, 6), (77, 29)],
    control=[(116, 116), (166, 166), (33, 33), (1, 1), (77, 77)],
    wrong="ahead at every size, on average over any tasks",
)
def gains() -> list[tuple[int, int]]:
    table, sums = tenths(), []
    for size in SIZES:
        (baseline, _), (skip, _) = (table[f"LLaMA-{size}", variant] for variant in (BASELINE, "skipv1"))
        gained = sum(skip) - sum(baseline)
        sums.append((gained, gained - skip[BOOLQ] + baseline[BOOLQ]))
    return sums
