"""A comparison of models: each one's costs over the first's, and final losses on the same held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.commands.prompt_losses import reference_losses
from experiments.store.folders import Json, UserError
from experiments.training import extension
from experiments.training.arms import PromptSource, RecallSource
from experiments.training.model_folders import ModelFolder, one_model
from theory.plans.accounting import cache, flops, total_parameters

COSTS = ("parameters", "cache_bytes_per_token", "flops_per_token")
BYTES = 2  # of a bf16


def side_by_side(places: Sequence[str]) -> Json:
    """Return the costs of models over the first's, and their losses minus the first's.

    context: tokens that a token attends over, the same for all models, the shortest of their contexts; models: each
    one's costs; over_first: these over the first one's; loss, loss_less_first: None where a training knows none, or has
    other held-out data than the first training here; last: of regression, the loss after all pairs and those of
    `reference_losses`; plan_of: the number of the first model here with the same plan, itself where it has its own;
    steps, seed: of a training.

    places  folders of models, or names of presets

    Raises UserError or BadInput for what is neither.
    """
    model_folders = [one_model(Path(place), None) for place in places]
    context = min(model_folder.architecture.context for model_folder in model_folders)
    costs = [dict(zip(COSTS, _costs(model_folder, context), strict=True)) for model_folder in model_folders]
    losses = _losses(model_folders)
    plans = [model_folder.plan for model_folder in model_folders]
    first = next((loss for loss in losses if loss is not None), None)
    return {
        "context": context,
        "models": [
            {
                "name": model_folder.name,
                "kind": model_folder.kind,
                "place": place,
                **own,
                "over_first": {name: own[name] / costs[0][name] if costs[0][name] else None for name in COSTS},
                "loss": loss,
                "loss_less_first": None if loss is None or first is None else loss - first,
                "last": None if loss is None else _last(model_folder),
                "plan_of": plans.index(model_folder.plan) + 1,
                "asked": None if model_folder.source is None else _held_out(model_folder),
                **(_training(model_folder) if model_folder.kind == "trained" else {"steps": None, "seed": None}),
            }
            for place, model_folder, own, loss in zip(places, model_folders, costs, losses, strict=True)
        ],
    }


def _costs(model_folder: ModelFolder, context: int) -> tuple[int, int, int]:
    config, plan = model_folder.architecture, model_folder.plan
    return total_parameters(config, plan), BYTES * cache(config, plan).total, flops(config, plan, context)


def _losses(model_folders: Sequence[ModelFolder]) -> list[float | None]:
    of_trainings = [model_folder for model_folder in model_folders if model_folder.kind == "trained"]
    first = _held_out(of_trainings[0]) if of_trainings else None
    return [
        _loss(model_folder) if model_folder.kind == "trained" and _held_out(model_folder) == first else None
        for model_folder in model_folders
    ]


def _loss(model_folder: ModelFolder) -> float | None:
    loss = extension.finished(model_folder.folder).get("loss")
    if loss is not None and not isinstance(loss, int | float):
        raise UserError(f"{model_folder.folder / 'summary.json'} is damaged; train it again")
    return loss


def _last(model_folder: ModelFolder) -> Json | None:
    """Return the loss after all pairs and what others lose there; None for other data than regression."""
    source = model_folder.source
    if not isinstance(source, PromptSource):
        return None
    held_out = extension.finished(model_folder.folder).get("held_out")
    losses = held_out.get("loss") if isinstance(held_out, dict) else None
    if not isinstance(losses, list) or not losses:
        return None
    others = reference_losses(source, model_folder.architecture, model_folder.plan, name=model_folder.name)
    return {"pairs": source.n, "loss": losses[-1], "others": others}


def _training(model_folder: ModelFolder) -> Json:
    """Return for how many steps a model was trained, and with which seed; None where its folder does not say."""
    arm = extension.finished(model_folder.folder).get("arm") or {}
    return {"steps": arm.get("recipe", {}).get("steps"), "seed": arm.get("seed")}


def _held_out(model_folder: ModelFolder) -> str:
    """Return what decides a training's held-out data, wherever they lie."""
    source = model_folder.source
    if isinstance(source, PromptSource):
        return f"regression {source.to_json()}"
    if isinstance(source, RecallSource):
        return str(source)
    assert source is not None
    opened = ", each opened" if source.opened else ""
    windows, length = source.held_out_windows, source.context or model_folder.architecture.context
    return f"text {source.digest}, {windows:,} windows of {length:,} tokens{opened}"
