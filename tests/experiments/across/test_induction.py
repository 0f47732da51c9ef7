"""The campaign's first question, on measurements of which the answer is known."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from experiments.across.questions.induction import ARMS, EXPERIMENT, peaks_apart
from experiments.campaign.question import CONTROL, TWIN
from experiments.verdicts.checks import worst

SEEDS, LINES, END = 12, 80, 10.0
LENGTHS = {str(at): at for at in (0.625, 1.25, 2.5, 5.0, 10.0)}
NAMES = ("vanilla", TWIN, CONTROL, *ARMS)
PREDICTION = EXPERIMENT.predict(EXPERIMENT.profiles["cpu"].config)


def group(gains, *, peak=3.5, rises=5.0, noise=0.02):
    """A group whose arms gain most at a peak, in tokens per parameter; vanilla's induction rises up to `rises`."""
    draw = np.random.default_rng(0)
    at = np.linspace(END / LINES, END, LINES)
    shape = np.exp(-(np.log2(at / peak) ** 2))
    of_seed = draw.normal(size=(SEEDS, 1))

    def curves(name):
        own = draw.normal(scale=noise, size=(SEEDS, 1)) + draw.normal(scale=noise, size=(SEEDS, LINES))
        return (5 - 0.3 * np.log(at) + of_seed - gains.get(name, 0.0) * shape + own).tolist()

    scores = {length: 0.5 * (x >= rises) for length, x in LENGTHS.items()}
    return {
        "seeds": SEEDS,
        "lengths": LENGTHS,
        "constant": 0.8 * END,
        "curve": {"tokens_per_parameter": at.tolist(), **{name: curves(name) for name in NAMES}},
        "loss": {name: {length: [3.0] * SEEDS for length in LENGTHS} for name in NAMES},
        "probed": {name: {x: [{"induction": s, "previous": s}] * SEEDS for x, s in scores.items()} for name in NAMES},
    }


def verdicts(**groups):
    checks = EXPERIMENT.compare(PREDICTION, {"groups": groups})
    return {check.id: check.verdict for check in checks}


def test_gains_as_in_recall_agree():
    gains = {"svformer": 0.2, "skipv1": 0.12, "shared-keys": -0.05}
    found = verdicts(one=group(gains), two=group(gains))
    assert len(found) == 2 * (2 * 4 + 2)
    assert set(found.values()) == {"agrees"}


def test_the_other_order_contradicts():
    found = verdicts(one=group({"svformer": 0.1, "skipv1": 0.3, "shared-keys": 0.0}))
    assert found["one/2.5 to 5/svformer/skipv1"] == "contradicts"
    assert found["one/2.5 to 5/svformer/vanilla"] == "agrees"


def test_no_gain_decides_nothing():
    found = verdicts(one=group({}))
    assert not {"agrees"} & {verdict for name, verdict in found.items() if "peak" not in name}


def test_an_interval_does_not_widen_as_more_groups_are_trained():
    gains = {"svformer": 0.2, "skipv1": 0.12, "shared-keys": -0.05}
    groups = {f"width {i}": group(gains) for i in range(4)}
    whole = EXPERIMENT.compare(PREDICTION, {"groups": groups, "left_out": []})
    first = EXPERIMENT.compare(PREDICTION, {"groups": {"width 0": groups["width 0"]}, "left_out": list(groups)[1:]})
    widths = {check.id: check.half_width for check in whole}
    assert first
    assert all(check.half_width == widths[check.id] for check in first)


def test_a_third_vanilla_that_gains_takes_every_sign_back():
    """Where the control agrees too, nothing is decided."""
    gains = {"svformer": 0.2, "skipv1": 0.12, CONTROL: 0.2}
    found = verdicts(one=group(gains))
    assert {verdict for name, verdict in found.items() if "peak" not in name} == {"inconclusive"}


@pytest.mark.parametrize(("rises", "verdict"), [(5.0, "agrees"), (10.0, "agrees"), (0.625, "contradicts")])
def test_a_gain_that_peaks_elsewhere_than_induction(rises, verdict):
    """Within one doubling it agrees."""
    one = group({"svformer": 0.4}, rises=rises, noise=0.001)
    assert peaks_apart(one, "svformer") == [np.log2(5.0 / rises)] * SEEDS
    assert verdicts(one=one)["one/peak/svformer"] == verdict


def test_of_a_variant_of_ones_own_nothing_is_predicted():
    from experiments.training.comparing import comparing

    made = comparing(EXPERIMENT, "cpu", ["svformer"])
    config = made.profiles["cpu"].config
    assert all(one.arms == ("svformer",) for one in config.groups)
    prediction = made.predict(config)
    assert (prediction["signs"], prediction["order"], prediction["peak"]) == ({}, [], {})
    checks = made.compare(prediction, {"groups": {"one": group({"svformer": 0.2})}})
    assert {(check.verdict, check.claim) for check in checks} == {("unpredicted", "")}
    assert all(check.measured + check.half_width < 0 for check in checks)


@pytest.mark.parametrize("name", ["vanilla", "svformer"])
@pytest.mark.long
def test_what_diverged_decides_nothing_and_is_drawn(name):
    one = group({"svformer": 0.2})
    one["curve"][name][0] = None
    for length in LENGTHS:
        one["probed"][name][length] = [None, *one["probed"][name][length][1:]]
    found = verdicts(one=one)
    assert {verdict for check, verdict in found.items() if "svformer" in check} == {"inconclusive"}
    assert len(EXPERIMENT.draw(PREDICTION, {"groups": {"width 32": one, "width 48": one}}).axes) == 4


def test_figure_and_claim():
    measurement = {"groups": {f"width {i}": group({"svformer": 0.2}) for i in (32, 48)}}
    figure = EXPERIMENT.draw(PREDICTION, measurement)
    assert [axis.get_title(loc="left")[:3] for axis in figure.axes] == ["(a)", "(b)", "(c)", "(d)"]
    assert all(axis.get_xlabel() or axis.get_xticklabels() for axis in figure.axes)
    assert {check.claim for check in EXPERIMENT.compare(PREDICTION, measurement)} == set(EXPERIMENT.claims)
    assert worst(EXPERIMENT.compare(PREDICTION, measurement)) != "fail"


def test_lengths_double():
    assert all(b == 2 * a for a, b in pairwise(LENGTHS.values()))
    config = EXPERIMENT.profiles["cpu"].config
    assert [replace(one, width=0, rate=1.0, std=0.0).until for one in config.groups] == [END] * 4
