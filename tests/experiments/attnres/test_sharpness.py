"""Bounds on sublayers against inputs that were sought to break them, and typical norms in decoders."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.attnres.sharpness import attention_output, feed_forward_output, sharpness
from icl.models.decoder import Decoder
from icl.probes.ascent import ascend
from icl.probes.magnitude import AttentionWeights, FeedForwardWeights, magnitudes, sublayer_weights
from theory.attnres import typical
from theory.plans.names import resolve
from theory.plans.presets import llama

CONFIG = llama(d_model=16, n_heads=4, n_kv_heads=2, n_layers=2, d_ff=43, vocab=64, context=4)


def decoder(seed=0, std=0.02, **changes):
    config = replace(CONFIG, norm_eps=1e-12, **changes)
    return Decoder(config, resolve("vanilla", config.shape), seed=seed, std=std).double()


@pytest.mark.parametrize("std", [0.02, 0.25])
@pytest.mark.parametrize("gated", [True, False])
def test_nothing_that_is_found_passes_a_bound(gated, std):
    """10,000 random inputs and 200 ascents for each kind; much of each bound is found, so half of it is none."""
    model = decoder(std=std, gated=gated)
    for weights in sublayer_weights(model)[:2]:
        made = sharpness(weights)
        rows = CONFIG.d_model * (4 if isinstance(weights, AttentionWeights) else 1)
        output = attention_output(weights, 4) if rows > CONFIG.d_model else feed_forward_output(weights)
        random = ascend(output, rows, 4.0, starts=10_000, steps=0)
        assert random.largest < made.largest <= made.bound * (1 + 1e-12)
        assert made.typical < made.largest
        assert made.share > (0.95 if isinstance(weights, AttentionWeights) else 0.55)


def test_functions_are_the_model_s_sublayers():
    """At one token, in a model: from what its norms give, the functions make what its sublayers put out."""
    model, seen, put_out = decoder(std=0.3), [], []
    for sublayer in model.sublayers:
        sublayer.norm.register_forward_hook(lambda module, args, out: seen.append(out[:, 0] / module.weight))
        sublayer.register_forward_hook(lambda module, args, out: put_out.append(out[0][:, 0]))
    with torch.no_grad():
        model(torch.arange(5)[:, None])
    for weights, u, out in zip(sublayer_weights(model), seen, put_out, strict=True):
        if isinstance(weights, FeedForwardWeights):
            torch.testing.assert_close(feed_forward_output(weights)(u), out)
        else:
            torch.testing.assert_close(attention_output(weights, 1)(u), out)
            torch.testing.assert_close(attention_output(weights, 4)(u.repeat(1, 4)), out)


@pytest.mark.parametrize("gated", [True, False])
def test_typical_norms_are_those_of_decoders_at_their_start(gated):
    """Every sublayer's output and the residual stream, at one token, over 60 initial weights, to 5 standard errors."""
    seeds, std = range(60), 0.3
    tokens = torch.arange(64)[:, None]
    found = [magnitudes(decoder(s, std, gated=gated), tokens, lambda x: x.square().mean()) for s in seeds]
    written = std / (2 * CONFIG.n_layers) ** 0.5
    attention = typical.attention_square(16, 4, 4, std, written, 1.0)
    feed_forward = typical.feed_forward_square(16, 43, std, written, "swiglu" if gated else "gelu")
    outputs = np.array([each.output_rms for each in found]) ** 2
    stream = np.array([each.read_rms[-1] for each in found]) ** 2
    for samples, mean in (
        *zip(outputs[:, 1:].T, (attention, feed_forward) * 2, strict=True),
        (stream, 16 * std**2 + 2 * (attention + feed_forward)),
    ):
        error = samples.std(ddof=1) / len(samples) ** 0.5
        assert abs(samples.mean() - mean) <= 5 * error
        assert error < 0.1 * mean
