"""`hyper-growth`: verdicts turn with what they judge, and networks are what theory says of them."""

from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from experiments.hyper.growth import EXPERIMENT, WAYS, Config, largest_mean, lengths, mixing, typical_square
from tests.experiments.committed import committed, failing, verdicts

judged, failed = partial(verdicts, EXPERIMENT), partial(failing, EXPERIMENT)
CONFIG = Config(streams=3, width=5, depths=(1, 2, 5), off=0.2, logits=1.0, embedding=2.0)


@pytest.fixture
def stored():
    return committed(EXPERIMENT.name)


def test_theory_holds_in_the_committed_result(stored):
    assert set(judged(*stored).values()) == {"pass"}


@pytest.mark.parametrize("way", WAYS)
def test_a_length_that_is_another_fails(stored, way):
    prediction, measurement = stored
    other = deepcopy(measurement)
    other["largest"][way]["64"] *= 1.001
    assert failed(prediction, other) == {f"largest/{way}/64"}


@pytest.mark.parametrize("way", WAYS)
def test_squares_that_are_others_fail(stored, way):
    prediction, measurement = stored
    other = deepcopy(measurement)
    other["squares"][way]["64"] = [3 * x for x in other["squares"][way]["64"]]
    assert failed(prediction, other) == {f"typical/{way}/64"}


def test_seeds_that_tell_little_decide_nothing(stored):
    """Two seeds: the interval holds the controls."""
    prediction, measurement = stored
    for by_depth in measurement["squares"].values():
        for depth, squares in by_depth.items():
            by_depth[depth] = squares[:2]
    found = judged(prediction, measurement)
    assert found["typical/hyper/128"] == "inconclusive"
    assert found["largest/hyper/128"] == "pass"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("streams", [1, 3])
def test_an_aligned_network_is_as_long_as_theory_says(way, streams):
    config = replace(CONFIG, streams=streams)
    found = lengths(way, config, seed=None)
    assert list(found) == ["1", "2", "5"]
    assert list(found.values()) == pytest.approx([largest_mean(way, config, d) for d in config.depths])


@pytest.mark.parametrize("way", WAYS)
def test_no_random_network_is_longer(way):
    config = replace(CONFIG, off=0.0)
    for seed in range(5):
        for depth, length in lengths(way, config, seed).items():
            assert length <= largest_mean(way, config, int(depth)) * (1 + 1e-12) + (way == "attnres")


def test_typical_squares_of_hyper_connections_that_mix_nothing_are_prenorm_s():
    config = replace(CONFIG, off=0.0)
    for depth in config.depths:
        assert typical_square("hyper", config, depth) == typical_square("prenorm", config, depth) == 4 + depth
        assert typical_square("hyper", CONFIG, depth) >= typical_square("mhc", CONFIG, depth)


def test_mixing_is_drawn_as_it_is_published():
    rng = np.random.default_rng(0)
    assert mixing("mhc", CONFIG, rng).sum(1) == pytest.approx(np.ones(3))
    assert mixing("mhc", CONFIG, rng).sum(0) == pytest.approx(np.ones(3), abs=1e-3)
    assert not np.allclose(mixing("hyper", CONFIG, rng), np.eye(3))
    assert (mixing("prenorm", CONFIG, rng) == np.eye(3)).all()


def test_the_figure_is_drawn_of_what_is_stored(stored):
    figure = EXPERIMENT.draw(*stored)
    assert [axis.get_title("left")[:3] for axis in figure.axes] == ["(a)", "(b)"]
    assert len(figure.axes[0].lines) >= 3 * len(WAYS)
