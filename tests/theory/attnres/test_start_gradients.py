"""Sizes and gradients at initial weights: slopes and mean squares by another quadrature, and what depth conserves."""

from fractions import Fraction
from itertools import accumulate
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtr

from theory.attnres import typical
from theory.attnres.initial import initial_reads
from theory.attnres.start_gradients import sent_back, slope, start_gradients
from theory.plans.names import resolve
from theory.plans.presets import llama

POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(200)
BY_SUM = {
    "gelu": (lambda a: a * ndtr(a), lambda a: ndtr(a) + a * np.exp(-(a**2) / 2) / sqrt(2 * np.pi)),
    "silu": (lambda a: a * expit(a), lambda a: expit(a) * (1 + a * (1 - expit(a)))),
}


@given(st.floats(1e-4, 8), st.sampled_from(["gelu", "silu", "swiglu"]))
def test_slopes_by_gauss_and_hermite(q, kind):
    of, bend = BY_SUM["silu" if kind == "swiglu" else kind]
    ratio = q * (WEIGHTS @ bend(sqrt(q) * POINTS) ** 2) / (WEIGHTS @ of(sqrt(q) * POINTS) ** 2)
    assert slope(q, kind) == pytest.approx(ratio + (kind == "swiglu"), rel=1e-6)


@given(st.integers(1, 6), st.integers(1, 40), st.floats(1e-3, 1), st.booleans())
def test_the_gradient_falls_as_the_stream_grows(layers, width, std, scale):
    """Attention alone: of width d, E ||G_l||^2 times the stream's mean square is nearly the same at all l."""
    d = 2 * width
    config = llama(d_model=d, n_heads=1, n_layers=layers, d_ff=0, vocab=2, context=2)
    plan = resolve("vanilla", config.shape)
    squares = np.array(start_gradients(config, plan, std, scale_outputs=scale))
    streams = np.array(initial_reads(config, plan, std, scale_outputs=scale))
    through = np.cumsum(squares[::-1])[::-1]  # E ||G_l||^2, as G_l is the sum of later b
    growth = streams[1:] / streams[:-1] - 1
    assert through[:-1] / through[1:] == pytest.approx(1 + (1 - 1 / d) * growth)
    assert squares[-1] == 1


SIZES_OF_OUTPUTS = st.lists(st.fractions(Fraction(1, 100), 100), min_size=2, max_size=8)


@given(SIZES_OF_OUTPUTS)
def test_linear_maps_send_back_what_the_inverse_of_the_stream_loses(outputs):
    """chi = 1, in Fractions: proportional to 1 / s_l - 1 / s_{l+1}, the last one to 1 / s_M."""
    inverses = [1 / s for s in accumulate(outputs)]
    lost = [one - other for one, other in zip(inverses, [*inverses[1:], 0], strict=True)]
    assert sent_back(outputs, [1] * (len(outputs) - 1)) == [x / lost[-1] for x in lost]


@given(SIZES_OF_OUTPUTS, st.sampled_from([0, 1, 2]))
def test_what_is_sent_back_adds_up_to_a_product(outputs, chi):
    squares, streams = sent_back(outputs, [chi] * (len(outputs) - 1)), list(accumulate(outputs))
    through = Fraction(1)
    for output, stream in zip(outputs[1:], streams, strict=False):
        through *= 1 + chi * output / stream
    assert sum(squares) == through


@given(st.integers(1, 5), st.sampled_from([1, 2, 3]))
def test_depth_attention_has_prenorm_s_times_the_number_of_sources(layers, size):
    config = llama(d_model=8, n_heads=2, n_layers=layers, d_ff=5, vocab=2, context=2)
    prenorm, block = (
        start_gradients(config, resolve(name, config.shape)) for name in ("vanilla", f"attnres-block:size={size}")
    )
    counts = [1 + -(-i // size) for i in range(2 * layers + 1)]
    assert block == pytest.approx([b * k**2 for b, k in zip(prenorm, counts, strict=True)])


@given(st.floats(1e-4, 1e3))
@settings(max_examples=20)
def test_gelu_s_closed_form_is_its_quadrature(q):
    assert typical.inner_square(q, "gelu") == pytest.approx(typical._inner_moment(q, "gelu", 2), rel=1e-7)
