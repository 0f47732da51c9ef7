"""One ResFormer head, exactly: a check that entries of several papers share."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from theory.resformer.weights import ONE_HEAD, one_head_weights
from theory.toy.exact import RATIONAL_TASKS, exact_loss, loss_at_entries


def one_resformer_head_attains(copied: Callable[[bool], Fraction]) -> bool:
    """The loss of `one_head_weights`, with this readout of copied values, is d^2 + d sigma^2 - rho a d; exact."""
    return all(
        exact_loss(ONE_HEAD, d, n, sigma).value(one_head_weights(d, n, sigma, a, copied))
        == loss_at_entries(d, n, sigma, a * d)
        for d, n, sigma in RATIONAL_TASKS
        for a in range(d + 1)
    )
