"""SkipV1Former's toy with nothing assumed: does training find the copying, the gap, and what is it worth in width?

Seed claims: SkipV1Former, Theorem 2, whose first layer is Assumption 1 instead of attention; and section 4, by which it
is worth an MHA whose embedding is wide enough for both x and y.  Here both layers are trained, the first
one sees positions (`icl.toys.end_to_end`), and the embedding's width m goes from d to beyond 2d.

What is predicted.  Under Assumption 1 (`theory.toy.width`) MHA explains rho floor(m/2) ceil(m/2) entries of W*, and
SkipV1Former rho d^2, so that SkipV1Former at width d is MHA at width 2d.  That an end-to-end MHA can do better follows
from `theory.toy.positions`, which also bounds it where the first layer's scores are of positions alone.  How much
better depends on its heads: with four in layer 1 and enough in layer 2 all of rho d^2 is within reach at width 2d - 1
(`theory.toy.least_width`).  So MHA is trained with more than two heads as well, scores of positions alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.end_to_end import figure
from experiments.skipv1.end_to_end.training import (
    HEADS,
    Arms,
    Config,
    Sweep,
    Trained,
    Variant,
    constructions,
    many_heads,
    put_in_constructions,
    train_arms,
)
from experiments.store.folders import Json, RunFolder
from experiments.toys.checks import SHARE, at_most_check
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, t_interval
from theory.plans.heads import TOYS
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, ASSUMPTION, LEAST_WIDTH = "toy.width", "skipv1.assumption1", "toy.least-width"
NEGLIGIBLE = 0.03  # of the signal: a difference that is none, and the slack of one that has a predicted size
COPIED = 0.1  # how far from 1 a share of copying may be
REACHED = 0.99  # of what SkipV1Former explains at width d: what MHA has to explain to be worth as much
ALTERED = 0.1  # the negative controls of the constructions, beside a first layer that looks one token too far back
STANDARD_ERRORS = 4
STARTS = 8  # of the descents in the tokens


def _arms(widths: tuple[int, ...], d: int) -> tuple[Arms, ...]:
    """Return every kind: nothing assumed, from both starts; positions alone; the mask as printed; MHA of more heads."""
    squeezed = tuple(m for m in widths if m <= 2 * d)
    many = tuple(Arms(tuple(range(d, 2 * d)), "positions", heads=heads) for heads in HEADS[1:])
    return Arms(widths), Arms(squeezed, start="copying"), Arms(squeezed, "positions"), Arms((d,), "printed"), *many


_TWO, _THREE = Setting(2, 8, 0.1), Setting(3, 12, 0.1)
_RATES_TWO, _RATES_THREE = (0.03, 0.1), (0.02, 0.01)
_FEW = Arms((2, 4)), Arms((2, 4), start="copying"), Arms((2, 4), "positions", "copying")
_THREES = Arms((3, 5, 6)), Arms((3, 6), start="copying")
_SMOKE = Config(
    sweeps=(Sweep(size=_TWO, arms=_FEW, steps=1500, learning_rates=(0.03,)),),
    held_out=16_384,
    construction_prompts=65_536,
)
_CPU = Config(
    sweeps=(
        Sweep(size=_TWO, arms=_arms((2, 3, 4), 2), steps=3500, learning_rates=_RATES_TWO),
        Sweep(size=_THREE, arms=_THREES, steps=3500, learning_rates=_RATES_THREE),
    )
)
_FULL = Config(
    sweeps=(
        Sweep(size=_TWO, arms=_arms((2, 3, 4, 6), 2), steps=10_000, learning_rates=_RATES_TWO),
        Sweep(size=_THREE, arms=_arms((3, 4, 5, 6, 9), 3), steps=10_000, learning_rates=_RATES_THREE),
    ),
    held_out=131_072,
    copying_prompts=8_192,
    construction_prompts=1_048_576,
)
_DETECTS = "a gap of 3% of the signal where none is expected; explained shares 2% above a bound"
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=4, seconds=30, detects=_DETECTS),
    "cpu": Profile(config=_CPU, seeds=6, seconds=260, detects=_DETECTS),
    "full": Profile(config=_FULL, seeds=8, seconds=3000, detects=_DETECTS),
}


class SkipV1EndToEnd:
    name = "skipv1-end-to-end"
    title = "The toy end to end: copying, gap and worth in width with nothing assumed"
    caption = (
        "Explained share of the signal over a token's numbers, (a), (b) at two sizes: MHA (squares), SkipV1Former "
        "(circles), theory (lines). Hollow: random start; filled: start near copying; small: other scores or masks. "
        "(c) What layer 1 puts into a y token; diamonds: an x token; plus: moments in G. (d) More heads. 95 % over "
        "seeds, dots are seeds."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (
        WIDTH,
        ASSUMPTION,
        "skipv1.assumption1-mask",
        "toy.rotating-mha",
        "toy.positions-bound",
        LEAST_WIDTH,
    )
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "W0 = 0; x and noise Gaussian. assumed_copy: Assumption 1 at width m. bound: layer 1's scores "
            "are of positions alone. ridge: nothing",
            "source": "theory.toy.width, theory.toy.positions, theory.prompts.regression; units of E ||W*||^2 = d^2",
            "worth": "MHA of two heads reaches what SkipV1Former explains at width d at width 2d (section 4; "
            "theory.toy.width). enough_heads: descents on the exact loss in two kinds of tokens a pair, "
            "theory.toy.token_pairs; at width 2d - 1 the limit of explicit weights, theory.toy.least_width",
            "sizes": {sweep.size.key: _predict(sweep) for sweep in config.sweeps},
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        return {**train_arms(config, seeds, run), "constructions": put_in_constructions(config, run)}

    def compare(self, prediction: Json, measurement: Json) -> list[Judgement]:
        judgements: list[Judgement] = []
        for size, numbers in prediction["sizes"].items():
            trained = Trained(size, numbers, measurement["explained"])
            judgements += _compare_constructions(trained, measurement["constructions"][size])
            judgements += _compare_bounds(trained)
            judgements.append(_compare_bayes(trained))
            for variant in trained.variants:
                if variant[0] != "printed":
                    judgements += _compare_gaps(trained, variant)
                    judgements += _compare_worth(trained, variant)
                if variant in (("both", "random"), ("positions", "random")):
                    judgements += _compare_copying(trained, variant, measurement)
            judgements += _compare_starts(trained)
            judgements += _compare_mask(trained)
            judgements += compare_heads(trained)
        return judgements

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        return figure.draw(prediction, measurement)


def _predict(sweep: Sweep) -> Json:
    from theory.prompts import regression, setting
    from theory.toy.least_width import sufficient_width
    from theory.toy.positions import most_entries_with_positions
    from theory.toy.token_pairs import most_entries
    from theory.toy.width import most_entries_at_width

    size = sweep.size
    task, entries = size.floats, size.d**2
    rho = float(setting.signal_share(*task))
    ridge = regression.ridge(*task)
    zero = setting.zero_loss(*task)
    widths = {}
    for width in sweep.widths:
        copied = {toy: most_entries_at_width(heads, size.d, width) or 0 for toy, heads in TOYS.items()}
        bound = {toy: most_entries_with_positions(heads, size.d, width) for toy, heads in TOYS.items()}
        widths[str(width)] = {
            "assumed_copy": {toy: rho * count / entries for toy, count in copied.items()},
            "bound": {toy: rho * count / entries for toy, count in bound.items()},
        }
        if any(arms.heads > 2 and width in arms.widths for arms in sweep.arms):
            enough = width >= sufficient_width(size.d)
            most = entries if enough else most_entries(*task, width, starts=STARTS)[0]
            widths[str(width)]["enough_heads"] = {"mha": rho * most / entries}
    return {
        "d": size.d,
        "n": size.n,
        "sigma": size.sigma,
        "rho": rho,
        "ridge": (zero - ridge.value) / entries,
        "ridge_stderr": ridge.stderr / entries,
        "widths": widths,
        "worth": 2 * size.d,
        "constructions": {c.name: c.predicted / entries for c in constructions(size, sweep.widths)},
    }


def _compare_constructions(trained: Trained, measured: Json) -> Iterator[Check]:
    for name, explained in trained.numbers["constructions"].items():
        result = measured[name]
        yield Check.sampled(
            Interval(result["explained"], result["stderr"], STANDARD_ERRORS * result["stderr"]),
            id=f"construction/{trained.size}/{name}",
            group=f"weights that theory writes down, {trained.size}",
            claim=ASSUMPTION if name.startswith("assumption") else LEAST_WIDTH if name.startswith("hiding") else WIDTH,
            statement="put into the end-to-end toy, token by token, they explain what theory says",
            predicted=explained,
            controls=(result["shifted"], (1 - ALTERED) * explained, (1 + ALTERED) * explained),
            quantity=SHARE,
        )


def _compare_bounds(trained: Trained) -> Iterator[Check]:
    """Yield that positions alone explain nothing beyond the bound.

    The control is what Assumption 1 would allow, or half of the bound.
    """
    variants = [variant for variant in trained.variants if variant[0] == "positions"]
    places = [(variant, m) for variant in variants for m in trained.widths(variant)]
    cells = [(*place, toy, toy) for place in places for toy in TOYS]
    cells += [(*place, "mha", many_heads(heads)) for place in places for heads in trained.heads(*place)[1:]]
    for variant, m, toy, arm in cells:
        bound, assumed = (trained.numbers["widths"][str(m)][which][toy] for which in ("bound", "assumed_copy"))
        yield at_most_check(
            f"bound/{trained.key(variant, arm, m)}",
            group=f"positions alone, {arm}, {trained.size}",
            claim=WIDTH,
            statement="if layer 1 sees positions alone, no less is left unexplained than theory.toy.positions says",
            share=bound,
            interval=t_interval(trained.shares(variant, arm, m), len(cells)),
            wrong=assumed if assumed < bound else bound / 2,
        )


def _compare_bayes(trained: Trained) -> Check:
    """Return the check of the best of all arms with two heads, with all of them as its family."""
    cells = [(variant, toy, m) for variant in trained.variants for m in trained.widths(variant) for toy in TOYS]
    intervals = [t_interval(trained.shares(*cell), len(cells)) for cell in cells]
    best, ridge = max(intervals, key=lambda interval: interval.mean), trained.numbers["ridge"]
    return at_most_check(
        f"bayes/{trained.size}",
        group=f"the best of all arms, {trained.size}",
        claim=WIDTH,
        statement="no toy leaves less unexplained than the Bayes posterior mean",
        share=ridge,
        interval=best.widened(trained.numbers["ridge_stderr"], STANDARD_ERRORS),
        wrong=ridge / 2,
    )


def gaps(trained: Trained, variant: Variant, width: int) -> list[float]:
    """Return SkipV1Former's explained share minus MHA's, seed by seed."""
    skip, mha = (trained.shares(variant, toy, width) for toy in ("skipv1", "mha"))
    return _differences(skip, mha)


def _differences(some: Sequence[float], others: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(some, others, strict=True)]


def _twin(values: Sequence[float]) -> list[Interval]:
    """Return one architecture against itself with other prompts and weights: seed 0 minus seed 1, 2 minus 3, ...

    There is no interval of a single pair.
    """
    pairs = [a - b for a, b in zip(values[::2], values[1::2], strict=False)]
    return [t_interval(pairs)] if len(pairs) > 1 else []


def _expect(
    name: str,
    group: str,
    statement: str,
    *intervals: Interval,
    rule: str,
    predicted: float = 0.0,
    claim: str = WIDTH,
    slack: float = NEGLIGIBLE,
) -> Expectation:
    """Return what is expected of a difference of shares; intervals: its own, and that of a control if there is one."""
    return Expectation.sampled(
        *intervals,
        id=name,
        group=group,
        claim=claim,
        statement=statement,
        rule=rule,
        predicted=predicted,
        slack=0.0 if rule == "sign" else slack,
        quantity="share of the signal explained, difference",
    )


def _compare_gaps(trained: Trained, variant: Variant) -> Iterator[Expectation]:
    """Yield a gap below m = 2d, of the assumed-copy toy's size, and none from there on.

    Control of a gap is MHA against MHA of other seeds, of none the gap at m = d.
    """
    widths, where = trained.widths(variant), f"{', '.join(variant)}, {trained.size}"
    for width in widths:
        shares = trained.numbers["widths"][str(width)]["assumed_copy"]
        predicted = float(shares["skipv1"] - shares["mha"])
        interval = t_interval(gaps(trained, variant, width), len(widths))
        name = "/".join((trained.size, *variant, f"m{width}"))
        if width < 2 * trained.numbers["d"]:
            intervals = interval, *_twin(trained.shares(variant, "mha", width))
            statement = f"SkipV1Former explains more than MHA at width {width}"
            group = f"gap below 2d, {where}"
            yield _expect(f"gap/{name}", group, statement, *intervals, rule="sign", predicted=predicted)
            statement = f"the gap at width {width} is the assumed-copy toy's"
            group = f"size of the gap, {where}"
            yield _expect(f"gap size/{name}", group, statement, *intervals, rule="size", predicted=predicted)
        else:
            narrow = t_interval(gaps(trained, variant, trained.numbers["d"]), len(widths))
            statement = f"SkipV1Former explains no more than MHA at width {width}, where nothing needs compression"
            yield _expect(f"no gap/{name}", f"no gap from 2d on, {where}", statement, interval, narrow, rule="none")


def worths(trained: Trained, variant: Variant) -> list[float]:
    """Return by seed the width at which MHA explains REACHED of what SkipV1Former explains at width d.

    Between the trained widths, by straight lines; NaN where it is reached at none.
    """
    widths = trained.widths(variant)
    targets = trained.shares(variant, "skipv1", trained.numbers["d"])
    curves = zip(*(trained.shares(variant, "mha", m) for m in widths), strict=True)
    return [_crossing(widths, curve, REACHED * target) for curve, target in zip(curves, targets, strict=True)]


def _crossing(widths: Sequence[int], curve: Sequence[float], target: float) -> float:
    if curve[0] >= target:
        return widths[0]
    for i in range(1, len(widths)):
        if curve[i] >= target:
            below, above = curve[i - 1], curve[i]
            return widths[i - 1] + (widths[i] - widths[i - 1]) * (target - below) / (above - below)
    return math.nan


def _compare_worth(trained: Trained, variant: Variant) -> Iterator[Expectation]:
    if len(trained.widths(variant)) < 2:
        return
    interval, d, worth = t_interval(worths(trained, variant)), trained.numbers["d"], trained.numbers["worth"]
    yield Expectation.sampled(
        interval,
        Interval(float(d), 0.0, 0.0),
        id="/".join(("worth", trained.size, *variant)),
        group=f"worth in width, {trained.size}",
        claim=WIDTH,
        statement=f"MHA of two heads in each layer needs width {worth} for {REACHED:.0%} of what SkipV1Former explains "
        f"at {d}",
        rule="size",
        predicted=float(worth),
        slack=0.25,
        quantity="width",
    )


def _compare_copying(trained: Trained, variant: Variant, measurement: Json) -> Iterator[Expectation]:
    """Yield whether tokens of width d hold what Assumption 1 says; the control is the random start itself."""
    statements = {
        ("x_in_y", "y_in_y"): "y tokens hold their own pair",
        ("x_kept",): "x tokens keep their own x",
        ("gram",): "layer 2 sees second moments of pairs",
    }
    for parts, statement in statements.items():
        for toy in TOYS:
            key = trained.key(variant, toy, trained.numbers["d"])
            intervals = [
                t_interval([sum(shares[part] for part in parts) for shares in measurement[when][key]], len(TOYS))
                for when in ("copying", "copying_at_start")
            ]
            name, group = f"copying/{'+'.join(parts)}/{key}", f"copying, {statement}, {trained.size}"
            words = f"{toy}, {variant[0]}: {statement}"
            about: Json = {"rule": "size", "predicted": 1.0, "claim": ASSUMPTION, "slack": COPIED}
            yield replace(_expect(name, group, words, *intervals, **about), quantity="share of the weight")


def _compare_starts(trained: Trained) -> Iterator[Expectation]:
    """Yield that what exists is found: the random start explains as much as the one near the copying solution."""
    near, usual, size = ("both", "copying"), ("both", "random"), trained.size
    widths = [m for m in trained.widths(near) if m in trained.widths(usual)]
    for width in widths:
        for toy in TOYS:
            close, far = (trained.shares(variant, toy, width) for variant in (near, usual))
            interval = t_interval(_differences(close, far), 2 * len(widths))
            known = t_interval(gaps(trained, near, trained.numbers["d"]), 2 * len(widths))
            name, group = f"starts/{size}/{toy}/m{width}", f"starts, {toy}, {size}"
            statement = f"{toy} of width {width} explains as much from the random start as from near copying"
            yield _expect(name, group, statement, interval, known, rule="none", claim=ASSUMPTION)


def _compare_mask(trained: Trained) -> Iterator[Expectation]:
    """Yield the mask P, which hides the last token from itself in layer 1, against one that does not.

    Rare prompts throw some of these toys far off; none counts for less than predicting zero, which all can do.
    """
    for width in trained.widths(("printed", "random")):
        for toy in TOYS:
            seen, hidden = (
                [max(0.0, share) for share in trained.shares((scores, "random"), toy, width)]
                for scores in ("both", "printed")
            )
            intervals = t_interval(_differences(seen, hidden), len(TOYS)), *_twin(seen)
            share = trained.numbers["widths"][str(width)]["assumed_copy"][toy]
            statement = f"{toy} of width {width} explains more if the last token attends to itself"
            name, group = f"mask/{trained.size}/{toy}/m{width}", f"the mask P in layer 1, {trained.size}"
            yield _expect(name, group, statement, *intervals, rule="sign", predicted=share, claim=ASSUMPTION)


def compare_heads(trained: Trained) -> Iterator[Expectation]:
    """Yield what more heads than two explain, scores of positions alone.

    They explain more, and at width 2d - 1 all that SkipV1Former does at width d; the control is MHA of two heads.
    """
    variant, d, size = ("positions", "random"), trained.numbers["d"], trained.size
    cells = [(m, heads) for m in trained.widths(variant) for heads in trained.heads(variant, m) if heads > 2]
    for m, heads in cells:
        few, many = (trained.shares(variant, toy, m) for toy in ("mha", many_heads(heads)))
        more = t_interval(_differences(many, few), len(cells)), *_twin(few)
        share = trained.numbers["widths"][str(m)]["enough_heads"]["mha"] - fmean(few)
        name, group = f"heads/{size}/m{m}/h{heads}", f"more heads than two, {size}"
        statement = f"MHA of width {m} explains more with {heads} heads in each layer than with two"
        yield _expect(name, group, statement, *more, rule="sign", predicted=share, claim=LEAST_WIDTH)
        if m == 2 * d - 1:
            skip = trained.shares(variant, "skipv1", d)
            rest = [t_interval(_differences(skip, mha), len(cells)) for mha in (many, few)]
            name, group = f"least width/{size}/h{heads}", f"all at width 2d - 1, {size}"
            arm = f"MHA of width {m} and {heads} heads in each layer"
            statement = f"{arm} explains what SkipV1Former explains at width {d}"
            yield _expect(name, group, statement, *rest, rule="none", claim=LEAST_WIDTH)


EXPERIMENT: Experiment = SkipV1EndToEnd()
