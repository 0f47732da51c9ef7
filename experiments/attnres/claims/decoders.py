"""Decoders on which claims are judged, and what of them no claim on depth judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.toys.unjudged import OF_VALUES
from theory.attnres.variants import attnres, attnres_block
from theory.plans import mix
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.plans.presets import llama

if TYPE_CHECKING:
    from icl.probes.gradients import Gradients

CLOSE = 1e-9
SIZES = replace(llama(d_model=4, n_heads=1, n_layers=2, d_ff=2, vocab=2, context=2), norm_eps=0.0)
UNJUDGED: Mapping[Callable[..., Any], str] = {
    **OF_VALUES,
    attnres: "whether keys are normed changes no bound",
}
VOCAB = 7
CONFIG = replace(SIZES, d_model=6, n_layers=3, d_ff=5, stem=Tokens(VOCAB), context=5)
ANY_NETWORK: Mapping[Callable[..., Any], str] = {
    **UNJUDGED,
    mix.v: "claimed whosever values a head reads",
    attnres_block: "claimed of blocks of any length",
    Architecture.has_feed_forward: "claimed with feed-forwards and without",
}


def measured(
    name: str, config: Architecture = CONFIG, query: float = 0.0, *, std: float = 0.5, powers: float | None = None
) -> Gradients:
    """Return all gradients of a decoder in float64, at a loss of some scores."""
    import torch

    from icl.models.decoder import Decoder
    from icl.probes.gradients import gradients

    model = Decoder(config, resolve(name, config.shape), std=std).double()
    norms = [*(sublayer.get_submodule("norm") for sublayer in model.sublayers), model.norm]
    for i, norm in enumerate(norms, 1):
        assert isinstance(norm, torch.nn.RMSNorm)
        norm.eps = config.norm_eps * i ** (powers or 0.0)
    with torch.no_grad():
        if query:
            model.get_parameter("depth.query").fill_(query)
    weights = torch.arange(1.0, VOCAB + 1).double()
    tokens = torch.tensor([[0, 3, 1, 6, 2], [5, 5, 0, 4, 1]])
    return gradients(model, tokens, lambda answer: torch.sin(answer * weights).mean())
