"""One training on its own: what it is called and says of its sizes, what it refuses, and how its end is carried on."""

import argparse
import inspect
import json
import math
import shutil
from dataclasses import asdict, replace

import pytest
import torch
from safetensors.numpy import load_file

import icl
from experiments.cli import main, training
from experiments.cli.commands import Commands
from experiments.commands import names, request, single, training_figure
from experiments.commands.single import train
from experiments.commands.subjects import subject
from experiments.commands.training_options import TrainingOptions
from experiments.drawing import style
from experiments.store.desk import OutOfTime
from experiments.store.folders import UserError
from experiments.training import memory
from experiments.training.arms import PromptSource, TextSource
from experiments.training.extension import differing
from icl.recipe import Diverged
from icl.training.loop import evaluate
from tests.experiments.cli.answers import refused
from tests.experiments.training.small import PLAN, PROMPTS
from theory import machine
from theory.errors import BadInput
from theory.plans.architecture import Tokens
from theory.plans.law import Law
from theory.plans.presets import PRESETS, resized

TINY = {"data": "regression:d=2,n=2,sigma=0.1", "batch": 4, "log_every": 2, "device": "cpu", "layers": 1}
COMMAND = "train --preset llama-2m --data regression:d=2,n=2,sigma=0.1 --batch 4 --log-every 2 --device cpu --layers 1"


@pytest.fixture(autouse=True)
def _held_out(monkeypatch):
    """Few prompts and no figure: they are most of a short training's time."""
    monkeypatch.setattr(PromptSource.__init__, "__defaults__", (64, *PromptSource.__init__.__defaults__[1:]))
    monkeypatch.setattr(training_figure, "draw", lambda *_: None)


# What it is.


@pytest.mark.parametrize("variant", ["gqa:group=2", "mla:width=8,rope=4", "resformer+mqa", "FILE:mine+gqa"])
def test_a_training_is_named_as_it_was_asked_for(variant, tmp_path, capsys):
    own = tmp_path / "mine.py"
    own.write_text("from theory.plans.plan import plan\ndef mine(s):\n    return plan(s)\n")
    variant = variant.replace("FILE", str(own))
    assert main([*COMMAND.split(), "--steps", "2", "--variant", variant, "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{variant}: ")
    assert err.startswith(f"llama-2m {variant}: ")
    (folder,) = (tmp_path / "train").iterdir()
    summary, config = (json.loads((folder / name).read_text()) for name in ("summary.json", "config.json"))
    assert summary["name"] == variant
    assert variant in config.values()
    if "FILE" not in variant and ".py" not in variant:
        icl.load(folder)  # and it is still known what plan and heads that is


def test_sizes_are_said_at_the_start(tmp_path, capsys):
    train("llama-2m", steps=2, out=tmp_path, **TINY)
    said = capsys.readouterr().err
    assert said.splitlines()[0] == "llama-2m vanilla: width 16, 1 layer, 2 heads of 8, context 5, vectors of 2"
    of_preset = "(llama-2m has 1,623,856, of which 1,608,864 are embeddings of tokens, not needed here)"
    assert f" parameters {of_preset}, 20 tokens per step, about " in said.splitlines()[1]
    train("llama-2m", steps=2, out=tmp_path, **TINY)
    assert not capsys.readouterr().err  # it is finished


def test_sizes_of_text_name_the_vocabulary():
    architecture = replace(PRESETS["llama-2m"].architecture, stem=Tokens(4096))
    arm = replace(PROMPTS, architecture=architecture, source=TextSource("anywhere", ""))
    model, step = request.sizes("llama-2m", arm, "3 MiB of memory")
    assert "width 16, 4 layers, 2 heads of 8, context 2,048, vocabulary 4,096 (the data's, not the preset's)" in model
    assert step == "146,064 parameters, 8,192 tokens per step, about 3 MiB of memory"


# Other sizes than the preset's.


def test_sizes_of_one_s_own(tmp_path):
    options = {**TINY, "layers": 2, "width": 24, "heads": 6}
    wide = train("llama-2m", steps=2, out=tmp_path, **options)
    architecture = wide.record["arm"]["architecture"]
    assert [architecture[name] for name in ("d_model", "n_layers", "n_heads", "d_ff")] == [24, 2, 6, 84]
    assert wide.record["key"] != train("llama-2m", steps=2, out=tmp_path, **{**options, "heads": 3}).record["key"]


def test_what_is_not_given_follows_the_preset_s_rules():
    small = PRESETS["llama-2m"].architecture
    wide = resized(small, width=64)
    assert (wide.n_heads, wide.width, wide.d_ff) == (8, small.width, 4 * small.d_ff)
    assert resized(small, width=64, heads=2).width == 32
    assert resized(small, layers=7) == replace(small, n_layers=7)
    assert resized(small) == small
    grouped = PRESETS["tinyllama-125m"].architecture
    assert resized(grouped, width=2 * grouped.d_model).group == grouped.group
    with pytest.raises(BadInput, match=r"4 query heads share a key/value head, which does not divide 6 heads"):
        resized(grouped, heads=6)


# What is refused, and when.


def refused_briefly(line, says):
    assert len(refused(line, says)) < 300


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "-0.5", "x", "9" * 5000])
@pytest.mark.parametrize(
    "option",
    ["steps", "batch", "width", "layers", "heads", "context", "accumulate", "log-every", "learning-rate"],
)
def test_numbers_without_meaning_are_refused_at_the_door(option, value):
    refused_briefly([*COMMAND.split(), "--steps", "2", f"--{option}={value}"], f"--{option} must be ")


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "-inf"])
@pytest.mark.parametrize("option", ["weight-decay", "save-every", "seed", "evaluate-every"])
def test_zero_has_a_meaning_to_some(option, value):
    refused_briefly([*COMMAND.split(), "--steps", "2", f"--{option}={value}"], f"--{option} must ")


@pytest.mark.parametrize("value", ["nan", "-1", "inf"])
@pytest.mark.parametrize("option", ["seeds", "jobs", "minutes"])
def test_so_are_those_of_a_run(option, value):
    refused_briefly(["run", "bridge", f"--{option}={value}"], f"--{option} must ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--batch 1000000000", "GiB of memory, and there are"),
        ("--data regression:n=1000000,d=2,sigma=0.1", "needs about 3,7"),
        ("--data regression:d=1000000000,n=2,sigma=0.1", "GiB of memory, and there are"),
        ("--data regression:d=100000,n=2,sigma=0.1 --batch 1", "GiB of memory, and there are"),
        ("--data stdlib --context 10000000", "GiB of memory, and there are"),
        ("--width 40000 --layers 1", "GiB of memory, and there are"),
        ("--layers 1000000000", "1,000,000,000 layers of 2 heads are too many"),
        ("--width 15", "heads 8 wide do not divide a width of 15"),
        ("--heads 3", "3 heads do not divide the width 16"),
        ("--context 9", "--context is for text"),
        ("--data regression:d=2,n=3,sigma=0,d=3", "regression: d is given twice"),
        ("--data regression:d=2,n=3,sigma=nan", "sigma must be a number from 0"),
        ("--data regression:d=2,n=3,sigma=0,scored=first", "regression: scored must be all or last, got 'first'"),
        ("--data regression:d=2,n=3,sigma=0,covariance=4", "regression has no 'covariance'; beside d, n, sigma and sc"),
        ("--data regression:d=2,n=3,sigma=0,inputs=gauss", "regression: inputs must be one of normal, rademacher"),
        ("--data regression:d=2,n=3,sigma=0,pool=many", "regression: pool must be a whole number, got 'many'"),
        ("--data regression:d=2,n=3,sigma=0,pool_seed=1", "regression: pool_seed chooses nothing without pool"),
        ("--data regression:d=2,n=3,sigma=0,pool=1000000000", "GiB of memory, and there are"),
        ("--seed 99999999999", "--seed must be at most 4,294,967,295"),
    ],
)
@pytest.mark.long
def test_what_cannot_be_trained_is_said_before_anything_is_made(options, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory, "available", lambda device: 16 * 2**30)
    refused_briefly([*COMMAND.split(), "--steps", "2", *options.split()], says)
    assert not list(tmp_path.iterdir())  # no text was prepared, no folder made


def test_a_training_that_fits_is_not_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda device: 64 * 2**20)
    train("llama-2m", steps=2, out=tmp_path, **TINY)
    monkeypatch.setattr(memory, "available", lambda device: 2**10)
    with pytest.raises(UserError, match=r"needs about \d+ MiB of memory, and there are 1 MiB; a shorter context"):
        train("llama-2m", steps=3, out=tmp_path, **TINY)
    with pytest.raises(UserError, match="--save-every must not be negative, got nan"):
        train("llama-2m", steps=2, out=tmp_path, save_every=math.nan, **TINY)


def test_several_processes_and_activations_made_again_need_less():
    """Each has its part of the batch and of weights and moments, and a copy of the latter while it saves on a CPU."""
    wide = replace(PROMPTS.architecture, d_model=512, n_heads=8, n_layers=12, d_ff=2048, context=255)
    arm = replace(PROMPTS, architecture=wide, source=PromptSource(2, 127, 0.1, 64))
    arm = replace(arm, recipe=replace(arm.recipe, batch=64))
    alone, eight = memory.needed(arm, "cuda"), memory.needed(arm, "cuda", 8)
    assert alone / 8 < eight < alone / 4
    assert eight < memory.needed(arm, "cpu", 8)
    for processes in (1, 8):
        assert memory.needed(arm, "cuda", processes, recompute=True) < memory.needed(arm, "cuda", processes)


def test_a_control_group_s_limit_is_memory_that_there_is(tmp_path, monkeypatch):
    assert memory.available("cpu") > 2**28
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "memory.max").write_text("1048576\n")
    (tmp_path / "a" / "b" / "memory.max").write_text("max\n")
    (tmp_path / "own").write_text("7:cpu:/elsewhere\n0::/a/b\n")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "OWN_GROUPS", tmp_path / "own")
    assert memory.available("cpu") == 2**20


def test_a_figure_of_many_pairs_computes_few_points(monkeypatch):
    """Else a training of 500 pairs ends with minutes in which nothing is said."""
    asked = []
    monkeypatch.setattr(
        training_figure,
        "expected_losses",
        lambda d, n, sigma, pairs: asked.extend(pairs) or {"predict zero": [1.0] * len(pairs)},
    )
    _, (axis,) = style.figure(1)
    held_out = {"loss": [1.0] * 501, "stderr": [0.1] * 501}
    training_figure._draw_positions(axis, {"held_out": held_out}, PromptSource(2, 500, 0.1))
    assert (asked[0], asked[-1], len(asked)) == (0, 500, 17)
    assert list(axis.lines[0].get_xdata()) == asked


def test_a_figure_shows_what_is_known_of_another_law():
    """The loss of predicting zero, and no curve that is of plain prompts; one answer stands after all pairs."""
    source = PromptSource(2, 3, 0.5, scored="last", law=Law(w0=3))
    _, (axis,) = style.figure(1)
    training_figure._draw_positions(axis, {"held_out": {"loss": [1.5], "stderr": [0.1]}}, source)
    zero, *_ = axis.lines
    assert set(zero.get_ydata()) == {4 + 2 * 9 + 2 * 0.5**2}
    assert {line.get_label() for line in axis.lines if not line.get_label().startswith("_")} == {"predict zero"}
    ((points, *_),) = axis.containers
    assert (list(points.get_xdata()), list(points.get_ydata())) == ([3], [1.5])


def test_a_training_under_a_law_is_asked_about_the_same_prompts(tmp_path):
    """From its folder, by its record alone."""
    words = "regression:d=2,n=2,sigma=0.1,scored=last,inputs=uniform,pool=4"
    made = train("llama-2m", steps=2, out=tmp_path, **{**TINY, "data": words})
    found = subject(made.folder)
    assert found.source == PromptSource(2, 2, 0.1, 64, "last", Law(inputs="uniform", pool=4))
    assert made.record["loss"] == evaluate(found.model_folder.model("cpu"), found.task(), PROMPTS.recipe).loss[0]


# Carrying on.


@pytest.fixture
def short(tmp_path):
    return train("llama-2m", steps=4, out=tmp_path / "short", **TINY)


def stop(*_):
    raise OutOfTime


def test_a_finished_training_is_carried_on(short, tmp_path, monkeypatch, capsys):
    """As if at its end the schedule had become the longer one; a kill on the way changes nothing."""
    capsys.readouterr()
    long = train("llama-2m", steps=8, resume_from=short.folder, out=tmp_path / "long", **TINY)
    said = capsys.readouterr().err
    assert f"carries on after step 4 of {short.folder}, in a folder of its own: its learning rate" in said
    assert "is now that of a schedule of 8 steps at this step" in said
    assert [step for step, _ in long.record["curve"]] == [2, 4, 6, 8]
    assert long.record["curve"][:2] == short.record["curve"]
    assert long.record["arm"]["start"] == {"key": short.record["key"], "steps": 4}
    whole = train("llama-2m", steps=8, out=tmp_path / "long", **TINY)
    assert whole.record["key"] != long.record["key"]
    assert whole.record["curve"][2:] != long.record["curve"][2:]
    assert whole.record["tokens"] == long.record["tokens"]

    again = {"steps": 8, "resume_from": short.folder, "out": tmp_path / "killed", **TINY}
    with monkeypatch.context() as patch:
        patch.setattr(single, "note", stop)
        with pytest.raises(OutOfTime):
            train("llama-2m", **again)
    killed = train("llama-2m", **again)
    assert killed.record["curve"] == long.record["curve"]
    assert killed.record["loss"] == long.record["loss"]
    ours, theirs = (load_file(t.folder / "model.safetensors") for t in (killed, long))
    assert all((ours[name] == theirs[name]).all() for name in theirs)
    longer = train("llama-2m", steps=10, resume_from=long.folder, out=tmp_path / "long", **TINY)
    assert [step for step, _ in longer.record["curve"]] == [2, 4, 6, 8, 10]


def test_with_the_same_schedule_it_is_the_very_training(tmp_path, monkeypatch):
    """A constant rate has no schedule to change: what is carried on ends as what was trained in one go."""
    options = {**TINY, "schedule": "constant"}
    settings = {"learning_rate": 0.01, "warmup": 0.0, "floor": 1.0}
    monkeypatch.setitem(names.SCHEDULES, "constant", replace(names.SCHEDULES["skipv1-llama"], settings=settings))
    short = train("llama-2m", steps=4, out=tmp_path, **options)
    long = train("llama-2m", steps=8, resume_from=short.folder, out=tmp_path, **options)
    whole = train("llama-2m", steps=8, out=tmp_path, **options)
    assert long.record["curve"] == whole.record["curve"]
    assert long.record["loss"] == whole.record["loss"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": 4}, "has 4 steps already; --steps must be more"),
        ({"batch": 2}, "was trained with another --batch: it cannot be carried on"),
        ({"seed": 1, "variant": "resformer"}, "another --seed and --variant"),
        ({"width": 32}, "another --heads and --width"),
        ({"data": "regression:d=2,n=2,sigma=0.2"}, "another --data"),
        ({"data": "regression:d=2,n=2,sigma=0.1,scored=last"}, "another --data"),
        ({"data": "regression:d=2,n=2,sigma=0.1,spike=4"}, "another --data"),
        ({"resume_from": "nowhere"}, "nowhere is no training's folder"),
    ],
)
def test_what_cannot_be_carried_on_says_why(short, change, says, tmp_path):
    with pytest.raises(UserError, match=says):
        train("llama-2m", **{**TINY, "steps": 8, "resume_from": short.folder, "out": tmp_path, **change})


def test_without_its_optimiser_s_state_it_cannot_be_carried_on(short, tmp_path):
    shutil.rmtree(short.folder / "checkpoint-000000004")
    with pytest.raises(UserError, match="holds no optimiser's state"):
        train("llama-2m", steps=8, resume_from=short.folder, out=tmp_path, **TINY)
    (short.folder / "summary.json").unlink()
    with pytest.raises(UserError, match="is not finished; its own command resumes it"):
        train("llama-2m", steps=8, resume_from=short.folder, out=tmp_path, **TINY)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"steps": 6},
            "a new training, as --steps differs from that in {}; to carry that one on, add --resume-from {}",
        ),
        ({"batch": 2}, "a new training, as --batch differs from that in {}\n"),
        (
            {"schedule": "resformer", "learning_rate": 2e-3},
            "a new training, as --schedule and --weight-decay differ from",
        ),
    ],
)
def test_a_changed_argument_says_what_it_does(short, change, says, tmp_path, capsys):
    capsys.readouterr()
    train("llama-2m", **{**TINY, "steps": 4, "out": tmp_path / "short", **change})
    assert says.format(short.folder, short.folder) in capsys.readouterr().err


def test_a_plan_s_name_alone_is_no_change():
    arm = replace(PROMPTS, variant=PLAN, label="mine.py:mine")
    before = json.loads(json.dumps(arm.to_json()))
    assert differing(replace(arm, label="moved.py:mine"), before) == set()
    assert differing(replace(arm, variant="vanilla"), before) == {"--variant"}


def test_one_list_of_options_is_the_command_s_and_the_function_s():
    parser = argparse.ArgumentParser()
    training.add_to(Commands(parser.add_subparsers(), parser))
    parsed = vars(parser.parse_args(["train", "--preset", "llama-2m", "--steps", "3"]))
    options = TrainingOptions(preset="llama-2m", steps=3)
    assert {name: parsed[name] for name in asdict(options)} == asdict(options)
    assert list(inspect.signature(train).parameters) == list(asdict(options))
    with pytest.raises(TypeError, match="no_such"):
        train("llama-2m", steps=2, no_such=1)
    with pytest.raises(UserError, match="--steps"):
        train("llama-2m")


@pytest.mark.parametrize(("few", "count"), [(10**9, 1), (1, 2)])
def test_small_models_are_trained_by_one_thread(few, count, monkeypatch, tmp_path):
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(single, "FEW", few)
    ends = {"diverged": "so far"}
    monkeypatch.setattr(single, "train_arm", lambda *_, **__: seen.append(torch.get_num_threads()) or ends)
    torch.set_num_threads(2)
    try:
        with pytest.raises(Diverged):
            train("llama-2m", steps=2, out=tmp_path, **TINY)
        assert (seen, torch.get_num_threads()) == ([count], 2)
    finally:
        torch.set_num_threads(before)
