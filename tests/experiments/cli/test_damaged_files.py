"""Damaged files, whatever command reads them: status 0, 1 or 2, a line or two, no traceback, and nothing lost.

Of a finished run, of a training, finished or killed, and of prepared text, one file at a time is damaged.  Where the
file cannot be done without, one line names it.
"""

import contextlib
import json
import os
import random
import shutil
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.cli import main
from experiments.report.pages import claims, errata, ledger, library, papers, variants
from experiments.store.folders import RunFolder, UserError
from tests.experiments.cli import answers
from tests.experiments.cli.answers import check, outcome, put_aside, unverified, write_corpus
from tests.experiments.report.words import as_words
from tests.isolation import copied

COMMON = settings(suppress_health_check=[*HealthCheck])


def flipped(content, rng):
    at = rng.randrange(max(1, len(content)))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :] if content else b"\1"


DAMAGES = {
    "flipped": flipped,
    "cut": lambda content, rng: content[: rng.randrange(len(content) or 1)],
    "nul": lambda content, rng: content[: (at := rng.randrange(len(content) + 1))] + b"\0" + content[at:],
    "nul line": lambda content, _: content + b"\0\0\0\n",
    "foreign line": lambda content, _: b"a foreign line\n" + content,
    "foreign record": lambda content, _: content + b'{"a": NaN}\n',
    "object": lambda *_: b"{}",
    "list": lambda *_: b"[]",
    "number": lambda *_: b"4\n",
    "empty": lambda *_: b"",
    "absent": lambda *_: None,
    "no text": lambda *_: b"\xff\xfe\0",
}


def damage(path, kind, seed):
    """What it held before."""
    before = path.read_bytes()
    after = DAMAGES[kind](before, random.Random(seed))
    path.unlink() if after is None else path.write_bytes(after)
    return before


def checked_with_damage(original, names, copy, kind, seed, lines):
    """Each command on a copy in which one file is damaged.  Nothing that was whole is gone afterwards."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    name = random.Random(f"{kind} {seed}").choice(names)
    damage(copy / name, kind, seed)
    for line in lines:
        check(line)
    for other in names:
        assert other == name or (copy / other).exists(), (name, kind, other)


RECORDED = ("config.json", "prediction.json", "measurement.json", "metrics.jsonl", "summary.json", "figure.png")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A working folder with prepared text."""
    work = tmp_path_factory.mktemp("damaged")
    write_corpus(work / "corpus")
    with contextlib.chdir(work):
        assert main(["data", "prepare", "corpus", "--out", "prepared", "--vocab", "300"]) == 0
    return work


@pytest.fixture(autouse=True)
def in_its_place(nothing_lies_around, place, monkeypatch):  # noqa: ARG001
    monkeypatch.chdir(place)


@pytest.fixture
def finished(smoke, place):
    """(what runs a command on a damaged copy of a finished run); measuring again is put aside."""
    from experiments.experiment import execution
    from experiments.skipv1.gap import EXPERIMENT

    _, folder = smoke
    out = place / "runs"
    copy = out / folder.parent.name / folder.name
    lines = [
        ["run", "skipv1-gap", "--profile", "smoke", "--out", str(out)],
        ["report", "--out", str(out)],
        ["compare", "--out", str(out)],
        ["claim", "skipv1.gap", "--out", str(out)],
    ]

    def run(kind, seed):
        names = [name for name in RECORDED if (folder / name).exists()]
        checked_with_damage(folder, names, copy, kind, seed, lines)

    with contextlib.ExitStack() as stack:
        from experiments.experiment.together import execute

        def alone(jobs):
            return ((job, execute(job)) for job in jobs)

        stack.enter_context(mock.patch("experiments.experiment.together.executed", alone))
        stack.enter_context(mock.patch("experiments.ledger.verify.verifications", unverified))
        stack.enter_context(mock.patch.object(type(EXPERIMENT), "measure", put_aside))
        stack.enter_context(mock.patch.object(execution, "_draw"))
        others = (claims, errata, ledger, library, papers, variants)  # which no run's files can change
        as_words(stack.enter_context(pytest.MonkeyPatch.context()), without=others)
        yield run


EACH_TWICE = 12  # the seed at which the twelve kinds of damage meet each of the six files twice


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_run_gets_an_answer(kind, finished):
    finished(kind, EACH_TWICE)


@pytest.mark.slow
@settings(COMMON, max_examples=100)
@given(kind=st.sampled_from(sorted(DAMAGES)), seed=st.integers(0, 999))
def test_a_damaged_run_gets_an_answer_at_length(kind, seed, finished):
    finished(kind, seed)


@pytest.fixture
def prepared(place):
    folder, copy = place / "prepared", place / "damaged"
    names = sorted(path.name for path in folder.iterdir())
    lines = [
        ["data", "info", str(copy)],
        ["data", "prepare", "corpus", "--out", str(copy), "--vocab", "300"],
        ["train", "--preset", "llama-2m", "--steps", "2", "--data", str(copy), "--out", "out"],
    ]
    with mock.patch("experiments.commands.single.train_arm", put_aside):
        yield lambda kind, seed: checked_with_damage(folder, names, copy, kind, seed, lines)


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_text_gets_an_answer(kind, prepared):
    for seed in range(3):
        prepared(kind, seed)


@pytest.mark.slow
@settings(COMMON, max_examples=150)
@given(kind=st.sampled_from(sorted(DAMAGES)), seed=st.integers(0, 999))
def test_damaged_text_gets_an_answer_at_length(kind, seed, prepared):
    prepared(kind, seed)


TRAIN = "train --preset llama-2m --steps 2 --data regression:d=2,n=3,sigma=0 --batch 1 --log-every 1 --device cpu"


@pytest.fixture(scope="module")
def trained(place):
    """A finished training, of a moment."""
    with contextlib.chdir(place):
        assert main([*TRAIN.split(), "--out", "trained"]) == 0
    (folder,) = (place / "trained" / "train").iterdir()
    return folder


@pytest.fixture
def training(trained, place):
    """What runs commands on a damaged copy of a training: finished, or as a kill before the end left it."""
    out = place / "damaged-training"
    names = [name for name in ("config.json", "metrics.jsonl", "summary.json") if (trained / name).exists()]

    def run(kind, seed, *, finished):
        copy = out / "train" / trained.name
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(trained, copy)
        if not finished:
            (copy / "summary.json").unlink()
        name = random.Random(f"{kind} {seed}").choice(names if finished else names[:-1])
        damage(copy / name, kind, seed)
        with mock.patch("experiments.commands.training_figure.draw"):
            check([*TRAIN.split(), "--out", str(out)])
        assert (copy / "model.safetensors").exists()

    return run


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "killed"])
@pytest.mark.parametrize("kind", ["nul line", "foreign record", "object", "absent", "flipped"])
def test_a_damaged_training_gets_an_answer(kind, finished, training):
    training(kind, 1, finished=finished)


@pytest.mark.slow
@settings(COMMON, max_examples=60)
@given(kind=st.sampled_from(sorted(DAMAGES)), seed=st.integers(0, 999), finished=st.booleans())
def test_a_damaged_training_gets_an_answer_at_length(kind, seed, finished, training):
    training(kind, seed, finished=finished)


RESULTS = Path(__file__).resolve().parents[3] / "results"
NOT_OBJECTS = ["", "{}", "[]", "4", "null", "\0" * 64, "not JSON", '{"kind": NaN}', "\x7fELF\x02", "[" * 100_000]
FOUR_STEPS = ["train", "--preset", "llama-2m", "--data", "regression:d=2,n=3,sigma=0.1", "--steps", "4", "--batch", "2"]


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
@pytest.mark.long
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


@pytest.mark.parametrize("part", [0, 0.5])
def test_a_damaged_figure(part, full_size):
    """The report would show it, or nothing in its place."""
    figure = full_size / "bridge" / "figure.png"
    content = bytearray(figure.read_bytes())
    content[int(part * len(content))] ^= 1
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
    command = [*FOUR_STEPS, "--device", "cpu", "--out", str(tmp_path)]
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
        assert main([*FOUR_STEPS, "--device", "cpu", "--save-every", "0", "--out", str(tmp_path), "--json"]) == 0
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o640}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o750}


def test_numbers_that_are_none_are_not_written(tmp_path):
    with pytest.raises(UserError, match=r"measurement.json would hold a number that is not finite"):
        RunFolder(tmp_path).write("measurement.json", {"loss": float("nan")})
