"""The models whose heads are converted, and their text: small decoders trained here, and folders of others' weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.store.folders import UserError
from theory.plans.architecture import Architecture, Tokens
from theory.plans.presets import llama

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder

BYTES = 256
WINDOWS = 8  # of which the last judges: a text is cut into so many equal parts
HELD_OUT, SPREAD = 4, 64  # parts of a text of which `convert` leaves one out; how far its sequences are spread
RATE, FURTHER_RATE, CLIP = 3e-3, 1e-3, 1.0  # of a training, of training on; the largest norm of a gradient


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Tokens of each part of a text, and what is done.

    Attributes:
        advice: Tokens on which costs are predicted.
        fitted: Tokens on which projections are refitted.
        judged: Tokens on which models are judged.
        draws: Random choices of heads.
        further: Steps of training on after a conversion.
        raw: Whether the raw swap is measured, too.
    """

    advice: int
    fitted: int
    judged: int
    draws: int = 0
    further: int = 0
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


def material(source: Small | Imported, *, seed: int) -> Material:
    """Return the model and its text.

    Raises:
        UserError: for a folder or a text that is not there.
    """
    return _small(source, seed) if isinstance(source, Small) else _imported(source)


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
    return Material(original.model("cpu"), advice, fitted, judged, further=fitted)


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


def train(model: Decoder, rows: Tensor, *, steps: int, batch: int, rate: float, seed: int) -> None:
    """Train a model on the next token of sequences, (count, T + 1), with a rate that falls to 0."""
    import torch
    from torch.nn.functional import cross_entropy

    if not steps:
        return
    model.train()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    for _ in range(steps):
        chosen = rows[torch.randint(len(rows), (batch,), generator=generator)]
        loss = cross_entropy(model(chosen[:, :-1]).flatten(0, 1), chosen[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
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
