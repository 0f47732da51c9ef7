"""What `attnres-dilution` predicts is what theory says, without torch."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from experiments import catalogue
from experiments.attnres.dilution.points import ATTENTION, BLOCK, FULL, RULES, cell, place
from experiments.attnres.dilution.predicting import predicted
from experiments.training.comparing import comparing
from tests.faces import imported_by
from theory.attnres.bounds import start_scale
from theory.plans.names import resolve

EXPERIMENT = catalogue.experiment("attnres-dilution")
CPU = EXPERIMENT.profiles["cpu"].config


@pytest.mark.parametrize("profile", EXPERIMENT.profiles)
def test_at_the_start_all_coefficients_have_one_share(profile):
    config = EXPERIMENT.profiles[profile].config
    found = predicted(config)
    for depth in config.depths:
        law = [float(Fraction(1, after + 1)) for after in range(2 * depth + 1)]
        assert found["law"][str(depth)] == law
        for rule in ATTENTION:
            assert found["start"].get(cell(rule, depth), law) == law
    assert set(found["start"]) | set(found["same"]) == {cell(*at) for at in _all(config)}
    json.dumps(EXPERIMENT.predict(config), allow_nan=False)


def _all(config):
    return [(rule, depth) for rule in ATTENTION for depth in config.depths]


def test_blocks_grow_to_their_size():
    members = predicted(CPU)["members"]
    assert members[cell(BLOCK, 3)] == [1, 2, 3, 4, 1, 2]
    assert set(members[cell(FULL, 12)]) == {1}
    assert members[cell("attnres-block", 12)] == [1, 2, 3] * 8


def test_a_rule_that_is_another_one_is_not_trained_twice():
    """Eight blocks of six sublayers are Full; of twelve, pairs."""
    prediction = EXPERIMENT.predict(CPU)
    assert prediction["same"] == {"attnres-block/3": "attnres/3"}
    assert place(prediction, "attnres-block", 3) == "attnres/3"
    assert place(prediction, "attnres-block", 6) == "attnres-block/6"
    assert CPU.rules(3) == tuple(RULES)[:-1]
    assert CPU.rules(12) == tuple(RULES)


def test_the_eps_of_the_profiles_moves_nothing_at_the_start_and_the_usual_one_much():
    """Full's last norm has k^2 eps there, k = 25 at twelve layers."""
    for profile in EXPERIMENT.profiles.values():
        found = predicted(profile.config)
        assert max(found["eps_moves"].values()) < 1e-5
    found, square = predicted(CPU), 0.08**2
    expected = 1 - ((square + 1e-5) / (square + 625e-5)) ** 0.5
    assert found["usual_eps_moves"]["12"] == pytest.approx(expected)
    assert 0.2 < expected < 0.4
    sizes = CPU.at(12)
    assert start_scale(sizes, resolve(FULL, sizes.shape))[-1] == 1 / 25


def test_variants_of_a_user_s_own():
    made = comparing(EXPERIMENT, "cpu", ["skipv1", "attnres-window:window=2"])
    config = made.profiles["cpu"].config
    prediction = made.predict(config)
    assert prediction["own"] == ["skipv1", "attnres-window:window=2"]
    assert prediction["same"] == prediction["start"] == prediction["members"] == {}
    assert config.rules(3) == ("vanilla", "skipv1", "attnres-window:window=2")


def test_learning_rates_are_told():
    assert "rule and depth" in EXPERIMENT.predict(CPU)["tuning"]
    assert EXPERIMENT.predict(EXPERIMENT.profiles["smoke"].config)["tuning"].startswith("not tuned")


def test_predictions_take_no_torch():
    statement = (
        "from experiments import catalogue; e = catalogue.experiment('attnres-dilution'); "
        "e.predict(e.profiles['cpu'].config)"
    )
    assert "torch" not in imported_by(statement)


def test_every_depth_has_its_own_architecture():
    assert [sizes.n_layers for sizes in EXPERIMENT.architectures(CPU)] == list(CPU.depths)
    assert CPU.at(7) == replace(CPU.architecture, n_layers=7)
