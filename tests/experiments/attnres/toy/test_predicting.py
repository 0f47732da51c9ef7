"""`attnres-toy` predicts what theory says, without torch."""

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import pytest

from experiments.attnres.toy.toys import NETWORKS, answer, predicted, start
from tests.experiments.attnres.toy.made_up import EXPERIMENT, SMOKE
from theory.plans.setting import Setting
from theory.prompts.regression import steps, trace_moments
from theory.prompts.spectral import noise_threshold

CPU = EXPERIMENT.profiles["cpu"].config


@pytest.fixture(scope="module")
def prediction():
    return predicted(replace(SMOKE, deep=(Setting(5, 8, 2.0),), layers=(2, 4), noises=(1.0, 2.0)))


def test_one_layer_by_hand(prediction):
    """The last read is (x ; Y (1 - b X^T X)) in a residual stream, and half of it under Full."""
    d, n, noise, b = SMOKE.task.d, SMOKE.task.n, Fraction(SMOKE.task.sigma) ** 2, Fraction(SMOKE.step)
    one, two, three = trace_moments(d, n, 4)[1:4]
    signal = one - 2 * b * two + b**2 * three
    of_noise = noise * (n - 2 * b * one + b**2 * two)
    expected = d + d * (signal + of_noise) / n
    for rule, share in (("vanilla", 1), ("attnres", Fraction(1, 4))):
        assert prediction["curves"][f"descent/{rule}"][0] == pytest.approx(float(share * expected))


def test_curves_pass_through_what_is_measured(prediction):
    for kind, rule, depth in SMOKE.starts():
        square = prediction["start"][start(kind, rule, depth, "context")]
        assert prediction["curves"][f"{kind}/{rule}"][depth - 1] == square


def test_a_residual_stream_explodes_and_full_falls():
    found = predicted(replace(CPU, deep=(), noises=()))["curves"]
    residual, full = found["descent/vanilla"], found["descent/attnres"]
    assert residual[7] < residual[0] < residual[15] < 1e-4 * residual[19]
    assert full[19] * 21**2 == pytest.approx(full[9] * 11**2, rel=0.05)
    assert found["descent/attnres-block:blocks=4"][19] > 0.8 * found["descent/attnres-block:blocks=4"][9]


def test_bounded_are_those_with_norms_before_sublayers_and_weights_over_depth(prediction):
    assert set(prediction["bounded"]) == {
        name for name, x in NETWORKS.items() if x.normed and x.variant not in ("vanilla", "denseformer")
    }


def test_means_over_depth_by_hand(prediction):
    """After one layer the stream is the mean of the embedding and of it with the layer's output."""
    d, n, noise, b = SMOKE.task.d, SMOKE.task.n, Fraction(SMOKE.task.sigma) ** 2, Fraction(SMOKE.step) / 2
    one, two, three = trace_moments(d, n, 4)[1:4]
    expected = d + d * (one - 2 * b * two + b**2 * three + noise * (n - 2 * b * one + b**2 * two)) / n
    assert prediction["curves"]["descent/denseformer"][0] == pytest.approx(float(expected))


def test_the_deep_toy_loses_what_the_theorem_has(prediction):
    four, two = (prediction["deep"][answer(Setting(5, 8, 2.0), layers)] for layers in (4, 2))
    assert four["depth"] == pytest.approx(31.35, abs=5e-3)
    assert four["residual"] == pytest.approx(31.69, abs=5e-3)
    assert two["residual"] == pytest.approx(steps(5, 8, 2.0, 2).value)
    assert two["one layer"] == pytest.approx(45 - 25 * 8 / 18)
    assert prediction["gains"]["5/8/4"] == [0.0, pytest.approx(four["gain"] / (four["residual"] - 20))]
    assert noise_threshold(5, 8, 4) > 1


def test_no_torch():
    statement = (
        "import sys; from experiments import catalogue; e = catalogue.experiment('attnres-toy'); "
        "e.predict(e.profiles['smoke'].config); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", statement], check=False).returncode == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"prompts": 91}, "equally often"), ({"widths": (2.0, 3.0)}, "as they come")],
)
def test_bad_configs(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMOKE, **changes)
