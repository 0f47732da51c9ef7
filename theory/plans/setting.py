"""The task that toys and prompts share: in-context linear regression, named by its three numbers.  Standard library."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from theory.errors import check_sizes

Number = float | Fraction


@dataclass(frozen=True)
class Setting:
    """The regression y = W* x + noise in context.

    W* ~ N(0, I_{d^2}), x ~ N(0, I_d), noise ~ N(0, sigma^2 I_d), and n context pairs (SkipV1Former, appendix A.1, at
    W0 = 0).  Raises InvalidSize for sizes that no task can have.
    """

    d: int
    n: int
    sigma: Number

    def __post_init__(self) -> None:
        check_sizes(self.d, self.n, self.sigma)

    @property
    def key(self) -> str:
        """The name of the setting in results."""
        return f"d{self.d}-n{self.n}-s{self.sigma!r}"

    @property
    def floats(self) -> tuple[int, int, float]:
        """d, n and sigma, for computations in floating point."""
        return self.d, self.n, float(self.sigma)

    @property
    def signal(self) -> Any:
        """The signal's power E ||W* x||^2 = d^2."""
        return self.d**2

    @property
    def zero_loss(self) -> Any:
        """The loss of predicting zero, E ||y||^2 = d^2 + d sigma^2: exact if sigma is a Fraction."""
        return self.signal + self.d * self.sigma**2

    @property
    def signal_share(self) -> Any:
        """The share rho = n / (n + d + 1 + sigma^2) of each entry of W* that a linear read of S_yx explains."""
        return self.n / (self.n + self.d + 1 + self.sigma**2)
