"""The record that a training leaves: of prompts, of text, of what diverged."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from experiments.store.desk import OutOfTime
from experiments.training.arms import LATER, PromptSource
from experiments.training.records import train_arm
from icl.data import shards
from icl.prompts import RegressionTask
from tests.experiments.training.small import PROMPTS, finite, out_of_time, timeless, with_rate
from theory.plans.law import Law


def test_the_record_of_a_training_on_prompts(tmp_path):
    said = []
    record = train_arm(PROMPTS, tmp_path / "new", "cpu", said.append)
    assert [logged.step for logged in said] == [2, 4, 6]
    assert record["curve"] == [[logged.step, logged.loss] for logged in said]
    held_out = record["held_out"]["loss"]
    assert len(held_out) == len(record["held_out"]["stderr"]) == 4  # after 0, 1, 2, 3 pairs
    assert record["loss"] == pytest.approx(sum(held_out) / 4)
    assert [step for step, _ in record["evaluations"]] == [4, 6]
    assert record["evaluations"][-1][1] == record["loss"]
    assert (record["kind"], record["name"], record["seed"]) == ("run", "vanilla", 0)
    assert record["key"] == PROMPTS.key("cpu")
    assert record["arm"] == PROMPTS.to_json()
    assert record["arm"] == {
        **{k: v for k, v in asdict(PROMPTS).items() if k not in ("probes", "label", "initial")},
        "probe": False,
        "recipe": {k: v for k, v in asdict(PROMPTS.recipe).items() if k not in LATER},
        "source": {"d": 2, "n": 3, "sigma": 0.1, "held_out_prompts": 64},  # as it was before there was a choice
    }
    assert record["parameters"] == sum(p.numel() for p in PROMPTS.model("cpu").parameters())
    assert record["tokens"] == 6 * 4 * 7
    assert (record["diverged"], record["magnitudes"], record["mfu"]) == (None, None, None)
    assert record["device"].startswith("cpu")
    assert {"versions", "commit", "source"} < set(record)
    assert not {"data", "unique_tokens", "epochs"} & set(record)
    assert timeless(finite(record))["curve"] == record["curve"]


def test_the_record_of_a_training_that_scores_the_last_answer(tmp_path):
    arm = replace(PROMPTS, source=replace(PROMPTS.source, scored="last"))
    record = train_arm(arm, tmp_path / "new", "cpu")
    assert len(record["held_out"]["loss"]) == 1
    assert record["loss"] == record["held_out"]["loss"][0]
    assert record["arm"]["source"]["scored"] == "last"


def test_the_record_of_a_training_under_a_law(tmp_path):
    """Inputs and tasks are the law's, and the record says what it was."""
    law = Law(spike=4, inputs="sphere", w0=5, pool=8)
    arm = replace(PROMPTS, source=replace(PROMPTS.source, law=law))
    task = arm.task()
    assert task.task == RegressionTask(2, 3, 0.1, law)
    record = finite(train_arm(arm, tmp_path / "new", "cpu"))
    plain = train_arm(PROMPTS, tmp_path / "plain", "cpu")
    assert record["loss"] > 5 * plain["loss"]  # W0 is large, and six steps learn little
    assert record["arm"]["source"]["law"] == {"spike": 4.0, "inputs": "sphere", "w0": 5.0, "pool": 8}
    assert PromptSource.from_json(record["arm"]["source"]) == arm.source
    assert PromptSource.from_json(finite(plain)["arm"]["source"]) == PROMPTS.source


def test_the_record_of_a_training_on_text(reader, tmp_path):
    record = train_arm(reader, tmp_path, "cpu")
    count = (len(shards.open_data(Path(reader.source.folder)).tokens("train")) - 1) // 10
    assert record["data"] == reader.source.digest
    assert record["unique_tokens"] == 10 * count
    assert record["epochs"] == pytest.approx(6 * 4 / count)
    assert record["tokens"] == 6 * 4 * 10
    assert record["held_out"] is None
    assert 0 < record["loss"] < 2 * math.log(280)


def test_the_trained_weights_are_kept_where_they_are_asked_for(tmp_path):
    train_arm(PROMPTS, tmp_path, "cpu", weights=tmp_path / "model.safetensors")
    found = load_file(tmp_path / "model.safetensors")
    start = dict(PROMPTS.model("cpu").named_parameters())
    assert {name: x.shape for name, x in found.items()} == {name: x.shape for name, x in start.items()}
    assert not any(torch.equal(x, start[name]) for name, x in found.items())


def test_magnitudes_are_those_before_and_after(tmp_path):
    arm = replace(PROMPTS, probes=("magnitude",))
    with pytest.raises(OutOfTime):
        train_arm(arm, tmp_path, "cpu", out_of_time(2), seconds_between_saves=0.0)
    resumed = train_arm(arm, tmp_path, "cpu")["magnitudes"]
    whole = train_arm(arm, tmp_path / "whole", "cpu")["magnitudes"]
    assert resumed == whole
    assert whole["start"] != whole["end"]


@pytest.mark.parametrize("probes", [(), ("magnitude",)])
def test_a_training_that_diverged_has_a_record_too(probes, tmp_path):
    arm = replace(with_rate(PROMPTS, 1e30, clip=0.0, warmup=0.0), probes=probes)
    record = finite(train_arm(arm, tmp_path, "cpu", weights=tmp_path / "model.safetensors"))
    assert "diverged by step" in record["diverged"]
    assert str(tmp_path) not in record["diverged"]  # a result is carried to other machines
    assert (record["loss"], record["held_out"]) == (None, None)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_training_that_its_last_update_ruined_has_diverged(tmp_path):
    """The held-out loss is no number, which no file of results can hold."""
    arm = with_rate(PROMPTS, 1e10, steps=1, log_every=1, evaluate_every=0, warmup=0.0, floor=1.0)
    record = finite(train_arm(arm, tmp_path, "cpu"))
    assert record["diverged"]
    assert (record["loss"], record["held_out"]) == (None, None)
