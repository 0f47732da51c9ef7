"""The models whose heads are converted, and their text: small ones, the campaign's, and folders of others' weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.campaign.pool import text_folder
from experiments.campaign.profiles import CAMPAIGN
from experiments.campaign.setting import VANILLA, Cell, Setting
from experiments.store.folders import RunFolder, UserError
from experiments.training.arms import Arm
from experiments.training.pool import beginning, train_keeping
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Tokens
from theory.plans.presets import llama

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from icl.models.decoder import Decoder

BYTES = 256
WINDOWS = 8  # of which the last judges: a text is cut into so many equal parts
HELD_OUT, SPREAD = 4, 64  # parts of a text of which `convert` leaves one out; how far its sequences are spread
RATE = 3e-3  # of a training from scratch
APART = 1_000_000  # of seeds: the order of a text in which calibration and training on read it
REPORTS = 20  # of a training on, at which it can be saved


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Tokens of each part of a text, and what is done.

    Attributes:
        advice: Tokens on which costs are predicted.
        fitted: Tokens on which projections are refitted.
        judged: Tokens on which models are judged.
        draws: Random choices of heads.
        further: Steps of training on after a conversion.
        further_draws: Random choices of heads that are trained on, too.
        further_context: Tokens per sequence of training on; 0: as many as elsewhere.
        batch: Sequences per step of it.
        rate: The highest learning rate of training on, which is the same for all ways to choose heads.
        raw: Whether the raw swap is measured, too.
    """

    advice: int
    fitted: int
    judged: int
    draws: int = 0
    further: int = 0
    further_draws: int = 1
    further_context: int = 0
    batch: int = 8
    rate: float = 1e-3
    raw: bool = True


@dataclass(frozen=True, kw_only=True)
class Small:
    """A small decoder, which is trained on the bytes of the standard library's source.

    Attributes:
        heads: Heads with values of their own in each layer.
        group: Queries per such head.
        width: The width of the decoder.
        layers: Its layers.
        context: Tokens per sequence.
        steps: Steps of training before heads are converted.
        batch: Sequences per step.
        sizes: What is done with it.
    """

    heads: int
    group: int
    width: int
    layers: int
    context: int
    steps: int
    sizes: Sizes
    batch: int = 8

    @property
    def architecture(self) -> Architecture:
        return llama(
            d_model=self.width,
            n_heads=self.heads * self.group,
            n_layers=self.layers,
            d_ff=2 * self.width,
            vocab=BYTES,
            context=self.context,
            n_kv_heads=self.heads,
        )


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A vanilla model trained as the text campaign's are, with its text.

    Attributes:
        sizes: What is done with the model.
        group: Queries per head with values of its own; 1: the campaign's own model.
        width: Of the model.
        rate: The learning rate at its peak.
        length: Tokens per parameter.
        setting: The campaign.
    """

    sizes: Sizes
    group: int = 1
    width: int = 48
    rate: float = 8e-3
    length: float = 10.0
    setting: Setting = CAMPAIGN

    def arm(self, seed: int, folder: str) -> Arm:
        """Return the training, without probes; folder: where the campaign's text lies."""
        setting, own = replace(self.setting, probes=()), self.setting.sizes(self.width)
        sizes = replace(own, n_heads=self.group * own.n_heads, n_kv_heads=own.n_heads) if self.group > 1 else None
        cell = Cell(variant=VANILLA, width=self.width, rate=self.rate, sizes=sizes, until=self.length)
        return setting.arms(cell, seed, folder)[self.length]


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A model's folder, and a text: its first half to calibrate on, its second half to judge by.

    Attributes:
        folder: As `crosslayer import` writes it.
        text: A file.
        sizes: What is done with it.
        context: Tokens per sequence.
    """

    folder: str
    text: str
    sizes: Sizes
    context: int = 512


@dataclass(frozen=True, eq=False)
class Material:
    """A trained model and sequences of its text, (count, context + 1) each.

    Attributes:
        model: The model, in evaluation mode.
        advice: What costs are predicted on.
        fitted: What projections are refitted on.
        judged: What no model was fitted on.
        further: What models are trained on further.
    """

    model: Decoder
    advice: Tensor
    fitted: Tensor
    judged: Tensor
    further: Tensor


Source = Small | Campaign | Imported


def material(source: Source, *, seed: int, run: RunFolder) -> Material:
    """Return the model and its text; run: where a training of the campaign leaves its model.

    Raises:
        UserError: for a folder or a text that is not there.
    """
    match source:
        case Small():
            return _small(source, seed)
        case Campaign():
            return _of_campaign(source, seed=seed, run=run)
    return _imported(source)


def _imported(source: Imported) -> Material:
    """Return what `crosslayer advise`, `convert` and `evaluate` read of the text's halves."""
    import torch

    from experiments.training.model_folders import model_folder
    from icl.data.published import Part, PublishedTokenizer
    from icl.data.published import sequences as cut

    folder, sizes = Path(source.folder), source.sizes
    if not folder.is_dir() or not Path(source.text).exists():
        raise UserError(f"{source.folder} and {source.text} are needed: a model that was imported, and a text")
    original, tokenizer = model_folder(folder), PublishedTokenizer(folder)
    stem = original.architecture.stem
    assert isinstance(stem, Tokens)

    def sequences(tokens: int, part: Part, spread: int = 1) -> Tensor:
        count = tokens // source.context
        if not count:
            return torch.empty(0, source.context + 1, dtype=torch.long)
        drawn = cut(tokenizer, source.text, source.context + 1, count, stem.vocab, part=part, spread=spread)
        return torch.from_numpy(drawn)

    first, second = Part(0, 0.5), Part(0.5, None)
    whole = sequences(sizes.fitted * HELD_OUT // (HELD_OUT - 1), first, SPREAD)
    fitted = whole[: sizes.fitted // source.context]
    advice, judged = sequences(sizes.advice, first, SPREAD), sequences(sizes.judged, second)
    further = sequences(sizes.further * sizes.batch * source.context, first)
    shorter = further[:, : 1 + (sizes.further_context or source.context)]
    return Material(original.model("cpu"), advice, fitted, judged, further=shorter)


def _of_campaign(source: Campaign, *, seed: int, run: RunFolder) -> Material:
    """Train as the campaign does, if the run's folder does not hold the model; read its text in another order."""
    import torch

    from icl.data.shards import Windows, open_data
    from icl.models.saved import load

    folder = text_folder(source.setting.corpus, run.slot.data)
    arm, sizes = source.arm(seed, folder), source.sizes
    train_keeping([arm], run, f"queries per value head: {source.group}, seed {seed}")
    data = open_data(Path(folder))
    text = Windows(data.tokens("train"), arm.context, seed + APART)
    counts = [tokens // arm.context for tokens in (sizes.advice, sizes.fitted)] + [sizes.further * sizes.batch]
    rows = torch.from_numpy(text.batch(0, sum(counts)))
    advice, fitted, further = rows.split(counts)
    judged = torch.from_numpy(Windows(data.tokens("held_out"), arm.context, 0).in_order(sizes.judged // arm.context))
    return Material(load(Path(beginning(arm, run).folder)).eval(), advice, fitted, judged, further=further)


def _small(source: Small, seed: int) -> Material:
    import torch

    from icl.models.decoder import Decoder
    from theory.plans.names import resolve

    config, sizes = source.architecture, source.sizes
    text = _bytes()
    end = len(text) * (WINDOWS - 1) // WINDOWS
    rows = _windows(text[:end], source.context)
    judged = _windows(text[end:], source.context)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    count = (sizes.advice + sizes.fitted) // source.context
    advice, fitted = rows[order[:count]].split([sizes.advice // source.context, sizes.fitted // source.context])
    model, rest = Decoder(config, resolve("vanilla", config.shape), seed=seed), rows[order[count:]]
    train(model, rest, steps=source.steps, batch=source.batch, rate=RATE, seed=seed)
    return Material(model.eval(), advice, fitted, judged[: sizes.judged // source.context], further=rest)


def train(
    model: Decoder,
    rows: Tensor,
    *,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
    folder: Path | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> None:
    """Train a model on the next token of sequences, (count, T + 1), with a rate that falls to 0.

    Args:
        model: Trained in place.
        rows: The sequences.
        steps: Optimiser steps.
        batch: Sequences per step.
        rate: The highest learning rate.
        seed: Of the order of the sequences.
        folder: From which a killed training resumes.
        report: Hears how many steps are done.

    Raises:
        icl.recipe.Diverged: The loss has left for good.
    """
    from icl.training.loop import train as loop
    from icl.training.objectives import GivenTokens

    if not steps:
        return
    recipe = Recipe(
        steps=steps, batch=batch, learning_rate=rate, weight_decay=0.1, floor=0.0, log_every=-(-steps // REPORTS)
    )
    task = GivenTokens(rows[:1].numpy(), trained=rows.numpy())  # models are judged by `arms.losses`, by sequence
    for logged in loop(model, task, recipe, seed, folder=folder):
        report(logged.step)
    model.eval()


def _bytes() -> Tensor:
    """Return the standard library's source as bytes, in one row."""
    import torch

    from icl.data.sources import documents

    text = "".join(document.text for document in documents("stdlib"))
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def _windows(text: Tensor, context: int) -> Tensor:
    count = len(text) // (context + 1)
    return text[: count * (context + 1)].view(count, context + 1).long()
