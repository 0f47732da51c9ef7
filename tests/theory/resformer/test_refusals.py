"""What the room of ResFormer refuses; what it returns is checked beside each subject, and by the ledger."""

import math

import numpy as np
import pytest

from theory.errors import BadInput, InvalidSize
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.resformer import blocks, cross_layer, in_context, measures, smoothing, spectra
from theory.resformer.cross_layer_weights import cross_layer_excess, cross_layer_weights
from theory.resformer.weights import one_head_weights

EYE = np.eye(2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: blocks.block_form_share(-1.0),
        lambda: blocks.block_form_share(math.nan),
        lambda: blocks.rising_share(1.0, 0.6),
        lambda: blocks.cross_layer_attention([], []),
        lambda: blocks.block_attention(np.zeros((1, 1)), []),
        lambda: smoothing.depth_filters(resolve("cross-layer", Shape(3, 1))),
        lambda: smoothing.depth_filters(resolve("skipv1", Shape(3, 2))),
        lambda: smoothing.resformer_limit(0.5, own=1.0),
        lambda: smoothing.neutreno_limit(-0.7),
        lambda: spectra.expected_gram(0, 3),
        lambda: spectra.normed_square(0, 1.0, 0.0),
        lambda: measures.entropy(np.zeros(3)),
        lambda: measures.entropy(np.array([1.0, -0.1])),
        lambda: measures.token_similarity(np.ones((1, 2))),
        lambda: measures.token_similarity(np.zeros((3, 2))),
        lambda: measures.uniform_causal_importance(0),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: cross_layer.never_read(2, 3),
        lambda: cross_layer.noise_of_products(2, 0, 0.1),
        lambda: cross_layer.read_share(2, 3, 0.1, -1),
        lambda: cross_layer.cross_layer_most(2, 3, 0.1, 3, 1.0),
        lambda: cross_layer.full_rank_explained(3, 0.1, []),
        lambda: cross_layer.least_gap_of_optima(0),
        lambda: cross_layer.unbiased_minima(1, 3, -1.0, 1.0),
        lambda: cross_layer_weights(2, 3, 0.1, 1, 0.0),
        lambda: cross_layer_excess(2, 3, 0.1, 3, 1.0),
        lambda: in_context.block_distance(2, 0, 0.1, EYE, EYE, EYE, EYE),
        lambda: in_context.block_distance(2, 3, 0.1, EYE, np.eye(3), EYE, EYE),
        lambda: in_context.biased_one_head_weights(2, 3, 0.1, 1, np.eye(3)),
        lambda: in_context.biased_one_head_weights(2, 3, 0.1, 3, EYE),
        lambda: one_head_weights(3, 4, 0.5, -1),
        lambda: one_head_weights(3, 4, 0.5, 4),
    ],
)
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()
