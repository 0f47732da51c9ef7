"""Held-out data to look at a trained decoder with, and means by layer of what is seen."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.store.folders import Json, UserError
from theory.plans.architecture import Tokens

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.probes.recording import Attended
    from icl.training.objectives import Batch, HeldOut

TOKENS = 16_384  # of a sample, by default
AT_A_TIME = 4096  # tokens a forward pass, by default
SCORES = 2**23  # numbers that a model answers with at a time: 32 MB


@dataclass(frozen=True)
class Sample:
    """The first sequences of held-out data: as many as `tokens` make, `batch` at a time (0: about AT_A_TIME tokens)."""

    tokens: int = TOKENS
    batch: int = 0

    def batches(self, task: HeldOut, device: str) -> list[Batch]:
        """Raises UserError for fewer than two sequences, which have no spread, or tokens."""
        import torch

        from icl.training.objectives import Batch

        wanted = self.tokens // task.tokens
        size = self.batch or max(1, AT_A_TIME // task.tokens)
        taken: list[Batch] = []
        held_out = task.held_out()
        while (left := wanted - sum(len(b.inputs) for b in taken)) > 0 and (batch := next(held_out, None)):
            whole = Batch(batch.inputs[:left], batch.targets[:left])
            pairs = zip(whole.inputs.split(size), whole.targets.split(size), strict=True)
            taken += [Batch(*pair).to(torch.device(device)) for pair in pairs]
        check_spread(sum(len(b.inputs) for b in taken), task.tokens)
        return taken


def check_spread(count: int, tokens: int, where: str = "what --tokens leaves") -> None:
    """Raise UserError for fewer than two sequences, which have no spread, or tokens; `where`: what has them."""
    if count < 2 or tokens < 2:
        held = f"{count} of {tokens} tokens {'is' if count == 1 else 'are'}"
        raise UserError(f"two sequences or more of two tokens or more are needed; {held} {where}")


class Average:
    """The mean of tensors over their first dimension, and its standard error, batch after batch (Chan et al.)."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, values: Tensor) -> None:
        values = values.double()
        count, mean = len(values), values.mean(0)
        squares = (values - mean).square().sum(0)
        if not self.count:
            self.count, self.mean, self.squares = count, mean, squares
            return
        step, both = mean - self.mean, self.count + count
        self.squares = self.squares + squares + step.square() * (self.count * count / both)
        self.mean = self.mean + step * (count / both)
        self.count = both

    def to_json(self) -> Json:
        stderr = (self.squares / (self.count * max(1, self.count - 1))).sqrt()
        return {"mean": self.mean.tolist(), "stderr": stderr.tolist()}


NOTHING: Json = {"mean": None, "stderr": None}
Measured = dict[str, "Tensor"]  # names to (sequences, ...)


def averaged(
    model: Decoder,
    batches: Sequence[Batch],
    *,
    attention: Callable[[Attended, Batch], Measured] | None = None,
    state: Callable[[Tensor, Batch], Measured] | None = None,
) -> Json:
    """Return means by layer of what `icl.probes.recording.observed` shows.

    They are {name: {mean: [by layer], stderr: [by layer]}}.

    None stands for a layer in which something was not measured.  And `layers`, of which `attending` attend.
    """
    from icl.probes.recording import observed

    layers: dict[int, dict[str, Average]] = {}
    states: dict[int, dict[str, Average]] = {}
    for batch in batches:
        of_layer, of_state = (f and functools.partial(_with_batch, f, batch) for f in (attention, state))
        seen = observed(model, batch.inputs, attention=of_layer, state=of_state)
        for places, measured in ((layers, seen.attention), (states, dict(enumerate(seen.states)))):
            for place, values in measured.items():
                for name, value in values.items():
                    places.setdefault(place, {}).setdefault(name, Average()).add(value)
    return {
        "layers": list(range(1, model.config.n_layers + 1)),
        "attending": sorted(layers),
        **_by_place(layers),
        **_by_place(states),
    }


def _with_batch(measure: Callable[[Any, Batch], Measured], batch: Batch, shown: Any) -> Measured:
    return measure(shown, batch)


def _by_place(places: dict[int, dict[str, Average]]) -> Json:
    names = {name: None for place in places.values() for name in place}
    averages: Json = {}
    for name in names:
        each = [places[place][name].to_json() if name in places[place] else NOTHING for place in sorted(places)]
        averages[name] = {part: [one[part] for one in each] for part in ("mean", "stderr")}
    return averages


def token_losses_of(model: Decoder, task: HeldOut, batch: Batch) -> Tensor:
    """Return the losses of a batch, (batch, positions); of text, at most SCORES scores at a time."""
    import torch

    from icl.training.objectives import GivenTokens, TextTask

    if not isinstance(task, GivenTokens | TextTask):
        return task.losses(model(batch.inputs), batch.targets)
    assert isinstance(model.config.stem, Tokens)
    positions = max(1, SCORES // (len(batch.inputs) * model.config.stem.vocab))
    parts = zip(model.hidden(batch.inputs).split(positions, 1), batch.targets.split(positions, 1), strict=True)
    return torch.cat([task.losses(model.stem.answer(hidden), targets) for hidden, targets in parts], dim=1)
