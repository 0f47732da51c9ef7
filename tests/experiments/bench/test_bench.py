"""Benchmarks refuse to report a ratio between sides that do not agree."""

import pytest
import torch

from experiments.bench import stack as bench_stack
from experiments.bench import toy as bench


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench_stack, "TOYS_IN_STACK", 20)
    monkeypatch.setattr(bench_stack, "STREAMS", 2)
    monkeypatch.setattr(bench_stack, "LOOP_STEPS", 5)
    monkeypatch.setattr(bench_stack, "STEPS", 5)


@pytest.mark.usefixtures("small")
def test_loop_stack_and_vmap_agree():
    result = bench_stack.stack()
    assert result["same_answer"]
    assert set(result["ratios"]) == {"stack", "torch.func vmap"}


@pytest.mark.usefixtures("small")
def test_a_side_that_differs_is_noticed(monkeypatch, capsys):
    honest = bench_stack.Stacked.gradients

    def wrong(self, batch):
        return {name: -g if name == "w" else g for name, g in honest(self, batch).items()}

    monkeypatch.setattr(bench_stack.Stacked, "gradients", wrong)
    result = bench_stack.stack()
    assert not result["same_answer"]
    bench.print_results({"threads": 1, "device": "", "versions": {}, "commit": "", "benchmarks": [result]})
    assert "NOT COMPARABLE" in capsys.readouterr().out


def test_both_sides_of_the_race_reach_the_optimum():
    result = bench.optimum()
    assert result["difference"] == {"exact": [], "sampled": []}
    assert result["same_answer"]


def test_threads_are_put_back(monkeypatch):
    monkeypatch.setattr(bench, "optimum", lambda: {"same_answer": True})
    monkeypatch.setattr(bench_stack, "stack", lambda: {"same_answer": True})
    before = torch.get_num_threads()
    assert bench.run_benchmarks(1)["threads"] == 1
    assert torch.get_num_threads() == before
