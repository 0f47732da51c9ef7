"""Stems: how a model's input becomes vectors of width d_model, and its last vectors an answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from icl.models.unset import Embedding, Linear
from theory.plans.architecture import Architecture, Patches, Tokens, Vectors


class TokenStem(nn.Module):
    """A stem with token indices (batch, T) in, scores (batch, T, vocab) out."""

    def __init__(self, stem: Tokens, d_model: int) -> None:
        super().__init__()
        self.embedding = Embedding(stem.vocab, d_model)
        self.head = None if stem.tied else Linear(d_model, stem.vocab, bias=False)

    def embed(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.embedding(tokens)
        return out

    def answer(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.embedding.weight if self.head is None else self.head.weight)


class VectorStem(nn.Module):
    """A stem with vectors (batch, T, width) in and out, through linear maps or, without a read-in, as they are."""

    def __init__(self, stem: Vectors, d_model: int) -> None:
        super().__init__()
        self.read_in = Linear(stem.width, d_model, bias=False) if stem.read_in else nn.Identity()
        self.head = Linear(d_model, stem.width, bias=False) if stem.read_in else nn.Identity()

    def embed(self, vectors: Tensor) -> Tensor:
        out: Tensor = self.read_in(vectors)
        return out

    def answer(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x)
        return out


class PatchStem(nn.Module):
    """A stem with images (batch, channels, size, size) in, class scores (batch, classes) out.

    The scores are read from a token put in front.
    """

    def __init__(self, stem: Patches, d_model: int) -> None:
        super().__init__()
        self.patch = stem.patch
        self.read_in = Linear(stem.channels * stem.patch**2, d_model)
        self.class_token = nn.Parameter(torch.empty(d_model))
        self.head = Linear(d_model, stem.classes)

    def embed(self, images: Tensor) -> Tensor:
        p = self.patch
        patches = images.unfold(2, p, p).unfold(3, p, p)  # (batch, channels, rows, columns, p, p)
        x = self.read_in(patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2))
        return torch.cat([self.class_token.expand(x.shape[0], 1, -1).to(x.dtype), x], dim=1)

    def answer(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x[:, 0])
        return out


def stem_of(config: Architecture) -> TokenStem | VectorStem | PatchStem:
    match config.stem:
        case Tokens() as stem:
            return TokenStem(stem, config.d_model)
        case Patches() as stem:
            return PatchStem(stem, config.d_model)
        case stem:
            return VectorStem(stem, config.d_model)
