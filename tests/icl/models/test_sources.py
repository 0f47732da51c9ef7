"""Tables of tokens' rows, shifted values and weights that are one parameter: what follows from them everywhere."""

import json
from dataclasses import replace

import pytest
import torch

from icl.conversion import convert
from icl.models.cache import TOKENS, Cache, step
from icl.models.decoder import Decoder
from icl.models.frame import shifted as moved
from icl.models.reading import Reader
from icl.models.saved import architecture_of
from icl.published import own
from icl.stacks.decoder import StackedDecoder, misfit
from icl.testing import check_identity, generic
from icl.training.optimiser import is_decayed, is_orthogonalised
from theory.errors import BadInput
from theory.plans.accounting import cache, flops, parameters, projections
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.combine import combine
from theory.plans.decoding import numbers_of_a_step, reads
from theory.plans.heads import NotCovered, toy_heads
from theory.plans.mix import Learned, e, k, learned_weights, shifted, total, v
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape, learned, learned_parameters, plan
from theory.plans.streams import INPUT, OUTPUT, Step, Streams
from theory.plans.words import rules, sketch
from theory.plans.written import from_json, to_json
from theory.toy.deep import reach

LLAMA = Architecture(d_model=12, n_layers=3, n_heads=4, d_ff=10, context=12, stem=Tokens(7), n_kv_heads=2, head_dim=4)
SHAPE = LLAMA.shape


def value_embeddings(shape: Shape) -> Plan:
    return resolve("value-embeddings", shape)


def some_tokens(batch: int = 2, length: int = 9) -> torch.Tensor:
    return torch.randint(7, (batch, length), generator=torch.Generator().manual_seed(6))


# --- weights ------------------------------------------------------------------------------------------------------


def test_weights_are_scaled_and_tied():
    a = Learned("a", 0.25)
    assert str((1 - a) * v(2, 1) + a * v(1, 1)) == "(1 - a) v(2, 1) + a v(1, 1)"
    assert str(-(2 * (a * v(1, 1)))) == "-2 a v(1, 1)"
    assert (1 - a).value(0.25) == 0.75
    assert (0.5 * (3 - 2 * a)).value(0.25) == pytest.approx(1.25)
    assert a * (2 * v(1, 1)) == (2 * a) * v(1, 1) == 2 * (a * v(1, 1))
    assert (a / 2 - 1).value(1.0) == -0.5
    assert ((1 - a) * v(1, 1)).terms[0].start == 0.75
    assert a * 1 == a


def test_one_parameter_holds_the_numbers_of_many_weights():
    weights = learned_weights("a", [0.1, 0.2, 0.3, 0.4])
    two = plan(Shape(1, 2), values=lambda n, h: weights[h + 1] * v(n, h))
    assert learned(two) == {"a[2]": 0.3, "a[3]": 0.4}
    (parameter,) = learned_parameters(two).values()
    assert (parameter.places, parameter.starts) == ((2, 3), (0.3, 0.4))
    built = Decoder(replace(LLAMA, n_layers=1), two)
    assert [name for name, _ in built.learned.items()] == ["w_a"]
    assert built.learned["w_a"].tolist() == pytest.approx([0.3, 0.4])


def test_lime_has_one_parameter_per_layer():
    """Of 12 layers of 12 heads: 144 weights per layer and source layer, in 11 parameters."""
    config = replace(LLAMA, n_layers=12, n_heads=12, n_kv_heads=12)
    chosen = resolve("lime", config.shape)
    assert len(learned(chosen)) == parameters(config, chosen)["mixing"] == 144 * sum(range(2, 13)) == 11_088
    assert len(learned_parameters(chosen)) == 11
    built = Decoder(config, chosen, device="meta")
    assert {name: p.numel() for name, p in built.learned.items()} == {f"w_route_{n}": 144 * n for n in range(2, 13)}


def test_a_product_of_matrices_is_the_sum_term_by_term():
    rows = learned_weights("a", [0.1 * i for i in range(32)])
    sources = [(n, h) for n in (1, 2) for h in (1, 2, 3, 4)]
    mixes = tuple(
        total((2 - rows[8 * (h - 1) + i]) * v(*source) for i, source in enumerate(sources)) + 0.5 * v(1, h)
        for h in (1, 2, 3, 4)
    )
    exist = {("v", 1): (1, 2, 3, 4), ("v", 2): (1, 2, 3, 4)}
    chosen = plan(Shape(2, 4), values=lambda n, h: mixes[h - 1] if n == 2 else v(n, h))
    dense = Reader((1, 2, 3, 4), mixes, exist, parameters=learned_parameters(chosen))
    assert dense.dense is not None
    numbers = torch.randn(32, dtype=torch.float64)
    bank = {name: torch.randn(2, 4, 3, 5, dtype=torch.float64) for name in ("v1", "v2")}
    found = dense(bank, {"w_a": numbers})
    dense.dense = None
    check_identity(found, dense(bank, {"w_a": numbers}), terms=9)


@pytest.mark.parametrize(
    "name", ["vanilla", "skipv1", "skipv1-pooling", "resformer-all", "cross-layer", "skipv1-dynamic"]
)
def test_ordinary_plans_are_read_term_by_term(name):
    """So their numbers stay the same to the last bit."""
    config = replace(LLAMA, n_heads=8, n_kv_heads=8)
    for attention in Decoder(config, resolve(name, config.shape), device="meta").attentions:
        assert all(reader.dense is None for pair in attention.segments for reader in pair)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (lambda n, h: 0.0 * Learned("a", 1.0) * v(n, h) + v(n, h), "finite slope other than 0"),
        (lambda n, h: Learned("a", 1.0, place=-1) * v(n, h), "place of the learned weight a must be a whole number"),
        (lambda n, h: Learned("a", 1.0, place=0 if h == 1 else None) * v(n, h), "not the same everywhere"),
        (lambda n, h: Learned("a", 1.0, wide=h == 1) * v(n, h), "not the same everywhere"),
        (lambda n, h: Learned("a", 1.0, place=0, wide=True) * v(n, h), "as wide as a head, and so has no place"),
        (lambda n, h: shifted(v(n, h), -1), "must be shifted by a whole number of tokens from 0"),
    ],
)
def test_weights_and_shifts_without_meaning(rule, says):
    with pytest.raises(ValueError, match=says):
        plan(SHAPE, values=rule)


def test_what_cannot_stand_there():
    with pytest.raises(ValueError, match="cannot stand among keys"):
        plan(SHAPE, keys=lambda n, h: e(n, h))
    with pytest.raises(ValueError, match="has the position of another token"):
        plan(SHAPE, keys=lambda n, h: shifted(k(n, h)))
    with pytest.raises(ValueError, match="cannot stand beside the attention"):
        plan(SHAPE, beside=lambda n, h: shifted(v(n, h)))


# --- tables -------------------------------------------------------------------------------------------------------


def test_a_table_costs_rows_and_no_cache():
    chosen, vanilla = value_embeddings(SHAPE), plan(SHAPE)
    assert parameters(LLAMA, chosen)["tables"] == 7 * 2 * 4  # three layers have one table, which two of them read
    assert [p.table for p in projections(LLAMA, chosen)] == [8, 0, 0]
    assert flops(LLAMA, chosen, 9) == flops(LLAMA, vanilla, 9)
    found = cache(LLAMA, chosen)
    assert (found.total, found.indices) == (cache(LLAMA, vanilla).total, 1)
    assert found.bytes(2) == 2 * found.total + 4
    assert cache(LLAMA, vanilla).indices == 0
    assert reads(LLAMA, chosen) == reads(LLAMA, vanilla) + 2 * 8
    more = numbers_of_a_step(LLAMA, chosen, 3, 9) - numbers_of_a_step(LLAMA, vanilla, 3, 9)
    assert more == parameters(LLAMA, chosen)["mixing"] + 3 * (8 + 9 * 2 * 8)


def test_a_cache_keeps_tokens_and_no_rows():
    built, tokens = generic(LLAMA, value_embeddings(SHAPE), 1), some_tokens()
    kept = Cache(built, 2, 9)
    assert set(kept.entries) == {TOKENS, "k1", "k2", "k3", "v1", "v2", "v3"}
    assert kept.bytes == 2 * 9 * cache(LLAMA, built.plan).bytes(8)
    parts = [step(built, tokens[:, i : i + 1], kept) for i in range(9)]
    with torch.no_grad():
        check_identity(torch.cat(parts, dim=1), built(tokens), terms=100)
    kept.entries[TOKENS].zero_()  # the control: other tokens have other rows
    with torch.no_grad():
        assert float((step(built, tokens[:, :0], kept)).numel()) == 0
    other = Cache(built, 2, 9)
    step(built, tokens[:, :8], other)
    other.entries[TOKENS][:, :, :8] = (other.entries[TOKENS][:, :, :8] + 1) % 7
    with torch.no_grad():
        assert float((step(built, tokens[:, 8:], other) - built(tokens)[:, 8:]).abs().max()) > 1e-3


def test_only_heads_that_are_attended_over_are_looked_up():
    chosen = plan(SHAPE, values=lambda n, h: v(n, h) + e(1, 2), beside=lambda n, h: e(1, h))
    built, tokens = generic(LLAMA, chosen, 1), some_tokens()
    kept = Cache(built, 2, 9)
    assert kept.tables["e1"][1] == [1]
    with torch.no_grad():
        found = torch.cat([step(built, tokens[:, a:b], kept) for a, b in ((0, 4), (4, 5), (5, 9))], dim=1)
        check_identity(found, built(tokens), terms=100)


def test_a_table_beside_the_attention_alone_needs_no_tokens():
    built = Decoder(LLAMA, plan(SHAPE, beside=lambda n, h: e(n, h)))
    assert TOKENS not in Cache(built, 1, 4).entries
    assert cache(LLAMA, built.plan).indices == 0


def test_embedded_tokens_have_no_rows():
    built, tokens = Decoder(LLAMA, value_embeddings(SHAPE)), some_tokens()
    with pytest.raises(BadInput, match="takes tokens' indices, not embedded tokens"):
        built.embedded(built.stem.embed(tokens))


def test_rows_are_slices_of_those_of_all_heads():
    every = Decoder(LLAMA, plan(SHAPE, values=lambda n, h: e(1, h)))
    one = Decoder(LLAMA, plan(SHAPE, values=lambda n, h: e(1, 2)))
    table = "layers.0.attention.projections.table.weight"
    assert torch.equal(every.get_parameter(table)[:, 4:], one.get_parameter(table))


def test_tables_are_decayed_and_not_orthogonalised():
    name, parameter = "layers.0.attention.projections.table.weight", torch.nn.Parameter(torch.empty(7, 8))
    assert is_decayed(name, parameter)
    assert not is_orthogonalised(name, parameter)
    assert is_orthogonalised(name.replace("table", "value"), parameter)


# --- shifts -------------------------------------------------------------------------------------------------------


def test_padding_is_no_token_before():
    built = generic(LLAMA, resolve("shifted-values", SHAPE), 1)
    tokens, real = some_tokens(), torch.ones(2, 9, dtype=torch.bool)
    real[0, :3] = real[1, 4:6] = False
    with torch.no_grad():
        found = built(tokens, real)
        for row in range(2):
            check_identity(found[row : row + 1, real[row]], built(tokens[row : row + 1, real[row]]), terms=100)


def test_beyond_the_first_token_there_is_nothing():
    """However far beyond: what it takes grows with the sequence alone."""
    x, before = torch.randn(2, 1, 9, 3), (torch.arange(9) - 1).expand(2, -1)
    assert torch.equal(moved(x, 10**12, before), torch.zeros_like(x))
    assert torch.equal(moved(x, 8, before)[:, :, 8], x[:, :, 0])


def test_documents_do_not_reach_into_each_other():
    built, tokens = generic(LLAMA, resolve("shifted-values", SHAPE), 1), some_tokens()
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]]).expand(2, -1)
    own_text = (torch.arange(9) >= 4)[:, None] == (torch.arange(9) >= 4)
    visible = (own_text & torch.ones(9, 9).tril().bool())[None, None]
    with torch.no_grad():
        x = built.stem.embed(tokens)
        frame = built.placed_frame(x, places, visible, tokens=tokens)
        found = built.stem.answer(built.through(x, frame, places))
        for part in (slice(0, 4), slice(4, 9)):
            check_identity(found[:, part], built(tokens[:, part]), terms=100)


# --- elsewhere ----------------------------------------------------------------------------------------------------

PLANS = {
    "tables": value_embeddings(SHAPE),
    "gated": resolve("gated-value-embeddings", SHAPE),
    "shifted": resolve("shifted-values", SHAPE),
    "lime": resolve("lime", SHAPE),
    "tied": resolve("tied-resformer", SHAPE),
    "wide": plan(SHAPE, values=lambda n, h: Learned(f"w_{n}", 0.5, wide=True) * v(n, h)),
}


@pytest.mark.parametrize("name", PLANS)
def test_bf16_is_near(name):
    built, tokens = generic(LLAMA, PLANS[name], 5), some_tokens()
    with torch.no_grad():
        exact = built(tokens)
        near = built.bfloat16()(tokens).double()
    assert float((exact - near).norm() / exact.norm()) < 0.1  # some twenty roundings to eight bits


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_written_and_read(name):
    assert from_json(json.loads(json.dumps(to_json(PLANS[name])))) == PLANS[name]


def test_old_plans_are_written_as_before():
    written = to_json(resolve("resformer-learned", Shape(2, 1)))
    own_weight, first = {"name": "own_2", "start": 0.5}, {"name": "first_2", "start": 0.5}
    assert written["table"][1][0]["values"] == [[[own_weight, "v", 2, 1], [first, "v", 1, 1]]]


@pytest.mark.parametrize("name", PLANS)
def test_folders_for_transformers_hold_them(name, tmp_path):
    config = replace(
        LLAMA, windows=(4, 0), differential=True, output_gate="head", output_scale="vector", residual_rank=2
    )
    built = Decoder(config, PLANS[name])
    own.save(built, tmp_path / "model")
    content = json.loads((tmp_path / "model" / "config.json").read_text())
    assert own.described(content) == (config, PLANS[name])
    assert architecture_of(content["architecture"]) == config


@pytest.mark.parametrize("name", ["tables", "gated", "shifted"])
def test_transformers_reads_them_with_padding_and_windows(name, tmp_path):
    wrapped = pytest.importorskip("icl.published.wrapped")
    built, tokens = generic(replace(LLAMA, windows=(3, 0)), PLANS[name], 1).float(), some_tokens()
    own.save(built, tmp_path / "model")
    loaded = wrapped.CrosslayerForCausalLM.from_pretrained(tmp_path / "model")
    real = torch.ones(2, 9, dtype=torch.long)
    real[0, :3] = 0
    with torch.no_grad():
        found = loaded(input_ids=tokens, attention_mask=real).logits
        check_identity(found[:1, 3:], built(tokens[:1, 3:]), terms=100)
        check_identity(found[1:], built(tokens[1:]), terms=100)
        if name in ("tables", "gated"):
            with pytest.raises(ValueError, match="not embedded tokens"):
                loaded(inputs_embeds=built.stem.embed(tokens))


def test_conversion_begins_at_the_trained_function():
    model, tokens = generic(LLAMA, plan(SHAPE), 2), some_tokens()
    fixed = plan(SHAPE, values=lambda n, h: v(n, h) + 2 * e(n, h))
    together = plan(SHAPE, values=lambda n, h: Learned(f"a_{n}", 0.5) * (v(n, h) + e(n, h)))
    with torch.no_grad():
        for variant in (
            "tied-resformer",
            "lime",
            "shifted-values",
            "value-embeddings",
            "gated-value-embeddings",
            fixed,
            together,
        ):
            check_identity(convert(model, variant)(tokens), model(tokens), terms=10)
    weights = convert(model, "value-embeddings").learned
    assert (weights["w_own_2"].tolist(), weights["w_row_1"].tolist()) == ([1], [0])


def test_stacks_take_tied_weights_and_refuse_shifts():
    config = Architecture(
        d_model=8, n_layers=2, n_heads=2, d_ff=6, context=5, stem=Vectors(3), norm_eps=0.1, positions="none"
    )
    models = [generic(config, resolve(name, config.shape), i) for i, name in enumerate(("tied-resformer", "lime"))]
    stack = StackedDecoder(models)
    for i, model in enumerate(models):
        copy = stack.copied(i, model)
        assert all(torch.equal(a, b) for a, b in zip(copy.parameters(), model.parameters(), strict=True))
    inputs = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    targets = torch.zeros(2, 3, 5, 4, dtype=torch.float64)
    found = stack.losses(slice(0, 2), stack.flat, inputs, targets, slice(0, 5))
    for i, model in enumerate(models):
        with torch.no_grad():
            out = model(inputs[i].permute(2, 1, 0))
        check_identity(found[i], out.square().sum(-1).mT, terms=100)
    assert misfit(config, resolve("shifted-values", config.shape)) == (
        "a stack reads values of the tokens themselves, weighed by numbers"
    )
    assert misfit(replace(config, parallel=True), plan(config.shape)) is not None


@pytest.mark.parametrize("name", ["tables", "shifted", "wide"])
def test_the_toy_says_what_it_does_not_cover(name):
    for cover in (toy_heads, reach):
        chosen = {
            "tables": plan(Shape(2, 1), values=lambda n, h: v(n, h) + e(1, h)),
            "shifted": plan(Shape(2, 1), values=lambda n, h: shifted(v(n, h))),
            "wide": plan(Shape(2, 1), values=lambda n, h: Learned("a", 1.0, wide=True) * v(n, h)),
        }[name]
        with pytest.raises(NotCovered, match=r"tables of tokens|tokens before them|numbers, not vectors"):
            cover(chosen)


def test_streams_take_learned_numbers_as_they_are():
    a = Learned("a", 0.5)
    steps = (Step((((1 - a, 1),),), ((1, ((1.0, INPUT), (1.0, OUTPUT))),)), Step((((1.0, 1),),)))
    with pytest.raises(ValueError, match="the learned weight a is a number of its own, as it is, in streams"):
        plan(Shape(1, 2), depth=Streams(steps), feed_forward=False)


def test_words_and_sketches():
    assert rules(value_embeddings(Shape(4, 2)), "values") == [
        "layer 1: own_1 own + row_1 own table",
        "layer 2: own_2 own + row_2 own table",
        "layer 3: own_3 own + row_3 layer 1's table",
        "layer 4: own_4 own + row_4 layer 2's table",
    ]
    assert rules(resolve("shifted-values", Shape(1, 3)), "values") == [
        "layer 1: kept_1[] own + (1 - kept_1[]) own, 1 token before"
    ]
    assert rules(resolve("lime", Shape(2, 5)), "keys") == [
        "layer 1: own",
        "layer 2: a sum of 10, weighed by route_2[]",
    ]
    assert sketch(plan(Shape(1, 2), values=lambda n, h: e(1, 3 - h)), "values") == ["   1 @@"]
    assert rules(plan(Shape(1, 2), values=lambda n, h: e(1, 3 - h)), "values") == [
        "layer 1: head 1 own table head 2, head 2 own table head 1"
    ]


def test_variants_combine():
    both = combine(value_embeddings(SHAPE), resolve("residual-keys", SHAPE), resolve("attnres", SHAPE))
    built, tokens = generic(LLAMA, both, 1), some_tokens()
    kept = Cache(built, 2, 9)
    with torch.no_grad():
        found = torch.cat([step(built, tokens[:, a:b], kept) for a, b in ((0, 4), (4, 9))], dim=1)
        check_identity(found, built(tokens), terms=100)
