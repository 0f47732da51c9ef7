"""FSDP2, DDP, checkpointing and compiling are applied to a decoder's layers from outside, in two processes."""

import pytest
import torch

from tests.icl.training.parallel.launching import together
from tests.icl.training.parallel.outside import COMPILED, TOOLS, VARIANTS

CASES = [(v, tool) for tool in TOOLS for v in (COMPILED if "compiled" in tool else VARIANTS)]
MOST = 1e3 * torch.finfo(torch.float64).eps  # sums of a few hundred numbers, in another order


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return together(tmp_path_factory.mktemp("outside"), module="outside")


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "tool"), CASES)
def test_losses_and_gradients_are_those_of_one_process(variant, tool, found):
    for ranks in found:
        measured = ranks[f"{variant}, {tool}"]
        assert measured["names"]
        assert measured["loss"] <= MOST
        assert measured["gradients"] <= MOST
        assert measured["least"] > 1e3 * MOST  # every parameter has a gradient that would be missed


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_layers_compute_in_bf16_where_the_policy_of_fsdp_says_so(variant, found):
    eps = torch.finfo(torch.bfloat16).eps
    for ranks in found:
        measured = ranks[f"{variant}, bf16"]
        assert MOST < measured["loss"] < 4 * eps
        assert measured["gradients"] < 30 * eps


@pytest.mark.slow
def test_gradients_that_are_not_summed_would_be_noticed(found):
    assert found[0]["control"]["gradients"] > 1e-3
