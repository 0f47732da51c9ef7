"""What layers do to the first token and to the others: entropies by length, importance, norms, similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.resformer.concentration.points import lengths
from experiments.store.folders import Json
from experiments.training.by_layer import Sample
from experiments.training.layers_probe import asked

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

NAME = f"{__name__}:probe"
SEQUENCES = 64  # of held-out text


def probe(model: Decoder, task: Task, device: str) -> Json:
    """On held-out text, by layer; the entropy also on the first tokens of the same sequences."""
    from icl.training.objectives import Batch

    batches = Sample(SEQUENCES * task.tokens).batches(task, device)
    found = asked(model, task, batches, ("importance", "norms", "similarity"))
    by_length = {}
    for length in lengths(task.tokens):
        cut = [Batch(batch.inputs[:, :length], batch.targets[:, :length]) for batch in batches]
        by_length[str(length)] = asked(model, task, cut, ("entropy",))["entropy"]["entropy"]
    importance, norms = found["importance"], found["norms"]
    return {
        "entropy": by_length,
        **{name: importance[name] for name in ("first", "most", "by_position")},
        **{name: norms[name] for name in ("value_first", "own_first", "state_first", "value_others", "own_others")},
        "similarity": found["similarity"]["similarity"],
    }
