"""Around W0 != 0: where SkipV1Former's optimum stays below MHA's, where it does not, and what theory says of both.

The printed Theorem 2 (SkipV1Former, appendix A.1) says it does, with two heads each, for every W0 large enough.
`theory.skipv1.w0` proves it with enough heads; `theory.skipv1.w0_heads` refutes it with few, for W0 = c I and every
d >= 3; `theory.skipv1.bias` proves it with two, if a term C x is added to the prediction.  Here both architectures are
minimised exactly over A, B, K and W, and over the rank where optima are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.around_w0 import figure
from experiments.skipv1.around_w0.minima import (
    C_HEADS,
    ENOUGH,
    SIGMA,
    TOYS,
    Config,
    Point,
    Prior,
    Spectrum,
    best,
    by_rank,
    minimise_all,
    place_of,
    points,
)
from experiments.store.folders import Json, RunFolder
from experiments.toys.checks import SIGNAL, ClosedForm, exact_check
from experiments.verdicts.checks import Check
from theory.errors import InvalidSize
from theory.prompts import setting
from theory.skipv1 import bias as skipv1_bias
from theory.skipv1 import w0 as skipv1_w0
from theory.skipv1 import w0_heads as skipv1_w0_heads
from theory.toy import few_terms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALTERED = 0.02  # the negative controls: 2 % more or less explained
ROUNDING = 1e-9  # of the zero loss
SLACK = 0.005  # of what is explained: where a descent with enough heads may stop
DESCENT = 1e-3  # of the zero loss: how far MHA's descents may stay from an infimum at infinity
LARGE = 16  # of c^2 / d: from here on W0 decides where few heads end

_SPECTRA: tuple[Spectrum, ...] = ("identity", "turned", "decaying", "rank one")
_SMOKE = Config(
    d=4,
    n=2,
    scales=(0.5, 8.0),
    contexts=(2,),
    widths=(2, 4),
    at_widths=(2,),
    heads=(2,),
    spectra=("identity", "rank one"),
    biased=("rank one",),
    mixed=(3, 2, 2),
    starts=4,
    finished=2,
)
_CPU = Config(
    d=4,
    n=2,
    scales=(0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    contexts=(1, 2, 8, 32),
    widths=(2, 3, 4, 5),
    at_widths=(2, 16),
    heads=(2, 4, 6),
    spectra=_SPECTRA,
    biased=("identity", "decaying"),
    mixed=(5, 16, 4),
    starts=8,
    finished=2,
)
_FULL = Config(
    d=4,
    n=2,
    scales=(0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0),
    contexts=(1, 2, 4, 8, 16, 32, 64, 128),
    widths=(2, 3, 4, 5, 6, 7, 8, 9),
    at_widths=(2, 16, 64),
    heads=(2, 4, 6, 8, 12),
    spectra=_SPECTRA,
    biased=_SPECTRA,
    mixed=(6, 16, 4),
    starts=48,
    finished=8,
)
_DETECTS = "the sign of the difference wherever it is more than 0.5 % of the loss; 2 % of what theory says exactly"
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=0, seconds=45, detects=_DETECTS),
    "cpu": Profile(config=_CPU, seeds=0, seconds=110, detects=_DETECTS),
    "full": Profile(config=_FULL, seeds=0, seconds=3600, detects=_DETECTS),
}


class SkipV1W0:
    name = "skipv1-w0"
    title = "Around W0 != 0: where SkipV1Former beats MHA, and where it does not (Theorem 2 as printed)"
    caption = (
        "With two heads each, MHA can win around W0 = c I. (a) Loss over c; dash-dotted: SkipV1Former with enough "
        "heads. (b) Which is lower, over c and the number of pairs; shaded: proved. (c) Loss left by a large W0, over "
        "MHA's. (d) Difference at equal rank; above zero MHA is lower. Lines: proved; markers: exact minima. No "
        "sampling."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = ("skipv1.w0", "skipv1.w0-enough-heads", "skipv1.w0-floors", "skipv1.w0-d2", "skipv1.bias")
    profiles: Mapping[str, Profile] = PROFILES
    further: Mapping[str, str] = {
        "heads": "With enough heads SkipV1Former wins around every W0. (a) Loss over the number of heads, half of "
        "them skip heads. (b) Loss over the number of skip heads; line: proved floor. (c) Difference for several W0 of "
        "equal norm; hatched: enough heads. (d) Lead at equal rank, in rho; crosses: with a term C x. Exact minima; no "
        "sampling.",
    }

    def predict(self, config: Config) -> Json:
        d, n, every = config.d, config.n, list(points(config))
        fine = [0.0, *(2.0 ** (i / 8) for i in range(-16, 49))]
        few = dict.fromkeys(
            (p.prior.c, p.d, p.n, p.heads)
            for p in every
            if p.heads and p.skips is None and not p.biased and p.prior.spectrum == "identity"
        )
        many = {p.key: _enough_heads(p) for p in every if p.heads == ENOUGH and p.toy == "skipv1"}
        return {
            "assumes": "W* ~ N(W0, I), ||W0||_F = c sqrt(d); x and noise Gaussian, sigma = 0.1; Assumption 1; "
            "minima over A, B, K and W",
            "source": "theory.skipv1.w0, Theorems 1 to 3; theory.skipv1.w0_heads, Theorems 4 and 5",
            "curve": [_few_heads(c, d, n, heads=2) for c in fine],
            "widths": [[_large_prior(width, m) for width in range(3, 25)] for m in (*config.at_widths, 0)],
            "thresholds": [_region(d, 2.0 ** (i / 8)) for i in range(49)],
            "few": [_few_heads(*sizes) for sizes in few],
            "mixed": _mixed_heads(*config.mixed),
            "many": list(many.values()),
            "biased": [_biased_heads(p) for p in every if p.biased and p.toy == "skipv1"],
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        return {"exact": minimise_all(config, run)}

    def compare(self, prediction: Json, measurement: Json) -> list[Check]:
        exact = measurement["exact"]
        return [
            *(check for row in prediction["few"] for check in _compare_few(row, exact)),
            *(check for row in prediction["many"] for check in _compare_many(row, exact)),
            *(check for row in prediction["biased"] for check in _compare_biased(row, exact)),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        return figure.with_two_heads(prediction, measurement["exact"])

    def draw_further(self, name: str, prediction: Json, measurement: Json) -> Figure:  # noqa: ARG002 - there is one
        return figure.over_heads(prediction, measurement["exact"])


def _identity_floor(c: float, d: int, n: int, products: int) -> float:
    """Return Lemma 1's floor of the loss around W0 = c I, minus the zero loss at W0 = 0."""
    return c**2 * float(few_terms.identity_floor(d, n, products))


def _few_heads(c: float, d: int, n: int, heads: int) -> Json:
    """Return what theory says at W0 = c I of `heads` heads, half of them skip heads in SkipV1Former."""
    task, squares, skips = (d, n, SIGMA), [c**2] * d, heads // 2
    rho, base = setting.signal_share(*task), setting.zero_loss(*task)
    try:
        reached: float | None = float(skipv1_w0_heads.mha_loss_around(*task, c, heads))
    except InvalidSize:  # no family of so many matrices is known
        reached = None
    return {
        "place": place_of(Prior("identity", c), d, n, heads=heads),
        "d": d,
        "n": n,
        "c": c,
        "heads": heads,
        "zero": base + d * c**2,
        "mha_reached": reached,
        "mha_floor": base + _identity_floor(c, d, n, products=2 * heads),
        "mha_floor_one_less": base + _identity_floor(c, d, n, products=2 * heads - 1),
        "skipv1_floor": base - rho * d**2 + _identity_floor(c, d, n, products=2 * heads - skips),
        "skipv1_floor_one_less": base - rho * d**2 + _identity_floor(c, d, n, products=2 * heads - skips - 1),
        "enough_heads": float(skipv1_w0.skipv1_enough_heads_loss(*task, squares, d)),
        "skipv1_reached": float(skipv1_w0.two_heads_loss(*task, d * c**2)),
        "d2": base - 2 * rho + 2 * c**2 / (n + 1) if d == 2 else None,
    }


def _enough_heads(point: Point) -> Json:
    """Return what theory says with enough heads."""
    import numpy as np

    squares = (np.linalg.svd(point.prior.matrix(point.d), compute_uv=False) ** 2).tolist()
    squares = [s if s > 1e-12 * squares[0] else 0.0 for s in squares]
    task = (point.d, point.n, SIGMA)
    rho = setting.signal_share(*task)
    return {
        "key": point.key,
        "place": point.place,
        "spectrum": point.prior.spectrum,
        "c": point.prior.c,
        "rank": point.rank,
        "d": point.d,
        "n": point.n,
        "zero": sum(squares) + setting.zero_loss(*task),
        "skipv1": float(skipv1_w0.skipv1_enough_heads_loss(*task, squares, point.rank)),
        "skipv1_floor": float(skipv1_w0.skipv1_floor(*task, squares, point.rank)),
        "gap": rho * point.rank**2,
        "gap_if_mha_explained_nothing": rho * point.rank * point.d * (1 + ALTERED),
    }


def _biased_heads(point: Point) -> Json:
    """Return what theory says of two heads and a term C x, at one rank."""
    task = (point.d, point.n, SIGMA)
    return {
        "place": point.place,
        "spectrum": point.prior.spectrum,
        "rank": point.rank,
        "zero": float(setting.zero_loss(*task)),
        "one_number": float(setting.signal_share(*task)),
        "mha": float(skipv1_bias.mha_infimum(*task, point.rank)),
        "skipv1": float(skipv1_bias.skipv1_minimum(*task, point.rank)),
    }


def _mixed_heads(d: int, n: int, heads: int) -> list[Json]:
    """Return Lemma 1's floors at a = d, W0 = 8 I, for h = 0 .. H skip heads.

    There are 2 H - h products, and at h = 0 no odd part.
    """
    rho, base, c = setting.signal_share(d, n, SIGMA), setting.zero_loss(d, n, SIGMA), C_HEADS
    return [
        {
            "place": place_of(Prior("identity", c), d, n, heads=heads, skips=skips),
            "d": d,
            "n": n,
            "skips": skips,
            "floor": base - (rho * d**2 if skips else 0) + _identity_floor(c, d, n, products=2 * heads - skips),
            "zero": base + d * c**2,
        }
        for skips in range(heads + 1)
    ]


def _large_prior(d: int, n: int) -> Json:
    """Return Theorem 4's losses for two heads in units of ||W0||^2 = d c^2 for large c; n = 0: in place of n, d^2."""
    losses = skipv1_w0_heads.large_prior(d, n or d**2, SIGMA)
    return {"d": d, "n": n, "mha": float(losses.mha) / d, "skipv1": float(losses.skipv1) / d}


def _region(d: int, n: float) -> Json:
    """Return scales c between which nothing is proved: SkipV1Former wins below the first, loses above the second."""
    whole = max(1, round(n))
    return {
        "n": whole,
        "wins_below": math.sqrt(skipv1_w0.small_power(d, whole, SIGMA) / d),
        "loses_above": skipv1_w0_heads.threshold(d, whole, SIGMA),
    }


LOSS = "loss, squared units of y"
FLOOR = "the exact minimum stays above what Lemma 1 leaves to so many products"


def _compare_few(row: Json, exact: Json) -> Iterator[Check]:
    """Yield the checks of few heads.

    What concerns W0 is checked only where it outweighs W* - W0; elsewhere the floors say nothing.  The control of a
    floor is that of one product less.
    """
    place, d, heads = row["place"], row["d"], row["heads"]
    common: Json = {"slack": ROUNDING * row["zero"], "quantity": LOSS}
    if row["d2"] is not None:
        yield Check.exact(
            id=f"d2/{place}",
            group="two heads at d = 2",
            claim="skipv1.w0-d2",
            statement="SkipV1Former's exact minimum is at most Theorem 5's bound",
            predicted=row["d2"],
            measured=best(exact, place, "skipv1", d=2),
            controls=(row["d2"] - row["c"] ** 2,),
            relation="at most",
            **common,
        )
    if row["c"] ** 2 < LARGE * d or 3 * heads // 2 > d - (d % 2 == 0):  # Lemma 1 or, for odd d, 3
        return
    mha, skip = (by_rank(exact, place, toy, d=d)[d] for toy in TOYS)
    common |= {"claim": "skipv1.w0", "relation": "at least"}
    yield Check.exact(
        id=f"floor/{place}",
        group="SkipV1Former's floor at a = d, few heads, W0 = c I",
        statement=FLOOR,
        predicted=row["skipv1_floor"],
        measured=skip,
        controls=(row["skipv1_floor_one_less"],),
        **common,
    )
    if 2 * heads <= d:
        yield Check.exact(
            id=f"mha-floor/{place}",
            group="MHA's floor at a = d, few heads, W0 = c I",
            statement=FLOOR,
            predicted=row["mha_floor"],
            measured=mha,
            controls=(row["mha_floor_one_less"],),
            **common,
        )
    if row["mha_reached"] is not None:
        yield Check.exact(
            id=f"loses/{place}",
            group="SkipV1Former loses to MHA at a = d by what is proved, W0 = c I",
            statement="its exact minimum minus MHA's is at least its floor minus what MHA is proved to reach",
            predicted=row["skipv1_floor"] - row["mha_reached"],
            measured=skip - mha,
            controls=(row["skipv1_floor_one_less"] - row["mha_reached"],),
            **{**common, "quantity": "SkipV1Former's loss minus MHA's, squared units of y"},
        )


def _compare_many(row: Json, exact: Json) -> Iterator[Check]:
    """Yield the checks of enough heads, at one rank.

    The gap is checked only where a descent that stops early cannot hide what MHA explains.
    """
    place, a, zero = row["place"], row["rank"], row["zero"]
    mha, skip = (by_rank(exact, place, toy, d=a)[a] for toy in TOYS)
    explained = zero - row["skipv1"]
    if row["skipv1"] == row["skipv1_floor"]:
        yield Check.exact(
            id=f"enough/{place}/a{a}",
            group="SkipV1Former with enough heads",
            claim="skipv1.w0-floors",
            statement="the exact minimum explains what Theorem 2 says, and not more",
            predicted=explained,
            measured=zero - skip,
            controls=((1 - ALTERED) * explained, (1 + ALTERED) * explained),
            above=ROUNDING * zero,
            slack=SLACK * explained,
            quantity=SIGNAL,
        )
    if a == row["d"] or DESCENT * zero <= row["gap_if_mha_explained_nothing"] - row["gap"]:
        yield Check.exact(
            id=f"gap/{place}/a{a}",
            group="gap at equal rank, enough heads",
            claim="skipv1.w0-enough-heads",
            statement="the exact minima differ by at least rho a^2",
            predicted=row["gap"],
            measured=mha - skip,
            controls=(row["gap_if_mha_explained_nothing"],),
            relation="at least",
            slack=SLACK * row["gap"],
            quantity="MHA's loss less SkipV1Former's, squared units of y",
        )


def _compare_biased(row: Json, exact: Json) -> Iterator[Check]:
    """Yield both minima of two heads and a term C x, at one rank, in terms of what they explain beyond W0."""
    place, a, zero = row["place"], row["rank"], row["zero"]
    for toy, name in zip(TOYS, ("MHA", "SkipV1Former"), strict=True):
        yield exact_check(
            f"biased/{place}/{toy}/a{a}",
            group=f"{name} with two heads and a term C x",
            statement="the exact minimum explains as much as at W0 = 0, and not more",
            closed_form=ClosedForm("skipv1.bias", zero - row[toy], row["one_number"]),
            explained=zero - by_rank(exact, place, toy, d=a)[a],
            zero_loss=zero,
        )


EXPERIMENT: Experiment = SkipV1W0()
