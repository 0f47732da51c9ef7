"""What first tells which value belongs to which key: which heads read copies, and which plans are refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.plans.mix import v
from theory.plans.plan import Shape, plan
from theory.toy import pairing
from theory.toy.pairing import Weights

TWO = Shape(2, 2)


def drawn(seed, *, keys=2, values=3, d=4, width=2, heads=2):
    rng = np.random.default_rng(seed)
    maps = rng.normal(size=(3, 2, heads, width, d))
    codes = (rng.normal(size=(count, d)) for count in (keys, values, values))
    return Weights(*codes, *maps, output=rng.normal(size=(2, heads, d, width)))


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_head_on_the_first_values_reads_no_copy(seed):
    """So for it nothing depends on what layer 1 copies of values but through the scores."""
    weights = drawn(seed)
    shared = plan(TWO, values=lambda n, h: v(1, h))
    other = replace(weights, value=np.stack([weights.value[0], 0 * weights.value[1]]))
    assert pairing.leading_lead(shared, weights, 3, 2) == pairing.leading_lead(shared, other, 3, 2)
    nothing_copied = replace(weights, output=np.stack([0 * weights.output[0], weights.output[1]]))
    assert pairing.leading_lead(plan(TWO), nothing_copied, 3, 2) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("refused", "n", "query", "why"),
    [
        (plan(TWO), 1, 1, "n must be a whole number from 2, got 1"),
        (plan(TWO), 2, 3, "there are 2 queries, got number 3"),
        (plan(TWO), 2, 0, "query must be a whole number from 1, got 0"),
        (plan(Shape(3, 2)), 2, 1, "for two layers with a residual stream"),
        (plan(TWO, beside=lambda n, h: v(1, h)), 2, 1, "nothing beside the attention"),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(refused, n, query, why):
    with pytest.raises(BadInput, match=why):
        pairing.leading_lead(refused, drawn(0), n, query)
