"""Advice before a conversion: which heads can read other values, at what predicted cost, and for what cache."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.commands.subjects import Choices, Published, subject
from experiments.store.folders import Json, UserError
from experiments.store.progress import progress
from experiments.training import user_files
from experiments.training.device import chosen_device
from experiments.training.model_folders import ModelFolder
from icl.files import write_atomically
from theory.plans.accounting import cache
from theory.plans.plan import Plan
from theory.plans.written import to_json

if TYPE_CHECKING:
    from icl.probes.reader_costs import Cell, Costs

VARIANT = "skipv1:ratio=1,sink=1"  # what every head may read: layer 1's values, and its own at the first token
TOKENS = 24_576  # of a text
FITTED = Fraction(2, 3)  # of its sequences, on which linear reads are fitted; gradients are taken on the others
SHARE = Fraction(1, 3)
BYTES = 2  # of a cached number


@dataclass(frozen=True, eq=False)
class Advice:
    """Predicted costs of converting a model's heads, and the heads that were chosen.

    Attributes:
        model_folder: The model.
        variant: What every converted head reads, by name.
        cells: All heads that can be converted.
        scores: Their costs alone, in nats per token.
        errors: The standard errors of the scores.
        chosen: The heads of the plan, in the order in which they were taken.
        plan: The plan.
        loss: The model's loss now.
        cost: The predicted rise of the loss, in nats per token.
        stderr: Its standard error, over sequences.
        additive: The sum of the chosen heads' scores.
        tokens: Tokens on which linear reads were fitted, and tokens on which gradients were taken.
        data: What they are of.
    """

    model_folder: ModelFolder
    variant: str
    cells: tuple[Cell, ...]
    scores: tuple[float, ...]
    errors: tuple[float, ...]
    chosen: tuple[Cell, ...]
    plan: Plan
    loss: float
    cost: float
    stderr: float
    additive: float
    tokens: tuple[int, int]
    data: str

    @property
    def cache_bytes(self) -> tuple[int, int]:
        """The cache per token in bf16, before and after."""
        from theory.plans.names import resolve

        config = self.model_folder.architecture
        vanilla = resolve("vanilla", config.shape)
        before, after = (cache(config, plan).bytes(BYTES) for plan in (vanilla, self.plan))
        return before, after

    @property
    def first_token_bytes(self) -> int:
        """The bytes, in bf16, that the plan keeps of a sequence's first token besides."""
        return BYTES * sum(cache(self.model_folder.architecture, self.plan).first)

    def to_json(self) -> Json:
        """Return all of it as JSON, the plan among it."""
        before, after = self.cache_bytes
        cells = zip(self.cells, self.scores, self.errors, strict=True)
        return {
            "model": str(self.model_folder.folder),
            "variant": self.variant,
            "data": self.data,
            "tokens_fitted": self.tokens[0],
            "tokens_scored": self.tokens[1],
            "loss": self.loss,
            "predicted_cost": self.cost,
            "predicted_cost_stderr": self.stderr,
            "predicted_first_loss": self.loss + self.cost,
            "sum_of_scores": self.additive,
            "cache_bytes_per_token": {"before": before, "after": after},
            "cache_bytes_of_first_token": self.first_token_bytes,
            "chosen": [list(cell) for cell in self.chosen],
            "scores": [{"layer": n, "head": h, "nats": score, "stderr": error} for (n, h), score, error in cells],
        }


def advise(
    run: Path | str,
    *,
    variant: str = VARIANT,
    share: Fraction = SHARE,
    choices: Choices,
    device: str = "auto",
) -> Advice:
    """Return which heads of a vanilla model a plan should convert, and at what predicted cost.

    Args:
        run: The model's folder.
        variant: The plan that says what every head would read; its converted heads are the candidates.
        share: Of the candidates, that the plan converts.
        choices: The text.
        device: auto, cpu or cuda.

    Raises:
        UserError: for what is not there, no text, and a share that leaves no head or more than there are.
        BadInput: for models and variants of which costs cannot be predicted.
    """
    import torch

    from icl.probes.reader_costs import candidates, costs, with_heads

    device = chosen_device(device)
    if not 0 < share <= 1:
        raise UserError(f"--share must be above 0 and at most 1, got {float(share):g}")
    if choices.text is None:
        raise UserError("advice needs text: name a file, a folder or stdlib by --text")
    data = subject(Path(run), choices)
    assert isinstance(data, Published)
    folder = data.model_folder
    plan = user_files.fitting(variant, folder.architecture)
    cells = candidates(plan)
    count = round(share * len(cells))
    if count == 0:
        raise UserError(f"a share of {float(share):g} leaves no head to convert among {len(cells)}")
    sequences = torch.from_numpy(data.sequences).to(torch.device(device))
    fitted = round(FITTED * len(sequences))
    length = sequences.shape[1] - 1
    with progress(f"advising {run}", len(sequences) + 1) as at:
        at(0, "reading")
        model = folder.model(device)
        found = costs(
            model,
            plan,
            sequences[:, :-1],
            targets=sequences[:, 1:],
            fitted=fitted,
            advance=lambda done: at(done, "moments" if done < fitted else "gradients"),
        )
        at(len(sequences) + 1)
    chosen = found.chosen(count)
    return _advice(
        folder,
        variant,
        found,
        plan=with_heads(plan, chosen),
        chosen=chosen,
        data=data.data,
        tokens=(
            fitted * length,
            (len(sequences) - fitted) * length,
        ),
    )


def _advice(
    folder: ModelFolder,
    variant: str,
    found: Costs,
    *,
    plan: Plan,
    chosen: list[Cell],
    data: str,
    tokens: tuple[int, int],
) -> Advice:
    scores, errors = (x.tolist() for x in found.scores())
    cost, stderr = found.predicted(len(chosen))
    return Advice(
        folder,
        variant,
        cells=found.cells,
        scores=tuple(scores),
        errors=tuple(errors),
        chosen=tuple(chosen),
        plan=plan,
        loss=float(found.losses.mean()),
        cost=cost,
        stderr=stderr,
        additive=sum(scores[found.cells.index(cell)] for cell in chosen),
        tokens=tokens,
        data=data,
    )


def write_plan(advice: Advice, path: Path) -> None:
    """Write the plan, with what was predicted of it, into a file that stands for a variant.

    Raises:
        UserError: for a file that is there already.
    """
    if path.exists() or path.is_symlink():
        raise UserError(f"{path} is there already; nothing is written over")
    write_atomically(path, json.dumps({**to_json(advice.plan), "advice": advice.to_json()}, indent=1) + "\n")
