"""Small architectures of every kind, the plans that have a meaning on them, inputs that fit, and gradients."""

from dataclasses import replace

import pytest
import torch

from theory.plans.architecture import Architecture, Latent, Patches, Tokens, Vectors, misfits
from theory.plans.names import resolve
from theory.plans.variants import VARIANTS

LLAMA = Architecture(d_model=24, n_layers=3, n_heads=4, d_ff=20, context=12, stem=Tokens(11), head_dim=6)
GPT2 = replace(
    LLAMA, norm="layer", gated=False, positions="learned", bias=True, qkv_bias=True, stem=Tokens(11, tied=True)
)
ARCHITECTURES = {
    "llama": LLAMA,
    "gpt2": GPT2,
    "grouped": replace(LLAMA, n_heads=8, n_kv_heads=4, head_dim=4),
    "windowed": replace(LLAMA, n_heads=8, n_kv_heads=4, head_dim=4, qk_norm=True, window=3),
    "latent": replace(LLAMA, latent=Latent(12, 4)),
    "patches": replace(GPT2, stem=Patches(8, 4, 3, 5), context=5, mask="none"),
    "bias": replace(LLAMA, n_heads=8, n_kv_heads=4, head_dim=3, positions="bias", context=7),
    "linear": replace(LLAMA, score="linear", stem=Vectors(5), norm="none", positions="none", d_ff=0),
    "bare head": replace(GPT2, normed="sublayers"),
    "bare sublayers": replace(LLAMA, latent=Latent(12, 4), normed="head"),
    "pairs": replace(LLAMA, differential=True),
    "copying": replace(LLAMA, stem=Vectors(24, read_in=False), score="linear", mask="context", copy_rank=9),
}
OPTIONS = {"attnres-heads": ":heads=3"}


def models(architectures: dict[str, Architecture] = ARCHITECTURES):
    """Every variant on the first architecture and on one in three of the others, in turn, where it has a meaning there.

    `test_any_plan` draws the rest: any plan on any of them.
    """
    for row, name in enumerate(VARIANTS):
        for column, (kind, config) in enumerate(architectures.items()):
            if column and (row + column) % 3:
                continue
            chosen = resolve(name + OPTIONS.get(name, ""), config.shape)
            if not misfits(config, chosen):
                yield pytest.param(config, chosen, id=f"{kind}-{name}")


def fitting(kinds, names):
    """The (kind, name) of those variants that have a meaning on an architecture."""
    every = ((kind, name, ARCHITECTURES[kind]) for kind in kinds for name in names)
    return [(kind, name) for kind, name, config in every if not misfits(config, resolve(name, config.shape))]


def some_input(config: Architecture, batch: int = 2, length: int = 5, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(0)
    match config.stem:
        case Tokens(vocab):
            return torch.randint(vocab, (batch, length), generator=generator)
        case Patches(image=size, channels=channels):
            return torch.randn(batch, channels, size, size, generator=generator).to(dtype)
    return torch.randn(batch, length, config.stem.width, generator=generator).to(dtype)


def with_gradients(function, leaves, upstream):
    """What a function makes of leaves, and the gradients of its sum with the weights `upstream` by each of them."""
    own = [x.clone().requires_grad_() for x in leaves]
    out = function(*own)
    return [out.detach(), *torch.autograd.grad((out * upstream).sum(), own)]
