"""Attention over depth in two phases, against the rule as it is written: reads and all gradients."""

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.models.depth_attention import AttentionDepth, TwoPhases, read_as
from icl.testing import check_identity
from theory.plans.architecture import Architecture, Vectors
from theory.plans.depth import DepthAttention
from theory.plans.names import resolve

BATCH = 2
RULES = st.builds(DepthAttention, block=st.integers(1, 5), key_norm=st.booleans(), heads=st.sampled_from([1, 3]))


def twins(rule, layers, width, dtype=torch.float64, size=1.0, reads=AttentionDepth):
    """Two rules of one set of parameters, queries of this deviation, the second with reads of this kind; and what the
    sublayers between them do."""
    sizes = {"d_model": 3 * width, "n_layers": layers, "n_heads": 3, "d_ff": 1, "context": 2, "stem": Vectors(1)}
    config = Architecture(**sizes, positions="none", norm_eps=1e-3)  # large enough to be missed
    plan = replace(resolve("vanilla", config.shape), depth=rule)
    numbers = torch.Generator().manual_seed(0)
    once = TwoPhases(rule, config, plan).to(dtype)
    with torch.no_grad():
        for parameter in once.parameters():
            parameter.copy_(size * torch.randn(parameter.shape, generator=numbers))
    naive = copy.deepcopy(read_as(reads, once, config, plan))
    d, sublayers = config.d_model, config.sublayers(plan)
    return once, naive, torch.randn(sublayers, d, d, generator=numbers).to(dtype) / d**0.5


def ran(depth, maps, embedded):
    """Every read, sublayers being these linear maps; and the gradients of a sum of them, by the embedding and by the
    parameters."""
    embedded = embedded.clone().requires_grad_()
    state, reads = depth.start(embedded), []
    for i, linear in enumerate(maps):
        reads.append(depth.read(i, state))
        state = depth.write(i, state, reads[-1] @ linear.T)
    reads.append(depth.read(len(maps), state))
    every = torch.stack(reads)
    slopes = torch.randn(every.shape, generator=torch.Generator().manual_seed(1)).to(every.dtype)
    found = torch.autograd.grad((slopes * every).sum(), [embedded, *depth.parameters()], allow_unused=True)
    return every.detach(), [g for g in found if g is not None]


def drawn(tokens, maps, dtype=torch.float64):
    return torch.randn(BATCH, tokens, maps.shape[-1], generator=torch.Generator().manual_seed(2)).to(dtype)


@given(RULES, st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_two_phases_are_the_rule_as_it_is_written(rule, layers, width, tokens):
    once, naive, maps = twins(rule, layers, width)
    embedded = drawn(tokens, maps)
    (reads, slopes), (expected, wanted) = ran(once, maps, embedded), ran(naive, maps, embedded)
    check_identity(reads, expected, terms=4 * len(maps))
    assert len(slopes) == len(wanted)
    for found, g in zip(slopes, wanted, strict=True):
        size = float(expected.norm()) * float(once.query.detach().norm() + 1)  # a logit's slope is as large as these
        check_identity(found, g, terms=16 * len(maps), scale=max(float(g.norm()), size))


@pytest.mark.parametrize("block", [1, 7])
def test_many_sources_at_an_odd_width(block):
    once, naive, maps = twins(DepthAttention(block=block), 33, 5)
    assert len(maps) // block + 1 > (32 if block == 1 else 8)
    embedded = drawn(3, maps)
    for found, g in zip(*(flat(ran(depth, maps, embedded)) for depth in (once, naive)), strict=True):
        assert (found - g).norm() <= 1e-10 * g.norm()


def flat(found):
    return [found[0], *found[1]]


@pytest.mark.parametrize("other", ["query of another read", "gain left out", "part left out"])
def test_something_else_is_told_apart(other):
    once, naive, maps = twins(DepthAttention(block=2), 3, 3)
    embedded = drawn(2, maps)
    with torch.no_grad():
        match other:
            case "query of another read":
                once.query[2:4] = once.query[[3, 2]]
            case "gain left out":
                once.gain.fill_(1)
            case _:
                phase = once._phase
                once._phase = lambda sources, first: phase(sources[:1], first)
    reads, expected = ran(once, maps, embedded)[0], ran(naive, maps, embedded)[0]
    assert (reads - expected).norm() > 1e-2 * expected.norm()


@pytest.mark.parametrize("rule", [DepthAttention(), DepthAttention(block=3, heads=3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_as_near_to_float64_as_the_twin(rule, dtype):
    """Both round sources to their dtype, sums in float32; neither more than twice as far off as the other."""
    once, naive, maps = twins(rule, 4, 7)
    embedded = drawn(5, maps).to(dtype).double()
    for depth in (once, naive):
        depth.to(dtype).double()
    maps = maps.to(dtype).double()
    expected = flat(ran(naive, maps, embedded))
    found, wanted = (flat(ran(depth.to(dtype), maps.to(dtype), embedded.to(dtype))) for depth in (once, naive))
    for ours, theirs, e in zip(found, wanted, expected, strict=True):
        off, allowed = (ours - e).norm(), (theirs - e).norm()
        assert off <= 2 * allowed + torch.finfo(dtype).eps * e.norm()
        assert off > 0


def test_logits_are_float32_under_autocast():
    once, naive, maps = twins(DepthAttention(block=2), 3, 11, torch.float32, size=3.0)
    sources = drawn(4, maps, torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        states = [depth.write(0, depth.start(sources), -sources.flip(1)) for depth in (once, naive)]
        reads = [depth.read(1, state).double() for depth, state in zip((once, naive), states, strict=True)]
    exact = naive.double()
    expected = exact.read(1, exact.write(0, exact.start(sources.double()), -sources.double().flip(1)))
    for read in reads:
        assert (read - expected).norm() <= torch.finfo(torch.bfloat16).eps * expected.norm()


@pytest.mark.parametrize("query", ["learned", "input"])
def test_weights_are_as_in_float32_under_autocast(query):
    """To the bit where queries are matrix products of what is newest, too."""
    config = Architecture(
        d_model=12, n_layers=2, n_heads=3, d_ff=1, context=4, stem=Vectors(1), positions="none", norm_eps=1e-3
    )
    rule = DepthAttention(query=query, heads=3)
    depth = AttentionDepth(rule, config, replace(resolve("vanilla", config.shape), depth=rule))
    numbers = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in depth.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=numbers))
    embedded = torch.randn(BATCH, 4, 12, generator=numbers).to(torch.bfloat16)
    state = depth.write(0, depth.start(embedded), -embedded.flip(1))
    with torch.autocast("cpu", torch.bfloat16):
        weights = depth.weights(1, state)
    assert weights.dtype == torch.float32
    assert torch.equal(weights, depth.weights(1, state))


def test_no_gradient_where_none_is_wanted():
    """Frozen queries, an embedding that nothing trains."""
    once, naive, maps = twins(DepthAttention(), 2, 3)
    once.requires_grad_(False)
    naive.requires_grad_(False)
    embedded, out = drawn(2, maps), drawn(2, maps).requires_grad_()
    slopes = []
    for depth in (once, naive):
        read = depth.read(1, depth.write(0, depth.start(embedded), out))
        slopes.append(torch.autograd.grad(read.square().sum(), out)[0])
    check_identity(*slopes, terms=8)


def test_second_derivatives():
    once, naive, maps = twins(DepthAttention(), 1, 2)
    embedded, bends = drawn(1, maps).requires_grad_(), []
    for depth in (once, naive):
        read = depth.read(1, depth.write(0, depth.start(embedded), embedded @ maps[0].T))
        (slope,) = torch.autograd.grad(read.pow(3).sum(), embedded, create_graph=True)
        bends.append(torch.autograd.grad(slope.square().sum(), embedded)[0])
    assert (bends[0] - bends[1]).norm() <= 1e-12 * bends[1].norm()
