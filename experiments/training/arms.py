"""One training of a full-size model, as data: what it is, how it is run, and the record that it leaves.

An arm's key is a digest of everything that decides its numbers, the text it reads and the training routine's version
included, but for the source code and the library versions: those stand in the record.  So a finished training is a
result that keeps its place when it is carried to another machine.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.store.folders import Json, RunFolder, UserError, write_atomically
from experiments.store.provenance import provenance
from icl.training.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.identity import canonical, text
from theory.plans.names import resolve

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.loop import Logged
    from icl.training.objectives import Task


@dataclass(frozen=True)
class TextSource:
    """Prepared text.  digest: of its manifest, so that an arm is tied to the data and not to where they lie."""

    folder: str
    digest: str
    held_out_windows: int = 64


@dataclass(frozen=True)
class PromptSource:
    """In-context regression: `icl.prompts.RegressionTask`."""

    d: int
    n: int
    sigma: float
    held_out_prompts: int = 4096


@dataclass(frozen=True)
class Arm:
    """A model under a variant, trained on a source by a recipe.

    seed    of the data's order, and of the initial weights
    std     deviation of the initial matrices
    twin    other initial weights on the same data: two arms between which there is no difference to find
    probe   also measure magnitudes and gradients by depth, at the start and at the end
    """

    architecture: Architecture
    variant: str
    source: TextSource | PromptSource
    recipe: Recipe
    seed: int
    std: float = 0.02
    twin: bool = False
    probe: bool = False

    @property
    def name(self) -> str:
        return f"{self.variant}{'-twin' if self.twin else ''}"

    def key(self, device: str) -> str:
        from icl.training.loop import ROUTINE

        plan = text(resolve(self.variant, self.architecture.shape))  # what a name stands for may change
        about = {**canonical(self), "plan": plan, "routine": ROUTINE, "device": device.split(":")[0]}
        about["source"].pop("folder", None)
        return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]

    def model(self, device: str) -> Decoder:
        from icl.models.decoder import Decoder

        plan = resolve(self.variant, self.architecture.shape)
        initial = self.seed + TWINS if self.twin else self.seed
        scaled = self.recipe.scale_outputs
        return Decoder(self.architecture, plan, seed=initial, std=self.std, scale_outputs=scaled, device=device)

    def task(self) -> Task:
        from icl.prompts import RegressionTask
        from icl.training.objectives import PromptTask, TextTask

        source = self.source
        if isinstance(source, PromptSource):
            task = RegressionTask(source.d, source.n, source.sigma)
            return PromptTask(task, source.held_out_prompts, min(512, source.held_out_prompts))
        from icl.data.shards import open_data

        data = open_data(Path(source.folder))
        if data.manifest.digest != source.digest:
            raise UserError(f"{source.folder} holds other text than it did; name it again")
        return TextTask(data, self.architecture.context, source.held_out_windows)


TWINS = 1_000_000  # beyond every seed that a user may ask for


class OutOfTime(Exception):
    """The slot's time is up; what is done is in the checkpoint."""


def train_arm(
    arm: Arm,
    folder: Path,
    device: str,
    on_log: Callable[[Logged], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
    seconds_between_saves: float = 60.0,
    weights: Path | None = None,
) -> Json:
    """Train an arm, or go on with it, and return its record.  `folder` holds metrics.jsonl and checkpoints meanwhile.

    A training that diverged has a record too, whose `diverged` says so and whose losses are None.  The trained weights
    go to `weights`, as safetensors.  Raises UserError for a folder that belongs to something else.
    """
    from icl.checkpoint import BadCheckpoint
    from icl.training.loop import Diverged, train

    run = RunFolder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, task = arm.model(device), arm.task()
    at_start = _probed(arm, model, task, device)
    lines = [line for line in run.metrics() if line["kind"] == "step"]
    kept, started, diverged = False, time.monotonic(), None
    steps = train(
        model,
        task,
        arm.recipe,
        arm.seed,
        folder=folder,
        seconds_between_saves=seconds_between_saves,
        warn=warn,
        name=arm.key(device),
    )
    try:
        for logged in steps:
            if not kept:  # what was logged after the last checkpoint happens again
                lines = [line for line in lines if line["step"] < logged.step]
                run.keep_metrics(lines)
                kept = True
            lines.append({"kind": "step", **asdict(logged)})
            run.log(lines[-1])
            on_log(logged)
    except Diverged as error:
        diverged = str(error)
    except OutOfTime:
        with suppress(StopIteration):
            steps.send(True)
        raise
    except BadCheckpoint as error:
        raise UserError(str(error)) from error
    every, steps_logged = arm.recipe.log_every, [line["step"] for line in lines]
    if diverged is None and steps_logged != [*range(every, arm.recipe.steps, every), arm.recipe.steps]:
        raise UserError(f"{folder / 'metrics.jsonl'} is incomplete; delete {folder} and train again")
    if weights is not None and diverged is None:
        from icl.models import saved

        write_atomically(weights, saved.weights(model))
    return {
        "kind": "run",
        "key": arm.key(device),
        "arm": asdict(arm),
        "name": arm.name,
        "seed": arm.seed,
        "parameters": sum(p.numel() for p in model.parameters()),
        "diverged": diverged,
        "curve": [[line["step"], line["loss"]] for line in lines],
        "evaluations": [[line["step"], _mean(line["held_out"]["loss"])] for line in lines if line["held_out"]],
        "held_out": None if diverged else lines[-1]["held_out"] if isinstance(arm.source, PromptSource) else None,
        "loss": None if diverged else _mean(lines[-1]["held_out"]["loss"]),
        "tokens": arm.recipe.steps * arm.recipe.batch * task.tokens,
        **_of_text(task, arm),
        "tokens_per_second": _median([line["tokens_per_second"] for line in lines]),
        "mfu": _median([line["mfu"] for line in lines]),
        "magnitudes": None
        if at_start is None
        else {"start": at_start, "end": None if diverged else _probed(arm, model, task, device)},
        "seconds": round(time.monotonic() - started, 1),
        **provenance(device, __name__),
    }


def _probed(arm: Arm, model: Decoder, task: Task, device: str) -> Json | None:
    if not arm.probe:
        return None
    from experiments.training.magnitude_probe import probe

    return probe(model, task, device)


def _of_text(task: Task, arm: Arm) -> Json:
    """How much text there was, and how often it was read."""
    from icl.training.objectives import TextTask

    if not isinstance(task, TextTask):
        return {}
    windows = task.windows(arm.seed)
    return {
        "data": task.data.manifest.digest,
        "unique_tokens": windows.tokens_an_epoch,
        "epochs": windows.epochs(arm.recipe.steps, arm.recipe.batch),
    }


def _mean(values: Any) -> float:
    return float(sum(values) / len(values))


def _median(values: list[float | None]) -> float | None:
    known = sorted(v for v in values if v is not None)
    return known[len(known) // 2] if known else None
