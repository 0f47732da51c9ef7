"""The rate table, on losses of which the best rates are known."""

import math

import pytest

from experiments.across.questions.rates import ARMS, EXPERIMENT, NEXT, SWEEP, TRIED_WIDER, by_width
from experiments.campaign.question import VANILLAS
from experiments.campaign.rates import at_width

SHIFTS = (0.1, -0.1, 0.05, -0.05)


def measured(best):
    """Parabolas: by arm the best rate at the smallest width; at the next it is by the rule."""
    groups = {}
    for group in EXPERIMENT.profiles["cpu"].config.groups:
        rule = at_width(1.0, SWEEP.width, group.width)

        def loss(name, shift, group=group, rule=rule):
            return 3 + 0.1 * (math.log2(group.rate) - math.log2(rule * best.get(name, 8e-3)) - shift) ** 2

        names = (*VANILLAS, *group.arms)
        groups[group.name] = {
            "seeds": len(SHIFTS),
            "width": group.width,
            "rates": dict.fromkeys(names, group.rate),
            "lengths": {"10.0": 10.0},
            "loss": {name: {"10.0": [loss(name, shift) for shift in SHIFTS]} for name in names},
        }
    return {"groups": groups}


def checks(best):
    prediction = EXPERIMENT.predict(EXPERIMENT.profiles["cpu"].config)
    return {check.id: check for check in EXPERIMENT.compare(prediction, measured(best))}


def test_best_rates_and_how_far_they_are_apart():
    found = checks({"svformer": 11e-3, "vanilla": 8e-3})
    assert found["32/svformer"].measured == pytest.approx(math.log2(11 / 8))
    assert found["32/twin"].measured == pytest.approx(0, abs=1e-9)
    assert {one.verdict for one in found.values()} == {"unpredicted"}
    assert {name for name in found if name.startswith("32/")} == {f"32/{name}" for name in (*VANILLAS, *ARMS)} - {
        "32/vanilla"
    }
    for name in TRIED_WIDER:
        assert found[f"wider/{name}"].measured == pytest.approx(math.log2(at_width(1.0, SWEEP.width, NEXT)), abs=1e-6)


def test_an_end_of_what_was_tried_is_named():
    found = checks({"denseformer": 1.0})
    assert "denseformer at 0.016, an end of what was tried" in found["32/denseformer"].statement


def test_groups_that_are_missing_are_left_out():
    whole = measured({})
    name = next(name for name in whole["groups"] if name.startswith(f"width {NEXT}"))
    some = {"groups": {other: group for other, group in whole["groups"].items() if other != name}}
    assert len(by_width(some)[NEXT]["svformer"]) == 2
    one = {"groups": {name: whole["groups"][name]}}
    assert by_width(one) == {}


def test_its_figure_has_a_row_for_every_arm():
    figure = EXPERIMENT.draw({}, measured({}))
    assert len(figure.axes[0].get_yticks()) == len(ARMS) + len(VANILLAS)
    assert all(axis.get_xlabel() for axis in figure.axes)
