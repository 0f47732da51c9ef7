"""What an attention or a step costs: kernels that ran, the most memory at a time, and what the backward pass keeps."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

from icl.models.attention import has_kernel
from icl.models.decoder import Decoder
from icl.probes.kept import kept_bytes
from icl.probes.kernels import SOFTMAX, attention_kernels
from icl.probes.peak import peak_bytes
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
    *((LLAMA, name) for name in ("hyper-connections", "hyper-connections-static", "mhc", "mudd", "deepcrossattention")),
    *((LLAMA, name) for name in ("residual-lambdas", "unet-skips", "denseformer-sparse:dilation=1,period=1")),
    *((LLAMA, name) for name in ("delta-attnres", "deepcrossattention:last=1", "gated-value-embeddings")),
    *((replace(config, differential=True), "vanilla") for config in (LLAMA, replace(LLAMA, n_heads=4, n_kv_heads=2))),
    *((replace(LLAMA, differential=True), name) for name in ("resformer", "attnres")),
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


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("value_width", [4, 8])
def test_the_kernel_that_ran_is_the_one_that_the_profiler_saw(value_width, dropout):
    query, value = torch.randn(1, 2, 5, 4, requires_grad=True), torch.randn(1, 2, 5, value_width)

    def run():
        scaled_dot_product_attention(query, query, value, is_causal=True, dropout_p=dropout).sum().backward()

    found = attention_kernels(run)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        run()
    names = {event.key for event in seen.key_averages()}
    assert ("aten::_scaled_dot_product_flash_attention_for_cpu" in names) == ("flash" in found)
    assert ("aten::_scaled_dot_product_attention_math" in names) == (SOFTMAX in found)
    fused = has_kernel(query, query, value, None, dropout, causal=True)
    assert found == (["flash"] if fused else [SOFTMAX])


def test_what_does_not_attend_has_none():
    assert attention_kernels(lambda: torch.ones(3, 3) @ torch.ones(3, 3)) == []
    assert attention_kernels(lambda: torch.ones(3, 3).softmax(-1)) == [SOFTMAX]


def test_memory_that_is_let_go_is_not_counted_on():
    def run():
        x = torch.zeros(1000)
        for _ in range(5):
            x = x + 1  # the old one is there until the new one is

    assert peak_bytes(run) == 8000


def test_views_and_what_goes_in_are_no_new_memory():
    given = torch.ones(100)

    def run():
        given.view(10, 10).t().add_(1)
        given[:50].expand(3, 50)

    assert peak_bytes(run) == 0


def test_memory_of_gradients_counts():
    given = torch.ones(100, requires_grad=True)

    def run():
        given.square().sum().backward()

    found = peak_bytes(run)
    assert 4 * 200 <= found <= 4 * 310
    assert given.grad is not None
    assert peak_bytes(lambda: None) == 0


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
