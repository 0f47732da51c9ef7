"""Streams as data: what makes no sense, what is needed when, and what every read is made of."""

import copy
import json
import re

import pytest

from theory.errors import BadInput
from theory.plans.mix import Learned
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape, plan, problems
from theory.plans.streams import INPUT, OUTPUT, Gate, Gates, Group, Step, Streams, Wide
from theory.plans.written import from_json, to_json

X = ((1.0, 1),)
NEXT = ((1.0, 1), (1.0, OUTPUT))
PLAIN = Step((X,), ((1, NEXT),))
HEAD = Step((X,))
ONE = Gates((1,), (Group(1),))


def streams(first, second=PLAIN, head=HEAD, copies=1):
    return Streams((first, second, head), copies)


def reading(*terms, gates=None):
    return streams(Step((terms,), ((1, NEXT),), gates))


WRONG = [
    (Streams((PLAIN, HEAD)), "3 steps are wanted, one a sublayer and one for the head, not 2"),
    (Streams([PLAIN, PLAIN, HEAD]), "steps must be a tuple of Step(...)"),
    (streams(PLAIN, copies=0), "copies must be a whole number from 1, got 0"),
    (streams(PLAIN, copies=True), "copies must be a whole number from 1, got True"),
    (reading((1.0, 2)), "step 0: stream 2 is not there"),
    (reading((1.0, OUTPUT)), "step 0: stream 0 is not there"),
    (reading((1.0, INPUT)), "step 0: stream -1 is not there"),
    (reading(), "step 0: a sum is of nothing"),
    (reading(("1", 1)), "step 0: a sum is a tuple of (weight, stream)"),
    (reading((float("nan"), 1)), "step 0: the weight of stream 1 is not finite"),
    (reading((Wide("w", float("inf")), 1)), "step 0: the weight of stream 1 is not finite"),
    (reading((Learned("a b", 1.0), 1)), "must be an identifier, got 'a b'"),
    (reading((Learned("a", 1.0), 1), (Learned("a", 2.0), 1)), "the learned weight a has two starting values"),
    (reading((Gate(0), 1)), "step 0: there is no gate 0: there are 0"),
    (reading((Gate(1), 1), gates=ONE), "step 0: there is no gate 1: there are 1"),
    (reading(*X, gates=Gates((2,), (Group(1),))), "gates are made from streams that are there, not from (2,)"),
    (reading(*X, gates=Gates((), (Group(1),))), "gates are made from streams that are there, not from ()"),
    (reading(*X, gates=Gates((1,), ())), "there are gates in every group"),
    (reading(*X, gates=Gates((1,), (Group(0),))), "there are gates in every group"),
    (reading(*X, gates=Gates((1,), (Group(1),), hidden=-1)), "a hidden layer's width must not be negative, got -1"),
    (
        reading(*X, gates=Gates((1,), (Group(2, bias=(0.0,)),))),
        "there is a bias, or a base, for each of 2 gates or for none",
    ),
    (reading(*X, gates=Gates((1,), (Group(3, "sinkhorn"),))), "a doubly stochastic matrix is square"),
    (
        reading(*X, gates=Gates((1,), (Group(1, "softmax"),))),
        "form must be one of linear, tanh, sigmoid, relu, sinkhorn",
    ),
    (reading(*X, gates=Gates((1,), (Group(1, gain="2"),))), "a gain or a scale is a number or Learned"),
    (reading(*X, gates=Gates((1,), (Group(1, gain=float("nan")),))), "gains, scales, biases and bases must be finite"),
    (reading(*X, gates=Gates((1,), (Group(1, base=(float("inf"),)),))), "gains, scales, biases and bases must be"),
    (streams(Step((X,), ((1, NEXT), (1, X)))), "step 0: each stream is written once, and streams are counted from 1"),
    (streams(Step((X,), ((0, NEXT),))), "step 0: each stream is written once, and streams are counted from 1"),
    (streams(Step((X, X))), "step 0: one sum is read, or by attention three"),
    (streams(PLAIN, Step((X, X, X))), "step 1: one sum is read, or by attention three"),
    (streams(PLAIN, head=Step((X, X, X))), "step 2: one sum is read, or by attention three"),
    (streams(PLAIN, head=PLAIN), "step 2: after the head's read nothing is written"),
]


def test_weights_that_plans_share_are_written_as_such():
    of_all = plan(Shape(1, 1), depth=reading((Learned("a", 1.0, shared=True), 1)))
    assert from_json(to_json(of_all)) == of_all


@pytest.mark.parametrize(("rule", "says"), WRONG, ids=range(len(WRONG)))
def test_streams_without_meaning_say_why(rule, says):
    with pytest.raises(ValueError, match=re.escape(f"streams: {says}" if says[0].isdigit() else says)):
        plan(Shape(1, 1), depth=rule)


def test_the_same_without_the_fault_makes_sense():
    for rule in (reading(*X), reading((Gate(0), 1), gates=ONE), streams(Step((X, X, X), ((1, NEXT),)))):
        assert problems(Plan(Shape(1, 1), plan(Shape(1, 1)).table, rule)) == []


def test_what_nothing_reads_is_gone():
    """U-net skips: a layer's result is there until its mirror image has read it."""
    needed = resolve("unet-skips", Shape(5, 1)).depth.needed
    assert [set(there) for there in needed] == [
        *({1}, {1}),
        *({1, 2}, {1, 2}),
        *({1, 2, 3}, {1, 2, 3}),
        *({1, 2, 3}, {1, 2}),
        *({1, 2}, {1}),
        {1},
    ]


def test_what_is_read_of_whom():
    two = resolve("residual-lambdas", Shape(2, 1)).depth
    assert two.reach[0] == {0: "learned"}
    assert two.reach[1] == {0: "learned", 1: "fixed"}
    assert two.reach[2] == {0: "learned", 1: "learned", 2: "learned"}
    assert set(resolve("mudd", Shape(3, 1)).depth.reach[-1].values()) == {"gate"}
    assert resolve("denseformer-sparse", Shape(5, 1)).depth.reach[9] == dict.fromkeys(range(10), "fixed")
    assert set(resolve("denseformer-sparse", Shape(5, 1)).depth.reach[10].values()) == {"learned"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("hyper-connections-static:streams=2", "2 streams, learned weights"),
        ("hyper-connections:streams=1", "1 stream, weights of every token's own"),
        ("mhc", "4 streams, weights of every token's own, a doubly stochastic mix"),
        ("unet-skips", "up to 3 streams, learned weights"),
        ("mudd", "up to 6 streams, weights of every token's own, three inputs of an attention"),
    ],
)
def test_words(name, says):
    assert resolve(name, Shape(5, 2)).depth.words() == says


@pytest.mark.parametrize(
    "change",
    [
        lambda depth: depth.pop("steps"),
        lambda depth: depth.pop("copies"),
        lambda depth: depth["steps"][0].pop("reads"),
        lambda depth: depth["steps"][0]["reads"][0].append([True, 1]),
        lambda depth: depth["steps"][0]["gates"].update(width=3),
        lambda depth: depth["steps"][0]["gates"]["groups"][0].update(form="cube"),
    ],
)
def test_content_that_is_no_streams_ends_in_one_line(change):
    content = json.loads(json.dumps(to_json(resolve("hyper-connections", Shape(2, 2)))))
    assert from_json(content).depth == resolve("hyper-connections", Shape(2, 2)).depth
    changed = copy.deepcopy(content)
    change(changed["depth"])
    with pytest.raises(BadInput) as error:
        from_json(changed)
    assert "\n" not in str(error.value)
