"""Small decoders for probes: any variant, in float64, with inputs that fit."""

from dataclasses import replace

import torch

from icl.models.decoder import Decoder
from theory.plans.architecture import Architecture, Latent, Tokens
from theory.plans.names import model as named
from theory.plans.plan import Plan

VOCAB, CONTEXT = 7, 6
SIZES = Architecture(
    d_model=16, n_layers=2, n_heads=2, d_ff=6, context=CONTEXT, stem=Tokens(VOCAB), positions="none", norm_eps=1e-5
)


def config_of(layers=2, heads=2, group=1, d_model=16, **changes):
    config = replace(SIZES, d_model=d_model, n_layers=layers, n_heads=heads * group, n_kv_heads=heads, head_dim=1)
    return replace(config, **{"head_dim": max(1, d_model // (heads * group)), **changes})


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


def uniform(variant="vanilla", **changes):
    """A model whose queries are zero, so that attention is uniform over what is visible."""
    model = model_of(config_of(**changes), variant)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "projections.query" in name:
                parameter.zero_()
    return model


def induction_model(vocab, context, sharpness):
    """Two layers with one head each, set by hand: layer 1 copies the token before, layer 2 looks for a query's token in
    what was copied.

    Width: token, position, what layer 1 copies.  Head width: position or token, and one number by which no query of
    layer 2 takes the first token, whose predecessor is not there.
    """
    d, width = 2 * vocab + context, max(vocab, context) + 1
    config = Architecture(
        d_model=d,
        n_layers=2,
        n_heads=1,
        head_dim=width,
        d_ff=0,
        context=context,
        stem=Tokens(vocab),
        norm="none",
        positions="learned",
    )
    model = Decoder(config, named(config)[1]).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        token, place, copied = range(vocab), range(vocab, vocab + context), range(vocab + context, d)
        first, second = (layer.attention for layer in model.layers)
        model.stem.embedding.weight[token, token] = 1
        model.positions[range(context), place] = 1
        first.projections.query.weight[range(context - 1), place[1:]] = sharpness
        first.projections.key.weight[range(context), place] = 1
        first.projections.value.weight[range(vocab), token] = 1
        first.output.weight[copied, range(vocab)] = 1
        second.projections.query.weight[range(vocab), token] = sharpness
        second.projections.key.weight[range(vocab), copied] = 1
        second.projections.query.weight[-1, list(place)] = -2 * sharpness
        second.projections.key.weight[-1, place[0]] = 1
    return model
