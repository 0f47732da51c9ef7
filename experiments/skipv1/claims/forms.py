"""What the claims on the proof share: the blocks of the weights, and means over the spectrum."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from theory.prompts.moments import Array
from theory.toy.population import Weights

SIZES = ((1, 2, 1), (1, 3, 2), (2, 3, 4), (2, 4, 1))  # rank, d, n


def blocks(w: Weights, split: str) -> Iterator[tuple[Array, Array, Array, Array]]:
    """W_1, W_2, M_1, M_2 of each head, M = K A split by "rows", or by "columns" as the paper prints it.

    Shapes, split by rows: (d, a), (d, d - a), (a, d), (d - a, d).  Eqns. (8) to (10) are then products of blocks.  As
    u_t = (A x_t ; B y_t), an ordinary head's W (X X^T + U U^T) M is
        W X X^T M + (W_1 A X + W_2 B Y) (X^T A^T M_1 + Y^T B^T M_2),
    and the sums over heads of its terms are, by degree in Y,
        N_1 = W X X^T M + W_1 A X X^T A^T M_1,   N_3 = W_1 A X Y^T B^T M_2 + W_2 B Y X^T A^T M_1,
        N_2 = W_2 B Y Y^T B^T M_2.
    A skip head has Y for the first U, so that N_2' gets W Y Y^T B^T M_2 and N_3' gets W Y X^T A^T M_1 from it.
    Both N_3 and N_3' are thus of the class h(W~, M~) = sum_h W~_1 X Y^T M~_2 + W~_2 Y X^T M~_1, with
    W~ = (W_1 A, W_2 B), M~ = (A^T M_1 ; B^T M_2) in an ordinary head and W~ = (0, W), M~ = (A^T M_1 ; 0) in a skip
    head.
    """
    for w_h, k in zip(w.w, w.k, strict=True):
        m = k @ w.a
        parts = (m[: w.rank], m[w.rank :]) if split == "rows" else (m[:, : w.rank], m[:, w.rank :])
        yield w_h[:, : w.rank], w_h[:, w.rank :], *parts


def mean_over_spectrum(function: Callable[[float], float], n: int) -> tuple[float, float]:
    """E function(S) at d = 1, S chi-squared with n degrees, and the quadrature's error."""
    from scipy.integrate import quad
    from scipy.stats import chi2

    value, error = quad(lambda s: float(chi2.pdf(s, n)) * function(s), 0, np.inf)
    return float(value), float(error)
