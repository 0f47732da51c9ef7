"""Benchmarks refuse to report a ratio between sides that do not agree."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from experiments.bench import decoders, depth
from experiments.bench import stack as bench_stack
from experiments.bench import toy as bench
from experiments.experiment import turns
from icl.models import depth_attention
from icl.stacks.decoder import StackedDecoder


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench_stack, "TOYS_IN_STACK", 20)
    monkeypatch.setattr(bench_stack, "STREAMS", 2)
    monkeypatch.setattr(bench_stack, "LOOP_STEPS", 5)
    monkeypatch.setattr(bench_stack, "STEPS", 5)


@pytest.fixture(autouse=True)
def few_turns(monkeypatch):
    """One that is timed, and the one that warms up."""
    monkeypatch.setattr(turns, "TURNS", 1)


@pytest.mark.usefixtures("small")
@pytest.mark.long
def test_loop_stack_and_vmap_agree():
    result = bench_stack.stack()
    assert result["same_answer"]
    assert set(result["ratios"]) == {"stack", "torch.func vmap"}


@pytest.mark.usefixtures("small")
@pytest.mark.long
def test_a_side_that_differs_is_noticed(monkeypatch, capsys):
    honest = bench_stack.Stacked.gradients

    def wrong(self, batch):
        return {name: -g if name == "w" else g for name, g in honest(self, batch).items()}

    monkeypatch.setattr(bench_stack.Stacked, "gradients", wrong)
    result = bench_stack.stack()
    assert not result["same_answer"]
    bench.print_results({"threads": 1, "device": "", "versions": {}, "commit": "", "benchmarks": [result]})
    assert "NOT COMPARABLE" in capsys.readouterr().out


@pytest.mark.long
def test_both_sides_of_the_race_reach_the_optimum():
    result = bench.optimum()
    assert result["difference"] == {"exact minimisation": [], "sampled training (baseline)": []}
    assert result["same_answer"]


@pytest.fixture
def few(monkeypatch):
    """Decoders; and nothing is compiled."""
    for name, count in {"DECODERS": 6, "SEEDS": 4, "LOOP_DECODERS": 3, "COMPARED": 2, "STEPS": 1}.items():
        monkeypatch.setattr(decoders, name, count)
    monkeypatch.setattr(StackedDecoder, "compiled", lambda self, read: partial(self.losses, read=read))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("width", "layers"), [(2, 2), (6, 3)])
def test_decoders_one_by_one_and_stacked_agree(width, layers):
    (result,) = decoders.run_decoders(1, [(width, layers)])["benchmarks"]
    assert result["same_answer"]
    assert set(result["ratios"]) == {"stack", "stack, compiled", "torch.func vmap"}


@pytest.mark.usefixtures("few")
def test_a_stack_that_differs_is_noticed(monkeypatch):
    honest = decoders.Stacked.weights
    monkeypatch.setattr(decoders.Stacked, "weights", lambda self, i: {n: -w for n, w in honest(self, i).items()})
    assert not decoders.decoders(2, 2)["same_answer"]


SMALL = replace(depth.SMALL, d_model=96, d_ff=80, n_heads=2, n_layers=3, context=16)


def test_depth_s_sides_agree_and_keep_what_accounting_says():
    sides = depth.depth(SMALL, "cpu", ["attnres", "attnres-block:size=2", "denseformer"], 2)["sides"]
    assert list(sides) == [
        "vanilla",
        "attnres",
        "attnres, as written",
        "attnres-block:size=2",
        "attnres-block:size=2, as written",
        "denseformer",
    ]
    for label, side in sides.items():
        assert side["same_answer"]
        assert depth.WRITTEN in label or side["kept"] == pytest.approx(side["formula"], rel=0.1)


def test_another_read_is_noticed(monkeypatch, capsys):
    honest = depth_attention.TwoPhases.read
    monkeypatch.setattr(depth_attention.TwoPhases, "read", lambda self, i, state: honest(self, i, state) * (1 + i % 2))
    result = depth.depth(SMALL, "cpu", ["attnres"], 2)
    assert [side["same_answer"] for side in result["sides"].values()] == [True, False, True]
    print(depth._text({**result, "device": "", "commit": ""}))
    assert capsys.readouterr().out.count("NOT COMPARABLE") == 1


def test_threads_are_put_back(monkeypatch):
    monkeypatch.setattr(bench, "optimum", lambda: {"same_answer": True})
    monkeypatch.setattr(bench_stack, "stack", lambda: {"same_answer": True})
    before = torch.get_num_threads()
    assert bench.run_benchmarks(1)["threads"] == 1
    assert torch.get_num_threads() == before


def test_sides_take_turns_and_the_first_turn_is_not_kept():
    order, clock = [], iter(range(100))

    def side(name):
        return lambda: order.append(name) or float(next(clock))

    seconds = turns.in_turns({"a": side("a"), "b": side("b")}, 3)
    assert order == ["a", "b"] * 4
    assert seconds == {"a": [2.0, 4.0, 6.0], "b": [3.0, 5.0, 7.0]}


def test_a_ratio_is_of_the_same_turn_and_has_a_range():
    """A machine that gets ten times slower slows both sides."""
    found = turns.ratio([4.0, 50.0, 6.0], [1.0, 10.0, 1.0])
    assert found == {"ratio": 5.0, "low": 4.0, "high": 6.0}
    assert turns.words(found, 1) == "5.0 (4.0 to 6.0)"


def test_a_ratio_of_a_wide_range_is_not_stated(capsys):
    found = turns.ratio([88.0, 104.0, 4114.0], [1.0, 1.0, 1.0])
    assert found == {"ratio": None, "low": 88.0, "high": 4114.0}
    result = {"name": "race", "what": "one", "seconds": {"b": 1.0}, "ratios": {"b": found}, "same_answer": True}
    bench.print_results({"threads": 1, "device": "", "versions": {}, "commit": "", "benchmarks": [result]})
    said = capsys.readouterr().out
    assert "undecided: ranges from 88.0 to 4114.0, by more than a factor of 2" in said
    assert "104" not in said
