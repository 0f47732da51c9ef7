"""`crosslayer bench decode`: sides that agree with a whole pass, bytes by the formula, and one that does not agree."""

import json
from dataclasses import replace

import pytest

from experiments.bench import decode
from experiments.cli import main
from experiments.experiment import turns
from experiments.training import decode_times
from icl.models import cache
from icl.models.cache import Cache

SMALL = replace(decode.SMALL, d_model=32, d_ff=40, n_heads=4, n_layers=2, context=40)


@pytest.fixture(autouse=True)
def few_turns(monkeypatch):
    monkeypatch.setattr(turns, "TURNS", 1)


@pytest.mark.long
def test_sides_agree_and_keep_what_accounting_says():
    pytest.importorskip("transformers")
    variants = ["vanilla", "skipv1", "gqa:group=2", "mla"]
    sides = decode.decode(SMALL, "cpu", variants, ((1, 5), (3, 8)))["sides"]
    assert list(sides) == [*variants, "transformers"]
    for name, side in sides.items():
        assert side["same_answer"]
        assert set(side["sizes"]) == {"1 x 5", "3 x 8"}
        found = side["sizes"]["3 x 8"]
        assert found["seconds"] > 0
        if name in variants:
            model = decode_times.model_of(SMALL, name, 40, "cpu", next(iter(decode_times.AGREES)))
            assert found["bytes"] == Cache(model, 3, 8).bytes
    assert sides["transformers"]["sizes"]["3 x 8"]["bytes"] == sides["vanilla"]["sizes"]["3 x 8"]["bytes"]
    assert sides["vanilla"]["sizes"]["1 x 5"]["ratio"] == 1


def test_theirs_reads_prompts_too():
    pytest.importorskip("transformers")
    sides = decode_times.decode_times(SMALL, "cpu", ["vanilla"], (), prompts=((2, 6),), turns=1)["sides"]
    assert [len(side["prompts"]["2 x 6"]) for side in sides.values()] == [1, 1]


def test_a_window_is_timed_over_what_it_shows_and_turns_are_alike(monkeypatch):
    """Steps see as many columns in the last turn as in the first: ours what a window shows, theirs their room."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(turns, "TURNS", 3)
    seen, theirs = {}, set()
    honest, update = cache._alike, transformers.cache_utils.StaticLayer.update

    def watched(of, new, device):
        past = honest(of, new, device)
        seen.setdefault(of.window, []).append(past.columns.stop - past.columns.start)
        return past

    def their_update(layer, keys, *others, **more):
        theirs.add((layer.max_cache_len, int(layer.cumulative_length) + keys.shape[-2]))
        return update(layer, keys, *others, **more)

    monkeypatch.setattr(cache, "_alike", watched)
    monkeypatch.setattr(transformers.cache_utils.StaticLayer, "update", their_update)
    sides = decode.decode(SMALL, "cpu", ["vanilla", "window:size=4"], ((2, 30),))["sides"]
    steps = decode_times.STEPS
    assert seen[4][-4 * steps :] == [4] * (4 * steps)
    assert seen[0][-4 * steps :] == list(range(31, 31 + steps)) * 4
    assert {room for room, _ in theirs} == {30 + steps}
    assert max(filled for _, filled in theirs) == steps
    kept = {name: side["sizes"]["2 x 30"]["bytes"] for name, side in sides.items()}
    assert kept["window:size=4"] * 30 == kept["vanilla"] * 8


def test_a_step_that_answers_otherwise_is_noticed(monkeypatch, capsys):
    """As if the newest token were not kept."""
    honest = cache._Past._keep
    monkeypatch.setattr(cache._Past, "_keep", lambda self, name, new: honest(self, name, 0.5 * new))
    monkeypatch.setattr(decode_times, "find_spec", lambda _: None)
    monkeypatch.setattr(decode, "SMALL", SMALL)
    monkeypatch.setattr(decode, "SIZES", {"cpu": ((1, 5),)})
    assert main(["bench", "decode", "--variants", "skipv1", "--device", "cpu", "--threads", "1"]) == 1
    assert capsys.readouterr().out.count("NOT COMPARABLE") == 2


def test_the_command(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(decode_times, "find_spec", lambda _: None)
    monkeypatch.setattr(decode, "SMALL", SMALL)
    monkeypatch.setattr(decode, "SIZES", {"cpu": ((1, 5),)})
    command = ["bench", "decode", "--variants", "skipv1", "--device", "cpu", "--threads", "1", "--json"]
    assert main([*command, "--out", str(tmp_path / "out.json")]) == 0
    shown = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / "out.json").read_text())
    assert {k: v for k, v in written.items() if k != "sha256"} == shown
    assert shown["benchmark"] == "decode"
    assert set(shown["sides"]) == {"vanilla", "skipv1"}
