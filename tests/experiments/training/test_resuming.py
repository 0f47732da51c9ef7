"""A training that ran out of time, or whose files are damaged or another one's."""

import json
import shutil
from dataclasses import replace

import pytest

from experiments.store.desk import OutOfTime
from experiments.store.folders import RunFolder, UserError
from experiments.training.records import train_arm
from icl.training import loop
from tests.experiments.training.small import OTHERS, PROMPTS, out_of_time, timeless
from theory.errors import BadInput


@pytest.mark.parametrize("seconds", [0.0, 60.0])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_training_that_ran_out_of_time_ends_with_the_same_record(reader, after, seconds, tmp_path):
    whole = train_arm(reader, tmp_path / "whole", "cpu")
    folder = tmp_path / "stopped"
    with pytest.raises(OutOfTime):
        train_arm(reader, folder, "cpu", out_of_time(after), seconds_between_saves=seconds)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "step", "st')  # a kill tears the last line
    assert timeless(train_arm(reader, folder, "cpu")) == timeless(whole)
    assert [line["step"] for line in RunFolder(folder).metrics()] == [2, 4, 6]
    assert timeless(train_arm(reader, folder, "cpu")) == timeless(whole)


def test_what_was_done_when_time_was_up_is_in_the_checkpoint(tmp_path):
    """Else a slot that is shorter than the time between checkpoints gets nowhere, however often it comes."""
    with pytest.raises(OutOfTime):
        train_arm(PROMPTS, tmp_path, "cpu", out_of_time(2))
    said = []
    train_arm(PROMPTS, tmp_path, "cpu", said.append)
    assert [logged.step for logged in said] == [6]


@pytest.mark.parametrize("other", OTHERS)
def test_a_folder_of_another_training_is_refused(other, tmp_path):
    train_arm(PROMPTS, tmp_path, "cpu")
    with pytest.raises(UserError, match="belongs to another run") as stop:
        train_arm(OTHERS[other], tmp_path, "cpu")
    assert "\n" not in str(stop.value)


@pytest.mark.parametrize("lost", [[0], [0, 1]])
def test_a_training_whose_log_has_a_hole_loses_no_more(lost, tmp_path):
    whole = train_arm(PROMPTS, tmp_path / "whole", "cpu")
    folder, said = tmp_path / "folder", []
    with pytest.raises(OutOfTime):
        train_arm(PROMPTS, folder, "cpu", out_of_time(2), seconds_between_saves=0.0)
    run = RunFolder(folder)
    run.keep_metrics([line for i, line in enumerate(run.metrics()) if i not in lost])
    record = train_arm(PROMPTS, folder, "cpu", warn=said.append)
    assert record["curve"] == [point for i, point in enumerate(whole["curve"]) if i not in lost]
    assert record["loss"] == whole["loss"]
    assert f"lacks {len(lost)} lines of 3" in said[0]


def test_a_log_without_its_last_line_says_how_to_get_it_back(tmp_path):
    whole = train_arm(PROMPTS, tmp_path, "cpu", seconds_between_saves=0.0)
    run = RunFolder(tmp_path)
    run.keep_metrics(run.metrics()[:-1])
    with pytest.raises(UserError, match=r"metrics.jsonl lacks the last line; delete .*checkpoint-0*6 to train"):
        train_arm(PROMPTS, tmp_path, "cpu")
    shutil.rmtree(tmp_path / "checkpoint-000000006")
    assert timeless(train_arm(PROMPTS, tmp_path, "cpu")) == timeless(whole)


DAMAGED_LINES = {
    "a NUL": lambda line: line[:30] + b"\0" + line[30:],
    "foreign": lambda _: b"Traceback (most recent call last):",
    "no fields": lambda _: b'{"kind": "step", "step": 2}',
    "no kind": lambda _: b'{"step": 2}',
    "another type": lambda _: b'{"kind": "step", "step": "two"}',
    "a flipped bit": lambda line: line.replace(b"4", b"5", 1),
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("damage", DAMAGED_LINES)
def test_a_damaged_line_is_refused_at_the_start(damage, tmp_path, monkeypatch):
    """By number, and by the advice that keeps everything else."""
    with pytest.raises(OutOfTime):
        train_arm(PROMPTS, tmp_path, "cpu", out_of_time(2), seconds_between_saves=0.0)
    path = tmp_path / "metrics.jsonl"
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(DAMAGED_LINES[damage](first.removesuffix(b"\n")) + b"\n" + b"".join(others))
    monkeypatch.setattr(loop, "take_step", None)  # no step is taken
    with pytest.raises(UserError, match=r"^line 1 of .*metrics.jsonl is damaged; delete that line and run again$"):
        train_arm(PROMPTS, tmp_path, "cpu")


@pytest.mark.parametrize("loss", ["NaN", "-Infinity", '"low"', "null"])
def test_lines_from_before_there_were_digests_are_checked_too(loss, tmp_path):
    with pytest.raises(OutOfTime):
        train_arm(PROMPTS, tmp_path, "cpu", out_of_time(2), seconds_between_saves=0.0)
    path = tmp_path / "metrics.jsonl"
    lines = [{k: v for k, v in json.loads(text).items() if k != "sha256"} for text in path.read_text().splitlines()]
    old = [json.dumps(line) for line in lines]
    wrong = json.dumps({**lines[1], "loss": "?"}).replace('"?"', loss)
    path.write_text(f"{old[0]}\n{wrong}\n")
    with pytest.raises(UserError, match=r"^line 2 of .*metrics.jsonl is damaged"):
        train_arm(PROMPTS, tmp_path, "cpu")
    path.write_text(f"{old[0]}\n{old[1]}\n")
    assert len(train_arm(PROMPTS, tmp_path, "cpu")["curve"]) == 3


def test_text_that_is_not_the_arm_s_is_refused(reader, tmp_path):
    """Its key says what it was trained on, so it must have been."""
    other = replace(reader, source=replace(reader.source, digest="0" * 64))
    with pytest.raises((UserError, BadInput)) as stop:
        train_arm(other, tmp_path, "cpu")
    assert "\n" not in str(stop.value)
