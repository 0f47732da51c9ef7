"""Scores of contents in layer 1: above the bounds for positions alone, by Gauss quadrature token by token."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from theory.errors import InvalidSize
from theory.plans.heads import MHA
from theory.toy.content_scores import (
    GAMMA,
    additive_weights,
    best_kappa,
    explained_by_contents,
    positions_ceiling,
)
from theory.toy.positions import most_entries_with_positions


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("gamma", [GAMMA, None])
def test_closed_form_is_what_tokens_give(n, gamma):
    kappa = best_kappa(n)
    nodes, masses = np.polynomial.hermite_e.hermegauss(6)
    grid = np.array(list(product(nodes, repeat=n + 1)))
    mass = np.prod(list(product(masses / masses.sum(), repeat=n + 1)), axis=1)
    x, w = grid[:, :n], grid[:, n]
    y = w[:, None] * x
    tokens = x + (0 if gamma is None else float(gamma)) * y
    values = y if gamma is None else tokens
    answer = (values * tokens).sum(1) * (1 - float(kappa) * (x**2).sum(1))
    found = (mass @ (answer * w)) ** 2 / (mass @ answer**2)
    assert found == pytest.approx(float(explained_by_contents(n, kappa, gamma)), rel=1e-9)


def test_contents_exceed_what_positions_allow():
    shares = [explained_by_contents(n, best_kappa(n)) for n in (1, 2, 4)]
    assert [round(float(share), 3) for share in shares] == [0.197, 0.282, 0.352]
    assert all(share > positions_ceiling(n) for share, n in zip(shares, (1, 2, 4), strict=True))
    assert explained_by_contents(7, best_kappa(7)) < positions_ceiling(7)
    assert all(explained_by_contents(n, best_kappa(n), None) > Fraction(n, n + 2) for n in (1, 2, 50))


def test_positions_alone_stay_below():
    assert most_entries_with_positions(MHA, 1, 1) == 1
    for n in (1, 2, 4):
        assert explained_by_contents(n, Fraction(0)) < positions_ceiling(n)
        assert explained_by_contents(n, Fraction(0), None) == Fraction(n, n + 2)


@pytest.mark.parametrize("refused", [lambda: best_kappa(0), lambda: positions_ceiling(0), lambda: additive_weights(3)])
def test_sizes_are_checked(refused):
    with pytest.raises(InvalidSize):
        refused()
