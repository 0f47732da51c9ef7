"""Costs of dynamic values: products, counted one by one.  Memory is in tests/experiments/dva/test_collapse.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.dva.collapse import attended, collapsed, pair_values
from theory.dva.cost import peak_numbers, products
from theory.errors import BadInput, InvalidSize


class Counted:
    """A number that counts the products it takes part in."""

    made = 0

    def __mul__(self, other):
        Counted.made += 1
        return self

    def __add__(self, other):
        return self

    __radd__ = __add__


def counted(tokens, width):
    every = np.empty(tokens * max(tokens, width), dtype=object)
    every[:] = [Counted() for _ in every]
    return every[: tokens * tokens].reshape(tokens, tokens), every[: tokens * width].reshape(tokens, width)


@given(st.sampled_from(["revised", "initial"]), st.sampled_from(["pairs", "collapsed"]), st.integers(1, 5), st.data())
def test_products_are_as_many_as_are_made(form, way, tokens, data):
    width = data.draw(st.integers(1, 5))
    shares, v = counted(tokens, width)
    Counted.made = 0
    if way == "pairs":
        attended(shares, pair_values(form, v, v, v))
    else:
        collapsed(form, shares, v, v, v)
    assert products(form, way, tokens, width) == Counted.made + tokens**2 * width  # of the scores


def test_bad_input():
    with pytest.raises(BadInput):
        products("transposed", "pairs", 2, 2)
    with pytest.raises(InvalidSize):
        peak_numbers("revised", "pairs", 0, 2)
