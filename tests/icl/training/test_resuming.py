"""What is killed resumes to the same bits, and what is damaged is said."""

import copy
import itertools
import json
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from icl.checkpoint import ABOUT, KEPT, TENSORS, BadCheckpoint, Checkpoints, restore, state
from icl.training.loop import train
from icl.training.optimiser import adamw
from tests.crashes import crashes, flip
from tests.icl.training.small import (
    ALWAYS,
    AT_THE_END,
    READER,
    RECIPE,
    assert_same_bits,
    model_of,
    numbers,
    reader,
    text,
    weights_of,
)


@pytest.fixture(scope="module")
def whole():
    """A run that nobody killed: its reports by step, and its weights."""
    model = reader()
    reports = {logged.step: numbers(logged) for logged in train(model, text(), RECIPE, seed=3)}
    return reports, weights_of(model)


def test_a_run_logs_every_few_steps_and_evaluates_where_it_is_due(whole):
    reports, weights = whole
    assert list(reports) == [3, 6, 9, 12]
    assert [step for step, (*_, held_out) in reports.items() if held_out] == [6, 12]
    assert [rate for _, _, _, rate, _ in reports.values()] == [RECIPE.rate(step - 1) for step in reports]
    assert any(name.startswith("depth.") for name in weights)
    start = weights_of(reader())
    assert not any(torch.equal(x, start[name]) for name, x in weights.items() if not name.startswith("depth.gain"))
    *_, last = train(reader(), text(), replace(RECIPE, steps=13, evaluate_every=0), seed=3)
    assert (last.step, last.held_out is not None) == (13, True)


@pytest.mark.parametrize("variant", ["skipv1", "attnres-block"])
@pytest.mark.long
def test_muon_resumes_to_the_same_bits(variant, tmp_path):
    recipe = replace(RECIPE, optimiser="muon", weight_decay=0.1)
    alone = model_of(READER, variant)
    ends = [numbers(logged) for logged in train(alone, text(), recipe, 3)]
    steps = train(model_of(READER, variant), text(), recipe, 3, folder=tmp_path, seconds_between_saves=ALWAYS)
    for _ in range(3):
        next(steps)
    resumed = model_of(READER, variant)
    rest = [numbers(logged) for logged in train(resumed, text(), recipe, 3, folder=tmp_path)]
    assert 0 < len(rest) < len(ends)
    assert rest == ends[-len(rest) :]
    assert_same_bits(weights_of(resumed), weights_of(alone))


def abandoned(folder, reports=3):
    """A folder with the checkpoints of a run that was killed at its last report but for the end: of steps 3 and 6."""
    steps = train(reader(), text(), RECIPE, 3, folder=folder, seconds_between_saves=ALWAYS)
    for _ in range(reports):
        next(steps)
    steps.close()
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-000000003", "checkpoint-000000006"]
    return folder / "checkpoint-000000006", folder / "checkpoint-000000003"


def assert_goes_on(folder, whole, steps, **options):
    """What lies there is gone on with: these reports are left, and the weights are the same bits."""
    model, (reports, weights) = reader(), whole
    rest = [numbers(logged) for logged in train(model, text(), RECIPE, 3, folder=folder, **options)]
    assert rest == [reports[step] for step in steps]
    assert_same_bits(weights_of(model), weights)


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([ALWAYS, AT_THE_END])), min_size=1, max_size=4))
@pytest.mark.long
def test_a_killed_run_ends_with_the_same_bits(whole, kills):
    """With dropout, accumulation, depth attention and tied embeddings; killed again and again at a logged step."""
    expected, weights = whole
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        options = {"folder": Path(folder), "warn": pytest.fail}
        for reports, seconds in kills:
            steps = train(reader(), text(), RECIPE, 3, seconds_between_saves=seconds, **options)
            seen |= {logged.step: numbers(logged) for logged in itertools.islice(steps, reports)}
            steps.close()
        model = reader()
        seen |= {logged.step: numbers(logged) for logged in train(model, text(), RECIPE, 3, **options)}
        assert seen == expected
        assert_same_bits(weights_of(model), weights)
        assert_goes_on(whole=whole, steps=(), **options)


@pytest.mark.long
def test_a_run_that_is_gone_at_any_step_of_a_save_ends_with_the_same_bits(tmp_path):
    """The last of three saves removes the first one's checkpoint."""
    recipe = replace(RECIPE, steps=9, evaluate_every=0)

    def trained(folder):
        model = reader()
        list(train(model, text(), recipe, 3, folder=folder / "run", seconds_between_saves=ALWAYS, warn=pytest.fail))
        return weights_of(model)

    (tmp_path / "whole").mkdir()
    expected, tried = trained(tmp_path / "whole"), 0
    for folder in crashes(trained, tmp_path / "crashed"):
        tried += 1
        assert_same_bits(trained(folder), expected)
        assert len(list((folder / "run").iterdir())) == KEPT
    assert tried > 3 * 4  # a folder, two files and a name, three times


def test_what_a_kill_left_is_not_removed_where_it_is_all_that_can_be_read(tmp_path):
    _, oldest = abandoned(tmp_path)
    for step in (7, 8):
        shutil.copytree(oldest, tmp_path / f"checkpoint-{step:09d}")
    for path in sorted(tmp_path.iterdir())[1:]:
        flip(path / TENSORS)
    assert train(reader(), text(), RECIPE, 3, folder=tmp_path, seconds_between_saves=AT_THE_END).send(None).step == 6
    assert oldest.exists()


DAMAGE = {
    "a bit of the tensors": lambda path: flip(path / TENSORS),
    "the tensors' header": lambda path: flip(path / TENSORS, 0.0),
    "the end of the tensors": lambda path: (path / TENSORS).write_bytes((path / TENSORS).read_bytes()[:-1]),
    "no tensors": lambda path: (path / TENSORS).unlink(),
    "no description": lambda path: (path / ABOUT).unlink(),
    "an empty description": lambda path: (path / ABOUT).write_bytes(b""),
    "no JSON": lambda path: (path / ABOUT).write_bytes(b"\xff{"),
    "no object": lambda path: (path / ABOUT).write_text("[]"),
    "a number": lambda path: (path / ABOUT).write_text("4"),
    "too deep": lambda path: (path / ABOUT).write_text("[" * 100_000),
    "nothing in it": lambda path: (path / ABOUT).write_text("{}"),
    "no folder": lambda path: (shutil.rmtree(path), path.write_bytes(b""))[0],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_checkpoint_that_cannot_be_read_gives_way_to_the_one_before(whole, damage, tmp_path):
    newest, _ = abandoned(tmp_path)
    DAMAGE[damage](newest)
    warnings = []
    assert_goes_on(tmp_path, whole, (6, 9, 12), warn=warnings.append)
    (warning,) = warnings
    assert str(newest) in warning
    assert "\n" not in warning


@pytest.mark.parametrize("damage", DAMAGE)
def test_when_none_can_be_read_nothing_is_trained(damage, tmp_path):
    warnings = []
    for path in abandoned(tmp_path):
        DAMAGE[damage](path)
    with pytest.raises(BadCheckpoint, match="can be read; delete it") as stop:
        next(train(reader(), text(), RECIPE, 3, folder=tmp_path, warn=warnings.append))
    assert "\n" not in str(stop.value)
    assert len(warnings) == 2


def test_no_bit_of_the_description_can_change_unseen(tmp_path):
    """A step, a first loss or an identity that is not what was written must not be believed."""
    model = reader()
    optimiser = adamw(model, RECIPE)
    warnings = []
    saved = Checkpoints(tmp_path, "mine", warnings.append)
    for step in (10, 20):
        saved.save(step, state(model, optimiser), first_loss=3.25)
    assert (saved.newest().step, saved.newest().numbers) == (20, {"first_loss": 3.25})
    path = tmp_path / "checkpoint-000000020" / ABOUT
    content = path.read_bytes()
    believed = []
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        warnings.clear()
        try:
            found = (saved.newest().step, saved.newest().numbers)
        except BadCheckpoint as error:
            found = str(error)
        if found != (10, {"first_loss": 3.25}) or not warnings:
            believed.append((path.read_text(), found))
    assert not believed, f"{len(believed)} of {len(content)} went unseen, such as {believed[0]}"


@pytest.mark.parametrize(("between", "most"), [(1e-6, 2), (ALWAYS, 12)])
@pytest.mark.long
def test_saving_takes_a_small_share_of_the_time(between, most, tmp_path, monkeypatch):
    """Where it takes long it is done seldom: here once, and at the end; unless it is asked for at every report."""
    saved, save = [], Checkpoints.save

    def slow(self, step, *arguments, **numbers):
        time.sleep(0.1)
        saved.append(step)
        save(self, step, *arguments, **numbers)

    monkeypatch.setattr(Checkpoints, "save", slow)
    monkeypatch.setattr("icl.training.loop.SAVING", 1e-6)
    recipe = replace(RECIPE, log_every=1, evaluate_every=0)
    list(train(reader(), text(), recipe, 3, folder=tmp_path, seconds_between_saves=between))
    assert len(saved) == most
    assert (saved[0], saved[-1]) == (1, 12)


def test_what_a_kill_left_half_written_is_harmless(whole, tmp_path):
    abandoned(tmp_path)
    for name in ("checkpoint-000000009.part", "checkpoint-999999999.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / TENSORS).write_bytes(b"half")
    assert_goes_on(tmp_path, whole, (9, 12), seconds_between_saves=ALWAYS, warn=pytest.fail)
    kept = {path.name for path in tmp_path.iterdir() if path.suffix != ".part"}
    assert kept == {"checkpoint-000000009", "checkpoint-000000012"}


def test_checkpoints_hold_weights_and_moments_in_float32(tmp_path):
    newest, _ = abandoned(tmp_path)
    state = load_file(newest / TENSORS)
    assert {x.dtype for x in state.values()} == {torch.float32}
    names = [name for name, _ in reader().named_parameters()]
    kinds = ("model", "optimiser.step", "optimiser.exp_avg", "optimiser.exp_avg_sq")
    assert set(state) == {f"{kind}.{name}" for kind in kinds for name in names}
    assert {float(x) for name, x in state.items() if name.startswith("optimiser.step.")} == {6.0}


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01),  # has state before its first step
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_whatever_an_optimiser_keeps_is_restored(name, tmp_path):
    """Restored into another model, it takes the steps that it would have taken, to the bit."""

    def steps(model, optimiser, seeds):
        for seed in seeds:
            for place, parameter in enumerate(model.parameters()):
                generator = torch.Generator().manual_seed(100 * seed + place)
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            optimiser.step()

    (ours, mine), (theirs, other) = (
        (m, OPTIMISERS[name](m.parameters())) for m in (reader(), model_of(READER, "attnres", seed=1))
    )
    steps(ours, mine, range(3))
    saved = Checkpoints(tmp_path, "one", pytest.fail)
    saved.save(3, state(ours, mine), first_loss=1.0)
    restore(theirs, other, saved.newest().tensors)
    kinds = [{kind for kept in o.state.values() for kind in kept} for o in (mine, other)]
    assert kinds[0] == kinds[1] != set()
    for model, optimiser in ((ours, mine), (theirs, other)):
        steps(model, optimiser, range(3, 5))
    assert_same_bits(weights_of(theirs), weights_of(ours))


def test_what_an_optimiser_keeps_and_a_checkpoint_cannot_hold_is_not_dropped():
    model = reader()
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    optimiser.state[model.norm.weight]["note"] = "something"
    with pytest.raises(TypeError, match="SGD keeps note = 'something'; only tensors can be saved"):
        state(model, optimiser)


@pytest.mark.parametrize(
    "other",
    [
        {"recipe": replace(RECIPE, learning_rate=0.02)},
        {"recipe": replace(RECIPE, steps=15)},
        {"recipe": replace(RECIPE, accumulate=1)},
        {"seed": 4},
        {"model": lambda: model_of(READER)},
        {"model": lambda: model_of(replace(READER, dropout=0.2), "attnres")},
        {"task": lambda: text(301)},
        {"task": lambda: text(held_out_windows=2)},
    ],
    ids=lambda case: "".join(case),
)
def test_a_checkpoint_is_used_only_for_what_it_belongs_to(other, tmp_path):
    abandoned(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("state.*")}
    mine = {"model": reader, "task": text, "recipe": RECIPE, "seed": 3} | other
    steps = train(mine["model"](), mine["task"](), mine["recipe"], mine["seed"], folder=tmp_path, warn=pytest.fail)
    with pytest.raises(BadCheckpoint, match="belongs to another run"):
        next(steps)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("state.*")}


def test_a_checkpoint_that_was_read_is_not_what_training_goes_on_in(tmp_path):
    """The optimiser's tensors are its own: what is trained afterwards does not change what was saved."""
    newest, _ = abandoned(tmp_path)
    before = copy.deepcopy(load_file(newest / TENSORS))
    list(itertools.islice(train(reader(), text(), RECIPE, 3, folder=tmp_path), 1))
    assert_same_bits(load_file(newest / TENSORS), before)
    assert json.loads((newest / ABOUT).read_bytes())["step"] == 6
