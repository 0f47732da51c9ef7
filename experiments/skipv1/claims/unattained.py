"""That no MHA weights attain the infimum of the loss: step (7) of the proof in `theory.skipv1.gap`."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.assumptions import W0_ZERO
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import unattained_witness
from theory.skipv1.paper import PAPER

MHA_UNATTAINED = Claim(
    "skipv1.mha-unattained",
    PAPER.ours,
    place="not in the paper (its theorem writes min for both)",
    statement="For 0 < a < d no MHA weights, with any number of heads, attain the infimum of the loss.",
    assumes=W0_ZERO,
    verdict="verified",
    proof=skipv1,
    uses=("skipv1.mha-infimum",),
    unjudged={unattained_witness: "any multiple of a witness is one"},
)


@MHA_UNATTAINED.check(
    "no linear map at all that cancels the even part is injective where it has to be; exact, d = 2..4, "
    "A general, with singular square block, and with nothing beside it",
    states=True,
    control=False,
    wrong="the condition (i) dropped: then one is",
    kind="exact",
)
def infimum_is_unattained(with_first: bool) -> bool:
    """Step (7), exactly: of all linear maps Phi with (i) and (ii), none is injective on the matrices (0 C^T ; C 0).

    Each output entry of Phi is a functional on d x d matrices; what the functionals that obey (i) and (ii) can see of
    C has rank less than a (d-a).  Without (i) they see all of it.
    """
    rng = np.random.default_rng(10)
    for a, d in ((1, 2), (1, 3), (2, 3), (2, 4)):
        for kind in ("general", "singular", "square only"):
            matrix = _a_of_kind(kind, a, rng.integers(-3, 4, (a, d)))
            conditions = []
            for i in range(d):
                for j in range(i, d):
                    s = np.zeros((d, d), dtype=int)
                    s[i, j] = s[j, i] = 1
                    first = s.copy()
                    first[:a, :a] += matrix @ s @ matrix.T
                    if with_first:
                        conditions.append(first.ravel())
                    if i >= a:
                        conditions.append(s.ravel())
            free = sympy.Matrix(np.array(conditions)).nullspace()
            corners = []
            for i in range(a, d):
                for j in range(a):
                    c = np.zeros((d, d), dtype=int)
                    c[i, j] = c[j, i] = 1
                    corners.append([sum(int(v) * x for v, x in zip(c.ravel(), phi, strict=True)) for phi in free])
            if sympy.Matrix(corners).rank() == a * (d - a):
                return False
    return True


def _a_of_kind(kind: str, a: int, matrix: Any) -> Any:
    """A with a general square block, with a singular one (its last column zero), or with nothing to its right."""
    if kind == "singular":
        matrix[:, a - 1] = 0
    elif kind == "square only":
        matrix[:, a:] = 0
        matrix[:, :a] += 5 * np.eye(a, dtype=matrix.dtype)
    return matrix


@MHA_UNATTAINED.check(
    "A S A^T = 0 for S_11 = 0, S_12 = A_1^-1 A_2, S_22 = -2 I, with symbols for A",
    states=2,
    control=1,
    wrong="S_22 = -I",
    kind="exact",
)
def witness_identity(factor: int) -> bool:
    """A S A^T = 0 for S_11 = 0, S_12 = A_1^-1 A_2, S_22 = -factor I, with symbols for A."""
    for a, d in ((1, 2), (1, 3), (2, 3)):
        matrix = sympy.Matrix(a, d, lambda i, j: sympy.Symbol(f"a_{i}{j}"))
        corner = matrix[:, :a].inv() * matrix[:, a:]
        s = sympy.zeros(d, d)
        s[:a, a:], s[a:, :a], s[a:, a:] = corner, corner.T, -factor * sympy.eye(d - a)
        if not (matrix * s * matrix.T).applyfunc(sympy.cancel).is_zero_matrix:
            return False
    return True


@MHA_UNATTAINED.check(
    "the witness of step (7) for every kind of A",
    states="theory",
    control="no corner",
    wrong="S_22 = 0",
    kind="float64",
)
def witness_exists(which: str) -> bool:
    """S_11 = 0, A S A^T = 0, S_12 != 0 for A_1 singular, A_2 = 0 and neither."""
    rng = np.random.default_rng(0)
    for a, d in ((1, 2), (1, 4), (2, 3), (3, 5)):
        for kind in ("general", "singular", "square only"):
            matrix = _a_of_kind(kind, a, rng.standard_normal((a, d)))
            s = unattained_witness(matrix)
            if which == "no corner":
                s[a:, a:] = 0
            size = float(np.linalg.norm(s) * np.linalg.norm(matrix) ** 2)
            zero = np.linalg.norm(matrix @ s @ matrix.T) <= 100 * d * np.finfo(float).eps * max(size, 1)
            if not (zero and np.allclose(s, s.T) and not s[:a, :a].any() and np.linalg.norm(s[:a, a:]) > 1e-9 * size):
                return False
    return True
