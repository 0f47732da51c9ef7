"""Sizes at initial weights against decoders of many seeds."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from experiments.attnres.networks import read_norms
from icl.models.decoder import Decoder
from tests.theory.attnres.sizes import SIZES, plan_of
from theory.attnres import initial
from theory.errors import BadInput
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
