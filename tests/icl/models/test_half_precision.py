"""Dynamic heads in half precision, on each way that they are worked out, against every pair's value in float64."""

from functools import partial

import pytest
import torch

from icl.models import attention, few_queries
from icl.models.attention import Core, attend, weights
from icl.models.dynamic_values import naive, revised
from icl.models.frame import Frame
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

SIZES = [(3, 1, 37, 5), (1, 1, 5, 768)]  # heads, key/value heads, tokens, width; the second as in the paper's model
WAYS = [(form, how) for form in ("revised", "initial") for how in ("at once", "blocks", "kernel")][:-1]
BLOCK = 3
ROUNDINGS = 48  # of a number's way through the computation, at most


def allowed(dtype):
    """Relative, in the norm: errors of roundings, each eps / sqrt(12) at most in the root mean square, that do not know
    of each other."""
    return torch.finfo(dtype).eps * (ROUNDINGS / 12) ** 0.5


def told(function, leaves, upstream):
    own = [x.clone().requires_grad_() for x in leaves]
    out = function(*own)
    return [out.detach(), *torch.autograd.grad((out * upstream).sum(), own)]


def drawn(heads, kv_heads, tokens, width, dtype):
    generator = torch.Generator().manual_seed(0)
    each = (heads, kv_heads, kv_heads, heads, kv_heads, heads)  # query, key, value, both gates, what is sent back
    made = [torch.randn(1, n, tokens, width, generator=generator, dtype=torch.float64).to(dtype) for n in each]
    return made[:5], made[5]


def way(form, how, heads, kv_heads, tokens, width):
    """(query, key, value, both gates) -> what comes out."""
    frame = Frame(torch.ones(tokens, tokens).tril() > 0, True, None, None, {})
    if how == "kernel":  # each half as wide as queries are, for which the CPU has a kernel

        def split(query, key, value, query_gate, key_gate):
            def attended(wide):
                return torch.cat([attend(query, (key,), (half,), frame) for half in wide.chunk(2, dim=-1)], dim=-1)

            return revised(attended, value, query_gate, key_gate)

        return split
    sizes = Architecture(
        d_model=heads * width,
        n_layers=1,
        n_heads=heads,
        n_kv_heads=kv_heads,
        d_ff=4,
        context=tokens,
        stem=Vectors(3),
        positions="none",
    )
    core = Core(sizes, resolve("dva-attention" if form == "revised" else "dva-initial-attention", sizes.shape))
    return lambda query, key, value, *gates: core(query, (key,), (value,), frame, gates)


def pairs(form, tokens, query, key, value, query_gate, key_gate):
    seen = torch.ones(tokens, tokens).tril() > 0
    shares = weights(query, key.repeat_interleave(query.shape[1] // key.shape[1], 1), seen)
    return naive(form, shares, query_gate, value, key_gate)


def distances(form, how, size, dtype, monkeypatch):
    """Relative ones of the output and of all gradients, to those of every pair's value, of the same numbers."""
    blocks = []

    def few(*args, **options):
        blocks.append(args[1][0].shape[2])
        return few_queries.blockwise(*args, **{**options, "size": BLOCK})

    if how == "blocks":
        monkeypatch.setattr(attention, "QUERIES_AT_A_TIME", BLOCK)
    monkeypatch.setattr(attention, "blockwise", few if how == "blocks" else attention.blockwise)
    leaves, upstream = drawn(*size, dtype)
    ours = told(way(form, how, *size), leaves, upstream)
    assert {x.dtype for x in ours} == {dtype}
    assert bool(blocks) == (how == "blocks")
    exact = told(partial(pairs, form, size[2]), [x.double() for x in leaves], upstream.double())
    return [float((x.double() - y).norm() / y.norm()) for x, y in zip(ours, exact, strict=True)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("form", "how"), WAYS)
def test_half_precision_is_rounding_alone(form, how, size, monkeypatch):
    """The control: three bits fewer, of which bfloat16 has room for less than float16, are noticed."""
    far = {dtype: distances(form, how, size, dtype, monkeypatch) for dtype in (torch.bfloat16, torch.float16)}
    for dtype, found in far.items():
        assert max(found) < allowed(dtype)
    assert max(far[torch.bfloat16]) > allowed(torch.float16)
