"""`crosslayer data` and `crosslayer train`: a run that is killed is resumed, and ends as one that was not."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import load_file

import theory
from experiments.cli import main
from experiments.commands.prompt_losses import reference_lines, reference_losses
from experiments.training.arms import PromptSource
from theory.plans.architecture import Vectors
from theory.plans.law import Law
from theory.plans.mix import v
from theory.plans.names import resolve
from theory.plans.plan import plan
from theory.plans.presets import llama

TIMES = ("tokens_per_second", "seconds", "sha256")  # and the digest, which covers them
FILES = {  # beside the last checkpoint, which the training can be carried on from
    *(".lock", "config.json", "figure.png", "figure.svg"),
    *("metrics.jsonl", "model.safetensors", "summary.json", "tokenizer.json"),
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A working folder in which the standard library's source is prepared."""
    folder = tmp_path_factory.mktemp("work")
    assert main(["data", "prepare", "stdlib", "--out", str(folder / "data" / "stdlib-4096"), "--json"]) == 0
    return folder


def crosslayer(work, *arguments):
    """In a process of its own, in the folder `work`."""
    command = [sys.executable, "-m", "experiments", *arguments]
    root = Path(__file__).resolve().parents[3]
    paths = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(command, cwd=work, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE)


def numbers(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in TIMES} for line in lines]


PROMPTS = ["train", "--preset", "llama-2m", "--data", "regression:d=2,n=3,sigma=0.1", "--device", "cpu"]
COMMAND = ["train", "--preset", "llama-2m", "--variant", "resformer", "--data", "stdlib", "--device", "cpu"]
COMMAND += ["--context", "64", "--batch", "8", "--learning-rate", "0.01", "--save-every", "0", "--json"]


@pytest.mark.long
@pytest.mark.usefixtures("fine_figures")
def test_a_training_learns_text_and_is_not_repeated(text, monkeypatch, capsys):
    """From the loss of guessing to well below it, on text that it has not seen."""
    monkeypatch.chdir(text)
    command = [*COMMAND, "--steps", "100", "--out", "short"]
    assert main(command) == 0
    record = json.loads(capsys.readouterr().out)
    first, last = record["curve"][0][1], record["curve"][-1][1]
    assert abs(first - math.log(4096)) < 0.5
    assert last < first - 1
    assert record["loss"] < first - 1
    (folder,) = (text / "short" / "train").iterdir()
    assert {p.name for p in folder.iterdir()} == FILES | {"checkpoint-000000100"}
    assert len(numbers(folder)) == 10
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    assert main(command) == 0  # finished: it is shown, not trained
    assert json.loads(capsys.readouterr().out) == record
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before


@pytest.mark.slow
def test_a_killed_training_ends_as_one_that_was_not(text):
    command = [*COMMAND, "--steps", "200"]
    whole = crosslayer(text, *command, "--out", "whole")
    broken = crosslayer(text, *command, "--out", "broken")
    waited = time.monotonic()
    while not (found := list((text / "broken").glob("train/*/checkpoint-*0"))) and time.monotonic() - waited < 120:
        time.sleep(0.1)
    broken.send_signal(signal.SIGKILL)
    broken.communicate()
    assert found
    (folder,) = (text / "broken" / "train").iterdir()
    assert not (folder / "summary.json").exists()
    resumed = crosslayer(text, *command, "--out", "broken")
    record = json.loads(resumed.communicate()[0])
    unbroken = json.loads(whole.communicate()[0])
    assert resumed.returncode == whole.returncode == 0
    (other,) = (text / "whole" / "train").iterdir()
    assert numbers(folder) == numbers(other)
    assert len(numbers(folder)) == 20
    ours, theirs = load_file(folder / "model.safetensors"), load_file(other / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)
    assert record["loss"] == unbroken["loss"]
    assert {p.name for p in folder.iterdir()} == FILES | {"checkpoint-000000200"}


@pytest.mark.usefixtures("fine_figures")
@pytest.mark.long
def test_in_context_regression_is_a_task_too(tmp_path, capsys):
    command = [*PROMPTS, "--steps", "20", "--batch", "8", "--evaluate-every", "10", "--out", str(tmp_path)]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "tokens/s" in out
    (folder,) = (tmp_path / "train").iterdir()
    losses = json.loads((folder / "summary.json").read_text())["held_out"]["loss"]
    assert len(losses) == 4
    mean = sum(losses) / 4
    assert f"loss {mean:.4f} squared units of y, the mean over the answers after 0 to 3 pairs\n" in out
    assert f"loss {losses[-1]:.4f} after n = 3 pairs, which is what `crosslayer predict` is about\n" in out
    toy = theory.predict("vanilla", d=2, n=3, sigma=0.1).loss  # at rank 1, which is MHA's best
    words = "two layers of linear attention, 2 heads, its best rank, a = 1; tokens of d = 2 numbers (16 here)"
    assert f"{toy:.4f}  the toy of vanilla: {words}\n" in out
    assert f"{4.02:.4f}  predicting zero\n" in out


def _learned(shape):
    return plan(shape, values=lambda n, h: v(1, h) if n > 1 else v(n, h))


@pytest.mark.parametrize(
    ("source", "variant", "names"),
    [
        (PromptSource(2, 3, 0.1), "svformer", ["predicting", "the", "ridge"]),  # its best rank is 2, not 1
        (PromptSource(1, 1, 0.0), "vanilla", ["predicting", "the", "ridge"]),
        (PromptSource(2, 3, 0.1), "attnres", ["predicting", "ridge", "toy"]),  # no closed form
        (PromptSource(2, 3, 0.1), "mine.py:mine", ["predicting", "the", "ridge"]),  # a plan of one's own
        (PromptSource(2, 3, 0.1, law=Law(spike=4.0)), "vanilla", ["others"]),
        (PromptSource(2000, 2000, 0.1), "vanilla", ["predicting", "the"]),  # ridge's loss takes too long
    ],
)
def test_what_others_lose_on_the_same_prompts(source, variant, names):
    config = replace(llama(d_model=16, n_heads=2, n_layers=2, d_ff=16, vocab=2, context=9), stem=Vectors(source.d))
    own = _learned(config.shape) if ":" in variant else resolve(variant, config.shape)
    found = reference_losses(source, config, own, name=variant)
    lines = reference_lines(found, variant)[len(names) > 1 :]
    assert [line.split()[1] for line in lines] == names
    if found is None:
        return
    losses = [float(line.split()[0]) for line in lines if not line.startswith("the toy")]
    assert losses == sorted(losses, reverse=True)
    if variant in ("svformer", "mine.py:mine"):
        assert abs(losses[1] - theory.predict("svformer", d=2, n=3, sigma=0.1, rank=2).loss) < 1e-4


def test_a_deeper_model_s_toy_is_its_variant_s():
    config = replace(llama(d_model=16, n_heads=4, n_layers=3, d_ff=16, vocab=2, context=13), stem=Vectors(2))
    source = PromptSource(2, 6, 0.1)
    found = reference_losses(source, config, resolve("shared-keys", config.shape), name="shared-keys")
    wider = theory.predict("shared-keys", d=2, n=6, sigma=0.1, rank=found["toy"]["rank"], heads=4)
    assert (found["toy"]["loss"], found["toy"]["heads"]) == (wider.loss, 4)
    unnamed = reference_losses(source, config, _learned(config.shape), name="mine.py:mine")
    assert unnamed["toy"] is None
    assert "the toy of mine.py:mine has no closed form here" in reference_lines(unnamed, "mine.py:mine")[-1]


@pytest.mark.parametrize(("preset", "own"), [("llama-2m", "vanilla"), ("dva-b", "dva")])
@pytest.mark.long
def test_a_preset_s_own_variant_is_one_training_however_it_is_asked_for(preset, own, tmp_path, capsys):
    command = ["train", "--preset", preset, *PROMPTS[3:], "--steps", "2", "--batch", "2", "--width", "16"]
    command += ["--layers", "2", "--heads", "2", "--json", "--out", str(tmp_path)]
    records = []
    for more in ([], ["--variant", own], []):
        assert main([*command, *more]) == 0
        records.append(json.loads(capsys.readouterr().out))
        (folder,) = (tmp_path / "train").iterdir()
        assert folder.name.startswith(f"{preset}-{own}-")
    assert records[0] == records[1]
    before = folder.rename(folder.with_name(folder.name.replace(f"{preset}-{own}-", f"{preset}-default-")))
    for more in ([], ["--variant", own]):  # as it was once called
        assert main([*command, *more]) == 0
        assert json.loads(capsys.readouterr().out)["folder"] == str(before)
        assert list((tmp_path / "train").iterdir()) == [before]


@pytest.mark.parametrize("log_every", [1, 10])
def test_divergence_is_one_line_and_status_1(log_every, tmp_path, capsys):
    """The last good state is named where there is one: none is saved before the first window's loss is judged."""
    command = [*PROMPTS, "--steps", "200", "--batch", "2", "--learning-rate", "5", "--save-every", "0"]
    assert main([*command, "--log-every", str(log_every), "--out", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "training diverged by step" in err
    assert ("the last good state is " in err) == (log_every == 1)
    (folder,) = (tmp_path / "train").iterdir()
    assert not (folder / "summary.json").exists()


def test_data_info_finds_damage(text, tmp_path, capsys):
    copy = tmp_path / "data"
    shutil.copytree(text / "data" / "stdlib-4096", copy)
    assert main(["data", "info", str(copy)]) == 0
    assert "bpe-4096" in capsys.readouterr().out
    shard = copy / "train-00000.bin"
    content = bytearray(shard.read_bytes())
    content[1000] ^= 1
    shard.write_bytes(bytes(content))
    assert main(["data", "info", str(copy)]) == 2
    assert "train-00000.bin is damaged" in capsys.readouterr().err
    assert main(["train", "--preset", "llama-2m", "--data", str(copy), "--steps", "9", "--out", str(tmp_path)]) == 2
    assert "damaged" in capsys.readouterr().err


def test_data_of_one_s_own(tmp_path, capsys):
    novel = tmp_path / "novel.txt"
    novel.write_text("".join(f"Chapter {i}.\n\n{'It was a long night. ' * 40}\n\n" for i in range(300)))
    command = ["data", "prepare", str(novel), "--out", str(tmp_path / "data"), "--vocab", "300", "--json"]
    assert main(command) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["train"]["documents"] > about["held_out"]["documents"] >= 1
    options = ["--steps", "2", "--context", "16", "--batch", "2", "--device", "cpu", "--out", str(tmp_path), "--json"]
    assert main(["train", "--preset", "llama-2m", "--data", str(tmp_path / "data"), *options]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["data"] == about["digest"]
    assert record["epochs"] == pytest.approx(4 * 16 / record["unique_tokens"], rel=0.01)
