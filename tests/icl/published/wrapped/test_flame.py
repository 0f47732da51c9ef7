"""flame's sequence on two processes: losses, gradients and weights are those of the decoder in one process."""

import pytest
import torch

pytest.importorskip("icl.published.wrapped")
flame = pytest.importorskip("tests.icl.published.wrapped.flame")
launching = pytest.importorskip("tests.icl.training.parallel.launching")

WAYS = ("", ", varlen, recomputed")
EPS = torch.finfo(torch.float32).eps


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return launching.together(tmp_path_factory.mktemp("flame"), module="flame", package="tests.icl.published.wrapped")


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("variant", flame.VARIANTS)
def test_losses_gradients_and_weights_are_the_decoder_s(variant, way, found):
    for ranks in found:
        measured = ranks[variant + way]
        assert measured["names"]
        assert measured["losses"] == pytest.approx(measured["expected"], rel=100 * EPS)
        assert measured["norms"] == pytest.approx(measured["expected norms"], rel=1e4 * EPS)
        assert len(set(measured["losses"])) == flame.STEPS
        assert measured["weights"] <= 1e-2 * 1e-3  # of what a step of AdamW at most moves a weight
