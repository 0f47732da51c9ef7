"""Training of an arm, from where it was left, and the record that is kept of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.store.desk import OutOfTime
from experiments.store.folders import METRICS, Json, RunFolder, UserError
from experiments.store.provenance import provenance
from experiments.store.steps import StepLog, stoppable
from experiments.training import probes
from experiments.training.arms import Arm, TextSource
from icl.files import write_atomically
from icl.recipe import Diverged
from theory.plans.written import to_json

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.loop import Logged
    from icl.training.objectives import Task
    from icl.training.processes import Processes


LOGGED: Json = {
    "loss": float,
    "gradient_norm": float,
    "learning_rate": float,
    "tokens_per_second": float,
    "mfu": float | None,
    "held_out": dict | None,
}


def describe(arm: Arm, run: RunFolder) -> None:
    """Write down what is trained, so that its weights can be read (`icl.load`)."""
    run.write("config.json", arm.to_json())
    if not isinstance(arm.variant, str):
        write_atomically(run / "plan.json", json.dumps(to_json(arm.plan)))


def train_arm(
    arm: Arm,
    folder: Path,
    device: str,
    on_log: Callable[[Logged], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
    seconds_between_saves: float = 60.0,
    weights: Path | None = None,
    on_step: Callable[[int], None] = lambda _: None,
    start: Path | None = None,
    processes: Processes | None = None,
    at_start: Json | None = None,
) -> Json:
    """Train an arm and return its record; `folder` holds its log and its checkpoints, from which it is resumed.
    `start` is the folder of the training at whose end it starts, if it does.

    processes: that train it together, by default this one alone.  They return the same; the first of them writes, and
    calls `on_log`, `on_step` and `warn`.

    A training that diverged has a record too, whose `diverged` says so and whose losses are None.  The trained weights
    go to `weights`, as safetensors.  What `on_log` raises as OutOfTime is let through once there is a checkpoint.
    `on_step` hears how many steps are done.  `at_start` is what the probes measured before the first step, if that is
    known.  Raises UserError for a folder that belongs to something else, or in which
    something is damaged.
    """
    from icl.models import saved
    from icl.training.processes import ALONE

    processes = processes or ALONE
    began = time.monotonic()
    with processes.together():
        model, task = arm.model(device), arm.task(processes.rank, processes.count)

    def prepared() -> Json:
        folder.mkdir(parents=True, exist_ok=True)
        return probed(arm, model, task, device=device) if at_start is None else at_start

    at_start = processes.first(prepared)
    log = processes.first(lambda: StepLog(RunFolder(folder), "step", arm.recipe.log_every, **LOGGED))
    if processes.rank:
        on_log, warn, on_step = _silent, _silent, _silent
    diverged = _train(
        arm,
        model,
        task,
        log=log,
        on_log=on_log,
        warn=warn,
        seconds_between_saves=seconds_between_saves,
        on_step=on_step,
        start=start,
        processes=processes,
    )
    whole = None if diverged else processes.whole(model)

    def recorded() -> Json:
        if whole is not None:
            _check_end(arm, log, warn)
            if weights is not None:
                write_atomically(weights, saved.weights(whole))
        at_end = dict.fromkeys(at_start) if whole is None else probed(arm, whole, task, device=device)
        return {
            "kind": "run",
            "key": arm.key(device),
            "arm": arm.to_json(),
            "name": arm.name,
            "seed": arm.seed,
            "parameters": sum(p.numel() for p in model.parameters()),
            "diverged": diverged,
            **losses(arm, log.lines, diverged),
            "tokens": arm.recipe.steps * arm.recipe.batch * task.tokens,
            **_of_text(task, arm),
            "tokens_per_second": _median([line["tokens_per_second"] for line in log.lines]),
            "mfu": _median([line["mfu"] for line in log.lines]),
            **of_probes(at_start, at_end),
            "seconds": round(time.monotonic() - began, 1),
            **({"processes": processes.count} if processes.count > 1 else {}),
            **provenance(device, __name__, *map(probes.module, arm.probes)),
        }

    return processes.first(recorded)


def _silent(_: object) -> None:
    pass


def _train(
    arm: Arm,
    model: Decoder,
    task: Task,
    log: StepLog,
    on_log: Callable[[Logged], None],
    warn: Callable[[str], None],
    seconds_between_saves: float,
    on_step: Callable[[int], None],
    start: Path | None,
    processes: Processes,
) -> str | None:
    """Train in place; return why it diverged, if it did."""
    from icl.training.loop import train

    device = next(model.parameters()).device
    steps = train(
        model,
        task,
        arm.recipe,
        seed=arm.seed,
        folder=log.run.path,
        seconds_between_saves=seconds_between_saves,
        warn=warn,
        on_step=on_step,
        name=arm.key(str(device)),
        start=start,
        processes=processes,
    )
    reached = arm.recipe.steps
    try:
        with stoppable(steps):
            for logged in steps:
                reached = logged.step
                if not processes.rank:
                    log.add(**asdict(logged))
                on_log(logged)
    except Diverged as error:
        return str(error)
    if reached < arm.recipe.steps:  # another process was out of time
        raise OutOfTime
    return None


def _check_end(arm: Arm, log: StepLog, warn: Callable[[str], None]) -> None:
    """Check the log's last line, which has the held-out loss that a record needs; any other is a point of a curve."""
    path, last, begun = log.run / METRICS, arm.recipe.steps, arm.start.steps if arm.start else 0
    if not log.lines or log.lines[-1]["step"] != last:
        newest = max(log.run.path.glob("checkpoint-*"))
        raise UserError(f"{path} lacks the last line; delete {newest} to train the last steps again")
    if missing := log.missing(last, begun):
        warn(f"{path} lacks {missing} lines of {missing + len(log.lines)}; the curves of this training have a gap")


def losses(arm: Arm, lines: Sequence[Json], diverged: str | None) -> Json:
    """Return the losses in a record; lines: of the log, with a step, a loss, and what `evaluate` found or None."""
    held_out = None if diverged else lines[-1]["held_out"]
    return {
        "curve": [[line["step"], line["loss"]] for line in lines],
        "evaluations": [[line["step"], _mean(line["held_out"]["loss"])] for line in lines if line["held_out"]],
        "held_out": None if isinstance(arm.source, TextSource) else held_out,
        "loss": _mean(held_out["loss"]) if held_out else None,
    }


def probed(arm: Arm, model: Decoder, task: Task, device: str) -> Json:
    """Return what the arm's probes measure, by name."""
    return {name: probes.probe(name)(model, task, device) for name in arm.probes}


def of_probes(at_start: Json, at_end: Json) -> Json:
    """Return the probes' entry in a record; magnitudes stand where they stood when there was no other probe."""
    values = {name: {"start": at_start[name], "end": at_end[name]} for name in at_start}
    return {"magnitudes": values.pop(probes.MAGNITUDE, None), **({"probes": values} if values else {})}


def _of_text(task: Task, arm: Arm) -> Json:
    """Return how much text there was, and how often it was read."""
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


def note(arm: Arm, logged: Logged) -> str:
    """Return what a progress bar shows beside the time left."""
    share = f", {logged.mfu:.0%} MFU" if logged.mfu is not None else ""
    return f"{arm.name}: loss {logged.loss:.3f}, {logged.tokens_per_second:,.0f} tokens/s{share}"
