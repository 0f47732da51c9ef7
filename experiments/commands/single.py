"""One training on its own: its sizes are said, it is carried through in its folder, and resumed there."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from experiments.commands import request
from experiments.commands.request import Request
from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.progress import progress, relayed, warn
from experiments.training import extension
from experiments.training.arms import Arm, TextSource
from experiments.training.model_folders import BESIDE
from experiments.training.pool import note
from experiments.training.records import describe, train_arm
from icl.recipe import Diverged
from icl.training.parallel.launch import launched

if TYPE_CHECKING:
    from icl.training.processes import Processes

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


def train(
    preset: str | None = None,
    variant: str | None = None,
    *,
    init: Path | str | None = None,
    steps: int,
    data: str = "stdlib",
    batch: int | None = None,
    width: int | None = None,
    layers: int | None = None,
    heads: int | None = None,
    context: int | None = None,
    schedule: str = "skipv1-llama",
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    depth_rate: float = 1.0,
    optimiser: Literal["adamw", "muon"] = "adamw",
    accumulate: int = 1,
    precision: str | None = None,
    compile: bool = False,
    seed: int = 0,
    device: str = "auto",
    log_every: int = 10,
    evaluate_every: int = 0,
    save_every: float = 60.0,
    recompute: bool = False,
    resume_from: Path | str | None = None,
    out: Path | str = "runs",
) -> Trained:
    """Train a model of the papers under a variant, or resume it, in a folder below out/train.

    Its sizes and what it needs of memory go to standard error first.  In processes that torchrun has started, all of
    them train it together (`icl.training.parallel`) and return the same.

    init        in place of preset and variant, the folder of a model whose weights are there: trained, imported or
                converted.  Weights alone go on; the schedule begins anew, and `resume_from` is what carries on one
    variant     names joined by `+`, FILE.py:function among them; by default the preset's own
    data        stdlib, a prepared folder, or regression:d=5,n=20,sigma=0.1, to which scored=last and the fields of
                `theory.plans.law.Law` may be added: regression:d=5,n=20,sigma=0.1,spike=4,inputs=laplace,pool=64
    batch       sequences a step; by default what makes about 4,096 tokens
    width, layers, heads    of the model, in place of the preset's (`theory.plans.presets.resized`)
    context     tokens a sequence of text; by default the preset's, at most 512
    schedule    of a paper (`icl.recipe.SCHEDULES`), whose rate and decay the next two replace
    depth_rate  the rate of a depth rule's own parameters over that of all others
    optimiser   muon: matrices of layers by Muon, all else by AdamW
    precision   fp32, or bf16 with fp32 weights: the default on a GPU
    save_every  seconds between checkpoints
    recompute   make activations again in the backward pass in place of keeping them (`icl.training.recomputing`)
    resume_from the folder of a finished training of fewer steps, to be carried on in a folder of its own: weights,
                optimiser and order of the data go on, and from there the rate is the schedule's for all `steps`

    Raises UserError or BadInput for what makes no sense, Diverged if the training left for good.
    """
    launch = launched(os.environ)

    def ask() -> Request:
        return request.ask(
            launch.count if launch else 1,
            recompute,
            preset,
            variant,
            Path(init) if init is not None else None,
            data,
            {"width": width, "layers": layers, "heads": heads},
            device,
            precision,
            None if resume_from is None else Path(resume_from),
            Path(out),
            context=context,
            batch=batch,
            schedule=schedule,
            seed=seed,
            replaced={"learning_rate": learning_rate, "weight_decay": weight_decay},
            steps=steps,
            depth_rate=depth_rate,
            optimiser=optimiser,
            accumulate=accumulate,
            compile=compile,
            log_every=log_every,
            evaluate_every=evaluate_every,
        )

    if not save_every >= 0:
        raise UserError(f"--save-every must not be negative, got {save_every}")
    alone = None if launch else ask()  # before torch is imported
    from icl.training.parallel.joining import joined

    with joined(launch, gpus=device != "cpu", recomputed=recompute) as processes, ExitStack() as stack:
        job = alone or processes.first(ask)
        processes.first(lambda: stack.enter_context(job.run.locked()))
        if not processes.first(lambda: job.run.has("summary.json")):
            _finish(job, processes, save_every)
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
        kept = f"; the last good state is {run / saved[-1]}" if saved else ""
        raise Diverged(f"{record['diverged']}{kept}")

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
    with quiet, progress(f"{job.called} {arm.name}", arm.recipe.steps) as at:
        return train_arm(
            arm,
            run.path,
            device,
            lambda logged: at(logged.step, note(arm, logged)),
            warn,
            save_every,
            run / "model.safetensors",
            at,
            job.before,
            processes,
        )


def _describe(arm: Arm, run: RunFolder) -> None:
    """What lies beside the weights, so that they can be read."""
    describe(arm, run)
    if isinstance(arm.source, TextSource):
        from icl.data.shards import TokenData, read_manifest

        folder = Path(arm.source.folder)
        TokenData(folder, read_manifest(folder)).tokenizer().save(run.path)
    if arm.initial:
        for name in BESIDE:
            if (Path(arm.initial.folder) / name).is_file():
                shutil.copy(Path(arm.initial.folder) / name, run / name)
