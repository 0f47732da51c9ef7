"""The weights that a training leaves: the same bytes for the same weights."""

from icl.models import saved
from icl.models.build import build
from theory.plans.presets import toy


def test_the_same_weights_are_the_same_bytes():
    """Eight times, as metadata were in any order before."""
    model = build(toy(2, 3), "svformer", seed=0)
    assert len({saved.weights(model) for _ in range(8)}) == 1
    assert saved.weights(model) != saved.weights(build(toy(2, 3), "svformer", seed=1))
