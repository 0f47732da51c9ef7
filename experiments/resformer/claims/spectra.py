"""Claims on the spectra of values: section 4.5, Fig. 12."""

from __future__ import annotations

import numpy as np

from experiments.ledger.claim import Claim
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.resformer import blocks, measures
from theory.resformer.paper import PAPER

FIG_12 = Claim(
    "resformer.fig-12",
    PAPER.name,
    place="abstract and section 4.5, Fig. 12",
    statement="Values of most layers have larger eigenvalues in ResFormer than in vanilla, and so a stronger capacity "
    "to represent.",
    assumes="trained decoders; eigenvalues of Eqn. (12), their largest and their mean",
    verdict="open",
    correction="Trained models decide which are larger (resformer-spectrum).  That larger means stronger does not "
    "follow: c W_V with W_O / c is the same model with eigenvalues c^2 times as large, and the mean eigenvalue is the "
    "mean square of a value's entries.  Compared must be what no scale enters, such as the eigenvalues' shares, and "
    "it must be said whether ResFormer's values are a layer's own or the mixed ones, whose mean square Eqn. (7) "
    "halves.",
    proof=measures.value_spectrum,
    uses=("resformer.eqn12-index",),
)


@FIG_12.check(
    "values c times as long with outputs divided by c: the same output; eigenvalues grow as a power of c",
    states=2,
    control=1,
    wrong="as c",
    kind="float64",
)
def scale_is_no_capacity(power: int) -> bool:
    rng = np.random.default_rng(5)
    scores, values, readout = rng.standard_normal((6, 6)), rng.standard_normal((6, 4)), rng.standard_normal((4, 4))
    before = measures.value_spectrum(values)
    for c in (0.5, 3.0):
        out = blocks.attention(scores, c * values) @ (readout / c)
        if not np.allclose(out, blocks.attention(scores, values) @ readout, rtol=1e-12, atol=1e-12):
            return False
        if not np.allclose(measures.value_spectrum(c * values), c**power * before, rtol=1e-9):
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
