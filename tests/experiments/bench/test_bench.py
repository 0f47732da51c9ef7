"""Benchmarks refuse to report a ratio between sides that do not agree."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from experiments.bench import decode, decoders, depth
from experiments.bench import stack as bench_stack
from experiments.bench import toy as bench
from experiments.cli import main
from experiments.experiment import turns
from experiments.training import decode_times
from icl.models import cache, depth_attention
from icl.models.cache import Cache
from icl.stacks.decoder import StackedDecoder


@pytest.fixture
def small(monkeypatch):
    for name, count in {"TOYS_IN_STACK": 20, "STREAMS": 2, "LOOP_STEPS": 5, "STEPS": 5}.items():
        monkeypatch.setattr(bench_stack, name, count)


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


@pytest.mark.long
def test_depth_s_sides_agree_and_keep_what_accounting_says():
    sides = depth.depth(SMALL, "cpu", ["attnres", "attnres-block:size=2", "denseformer"], 2)["sides"]
    written = [f"{name}{more}" for name in ("attnres", "attnres-block:size=2") for more in ("", ", as written")]
    assert list(sides) == ["vanilla", *written, "denseformer"]
    for label, side in sides.items():
        assert side["same_answer"]
        assert depth.WRITTEN in label or side["kept"] == pytest.approx(side["formula"], rel=0.1)


@pytest.mark.long
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


# `crosslayer bench decode`: sides that agree with a whole pass, bytes by the formula, and one that does not agree.

DECODED = replace(decode.SMALL, d_model=32, d_ff=40, n_heads=4, n_layers=2, context=40)


@pytest.mark.long
def test_decoding_s_sides_agree_and_keep_what_accounting_says():
    pytest.importorskip("transformers")
    variants = ["vanilla", "skipv1", "gqa:group=2", "mla"]
    sides = decode.decode(DECODED, "cpu", variants, ((1, 5), (3, 8)))["sides"]
    assert list(sides) == [*variants, "transformers"]
    for name, side in sides.items():
        assert side["same_answer"]
        assert set(side["sizes"]) == {"1 x 5", "3 x 8"}
        found = side["sizes"]["3 x 8"]
        assert found["seconds"] > 0
        if name in variants:
            model = decode_times.model_of(DECODED, name, 40, "cpu", next(iter(decode_times.AGREES)))
            assert found["bytes"] == Cache(model, 3, 8).bytes
    assert sides["transformers"]["sizes"]["3 x 8"]["bytes"] == sides["vanilla"]["sizes"]["3 x 8"]["bytes"]
    assert sides["vanilla"]["sizes"]["1 x 5"]["ratio"] == 1


def test_theirs_reads_prompts_too():
    pytest.importorskip("transformers")
    sides = decode_times.decode_times(DECODED, "cpu", ["vanilla"], (), prompts=((2, 6),), turns=1)["sides"]
    assert [len(side["prompts"]["2 x 6"]) for side in sides.values()] == [1, 1]


def test_a_window_is_timed_over_what_it_shows_and_turns_are_alike(monkeypatch):
    """Steps see as many columns in the last turn as in the first: ours what a window shows, theirs their room."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(turns, "TURNS", 3)
    seen, theirs = {}, set()
    honest, update = cache._alike, transformers.cache_utils.StaticLayer.update

    def watched(of, new, device):
        past = honest(of, new, device)
        seen.setdefault(of.windows[0], []).append(len(past.held(1)))
        return past

    def their_update(layer, keys, *others, **more):
        theirs.add((layer.max_cache_len, int(layer.cumulative_length) + keys.shape[-2]))
        return update(layer, keys, *others, **more)

    monkeypatch.setattr(cache, "_alike", watched)
    monkeypatch.setattr(transformers.cache_utils.StaticLayer, "update", their_update)
    sides = decode.decode(DECODED, "cpu", ["vanilla", "window:size=4"], ((2, 30),))["sides"]
    steps = decode_times.STEPS
    assert seen[4][-4 * steps :] == [4] * (4 * steps)
    assert seen[0][-4 * steps :] == list(range(31, 31 + steps)) * 4
    assert {room for room, _ in theirs} == {30 + steps}
    assert max(filled for _, filled in theirs) == steps
    kept = {name: side["sizes"]["2 x 30"]["bytes"] for name, side in sides.items()}
    assert kept["window:size=4"] * 30 == kept["vanilla"] * 8


@pytest.fixture
def bench_decode(monkeypatch):
    """The words of `crosslayer bench decode` of one small size, without transformers."""
    monkeypatch.setattr(decode_times, "find_spec", lambda _: None)
    monkeypatch.setattr(decode, "SMALL", DECODED)
    monkeypatch.setattr(decode, "SIZES", {"cpu": ((1, 5),)})
    return ["bench", "decode", "--variants", "skipv1", "--device", "cpu", "--threads", "1"]


def test_a_step_that_answers_otherwise_is_noticed(bench_decode, monkeypatch, capsys):
    """As if the newest token were not kept."""
    honest = cache._Past._keep
    monkeypatch.setattr(cache._Past, "_keep", lambda self, name, new: honest(self, name, 0.5 * new))
    assert main(bench_decode) == 1
    assert capsys.readouterr().out.count("NOT COMPARABLE") == 2


def test_the_command(bench_decode, capsys, tmp_path):
    assert main([*bench_decode, "--json", "--out", str(tmp_path / "out.json")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {k: v for k, v in json.loads((tmp_path / "out.json").read_text()).items() if k != "sha256"} == shown
    assert shown["benchmark"] == "decode"
    assert set(shown["sides"]) == {"vanilla", "skipv1"}
