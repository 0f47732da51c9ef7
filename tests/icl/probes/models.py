"""Small decoders for probes: any variant, in float64, with inputs that fit."""

from dataclasses import replace

import torch

from icl.models.decoder import Decoder
from theory.plans.architecture import Architecture, Latent, Tokens
from theory.plans.names import model as named
from theory.plans.plan import Plan

VOCAB, CONTEXT = 7, 6


def config_of(layers=2, heads=2, group=1, d_model=16, **changes):
    made = Architecture(
        d_model=d_model,
        n_layers=layers,
        n_heads=heads * group,
        d_ff=6,
        context=CONTEXT,
        stem=Tokens(VOCAB),
        n_kv_heads=heads,
        head_dim=max(1, d_model // (heads * group)),
        positions="none",
        norm_eps=1e-5,
    )
    return replace(made, **changes)


def latent_of(config):
    return replace(config, positions="rope", latent=Latent(2 * config.n_heads, 4))


def model_of(config, variant="vanilla", seed=0, scale=1.0):
    """In float64, every parameter moved by normal numbers of size `scale`."""
    plan = variant if isinstance(variant, Plan) else None
    config, plan = (config, plan) if plan else named(config, variant)
    model = Decoder(config, plan, seed=seed).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator).double()
    return model.eval()


def tokens(batch=3, length=CONTEXT, seed=0):
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))
