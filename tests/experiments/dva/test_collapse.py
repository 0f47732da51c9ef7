"""`dva-collapse`: memory as tensors come and go, a run from end to end, and verdicts that fall."""

import json
from functools import partial

import pytest
import torch

from experiments.cli import main
from experiments.dva.collapse.experiment import EXPERIMENT, PROFILES
from experiments.dva.collapse.points import SIDES
from experiments.dva.collapse.ways import both_passes, inputs, one_side
from experiments.verdicts.checks import worst
from icl.probes.peak import peak_bytes
from theory.dva.cost import peak_numbers


@pytest.mark.parametrize(("tokens", "width"), [(5, 4), (9, 8), (33, 5), (64, 32), (70, 7)])
@pytest.mark.parametrize("name", [name for name, side in SIDES.items() if not side.blocks])
def test_memory_is_what_tensors_take(name, tokens, width):
    side, visible = SIDES[name], torch.ones(tokens, tokens).tril() > 0
    run = partial(one_side, side, tokens, visible)
    found = peak_bytes(partial(both_passes, run, inputs(1, tokens, width, "cpu", torch.float32))) / 4
    assert found == pytest.approx(peak_numbers(side.form, side.way, tokens, width), rel=0.02, abs=8)


@pytest.mark.parametrize("name", ["revised, blocks", "initial, blocks"])
def test_in_blocks_it_grows_with_tokens(name):
    side = SIDES[name]

    def found(tokens):
        run = partial(one_side, side, 16, torch.ones(tokens, tokens).tril() > 0)
        return peak_bytes(partial(both_passes, run, inputs(1, tokens, 4, "cpu", torch.float32))) / 4

    for tokens in (40, 320):
        assert found(tokens) < peak_numbers(side.form, "collapsed", tokens, 4, 16)
    assert found(320) < 10 * found(40)  # pairs are 64 times as many
    assert peak_numbers(side.form, "collapsed", 8, 4, 16) == peak_numbers(side.form, "collapsed", 8, 4)


def test_smoke_from_end_to_end(tmp_path, capsys):
    assert main(["run", "dva-collapse", "--profile", "smoke", "--out", str(tmp_path)]) == 0
    (summary,) = tmp_path.glob("dva-collapse/*/summary.json")
    assert {check["verdict"] for check in json.loads(summary.read_bytes())["checks"]} == {"pass"}
    assert (summary.parent / "figure.png").is_file()
    assert "every pair" in capsys.readouterr().out


def test_another_memory_or_another_form_is_noticed():
    prediction = EXPERIMENT.predict(PROFILES["smoke"].config)
    measurement = {
        "peak": prediction["peak"],
        "apart": {name: dict.fromkeys(of, 0.0) for name, of in prediction["peak"].items()},
        "wrong": 0.5,
    }
    assert worst(EXPERIMENT.compare(prediction, measurement)) == "pass"
    for name, side in SIDES.items():
        said = measurement["peak"][name]
        apart = measurement["apart"] | {name: dict.fromkeys(said, 1e-6)}
        assert worst(EXPERIMENT.compare(prediction, measurement | {"apart": apart})) == "fail"
        for factor, verdict in ((1.05, "fail"), (0.5, "inconclusive" if side.blocks else "fail")):
            other = measurement["peak"] | {name: {t: factor * x for t, x in said.items()}}
            assert worst(EXPERIMENT.compare(prediction, measurement | {"peak": other})) == verdict
    assert worst(EXPERIMENT.compare(prediction, measurement | {"wrong": 0.0})) == "inconclusive"
