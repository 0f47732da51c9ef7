"""What the room of Attention Residuals refuses; what it returns is checked beside each subject, and by the ledger."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from tests.theory.attnres.written_out import SIZES, config_of, plan_of
from theory.attnres import (
    bounds,
    deep,
    dilution,
    gradients,
    growth,
    initial,
    mixing,
    pseudo_code,
    quartic,
    start_gradients,
    sublayers,
    toy,
    traffic,
    two_phase,
    typical,
    unnormed,
)
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.attnres.compute import PowerLaw, over_rounding, recovered
from theory.errors import BadInput, InvalidSize
from theory.plans.depth import Chain, DepthAttention, DepthAverage, Residual
from theory.plans.names import resolve

ONE = [lambda h: h]  # sublayer
RESIDUAL, ATTENTION = Residual(), DepthAttention()
BARE = replace(SIZES, norm="none")


@pytest.mark.parametrize(
    "call",
    [
        lambda: bounds.read_bounds(config_of(2), plan_of(2, RESIDUAL), 1.0, [1.0] * 3),
        lambda: bounds.read_bounds(config_of(2), plan_of(2, RESIDUAL), 1.0, [1.0, -1.0, 1.0, 1.0]),
        lambda: bounds.read_bounds(config_of(2), plan_of(2, RESIDUAL), inf, [1.0] * 4),
        lambda: bounds.read_bounds(config_of(2), plan_of(2, DepthAverage()), 1.0, [1.0] * 4),
        lambda: bounds.read_bounds(config_of(2), plan_of(3, RESIDUAL), 1.0, [1.0] * 4),
        lambda: bounds.start_scale(config_of(2), plan_of(2, Chain())),
        lambda: bounds.start_scale(config_of(2), plan_of(2, DepthAttention(window=2))),
        lambda: bounds.start_scale(config_of(2, norm="none"), plan_of(2, ATTENTION)),
        lambda: bounds.start_scale(config_of(2, normed="head"), plan_of(2, ATTENTION)),
        lambda: bounds.start_scale(config_of(2, normed="sublayers"), plan_of(2, ATTENTION)),
        lambda: PowerLaw(0, 1),
        lambda: PowerLaw(1, -1),
        lambda: recovered(1, 1, 1),
        lambda: over_rounding(max, [1], []),
        lambda: deep.of_polynomial([2], 1),
        lambda: deep.of_polynomial([], 1),
        lambda: deep.of_polynomial([1, 1, 1], 1),
        lambda: deep.of_polynomial([1], 0),
        lambda: deep.by_horner([1, 0, 1], 2),
        lambda: deep.residual_polynomial([[1], [1]], [1], 1),
        lambda: deep.residual_polynomial([[1]], [], 1),
        lambda: deep.last_read(np.ones((2, 2)), [[1]], [1]),
        lambda: dilution.projection_shares([1.0], np.eye(2)),
        lambda: gradients.output_gradients([[1.0], [1.0]], [np.zeros(2)] * 2),
        lambda: gradients.query_gradient(np.zeros(2), np.zeros(3), np.zeros((2, 1, 2)), np.zeros((1, 2))),
        lambda: gradients.read_factor(SIZES, resolve("attnres-window:window=1", SIZES.shape)),
        lambda: growth.largest_read(DepthAttention(heads=2), 2, 1, 1),
        lambda: growth.typical_read(Chain(), 2, 1.0, 1.0),
        lambda: growth.extremal(SIZES, plan_of(3, DepthAttention(score="sigmoid")), 1.0, [1.0] * 6),
        lambda: growth.extremal(SIZES, plan_of(3, DepthAverage()), 1.0, [1.0] * 6),
        lambda: growth.extremal(SIZES, plan_of(3, RESIDUAL), 1.0, [1.0, inf] * 3),
        lambda: average_matrix([[1, 1, 1]], 1),
        lambda: start_matrix(SIZES, plan_of(2, RESIDUAL)),
        lambda: initial.initial_outputs(BARE, plan_of(3, RESIDUAL)),
        lambda: initial.initial_outputs(replace(SIZES, normed="head"), plan_of(3, RESIDUAL)),
        lambda: initial.initial_outputs(SIZES, resolve("resformer", SIZES.shape)),
        lambda: mixing.state_sizes([]),
        lambda: mixing.state_sizes([[1, 1]]),
        lambda: mixing.state_sizes([[1, 1], [1, 1]]),
        lambda: mixing.mixing_matrix([[range(1)]], [[1, 2]]),
        lambda: mixing.of_averages([[1], [1]]),
        lambda: mixing.greatest_rank(config_of(2), plan_of(2, DepthAverage())),
        lambda: mixing.greatest_rank(config_of(2), plan_of(3, RESIDUAL)),
        lambda: pseudo_code.pseudo_code(0, 2),
        lambda: pseudo_code.pseudo_code(1, 0),
        lambda: pseudo_code.start_weights([]),
        lambda: pseudo_code.doubled_share(2),
        lambda: sublayers.attention_bound(np.full((1, 1, 1), nan), np.ones((1, 1, 1)), np.ones(1)),
        lambda: toy.descent_reads(start_matrix(config_of(3), plan_of(3, RESIDUAL)), [1, 1]),
        lambda: toy.random_reads([[1], [1]], [1]),
        lambda: traffic.traffic("none", np.ones(2), ONE, np.ones((1, 2)), 1),
        lambda: traffic.traffic("residual", np.ones(2), ONE, np.ones((2, 2)), 1),
        lambda: traffic.traffic("residual", np.ones(2), [], np.ones((0, 2)), 1),
        lambda: traffic.traffic("residual", np.ones(2), ONE, np.ones((1, 2)), 0),
        lambda: traffic.mean_traffic("none", 1, 1),
        lambda: traffic.mean_traffic("residual", 0, 1),
        lambda: two_phase.attend(np.ones(3), np.ones((2, 2))),
        lambda: two_phase.attend(np.ones(2), np.ones((0, 2))),
        lambda: two_phase.reads_from_half(np.ones(2), [], np.ones((2, 2))),
        lambda: unnormed.unnormed_law(Chain(), 2, 1),
        lambda: unnormed.unnormed_outputs(SIZES, plan_of(3, RESIDUAL), 10.0, [1.0] * 6, power=9),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: bounds.weight_floor(0, 1.0, 4),
        lambda: bounds.weight_floor(2, -1.0, 4),
        lambda: dilution.share_range([1, 0], 0, 1.0, 4),
        lambda: dilution.share_range([1, 1], 2, 1.0, 4),
        lambda: dilution.share_range([1, 1], 0, -1.0, 4),
        lambda: dilution.query_for_weight(2, 1.0, 4),
        lambda: dilution.query_for_share(0.0, 1, 2, 4),
        lambda: dilution.query_for_share(0.5, 3, 2, 4),
        lambda: dilution.postnorm_share(1, -1),
        lambda: growth.largest_read(RESIDUAL, -1, 1, 1),
        lambda: growth.in_a_plane(3, 1),
        lambda: growth.typical_range([1, 0], 1.0),
        lambda: growth.in_a_plane(0, 2),
        lambda: growth.picked_weight(3, 2, 1.0, 4),
        lambda: quartic.gated_bound(np.ones((3, 4)), np.ones((2, 4)), np.ones((4, 3)), np.ones(4)),
        lambda: quartic.one_number_maximum(np.ones(3), np.ones(4), np.ones(4)),
        lambda: sublayers.attention_bound(np.ones((2, 3, 4)), np.ones((2, 3, 4)), np.ones(4)),
        lambda: sublayers.attention_attained(np.ones((2, 3, 4)), np.ones((2, 4, 3)), np.ones(5)),
        lambda: sublayers.feed_forward_bound(np.ones((3, 4)), np.ones((3, 4)), np.ones((3, 4)), np.ones(4)),
        lambda: sublayers.feed_forward_bound(np.ones((1, 4)), np.ones((3, 4)), np.ones((4, 3)), np.ones(4)),
        lambda: typical.attention_square(0, 1, 1, 1.0, 1.0, 1.0),
        lambda: typical.attention_square(1, 1, 1, 1.0, 1.0, 1.5),
        lambda: typical.attention_square(1, 1, 1, 0.0, 1.0, 1.0),
        lambda: typical.feed_forward_square(1, 0, 1.0, 1.0),
        lambda: typical.feed_forward_spread(1, 1, std=inf),
        lambda: typical.inner_square(-1.0, "gelu"),
        lambda: unnormed.unnormed_outputs(SIZES, plan_of(3, RESIDUAL), 1.0, [1.0] * 6, power=0),
    ],
)
def test_bad_sizes(call):
    with pytest.raises(InvalidSize):
        call()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: start_gradients.slope(0.0, "gelu"), InvalidSize, "q must be positive"),
        (lambda: start_gradients.even_beyond(0.0), InvalidSize, "chi must be positive"),
        (lambda: start_gradients.sent_back([1, 1, 1], [1]), BadInput, "2 sublayers need as many slopes, got 1"),
        (lambda: start_gradients.start_gradients(BARE, plan_of(3, RESIDUAL)), BadInput, "with norms"),
        (lambda: start_gradients.start_gradients(SIZES, plan_of(3, DepthAttention(window=1))), BadInput, "window"),
    ],
)
def test_gradients_at_the_start_say_what_they_need(call, error, says):
    with pytest.raises(error, match=says):
        call()
