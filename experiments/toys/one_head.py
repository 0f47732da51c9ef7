"""One ResFormer head, exactly: a check that entries of several papers share."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from theory.resformer.weights import ONE_HEAD, one_head_attaining
from theory.toy.exact import RATIONAL_TASKS, closed_form, exact_loss


def one_resformer_head_attains(copied: Callable[[bool], Fraction]) -> bool:
    """The loss of `one_head_attaining`, with this readout of copied values, is d^2 + d sigma^2 - rho a d; exact."""
    return all(
        exact_loss(ONE_HEAD, d, n, sigma).value(one_head_attaining(d, n, sigma, a, copied))
        == closed_form(d, n, sigma, a * d)
        for d, n, sigma in RATIONAL_TASKS
        for a in range(d + 1)
    )
