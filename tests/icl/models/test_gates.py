"""Gates of sources: weights that a layer computes for every token and head, and what follows from them everywhere."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from icl.models.cache import Cache, step
from icl.models.decoder import Decoder
from icl.stacks.decoder import misfit
from icl.testing import check_identity, generic
from theory.errors import BadInput
from theory.plans.accounting import cache, flops, parameters, total_parameters
from theory.plans.architecture import Architecture, Latent, Tokens, Vectors, misfits
from theory.plans.combine import combine
from theory.plans.decoding import reads
from theory.plans.heads import NotCovered, toy_heads
from theory.plans.mix import e, gate, k, q, shifted, v
from theory.plans.names import model, resolve
from theory.plans.plan import Plan, Shape, plan
from theory.plans.rooms import cache_bytes
from theory.plans.sharding import sublayer_parameters
from theory.plans.words import rules

LLAMA = Architecture(d_model=12, n_layers=3, n_heads=4, d_ff=10, context=12, stem=Tokens(7), n_kv_heads=2, head_dim=4)
SHAPE = LLAMA.shape


def some_tokens(batch: int = 2, length: int = 9) -> torch.Tensor:
    return torch.randint(7, (batch, length), generator=torch.Generator().manual_seed(6))


def gated(shape: Shape) -> Plan:
    return resolve("gated-value-embeddings", shape)


def test_weights_are_gates_of_a_layer_and_head():
    assert str(2 * gate(2, 1) * e(1, 1)) == "2 gate(2, 1) e(1, 1)"
    assert str((1 - gate(2, 1, 3)) * v(2, 1)) == "(1 - gate(2, 1)) v(2, 1)"
    assert (2 * gate(1, 1) * e(1, 1)).terms[0].start == 1.0
    with pytest.raises(TypeError, match="a gate multiplies fixed weights"):
        gate(1, 1) * (gate(1, 1) * v(1, 1))
    assert rules(gated(Shape(4, 2)), "values") == [
        "layer 1: own",
        "layer 2: own + 2 gate own table",
        "layer 3: own",
        "layer 4: own + 2 gate own table",
    ]
    other = plan(Shape(2, 2), values=lambda n, h: v(n, h) + gate(1, 3 - h) * v(1, h) if n == 2 else v(1, h))
    assert rules(other, "values") == [
        "layer 1: own",
        "layer 2: head 1 own + layer 1's gate of head 2 layer 1, head 2 own + layer 1's gate of head 1 layer 1",
    ]


def test_a_gate_costs_a_map_and_a_number_of_cache():
    chosen, vanilla = gated(SHAPE), plan(SHAPE)  # layers 1 and 3 of three, two key/value heads
    counts = parameters(LLAMA, chosen)
    assert counts["gates"] == 2 * 12 * 2
    assert counts["tables"] == 2 * 7 * 8
    assert parameters(LLAMA, resolve("gated-value-embeddings:channels=5", SHAPE))["gates"] == 2 * 5 * 2
    assert flops(LLAMA, chosen, 9) - flops(LLAMA, vanilla, 9) == 2 * counts["gates"]
    assert cache(LLAMA, chosen).total - cache(LLAMA, vanilla).total == 2 * 2
    assert reads(LLAMA, chosen) - reads(LLAMA, vanilla) == 2 * (8 + 2)
    built = Decoder(LLAMA, chosen, device="meta")
    assert sum(p.numel() for p in built.parameters()) == total_parameters(LLAMA, chosen)
    assert [sum(p.numel() for p in part.parameters()) for part in built.sublayers] == sublayer_parameters(LLAMA, chosen)
    kept = Cache(Decoder(LLAMA, chosen).double(), 2, 9)
    assert kept.bytes == 2 * 9 * cache(LLAMA, chosen).bytes(8) == 2 * cache_bytes(LLAMA, chosen, 9, number=8)
    assert kept.entries["g1"].shape == (2, 2, 9, 1)


def test_gates_of_other_layers_keys_and_terms_beside_decode():
    chosen = plan(
        SHAPE,
        keys=lambda n, h: (1 - 0.5 * gate(n, h, 3)) * k(n, h),
        values=lambda n, h: v(n, h) + gate(1, 3 - h, 3) * v(1, h) if n > 1 else v(1, h),
        beside=lambda n, h: -gate(n, h, 3) * e(1, h),
    )
    built, tokens = generic(LLAMA, chosen, 1), some_tokens()
    kept = Cache(built, 2, 9)
    with torch.no_grad():
        found = torch.cat([step(built, tokens[:, a:b], kept) for a, b in ((0, 4), (4, 5), (5, 9))], dim=1)
        check_identity(found, built(tokens), terms=100)
        kept = Cache(built, 2, 9)
        step(built, tokens[:, :8], kept)
        kept.entries["g1"].zero_()  # the control
        assert float((step(built, tokens[:, 8:], kept) - built(tokens)[:, 8:]).abs().max()) > 1e-3


def test_gates_start_at_half():
    built, tokens = Decoder(LLAMA, gated(SHAPE), std=0.3).double(), some_tokens()
    fixed = Decoder(LLAMA, plan(SHAPE, values=lambda n, h: v(n, h) + e(n, h) if n != 2 else v(n, h)), std=0.3).double()
    with torch.no_grad():
        check_identity(built(tokens), fixed(tokens), terms=100)


@pytest.mark.parametrize("name", ["gated-value-embeddings", pytest.param("differential", marks=pytest.mark.slow)])
@torch._dynamo.config.patch(error_on_recompile=True)
@pytest.mark.long
def test_compiles_whole_and_once(name):
    torch.compiler.reset()
    config, chosen = model(LLAMA, name)
    built, twin = generic(config, chosen, 1), generic(config, chosen, 1)
    compiled = torch.compile(built, fullgraph=True, backend="aot_eager")
    losses = [cross_entropy(m(some_tokens()).flatten(0, 1), some_tokens().flatten()) for m in (compiled, twin)]
    for loss in losses:
        loss.backward()
    check_identity(losses[0][None], losses[1][None], terms=1000)
    for one, other in zip(built.parameters(), twin.parameters(), strict=True):
        check_identity(one.grad, other.grad, terms=1000, scale=max(1.0, float(other.grad.norm())))


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"values": lambda n, h: gate(2, h) * v(n, h)}, "is of a later layer"),
        ({"values": lambda n, h: gate(n, 9) * v(n, h)}, "or of a layer or head that is not there"),
        (
            {"values": lambda n, h: gate(n, h, n) * v(n, h) + gate(1, h, 5) * e(1, h)},
            "do not all read the same channels",
        ),
        ({"values": lambda n, h: gate(n, h, -1) * v(n, h)}, "a number of channels from 0 by whole numbers"),
        ({"values": lambda n, h: gate(n, h) * shifted(v(n, h))}, "cannot be weighed by a gate"),
        ({"values": lambda n, h: v(n, h) + 0.0 * gate(n, h) * e(n, h) + float("inf") * gate(n, h) * e(1, h)}, "finite"),
        ({"queries": lambda n, h: gate(n, h) * q(n, h)}, "they cannot weigh queries"),
    ],
)
def test_gates_without_meaning(rules, says):
    with pytest.raises(BadInput, match=says):
        plan(SHAPE, **rules)


def test_where_gates_have_no_meaning():
    latent = replace(LLAMA, latent=Latent(8, 2), n_kv_heads=0, head_dim=4)
    gates = plan(latent.shape, values=lambda n, h: gate(n, h) * v(n, h))
    assert "a gate weighs what is one head's" in misfits(latent, gates)[0]
    with pytest.raises(NotCovered, match="not gates that tokens compute"):
        toy_heads(plan(Shape(2, 1), values=lambda n, h: gate(n, h) * v(n, h)))
    vectors = replace(LLAMA, stem=Vectors(3), n_kv_heads=0)
    assert misfit(vectors, plan(vectors.shape, values=lambda n, h: gate(n, h) * v(n, h))) == (
        "a stack has no pairs of heads and no gates of sources"
    )
    beside = plan(SHAPE, beside=lambda n, h: gate(n, h) * v(n, h))
    with pytest.raises(BadInput, match="two of these variants weigh sources by gates"):
        combine(gated(SHAPE), beside)
