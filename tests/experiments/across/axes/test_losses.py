"""What ridge and the toy lose on other laws, against prompts that are drawn and against what is known elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.across.axes import losses
from experiments.across.axes.losses import drawn, ridge_on_law, toy_loss
from experiments.across.axes.points import ITSELF, Shift, Trained
from experiments.across.ladder.rungs import plan_of
from experiments.training.comparing import TOY
from icl.prompts import Generator, RegressionTask
from theory.errors import BadInput
from theory.plans.law import Law
from theory.plans.setting import Setting
from theory.prompts import regression
from theory.prompts.pool import ridge
from theory.toy.width import explained_share_at_width

TASK = Setting(2, 4, 0.1)
LAWS = [
    Law(),
    Law(spike=4),
    Law(decay=1.5, w0=-0.7),
    Law(inputs="sphere", w0=1.0),
    Law(inputs="laplace"),
    Law(inputs="rademacher"),
    Law(inputs="uniform"),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.words or "plain")
def test_inputs_have_the_law_s_moments(law):
    for d in (1, 3):
        x = drawn(law, d, 5, 40_000)
        powers = np.array(law.eigenvalues(d))
        flat = x.transpose(0, 2, 1).reshape(-1, d)
        assert np.allclose(flat.mean(0), 0, atol=0.03)
        assert np.allclose(flat.T @ flat / len(flat), np.diag(powers), atol=0.06)
        white = flat / np.sqrt(powers)
        fourth = ((white**2).sum(1)[:, None] * white**2).mean(0)
        assert np.allclose(fourth, float(law.fourth_moment(d)), rtol=0.08)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.words or "plain")
@pytest.mark.parametrize(("d", "n", "sigma"), [(1, 1, 0.5), (2, 4, 0.5), (3, 2, 1.0)])
def test_ridge_loses_on_drawn_prompts_what_is_said(law, d, n, sigma):
    task = RegressionTask(d, n, sigma, law)
    penalty, mean = 0.3, 0.2 * np.eye(d)
    prompts = task.sample(20_000, Generator(9, 9))
    x, y = prompts.x.double().numpy(), prompts.y.double().numpy()
    found = ridge(x, y - mean @ x, penalty**0.5) + np.einsum("ij,bj->bi", mean, x[:, :, -1])
    errors = ((found - y[:, :, -1]) ** 2).sum(1)
    said = ridge_on_law(law, Setting(d, n, sigma), task.w0.numpy(), penalty=penalty, around=mean)
    allowed = 4 * (errors.std() / len(errors) ** 0.5 + said.stderr)
    assert abs(errors.mean() - said.value) < allowed < 0.2 * said.value


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_posterior_mean_is_ridge_s_plain_number(d):
    task = Setting(d, 3, 0.6)
    said = ridge_on_law(Law(), task, np.zeros((d, d)), penalty=0.36, around=np.zeros((d, d)))
    known = regression.ridge(d, 3, 0.6)
    assert abs(said.value - known.value) < 4 * (said.stderr + known.stderr)
    for wrong in (0.1, 1.0):  # no other penalty loses less, on the same inputs
        assert ridge_on_law(Law(), task, np.zeros((d, d)), penalty=wrong, around=np.zeros((d, d))).value > said.value
    with pytest.raises(BadInput, match="a penalty must be positive"):
        ridge_on_law(Law(), task, np.zeros((d, d)), penalty=0, around=np.zeros((d, d)))


def share(variant, task, trained, test, width, *, means=None, averages=False):
    d = task.d
    zero = np.zeros((d, d))
    loss = toy_loss(plan_of(variant, TOY), task, trained, test, means or (zero, zero), width, averages=averages)
    noise = task.d * float(task.sigma if test.sigma is None else test.sigma) ** 2
    w0 = (means or (zero, zero))[1]
    signal = d**2 + float((w0**2 * test.law.eigenvalues(d)).sum())
    return None if loss is None else (signal + noise - loss) / signal


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 9),
    st.floats(0, 2),
    st.sampled_from(["vanilla", "skipv1", "resformer", "svformer", "skipv0", "cla-v"]),
    st.integers(0, 5),
)
def test_where_it_was_trained_it_explains_what_the_toy_does(d, n, sigma, variant, more):
    task, test = Setting(d, n, sigma), Shift(name=ITSELF)
    known = explained_share_at_width(plan_of(variant, TOY), d, n, sigma, d + more)
    assert share(variant, task, Trained(name="plain"), test, d + more) == pytest.approx(known)
    assert share(variant, task, Trained(name="plain"), test, d + more, averages=True) == pytest.approx(known)


def test_around_w0_it_explains_that_and_its_share_of_the_rest():
    """The theorem of `theory.skipv1.bias`, at d = 2: gaps are those of W0 = 0, over a larger signal."""
    law, w0 = Law(w0=1.0), np.eye(2)
    there = Trained(name="around", law=law)
    for variant, entries in (("vanilla", 1), ("skipv1", 4)):
        found = share(variant, TASK, there, Shift(name=ITSELF, law=law), 2, means=(w0, w0))
        assert found == pytest.approx((2 + entries * TASK.signal_share) / 6)


@pytest.mark.parametrize("kept", [1.0, 0.5])
def test_around_w0_and_tested_elsewhere_it_loses_what_its_step_does(kept):
    """W0 + lambda (S_yx - W0 S_xx), prompt by prompt; with half of W0 instead it is another number."""
    w0, zero = np.eye(2), np.zeros((2, 2))
    prompts = RegressionTask(2, 4, 0.1).sample(40_000, Generator(9, 8))
    x, y = prompts.x.double().numpy(), prompts.y.double().numpy()
    step = 1 / (TASK.n + TASK.d + 1 + TASK.sigma**2)
    matrix = kept * w0 + step * (y - kept * w0 @ x)[:, :, :-1] @ x[:, :, :-1].mT
    errors = ((np.einsum("bij,bj->bi", matrix, x[:, :, -1]) - y[:, :, -1]) ** 2).sum(1)
    there = Trained(name="around", law=Law(w0=1.0))
    said = toy_loss(plan_of("skipv1", TOY), TASK, there, Shift(name="plain"), (w0, zero), 2, averages=False)
    assert (abs(errors.mean() - said) < 4 * errors.std() / len(errors) ** 0.5) == (kept == 1)


def test_lengths_count_for_sums_and_not_for_means():
    longer, plain = Shift(name="long", pairs=16), Trained(name="plain")
    sums, averages = (share("skipv1", TASK, plain, longer, 2, averages=x) for x in (False, True))
    assert sums < 0 < TASK.signal_share < averages


def test_the_prediction_falls_with_the_theory_it_rests_on(monkeypatch):
    spiked = Trained(name="spiked", law=Law(spike=4))
    test, before = Shift(name=ITSELF, law=spiked.law), share("vanilla", TASK, spiked, Shift(name="p"), 2)
    own = share("vanilla", TASK, spiked, test, 2)
    assert own > share("vanilla", TASK, Trained(name="plain"), Shift(name=ITSELF), 2)
    honest = losses.trained_columns
    monkeypatch.setattr(losses, "trained_columns", lambda *of: 0.5 * honest(*of))
    assert share("vanilla", TASK, spiked, test, 2) < own
    assert share("vanilla", TASK, spiked, Shift(name="p"), 2) != before


def test_what_the_toy_does_not_know():
    plain, pool = Trained(name="plain"), Trained(name="pool", law=Law(pool=3))
    assert share("vanilla", TASK, pool, Shift(name=ITSELF, law=pool.law), 2) is None
    assert share("attnres", TASK, plain, Shift(name=ITSELF), 2) is None
    assert share("vanilla", TASK, replace(plain, law=Law(inputs="sphere")), Shift(name=ITSELF), 2) is None
    moved = (np.zeros((2, 2)), np.eye(2))
    spiked = Trained(name="spiked", law=Law(spike=4))
    around = Shift(name="W0", law=Law(w0=1.0))
    assert share("vanilla", TASK, spiked, around, 2, means=moved) is None  # which output it sees decides
    assert share("skipv1", TASK, spiked, around, 2, means=moved) is not None
