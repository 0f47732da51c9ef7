"""Trainings that one process and two go through alike, of every kind of plan, at odd sizes; and what one of two does.

It goes through all cases, one after the other, and leaves what it found as JSON."""

import errno
import itertools
import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import torch
from safetensors.torch import save_file

from icl.checkpoint import BadCheckpoint
from icl.prompts import RegressionTask
from icl.recipe import Diverged, Recipe
from icl.training.loop import train
from icl.training.objectives import Batch, PromptTask
from icl.training.parallel import checkpoints
from icl.training.parallel.agreeing import OfAnother
from icl.training.parallel.joining import joined
from icl.training.parallel.launch import launched
from icl.training.parallel.ranks import Ranks
from tests.crashes import flip
from tests.icl.training.small import ALWAYS, AT_THE_END, READER, REGRESSOR, model_of, prompts, text
from theory.plans.architecture import Latent, Tokens

RECIPE = Recipe(steps=4, batch=6, learning_rate=0.01, weight_decay=0.1, clip=0.5, log_every=2, evaluate_every=2)
PLAIN = replace(READER, dropout=0.0)
ODD = replace(PLAIN, n_layers=3, n_heads=3, d_model=12, d_ff=15, stem=Tokens(23))
GPT2 = replace(PLAIN, norm="layer", positions="learned", gated=False, bias=True, qkv_bias=True)


@dataclass(frozen=True)
class Case:
    """double: in float64, where what is left of a difference is one of programs."""

    config: object = PLAIN
    variant: str = "vanilla"
    task: object = text
    recipe: Recipe = RECIPE
    double: bool = True
    options: dict = field(default_factory=dict)

    def model(self, seed=1):
        model = model_of(self.config, self.variant, seed)
        return model.double() if self.double else model

    def run(self, model, **options):
        """What of its reports does not depend on the clock."""
        return [report(x) for x in train(model, self.task(**self.options), self.recipe, 3, **options)]


def report(logged):
    held_out = logged.held_out
    return [logged.step, logged.loss, logged.gradient_norm, *((*held_out.loss, *held_out.stderr) if held_out else ())]


def spread(**options):
    """Held-out text in batches that two processes cannot take in equal turns."""
    return text(held_out_windows=5, held_out_batch=2, **options)


def doubles(**options):
    task = prompts(**options)
    batch, held_out = task.batch, task.held_out
    task.batch = lambda *asked: _double(batch(*asked))
    task.held_out = lambda: map(_double, held_out())
    return task


def _double(batch):
    return Batch(batch.inputs.double(), batch.targets.double())


class Poisoned(PromptTask):
    """From step 2 on the targets of its last row are no numbers: the last process alone sees them."""

    def batch(self, seed, step, size, rows=slice(None)):
        whole = super().batch(seed, step, size)
        if step >= 2:
            whole.targets[-1] = float("nan")
        return whole.rows(rows)


CASES = {
    "vanilla, tied": Case(),
    "vanilla, a batch of 2": Case(recipe=replace(RECIPE, batch=2)),
    "odd sizes, untied, in 3 parts": Case(ODD, recipe=replace(RECIPE, accumulate=3)),
    "held out in unequal turns": Case(ODD, "skipv1", spread),
    "skipv1, grouped": Case(replace(PLAIN, n_heads=4, n_kv_heads=2), "skipv1"),
    "svformer, latent": Case(replace(PLAIN, latent=Latent(8, 2)), "svformer"),
    "attnres": Case(ODD, "attnres"),
    "attnres-block, its own rate": Case(ODD, "attnres-block", recipe=replace(RECIPE, depth_rate=0.3, depth_decay=0.1)),
    "attnres-static": Case(variant="attnres-static"),
    "attnres-input-query": Case(variant="attnres-input-query"),
    "denseformer, learned mixing": Case(ODD, "resformer-learned+denseformer"),
    "dva, biases, learned positions": Case(GPT2, "dva"),
    "cross-layer, biases of scores": Case(replace(PLAIN, positions="bias"), "cross-layer"),
    "prompts": Case(replace(REGRESSOR, n_layers=2), "skipv1+attnres-block", doubles),
    "float32": Case(
        variant="skipv1+attnres", double=False, recipe=replace(RECIPE, steps=12, log_every=4, evaluate_every=4)
    ),
    "bf16": Case(variant="resformer-learned", double=False, recipe=replace(RECIPE, precision="bf16")),
}
RESUMED = replace(CASES["attnres"], recipe=replace(RECIPE, steps=8))


def left(processes, model, path):
    """The weights, by the first process."""
    if (whole := processes.whole(model)) is not None:
        save_file({name: p.detach() for name, p in whole.named_parameters()}, path)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def with_recipe(name, **changes):
    return replace(CASES[name], recipe=replace(CASES[name].recipe, **changes))


def trained(processes, folder):
    found = {}
    for name, case in CASES.items():
        model = case.model()
        found[name] = case.run(model, processes=processes)
        left(processes, model, folder / f"{name}.safetensors")
    return found


def recomputed(processes, _):
    case = CASES["attnres"]
    with patch.object(processes, "recomputed", True):
        return case.run(case.model(), processes=processes)


def compiled(processes, _):
    case = with_recipe("float32", compile=True)
    eager = lambda forward, **_: forward  # noqa: E731 - the code that a compiler makes is not what is asked
    with patch.object(torch, "compile", eager):
        return case.run(case.model(), processes=processes)


def really_compiled(processes, _):
    case = with_recipe("float32", compile=True, steps=4, log_every=4)
    return case.run(case.model(), processes=processes)


def same_share(processes, _):
    """Both read what the first one is to read."""
    case = CASES["vanilla, tied"]
    with patch.object(Ranks, "batch", lambda self, task, seed, step, size: task.batch(seed, step, size, slice(3))):
        return case.run(case.model(), processes=processes)


def own_norm(processes, _):
    """Each clips by the norm of its own part of the gradient."""
    case = CASES["vanilla, tied"]

    def clip(_self, model, largest):
        parts = [p.grad.to_local() for p in model.parameters()]
        norm = torch.stack([part.norm() for part in parts]).norm()
        for part in parts:
            part.mul_(min(1, largest / float(norm)))
        return norm

    with patch.object(Ranks, "clip", clip):
        return case.run(case.model(), processes=processes)


def steps(processes, folder, **options):
    model = RESUMED.model()
    return model, train(model, RESUMED.task(), RESUMED.recipe, 3, folder=folder, processes=processes, **options)


def killed(processes, folder):
    """At its second report but for the end, then resumed; and what lies there after each."""
    place = folder / "killed"
    _, running = steps(processes, place, seconds_between_saves=ALWAYS)
    seen = [report(x) for x in itertools.islice(running, 3)]
    running.close()
    processes.close()
    model, running = steps(processes, place, seconds_between_saves=AT_THE_END)
    again = [report(x) for x in running]
    left(processes, model, folder / "killed.safetensors")
    return {"before": seen, "after": again, "there": names(place)}


def of_one(processes, folder):
    """From a checkpoint that one process has written."""
    model, running = steps(processes, folder / "one")
    after = [report(x) for x in running]
    left(processes, model, folder / "of one.safetensors")
    return after


def stopped(processes, folder):
    """The first process alone is told to stop."""
    _, running = steps(processes, folder / "stopped", seconds_between_saves=AT_THE_END)
    seen = [report(next(running))]
    try:
        while True:
            seen.append(report(running.send(processes.rank == 0)))
    except StopIteration:
        pass
    return {"reports": len(seen), "there": names(folder / "stopped")}


def diverged(processes, folder):
    case, place = replace(with_recipe("prompts", steps=8), double=False), folder / "diverged"
    task, options = Poisoned(RegressionTask(2, 3, 0.1), 64, 32), {"processes": processes, "folder": place}
    running = train(case.model(), task, case.recipe, 3, seconds_between_saves=0, **options)
    seen = [report(next(running))]
    try:
        next(running)
    except Diverged as error:
        seen.append(str(error))
    processes.close()
    return {"seen": seen, "there": names(place)}


@contextmanager
def slow():
    """Files are written a while after the training has gone on."""
    write = checkpoints.HuggingFaceStorageWriter.write_data

    def late(self, plan, planner):
        time.sleep(0.3)
        return write(self, plan, planner)

    with patch.object(checkpoints.HuggingFaceStorageWriter, "write_data", late):
        yield


def meanwhile(processes, folder):
    """What is saved is what there was; and saving holds nothing up."""
    _, running = steps(processes, folder / "slow", seconds_between_saves=ALWAYS)
    with slow():
        next(running)
        began = time.perf_counter()
        next(running)
        took = time.perf_counter() - began
        running.close()
        processes.close()
    return {"took": took, "there": names(folder / "slow")}


def damaged(processes, folder):
    """The last process's file of the newest checkpoint, then all of them."""
    place, found = folder / "damaged", {}
    for damage in ("newest", "every"):
        if processes.rank == 0:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder / "killed", place)
            for checkpoint in sorted(place.glob("checkpoint-*"))[-1 if damage == "newest" else 0 :]:
                (file,) = checkpoint.glob("shard-00002-*")
                flip(file, 1)
        processes.first(lambda: None)
        said = []
        _, running = steps(processes, place, warn=said.append)
        try:
            outcome = [report(x) for x in running]
        except (BadCheckpoint, OfAnother) as error:
            outcome = [type(error).__name__, str(error)]
        found[damage] = {"said": said, "outcome": outcome}
    return found


def foreign(processes, folder):
    """A folder of another training."""
    other = replace(RESUMED.recipe, learning_rate=0.02)
    running = train(RESUMED.model(), RESUMED.task(), other, 3, folder=folder / "killed", processes=processes)
    try:
        return report(next(running))
    except (BadCheckpoint, OfAnother) as error:
        return [type(error).__name__, str(error)]


def full(processes, folder):
    """The last process cannot write its file."""

    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    _, running = steps(processes, folder / "full", seconds_between_saves=ALWAYS)
    for _ in range(2):
        next(running)
    processes.wait()
    own = checkpoints.HuggingFaceStorageWriter.write_data
    replaced = write if processes.rank else own
    try:
        with patch.object(checkpoints.HuggingFaceStorageWriter, "write_data", replaced):
            list(running)
    except (OSError, OfAnother) as error:
        found = [type(error).__name__, str(error)]
    there = processes.first(lambda: sorted(path.name for path in (folder / "full").glob("checkpoint-*[0-9]")))
    return {"said": found, "there": there}


def failing(processes, _):
    """What goes wrong in one process ends both: it tells, the other is quiet."""
    found = []
    for culprit in range(2):
        try:
            with processes.together():
                if processes.rank == culprit:
                    raise ValueError(f"it is {culprit}")
        except (ValueError, OfAnother) as error:
            found.append([type(error).__name__, str(error)])
    return found


JOBS = (trained, recomputed, compiled, same_share, own_norm, killed, of_one, stopped, diverged, meanwhile, damaged)
JOBS += (foreign, full, failing)
SLOW = (really_compiled,)

if __name__ == "__main__":
    place = Path(sys.argv[1])
    torch.set_num_threads(1)
    with joined(launched(os.environ)) as ranks:
        results = {job.__name__: job(ranks, place) for job in (SLOW if sys.argv[2:] else JOBS)}
        (place / f"{ranks.rank}.json").write_text(json.dumps(results))
