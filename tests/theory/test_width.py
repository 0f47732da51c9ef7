"""The toy at every embedding width: the theorem of `theory.value_maps` where they meet, and constructions elsewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.names import resolve
from theory.plan import Shape
from theory.sizes import InvalidSize
from theory.skipv1 import best_mha_rank, signal_share
from theory.toy import TOYS
from theory.value_maps import explained_share
from theory.width import explained, most_explained


@given(d=st.integers(1, 12))
def test_at_width_d_it_is_the_theorem_s_best_rank(d):
    assert most_explained(TOYS["mha"], d, d) == explained_share(TOYS["mha"], d, best_mha_rank(d))
    assert most_explained(TOYS["skipv1"], d, d) == explained_share(TOYS["skipv1"], d, d)


@given(d=st.integers(1, 12), extra=st.integers(0, 40))
def test_mha_gains_with_every_number_until_both_fit(d, extra):
    here, wider = (most_explained(TOYS["mha"], d, d + e) for e in (extra, extra + 1))
    assert here < wider <= d * d if d + extra < 2 * d else here == wider == d * d
    assert most_explained(TOYS["skipv1"], d, d + extra) == d * d


@given(d=st.integers(1, 6), extra=st.integers(0, 12))
def test_no_division_of_the_width_is_better(d, extra):
    width = d + extra
    divisions = [min(a, d) * min(width - a, d) for a in range(width + 1)]
    assert most_explained(TOYS["mha"], d, width) == max(divisions)


@pytest.mark.parametrize(("d", "a", "b"), [(3, 2, 2), (2, 2, 1), (3, 3, 3), (2, 1, 3)])
def test_mha_s_construction_comes_as_near_as_one_likes(d, a, b):
    """One head at beta -> infinity: its sampled loss is the closed form's, and not that of one more number."""
    n, sigma, prompts, beta = 4, 0.3, 200_000, 1e4
    rng = np.random.default_rng(0)
    x = rng.standard_normal((prompts, d, n))
    w = rng.standard_normal((prompts, d, d))
    y = w @ x + sigma * rng.standard_normal((prompts, d, n))
    s_yx, s_xx, s_yy = y @ x.mT, x @ x.mT, y @ y.mT
    width, rank, rows = a + b, min(a, d), min(b, d)
    read_in = np.eye(width, d)
    copy_x, copy_y = np.eye(width, d) * (np.arange(width) < rank)[:, None], np.zeros((width, d))
    copy_y[a : a + rows] = beta * np.eye(rows, d)
    scale = 1 / (n + d + 1 + sigma**2)
    readout = scale / beta**2 * copy_y.T
    # Raw x tokens, and u = copy_x x + copy_y y in y's; keys and queries are the first `rank` coordinates.
    s_uu = copy_x @ s_xx @ copy_x.T + copy_y @ s_yy @ copy_y.T
    s_uu += copy_y @ s_yx @ copy_x.T + copy_x @ s_yx.mT @ copy_y.T
    p = readout @ (read_in @ s_xx @ read_in.T + s_uu) @ (np.eye(width) * (np.arange(width) < rank)) @ copy_x
    gained = (w**2).sum((1, 2)) - ((p - w) ** 2).sum((1, 2))
    stderr = gained.std() / prompts**0.5
    said = signal_share(d, n, sigma) * min(a, d) * min(b, d)
    assert abs(gained.mean() - said) < 4 * stderr
    assert abs(gained.mean() - said - signal_share(d, n, sigma)) > 4 * stderr


@pytest.mark.parametrize(
    ("variant", "narrow", "wide"), [("vanilla", 0.25, 1), ("skipv0", 0.25, 1), ("resformer", 1, 1), ("svformer", 1, 1)]
)
def test_named_plans(variant, narrow, wide):
    plan = resolve(variant, Shape(2, 2))
    rho = signal_share(4, 8, 0.1)
    assert explained(plan, 4, 8, 0.1, 4) == pytest.approx(rho * narrow)
    assert explained(plan, 4, 8, 0.1, 16) == pytest.approx(rho * wide)


def test_sizes():
    with pytest.raises(InvalidSize, match="width must be a whole number from d = 3, got 2"):
        most_explained(TOYS["mha"], 3, 2)
    assert explained(resolve("cla", Shape(2, 2)), 3, 4, 0.1, 3) == 0
