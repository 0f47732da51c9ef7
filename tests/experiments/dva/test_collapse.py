"""`dva-collapse`: memory as tensors come and go, a run from end to end, and verdicts that fall."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from experiments.cli import main
from experiments.dva.collapse import (
    EXPERIMENT,
    HEADS,
    LAYERS,
    ONE_HEAD,
    SIDES,
    SMOKE,
    attend,
    both_passes,
    causal,
    inputs,
)
from experiments.store.folders import RunFolder
from experiments.verdicts.checks import worst
from icl.probes.costs import peak_bytes
from theory.dva.cost import peak_numbers

FUSED = (HEADS, ONE_HEAD, "kernel twice")  # whose values are as wide as queries


@pytest.mark.parametrize(("tokens", "width"), [(5, 4), (9, 8), (33, 5), (64, 32), (70, 7)])
@pytest.mark.parametrize("name", [name for name, side in SIDES.items() if not side.blocks])
def test_memory_is_what_tensors_take(name, tokens, width):
    side, visible = SIDES[name], causal(tokens, "cpu")
    run = partial(attend, side, tokens, visible)
    peak = peak_bytes(partial(both_passes, run, inputs(1, tokens, width, "cpu", torch.float32))) / 4
    assert peak == pytest.approx(peak_numbers(side.form, side.way, tokens, width), rel=0.02, abs=8)


@pytest.mark.parametrize("name", ["revised, blocks", "initial, blocks"])
def test_in_blocks_it_grows_with_tokens(name):
    side = SIDES[name]

    def peak(tokens):
        run = partial(attend, side, 16, causal(tokens, "cpu"))
        return peak_bytes(partial(both_passes, run, inputs(1, tokens, 4, "cpu", torch.float32))) / 4

    for tokens in (40, 320):
        assert peak(tokens) < peak_numbers(side.form, "collapsed", tokens, 4, 16)
    assert peak(320) < 10 * peak(40)  # pairs are 64 times as many
    assert peak_numbers(side.form, "collapsed", 8, 4, 16) == peak_numbers(side.form, "collapsed", 8, 4)


@pytest.mark.long
def test_smoke_from_end_to_end(tmp_path, capsys):
    assert main(["run", "dva-collapse", "--profile", "smoke", "--jobs", "1", "--out", str(tmp_path)]) == 0
    (summary,) = tmp_path.glob("dva-collapse/*/summary.json")
    checks = json.loads(summary.read_bytes())["checks"]
    assert {check["verdict"] for check in checks} == {"pass"}
    compared = {check["id"] for check in checks if check["id"].startswith("equal/")}
    assert {name.split("/")[1] for name in compared} == {name for name, side in SIDES.items() if side.way != "pairs"}
    assert (summary.parent / "figure.png").is_file()
    assert "every pair" in capsys.readouterr().out


def test_another_memory_or_another_form_is_noticed():
    prediction = EXPERIMENT.predict(SMOKE)
    measurement = {
        "peak": prediction["peak"],
        "apart": {name: dict.fromkeys(by_tokens, 0.0) for name, by_tokens in prediction["peak"].items()},
        "wrong": 0.5,
        "seconds": {},
    }
    assert worst(EXPERIMENT.compare(prediction, measurement)) == "pass"
    for name, side in SIDES.items():
        peaks = measurement["peak"][name]
        apart = measurement["apart"] | {name: dict.fromkeys(peaks, 1e-6)}
        assert worst(EXPERIMENT.compare(prediction, measurement | {"apart": apart})) == "fail"
        for factor, verdict in ((1.05, "fail"), (0.5, "inconclusive" if side.blocks else "fail")):
            other = measurement["peak"] | {name: {t: factor * x for t, x in peaks.items()}}
            assert worst(EXPERIMENT.compare(prediction, measurement | {"peak": other})) == verdict
    assert worst(EXPERIMENT.compare(prediction, measurement | {"wrong": 0.0})) == "inconclusive"


def test_times_go_with_products_or_are_seen_not_to():
    prediction = EXPERIMENT.predict(SMOKE)
    products = prediction["products"]

    def verdicts(spread=1e-3, turns=7, **slower):
        """Seconds that go with products, but of some sides; by turn a little more, or less."""
        noise = [1 + spread * ((3 * i) % 5 - 2) for i in range(turns)]
        times = {
            name: {
                t: [1e-9 * x * slower.get(name.split(", ")[1], 1.0) * n ** int(t) for n in noise] for t, x in by.items()
            }
            for name, by in products.items()
        }
        nothing = {"peak": {}, "apart": {}, "wrong": 0.5, "seconds": times}
        return {check.id: check.verdict for check in EXPERIMENT.compare(prediction, nothing)}

    assert set(verdicts().values()) == {"agrees"}
    assert len(verdicts()) == 6  # four sides at two sizes, and what every pair's value costs, of both forms
    slow = verdicts(pairs=3.0)
    assert {slow[f"time/saved/{form}, pairs"] for form in ("revised", "initial")} == {"contradicts"}
    assert {verdict for name, verdict in slow.items() if "/grows/" in name} == {"agrees"}
    noisy = verdicts(spread=0.05)  # of sides at one number of tokens the same noise, which falls out of their ratio
    assert {verdict for name, verdict in noisy.items() if "/grows/" in name} == {"inconclusive"}
    assert not verdicts(turns=1)


def test_no_side_is_held_against_itself(tmp_path):
    """Where every pair's value is too much to make, the blocks are held against all queries at once, and these alone
    against nothing."""
    config = replace(SMOKE, most=64**2, turns=1)
    measurement = EXPERIMENT.measure(config, 0, RunFolder(tmp_path))
    apart = measurement["apart"]
    assert measurement["kernels"] == {
        name: ["flash"] if name in FUSED else ["softmax"] for name in measurement["kernels"]
    }
    assert set(measurement["kernels"]) == set(LAYERS) - {"blocks"}
    assert {name: set(by_tokens) for name, by_tokens in apart.items()} == {
        "initial, collapsed": {"16"},
        "revised, collapsed": {"16"},
        "initial, blocks": {"64"},
        "revised, blocks": {"64"},
    }
    assert 0 < max(x for by_tokens in apart.values() for x in by_tokens.values()) < 1e-12
