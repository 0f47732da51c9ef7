"""What is made of many trainings: rounds, what their runs have in common, and learning rates that are picked."""

import json
import math
from dataclasses import replace

import pytest

from experiments.store.folders import Unfinished
from experiments.training import campaign, tuning
from experiments.training.campaign import of_runs, rounds
from experiments.training.tuning import TUNING_SEED, Tuning, mark, tuned, untuned
from tests.experiments.training.small import PROMPTS

PAIR = {"ours": PROMPTS, "theirs": replace(PROMPTS, variant="resformer")}


def answering(monkeypatch, missing=(), loss_of=lambda arm: 1.0):
    """Let `tuned` and `rounds` have the losses and seeds of all arms but `missing`; returns what they ask for."""
    asked = []

    def answer(arms, *_):
        asked.extend(arms)
        return {arm: {"loss": loss_of(arm), "seed": arm.seed} for arm in arms if arm not in missing}

    for module in (campaign, tuning):
        monkeypatch.setattr(module, "train_all", answer)
    return asked


def pair(seed):
    return {name: replace(arm, seed=seed) for name, arm in PAIR.items()}


def test_rounds_are_complete_or_left_out(run, monkeypatch):
    asked = answering(monkeypatch)
    assert [[r["seed"] for r in round_.values()] for round_ in rounds(pair, 3, run, "x")] == [[0, 0], [1, 1], [2, 2]]
    assert asked == [arm for seed in range(3) for arm in pair(seed).values()]
    answering(monkeypatch, missing=[pair(2)["theirs"]])
    assert [round_["ours"]["seed"] for round_ in rounds(pair, 4, run, "x")] == [0, 1]
    answering(monkeypatch, missing=[pair(1)["ours"]])
    with pytest.raises(Unfinished, match="x: 7 of 8 trainings are finished; a comparison needs two seeds of all"):
        rounds(pair, 4, run, "x")


def test_a_result_says_what_its_runs_have_in_common():
    one = {"device": "cpu", "versions": {"torch": "2"}, "commit": "a", "source": "s", "seconds": 1.25, "loss": 1.0}
    other = {**one, "commit": "b", "versions": {"torch": "2"}}
    found = of_runs([one, other, one])
    assert found == {
        "device": "cpu",
        "versions": {"torch": "2"},
        "commit": ["a", "b"],
        "source": "s",
        "training_seconds": 3.8,
        "trainings": 3,
    }
    text = {**one, "data": "d", "unique_tokens": 7, "epochs": 0.5}
    assert of_runs([text, {**text, "epochs": 0.25}])["epochs"] == [0.5, 0.25]


def test_tuning_picks_the_lowest_held_out_loss_that_there_is(run, monkeypatch):
    losses = {("vanilla", 0.1): 2.0, ("vanilla", 0.2): 1.0, ("resformer", 0.1): 3.0, ("resformer", 0.05): 3.5}
    asked = answering(monkeypatch, loss_of=lambda arm: losses.get((arm.variant, arm.recipe.learning_rate)))
    best, about = tuned(PAIR, Tuning(grid=(0.3, 0.1, 0.2), share=0.5), run, "x")
    assert best == {"ours": 0.2, "theirs": 0.1}
    assert about["losses"]["theirs"] == {"0.05": 3.5, "0.1": 3.0, "0.2": None, "0.3": None}
    assert about["losses"]["ours"] == {"0.1": 2.0, "0.2": 1.0, "0.3": None}
    assert (about["tuned"], about["best"], about["share_of_steps"]) == (True, best, 0.5)
    assert {(arm.seed, arm.recipe.steps, arm.recipe.evaluate_every) for arm in asked} == {(TUNING_SEED, 3, 0)}
    assert {(arm.variant, arm.recipe.learning_rate) for arm in asked} > set(losses)
    best["twin"] = 0.2  # whoever asked may go on with it
    assert "twin" not in about["best"]
    assert untuned({"tuning": about}) == {}
    json.dumps(about, allow_nan=False)


@pytest.mark.parametrize(("best", "tried"), [(0.64, 6), (0.003, 6), (0.16, 5)])
def test_a_grid_is_widened_until_the_best_lies_inside(run, monkeypatch, best, tried):
    answering(monkeypatch, loss_of=lambda arm: abs(math.log(arm.recipe.learning_rate / best)))
    rates, about = tuned({"ours": PROMPTS}, Tuning(grid=(0.02, 0.04, 0.08)), run, "x")
    assert len(about["losses"]["ours"]) == tried
    outside = {0.64: "its best learning rate, 0.64, is the highest tried"}
    outside[0.003] = "its best learning rate, 0.0025, is the lowest tried"
    assert untuned({"tuning": about}) == ({"ours": outside[best]} if best in outside else {})
    assert rates["ours"] == about["best"]["ours"] == pytest.approx(best, rel=0.2)


def test_tuning_on_several_seeds_decides_by_their_mean(run):
    """By a trainer that is named."""
    losses = {
        (0.1, TUNING_SEED): 1.0,
        (0.1, TUNING_SEED + 1): 4.0,
        (0.2, TUNING_SEED): 2.0,
        (0.2, TUNING_SEED + 1): 2.0,
    }

    def train(arms, *_):
        return {arm: {"loss": losses.get((arm.recipe.learning_rate, arm.seed))} for arm in arms}

    asked = Tuning(grid=(0.1, 0.2, 0.3), share=1.0, seeds=2, widenings=0)
    best, about = tuned({"ours": PROMPTS}, asked, run, "x", train)
    assert best == {"ours": 0.2}
    assert about["losses"]["ours"] == {"0.1": 2.5, "0.2": 2.0, "0.3": None}
    assert "the mean of 2 seeds" in asked.described()
    assert "one seed" in Tuning(grid=(0.1,)).described()


def test_an_arm_that_is_not_tuned_apart_is_not_marked():
    assert untuned({}) == untuned({"tuning": {"tuned": False}}) == {}
    one = {"tuned": True, "grid": [0.1], "losses": {"ours": {"0.1": 1.0}}, "best": {"ours": 0.1}}
    assert mark("ours", {"tuning": one}) == " (untuned)"
    assert mark("theirs", {"tuning": one}) == ""


def test_tuning_that_is_not_asked_for_or_not_finished(run, monkeypatch):
    asked = answering(monkeypatch)
    assert tuned(PAIR, Tuning(), run, "x") == ({"ours": 0.01, "theirs": 0.01}, {"tuned": False})
    assert asked == []
    tuned(PAIR, Tuning(grid=(0.1,)), run, "x")
    answering(monkeypatch, missing=asked[1:])
    with pytest.raises(Unfinished, match="x: 1 of 2 learning-rate trials are finished"):
        tuned(PAIR, Tuning(grid=(0.1,)), run, "x")


@pytest.mark.long
def test_tuning_for_real_never_picks_what_diverged(run):
    best, about = tuned({"ours": PROMPTS}, Tuning(grid=(1e30, 0.01), share=1.0), run, "x")
    assert best["ours"] in (0.01, 0.0025, 0.000625, 0.000156)
    assert about["losses"]["ours"]["1e+30"] is None
