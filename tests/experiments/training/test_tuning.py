"""Learning rates that are picked: of what is tried, what is left out, and what is said of it."""

import json
import math
from dataclasses import replace

import pytest

from experiments.store.folders import RunFolder, Unfinished
from experiments.training import tuning
from experiments.training.arms import Arm, PromptSource
from experiments.training.tuning import TUNING_SEED, Tuning, mark, tuned, untuned
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Vectors

OURS = Arm(
    architecture=Architecture(d_model=2, n_layers=2, n_heads=1, d_ff=0, context=7, stem=Vectors(2)),
    variant="vanilla",
    source=PromptSource(2, 3, 0.1, 64),
    recipe=Recipe(steps=6, batch=4, learning_rate=0.01, log_every=2, evaluate_every=4),
    seed=0,
)
PAIR = {"ours": OURS, "theirs": replace(OURS, variant="resformer")}


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path)


def answering(monkeypatch, missing=(), loss_of=lambda arm: 1.0):
    """Let `tuned` have the losses of all arms but `missing`; returns what it asks for."""
    asked = []

    def answer(arms, *_):
        asked.extend(arms)
        return {arm: {"loss": loss_of(arm)} for arm in arms if arm not in missing}

    monkeypatch.setattr(tuning, "train_all", answer)
    return asked


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
    rates, about = tuned({"ours": OURS}, Tuning(grid=(0.02, 0.04, 0.08)), run, "x")
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
    best, about = tuned({"ours": OURS}, asked, run, "x", train)
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
    best, about = tuned({"ours": OURS}, Tuning(grid=(1e30, 0.01), share=1.0), run, "x")
    assert best["ours"] in (0.01, 0.0025, 0.000625, 0.000156)
    assert about["losses"]["ours"]["1e+30"] is None
