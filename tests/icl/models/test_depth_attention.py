"""Attention over depth in two phases, against the rule as it is written: reads and all gradients.

Eager, compiled, and by a GPU's kernel: on a GPU itself, elsewhere what its makers document."""

import copy
import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import rms_norm

from icl.models import weighted_sum
from icl.models.depth_attention import AttentionDepth, TwoPhases, read_as
from icl.models.depth_kernel import KernelDepth, installed, misfit
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


def every(depth, maps, embedded):
    """All reads, where a sublayer is a linear map."""
    state, reads = depth.start(embedded), []
    for i, linear in enumerate(maps):
        reads.append(depth.read(i, state))
        state = depth.write(i, state, reads[-1] @ linear.T)
    return torch.stack([*reads, depth.read(len(maps), state)])


def with_all_gradients(function, inputs, parameters, backend=None):
    """Its outputs, and the gradients of a sum of them by the inputs that want one and by every parameter that has."""
    if backend is not None:
        torch._dynamo.reset()
        function = torch.compile(function, fullgraph=True, backend=backend)
    outputs = function(*inputs)
    slopes = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1)).to(outputs.dtype)
    by = [*(x for x in inputs if x.requires_grad), *parameters]
    gradients = torch.autograd.grad((slopes * outputs).sum(), by, allow_unused=True)
    return [outputs.detach(), *(g for g in gradients if g is not None)]


def ran(depth, maps, embedded, backend=None):
    """Every read, sublayers being these linear maps, and all gradients."""
    inputs = (maps, embedded.clone().requires_grad_())
    return with_all_gradients(lambda maps, embedded: every(depth, maps, embedded), inputs, depth.parameters(), backend)


def drawn(tokens, maps, dtype=torch.float64):
    return torch.randn(BATCH, tokens, maps.shape[-1], generator=torch.Generator().manual_seed(2)).to(dtype)


@given(RULES, st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_two_phases_are_the_rule_as_it_is_written(rule, layers, width, tokens):
    once, naive, maps = twins(rule, layers, width)
    embedded = drawn(tokens, maps)
    ours, wanted = ran(once, maps, embedded), ran(naive, maps, embedded)
    check_identity(ours[0], wanted[0], terms=4 * len(maps))
    size = float(wanted[0].norm()) * float(once.query.detach().norm() + 1)  # a logit's slope is as large as these
    for slope, g in zip(ours[1:], wanted[1:], strict=True):
        check_identity(slope, g, terms=16 * len(maps), scale=max(float(g.norm()), size))


@pytest.mark.parametrize("block", [1, 7])
def test_many_sources_at_an_odd_width(block):
    once, naive, maps = twins(DepthAttention(block=block), 33, 5)
    assert len(maps) // block + 1 > (32 if block == 1 else 8)
    embedded = drawn(3, maps)
    for ours, g in zip(*(ran(depth, maps, embedded) for depth in (once, naive)), strict=True):
        assert (ours - g).norm() <= 1e-10 * g.norm()


@torch.no_grad()
def _gain_left_out(depth):
    depth.gain.fill_(1)


@torch.no_grad()
def _query_of_another_read(depth):
    depth.query[2:4] = depth.query[[3, 2]]


def _part_left_out(depth):
    phase = depth._phase
    depth._phase = lambda sources, first: phase(sources[:1], first)


@pytest.mark.parametrize("spoil", [_gain_left_out, _query_of_another_read, _part_left_out])
def test_something_else_is_told_apart(spoil):
    once, naive, maps = twins(DepthAttention(block=2), 3, 3)
    spoil(once)
    reads, expected = (every(depth, maps, drawn(2, maps)) for depth in (once, naive))
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
    expected = ran(naive, maps, embedded)
    found, wanted = (ran(depth.to(dtype), maps.to(dtype), embedded.to(dtype)) for depth in (once, naive))
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


# --- a GPU's kernel --------------------------------------------------------------------------------------------------


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
    answers = []
    for reads in (KernelDepth, AttentionDepth):
        _, depth, maps = twins(DepthAttention(block=block), layers, width, dtype, reads=reads)
        answers.append(ran(depth.to(device), maps.to(device), drawn(tokens, maps, dtype).to(device)))
    return answers


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


# --- compiled --------------------------------------------------------------------------------------------------------

WIDTH, TOKENS = 5, 3  # a third of the width: 15 numbers a token
FULL, BLOCK = DepthAttention(), DepthAttention(block=3)
F64, F32, BF16 = torch.float64, torch.float32, torch.bfloat16
# A compiler's time is that of the sums it traces: 3 seconds for these, a minute for 34 sublayers and the embedding.
SMALL = [(BLOCK, 2, BF16), *(pytest.param(*x, marks=pytest.mark.slow) for x in [(FULL, 2, F64), (FULL, 2, F32)])]
MANY = [(rule, 17, dtype) for rule in (FULL, DepthAttention(block=7)) for dtype in (F64, F32, BF16)]
BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


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
    exact = ran(copy.deepcopy(naive).double(), maps.double(), embedded.double())
    if spoil is not None:
        spoil(once)
    ours = ran(once.to(dtype), maps, embedded, backend)
    # At every sublayer a weight's, a product's and a sum's, forth and back.
    return far(ours, ran(naive, maps, embedded), exact, 6 * len(maps), dtype)


@pytest.fixture
def plain_sums(monkeypatch):
    """Without the sums in place, which are eager mode's."""

    def refused(*_):
        raise AssertionError("sums in place, in a compiled model")

    monkeypatch.setattr(weighted_sum._Together, "apply", refused)


def compiled(test):
    """Whatever is deprecated of what inductor imports."""
    return pytest.mark.usefixtures("plain_sums")(pytest.mark.filterwarnings("ignore::DeprecationWarning")(test))


@pytest.mark.parametrize(("rule", "layers", "dtype"), SMALL)
@pytest.mark.parametrize("backend", BACKENDS)
@compiled
@pytest.mark.long
def test_compiled_it_is_the_rule_as_it_is_written(rule, layers, dtype, backend):
    assert wrong(rule, layers, dtype, backend) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "layers", "dtype"), MANY)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@compiled
def test_compiled_with_many_sources(rule, layers, dtype, backend):
    assert wrong(rule, layers, dtype, backend) == 0


@pytest.mark.parametrize("dtype", [F64, F32, BF16])
@pytest.mark.parametrize("spoil", [_gain_left_out, _query_of_another_read])
def test_something_else_is_told_apart_in_every_dtype(spoil, dtype):
    """Also where it is coarse; uncompiled, which changes nothing of what is allowed."""
    assert wrong(BLOCK, 2, dtype, None, spoil) == 4
