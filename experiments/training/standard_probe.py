"""The standard probe of every decoder of the campaign, in few numbers, so that later questions find them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from experiments.store.folders import Json
from experiments.training.by_layer import Measured, Sample, averaged
from experiments.training.layer_probes import FAMILIES
from icl.probes import attention
from icl.probes.cross_layer import nearness
from icl.probes.magnitude import magnitudes
from icl.probes.shares import shares
from theory.plans.names import resolve

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.probes.recording import Attended
    from icl.training.objectives import Batch, Task


def family_means(model: Decoder, task: Task, batches: Sequence[Batch], families: Sequence[str]) -> Json:
    """Return means by layer of what these families measure: {family: {name: [by layer]}}, with their `uniform`."""
    import torch

    model.eval()
    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the probe's hooks
        results = {name: FAMILIES[name].measure(model, task, batches) for name in families}
    model.train()
    return {name: {key: _mean(value) for key, value in result.items()} for name, result in results.items()}


def _mean(value: object) -> object:
    return value["mean"] if isinstance(value, dict) else value


SAMPLE = Sample(tokens=4096)
WINDOWS = 4  # of which nearness to cross-layer attention is told
DIGITS = 5  # significant ones, as stored
KINDS = ("repeated", "changed", "new")  # of tokens, by what stood before them in their window
KEPT = {  # of each family of `experiments.training.layer_probes`
    "induction": ("best_induction", "best_previous", "uniform_induction"),
    "entropy": ("entropy",),
    "importance": ("first", "most"),
    "norms": ("value_first", "own_first", "state_first", "state_others"),
    "spectrum": ("largest", "participation", "own_participation"),
    "similarity": ("similarity",),
    "heads": ("cosine",),
}


def probe(model: Decoder, task: Task, device: str) -> Json:
    """Return means over held-out text by layer, {family: {name: [layer 1, 2, ...]}}, and what depth does by read.

    `best_` is the head with the largest mean; `uniform_induction` one number, the score of uniform attention.  `depth`
    holds, by read, `rms`, the root mean square of its norm; and `output`, that of every output (the embedding first);
    `gradient`, that of the loss with respect to every layer's parameters; and `effective`, the logarithm of how many
    outputs of one norm would be as spread (`icl.probes.shares`).  `text` holds how much heads attend, on the text, to
    what followed earlier occurrences of the token that they read, `best` by layer and `uniform`, one number; and the
    loss in nats of three kinds of tokens (`_losses`).  `nearness` is there of models whose plan is vanilla's
    (`icl.probes.cross_layer`).
    """
    batches = SAMPLE.batches(task, device)
    measured = family_means(model, task, batches, families=tuple(KEPT))
    by_layer = {
        family: {name: measured[family][name] for name in names if name in measured[family]}
        for family, names in KEPT.items()
    }
    model.eval()
    with torch.compiler.set_stance("force_eager"):  # compiled code may not see the hooks
        further = {
            "depth": _depth(model, task, device),
            "text": {**_induction(model, batches), **_losses(model, task, batches)},
        }
        if model.plan == resolve("vanilla", model.plan.shape):
            further["nearness"] = nearness(model, batches[0].inputs[:WINDOWS])
    model.train()
    numbers: Json = _rounded({**by_layer, **further})
    return numbers


def _induction(model: Decoder, batches: Sequence[Batch]) -> Json:
    """Return the share of attention to what followed earlier occurrences of the token that is read."""

    def of(at: Attended, batch: Batch) -> Measured:
        return {"induction": attention.attention_to(at, attention.induction(batch.inputs))}

    heads = averaged(model, batches, attention=of)["induction"]["mean"]
    uniform = [_uniform(attention.induction(batch.inputs)) for batch in batches]
    return {"best": [max(of_layer) for of_layer in heads], "uniform": sum(uniform) / len(uniform)}


def _uniform(targets: Tensor) -> float:
    """Return the mean share of uniform attention to the past that lies on targets, (batch, T, T), over what has any."""
    shares = targets.sum(-1) / torch.arange(1, targets.shape[-1] + 1, device=targets.device)
    return float(shares[targets.any(-1)].mean())


@torch.no_grad()
def _losses(model: Decoder, task: Task, batches: Sequence[Batch]) -> Json:
    """Return mean losses in nats, and how many tokens there are, by what the window held before.

    `repeated`: the token has followed the one that is read before; `changed`: that one was there, and this has not
    followed it; `new`: that one was not there.
    """
    sums = dict.fromkeys(KINDS, 0.0)
    counts = dict.fromkeys(KINDS, 0)
    for batch in batches:
        losses = task.losses(model(batch.inputs), batch.targets).view(batch.targets.shape)
        followed = attention.induction(batch.inputs)  # (batch, reading, place of a token that has followed it)
        same = batch.inputs[:, None, :] == batch.targets[:, :, None]
        repeated, seen = (followed & same).any(-1), followed.any(-1)
        for name, kind in zip(KINDS, (repeated, seen & ~repeated, ~seen), strict=True):
            sums[name] += float(losses[kind].double().sum())
            counts[name] += int(kind.sum())
    means = {name: sums[name] / counts[name] if counts[name] else None for name in KINDS}
    return {"loss": means, "tokens": counts}


def _depth(model: Decoder, task: Task, device: str) -> Json:
    batch = next(task.held_out()).to(torch.device(device))

    def loss(answer: Tensor) -> Tensor:
        return task.losses(answer, batch.targets).mean()

    sizes, parts = magnitudes(model, batch.inputs, loss), shares(model, batch.inputs)
    return {
        "rms": sizes.read_rms,
        "output": sizes.output_rms,
        "gradient": sizes.layer_gradient,
        "effective": parts.effective,
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(x) for x in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
