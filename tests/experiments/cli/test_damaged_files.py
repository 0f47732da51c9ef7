"""Whatever became of the files that are read: status 0, 1 or 2, a line or two, no traceback, and nothing lost.

Of a finished run, of a training, finished or killed, and of prepared text, one file at a time is damaged.
"""

import contextlib
import random
import shutil
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.cli import main
from experiments.report.pages import claims, errata, ledger, library, papers, variants
from tests.experiments.cli.answers import check, put_aside, unverified, write_corpus
from tests.experiments.report.words import as_words

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
