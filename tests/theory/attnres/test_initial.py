"""Sizes at initial weights: reads of decoders of many seeds, and an activation's mean square by quadrature."""

import math
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.attnres.networks import read_norms
from icl.models.decoder import Decoder
from tests.theory.attnres.sizes import SIZES, plan_of
from theory.attnres import initial, typical
from theory.errors import BadInput, InvalidSize
from theory.plans.names import resolve
from theory.plans.plan import Residual


def test_initial_sizes():
    """On average over initial weights, to four standard errors; one token alone; d_ff > 0: attnres.initial-size."""
    config = replace(SIZES, n_layers=2, n_heads=1, d_ff=0, positions="learned", d_model=3)
    chosen, seeds = resolve("attnres", config.shape), 120
    models = (Decoder(config, chosen, seed=s, std=0.6).double() for s in range(seeds))
    squares = np.array([read_norms(model) for model in models]) ** 2
    expected = initial.initial_reads(config, chosen, 0.6)
    errors = squares.std(0, ddof=1) / sqrt(seeds)
    assert (abs(squares.mean(0) - expected) <= 4 * errors).all()
    assert (errors < 0.25 * np.array(expected)).all()


def test_bad_input():
    with pytest.raises(BadInput):
        initial.initial_outputs(replace(SIZES, norm="none"), plan_of(3, Residual()))
    with pytest.raises(BadInput):
        initial.initial_outputs(replace(SIZES, normed="head"), plan_of(3, Residual()))
    with pytest.raises(BadInput):
        initial.initial_outputs(SIZES, resolve("resformer", SIZES.shape))


@given(st.floats(1e-4, 1e3))
@settings(max_examples=20)
def test_gelu_s_closed_form_is_its_quadrature(q):
    assert typical.inner_square(q, "gelu") == pytest.approx(typical._inner_moment(q, "gelu", 2), rel=1e-7)


@pytest.mark.parametrize(
    "call",
    [
        lambda: typical.attention_square(0, 1, 1, 1.0, 1.0, 1.0),
        lambda: typical.attention_square(1, 1, 1, 1.0, 1.0, 1.5),
        lambda: typical.attention_square(1, 1, 1, 0.0, 1.0, 1.0),
        lambda: typical.feed_forward_square(1, 0, 1.0, 1.0),
        lambda: typical.feed_forward_spread(1, 1, std=math.inf),
        lambda: typical.inner_square(-1.0, "gelu"),
    ],
)
def test_bad_sizes_of_sublayers(call):
    with pytest.raises(InvalidSize):
        call()
