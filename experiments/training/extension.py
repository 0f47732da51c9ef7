"""The relation of a training to another one: a shorter one carried on, or a new one, and the options that differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments.store.folders import Json, RunFolder, UserError
from experiments.training.arms import Arm, Start
from icl.recipe import Recipe

OPTIONS = {  # of fields that are not called as their option is
    **dict.fromkeys(("betas", "eps", "clip", "warmup", "start", "floor", "scale_outputs", "decay"), "--schedule"),
    **dict.fromkeys(("d_model", "d_ff"), "--width"),
    **dict.fromkeys(("n_heads", "n_kv_heads"), "--heads"),
    **dict.fromkeys(("stem", "source"), "--data"),
    **dict.fromkeys(("latent", "plan"), "--variant"),
    "n_layers": "--layers",
    "initial": "--init",
    **dict.fromkeys(
        ("norm", "normed", "norm_eps", "gated", "positions", "rope_theta", "qkv_bias", "bias", "dropout"), "--preset"
    ),
}
MAY_CHANGE = {"--steps", "--schedule", "--learning-rate", "--weight-decay", "--accumulate", "--precision", "--compile"}
MAY_CHANGE |= {"--depth-rate", "--log-every", "--evaluate-every", "--resume-from"}


def started(arm: Arm, folder: Path) -> Start:
    """Return the end of the training in `folder`, for `arm` to carry on.  Raises UserError where that has no meaning.

    Model, data, batch and seed must be the same: then it reads on in the text where the other stopped.
    """
    run, record = RunFolder(folder), finished(folder)
    try:
        before, key = record["arm"], record["key"]
        steps = int(before["recipe"]["steps"])
        other = sorted(differing(arm, before) - MAY_CHANGE)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{run / 'summary.json'} is damaged; train it again") from error
    if other:
        raise UserError(f"{folder} was trained with another {' and '.join(other)}: it cannot be carried on")
    if steps >= arm.recipe.steps:
        raise UserError(f"{folder} has {steps} steps already; --steps must be more than that to carry it on")
    if not (run / f"checkpoint-{steps:09d}").is_dir():
        raise UserError(f"{folder} holds no optimiser's state (checkpoint-{steps:09d}), so it cannot be carried on")
    return Start(key, steps)


def finished(folder: Path) -> Json:
    """Return the record of the training in a folder.  Raises UserError unless it has ended there."""
    run = RunFolder(folder)
    if not run.has("summary.json"):
        known = "is not finished; its own command resumes it" if run.has("config.json") else "is no training's folder"
        raise UserError(f"{folder} {known}")
    return run.read("summary.json")


def handed_over(arm: Arm, folder: Path, run: RunFolder) -> str:
    """Begin the log of `run` with that of the training in `folder`; return a line on what the learning rate does."""
    assert arm.start is not None
    before = RunFolder(folder)
    if not run.has("metrics.jsonl"):
        run.keep_metrics(before.metrics())
    recipe = before.read("summary.json")["arm"]["recipe"]
    ended = Recipe(**{**recipe, "betas": tuple(recipe["betas"])}).rate(arm.start.steps - 1)
    rate = arm.recipe.rate(arm.start.steps)
    return (
        f"carries on after step {arm.start.steps:,} of {folder}, in a folder of its own: its learning rate, "
        f"{ended:.3g} at the end, is now that of a schedule of {arm.recipe.steps:,} steps at this step, {rate:.3g}"
    )


def differing(arm: Arm, before: Json) -> set[str]:
    """Return the options by which a training differs from a recorded one; options that it did not know are unchanged.

    What a plan is called, and where text lies, makes no other training.
    """
    new: Json = json.loads(json.dumps(arm.to_json()))
    options: set[str] = set()
    for part in ("recipe", "architecture"):
        old = before[part]
        options |= {_option(name) for name, value in new.pop(part).items() if value != old.get(name, value)}
    unnamed = {"label"} | ({"variant"} if "plan" in new and "plan" in before else set())
    if ("initial" in before) != ("initial" in new):
        options.add(_option("initial"))
    for name, value in new.items():
        if name not in unnamed and _without_place(value) != _without_place(before.get(name, value)):
            options.add("--resume-from" if name == "start" else _option(name))
    return options


def beside(arm: Arm, run: RunFolder, pattern: str) -> str | None:
    """Return a line that says that a training is new, and why, where one like it lies beside its folder; else None."""
    candidates: list[tuple[int, str, Path, set[str]]] = []
    for path in sorted(run.path.parent.glob(f"{pattern}/config.json")):
        try:
            options = differing(arm, json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, AttributeError):
            continue  # what is damaged there is no matter here
        candidates.append((len(options), str(path), path.parent, options))
    if not candidates:
        return None
    _, _, folder, options = min(candidates)
    names = " and ".join(sorted(options)) or "--device"
    line = f"a new training, as {names} {'differ' if len(options) > 1 else 'differs'} from that in {folder}"
    try:
        started(arm, folder)
    except UserError:
        return line
    return f"{line}; to carry that one on, add --resume-from {folder}"


def _without_place(value: Any) -> Any:
    return {k: v for k, v in value.items() if k != "folder"} if isinstance(value, dict) else value


def _option(field: str) -> str:
    return OPTIONS.get(field, f"--{field.replace('_', '-')}")
