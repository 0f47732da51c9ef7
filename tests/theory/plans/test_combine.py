"""Learned weights of several plans in one: each plan's own, unless they are shared on purpose."""

import json
from collections import Counter
from dataclasses import asdict
from inspect import signature

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.models.saved import load, weights
from icl.stacks.mixes import Mixes
from theory.plans import accounting
from theory.plans.architecture import Architecture
from theory.plans.combine import combine
from theory.plans.identity import text
from theory.plans.mix import Mix, Source, Term
from theory.plans.names import resolve
from theory.plans.plan import Learned, Plan, Shape, k, learned, plan, q, v
from theory.plans.presets import llama
from theory.plans.variants import VARIANTS
from theory.plans.written import from_json, to_json

SHAPE = Shape(3, 2)
BUILT_IN = [
    name
    for name, variant in VARIANTS.items()
    if learned(variant.make(SHAPE)) and "start" in signature(variant.make).parameters
]
PARTS = {"queries": "q", "keys": "k", "values": "v", "beside": "v"}
FIELDS = {"queries": "query", "keys": "keys", "values": "values", "beside": "beside"}


def moved(name: str, part: str, shape: Shape, **options: float) -> Plan:
    """What a built-in variant makes of values, made of another part, with the same names."""
    table = VARIANTS[name].make(shape, **options).table

    def rule(n: int, h: int) -> Mix:
        (mix,) = table[n - 1][h - 1].values
        return Mix(tuple(Term(t.weight, Source(PARTS[part], t.source.layer, t.source.head)) for t in mix.terms))

    return plan(shape, **{part: rule})


def sized(shape: Shape) -> Architecture:
    return llama(d_model=8 * shape.heads, n_heads=shape.heads, n_layers=shape.layers, d_ff=8, vocab=7, context=5)


def uses(one: Plan) -> dict[str, Counter[str]]:
    """By part, how often each learned weight stands there."""
    heads = [head for row in one.table for head in row]

    def mixes(part: str) -> list[Mix]:
        values = [getattr(head, FIELDS[part]) for head in heads]
        return [mix for value in values for mix in ([value] if isinstance(value, Mix) else value)]

    weights = {part: [term.weight for mix in mixes(part) for term in mix.terms] for part in PARTS}
    return {part: Counter(w.name for w in own if isinstance(w, Learned)) for part, own in weights.items()}


def keys_learned(shape: Shape) -> Plan:
    return plan(
        shape,
        keys=lambda n, h: (
            k(n, h) if n == 1 else Learned(f"own_{n}", 0.5) * k(n, h) + Learned(f"first_{n}", 0.5) * k(1, h)
        ),
    )


def test_the_weights_of_two_plans_are_twice_as_many():
    shape = Shape(8, 2)
    both = combine(keys_learned(shape), resolve("resformer-learned", shape))
    assert len(learned(both)) == 28
    assert learned(both)["keys_own_2"] == learned(both)["values_own_2"] == 0.5
    assert both == combine(resolve("resformer-learned", shape), keys_learned(shape))


def test_one_plan_keeps_its_names():
    alone = resolve("resformer-learned", SHAPE)
    assert list(learned(alone)) == ["own_2", "first_2", "own_3", "first_3"]
    assert combine(alone, alone) == alone
    assert learned(combine(alone, resolve("attnres", SHAPE))) == learned(alone)


@st.composite
def pairs(draw):
    """Plans of built-in variants with learned weights, each on other parts and with a starting value of its own."""
    shape = Shape(draw(st.integers(2, 4)), draw(st.integers(1, 3)))
    parts = draw(st.permutations(list(PARTS)))[: draw(st.integers(2, 3))]
    starts = [draw(st.sampled_from([0.25, 0.5])) for _ in parts]
    names = [draw(st.sampled_from(BUILT_IN)) for _ in parts]
    return parts, [
        moved(name, part, shape, start=start) for name, part, start in zip(names, parts, starts, strict=True)
    ]


@given(pairs())
def test_combined_plans_learn_what_each_of_them_learns(drawn):
    parts, each = drawn
    both = combine(*each)
    assert len(learned(both)) == sum(len(learned(one)) for one in each)
    assert sorted(learned(both).values()) == sorted(start for one in each for start in learned(one).values())
    assert both == combine(*reversed(each))
    assert from_json(to_json(both)) == both
    for part, one in zip(parts, each, strict=True):  # the same places, under names that nothing else has
        assert sorted(uses(both)[part].values()) == sorted(uses(one)[part].values())
        assert not any(uses(both)[part].keys() & uses(both)[other].keys() for other in PARTS if other != part)


@settings(max_examples=8)
@given(pairs())
def test_models_count_what_the_plan_learns(drawn):
    _, each = drawn
    both = combine(*each)
    config = sized(both.shape)
    built = Decoder(config, both)
    assert sum(p.numel() for p in built.parameters()) == accounting.total_parameters(config, both)
    count = sum(p.numel() for p in built.learned.values())
    assert count == len(learned(both)) == Mixes([both], torch.float64, torch.device("cpu")).width


def test_names_that_one_plan_uses_twice_stay_one_weight():
    a = Learned("a", 0.5)
    tied = plan(SHAPE, keys=lambda n, h: a * k(n, h), values=lambda n, h: a * v(n, h))
    other = plan(SHAPE, queries=lambda n, h: Learned("a", 2.0) * q(n, h))
    assert learned(combine(tied, other)) == {"query_a": 2.0, "keys_values_a": 0.5}


def test_a_new_name_is_nobody_s():
    taken = plan(SHAPE, keys=lambda n, h: Learned("a", 1) * k(n, h), beside=lambda n, h: Learned("keys_a", 1) * v(n, h))
    other = plan(SHAPE, values=lambda n, h: Learned("a", 1) * v(n, h))
    assert set(learned(combine(taken, other))) == {"keys_a_", "keys_a", "values_a"}


def test_shared_weights_are_one():
    a, own = Learned("a", 0.5, shared=True), Learned("a", 0.5)
    keys = plan(SHAPE, keys=lambda n, h: a * k(n, h))
    values = plan(SHAPE, values=lambda n, h: a * v(n, h))
    assert learned(combine(keys, values)) == {"a": 0.5}
    assert from_json(to_json(keys)) == keys
    without = plan(SHAPE, queries=lambda n, h: own * q(n, h))
    assert learned(combine(keys, without, values)) == {"query_a": 0.5, "a": 0.5}
    other = plan(SHAPE, values=lambda n, h: Learned("a", 0.25, shared=True) * v(n, h))
    with pytest.raises(ValueError, match="the learned weight a has two starting values"):
        combine(keys, other)
    with pytest.raises(ValueError, match="a is shared in one place and not in another"):
        plan(SHAPE, keys=lambda n, h: a * k(n, h), values=lambda n, h: own * v(n, h))
    with pytest.raises(ValueError, match="must be true or false, got 'yes'"):
        plan(SHAPE, keys=lambda n, h: Learned("b", 1.0, shared="yes") * k(n, h))


def test_what_is_not_shared_is_written_as_before():
    """Identities of finished trainings and `plan.json` hold name and start alone."""
    one = plan(Shape(1, 1), keys=lambda n, h: Learned("a", 0.5) * k(n, h))
    assert to_json(one)["table"][0][0]["keys"] == [[[{"name": "a", "start": 0.5}, "k", 1, 1]]]
    assert "Learned(name='a', start=0.5)" in text(one)


def test_a_combined_plan_reads_its_checkpoint(tmp_path):
    config = sized(SHAPE)
    first = Decoder(config, combine(keys_learned(config.shape), resolve("resformer-learned", config.shape)))
    (tmp_path / "model.safetensors").write_bytes(weights(first))
    (tmp_path / "config.json").write_text(json.dumps({"architecture": asdict(config), "variant": "file"}))
    again = combine(resolve("resformer-learned", config.shape), keys_learned(config.shape))
    second = load(tmp_path, variant=again)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
