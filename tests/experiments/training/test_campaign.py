"""What is made of many trainings: rounds, and what their runs have in common."""

from dataclasses import replace

import pytest

from experiments.store.folders import Unfinished
from experiments.training import campaign
from experiments.training.campaign import of_runs, rounds
from tests.experiments.training.small import PROMPTS


def fake(arm, **fields):
    return {"loss": 1.0, "seconds": 1.25, "arm": arm.name, **fields}


def answering(monkeypatch, missing=()):
    """Let `rounds` have the records of all arms but `missing`; returns what it asks for."""
    asked = []

    def answer(arms, *_):
        asked.extend(arms)
        return {arm: fake(arm, seed=arm.seed) for arm in arms if arm not in missing}

    monkeypatch.setattr(campaign, "train_all", answer)
    return asked


def pair(seed):
    return {"ours": replace(PROMPTS, seed=seed), "theirs": replace(PROMPTS, seed=seed, variant="resformer")}


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
