"""Reads over depth of a few tokens, as they are decoded, are the reads that the rule's definition makes."""

from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.models.depth import in_steps
from icl.models.depth_attention import AttentionDepth, TwoPhases, read_as
from icl.models.depth_steps import FEW, StackedReads
from icl.testing import check_identity
from tests.icl.models.small import LLAMA
from theory.plans.depth import DepthAttention
from theory.plans.plan import plan


def rule(dtype=torch.float64, eps=1e-5, **options):
    """A rule in two phases, with weights that are far from their start, and its twin by definition."""
    config = replace(LLAMA, norm_eps=eps)
    chosen = plan(config.shape, depth=DepthAttention(**options))
    depth, numbers = Decoder(config, chosen).depth.to(dtype), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in depth.parameters():
            p += torch.randn(p.shape, generator=numbers, dtype=torch.float64).to(dtype)
    return depth, read_as(AttentionDepth, depth, config, chosen)


def reads(depth, outputs):
    state, found = depth.start(outputs[0]), []
    for i, out in enumerate(outputs[1:]):
        found.append(depth.read(i, state))
        state = depth.write(i, state, out)
    return [*found, depth.read(len(outputs) - 1, state)]


def outputs_of(dtype=torch.float64, tokens=2, scale=1.0):
    numbers = torch.Generator().manual_seed(1)
    return [(scale * torch.randn(3, tokens, 24, generator=numbers, dtype=torch.float64)).to(dtype) for _ in range(7)]


@pytest.mark.parametrize("block", [1, 2, 3, 4, 99])
@pytest.mark.parametrize("key_norm", [True, False])
@pytest.mark.parametrize("eps", [1e-5, 1.0])
@torch.no_grad()
def test_equal_to_the_definition(block, key_norm, eps):
    depth, twin = rule(eps=eps, block=block, key_norm=key_norm)
    stacked, outputs = in_steps(depth, outputs_of()[0], {}), outputs_of()
    assert isinstance(stacked, StackedReads)
    for found, expected in zip(reads(stacked, outputs), reads(twin, outputs), strict=True):
        check_identity(found, expected, terms=100)


@torch.no_grad()
def test_another_eps_is_another_rule():
    """The control: outputs so small that eps counts."""
    outputs = outputs_of(scale=0.1)
    (one, _), (_, other) = rule(eps=1e-5), rule(eps=1.0)
    apart = [x - y for x, y in zip(reads(StackedReads(one, outputs[0]), outputs), reads(other, outputs), strict=True)]
    assert max(float(x.abs().max()) for x in apart) > 1e-3


@torch.no_grad()
def test_bf16_is_summed_in_float32_and_rounded_once():
    depth, twin = rule(torch.bfloat16)
    outputs = outputs_of(torch.bfloat16)
    for found, expected in zip(reads(StackedReads(depth, outputs[0]), outputs), reads(twin, outputs), strict=True):
        assert found.dtype == torch.bfloat16
        assert torch.allclose(found.float(), expected.float(), rtol=0, atol=4 * torch.finfo(torch.bfloat16).eps)


def test_where_it_is_taken():
    depth, _ = rule()
    few, many = outputs_of()[0], outputs_of(tokens=FEW)[0]
    assert in_steps(depth, few, {}) is depth  # gradients
    with torch.no_grad():
        assert isinstance(depth, TwoPhases)
        assert in_steps(depth, many, {}) is depth
        heads, _ = rule(heads=3)
        assert in_steps(heads, few, {}) is heads


@pytest.mark.parametrize("block", [1, 2, 99])
@torch.no_grad()
def test_steps_of_one_cache_share_what_is_made_for_them(block):
    depth, twin = rule(block=block)
    remembered, made = {}, []
    for scale in (1.0, 5.0, 0.2):
        outputs = outputs_of(scale=scale)
        made.append(in_steps(depth, outputs[0], remembered))
        for found, expected in zip(reads(made[-1], outputs), reads(twin, outputs), strict=True):
            check_identity(found, expected, terms=100)
    assert made[0] is made[1] is made[2]
    assert in_steps(depth, outputs_of(tokens=3)[0], remembered) is not made[0]
    assert in_steps(depth, outputs_of()[0].float(), remembered) is not made[0]
    with torch.inference_mode():
        assert in_steps(depth, outputs_of()[0], remembered) is not in_steps(depth, outputs_of()[0], {})


@torch.no_grad()
def test_queries_that_have_changed_are_read_anew():
    depth, twin = rule()
    remembered, outputs = {}, outputs_of()
    before = reads(in_steps(depth, outputs[0], remembered), outputs)
    for part in ("query", "gain"):
        getattr(depth, part).add_(1.0)  # which the twin shares
        after = reads(in_steps(depth, outputs[0], remembered), outputs)
        for found, expected in zip(after, reads(twin, outputs), strict=True):
            check_identity(found, expected, terms=100)
        assert float((after[-1] - before[-1]).abs().max()) > 1e-3
        before = after
