"""Around W0 != 0: where SkipV1Former's optimum stays below MHA's, where it does not, and what theory says of both.

The printed Theorem 2 (SkipV1Former, appendix A.1) says it does, with two heads each, for every W0 large enough.
`theory.skipv1.w0` proves it with enough heads; `theory.skipv1.w0_heads` refutes it with few, for W0 = c I and every
d >= 4.  Here both architectures are minimised exactly over A, B, K and W, and over the rank where optima are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.desk import Desk
from experiments.store.folders import Json
from experiments.store.work import results
from experiments.verdicts.checks import Check
from theory.errors import InvalidSize
from theory.plans.heads import ORDINARY, SKIP
from theory.prompts import setting
from theory.skipv1 import w0 as skipv1_w0
from theory.skipv1 import w0_heads as skipv1_w0_heads
from theory.toy import few_terms

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy import float64
    from numpy.typing import NDArray

    from experiments.store.folders import RunFolder

SIGMA = 0.1
Spectrum = Literal["identity", "turned", "decaying", "rank one"]
ENOUGH = 0  # heads
ROUNDING = 1e-9  # of the zero loss
SLACK = 0.005  # of what is explained: where a descent with enough heads may stop
ALTERED = 0.02
DESCENT = 1e-3  # of the zero loss: how far MHA's descents may stay from an infimum at infinity
LARGE = 16  # of c^2 / d: from here on W0 decides where few heads end


@dataclass(frozen=True)
class Prior:
    """W0 with ||W0||_F = c sqrt(d): c I, a rotation of it, singular values like 1/j, or one of them alone."""

    spectrum: Spectrum
    c: float

    def matrix(self, d: int) -> NDArray[float64]:
        import numpy as np

        turned = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
        base = {
            "identity": np.eye(d),
            "turned": turned,
            "decaying": np.diag(1 / np.arange(1, d + 1)) @ turned,
            "rank one": np.diag([1.0] + [0.0] * (d - 1)) @ turned,
        }[self.spectrum]
        return base * (self.c * math.sqrt(d) / np.linalg.norm(base))


@dataclass(frozen=True)
class Point:
    """One exact minimisation.  heads: of one architecture; half of SkipV1Former's are skip heads, unless told."""

    prior: Prior
    d: int
    n: int
    toy: Literal["mha", "skipv1"]
    heads: int
    rank: int
    starts: int
    skips: int | None = None

    @property
    def place(self) -> str:
        """All but the architecture and the rank: what optima are compared at."""
        heads = "enough" if self.heads == ENOUGH else self.heads
        skips = "" if self.skips is None else f", {self.skips} skip"
        return f"{self.prior.spectrum} {self.prior.c:g}, d{self.d} n{self.n}, {heads} heads{skips}"

    @property
    def key(self) -> str:
        return f"{self.place}/{self.toy}/a{self.rank}"


def minimised(point: Point, desk: Desk) -> Json:
    """The lowest loss that was found, and how many starts ended there."""
    from theory.prompts.moments import PromptMoments
    from theory.toy.enough_heads import EnoughHeads
    from theory.toy.minimise import minimise
    from theory.toy.population import PopulationLoss

    def report(done: int, *_: float) -> None:
        if done < point.starts:
            desk.report(done, point.key)

    moments = PromptMoments(point.d, point.n, SIGMA, point.prior.matrix(point.d))
    if point.heads == ENOUGH:
        kinds = (ORDINARY,) if point.toy == "mha" else (ORDINARY, SKIP)
        ends = EnoughHeads(moments, kinds).minimise(point.rank, starts=point.starts, after_start=report)
        explained = float(moments.prior_power + point.d * SIGMA**2 - ends[0])
        return {"loss": ends[0], "agreeing": sum(end <= ends[0] + 1e-6 * explained for end in ends)}
    half = point.heads // 2 if point.toy == "skipv1" else 0
    skips = half if point.skips is None else point.skips
    loss = PopulationLoss(moments, (ORDINARY,) * (point.heads - skips) + (SKIP,) * skips)
    found = minimise(loss, point.rank, starts=point.starts, after_start=report)
    return {"loss": found.value, "agreeing": found.agreeing}


@dataclass(frozen=True)
class Config:
    """The figure's questions, each a sweep.  starts: descents for each exact minimum.

    d, n, scales    panels (a), (b): W0 = c I over c, two heads, all ranks at `n`; ranks from d/2 on at all `contexts`
    widths          (c): over d, at every n of `at_widths`, W0 = `large` I, the two highest ranks
    heads           (d): over the number of heads, at d = 3, n = 2, W0 = 8 I; enough heads are always there
    spectra         (e): W0 of other spectra with the same norm, at (d, n), c = 8; (h): what enough heads win there
    mixed           (g): d, n and a number of heads, of which none to all are skip heads, at a = d, W0 = 8 I
    """

    d: int
    n: int
    scales: tuple[float, ...]
    contexts: tuple[int, ...]
    widths: tuple[int, ...]
    at_widths: tuple[int, ...]
    heads: tuple[int, ...]
    spectra: tuple[Spectrum, ...]
    mixed: tuple[int, int, int]
    starts: int
    large: float = 32.0


_DETECTS = "the sign of the difference wherever it is more than 0.5 % of the loss; 2 % of what theory says exactly"
_SPECTRA: tuple[Spectrum, ...] = ("identity", "turned", "decaying", "rank one")
PROFILES = {
    "smoke": Profile(
        Config(4, 2, (0.5, 8.0), (2,), (2, 4), (2,), (2,), ("identity", "rank one"), (3, 2, 2), 2), 0, 30, _DETECTS
    ),
    "cpu": Profile(
        Config(
            4, 2, (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0), (1, 2, 4, 8, 16, 32), (2, 3, 4, 5, 6), (2, 16), (2, 4, 6),
            _SPECTRA, (5, 16, 4), 3,
        ),
        0,
        200,
        _DETECTS,
    ),
    "full": Profile(
        Config(
            4, 2, (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0), (1, 2, 4, 8, 16, 32, 64, 128),
            (2, 3, 4, 5, 6, 7, 8, 9), (2, 16, 64), (2, 4, 6, 8, 12), _SPECTRA, (6, 16, 4), 8,
        ),
        0,
        3600,
        _DETECTS,
    ),
}  # fmt: skip

TOYS: tuple[Literal["mha", "skipv1"], ...] = ("mha", "skipv1")
D_HEADS, N_HEADS, C_HEADS = 3, 2, 8.0


def points(config: Config) -> Iterator[Point]:
    """All minimisations, some of them asked for by several panels."""
    d, starts = config.d, config.starts
    for toy in TOYS:
        for c in config.scales:
            for n in config.contexts:
                for rank in range(1 if n == config.n else d // 2, d + 1):
                    yield Point(Prior("identity", c), d, n, toy, 2, rank, starts if n == config.n else starts - 1)
            for rank in range(1, d + 1):
                yield Point(Prior("identity", c), d, config.n, toy, ENOUGH, rank, 2)
        for width in config.widths:
            for n in config.at_widths:
                for rank in (width - 1, width):
                    yield Point(Prior("identity", config.large), width, n, toy, 2, rank, starts)
        for heads in (*config.heads, ENOUGH):
            for rank in range(1, D_HEADS + 1):
                yield Point(Prior("identity", C_HEADS), D_HEADS, N_HEADS, toy, heads, rank, starts)
        for spectrum in config.spectra:
            for heads in (2, ENOUGH):
                for rank in range(1, d + 1):
                    yield Point(Prior(spectrum, C_HEADS), d, config.n, toy, heads, rank, starts)
    d, n, heads = config.mixed
    for skips in range(heads + 1):
        yield Point(Prior("identity", C_HEADS), d, n, "skipv1", heads, d, starts, skips)


def best(exact: Json, place: str, toy: str) -> float:
    """The lowest loss over the ranks that were minimised."""
    return min(float(x["loss"]) for key, x in exact.items() if key.startswith(f"{place}/{toy}/"))


def scale(d: int, c: float) -> float:
    """E||W*||^2 = d^2 + ||W0||^2, the unit of all losses in the figure."""
    return d**2 + d * c**2


class SkipV1W0:
    name = "skipv1-w0"
    title = "Around W0 != 0: where SkipV1Former beats MHA, and where it does not (Theorem 2 as printed)"
    kind: Kind = "theory"
    claims: tuple[str, ...] = ("skipv1.w0", "skipv1.w0-enough-heads", "skipv1.w0-floors", "skipv1.w0-d2")
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        d, n = config.d, config.n
        fine = [0.0, *(2.0 ** (i / 8) for i in range(-16, 49))]
        few = [
            _said(prior, size, m, heads)
            for prior, size, m, heads in dict.fromkeys(
                (p.prior, p.d, p.n, p.heads)
                for p in points(config)
                if p.heads and p.skips is None and p.prior.spectrum == "identity"
            )
        ]
        many = [_many(p) for p in points(config) if p.heads == ENOUGH and p.toy == "skipv1"]
        return {
            "assumes": "W* ~ N(W0, I), ||W0||_F = c sqrt(d); x and noise Gaussian, sigma = 0.1; Assumption 1; "
            "minima over A, B, K and W",
            "source": "theory.skipv1.w0, Theorems 1 to 3; theory.skipv1.w0_heads, Theorems 4 and 5",
            "curve": [_said(Prior("identity", c), d, n, 2) for c in fine],
            "widths": [[_large(width, m) for width in range(3, 25)] for m in (*config.at_widths, 0)],
            "thresholds": [_region(d, 2.0 ** (i / 8)) for i in range(49)],
            "few": few,
            "mixed": _mixed(*config.mixed),
            "many": list({said["key"]: said for said in many}.values()),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:  # noqa: ARG002
        kind, todo = "exact minimum", {p.key: p for p in points(config)}
        return {"exact": results(kind, todo, minimised, run, label=kind, size=lambda point: point.starts)}

    def compare(self, prediction: Json, measurement: Json) -> list[Check]:
        exact = measurement["exact"]
        return [
            *(check for said in prediction["few"] for check in _few_checks(said, exact)),
            *(check for said in prediction["many"] for check in _many_checks(said, exact)),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.skipv1.around_w0.figure import draw

        return draw(prediction, measurement)


def _said(prior: Prior, d: int, n: int, heads: int) -> Json:
    """What theory says at W0 = c I of `heads` heads, half of them skip heads in SkipV1Former."""
    c, skips = prior.c, heads // 2
    task, squares = (d, n, SIGMA), [c**2] * d
    rho, base = setting.signal_share(*task), setting.zero_loss(*task)
    try:
        reached: float | None = float(skipv1_w0_heads.mha_reached(*task, c, heads))
    except InvalidSize:  # no family of so many matrices is known
        reached = None
    return {
        "place": Point(prior, d, n, "mha", heads, d, 1).place,
        "d": d,
        "n": n,
        "c": c,
        "heads": heads,
        "zero": base + d * c**2,
        "mha_reached": reached,
        "mha_floor": base + c**2 * float(few_terms.identity_floor(d, n, 2 * heads)),
        "mha_floor_one_less": base + c**2 * float(few_terms.identity_floor(d, n, 2 * heads - 1)),
        "skipv1_floor": base - rho * d**2 + c**2 * float(few_terms.identity_floor(d, n, 2 * heads - skips)),
        "skipv1_floor_one_less": base
        - rho * d**2
        + c**2 * float(few_terms.identity_floor(d, n, 2 * heads - skips - 1)),
        "enough_heads": float(skipv1_w0.skipv1_reached(*task, squares, d)),
        "skipv1_reached": float(skipv1_w0.two_heads_reach(*task, d * c**2)),
        "d2": base - 2 * rho + 2 * c**2 / (n + 1) if d == 2 else None,
    }


def _many(point: Point) -> Json:
    """What theory says with enough heads."""
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
        "skipv1": float(skipv1_w0.skipv1_reached(*task, squares, point.rank)),
        "skipv1_floor": float(skipv1_w0.skipv1_floor(*task, squares, point.rank)),
        "gap": rho * point.rank**2,
        "gap_if_mha_explained_nothing": rho * point.rank * point.d * (1 + ALTERED),
    }


def _mixed(d: int, n: int, heads: int) -> list[Json]:
    """Lemma 1's floors at a = d, W0 = 8 I, for h = 0 .. H skip heads: 2 H - h products, and no odd part at h = 0."""
    rho, base = setting.signal_share(d, n, SIGMA), setting.zero_loss(d, n, SIGMA)
    return [
        {
            "place": Point(Prior("identity", C_HEADS), d, n, "skipv1", heads, d, 1, skips).place,
            "d": d,
            "n": n,
            "skips": skips,
            "floor": base
            - (rho * d**2 if skips else 0)
            + C_HEADS**2 * float(few_terms.identity_floor(d, n, 2 * heads - skips)),
            "zero": base + d * C_HEADS**2,
        }
        for skips in range(heads + 1)
    ]


def _large(d: int, n: int) -> Json:
    """Theorem 4's two losses for two heads, in units of ||W0||^2 = d c^2 for large c; n = 0: in place of n, d^2."""
    said = skipv1_w0_heads.large_prior(d, n or d**2, SIGMA)
    return {"d": d, "n": n, "mha": float(said.mha) / d, "skipv1": float(said.skipv1) / d}


def _region(d: int, n: float) -> Json:
    """Scales c between which nothing is proved: SkipV1Former wins below the first, loses above the second."""
    whole = max(1, round(n))
    return {
        "n": whole,
        "wins_below": math.sqrt(skipv1_w0.small_power(d, whole, SIGMA) / d),
        "loses_above": skipv1_w0_heads.threshold(d, whole, SIGMA),
    }


def _few_checks(said: Json, exact: Json) -> Iterator[Check]:
    """Of few heads; what concerns W0 only where it outweighs W* - W0, elsewhere the floors say nothing."""
    place, d, zero = said["place"], said["d"], said["zero"]
    if said["d2"] is not None:
        yield Check(
            id=f"d2/{place}",
            group="two heads at d = 2",
            claim="skipv1.w0-d2",
            statement="SkipV1Former's exact minimum is at most Theorem 5's bound",
            predicted=said["d2"],
            measured=best(exact, place, "skipv1"),
            stderr=0.0,
            tolerance=zero,
            controls=(said["d2"] - said["c"] ** 2,),
            above=ROUNDING * zero,
        )
    if said["c"] ** 2 < LARGE * d or 3 * said["heads"] // 2 > d - (d % 2 == 0):  # Lemma 1 or, for odd d, 3
        return
    mha, skip = (float(exact[f"{place}/{toy}/a{d}"]["loss"]) for toy in TOYS)
    yield _at_least(
        f"floor/{place}",
        "SkipV1Former's floor at a = d, few heads, W0 = c I",
        "the exact minimum stays above what Lemma 1 leaves to so many products",
        (said["skipv1_floor"], said["skipv1_floor_one_less"]),
        skip,
        zero,
    )
    if 2 * said["heads"] <= d:
        yield _at_least(
            f"mha-floor/{place}",
            "MHA's floor at a = d, few heads, W0 = c I",
            "the exact minimum stays above what Lemma 1 leaves to so many products",
            (said["mha_floor"], said["mha_floor_one_less"]),
            mha,
            zero,
        )
    if said["mha_reached"] is not None:
        yield _at_least(
            f"loses/{place}",
            "SkipV1Former loses to MHA at a = d by what is proved, W0 = c I",
            "its exact minimum less MHA's is at least its floor less what MHA is proved to reach",
            (said["skipv1_floor"] - said["mha_reached"], said["skipv1_floor_one_less"] - said["mha_reached"]),
            skip - mha,
            zero,
        )


def _at_least(
    name: str, group: str, statement: str, floors: tuple[float, float], found: float, zero_loss: float
) -> Check:
    """No less than the first floor; the second, of one product less, is what it has to go below.

    On the other side stands the loss of predicting zero, which no minimum exceeds.
    """
    return Check(
        id=name,
        group=group,
        claim="skipv1.w0",
        statement=statement,
        predicted=floors[0],
        measured=found,
        stderr=0.0,
        tolerance=ROUNDING * zero_loss,
        controls=floors[1:],
        above=zero_loss,
    )


def _many_checks(said: Json, exact: Json) -> Iterator[Check]:
    """Of enough heads, at one rank; the gap only where a descent that stops early cannot hide what MHA explains."""
    place, a, zero = said["place"], said["rank"], said["zero"]
    mha, skip = (float(exact[f"{place}/{toy}/a{a}"]["loss"]) for toy in TOYS)
    explained = zero - said["skipv1"]
    if said["skipv1"] == said["skipv1_floor"]:
        yield Check(
            id=f"enough/{place}/a{a}",
            group="SkipV1Former with enough heads",
            claim="skipv1.w0-floors",
            statement="the exact minimum explains what Theorem 2 says, and not more",
            predicted=explained,
            measured=zero - skip,
            stderr=0.0,
            tolerance=SLACK * explained,
            controls=((1 - ALTERED) * explained, (1 + ALTERED) * explained),
            above=ROUNDING * zero,
        )
    if a < said["d"] and DESCENT * said["zero"] > said["gap_if_mha_explained_nothing"] - said["gap"]:
        return
    yield Check(
        id=f"gap/{place}/a{a}",
        group="gap at equal rank, enough heads",
        claim="skipv1.w0-enough-heads",
        statement="the exact minima differ by at least rho a^2",
        predicted=said["gap"],
        measured=mha - skip,
        stderr=0.0,
        tolerance=SLACK * said["gap"],
        controls=(said["gap_if_mha_explained_nothing"],),
        above=zero,
    )


EXPERIMENT: Experiment = SkipV1W0()
