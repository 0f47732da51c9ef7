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
    (reading(*X, gates=Gates((1,), (Group(1, "cube"),))), "form must be one of linear, tanh, sigmoid, relu, sinkhorn"),
    (reading(*X, gates=Gates((1,), (Group(1, "softmax"),))), "a softmax is over streams that pass the map one by one"),
    (Streams((Step(5), PLAIN, HEAD)), "step 0: reads are a tuple of sums, got 5"),
    (streams(Step((X,), 5)), "step 0: a write is (stream, sum), got 5"),
    (streams(Step((X,), ((True, NEXT),))), "step 0: a stream is a whole number, got True"),
    (reading((1.0, True)), "step 0: a stream is a whole number, got True"),
    (reading((1.0, 1.0)), "step 0: a stream is a whole number, got 1.0"),
    (reading((True, 1)), "weights fixed, Learned, Wide or Gate, got True"),
    (reading((Learned(5, 1.0), 1)), "a learned weight's name must be an identifier, got 5"),
    (reading((Learned("a", "1"), 1)), "the start of the learned weight a must be a number, got '1'"),
    (reading((Learned("a", True), 1)), "the start of the learned weight a must be a number, got True"),
    (reading((Wide(5, 1.0), 1)), "Wide has a name and a number to start at, got"),
    (reading((Wide("w", None), 1)), "Wide has a name and a number to start at, got"),
    (reading((Gate("0"), 1), gates=ONE), "Gate has a whole number for its place, got '0'"),
    (reading((Gate(False), 1), gates=ONE), "Gate has a whole number for its place, got False"),
    (reading(*X, gates="all"), "gates are Gates(...), not 'all'"),
    (reading(*X, gates=Gates(1, (Group(1),))), "gates are made from a tuple of streams, got 1"),
    (reading(*X, gates=Gates((True,), (Group(1),))), "gates are made from a tuple of streams, got (True,)"),
    (reading(*X, gates=Gates((1,), Group(1))), "groups are a tuple of Group(...), got Group("),
    (reading(*X, gates=Gates((1,), (Group(1, bias=0.0),))), "biases and bases are first values, in a tuple, got 0.0"),
    (reading(*X, gates=Gates((1,), (Group(1, base=(True,)),))), "biases and bases are first values, in a tuple"),
    (reading(*X, gates=Gates((1,), (Group(1, gain=True),))), "a gain or a scale is a number or Learned"),
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
    with pytest.raises(BadInput, match=re.escape(f"streams: {says}" if says[0].isdigit() else says)) as error:
        plan(Shape(1, 1), depth=rule)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["hyper-connections", "hyper-connections-static", "mhc"])
def test_there_are_not_too_many_streams(name):
    with pytest.raises(BadInput, match="streams must be at most 64, got 100000"):
        resolve(f"{name}:streams=100000", Shape(2, 2))
    assert resolve(f"{name}:streams=2", Shape(1, 1)).depth.copies == 2


def test_shares_over_depth():
    depth = resolve("delta-attnres", Shape(2, 2)).depth
    assert [len(step.reads[0]) for step in depth.steps] == [1, 3, 4, 5, 1]
    assert depth.parameters(7, 2, 2) == 3 * 7
    assert depth.words() == "up to 5 streams, weights of every token's own"


@pytest.mark.parametrize(
    ("options", "sources"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        (":last=2", [1, 2, 3, 4, 4, 4]),
        (":last=1", [1, 2, 3, 3, 3, 3]),
        (":last=2,between=0", [1, 2, 3, 3, 3, 3]),
        (":last=1,first=0", [1, 2, 2, 2, 2, 2]),
    ],
)
def test_the_outputs_that_deepcrossattention_reads(options, sources):
    depth = resolve(f"deepcrossattention{options}", Shape(5, 1)).depth
    assert [len(step.gates.streams) for step in depth.steps if step.gates] == sources


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
        lambda depth: depth.update(streams=2),
        lambda depth: depth["steps"][0].update(write=[]),
        lambda depth: depth["steps"][0]["reads"][0][0][0].update(start=1.0),
        lambda depth: depth["steps"][0]["gates"]["groups"][0]["scale"].update(wide=True),
        lambda depth: depth["steps"][0]["reads"][0].append([1.0, True]),
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
