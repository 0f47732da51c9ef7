"""Trainings as data: records, keys, what a kill or the end of a slot leaves, and what is made of many."""

import json
import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from experiments.store.desk import OutOfTime
from experiments.store.folders import RunFolder, Slot, Unfinished, UserError
from experiments.training import campaign, memory, pool, user_files
from experiments.training import text as text_data
from experiments.training.arms import Arm, PromptSource, TextSource
from experiments.training.campaign import of_runs, rounds
from experiments.training.pool import train_all
from experiments.training.records import train_arm
from icl.data import preparing, shards
from icl.prompts import RegressionTask
from icl.recipe import Recipe
from icl.training import loop
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.law import Law
from theory.plans.names import resolve
from theory.plans.plan import plan, v

RECIPE = Recipe(steps=6, batch=4, learning_rate=0.01, log_every=2, evaluate_every=4)
PROMPTS = Arm(
    architecture=Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=16, context=7, stem=Vectors(2)),
    variant="vanilla",
    source=PromptSource(2, 3, 0.1, 64),
    recipe=RECIPE,
    seed=0,
)
CLOCK = ("tokens_per_second", "mfu", "seconds")  # what of a record depends on it
EDITED = ("commit", "source")  # what changes if somebody edits the code while a test runs


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of prepared text."""
    folder = tmp_path_factory.mktemp("text")
    for i in range(30):
        (folder / f"{i:02}.txt").write_text("".join(f"{i} times {j} is {i * j}. " for j in range(i % 5 + 3)))
    prepared = tmp_path_factory.mktemp("prepared") / "data"
    preparing.prepare(str(folder), prepared, vocab=280, held_out=0.3)
    return prepared


@pytest.fixture
def reader(data):
    """An arm that reads it."""
    manifest = shards.open_data(data).manifest
    architecture = Architecture(
        d_model=8, n_layers=1, n_heads=2, d_ff=16, context=10, stem=Tokens(manifest.tokenizer.vocab)
    )
    return Arm(
        architecture=architecture,
        variant="skipv1",
        source=TextSource(str(data), manifest.digest, 8),
        recipe=RECIPE,
        seed=1,
    )


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path, Slot(jobs=1))


@pytest.fixture
def trained(monkeypatch):
    """The arms that `pool` has trained in this process."""
    arms = []

    def counting(arm, *others):
        arms.append(arm)
        return train_arm(arm, *others)

    monkeypatch.setattr(pool, "train_arm", counting)
    return arms


PLAN = plan(PROMPTS.architecture.shape, values=lambda n, h: v(n, h) + 0.5 * v(1, h) if n > 1 else v(n, h))
HERE = f"{__name__}:size"


def size(model, _, device):
    """A probe of one's own."""
    return {"entries": sum(float(p.detach().abs().sum()) for p in model.parameters()), "device": device}


def timeless(record):
    return {k: v for k, v in record.items() if k not in (*CLOCK, *EDITED)}


def finite(record):
    """The record, as it is read back from a file that may hold no NaN."""
    return json.loads(json.dumps(record, allow_nan=False))


def with_rate(arm, rate, **options):
    return replace(arm, recipe=replace(arm.recipe, learning_rate=rate, **options))


# Records.


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
        **{k: v for k, v in asdict(PROMPTS).items() if k not in ("probes", "label", "elsewhere")},
        "probe": False,
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
    assert record["key"] != PROMPTS.key("cpu")


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


def test_every_field_of_prompts_makes_another_training():
    laws = [{"spike": 4}, {"decay": 4}, {"inputs": "laplace"}, {"w0": 4}, {"w0_random": 4}, {"pool": 4}]
    laws += [{"w0_random": 4, "w0_seed": 1}, {"pool": 4, "pool_seed": 1}]
    sources = [replace(PROMPTS.source, law=Law(**law)) for law in laws]
    sources += [replace(PROMPTS.source, scored="last"), PROMPTS.source]
    keys = [replace(PROMPTS, source=source).key("cpu") for source in sources]
    assert len(set(keys)) == len(keys)
    assert keys[-1] == replace(PROMPTS, source=replace(PROMPTS.source, law=Law(), scored="all")).key("cpu")


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


# Resuming.


def out_of_time(after):
    """An `on_log` that stops at the given number of reports."""
    seen = []

    def log(logged):
        seen.append(logged.step)
        if len(seen) == after:
            raise OutOfTime

    return log


@pytest.mark.parametrize("seconds", [0.0, 60.0])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_training_that_ran_out_of_time_ends_with_the_same_record(reader, after, seconds, tmp_path):
    whole = train_arm(reader, tmp_path / "whole", "cpu")
    folder = tmp_path / "stopped"
    with pytest.raises(OutOfTime):
        train_arm(reader, folder, "cpu", out_of_time(after), seconds_between_saves=seconds)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "step", "st')  # a kill tears the last line
    record = train_arm(reader, folder, "cpu")
    assert timeless(record) == timeless(whole)
    assert [line["step"] for line in RunFolder(folder).metrics()] == [2, 4, 6]
    assert timeless(train_arm(reader, folder, "cpu")) == timeless(whole)


def test_what_was_done_when_time_was_up_is_in_the_checkpoint(tmp_path):
    """Else a slot that is shorter than the time between checkpoints gets nowhere, however often it comes."""
    with pytest.raises(OutOfTime):
        train_arm(PROMPTS, tmp_path, "cpu", out_of_time(2))
    said = []
    train_arm(PROMPTS, tmp_path, "cpu", said.append)
    assert [logged.step for logged in said] == [6]


OTHERS = {
    "rate": with_rate(PROMPTS, 0.02),
    "seed": replace(PROMPTS, seed=1),
    "variant": replace(PROMPTS, variant="resformer"),
    "source": replace(PROMPTS, source=PromptSource(2, 3, 0.2, 64)),
    "held out": replace(PROMPTS, source=PromptSource(2, 3, 0.1, 128)),
    "twin": replace(PROMPTS, twin=True),
    "std": replace(PROMPTS, std=0.1),
    "outputs": replace(PROMPTS, recipe=replace(PROMPTS.recipe, scale_outputs=False)),
}


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


# Keys.


def test_a_key_changes_with_all_that_matters(reader, monkeypatch):
    arms = [
        PROMPTS,
        *OTHERS.values(),
        replace(PROMPTS, architecture=replace(PROMPTS.architecture, d_ff=8)),
        replace(PROMPTS, probes=("magnitude",)),
        replace(PROMPTS, probes=("magnitude", HERE)),
        replace(PROMPTS, probes=(HERE,)),
        replace(PROMPTS, variant=PLAN),
        replace(PROMPTS, variant=resolve("resformer", PROMPTS.architecture.shape)),
        *(with_rate(PROMPTS, 0.01, **change) for change in ({"steps": 8}, {"clip": 0.5}, {"betas": (0, 0)})),
        with_rate(PROMPTS, 0.01, precision="bf16"),
        with_rate(PROMPTS, 0.01, compile=True),
        reader,
        replace(reader, source=replace(reader.source, digest="0" * 64)),
        replace(reader, source=replace(reader.source, held_out_windows=9)),
    ]
    keys = {arm.key(device) for arm in arms for device in ("cpu", "cuda")}
    monkeypatch.setattr(loop, "ROUTINE", loop.ROUTINE + 1)
    keys |= {arm.key("cpu") for arm in arms}
    assert len(keys) == 3 * len(arms)


def test_a_key_does_not_depend_on_where_things_are(reader):
    elsewhere = replace(reader, source=replace(reader.source, folder="/elsewhere"))
    assert elsewhere.key("cpu") == reader.key("cpu")
    assert PROMPTS.key("cuda:1") == PROMPTS.key("cuda")


def test_a_key_follows_a_plan_of_one_s_own(tmp_path):
    """Not its file, which may change or move."""
    keys = []
    for weight, name in ((0.5, "mine.py"), (2.0, "mine.py"), (2.0, "moved.py")):
        path = tmp_path / name
        path.write_text(
            "from theory.plans.plan import plan, v\ndef mine(s):\n"
            f"    return plan(s, values=lambda n, h: {weight} * v(n, h) if n > 1 else v(n, h))\n"
        )
        own = user_files.resolve(f"{path}:mine", PROMPTS.architecture.shape)
        keys.append(replace(PROMPTS, variant=own, label=f"{path}:mine").key("cpu"))
    assert keys[0] != keys[1] == keys[2]


def test_a_variant_may_be_a_plan(tmp_path):
    arm = replace(PROMPTS, variant=PLAN)
    assert arm.name.startswith("plan-")
    assert replace(arm, twin=True).name == f"{arm.name}-twin"
    shown = replace(arm, label="mine")
    assert (shown.name, shown.key("cpu")) == ("mine", arm.key("cpu"))  # what it is called decides no number
    assert replace(PROMPTS, label="mine").key("cpu") == PROMPTS.key("cpu")
    record = finite(train_arm(shown, tmp_path, "cpu"))
    assert (record["name"], record["arm"]["variant"]) == ("mine", "mine")
    assert "1/2" in record["arm"]["plan"] or "0.5" in record["arm"]["plan"]


def test_a_plan_and_its_name_train_the_same_model(tmp_path):
    by_name = replace(PROMPTS, variant="resformer")
    as_plan = replace(PROMPTS, variant=resolve("resformer", PROMPTS.architecture.shape))
    records = [train_arm(arm, tmp_path / str(i), "cpu") for i, arm in enumerate((by_name, as_plan))]
    assert records[0]["curve"] == records[1]["curve"]
    assert records[0]["key"] != records[1]["key"]


def test_probes_are_found_by_name(tmp_path):
    record = finite(train_arm(replace(PROMPTS, probes=(HERE, "magnitude")), tmp_path, "cpu"))
    assert set(record["magnitudes"]) == {"start", "end"}
    found = record["probes"][HERE]
    assert found["start"]["entries"] != found["end"]["entries"]
    assert record["arm"]["probe"] is True
    assert record["arm"]["probes"] == [HERE]
    for name in ("magnitudes", "nowhere:probe", f"{__name__}:nothing"):
        with pytest.raises(UserError, match=f"there is no probe '{name}'") as stop:
            train_arm(replace(PROMPTS, probes=(name,)), tmp_path / "other", "cpu")
        assert "\n" not in str(stop.value)


def test_a_twin_differs_in_its_initial_weights_alone():
    twin = replace(PROMPTS, twin=True)
    assert (PROMPTS.name, twin.name) == ("vanilla", "vanilla-twin")
    ours, theirs = (arm.model("cpu").stem.read_in.weight.detach() for arm in (PROMPTS, twin))
    assert not torch.equal(ours, theirs)
    batches = [arm.task().batch(arm.seed, 0, 4) for arm in (PROMPTS, twin)]
    assert torch.equal(batches[0].inputs, batches[1].inputs)
    assert float(replace(PROMPTS, std=0.2).model("cpu").stem.read_in.weight.detach().std()) > 5 * float(ours.std())


def test_the_recipe_says_how_output_projections_start():
    scaled, plain = (
        arm.model("cpu").layers[0]["feed_forward"].down.weight.detach() for arm in (PROMPTS, OTHERS["outputs"])
    )
    torch.testing.assert_close(plain, (2 * PROMPTS.architecture.n_layers) ** 0.5 * scaled)


# Many.


ARMS = [PROMPTS, replace(PROMPTS, variant="resformer"), replace(PROMPTS, seed=1)]


def test_finished_trainings_are_not_repeated(run, trained):
    first = train_all(ARMS[:2], run, "some")
    assert trained == ARMS[:2]
    assert list(first) == ARMS[:2]
    again = train_all(ARMS, RunFolder(run.path, run.slot), "all")
    assert trained == ARMS
    assert list(again) == ARMS
    assert {arm: again[arm] for arm in ARMS[:2]} == first
    assert names(run) == [".lock", "metrics.jsonl"]
    assert [(line["kind"], line["key"]) for line in run.metrics()] == [("run", arm.key("cpu")) for arm in ARMS]


def names(run):
    return sorted(path.name for path in run.path.iterdir())


def test_what_needs_more_memory_than_there_is_is_refused_unless_it_is_finished(run, trained, monkeypatch):
    train_all(ARMS[:1], run, "some")
    monkeypatch.setattr(memory, "available", lambda device: 2**10)
    assert list(train_all(ARMS[:1], run, "finished elsewhere")) == ARMS[:1]
    with pytest.raises(UserError, match=r"resformer needs about \d+ MiB of memory, and there are 1 MiB"):
        train_all(ARMS, run, "all")
    assert trained == ARMS[:1]


def test_one_training_that_is_asked_for_twice_is_done_once(reader, run, trained):
    copy = replace(reader, source=replace(reader.source, folder=f"{reader.source.folder}/"))
    found = train_all([PROMPTS, reader, PROMPTS, copy], run, "twice")
    assert trained in ([PROMPTS, reader], [PROMPTS, copy])
    assert found[copy] == found[reader]


def test_a_slot_that_ends_in_a_training_leaves_a_checkpoint(run, monkeypatch, tmp_path):
    whole = train_all(ARMS[:1], RunFolder(tmp_path / "whole", Slot(jobs=1)), "whole")
    left = iter([9.0, 9.0, -1.0])  # asked before the training, and at every report
    with monkeypatch.context() as patch:
        patch.setattr(Slot, "seconds_left", property(lambda slot: next(left)))
        assert train_all(ARMS, run, "stopped") == {}
    assert next(left, None) is None
    assert f"unfinished-{ARMS[0].key('cpu')}" in names(run)
    steps = []
    monkeypatch.setattr(pool, "note", lambda arm, logged: steps.append(logged.step) or "")
    assert timeless(train_all(ARMS[:1], run, "on")[ARMS[0]]) == timeless(whole[ARMS[0]])
    assert steps == [6]


@pytest.mark.slow
def test_processes_find_what_one_finds(reader, run, tmp_path):
    """Two processes for three trainings, of which one diverges and one is of a plan."""
    arms = [with_rate(PROMPTS, 1e30, clip=0.0, warmup=0.0), reader, replace(PROMPTS, variant=PLAN, seed=1)]
    alone = train_all(arms, run, "one by one")
    together = RunFolder(tmp_path / "both", Slot(jobs=2))
    found = train_all(arms, together, "two at a time")
    assert list(found) == arms
    assert {arm: timeless(record) for arm, record in found.items()} == {
        arm: timeless(record) for arm, record in alone.items()
    }
    assert names(together) == [".lock", "metrics.jsonl"]
    assert sorted(line["key"] for line in together.metrics()) == sorted(arm.key("cpu") for arm in arms)


# What is made of them.


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


# Text.


def test_text_is_a_folder_or_the_standard_library(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert text_data.prepared(str(data)) == data
    with pytest.raises(UserError, match=r"there is no folder nowhere; make one with `crosslayer data prepare SOURCE"):
        text_data.prepared("nowhere")
    made = []
    monkeypatch.setattr(text_data, "prepare", lambda source, folder, vocab: made.append((source, str(folder), vocab)))
    folder = tmp_path / "cache" / "crosslayer" / "stdlib-512"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert text_data.prepared("stdlib", 512) == folder
    assert made == [("stdlib", str(folder), 512)]
    assert str(folder) in capsys.readouterr().err
    shutil.copytree(data, folder)
    assert text_data.prepared("stdlib", 512) == folder
    shutil.copytree(data, tmp_path / "data" / "stdlib-512")
    assert str(text_data.prepared("stdlib", 512)) == "data/stdlib-512"  # made here before there was the other place
    assert len(made) == 1
    assert not capsys.readouterr().err


def test_what_a_user_is_told_of_text(data):
    """As JSON, and the figures those of the files."""
    opened = shards.open_data(data)
    about = text_data.about(data, opened.manifest)
    assert json.loads(json.dumps(about, allow_nan=False)) == about
    assert about["train"]["documents"] + about["held_out"]["documents"] == 30
    assert (about["vocab"], about["folder"], about["digest"]) == (280, str(data), opened.manifest.digest)
    for split in ("train", "held_out"):
        assert about[split]["tokens"] == len(opened.tokens(split)) > 0
    assert about["megabytes"] == round(sum(path.stat().st_size for path in data.glob("*.bin")) / 1e6, 1)
