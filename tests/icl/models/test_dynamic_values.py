"""Dynamic values as the models make them, against every pair's value made: outputs and all gradients."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.models.dynamic_values import initial, naive, revised

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


def told(function, leaves, upstream):
    own = [x.clone().requires_grad_() for x in leaves]
    out = function(*own)
    return [out.detach(), *torch.autograd.grad((out * upstream).sum(), own)]


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
    pairs = told(partial(naive, form), leaves, upstream)
    scale = max(1.0, *(float(x.norm()) for x in (*pairs, *leaves)))
    for found, expected in zip(told(FORMS[form], leaves, upstream), pairs, strict=True):
        assert float((found - expected).norm()) < 1e-13 * scale**2 * keys * width * group


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("form", FORMS)
def test_in_half_precision_they_are_no_farther_from_float64_than_the_pairs(form, dtype):
    """To a factor of two: in either, rounding is of some products of numbers of size 1."""
    torch.manual_seed(0)
    leaves, upstream = drawn(2, 2, 2, 7, 9, 5, dtype), normal(2, 4, 7, 5)
    exact = told(partial(naive, form), [x.double() for x in leaves], upstream)
    ours, pairs = (told(f, leaves, upstream.to(dtype)) for f in (FORMS[form], partial(naive, form)))
    for found, made, right in zip(ours, pairs, exact, strict=True):
        far, theirs = (float((x.double() - right).norm()) for x in (found, made))
        assert far <= 2 * theirs + 10 * torch.finfo(dtype).eps * float(right.norm())
        assert far < 0.1 * float(right.norm())


@pytest.mark.parametrize(("form", "other"), [("revised", "initial"), ("initial", "revised")])
def test_the_other_form_is_told_apart(form, other):
    leaves = drawn(1, 1, 1, 3, 3, 2)
    assert not torch.allclose(FORMS[form](*leaves), naive(other, *leaves), rtol=1e-3)
