"""The law of value skips: nothing explains more, and the closed forms that were there before."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import orth

from theory.errors import BadInput, InvalidSize
from theory.prompts.moments import PromptMoments
from theory.reading.refit import moments
from theory.reading.skip_law import (
    Stack,
    added_explained,
    explained_by,
    least_skip_heads,
    outputs_reached,
    skip_law,
    statistic_moments,
)
from theory.skipv1.general import modes

seeds = st.integers(0, 2**16)
stacks = st.builds(
    lambda width, heads, head_width, part: Stack(
        width=width, heads=heads, head_width=head_width, skip=round(part * heads)
    ),
    st.integers(1, 9),
    st.integers(1, 5),
    st.integers(1, 4),
    st.floats(0, 1),
)


def task(d, n, sigma, seed):
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((3, d, d))
    of_x, rows, columns = (root @ root.T + 0.2 * np.eye(d) for root in roots)
    return PromptMoments(d, n, sigma, covariance=of_x, prior_rows=rows, prior_columns=columns)


@given(st.integers(1, 4), st.integers(1, 9), st.floats(0, 2), stacks, seeds)
def test_nothing_explains_more(d, n, sigma, stack, seed):
    of = task(d, n, sigma, seed)
    most = skip_law(modes(of).explained, stack)
    rng = np.random.default_rng(seed + 1)
    for inputs in range(1, min(stack.width, d) + 1):
        keep = rng.standard_normal((stack.width - inputs, d))
        into = [rng.standard_normal((stack.head_width, len(keep))) @ keep for _ in range(stack.heads - stack.skip)]
        rows = np.concatenate([*into, rng.standard_normal((stack.head_width * stack.skip, d))])
        spans = (orth(some.T).T for some in (rows, rng.standard_normal((inputs, d))))  # far better conditioned
        seen = np.kron(*spans)
        assert explained_by(statistic_moments(of), seen) <= most * (1 + 1e-7) + 1e-9


@given(st.integers(1, 6), stacks, seeds)
def test_more_skip_heads_do_no_harm(d, stack, seed):
    useful = np.sort(np.random.default_rng(seed).uniform(0, 1, (d, d)), axis=0)[::-1]
    useful = np.sort(useful, axis=1)[:, ::-1]
    sums = [skip_law(useful, replace(stack, skip=s)) for s in range(stack.heads + 1)]
    assert sums == sorted(sums)
    if stack.width >= d and stack.heads * stack.head_width >= d:
        enough = least_skip_heads(d, stack)
        assert enough <= stack.heads
        assert outputs_reached(d, d, replace(stack, skip=enough)) == d
        assert enough == 0 or outputs_reached(d, d, replace(stack, skip=enough - 1)) < d


@given(st.integers(2, 9), st.integers(1, 3), st.integers(1, 3), seeds)
def test_added_reads_explain_what_their_residuals_do(count, seen, added, seed):
    rng = np.random.default_rng(seed)
    y, z, more = (rng.standard_normal((count, k)) for k in (2, seen, added))
    beyond = more - z @ np.linalg.lstsq(z, more, rcond=None)[0]
    left = y - z @ np.linalg.lstsq(z, y, rcond=None)[0]
    found = beyond @ np.linalg.lstsq(beyond, left, rcond=1e-9)[0]
    gain = added_explained(moments(y, np.column_stack([z, more])), seen)
    assert gain == pytest.approx((found**2).sum() / count, abs=1e-7)


def test_bad_input():
    good = {"width": 2, "heads": 2, "head_width": 1, "skip": 0}
    for bad in ({"width": 0}, {"heads": 0}, {"head_width": 0}, {"skip": -1}):
        with pytest.raises(InvalidSize):
            Stack(**good | bad)
    with pytest.raises(BadInput):
        Stack(**good | {"skip": 3})
    with pytest.raises(BadInput):
        least_skip_heads(3, Stack(**good))
    with pytest.raises(BadInput):
        statistic_moments(PromptMoments(1, 2, 0.1, np.ones((1, 1))))
    with pytest.raises(BadInput):
        statistic_moments(PromptMoments(1, 2, 0.1, kurtosis=np.ones(1)))
