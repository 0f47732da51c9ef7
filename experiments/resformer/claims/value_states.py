"""Claims on the spectra of values: section 4.5, Fig. 12."""

from __future__ import annotations

import numpy as np

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUES
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.resformer import measures
from theory.resformer.paper import PAPER

FIG_12 = Claim(
    "resformer.fig-12",
    PAPER.name,
    place="abstract and section 4.5, Fig. 12",
    statement="Values of most layers have larger eigenvalues in ResFormer than in vanilla, and so a stronger capacity "
    "to represent.",
    assumes="trained decoders; eigenvalues of Eqn. (12), their largest and their mean",
    verdict="open",
    correction="Trained models decide which are larger (text-layers).  That larger means stronger does not "
    "follow: c W_V with W_O / c is the same model with eigenvalues c^2 times as large, and the mean eigenvalue is the "
    "mean square of a value's entries.  It must be said whether a layer's own values are meant or the mixed ones: of "
    "values as long as layer 1's and uncorrelated with them Eqn. (7) halves the mean, and the largest root is at most "
    "the mean of both.",
    proof=measures.value_spectrum,
    uses=("resformer.eqn12-index",),
    unjudged={**OF_VALUES},
)


@FIG_12.check(
    "the largest eigenvalue of mixed values, by that of either layer's and the plan's weights: 300 draws below, values "
    "along one direction at it",
    states=2.0,
    control=1.0,
    wrong="a mean of the eigenvalues, not of their roots",
    kind="float64",
)
def mixing_bounds_the_largest(power: float) -> bool:
    """sigma_1 is a norm: sqrt(lambda_1) of a sum is at most the sum of those of its parts."""
    rng = np.random.default_rng(5)
    spread = [rng.standard_normal((2, 6, 4)) * np.array([rng.uniform(0.1, 3), 1.0])[:, None, None] for _ in range(300)]
    along = np.outer(rng.standard_normal(6), rng.standard_normal(4)) * np.array([3.0, 0.5])[:, None, None]
    terms = resolve("resformer", Shape(2, 1)).head(2, 1).values[0].terms
    for values in (*spread, along):
        largest = [measures.value_spectrum(v)[0] for v in values]
        mixed = sum(term.start * values[term.source.layer - 1] for term in terms)
        bound = sum(term.start * largest[term.source.layer - 1] ** (1 / power) for term in terms) ** power
        found = measures.value_spectrum(np.asarray(mixed))[0]
        if found > bound * (1 + 1e-9) or (values is along and found < bound * (1 - 1e-9)):
            return False
    return True


@FIG_12.check(
    "the mean eigenvalue of values mixed from two layers of one length, uncorrelated, times the width: mean squares by "
    "the plan's weights, 40,000 tokens, to 3 %",
    states={"vanilla": 1.0, "resformer": 0.5, "resformer-constant": 5.0},
    control={"vanilla": 1.0, "resformer": 1.0, "resformer-constant": 1.0},
    wrong="the same for all",
    kind="sampled",
)
def mean_eigenvalue_is_a_mean_square(times: dict[str, float]) -> bool:
    values = dict(enumerate(np.random.default_rng(6).standard_normal((3, 40_000, 5)), 1))
    for name, expected in times.items():
        terms = resolve(name, Shape(3, 1)).head(3, 1).values[0].terms
        mixed = np.sum([term.start * values[term.source.layer] for term in terms], axis=0)
        mean = measures.value_spectrum(mixed).mean()
        if abs(mean / (mixed**2).mean() - 1) > 1e-9 or abs(mean / expected - 1) > 0.03:
            return False
    return True
