"""The campaign's recipe, its lengths and what they share; an arm's own rate, from parabolas of a known lowest point."""

import math
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from experiments.campaign.pool import Pool
from experiments.campaign.profiles import CAMPAIGN
from experiments.campaign.question import CONTROL, TWIN, Config, Group
from experiments.campaign.rates import OwnRate, at_width, ends, octaves_apart, own_rate
from experiments.campaign.setting import FAN_IN, LINES, Cell, Sweep
from experiments.experiment.execution import execute, prepare
from experiments.store.folders import Slot, Unfinished
from experiments.training.trunks import trunks
from experiments.training.tuning import untuned
from tests.experiments.campaign.conftest import Asking
from theory.errors import BadInput

WIDTHS = (32, 48, 64, 80)
CELL = Cell(variant="svformer", width=48, rate=8e-3)


@pytest.mark.parametrize("width", WIDTHS)
def test_lengths_are_met_to_within_half_a_line_of_the_shortest(width):
    for length in CAMPAIGN.lengths:
        found = CAMPAIGN.tokens(width, length) / CAMPAIGN.parameters(width)
        assert abs(found / length - 1) < 0.5 / LINES
    assert [b / a for a, b in pairwise(CAMPAIGN.steps(width, at) for at in CAMPAIGN.lengths)] == [2.0] * 5


def test_no_token_is_read_twice():
    assert CAMPAIGN.tokens(max(WIDTHS), max(CAMPAIGN.lengths)) <= CAMPAIGN.corpus.tokens


@pytest.mark.parametrize("width", WIDTHS)
def test_a_training_of_all_lengths_is_one_trunk_with_cool_downs_of_a_fifth(width):
    arms = list(CAMPAIGN.arms(replace(CELL, width=width), 3).values())
    (trunk,) = trunks(arms)
    longest = arms[-1].recipe
    assert trunk.steps() == round(0.8 * longest.steps + 0.2 * sum(arm.recipe.steps for arm in arms))
    for arm in arms:
        falls = arm.recipe.begins_to_fall()
        assert falls == round(0.8 * arm.recipe.steps)
        assert falls % arm.recipe.log_every == 0
        assert [arm.recipe.rate(s) for s in range(falls)] == [longest.rate(s) for s in range(falls)]


def test_a_training_is_known_without_its_text():
    assert CAMPAIGN.arms(CELL, 0)[5.0].key("cpu") == CAMPAIGN.arms(CELL, 0, "anywhere")[5.0].key("cpu")


def test_what_makes_another_training():
    others = ({"rate": 4e-3}, {"std": FAN_IN}, {"twin": 1}, {"twin": 2}, {"width": 64}, {"variant": "vanilla"})
    arms = [CAMPAIGN.arms(replace(CELL, **other), 0)[2.5] for other in ({}, *others)]
    assert len({arm.key("cpu") for arm in arms}) == len(arms)
    assert arms[2].std == pytest.approx(48**-0.5)


def test_every_twin_has_weights_of_its_own_on_the_same_data():
    arms = [CAMPAIGN.arms(replace(CELL, width=32, twin=twin), 0)[2.5] for twin in (0, 1, 2)]
    first = [next(arm.model("cpu").parameters()).sum().item() for arm in arms]
    assert len(set(first)) == 3
    assert len({arm.seed for arm in arms}) == 1


def test_lengths_that_do_not_double_are_refused():
    with pytest.raises(BadInput, match="twice"):
        replace(CAMPAIGN, lengths=(1.0, 3.0))


# Rates.

RATES = (4e-3, 8e-3, 16e-3)


def parabola(best, seeds=4, curved=0.1, noise=()):
    """Losses by rate of seeds that differ by a constant, and by `noise` in where they are lowest."""
    places = [math.log2(best) + shift for shift in (noise or [0.0] * seeds)]
    return {rate: [3 + seed + curved * (math.log2(rate) - at) ** 2 for seed, at in enumerate(places)] for rate in RATES}


@given(st.floats(5.7e-3, 11.2e-3), st.floats(1e-3, 10.0))
def test_the_lowest_point_of_a_parabola_is_found(best, curved):
    found = own_rate(parabola(best, curved=curved))
    assert found.rate == pytest.approx(best, rel=1e-9)
    assert found.octaves == pytest.approx(0, abs=1e-9)
    assert not found.edge


@pytest.mark.parametrize(("best", "end"), [(1e-3, 4e-3), (1.0, 16e-3)])
def test_a_rate_beyond_those_tried_is_an_edge(best, end):
    assert own_rate(parabola(best)) == OwnRate(pytest.approx(end), None, True)
    assert ends(parabola(best)) is None
    assert math.isnan(octaves_apart(parabola(best), parabola(8e-3)).mean)


def test_without_one_of_the_seeds_it_is_an_edge():
    """Its error would be that of a place which cannot lie farther out."""
    found = own_rate(parabola(11.2e-3, noise=[0.9, -0.2, 0.0, -0.7], curved=1.0))
    assert (found.octaves, found.edge) == (None, False)
    assert found.rate < 16e-3


def test_what_remains_where_one_diverged_may_be_an_edge():
    losses = parabola(8e-3)
    losses[16e-3][2] = None
    assert own_rate(losses) == OwnRate(pytest.approx(8e-3), None, True)
    reasons = untuned({"own_rates": {"shared-keys, qk-norm": asdict(own_rate(losses))}})
    assert reasons == {"shared-keys with qk-norm": "its best learning rate, 0.008, is an end of those tried"}
    assert untuned({"own_rates": {"vanilla": asdict(own_rate(parabola(8e-3)))}}) == {}


def test_the_error_is_that_of_a_mean_over_seeds():
    """Of parabolas that are alike but for their place the vertex of the mean is the mean place."""
    shifts = [0.1, -0.2, 0.05, 0.15]
    losses = parabola(8e-3, noise=shifts)
    best = own_rate(losses)
    assert best.rate == pytest.approx(8e-3 * 2 ** np.mean(shifts))
    assert best.octaves == pytest.approx(np.std(shifts, ddof=1) / 2)
    mean, reach = np.mean(shifts), t.ppf(0.975, df=3) * np.std(shifts, ddof=1) / 2
    assert ends(losses) == pytest.approx((8e-3 * 2 ** (mean - reach), 8e-3 * 2 ** (mean + reach)))


def test_what_both_arms_have_in_common_is_no_error_of_their_difference():
    shifts = [0.1, -0.2, 0.05, 0.05]
    apart = octaves_apart(parabola(9e-3, noise=shifts), parabola(8e-3, noise=shifts))
    assert apart.mean == pytest.approx(math.log2(9 / 8))
    assert apart.half_width == pytest.approx(0, abs=1e-9)
    other = octaves_apart(parabola(9e-3, noise=shifts), parabola(8e-3))
    assert other.stderr == pytest.approx(np.std(shifts, ddof=1) / 2)
    assert other.half_width == pytest.approx(3.182446 * other.stderr, rel=1e-6)


def test_a_rate_at_which_a_training_diverged_is_no_candidate():
    losses = parabola(16e-3)
    losses[16e-3][2] = None
    assert own_rate(losses).rate == pytest.approx(8e-3)
    with pytest.raises(ValueError, match="at every"):
        own_rate({rate: [None, 3.0] for rate in RATES})


def test_rates_fall_with_the_root_of_the_width():
    assert at_width(8e-3, 32, 128) == 4e-3
    assert at_width(8e-3, 32, 48) == 6.5e-3


@pytest.fixture
def slot(text):
    return Slot(jobs=1, data=str(text))


@pytest.fixture
def sweeping(setting):
    sweep = Sweep(rates=(5e-3, 1e-2, 2e-2), width=8, until=0.625, seeds=2)
    question = Asking(replace(setting, sweep=sweep), 8)
    profile = question.profiles["cpu"]
    group = Group(arms=("shared-keys",), width=16, rate=None, until=0.625)
    question.profiles = {"cpu": replace(profile, config=Config(setting=profile.config.setting, groups=(group,)))}
    return question


def test_an_arm_that_diverges_at_every_rate_has_none(sweeping, tmp_path, slot, monkeypatch, capsys):
    """And its group is left out, with a line that says why."""
    config = sweeping.profiles["cpu"].config

    def trained(_, missing, *__):
        return {arm: {"loss": None if arm.variant == "shared-keys" else 3.0} for arm in missing}

    monkeypatch.setattr(Pool, "train", trained)
    with pytest.raises(Unfinished, match="12 of 20 trainings are finished"):
        execute(prepare(sweeping, "cpu", None, tmp_path, slot))
    assert "a training diverged at every learning rate tried, so that shared-keys has none" in capsys.readouterr().err
    assert len(sweeping.every(config, 2, Pool(tmp_path))) == 20


@pytest.mark.long
def test_each_arm_ends_at_the_rate_of_its_own_sweep(sweeping, tmp_path, text):
    job = prepare(sweeping, "cpu", None, tmp_path, Slot(jobs=1, data=str(text)))
    execute(job)
    found = job.run.read("measurement.json")
    ((name, group),) = found["groups"].items()
    assert name == "width 16, own rates, initial weights 0.02"
    config = sweeping.profiles["cpu"].config
    records = Pool(tmp_path).finished(sweeping.every(config, 2, Pool(tmp_path)))
    for arm, swept in sweeping.sweeps(config).items():
        losses = {rate: [records[of_seed[0.625]]["loss"] for of_seed in seeds] for rate, seeds in swept.items()}
        assert found["own_rates"][arm]["rate"] == own_rate(losses).rate
        assert group["rates"][arm] == at_width(own_rate(losses).rate, 8, 16)
    assert group["rates"]["vanilla"] == group["rates"][TWIN] == group["rates"][CONTROL]
    assert found["left_out"] == []


def test_a_group_waits_until_its_rates_are_known(sweeping, tmp_path):
    config = sweeping.profiles["cpu"].config
    assert len(sweeping.every(config, 2, Pool(tmp_path))) == 3 * 2 * 2 + 4 * 2
    needed = sweeping.trainings(config, 2)["width 16, own rates, initial weights 0.02"]
    assert needed[0]["shared-keys"][0.625].recipe.learning_rate == at_width(1e-2, 8, 16)  # to say how long it takes


def test_what_a_sweep_and_a_group_share_counts_once(sweeping, tmp_path):
    """A group at a rate of the sweep and at its width."""
    config = sweeping.profiles["cpu"].config
    both = replace(config, groups=(*config.groups, Group(arms=("shared-keys",), width=8, rate=1e-2, until=0.625)))
    every = sweeping.every(both, 2, Pool(tmp_path))
    assert len(every) == len(set(every)) == 3 * 2 * 2 + 4 * 2 + 2 * 2
