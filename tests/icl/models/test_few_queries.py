"""Attention in blocks of queries is attention at once: outputs, gradients, what is kept; which kernels there are."""

import warnings
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from icl.models import attention, few_queries
from icl.models.attention import Core, attend, has_kernel, weights
from icl.models.decoder import Decoder
from icl.models.few_queries import blockwise
from icl.models.frame import Frame
from icl.probes.costs import kept_bytes
from icl.testing import check_identity
from tests.icl.models.small import with_gradients
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

normal = partial(torch.randn, dtype=torch.float64)
SIZES = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=4, context=23, stem=Vectors(3))


def attended(query, key, value, visible):
    return weights(query, key, visible) @ value


@given(
    tokens=st.integers(1, 13),
    size=st.integers(1, 14),
    keys=st.integers(1, 13),
    causal=st.booleans(),
    per_prompt=st.booleans(),
    seed=st.integers(0, 9),
)
def test_blocks_give_what_the_whole_gives(tokens, size, keys, causal, per_prompt, seed):
    torch.manual_seed(seed)
    keys = tokens if causal else keys
    visible = torch.ones(tokens, keys).tril() > 0 if causal else torch.rand(tokens, keys) > 0.3
    visible = visible.expand(2, 1, -1, -1) if per_prompt else visible
    leaves = [normal(2, 3, tokens, 2), normal(2, 3, keys, 2), normal(2, 3, keys, 4)]
    upstream = normal(2, 3, tokens, 4)

    ours = with_gradients(
        lambda q, k, v: blockwise(attended, (q,), (k, v), (visible,), causal=causal, size=size), leaves, upstream
    )
    whole = with_gradients(lambda q, k, v: attended(q, k, v, visible), leaves, upstream)
    for found, expected in zip(ours, whole, strict=True):
        check_identity(found, expected, terms=20 * keys, scale=max(1.0, *(float(x.norm()) for x in whole)))


def test_a_causal_block_sees_no_later_key_and_a_wrong_cut_shows():
    """The control: a block that is taken for causal where it is not."""
    shown = []

    def attend(query, key, visible):
        shown.append(tuple(key.shape[2:3] + visible.shape))
        return weights(query, key, visible) @ key

    query, visible = normal(1, 1, 5, 2), torch.ones(5, 5) > 0
    cut = blockwise(attend, (query,), (query,), (visible,), causal=True, size=2)
    assert shown == [(2, 2, 2), (4, 2, 4), (5, 1, 5)]
    assert not torch.allclose(cut, attend(query, query, visible))


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("vanilla", {"dropout": 0.2}),
        ("vanilla", {"positions": "bias"}),
        ("vanilla", {"score": "linear"}),
        ("vanilla", {"score": "linear", "mask": "context"}),
        ("vanilla", {"dropout": 0.2, "mask": "none"}),
        ("cross-layer", {"dropout": 0.2}),
        ("dva-attention", {}),
        ("dva-attention", {"n_kv_heads": 1, "dropout": 0.2}),
        ("dva-initial-attention", {}),
        ("dva-initial-attention", {"n_kv_heads": 1, "positions": "bias"}),
    ],
)
def test_decoders_attend_in_blocks_as_at_once(variant, changes, monkeypatch):
    """In training mode, with dropout of none of the weights, as blocks draw their own."""
    config = Architecture(**{**vars(SIZES), **changes})
    model, inputs = Decoder(config, resolve(variant, config.shape), std=0.5).double(), normal(3, 23, 3)
    for layer in model.layers:
        core = layer.get_submodule("attention.core")
        assert isinstance(core, Core)
        core.dropout = min(core.dropout, 1e-12)
    model.dropout.p = 0.0

    def told():
        model.zero_grad()
        out = model(inputs)
        out.square().sum().backward()
        return [out.detach(), *(p.grad.clone() for p in model.parameters())]

    whole, calls = told(), []
    monkeypatch.setattr(attention, "QUERIES_AT_A_TIME", 5)

    def counted(*args, **options):
        calls.append(args)
        return few_queries.blockwise(*args, **options, size=5)

    monkeypatch.setattr(attention, "blockwise", counted)
    for found, expected in zip(told(), whole, strict=True):
        check_identity(found, expected, terms=1e4, scale=float(expected.norm()) + 1)
    assert len(calls) == 2


def test_weights_that_are_dropped_are_the_same_ones_in_the_backward_pass():
    """Shares of 1 to a value of 1: the outputs' sum is that of the shares that are left, and so is the gradient."""
    value = torch.ones(1, 1, 7, 1, requires_grad=True)

    def attend(query, value):
        return torch.nn.functional.dropout(torch.ones(1, 1, query.shape[2], 7), 0.5) @ value

    torch.manual_seed(1)
    out = blockwise(attend, (value,), (value,), (), causal=False, size=2)
    (given,) = torch.autograd.grad(out.sum(), value)
    kept = float(out.detach().sum())
    assert float(given.sum()) == kept
    assert 0 < kept < 98


@pytest.mark.parametrize("dynamic", ["revised", "initial"])
def test_what_is_kept_grows_with_tokens_and_not_with_pairs(dynamic):
    """One head without projections: four times the tokens keep four times as much."""
    config = Architecture(d_model=8, n_layers=1, n_heads=1, d_ff=4, context=2400, stem=Vectors(3))
    core = Core(config, resolve("dva" if dynamic == "revised" else "dva-initial", config.shape))

    def kept(tokens):
        leaves = [torch.randn(1, 1, tokens, 8, requires_grad=True) for _ in range(5)]
        query, key, value, *gates = leaves
        frame = Frame(None, False, None, None, {})
        return kept_bytes(lambda: core(query, (key,), (value,), frame, tuple(gates)).sum(), leaves)

    assert kept(2400) <= 4.1 * kept(600)
    assert kept(256) > 2 * 256**2  # bytes: up to there the weights of all pairs are kept


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize(
    ("width", "value_width", "dropout"), [(768, 768, 0.0), (768, 1536, 0.0), (64, 64, 0.0), (64, 64, 0.1), (6, 12, 0.0)]
)
def test_which_attention_has_a_kernel_on_a_cpu(width, value_width, dropout, kv_heads, masked):
    """As PyTorch has it, at the widths of Dynamic Value Attention's models too."""
    query, key = torch.zeros(1, 2, 4, width), torch.zeros(1, kv_heads, 4, width)
    value, visible = torch.zeros(1, kv_heads, 4, value_width), torch.ones(4, 4).tril() > 0 if masked else None

    def runs():
        with warnings.catch_warnings(), sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            warnings.simplefilter("ignore")
            try:
                scaled_dot_product_attention(
                    query, key, value, visible, dropout_p=dropout, is_causal=not masked, enable_gqa=kv_heads == 1
                )
            except RuntimeError:
                return False
        return True

    assert has_kernel(query, key, value, visible, dropout, causal=not masked) == runs()


@pytest.mark.parametrize("tokens", [256, 600])
@pytest.mark.parametrize("taken", ["neither", "can_use_flash_attention", "can_use_efficient_attention"])
def test_on_a_gpu_it_is_in_blocks_where_pytorch_has_no_kernel(taken, tokens, monkeypatch):
    """Tensors that are on a GPU by name alone; PyTorch's answers are put in, and what it is asked is kept."""
    asked, calls = [], []
    for name in ("can_use_flash_attention", "can_use_efficient_attention"):
        monkeypatch.setattr(torch.backends.cuda, name, lambda params, name=name: asked.append(params) or name == taken)
    monkeypatch.setattr(attention, "blockwise", lambda *_, causal: calls.append(("blocks", causal)))
    monkeypatch.setattr(attention, "_fused", lambda *a, causal, **_: calls.append(("at once", causal, a[3])))
    with FakeTensorMode():
        query, key, value = (torch.empty(1, h, tokens, w, device="cuda") for h, w in ((4, 8), (2, 8), (2, 16)))
        frame = Frame(torch.empty(tokens, tokens, device="cuda", dtype=torch.bool), True, None, None, {})
        attend(query, (key,), (value,), frame, dropout=0.25)
    whole = tokens == 256 or taken != "neither"
    assert calls == [("at once", True, None) if whole else ("blocks", True)]
    if tokens == 256:
        assert not asked  # so few attend at once in any case
        return
    about = asked[0]
    assert (about.query.shape[1], about.key.shape[1], about.value.shape[-1], about.dropout) == (4, 2, 16, 0.25)
    assert about.is_causal
    assert about.enable_gqa
    assert about.attn_mask is None
