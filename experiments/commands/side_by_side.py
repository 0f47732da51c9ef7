"""A comparison of models: each one's costs over the first's, and final losses on the same held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    other held-out data than the first training here; steps, seed: of a training.

    places  folders of models, or names of presets

    Raises UserError or BadInput for what is neither.
    """
    found = [one_model(Path(place), None) for place in places]
    context = min(of.architecture.context for of in found)
    costs = [dict(zip(COSTS, _costs(of, context), strict=True)) for of in found]
    losses = _losses(found)
    first = next((loss for loss in losses if loss is not None), None)
    return {
        "context": context,
        "models": [
            {
                "name": of.name,
                "kind": of.kind,
                "place": place,
                **own,
                "over_first": {name: own[name] / costs[0][name] if costs[0][name] else None for name in COSTS},
                "loss": loss,
                "loss_less_first": None if loss is None or first is None else loss - first,
                "asked": None if of.source is None else _asked(of),
                **(_training(of) if of.kind == "trained" else {"steps": None, "seed": None}),
            }
            for place, of, own, loss in zip(places, found, costs, losses, strict=True)
        ],
    }


def _costs(of: ModelFolder, context: int) -> tuple[int, int, int]:
    config, plan = of.architecture, of.plan
    return total_parameters(config, plan), BYTES * cache(config, plan).total, flops(config, plan, context)


def _losses(found: Sequence[ModelFolder]) -> list[float | None]:
    of_trainings = [of for of in found if of.kind == "trained"]
    asked = _asked(of_trainings[0]) if of_trainings else None
    return [_loss(of) if of.kind == "trained" and _asked(of) == asked else None for of in found]


def _loss(of: ModelFolder) -> float | None:
    loss = extension.finished(of.folder).get("loss")
    if loss is not None and not isinstance(loss, int | float):
        raise UserError(f"{of.folder / 'summary.json'} is damaged; train it again")
    return loss


def _training(of: ModelFolder) -> Json:
    """Return for how many steps a model was trained, and with which seed; None where its folder does not say."""
    arm = extension.finished(of.folder).get("arm") or {}
    return {"steps": arm.get("recipe", {}).get("steps"), "seed": arm.get("seed")}


def _asked(of: ModelFolder) -> str:
    """Return what decides a training's held-out data, wherever they lie."""
    source = of.source
    if isinstance(source, PromptSource):
        return f"regression {source.to_json()}"
    if isinstance(source, RecallSource):
        return str(source)
    assert source is not None
    opened = ", each opened" if source.opened else ""
    windows, length = source.held_out_windows, source.context or of.architecture.context
    return f"text {source.digest}, {windows:,} windows of {length:,} tokens{opened}"
