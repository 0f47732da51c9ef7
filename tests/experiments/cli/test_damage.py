"""Damaged files, whatever command reads them: one line that names the file, status 2, and nothing is lost."""

import json
import os
import shutil
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.store.folders import RunFolder, UserError
from tests.experiments.cli import answers
from tests.experiments.cli.answers import outcome
from tests.isolation import copied

RESULTS = Path(__file__).resolve().parents[3] / "results"
NOT_OBJECTS = ["", "{}", "[]", "4", "null", "\0" * 64, "not JSON", '{"kind": NaN}', "\x7fELF\x02", "[" * 100_000]
TRAIN = ["train", "--preset", "llama-2m", "--data", "regression:d=2,n=3,sigma=0.1", "--steps", "4", "--batch", "2"]


def refused(command, path):
    """One line on `path`, which is what it was."""
    before = path.read_bytes() if path.is_file() else None
    status, _, errors = outcome(command)
    assert status == 2
    *sizes, err = errors.splitlines()
    assert len(sizes) in ((0, 2) if command[0] == "train" else (0,))  # what is about to be trained
    assert err.startswith("crosslayer: ")
    assert str(path) in err
    assert (path.read_bytes() if path.is_file() else None) == before
    return err


@pytest.fixture
def full_size(tmp_path):
    """A finished full-size run, from before there were digests."""
    shutil.rmtree(copied(RESULTS / "bridge", tmp_path / "bridge") / "long")  # of its two profiles one
    return tmp_path


@pytest.mark.parametrize("name", ["summary.json", "prediction.json"])
@pytest.mark.parametrize("content", [*NOT_OBJECTS, '{"title": "x"}'])
def test_compare(name, content, full_size):
    path = full_size / "bridge" / name
    path.write_text(content)
    refused(["compare", "--out", str(full_size)], path)


CHANGES = [{"seeds": 3}, {"checks": [1]}, {"checks": [{"rule": "sign"}]}, {"checks": {}}, {"title": None}]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("command", ["compare", "report"])
def test_fields_of_other_types(command, change, full_size):
    path = full_size / "bridge" / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert "delete it and run again" in refused([command, "--out", str(full_size)], path)


def test_a_directory_in_a_file_s_place(full_size):
    for command, name in (("report", "figure.png"), ("compare", "prediction.json"), ("report", "summary.json")):
        path = full_size / "bridge" / name
        path.unlink()
        path.mkdir()
        assert "Is a directory" in refused([command, "--out", str(full_size)], path)


@pytest.mark.parametrize("place", [0, 0.5])
def test_a_damaged_figure(place, full_size):
    """The report would show it, or nothing in its place."""
    figure = full_size / "bridge" / "figure.png"
    content = bytearray(figure.read_bytes())
    content[int(place * len(content))] ^= 1
    figure.write_bytes(content)
    assert "delete it" in refused(["report", "--out", str(full_size)], figure)
    figure.write_bytes(b"")
    refused(["report", "--out", str(full_size)], figure)


def test_a_file_that_may_not_be_read(full_size, monkeypatch):
    path = full_size / "bridge" / "summary.json"
    read = Path.read_bytes

    def forbidden(self):
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    answers.refused(["compare", "--out", str(full_size)], f"cannot read {path}: Permission denied")


@pytest.mark.parametrize("name", ["summary.json", "measurement.json", "prediction.json"])
def test_one_flipped_bit(name, smoke, tmp_path):
    """In a number, where the file is read as JSON all the same."""
    _, folder = smoke
    shutil.copytree(folder, tmp_path / folder.parent.name / folder.name)
    path = tmp_path / folder.parent.name / folder.name / name
    content = bytearray(path.read_bytes())
    content[content.index(b".") + 1] ^= 1
    path.write_bytes(content)
    json.loads(content)
    command = ["report"] if name == "summary.json" else ["run", "skipv1-gap", "--profile", "smoke"]
    refused([*command, "--out", str(tmp_path)], path)


@pytest.mark.long
def test_a_finished_training(tmp_path, monkeypatch):
    """Its weights are never thrown away for its summary's sake."""
    command = [*TRAIN, "--device", "cpu", "--out", str(tmp_path)]
    assert main(command) == 0
    (folder,) = (tmp_path / "train").iterdir()
    path, content = folder / "summary.json", (folder / "summary.json").read_text()
    for damage in (*NOT_OBJECTS, content.replace('"loss": ', '"loss": 1'), content[: len(content) // 2]):
        path.write_text(damage)
        assert "the weights beside it are not; to train again, delete" in refused(command, path)
    path.write_text(content)
    for damage in NOT_OBJECTS:
        (folder / "config.json").write_text(damage)
        assert main(command) == 0  # what it was asked is known
    path.unlink()
    (folder / "metrics.jsonl").write_text("\x7fELF")
    refused(command, folder / "metrics.jsonl")
    (folder / "metrics.jsonl").unlink()
    assert "delete" in refused(command, folder / "checkpoint-000000004")
    shutil.rmtree(folder / "checkpoint-000000004")
    monkeypatch.setattr("experiments.commands.training_figure.draw", lambda *_: None)
    assert main(command) == 0
    assert len(RunFolder(folder).read("config.json")) > 3


def test_the_memory_of_verify_is_no_more_than_a_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = ["verify", "skipv1.eckart-young"]
    assert main(command) == 0
    path = tmp_path / "crosslayer" / "ledger.json"
    content = path.read_text()
    (entry,) = (e for e in json.loads(content).values() if isinstance(e, dict))
    wrong = [json.dumps({"skipv1.eckart-young": {**entry, "seconds": seconds}}) for seconds in ("x", [])]
    for damage in (*NOT_OBJECTS[:6], *wrong, content.replace("true", "false", 1)):
        path.write_text(damage)
        status, out, _ = outcome(command)
        assert (status, "unchanged" in out) == (0, False)
    assert "1 of them unchanged" in outcome(command)[1]


@pytest.mark.parametrize("content", [*NOT_OBJECTS[:5], '{"variants": 3}'])
def test_bench_does_not_write_over_what_it_has_not_written(content, tmp_path):
    path = tmp_path / "bench.json"
    path.write_text(content)
    options = ["--preset", "llama-2m", "--batch", "1", "--context", "8", "--device", "cpu", "--variants", "vanilla"]
    refused(["bench", "step", *options, "--out", str(path)], path)


def test_files_obey_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        assert main([*TRAIN, "--device", "cpu", "--save-every", "0", "--out", str(tmp_path), "--json"]) == 0
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o640}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o750}


def test_numbers_that_are_none_are_not_written(tmp_path):
    with pytest.raises(UserError, match=r"measurement.json would hold a number that is not finite"):
        RunFolder(tmp_path).write("measurement.json", {"loss": float("nan")})
