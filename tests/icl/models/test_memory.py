"""What a training step keeps for its backward pass, as accounting estimates it, against what autograd keeps."""

from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.probes.kept import kept_bytes
from theory.plans.architecture import Architecture, Latent, Tokens
from theory.plans.memory import activations, training_bytes
from theory.plans.names import resolve
from theory.plans.presets import gpt2, llama

WITHIN = 0.1  # of what autograd keeps: masks, tables of rotations and learned weights are left out
LLAMA = llama(d_model=64, n_heads=2, n_layers=3, d_ff=192, vocab=96, context=32)
GPT2 = gpt2(d_model=64, n_heads=2, n_layers=3, vocab=96, context=64, tied=False, qkv_bias=True)
GROUPED = replace(LLAMA, n_kv_heads=1)
LATENT = replace(LLAMA, latent=Latent(16, 4))
SMALL = replace(LLAMA, d_model=32, d_ff=16, context=64, stem=Tokens(512))
CASES = [
    *(
        (LLAMA, name)
        for name in ("vanilla", "skipv1", "svformer", "neutreno", "attnres", "attnres-block", "denseformer")
    ),
    *((LLAMA, name) for name in ("resformer", "cross-layer")),
    *((GPT2, name) for name in ("vanilla", "dva", "dva-initial", "dva-attention")),
    *((replace(config, positions="bias"), "vanilla") for config in (LLAMA, GROUPED, GPT2, replace(GPT2, dropout=0.0))),
    *((replace(config, normed=where), "vanilla") for config in (LLAMA, GPT2) for where in ("sublayers", "head")),
    *((replace(config, qk_norm=True), "vanilla") for config in (LLAMA, GROUPED)),
    *((config, "vanilla") for config in (GROUPED, LATENT, SMALL, replace(GPT2, dropout=0.0))),
    *((replace(GPT2, dropout=0.0), name) for name in ("dva", "dva-gate", "dva-initial", "dva-attention")),
    *((replace(GPT2, context=300), name) for name in ("vanilla", "dva", "dva-initial", "dva-attention")),
    *((replace(GPT2, context=300, dropout=0.0), name) for name in ("vanilla", "dva")),
    *((replace(config, context=300), "vanilla") for config in (LATENT, replace(LLAMA, positions="bias"))),
]


def kept(config: Architecture, name: str, batch: int = 2) -> float:
    """Numbers a token."""
    model = Decoder(config, resolve(name, config.shape))
    tokens = torch.zeros(batch, config.context, dtype=torch.long)
    loss = lambda: torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())  # noqa: E731
    return kept_bytes(loss, model.parameters()) / 4 / tokens.numel()


def test_a_window_is_a_table_in_every_layer():
    config = replace(LLAMA, context=300)
    tables, windowed = config.n_layers * config.context**2, replace(config, window=7)
    more = 2 * config.context * (kept(windowed, "vanilla") - kept(config, "vanilla"))
    assert more == pytest.approx(tables, rel=WITHIN)
    plan = resolve("vanilla", config.shape)
    assert training_bytes(windowed, plan, 2) - training_bytes(config, plan, 2) == 4 * tables


@pytest.mark.parametrize(("config", "name"), CASES, ids=range(len(CASES)))
def test_activations_are_what_autograd_keeps(config, name):
    assert activations(config, resolve(name, config.shape)) == pytest.approx(kept(config, name), rel=WITHIN)
