"""`dva-heads`: slopes, shares that can be left out, and verdicts that follow what was measured."""

import json

import pytest

from experiments.drawing import style
from experiments.dva.heads.experiment import EXPERIMENT, PROFILES
from experiments.dva.heads.points import ALONE, DYNAMIC, ORDINARY, cell
from experiments.dva.heads.verdicts import doubling, slopes, spared, without_heads
from experiments.training.campaign import TWIN
from theory.plans.accounting import total_parameters

CPU = PROFILES["cpu"].config
SEEDS = 4


def measured(ordinary, dynamic, alone=None, *, left_out=0.1, twin=0.0, spread=1e-4):
    """Losses that fall by so much with a doubling of heads; shares that can be left out rise by `left_out`."""
    alone = dynamic if alone is None else alone
    loss, without = {}, {}
    for k, (name, (family, heads)) in enumerate(CPU.models().items()):
        logs = heads.bit_length() - 1
        fall = {ORDINARY: ordinary, DYNAMIC: dynamic, ALONE: alone}[family] * logs
        base = {ORDINARY: 3.0, DYNAMIC: 3.1, ALONE: 3.4}[family] + (twin if name == TWIN else 0.0)
        loss[name] = [base - fall + 0.05 * i + spread * ((7 * i + 3 * k) % 5 - 2) for i in range(SEEDS)]
        free = round(20 * (0.2 + left_out * logs))
        without[name] = [[3.0 + (0.0 if j <= free + (i + k) % 2 else 1.0) for j in range(21)] for i in range(SEEDS)]
    return {"tuning": {"tuned": False}, "loss": loss, "without": without}


def verdicts(measurement):
    prediction = json.loads(json.dumps(EXPERIMENT.predict(CPU)))
    return {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}


def test_slopes_and_shares_are_what_was_put_in():
    prediction, measurement = EXPERIMENT.predict(CPU), measured(0.05, 0.01)
    found = slopes(prediction, measurement)
    assert found[ORDINARY].mean == pytest.approx(-0.05, abs=1e-3)
    assert found[DYNAMIC].mean == pytest.approx(-0.01, abs=1e-3)
    assert found["more than dynamic"].mean == pytest.approx(-0.04, abs=1e-3)
    assert found["redundant"].mean == pytest.approx(0.1, abs=0.02)
    assert spared({"without": {"x": [[1.0, 1.01, 1.51, 1.0], None]}}, "x", 0.02)[0] == pytest.approx((1 + 1 / 50) / 3)
    assert spared({"without": {"x": [[1.0, 1.01, 1.02]]}}, "x", 0.02) == pytest.approx([1.0])
    assert sum(w * x for w, x in zip(doubling([1, 2, 8]), [0, 1, 3], strict=True)) == pytest.approx(1)


def test_verdicts_follow():
    assert set(verdicts(measured(0.05, 0.0)).values()) == {"agrees"}
    assert verdicts(measured(0.05, -0.05))[ALONE] == "agrees"  # more heads may do harm, they do not help
    turned = verdicts(measured(-0.05, 0.05, left_out=-0.05))
    assert set(turned.values()) == {"contradicts"}
    assert verdicts(measured(0.05, 0.0, twin=0.3))[ORDINARY] == "inconclusive"
    assert verdicts(measured(0.0, 0.0, spread=0.05))[ORDINARY] == "inconclusive"


def test_a_constant_share_that_can_be_left_out_is_no_slope():
    """However few heads there are to leave out."""
    without = [[[3.0 + (0.02 / 0.3) * j / h for j in range(h + 1)]] for h in (1, 2, 4, 8)]
    shares = [spared({"without": {"x": one}}, "x", 0.02)[0] for one in without]
    assert shares == pytest.approx([0.3] * 4)


def test_of_heads_that_are_not_used_nothing_is_told():
    measurement = measured(0.05, 0.0)
    assert without_heads(measurement) == {ORDINARY: 1, DYNAMIC: 1, ALONE: 1}
    measurement["without"][cell(DYNAMIC, 2)] = [[3.0] * 20 + [3.1]] * SEEDS
    assert without_heads(measurement)[DYNAMIC] == pytest.approx(0.1)
    found = verdicts(measurement)
    assert {name for name, verdict in found.items() if verdict == "undecided"} == {DYNAMIC, "more than dynamic"}
    measurement["without"][cell(DYNAMIC, 2)] = [None] * SEEDS
    assert without_heads(measurement)[DYNAMIC] == 1


def test_what_diverged_decides_nothing_and_is_drawn():
    measurement = measured(0.05, 0.0)
    measurement["loss"][cell(ALONE, 2)][0] = None
    measurement["without"][cell(ORDINARY, 2)][1] = None
    found = verdicts(measurement)
    assert found[ALONE] == found["redundant"] == "inconclusive"
    with style.drawing():
        assert len(EXPERIMENT.draw(EXPERIMENT.predict(CPU), measurement).axes) == 3


def test_more_heads_are_no_more_parameters():
    models = CPU.arms(source=None, vocab=512, seed=0)
    for family in (ORDINARY, DYNAMIC, ALONE):
        counts = {
            total_parameters(models[cell(family, h)].architecture, models[cell(family, h)].plan) for h in CPU.heads
        }
        assert len(counts) == 1
