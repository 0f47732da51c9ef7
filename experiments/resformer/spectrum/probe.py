"""Value spectra by layer on held-out text, and on sequences whose tokens all differ, which random matrices describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.resformer.spectrum.points import DIFFERENT, TEXT
from experiments.store.folders import Json
from experiments.training.by_layer import Sample
from experiments.training.layers_probe import asked
from theory.plans.architecture import Tokens

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.training.objectives import Task

NAME = f"{__name__}:probe"
SEQUENCES = 64
KEPT = ("largest", "own", "sum", "square_sum", "participation", "own_participation")


def probe(model: Decoder, task: Task, device: str) -> Json:
    """Means over sequences; `eigenvalues` of layer 1."""
    from icl.probes.attention import repeated
    from icl.training.objectives import Batch

    batches = Sample(SEQUENCES * task.tokens).batches(task, device)
    stem = model.config.stem
    assert isinstance(stem, Tokens)
    drawn = [repeated(stem.vocab, task.tokens, len(b.inputs), seed)[:, : task.tokens] for seed, b in enumerate(batches)]
    different = [Batch(inputs, inputs) for inputs in (each.to(batches[0].inputs.device) for each in drawn)]
    found = {}
    for name, shown in ((TEXT, batches), (DIFFERENT, different)):
        spectrum = asked(model, task, shown, ("spectrum",))["spectrum"]
        found[name] = {key: spectrum[key] for key in KEPT} | {"eigenvalues": spectrum["eigenvalues"][0]}
    return found
