"""Typical norms against sampled weights, to standard errors, and against quadrature."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from tests.theory.attnres.written_out import attention, feed_forward, softmax, unit
from theory.attnres import typical
from theory.errors import InvalidSize

DRAWS = 4000
ERRORS = 5  # standard errors: each passes wrongly rejected once in 2 million


def near(samples, mean):
    error = samples.std(ddof=1) / math.sqrt(len(samples))
    return abs(samples.mean() - mean) <= ERRORS * error


def squares(kind, d, d_ff, std, written, rng):
    """||output||^2 of one and the same input, under drawn weights."""
    u, found = unit(rng.standard_normal((1, d))), np.empty(DRAWS)
    for i in range(DRAWS):
        gate, up = std * rng.standard_normal((2, d_ff, d))
        down = written * rng.standard_normal((d, d_ff))
        if kind == "silu":
            out = (u @ up.T) * expit(u @ up.T) @ down.T
        else:
            out = feed_forward(gate if kind == "swiglu" else None, up, down, u)
        found[i] = (out**2).sum()
    return found


@pytest.mark.parametrize("kind", ["swiglu", "gelu", "silu"])
@pytest.mark.parametrize(("d", "d_ff", "std"), [(1, 3, 1.5), (5, 2, 0.9)])
def test_feed_forward(kind, d, d_ff, std):
    """And the small weights' q/4 for E z^2 is rejected."""
    found = squares(kind, d, d_ff, std, 0.7, np.random.default_rng(0))
    mean = typical.feed_forward_square(d, d_ff, std, 0.7, kind)
    assert near(found, mean)
    q = d * std**2
    assert not near(found, d * d_ff * 0.7**2 * q / 4 * (q if kind == "swiglu" else 1))
    if kind != "swiglu":  # whose squares' spread is too heavy-tailed to be estimated from so many
        spread = typical.feed_forward_spread(d, d_ff, kind, std=std)
        assert found.std() / found.mean() == pytest.approx(spread, rel=0.2)


def test_the_spread_shrinks_with_width():
    """To that of the d numbers, 2/d, for many inner numbers; large for few."""
    assert typical.feed_forward_spread(10, 10**9, "gelu", std=0.3) == pytest.approx(math.sqrt(2 / 10), rel=1e-6)
    assert typical.feed_forward_spread(10, 1, "gelu", std=0.3) > 1
    # For small q an inner number is a/2, or ab/2: fourth moments 3 and 9.
    assert typical.feed_forward_spread(1, 1, "silu", std=1e-5) == pytest.approx(math.sqrt(3 * 3 - 1), rel=1e-4)
    assert typical.feed_forward_spread(1, 1, "swiglu", std=1e-5) == pytest.approx(math.sqrt(3 * 9 - 1), rel=1e-4)


@given(st.floats(1e-4, 1e3))
@settings(max_examples=20)
def test_gelu_s_closed_form_is_its_quadrature(q):
    assert typical.inner_square(q, "gelu") == pytest.approx(typical._inner_moment(q, "gelu", 2), rel=1e-7)


def test_inner_squares_at_both_ends():
    """a/2 for small q; max(a, 0) for large q, half the variance."""
    for kind, power in (("gelu", 1), ("silu", 1), ("swiglu", 2)):
        assert typical.inner_square(1e-6, kind) == pytest.approx(1e-6**power / 4, rel=1e-5)
        assert typical.inner_square(1e8, kind) == pytest.approx(1e8**power / 2, rel=1e-3)


@pytest.mark.parametrize(("tokens", "share"), [(1, 1.0), (4, 1 / 4), (3, None)])
def test_attention(tokens, share):
    """One token; even attention; two uneven heads, over tokens that are independent and of mean 0."""
    rng, d, heads, width = np.random.default_rng(1), 3, 2, 2
    logits = np.zeros((heads, tokens, tokens)) if share else rng.standard_normal((heads, tokens, tokens))
    if share is None:
        share = float((softmax(logits[:, 0]) ** 2).sum(-1).mean())
    found = np.empty(DRAWS)
    for i in range(DRAWS):
        value, output = 0.6 * rng.standard_normal((heads, width, d)), 0.4 * rng.standard_normal((heads, d, width))
        out = attention(value, output, unit(rng.standard_normal((tokens, d))), logits)
        found[i] = (out[0] ** 2).sum()
    assert near(found, typical.attention_square(d, heads, width, 0.6, 0.4, share))
    assert not near(found, typical.attention_square(d, heads, width, 0.6, 0.4, share * 0.7))


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
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()
