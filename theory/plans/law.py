"""Laws of the inputs and tasks of regression prompts, where they differ from the plain one.  Standard library only.

A user writes them after `regression:`, as in spike=4,inputs=rademacher,pool=64: the fields of `Law`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Literal

from theory.errors import LARGEST, BadInput, field_problems
from theory.plans.suggestions import hint

Inputs = Literal["normal", "rademacher", "uniform", "laplace", "sphere"]
# Excess, of independent entries.
KURTOSIS: dict[str, int | Fraction] = {"normal": 0, "rademacher": -2, "uniform": Fraction(-6, 5), "laplace": 3}
LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Law:
    """The law x = Sigma^{1/2} xi with E xi = 0 and E xi xi^T = I, and W* ~ N(W0, I) or one of a pool; all compose.

    Sigma is diagonal with trace d, so that E |x|^2 = d as in the plain law.  For normal xi and W0 = 0 diagonal matrices
    are as general as all, because a rotation of x, undone by W*, changes no law.

    spike       the factor by which the first eigenvalue of Sigma exceeds what it would be
    decay       eigenvalue i of Sigma falls like i^-decay
    inputs      of xi: independent entries, normal, signs (rademacher), uniform or laplace; or uniform on the sphere
                |xi|^2 = d, whose entries are not independent
    w0          W0 = w0 I + w0_random R, R a matrix of standard normal numbers drawn once, which w0_seed names
    pool        the number of W* drawn once from N(W0, I), by pool_seed; a prompt's W* is any of them alike; 0:
                every prompt draws its own

    Raises BadInput for what no prompt can have, and for a seed that chooses nothing.
    """

    spike: float = 1.0
    decay: float = 0.0
    inputs: Inputs = "normal"
    w0: float = 0.0
    w0_random: float = 0.0
    w0_seed: int = 0
    pool: int = 0
    pool_seed: int = 0

    def __post_init__(self) -> None:
        for problem in field_problems(self):
            raise BadInput(problem)
        for name in ("spike", "decay", "w0", "w0_random"):
            object.__setattr__(self, name, float(getattr(self, name)))  # 4 and 4.0 are one law
        least = {"spike": 1 / LARGEST, "w0": -LARGEST}
        most = {"w0_seed": LARGEST_SEED, "pool_seed": LARGEST_SEED}
        for name in LAW_FIELDS:
            value, low, high = getattr(self, name), least.get(name, 0), most.get(name, LARGEST)
            if name != "inputs" and not low <= value <= high:
                raise BadInput(f"{name} must be from {low:g} to {high:g}, got {value:g}")
        for seed, of in (("w0_seed", "w0_random"), ("pool_seed", "pool")):
            if getattr(self, seed) and not getattr(self, of):
                raise BadInput(f"{seed} chooses nothing without {of}")

    @property
    def chosen(self) -> dict[str, float | int | str]:
        """The fields that differ from the plain law."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    @property
    def words(self) -> str:
        """The law as a user writes it, which `law` reads back; empty for the plain one."""
        return ",".join(f"{name}={value}" for name, value in self.chosen.items())

    def eigenvalues(self, d: int) -> tuple[float, ...]:
        """Return the diagonal of Sigma, shape (d,), whose sum is d up to rounding; exactly ones for the plain law."""
        raw = [(self.spike if i == 1 else 1.0) * i**-self.decay for i in range(1, d + 1)]
        whole = sum(raw)
        return tuple(d * value / whole for value in raw)

    def fourth_moment(self, d: int) -> int | Fraction:
        """Return the exact c with E[|xi|^2 xi xi^T] = c I.

        It is d + 2 + the excess kurtosis for independent entries, and d on the sphere.
        """
        return d if self.inputs == "sphere" else d + 2 + KURTOSIS[self.inputs]


LAW_FIELDS = tuple(field.name for field in fields(Law))
PLAIN = Law()


def law(given: Mapping[str, str]) -> Law:
    """Return the law that a user's words name, given by field.

    Raises BadInput, in one line, for an unknown field and for a value that it cannot have.
    """
    values: dict[str, float | int | str] = {}
    for name, value in given.items():
        if name not in LAW_FIELDS:
            takes = f"beside d, n, sigma and scored it takes {', '.join(LAW_FIELDS)}"
            raise BadInput(f"regression has no {name!r}; {hint(name, ('scored', *LAW_FIELDS), takes)}")
        kind = type(getattr(PLAIN, name))
        try:
            values[name] = kind(value.strip())
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise BadInput(f"regression: {name} must be {what}, got {value!r}") from None
    try:
        return Law(**values)  # type: ignore[arg-type]
    except BadInput as error:
        raise BadInput(f"regression: {error}") from None
