"""Laws of prompts as data: what makes one, how it is written, what it says."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.plans.identity import canonical, text
from theory.plans.law import KURTOSIS, LAW_FIELDS, PLAIN, Law, law

positive = st.floats(0.01, 100)
laws = st.builds(
    Law,
    spike=positive,
    decay=st.floats(0, 4),
    inputs=st.sampled_from(["normal", "rademacher", "uniform", "laplace", "sphere"]),
    w0=st.floats(-9, 9),
    w0_random=positive,
    w0_seed=st.integers(0, 2**32 - 1),
    pool=st.integers(1, 10**9),
    pool_seed=st.integers(0, 2**32 - 1),
)


def read(words):
    return law(dict(word.split("=") for word in words.split(",")) if words else {})


@given(laws)
def test_words_are_read_back(given_law):
    assert read(given_law.words) == given_law


@given(laws)
def test_what_is_plain_enters_no_identity(given_law):
    assert canonical(given_law) == given_law.chosen
    assert Law(**canonical(given_law)) == given_law
    assert text(PLAIN) == "Law()"
    assert (PLAIN.words, PLAIN.chosen) == ("", {})


def test_equal_laws_are_one():
    assert read("spike=4, w0=-2".replace(" ", "")) == Law(spike=4, w0=-2) == Law(spike=4.0, w0=-2.0)
    assert Law(spike=4).words == Law(spike=4.0).words == "spike=4.0"


@given(laws, st.integers(1, 9))
def test_eigenvalues(given_law, d):
    found = given_law.eigenvalues(d)
    assert sum(found) == pytest.approx(d)
    assert all(x > 0 for x in found)
    raw = [i**-given_law.decay for i in range(1, d + 1)]
    for value, by in zip(found[1:], raw[1:], strict=True):
        assert found[0] / value == pytest.approx(given_law.spike * raw[0] / by)


def test_plain_eigenvalues_are_exactly_one():
    assert all(PLAIN.eigenvalues(d) == (1.0,) * d for d in range(1, 40))
    assert Law(spike=3).eigenvalues(3) == pytest.approx((9 / 5, 3 / 5, 3 / 5))
    assert Law(decay=1).eigenvalues(2) == pytest.approx((4 / 3, 2 / 3))


def test_fourth_moments_are_exact():
    found = {inputs: Law(inputs=inputs).fourth_moment(3) for inputs in (*KURTOSIS, "sphere")}
    assert found == {"normal": 5, "rademacher": 3, "uniform": Fraction(19, 5), "laplace": 8, "sphere": 3}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("covariance=1", "regression has no 'covariance'; beside d, n, sigma and scored it takes spike, decay, inputs"),
        ("spike=0", "regression: spike must be from 1e-09 to 1e"),
        ("spike=nan", "regression: spike must be a finite number"),
        ("spike=inf", "regression: spike must be a finite number"),
        ("decay=-1", "regression: decay must be from 0"),
        ("decay=x", "regression: decay must be a number, got 'x'"),
        ("inputs=gauss", "regression: inputs must be one of normal, rademacher, uniform, laplace, sphere, got gauss"),
        ("w0=1e10", "regression: w0 must be from -1e"),
        ("pool=2.5", "regression: pool must be a whole number, got '2.5'"),
        ("pool=-1", "regression: pool must be from 0"),
        ("pool_seed=1", "regression: pool_seed chooses nothing without pool"),
        ("w0=1,w0_seed=1", "regression: w0_seed chooses nothing without w0_random"),
        ("pool=2,pool_seed=4294967296", "regression: pool_seed must be from 0 to 4"),
    ],
)
def test_bad_words_are_told_in_one_line(words, said):
    with pytest.raises(BadInput) as error:
        read(words)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [{"pool": 2.0}, {"pool": True}, {"spike": "4"}, {"inputs": 3}, {"w0": None}])
def test_bad_fields_are_told(bad):
    with pytest.raises(BadInput, match=next(iter(bad))):
        Law(**bad)


def test_every_field_can_be_said():
    assert set(LAW_FIELDS) == set(Law(2, 1, "laplace", 1, 1, 1, 1, 1).chosen)
