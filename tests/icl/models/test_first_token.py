"""Values that are read at a sequence's first token alone: what follows from them everywhere."""

import json
from dataclasses import replace

import pytest
import torch

from icl.conversion import convert
from icl.models.cache import Cache, read, step
from icl.published import own
from icl.stacks.decoder import misfit
from icl.testing import check_identity, generic
from theory.errors import BadInput
from theory.plans.accounting import cache, flops, parameters
from theory.plans.architecture import Architecture, Latent, Tokens, misfits
from theory.plans.decoding import reads
from theory.plans.heads import NotCovered, toy_heads
from theory.plans.mix import e, k, shifted, v
from theory.plans.names import resolve
from theory.plans.plan import Shape, first, gate, later, lifetimes, plan
from theory.plans.rooms import cache_bytes
from theory.plans.words import rules
from theory.plans.written import from_json, to_json
from theory.toy.deep import reach

LLAMA = Architecture(d_model=12, n_layers=3, n_heads=4, d_ff=10, context=14, stem=Tokens(7), n_kv_heads=2, head_dim=4)
SHAPE = LLAMA.shape
SINK = resolve("skipv1:sink=1", SHAPE)
MIXED = plan(  # a value that one head reads at the first token and another everywhere; a gate; a later layer's read
    SHAPE,
    values=lambda n, h: (
        later(v(1, h)) + first(v(n, h))
        if (n, h) == (2, 1)
        else gate(n, h) * first(v(2, 1)) + v(n, h) + later(v(2, 2))
        if n == 3
        else v(n, h)
    ),
)
PLANS = {"sink": SINK, "mixed": MIXED, "svformer": plan(SHAPE, values=lambda n, h: later(v(1, h)) + first(v(n, h)))}


def some_tokens(batch: int = 3, length: int = 13) -> torch.Tensor:
    return torch.randint(7, (batch, length), generator=torch.Generator().manual_seed(6))


def test_the_first_token_keeps_its_own_value_and_others_do_not():
    """A single token sees its own values; in a longer sequence the change against vanilla is that of later values."""
    model = generic(LLAMA, plan(SHAPE), 1)
    found, raw = convert(model, SINK, "first"), convert(model, "skipv1", "first")
    tokens = some_tokens()
    with torch.no_grad():
        check_identity(found(tokens[:, :1]), model(tokens[:, :1]), terms=100)
        check_identity(found(tokens)[:, :1], model(tokens)[:, :1], terms=100)
        for other in (model, raw):
            assert (found(tokens)[:, 1:] - other(tokens)[:, 1:]).norm() > 1e-3 * found(tokens).norm()
        assert (raw(tokens[:, :1]) - model(tokens[:, :1])).norm() > 1e-3 * model(tokens[:, :1]).norm()


def test_it_is_a_sum_of_two_attentions():
    """Of one layer that reads v1 at later tokens and its own value at the first: by hand, from weights of attention."""
    config = replace(LLAMA, n_layers=2, n_heads=2, d_ff=0)
    model = generic(config, resolve("skipv1:sink=1", config.shape), 1)
    attention = model.layers[1]["attention"]
    seen = {}

    def core(_module, args, _out):
        seen["query"], (seen["key"],), (seen["value"],) = args[:3]

    attention.core.register_forward_hook(core)
    values = [layer["attention"].projections.value for layer in model.layers]
    outs = []
    for projection in values:
        projection.register_forward_hook(lambda _module, _args, out: outs.append(out.unflatten(-1, (-1, 4))))
    with torch.no_grad():
        model(some_tokens())
    first_layer, own_values = outs
    expected = torch.cat([own_values[:, :1, 1], first_layer[:, 1:, 1]], dim=1)
    check_identity(seen["value"][:, 1], expected)
    check_identity(seen["value"][:, 0], own_values[:, :, 0])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("windows", [(), (3, 0, 5)])
def test_decoding_is_the_whole_pass(name, windows):
    config = replace(LLAMA, windows=windows)
    model, tokens = generic(config, PLANS[name], 1), some_tokens()
    with torch.no_grad():
        whole = model(tokens)
    for sizes in ([1] * 13, [5, 1, 7], [13]):
        kept, start = Cache(model, 3, 13), 0
        for size in sizes:
            found = step(model, tokens[:, start : start + size], kept)
            check_identity(found, whole[:, start : start + size], terms=1000)
            start += size
        assert kept.bytes == 3 * cache_bytes(config, PLANS[name], 13, number=8)


@pytest.mark.parametrize("name", PLANS)
def test_sequences_of_other_lengths_are_decoded_together(name):
    """With padding before some, and where one sequence begins later than another."""
    model, tokens = generic(LLAMA, PLANS[name], 1), some_tokens()
    real = torch.ones(3, 9, dtype=torch.bool)
    real[0, :4] = real[2, :9] = False
    kept = Cache(model, 3, 13)
    step(model, tokens[:, :9], kept, real)
    more = torch.ones(3, 4, dtype=torch.bool)
    found = step(model, tokens[:, 9:], kept, more)
    with torch.no_grad():
        for row, start in ((0, 4), (1, 0), (2, 9)):
            check_identity(found[row : row + 1], model(tokens[row : row + 1, start:])[:, 9 - start :], terms=1000)
        padded = model(tokens, torch.cat([real, more], dim=1))
        check_identity(padded[0:1, 4:], model(tokens[0:1, 4:]), terms=1000)
    again = Cache(model, 3, 13)
    ends = read(model, tokens, again, torch.cat([real, more], dim=1), at_once=4)
    check_identity(ends, found[:, -1], terms=1000)


def test_documents_have_first_tokens_of_their_own():
    model, tokens = generic(LLAMA, SINK, 1), some_tokens(2, 9)
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]]).expand(2, -1)
    own_text = (torch.arange(9) >= 4)[:, None] == (torch.arange(9) >= 4)
    visible = (own_text & torch.ones(9, 9).tril().bool())[None, None]
    with torch.no_grad():
        x = model.stem.embed(tokens)
        frame = model.placed_frame(x, places, visible, tokens=tokens)
        found = model.stem.answer(model.through(x, frame, places))
        for part in (slice(0, 4), slice(4, 9)):
            check_identity(found[:, part], model(tokens[:, part]), terms=100)


def test_one_token_per_head_is_cached():
    skip, vanilla = cache(LLAMA, resolve("skipv1", SHAPE)), cache(LLAMA, plan(SHAPE))
    found = cache(LLAMA, SINK)
    assert (found.keys, found.values, found.first) == (skip.keys, skip.values, (0, 4, 4))
    assert skip.first == vanilla.first == ()
    assert cache_bytes(LLAMA, SINK, 10, number=2) == cache_bytes(LLAMA, resolve("skipv1", SHAPE), 10, number=2) + 16
    assert reads(LLAMA, SINK) == reads(LLAMA, resolve("skipv1", SHAPE))
    assert parameters(LLAMA, SINK) == parameters(LLAMA, plan(SHAPE))
    assert flops(LLAMA, SINK, 9) == flops(LLAMA, plan(SHAPE), 9)
    lives = {str(life.source): (life.cached, life.first, life.last) for life in lifetimes(MIXED)}
    assert lives["v(2, 1)"] == (False, True, 3)
    assert lives["v(2, 2)"] == (True, False, 3)
    assert lives["g(3, 1)"][:2] == (True, False)
    assert cache(LLAMA, MIXED).first == (0, 4, 0)


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_written_and_read(name):
    content = json.loads(json.dumps(to_json(PLANS[name])))
    assert from_json(content) == PLANS[name]


def test_what_was_written_before_stays_as_it_is():
    assert to_json(resolve("skipv1", SHAPE))["table"][1][1]["values"] == [[[1.0, "v", 1, 2]]]
    assert to_json(SINK)["table"][1][1]["values"] == [[[1.0, "v", 1, 2, "later"], [1.0, "v", 2, 2, "first"]]]
    with pytest.raises(BadInput, match="everywhere, at first, at later tokens"):
        from_json({"layers": 1, "heads": 1, "table": [[{**head(), "values": [[[1.0, "v", 1, 1, "last"]]]}]]})


def head():
    return {"query": [[1.0, "q", 1, 1]], "keys": [[[1.0, "k", 1, 1]]], "values": [[[1.0, "v", 1, 1]]], "beside": []}


def test_words():
    assert rules(SINK, "values")[1] == (
        "layers 2-3: head 1 own, head 2 layer 1, after the first token + own, at the first token"
    )
    assert str(later(v(1, 2)) + first(v(3, 2))) == "later(v(1, 2)) + first(v(3, 2))"
    assert first(later(v(1, 1))).terms == ()
    assert first(first(v(1, 1))) == first(v(1, 1))


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"keys": lambda n, h: first(k(n, h))}, "is no value; only values are told apart"),
        ({"values": lambda n, h: first(e(n, h))}, "is no value; only values are told apart"),
        ({"values": lambda n, h: first(shifted(v(n, h)))}, "is shifted, and what is read at some tokens"),
        ({"beside": lambda n, h: later(v(n, h))}, "cannot stand beside the attention"),
    ],
)
def test_what_has_no_meaning(rule, says):
    with pytest.raises(ValueError, match=says):
        plan(SHAPE, **rule)


def test_what_has_no_place_for_it_says_so():
    toy = plan(Shape(2, 1), values=lambda n, h: later(v(1, h)) + first(v(n, h)))
    for cover in (toy_heads, reach):
        with pytest.raises(NotCovered, match="do not tell the first one from others"):
            cover(toy)
    latent = replace(LLAMA, n_kv_heads=0, latent=Latent(8, 2))
    found = list(misfits(latent, resolve("skipv1:sink=1", latent.shape)))
    assert any("told apart by where they stand" in problem for problem in found)
    from theory.plans.architecture import Vectors

    stack = replace(LLAMA, stem=Vectors(3), n_kv_heads=0)
    assert misfit(stack, resolve("skipv1:sink=1", stack.shape)) is not None
    with pytest.raises(ValueError, match="sink must be 0 or 1"):
        resolve("skipv1:sink=2", SHAPE)


@pytest.mark.parametrize("name", PLANS)
def test_transformers_reads_what_is_written(name, tmp_path):
    """Padded prompts of unlike length, token by token, cropped and read again."""
    transformers = pytest.importorskip("transformers")
    model = generic(LLAMA, PLANS[name], 2)
    own.save(model, tmp_path / "x")
    found = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "x", trust_remote_code=True).eval()
    tokens, real = some_tokens(2), torch.ones(2, 13, dtype=torch.long)
    real[0, :4] = 0
    cache = transformers.DynamicCache()
    with torch.no_grad():
        alone = model(tokens[:1, 4:]).float(), model(tokens[1:]).float()
        for start, end in ((0, 3), (3, 6), (6, 12), (12, 13)):
            answer = found(tokens[:, start:end], attention_mask=real[:, :end], past_key_values=cache).logits
        for row, expected in enumerate(alone):
            check_identity(answer[row, -1], expected[0, -1], terms=300)
        cache.crop(-13)
        again = found(tokens, attention_mask=real, past_key_values=cache).logits
        check_identity(again[1], alone[1][0], terms=300)


def test_bf16_is_near():
    model, tokens = generic(LLAMA, SINK, 5), some_tokens()
    with torch.no_grad():
        exact = model(tokens)
        near = model.bfloat16()(tokens).double()
    assert float((exact - near).norm() / exact.norm()) < 0.1
