"""Attention over depth in two phases, compiled, against the rule as it is written: reads and all gradients."""

import copy

import pytest
import torch

from icl.models import weighted_sum
from tests.icl.models.test_depth_attention import drawn, flat, ran, twins
from theory.plans.depth import DepthAttention

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor's own imports

WIDTH, TOKENS = 5, 3  # a third of the width: 15 numbers a token
FULL, BLOCK = DepthAttention(), DepthAttention(block=3)
F64, F32, BF16 = torch.float64, torch.float32, torch.bfloat16
# A compiler's time is that of the sums it traces: 3 seconds for these, a minute for 34 sublayers and the embedding.
SMALL = [(BLOCK, 2, BF16), *(pytest.param(*x, marks=pytest.mark.slow) for x in [(FULL, 2, F64), (FULL, 2, F32)])]
MANY = [(rule, 17, dtype) for rule in (FULL, DepthAttention(block=7)) for dtype in (F64, F32, BF16)]
BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


def every(depth, maps, embedded):
    """All reads, where a sublayer is a linear map."""
    state, reads = depth.start(embedded), []
    for i, linear in enumerate(maps):
        reads.append(depth.read(i, state))
        state = depth.write(i, state, reads[-1] @ linear.T)
    return torch.stack([*reads, depth.read(len(maps), state)])


def together(weights, *sources):
    return torch.stack(weighted_sum.weighted_together(weights, sources, sources[0].dtype))


def found(function, inputs, parameters, backend=None):
    """Its outputs, and the gradients of a sum of them by the inputs that want one and by every parameter."""
    torch._dynamo.reset()
    outputs = (torch.compile(function, fullgraph=True, backend=backend) if backend else function)(*inputs)
    slopes = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1)).to(outputs.dtype)
    by = [*(x for x in inputs if x.requires_grad), *parameters]
    return [outputs.detach(), *torch.autograd.grad((slopes * outputs).sum(), by)]


def of_rule(depth, maps, embedded, backend=None):
    inputs = (maps, embedded.clone().requires_grad_())
    return found(lambda maps, embedded: every(depth, maps, embedded), inputs, depth.parameters(), backend)


def far(ours, theirs, exact, roundings, dtype):
    """How many of outputs and gradients are further from float64 than twice what theirs are, and than so many roundings
    of the dtype that sums are taken in."""
    allowed = roundings * torch.finfo(weighted_sum.exact(dtype)).eps
    return sum(
        bool((a - e).norm() > 2 * (b - e).norm() + allowed * e.norm())
        for a, b, e in zip(ours, theirs, exact, strict=True)
    )


def wrong(rule, layers, dtype, backend, spoil=None):
    """Of two phases: `far` from the rule as it is written, of the same numbers."""
    once, naive, maps = twins(rule, layers, WIDTH)
    embedded, maps, naive = drawn(TOKENS, maps).to(dtype), maps.to(dtype), naive.to(dtype)
    exact = of_rule(copy.deepcopy(naive).double(), maps.double(), embedded.double())
    if spoil is not None:
        spoil(once)
    ours = of_rule(once.to(dtype), maps, embedded, backend)
    # At every sublayer a weight's, a product's and a sum's, forth and back.
    return far(ours, of_rule(naive, maps, embedded), exact, 6 * len(maps), dtype)


@pytest.fixture
def plain_sums(monkeypatch):
    """Without the sums in place, which are eager mode's."""

    def refused(*_):
        raise AssertionError("sums in place, in a compiled model")

    monkeypatch.setattr(weighted_sum._Together, "apply", refused)


@pytest.mark.parametrize(("rule", "layers", "dtype"), SMALL)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.usefixtures("plain_sums")
@pytest.mark.long
def test_compiled_it_is_the_rule_as_it_is_written(rule, layers, dtype, backend):
    assert wrong(rule, layers, dtype, backend) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "layers", "dtype"), MANY)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.usefixtures("plain_sums")
def test_compiled_with_many_sources(rule, layers, dtype, backend):
    assert wrong(rule, layers, dtype, backend) == 0


def _gain_left_out(depth):
    with torch.no_grad():
        depth.gain.fill_(1)


def _query_of_another_read(depth):
    with torch.no_grad():
        depth.query[1:3] = depth.query[[2, 1]]


@pytest.mark.parametrize("dtype", [F64, F32, BF16])
@pytest.mark.parametrize("spoil", [_gain_left_out, _query_of_another_read])
def test_something_else_is_told_apart(spoil, dtype):
    """In every dtype, also where it is coarse; uncompiled, which changes nothing of what is allowed."""
    assert wrong(BLOCK, 2, dtype, None, spoil) == 4


def wrong_sums(dtype, backend, count=35, last=1.0):
    """Of two sums of sources of an odd width, the last one's weight times `last`: `far` from sums one by one."""
    numbers = torch.Generator().manual_seed(0)
    sources = [torch.randn(2, TOKENS, 3 * WIDTH, generator=numbers).to(dtype) for _ in range(count)]
    weights = torch.randn(2, len(sources), 2, TOKENS, 3, generator=numbers).softmax(1).to(weighted_sum.exact(dtype))

    def naive(weights, *sources):
        return torch.stack([weighted_sum.weighted_sum(w, sources) for w in weights])

    given = [weights.clone().requires_grad_(), *(v.clone().requires_grad_() for v in sources)]
    theirs = found(naive, given, [])
    exact = found(naive, [x.detach().double().requires_grad_() for x in given], [])
    with torch.no_grad():
        given[0][:, -1] *= last
    return far(found(together, given, [], backend), theirs, exact, 2 * len(sources), dtype)


SLOW = [pytest.param(35, dtype, marks=pytest.mark.slow) for dtype in (F64, F32, BF16)]  # ten seconds to trace


@pytest.mark.parametrize(("count", "dtype"), [(9, BF16), *SLOW])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.usefixtures("plain_sums")
def test_compiled_sums_of_many_sources(count, dtype, backend):
    assert wrong_sums(dtype, backend, count) == 0


@pytest.mark.parametrize("dtype", [F64, F32, BF16])
def test_a_source_left_out_is_told_apart(dtype):
    assert wrong_sums(dtype, None, last=0.0) > 0


def test_the_harness_is_that_of_the_eager_form():
    once, _, maps = twins(BLOCK, 2, WIDTH)
    embedded = drawn(TOKENS, maps)
    for ours, theirs in zip(of_rule(once, maps, embedded), flat(ran(once, maps, embedded)), strict=True):
        assert torch.equal(ours, theirs)
