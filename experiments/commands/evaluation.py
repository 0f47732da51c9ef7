"""Evaluation of trained models on text or prompts that they have not seen: in all, by position, and with more context.

Losses are means over sequences, all of one length, with the standard error of these as if they were independent.  The
in-context score is the mean loss over the last tenth of the positions minus that over the second tenth (Olsson et al.,
2022, compare the 500th token with the 50th), negative where a model gets better within a sequence.

Models that predict the very same tokens are compared with the first of them, sequence by sequence: what makes a
sequence hard for all of them drops out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from experiments.commands.generation import language
from experiments.commands.probing import Probed
from experiments.commands.prompt_losses import reference_losses
from experiments.commands.subjects import RANDOM, Choices, Subject, about, check_alike, named, subjects
from experiments.store.backends import Serial
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder, UserError
from experiments.store.provenance import provenance
from experiments.store.work import results
from experiments.training.arms import PromptSource, RecallSource, TextSource
from experiments.training.by_layer import Average, token_losses_of
from experiments.training.device import chosen_device
from theory.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from icl.training.objectives import Batch, HeldOut

TENTHS = 10
FEWEST = 3  # positions in which a model can be seen to learn


def evaluate(
    runs: Sequence[Path | str], *, choices: Choices | None = None, device: str = "auto", out: Path | str = "runs"
) -> Probed:
    """Measure and draw the losses of models, side by side, in a folder below out/evaluate; what is there is kept.

    runs     folders of finished trainings, imported or published models; all of text, or all of regression
    choices  how much data, and which

    Raises UserError or BadInput for what makes no sense.
    """
    from experiments.commands.evaluation_figure import draw

    choices = choices or Choices()
    device = chosen_device(device)
    models = subjects([Path(run) for run in runs], choices)
    check_alike(models)
    folders = {one.data: one.model_folder.folder for one in models}
    if len(folders) > 1:
        (one, other), *_ = zip(folders, list(folders)[1:], strict=False)
        raise UserError(
            f"{folders[one]} would be asked about {one} and {folders[other]} about {other}: losses on different text "
            "cannot stand side by side; say --text for all"
        )
    run = RunFolder(Path(out) / "evaluate" / named(models, choices.sample, device, module=__name__))
    with run.locked():
        measured = results(
            "evaluation",
            {str(number): one for number, one in enumerate(models, 1)},
            _Evaluation(choices, device),
            run=run,
            label="evaluating",
            backend=Serial(),
        )
        runs_found = [{**about(one), **measured[str(n)]["result"]} for n, one in enumerate(models, 1)]
        runs_found = [{**one, **_beside(one, runs_found[0])} for one in runs_found]
        record = {
            "kind": "evaluation",
            "regression": models[0].kind == PromptSource.kind,
            "per": "query" if models[0].kind == RecallSource.kind else "token",
            "runs": runs_found,
            **provenance(device, __name__),
        }
        draw(record, run)
        run.write("summary.json", record)
    return Probed(run.path, record)


class _Evaluation:
    def __init__(self, choices: Choices, device: str) -> None:
        self.choices, self.device = choices, device

    def __call__(self, one: Subject, _: Desk) -> Json:
        task = one.task()
        batches = self.choices.sample.batches(task, self.device)
        result = losses(one.model_folder.model(self.device), task, batches)
        if isinstance(one.model_folder.source, PromptSource) and one.kind == PromptSource.kind:
            result["pairs"] = one.model_folder.source.n
            folder, source = one.model_folder, one.model_folder.source
            result["others"] = reference_losses(source, folder.architecture, folder.plan, name=folder.name)
        elif one.kind == TextSource.kind:
            result["bytes_a_token"] = _bytes_a_token(one, self.choices, batches)
        return {"result": result}


def losses(model: Decoder, task: HeldOut, batches: Sequence[Batch]) -> Json:
    """Return the losses of a model on held-out batches.

    Returns:
        loss and in_context, each with mean and stderr; by_position, lists of these; sequences, tokens; by_sequence, the
            losses, and last_by_sequence, those at the last position; and asked, the digest of the targets.

    in_context is None of fewer than three positions: the last and the second are then one and the same.
    """
    import torch

    whole, score, by_position = Average(), Average(), Average()
    by_sequence, of_last = list[float](), list[float]()
    targets = hashlib.sha256()
    with torch.no_grad():
        for batch in batches:
            token_losses = token_losses_of(model, task, batch).double()
            whole.add(token_losses.mean(-1))
            by_sequence += token_losses.mean(-1).tolist()
            of_last += token_losses[:, -1].tolist()
            targets.update(batch.targets.cpu().contiguous().numpy().tobytes())
            by_position.add(token_losses)
            score.add(in_context(token_losses))
    return {
        "loss": whole.to_json(),
        "in_context": score.to_json() if len(by_position.mean) >= FEWEST else None,
        "by_position": by_position.to_json(),
        "by_sequence": by_sequence,
        "last_by_sequence": of_last,
        "asked": targets.hexdigest(),
        "sequences": whole.count,
        "tokens": whole.count * task.tokens,
    }


def _beside(run: Json, first: Json) -> Json:
    """Return less_first: the mean difference of a run's losses from the first's, and its standard error over sequences.

    last_less_first is that of the losses at the last position.  Nothing is returned for the first itself, for tokens
    other than the first's, and for a single sequence.
    """
    if run is first or run["asked"] != first["asked"] or run["sequences"] < 2:
        return {}
    names = {"less_first": "by_sequence", "last_less_first": "last_by_sequence"}
    return {name: _difference(run[losses], first[losses]) for name, losses in names.items()}


def _difference(losses: Sequence[float], first: Sequence[float]) -> Json:
    differences = [a - b for a, b in zip(losses, first, strict=True)]
    return {"mean": fmean(differences), "stderr": stdev(differences) / len(differences) ** 0.5}


def in_context(by_position: Tensor) -> Tensor:
    """Return the mean over the last tenth minus that over the second, at least one position each.

    Args:
        by_position: losses, (sequences, positions).

    Returns:
        A score for each sequence, (sequences,).
    """
    count = by_position.shape[-1]
    width = max(1, count // TENTHS)
    early = by_position[:, min(width, count - 1) : min(width, count - 1) + width]
    return by_position[:, -width:].mean(-1) - early.mean(-1)


def _bytes_a_token(one: Subject, choices: Choices, batches: Sequence[Batch]) -> float | None:
    """Return the bytes per predicted token; None where no tokenizer is known, and for tokens that are no text."""
    if choices.text == RANDOM:
        return None
    try:
        tokenizer = language(one.model_folder, choices.data).tokenizer
    except (UserError, BadInput):
        return None
    rows = [pair for b in batches for pair in zip(b.targets.tolist(), b.inputs[:, 0].tolist(), strict=True)]
    return sum(tokenizer.spelt(row, first) for row, first in rows) / sum(len(row) for row, _ in rows)


def bits_a_byte(run: Json) -> float | None:
    """Return the loss of a record's run in bits per byte that it predicts; None if bytes are not known."""
    bytes_a_token = run.get("bytes_a_token")
    return run["loss"]["mean"] / math.log(2) / bytes_a_token if bytes_a_token else None
