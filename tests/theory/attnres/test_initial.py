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
from theory.plans.presets import llama


@pytest.mark.parametrize(
    ("changes", "scaled"),
    [({}, True), ({"gated": False, "norm": "layer"}, False), ({"d_ff": 0, "positions": "learned", "d_model": 3}, True)],
)
def test_initial_sizes(changes, scaled):
    """On average over initial weights, to four standard errors; one token alone."""
    config = replace(SIZES, n_layers=2, n_heads=1, **{"d_ff": 3} | changes)
    chosen, seeds = resolve("attnres", config.shape), 120
    models = (Decoder(config, chosen, seed=s, std=0.6, scale_outputs=scaled).double() for s in range(seeds))
    squares = np.array([read_norms(model) for model in models]) ** 2
    expected = initial.initial_reads(config, chosen, 0.6, scale_outputs=scaled)
    errors = squares.std(0, ddof=1) / sqrt(seeds)
    assert (abs(squares.mean(0) - expected) <= 4 * errors).all()
    assert (errors < 0.25 * np.array(expected)).all()


def test_with_scaled_outputs_depth_makes_no_difference():
    """PreNorm's stream at the last read, at the usual scaled initial weights, is as large at 4 layers as at 64."""

    def last(layers, name, scaled=True):
        config = llama(d_model=512, n_heads=8, n_layers=layers, d_ff=1376, vocab=64, context=8)
        return initial.initial_reads(config, resolve(name, config.shape), scale_outputs=scaled)[-1]

    assert last(64, "vanilla") == pytest.approx(last(4, "vanilla"))
    assert last(64, "vanilla", scaled=False) > 10 * last(4, "vanilla", scaled=False)
    assert last(64, "attnres") == pytest.approx(last(64, "vanilla") / 129**2)


def test_bad_input():
    with pytest.raises(BadInput):
        initial.initial_outputs(replace(SIZES, norm="none"), plan_of(3, Residual()))
    with pytest.raises(BadInput):
        initial.initial_outputs(replace(SIZES, normed="head"), plan_of(3, Residual()))
    with pytest.raises(BadInput):
        initial.initial_outputs(SIZES, resolve("resformer", SIZES.shape))
