"""What is measured: keys of two layers at a distance, toys that are trained, and attentions whose scores move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.toys.runs import Point
from experiments.toys.training import Training
from theory.plans.heads import Heads, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

DISTANCE, BETTER = "resformer.linear-distance", "resformer.block-form-better"
SHARP, IN_THE_MEAN = "resformer.block-form-sharp", "resformer.block-form-mean"

CROSS, BLOCK = "cross-layer", "resformer"
TOYS: dict[str, Heads] = {name: toy_heads(resolve(name, Shape(2, 1))) for name in (CROSS, BLOCK)}

WAYS = {  # how layer 1's keys differ from layer 2's
    "x": "in $x$'s tokens",
    "y": "in the $y$ of $y$'s tokens",
    "x of y": "in the $x$ copied into them",
    "copy": "layer 1's $y$ for the copy",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """keys: sizes at which keys are moved apart by `distances`, shares of the keys' own root mean square, on `prompts`
    prompts a seed; trained: the size of the toys; shown: that of the figure's first panel.

    Under a softmax scores move by at most each of `eps`, in attentions over `layers` layers at a time: `climbs` hill
    climbs of `climbing` steps, and `rows` random rows; or normally, with each deviation of `spreads`.
    """

    keys: tuple[Setting, ...]
    distances: tuple[float, ...]
    prompts: int
    trained: Setting
    training: Training
    starts: int
    eps: tuple[float, ...] = (0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    layers: tuple[int, ...] = (2, 8)
    climbs: int = 8
    climbing: int = 4000
    spreads: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 2.0, 4.0)
    rows: int = 4000

    @property
    def shown(self) -> Setting:
        return self.keys[0]


def points(config: Config) -> list[Point]:
    """Both toys at every rank."""
    return [Point(config.trained, toy, rank) for toy in TOYS for rank in range(config.trained.d + 1)]


@dataclass(frozen=True, eq=False)
class Keys:
    """A map from a prompt's tokens to keys, (d, d) each: of_x on x's tokens; x and y, of its two parts, on y's."""

    of_x: NDArray[float64]
    x: NDArray[float64]
    y: NDArray[float64]

    def size(self, size: Setting) -> float:
        """The root of the mean square of a key, n tokens of x and n of y."""
        squares = [float((matrix**2).sum()) for matrix in (self.of_x, self.x, self.y)]
        return float((squares[0] + squares[1] + (size.d + size.sigma**2) * squares[2]) / 2) ** 0.5

    def times(self, factor: float) -> Keys:
        return Keys(factor * self.of_x, factor * self.x, factor * self.y)

    def plus(self, other: Keys) -> Keys:
        return Keys(self.of_x + other.of_x, self.x + other.x, self.y + other.y)


def own_keys(size: Setting) -> Keys:
    """Layer 2's, which see x_t and u_t = (A x_t ; B y_t), half of the numbers each."""
    import numpy as np

    kept = np.diag((np.arange(size.d) < size.d / 2).astype(float))
    return Keys(np.eye(size.d), kept, np.eye(size.d) - kept)


def moved_keys(size: Setting, way: str, distance: float) -> Keys:
    """What layer 1's keys have more than layer 2's, at this share of the latter's root mean square."""
    import numpy as np

    own, eye = own_keys(size), np.eye(size.d)
    zero = 0 * eye
    apart = {
        "x": Keys(eye, zero, zero),
        "y": Keys(zero, zero, eye),
        "x of y": Keys(zero, eye, zero),
        "copy": Keys(zero, -own.x, eye - own.y),
    }[way]
    return apart.times(distance * own.size(size) / apart.size(size))


def distance_key(size: str, way: str, distance: float) -> str:
    return f"{size}/{way}/{distance:g}"
