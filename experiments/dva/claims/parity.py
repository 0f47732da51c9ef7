"""What of a function of the context can help, by the two turns of signs of `theory.dva.first_layer`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def turned(x: Array, y: Array) -> Iterator[tuple[int, Array, Array]]:
    """Under turns of signs of the inputs with the noise, and of W* with the noise, whose sign stands first."""
    for of_x, of_w in product((1, -1), (1, -1)):
        yield of_w, of_x * x, of_x * of_w * y


def helps(x: Array, y: Array, moment: Callable[[Array, Array], Array]) -> Array:
    """The part of a moment of the context that is even under the first turn and odd under the second."""
    return np.asarray(sum(sign * moment(a, b) for sign, a, b in turned(x, y)) / 4)
