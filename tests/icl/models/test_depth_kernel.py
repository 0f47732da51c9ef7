"""The adapter to a GPU's kernel: on a GPU against the rule, elsewhere with what its makers document."""

import sys
from types import ModuleType

import pytest
import torch
from torch.nn.functional import rms_norm

from icl.models.depth_attention import AttentionDepth
from icl.models.depth_kernel import KernelDepth, installed, misfit
from tests.icl.models.test_depth_attention import drawn, flat, ran, twins
from theory.plans.depth import DepthAttention


def documented(query, residuals, rms_weight, output_rms_weight=None, rms_eps=1e-6, scale=1.0):
    """`fla.ops.attnres.fused_attnres`, from its description."""
    assert output_rms_weight is None
    assert len({source.dtype for source in residuals}) == 1
    every = torch.stack(list(residuals)).float()
    keys = rms_norm(every, every.shape[-1:], rms_weight.float(), rms_eps)
    shares = (keys @ (query.float() * scale)).softmax(0)
    return (shares[..., None] * every).sum(0).to(residuals[0].dtype)


@pytest.fixture
def described(monkeypatch):
    def instead(kernel):
        for name in ("fla", "fla.ops", "fla.ops.attnres"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        sys.modules["fla.ops.attnres"].fused_attnres = kernel

    return instead


SHAPES = [(1, 1, 1, 1), (1, 2, 3, 1), (2, 3, 5, 2), (1, 17, 5, 3), (4, 4, 8, 7)]  # block, layers, width / 3, tokens
NEAR = 2e-5  # in float32


def both(shape, dtype=torch.float32, device="cpu"):
    """Reads and gradients by the kernel, and of the rule as it is written."""
    block, layers, width, tokens = shape
    found = []
    for reads in (KernelDepth, AttentionDepth):
        _, depth, maps = twins(DepthAttention(block=block), layers, width, dtype, reads=reads)
        found.append(flat(ran(depth.to(device), maps.to(device), drawn(tokens, maps, dtype).to(device))))
    return found


def off(shape, **options):
    """The largest relative distance of a read or a gradient."""
    pairs = zip(*both(shape, **options), strict=True)
    return max(float((a.float() - b.float()).norm() / (b.float().norm() + 1e-30)) for a, b in pairs)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_the_kernel_documents_is_the_rule(shape, described):
    described(documented)
    assert off(shape) <= NEAR


@pytest.mark.parametrize("wrong", [{"rms_eps": 1e-6}, {"scale": 0.5}])
def test_another_epsilon_or_scale_is_told_apart(wrong, described):
    described(lambda *args, **options: documented(*args, **{**options, **wrong}))
    assert off((2, 3, 5, 2)) > 20 * NEAR


def test_sources_come_in_the_newest_one_s_dtype(described):
    described(documented)
    once, kernel, maps = twins(DepthAttention(), 2, 3, torch.float32, reads=KernelDepth)
    embedded = drawn(2, maps, torch.float32)
    state = kernel.write(0, kernel.start(embedded), (embedded @ maps[0]).bfloat16())
    read = kernel.read(1, state)
    assert read.dtype == torch.bfloat16
    wanted = once.read(1, once.write(0, once.start(embedded), (embedded @ maps[0]).bfloat16()))
    assert (read - wanted).norm() <= 0.02 * wanted.norm()


def test_what_does_not_fit_is_named():
    assert misfit(DepthAttention(block=4, window=3)) is None
    assert misfit(DepthAttention(score="sigmoid", heads=2)) == "score = sigmoid, heads = 2"
    assert misfit(DepthAttention(query="input", key_norm=False)) == "query = input, key_norm = False"


@pytest.mark.skipif(not installed(), reason="needs a GPU and fla-core")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-3), (torch.bfloat16, 0.05)])
def test_the_kernel_is_the_rule(shape, dtype, near):
    assert off(shape, dtype=dtype, device="cuda") <= near
