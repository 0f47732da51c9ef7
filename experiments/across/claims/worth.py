"""Claims on what variants are worth in width under the assumed copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import W0_ZERO
from experiments.toys.unjudged import OF_VALUE_MAPS
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.variants import VARIANTS
from theory.prompts.moments import Array
from theory.skipv1.paper import PAPER
from theory.toy import worth

WORTH = Claim(
    "toy.worth",
    PAPER.ours,
    place="theory/toy/worth.py; bears on SkipV1Former, sections 4 and 5",
    statement="Under the assumed copy vanilla explains rho min(floor(w^2 / 4), d^2) at every width w, so that at width "
    "m >= d SkipV1Former, ResFormer and SVFormer are worth max(1, 2d / m) times their width of vanilla, for all n, "
    "sigma and numbers of heads: 2 at m = d, 1 from 2d on.  H < d^2 heads with keys of layer 1 alone are worth "
    "2 sqrt(H) / m if H is a square, and below 1 just where floor(m^2 / 4) > H.",
    assumes=W0_ZERO + "; u_t = (A x_t ; B y_t) with a + b = m rows, the best division of m; between whole widths "
    "vanilla is a straight line in log width",
    verdict="verified",
    proof=worth,
    uses=("toy.width", "toy.value-maps", "toy.raw-keys"),
    unjudged={**OF_VALUE_MAPS, VARIANTS["skipv0"].make: "MHA's toy, as others'"},
)


@WORTH.check(
    "vanilla's entries: the best rank of S -> B S A^T over a + b = w, w = 1 to 2d + 2, d = 1 to 4; exact",
    states=worth.vanilla_entries,
    control=lambda d, w: min((w // 2) ** 2, d * d),
    wrong="equal halves, which lose a row at odd widths",
    kind="exact",
)
def vanilla_has_entries(entries: Callable[[int, int], int]) -> bool:
    """By matrix ranks, of random whole numbers; a read-in of w < d rows stands before A and B."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 4):
        for w in range(1, 2 * d + 3):
            read_in = rng.integers(1, 100, (w, d)).astype(float)
            of_a, of_b = (rng.integers(1, 100, (w, w)) @ read_in for _ in "ab")
            ranks = [_rank(of_a[:a]) * _rank(of_b[: w - a]) for a in range(w + 1)]
            if max(ranks) != entries(d, w) or not isinstance(entries(d, w), int):
                return False
    return True


def _rank(matrix: Array) -> int:
    return int(np.linalg.matrix_rank(matrix)) if matrix.size else 0


@WORTH.check(
    "the three that reach back are worth 2d / m up to 2d and 1 beyond, vanilla and SkipV0 1, CLA 0; d = 1 to 5",
    states=lambda d, m: max(1.0, 2 * d / m),
    control=lambda d, m: 2.0,
    wrong="2 at every width",
    kind="float64",
)
def reaching_back_is_worth(factor: Callable[[int, int], float]) -> bool:
    known: dict[str, Callable[[int, int], float]] = {
        **dict.fromkeys(("skipv1", "resformer", "svformer"), factor),
        **dict.fromkeys(("vanilla", "skipv0"), lambda _d, _m: 1.0),
        "cla": lambda _d, m: float(m == 1),  # at m = 1 vanilla explains nothing too
    }
    return all(
        np.allclose(worth.worth_at_width(resolve(name, Shape(2, 2)), d, m), of(d, m), rtol=1e-12, atol=0)
        for name, of in known.items()
        for d in (1, 2, 3, 5)
        for m in range(d, 2 * d + 3)
    )


@WORTH.check(
    "vanilla's width for the entries of a whole width is that width, exactly; widths 2 to 2d, d = 1 to 9",
    states=lambda w: w * w // 4,
    control=lambda w: (w // 2) ** 2,
    wrong="equal halves, which lose a row at odd widths",
    kind="exact",
)
def whole_widths_are_whole(entries: Callable[[int], int]) -> bool:
    """No rounding of a logarithm is in it."""
    return all(worth.equal_width(d, entries(w)) == w for d in range(1, 10) for w in range(2, 2 * d + 1))


def _in_log(x: float) -> float:
    return float(np.log(x))


def _as_it_is(x: float) -> float:
    return float(x)


@WORTH.check(
    "keys of layer 1, one to ten heads: vanilla's width read off a line through whole widths; d = 2 and 3",
    states=_in_log,
    control=_as_it_is,
    wrong="a line in the width itself",
    kind="float64",
)
def raw_keys_are_worth(scale: Callable[[float], float]) -> bool:
    """The line is drawn here, by numpy, from vanilla's entries at widths 1 to 2d."""
    for d in (2, 3):
        widths = range(1, 2 * d + 1)
        counts = [min(w * w // 4, d * d) for w in widths]
        for heads in range(1, 11):
            entries = min(heads, d * d)
            read = float(np.interp(entries, counts, [scale(w) for w in widths]))
            equal = float(np.exp(read)) if scale is _in_log else read
            for m in range(d, 2 * d + 1):
                expected = 1.0 if counts[m - 1] == entries else equal / m
                found = worth.worth_at_width(resolve("shared-keys", Shape(2, heads)), d, m)
                if not np.allclose(found, expected, rtol=1e-12, atol=0):
                    return False
                if heads < d * d and (found.most < 1) != (m * m // 4 > heads):
                    return False
    return True
