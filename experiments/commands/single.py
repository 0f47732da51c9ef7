"""One training on its own: its sizes are printed, it runs in its folder, and resumes there."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands import request
from experiments.commands.request import Request
from experiments.commands.training_options import TrainingOptions
from experiments.store.folders import Json, RunFolder
from experiments.store.processes import threads
from experiments.store.progress import progress, relayed, warn
from experiments.training import extension
from experiments.training.arms import Arm, TextSource
from experiments.training.model_folders import BESIDE
from experiments.training.records import describe, note, train_arm
from icl.recipe import Diverged
from icl.training.parallel.launch import launched
from theory.plans.accounting import total_parameters

if TYPE_CHECKING:
    from icl.training.processes import Processes

FEW = 100_000  # parameters: with fewer, a second thread gains nothing, and loses much on a busy machine
RECORD = {"name": str, "parameters": int, "tokens": int, "curve": list, "loss": float, "tokens_per_second": float}


@dataclass(frozen=True)
class Trained:
    """A training that has ended.

    folder  holds the weights (`icl.load`), a text's tokenizer, the figure and the numbers of every step
    record  what was trained, its losses, speed and provenance
    """

    folder: Path
    record: Json

    def __repr__(self) -> str:
        return f"<Trained: in {str(self.folder)!r}, record of {', '.join(self.record)}>"


def train(preset: str | None = None, variant: str | None = None, **options: Any) -> Trained:
    """Train a model of the papers under a variant, or resume it, in a folder below out/train.

    Its sizes and what it needs of memory go to standard error first.  In processes that torchrun has started, all of
    them train it together (`icl.training.parallel`) and return the same.

    Args:
        preset: of the papers.
        variant: names joined by `+`, FILE.py:function among them; by default the preset's own.
        options: the further fields of `TrainingOptions`, with underscores: `steps` is needed.

    Raises:
        UserError: or BadInput, for what makes no sense.
        Diverged: if the training left for good.
    """
    return carried_out(TrainingOptions(preset=preset, variant=variant, **options))


def _signature() -> inspect.Signature:
    """Return the arguments of `train`: the first two by place, too."""
    parameters = inspect.signature(TrainingOptions).parameters.values()
    by_place = [one.replace(kind=one.POSITIONAL_OR_KEYWORD) for one in parameters if one.name in ("preset", "variant")]
    return inspect.Signature([*by_place, *(one for one in parameters if one.name not in ("preset", "variant"))])


train.__signature__ = _signature()  # type: ignore[attr-defined]


def carried_out(options: TrainingOptions) -> Trained:
    """Train the requested model to its end.  Raises as `train`."""
    launch = launched(os.environ)

    def ask() -> Request:
        return request.ask(options, launch.count if launch else 1)

    alone = None if launch else ask()  # before torch is imported
    from icl.training.parallel.joining import joined

    gpus, recomputed = options.device != "cpu", options.recompute
    with joined(launch, gpus=gpus, recomputed=recomputed) as processes, ExitStack() as stack:
        job = alone or processes.first(ask)
        processes.first(lambda: stack.enter_context(job.run.locked()))
        if not processes.first(lambda: job.run.has("summary.json")):
            _finish(job, processes, options.save_every)
        return processes.first(lambda: _left(job))


def _finish(job: Request, processes: Processes, save_every: float) -> None:
    """Train it to its end, and leave its figure and its record."""
    from experiments.commands.training_figure import draw

    arm, run = job.arm, job.run

    def begin() -> None:
        for line in request.sizes(job.called, arm, job.memory):
            print(line, file=sys.stderr)
        if job.before is not None:
            warn(extension.handed_over(arm, job.before, run))

    processes.first(begin)
    record = _trained(job, processes, save_every)
    if record["diverged"]:
        saved = sorted(path.name for path in run.path.glob("checkpoint-*"))
        last_state = f"; the last good state is {run / saved[-1]}" if saved else ""
        raise Diverged(f"{record['diverged']}{last_state}")

    def end() -> None:
        draw(record, arm, run)
        run.write("summary.json", record)

    processes.first(end)


def _left(job: Request) -> Trained:
    for path in job.run.path.glob("checkpoint-*"):
        if path.name != f"checkpoint-{job.arm.recipe.steps:09d}":  # the last is what `resume_from` starts with
            shutil.rmtree(path)
    return Trained(job.run.path, _record(job.run))


def _record(run: RunFolder) -> Json:
    keeps = f"the weights beside it are not; to train again, delete {run.path}"
    return run.read("summary.json", RECORD, advice=keeps)


def _trained(job: Request, processes: Processes, save_every: float) -> Json:
    arm, run, device = job.arm, job.run, job.device
    processes.first(lambda: _describe(arm, run))
    if device == "cuda" and processes.count > 1:
        device = f"cuda:{processes.local}"
    quiet = relayed(lambda *_: None) if processes.rank else nullcontext()
    alone = threads(1) if device == "cpu" and total_parameters(arm.architecture, arm.plan) < FEW else nullcontext()
    with quiet, alone, progress(f"{job.called} {arm.name}", arm.recipe.steps) as at:
        return train_arm(
            arm,
            run.path,
            device,
            on_log=lambda logged: at(logged.step, note(arm, logged)),
            warn=warn,
            seconds_between_saves=save_every,
            weights=run / "model.safetensors",
            on_step=at,
            start=job.before,
            processes=processes,
        )


def _describe(arm: Arm, run: RunFolder) -> None:
    """Write what lies beside the weights, so that they can be read."""
    describe(arm, run)
    if isinstance(arm.source, TextSource):
        from icl.data.shards import TokenData, read_manifest

        folder = Path(arm.source.folder)
        TokenData(folder, read_manifest(folder)).tokenizer().save(run.path)
    if arm.initial:
        for name in BESIDE:
            if (Path(arm.initial.folder) / name).is_file():
                shutil.copy(Path(arm.initial.folder) / name, run / name)
