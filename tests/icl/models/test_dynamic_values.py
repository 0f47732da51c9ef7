"""Dynamic values as the models make them, against every pair's value made: outputs and all gradients.

In half precision, on each way that dynamic heads are worked out, against the same in float64."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.models import attention, few_queries
from icl.models.attention import Core, attend, weights
from icl.models.dynamic_values import initial, naive, revised
from icl.models.frame import Frame
from tests.icl.models.small import with_gradients
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

normal = partial(torch.randn, dtype=torch.float64)
FORMS = {
    "revised": lambda shares, gate, value, key: revised(lambda wide: shares @ spread(wide, shares), value, gate, key),
    "initial": initial,
}


def spread(x, shares):
    return x.repeat_interleave(shares.shape[1] // x.shape[1], dim=1)


def drawn(batch, kv_heads, group, queries, keys, width, dtype=torch.float64):
    heads = kv_heads * group
    shapes = (heads, queries, keys), (heads, queries, width), (kv_heads, keys, width), (kv_heads, keys, width)
    return [torch.randn(batch, *shape, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize("form", FORMS)
@given(
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    queries=st.integers(1, 5),
    keys=st.integers(1, 5),
    width=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_forms_are_the_sums_over_pairs(form, batch, kv_heads, group, queries, keys, width, seed):
    torch.manual_seed(seed)
    leaves = drawn(batch, kv_heads, group, queries, keys, width)
    upstream = normal(batch, kv_heads * group, queries, width)
    pairs = with_gradients(partial(naive, form), leaves, upstream)
    scale = max(1.0, *(float(x.norm()) for x in (*pairs, *leaves)))
    for found, expected in zip(with_gradients(FORMS[form], leaves, upstream), pairs, strict=True):
        assert float((found - expected).norm()) < 1e-13 * scale**2 * keys * width * group


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("form", FORMS)
def test_in_half_precision_they_are_no_farther_from_float64_than_the_pairs(form, dtype):
    """To a factor of two: in either, rounding is of some products of numbers of size 1."""
    torch.manual_seed(0)
    leaves, upstream = drawn(2, 2, 2, 7, 9, 5, dtype), normal(2, 4, 7, 5)
    exact = with_gradients(partial(naive, form), [x.double() for x in leaves], upstream)
    ours, pairs = (with_gradients(f, leaves, upstream.to(dtype)) for f in (FORMS[form], partial(naive, form)))
    for found, made, right in zip(ours, pairs, exact, strict=True):
        far, theirs = (float((x.double() - right).norm()) for x in (found, made))
        assert far <= 2 * theirs + 10 * torch.finfo(dtype).eps * float(right.norm())
        assert far < 0.1 * float(right.norm())


@pytest.mark.parametrize(("form", "other"), [("revised", "initial"), ("initial", "revised")])
def test_the_other_form_is_told_apart(form, other):
    leaves = drawn(1, 1, 1, 3, 3, 2)
    assert not torch.allclose(FORMS[form](*leaves), naive(other, *leaves), rtol=1e-3)


# --- whole heads in half precision -----------------------------------------------------------------------------------

SIZES = [(3, 1, 37, 5), (1, 1, 5, 768)]  # heads, key/value heads, tokens, width; the second as in the paper's model
WAYS = [(form, how) for form in ("revised", "initial") for how in ("at once", "blocks", "kernel")][:-1]
ONE_LAYER = Architecture(d_model=1, n_layers=1, n_heads=1, d_ff=4, context=1, stem=Vectors(3), positions="none")
BLOCK = 3
ROUNDINGS = 48  # of a number's way through the computation, at most


def allowed(dtype):
    """Relative, in the norm: errors of roundings, each eps / sqrt(12) at most in the root mean square, that do not know
    of each other."""
    return torch.finfo(dtype).eps * (ROUNDINGS / 12) ** 0.5


def sent(heads, kv_heads, tokens, width, dtype):
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
    sizes = replace(ONE_LAYER, d_model=heads * width, n_heads=heads, n_kv_heads=kv_heads, context=tokens)
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
    leaves, upstream = sent(*size, dtype)
    ours = with_gradients(way(form, how, *size), leaves, upstream)
    assert {x.dtype for x in ours} == {dtype}
    assert bool(blocks) == (how == "blocks")
    exact = with_gradients(partial(pairs, form, size[2]), [x.double() for x in leaves], upstream.double())
    return [float((x.double() - y).norm() / y.norm()) for x, y in zip(ours, exact, strict=True)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("form", "how"), WAYS)
def test_half_precision_is_rounding_alone(form, how, size, monkeypatch):
    """The control: three bits fewer, of which bfloat16 has room for less than float16, are noticed."""
    far = {dtype: distances(form, how, size, dtype, monkeypatch) for dtype in (torch.bfloat16, torch.float16)}
    for dtype, found in far.items():
        assert max(found) < allowed(dtype)
    assert max(far[torch.bfloat16]) > allowed(torch.float16)
