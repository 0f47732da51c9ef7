"""Small decoders under many plans as models of transformers, with weights far from their initial ones."""

from dataclasses import asdict, replace

import pytest
import torch

from icl.models.decoder import Decoder
from tests.icl.models.small import LLAMA
from theory.plans.architecture import Latent, Tokens
from theory.plans.names import model
from theory.plans.written import to_json

VOCAB = 13
CONFIG = replace(LLAMA, n_heads=4, n_kv_heads=2, head_dim=6, context=40, stem=Tokens(VOCAB))
ALONE = replace(CONFIG, n_kv_heads=0)
CONFIGS = {
    "vanilla": CONFIG,
    "skipv1": CONFIG,
    "resformer-learned": CONFIG,
    "svformer+mqa": ALONE,
    "attnres-block": CONFIG,
    "mhc": CONFIG,
    "yoco": CONFIG,
    "dva": ALONE,
    "value-embeddings": CONFIG,
    "shifted-values": CONFIG,
    "differential": ALONE,
    "gated-value-embeddings": CONFIG,
    "skipv1:sink=1": CONFIG,
    "window skipv1:sink=1": replace(CONFIG, window=5),
    "latent skipv1": replace(ALONE, latent=Latent(16, 4)),
    "window skipv1": replace(CONFIG, window=5),
    "windows shifted-values": replace(CONFIG, windows=(3, 7)),
    "some-windows vanilla": replace(CONFIG, windows=(3, 0)),
    "unrotated skipv1": replace(CONFIG, rotated=(True, False)),
    "positions skipv1": replace(CONFIG, positions="learned", norm="layer", gated=False, bias=True),
    "bias shifted-values": replace(CONFIG, positions="bias"),
}


def sizes_and_plan(name):
    return model(CONFIGS[name], name.rpartition(" ")[2])


def decoder(name, seed=0):
    """A decoder in evaluation mode, all parameters moved from where they start."""
    config, plan = sizes_and_plan(name)
    built = Decoder(config, plan, std=0.3, seed=seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in built.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=generator))
    return built


def wrapped(built):
    """The same decoder as a model of transformers."""
    from icl.published.wrapped import CrosslayerConfig, CrosslayerForCausalLM

    config = CrosslayerConfig(asdict(built.config), to_json(built.plan))
    found = CrosslayerForCausalLM(config)
    found.decoder.load_state_dict(built.state_dict())
    found.generation_config.pad_token_id = 0
    return found.eval()


def tokens(batch=2, length=12, seed=1):
    """Tokens without the one for padding, which `generate` would take for padding within a text."""
    return torch.randint(1, VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def left_padded(batch=2, length=12, padding=4):
    real = torch.ones(batch, length, dtype=torch.long)
    real[0, :padding] = 0
    return real


def close(one, other):
    """Assert that numbers are equal to the rounding of some hundred operations in float32."""
    assert one.shape == other.shape
    one, other = one.detach(), other.detach()
    assert float((one - other).abs().max()) <= 300 * torch.finfo(one.dtype).eps * float(other.abs().max())


every_plan = pytest.mark.parametrize("name", CONFIGS)
