"""The campaign's first question and its table of rates, on measurements of which the answer is known."""

import math

import numpy as np
import pytest

from experiments.across.questions import rates
from experiments.across.questions.induction import ARMS, EXPERIMENT, peaks_apart
from experiments.across.questions.rates import ELSEWHERE, NEXT, SWEEP, tables
from experiments.campaign.question import CONTROL, TWIN, VANILLAS
from experiments.campaign.rates import at_width
from experiments.training.comparing import comparing

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


GAINS = {"svformer": 0.2, "skipv1": 0.12, "shared-keys": -0.05}  # as in recall


def test_gains_as_in_recall_agree():
    found = verdicts(one=group(GAINS), two=group(GAINS))
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
    groups = {f"width {i}": group(GAINS) for i in range(4)}
    whole = EXPERIMENT.compare(PREDICTION, {"groups": groups, "left_out": []})
    first = EXPERIMENT.compare(PREDICTION, {"groups": {"width 0": groups["width 0"]}, "left_out": list(groups)[1:]})
    widths = {check.id: check.half_width for check in whole}
    assert first
    assert all(check.half_width == widths[check.id] for check in first)


SMALL, LARGE = PREDICTION["sizes"][0]
SIZES = {f"{LARGE}/{window}/{arm}/{SMALL}" for window in ("2.5 to 5", "5 to 8") for arm in ("svformer", "skipv1")}


def of_sizes(small, large):
    """Return the verdicts on the gain that a larger size leaves."""
    found = verdicts(**{SMALL: group(small), LARGE: group(large)})
    assert found.keys() >= SIZES
    return {verdict for name, verdict in found.items() if name in SIZES}


def test_sizes_that_are_compared_differ_in_their_width_alone():
    assert [[name.split(", ") for name in pair] for pair in PREDICTION["sizes"]] == [
        [["width 32", "rate 0.008", "initial weights 0.02"], ["width 48", "rate 0.008", "initial weights 0.02"]]
    ]


def test_less_of_a_gain_is_left_at_a_larger_size():
    less = {name: gain / 2 for name, gain in GAINS.items()}
    assert of_sizes(GAINS, less) == {"agrees"}
    assert of_sizes(less, GAINS) == {"contradicts"}
    assert of_sizes(GAINS, GAINS) == {"inconclusive"}
    assert not SIZES & verdicts(**{SMALL: group(GAINS)}).keys()


def test_a_third_vanilla_whose_gain_shrinks_too_takes_that_of_sizes_back():
    assert of_sizes({**GAINS, CONTROL: 0.2}, {"svformer": 0.1, "skipv1": 0.06}) == {"inconclusive"}


def test_a_third_vanilla_that_gains_takes_every_sign_back():
    """Where the control agrees too, nothing is decided."""
    found = verdicts(one=group({"svformer": 0.2, "skipv1": 0.12, CONTROL: 0.2}))
    assert {verdict for name, verdict in found.items() if "peak" not in name} == {"inconclusive"}


@pytest.mark.parametrize(("rises", "verdict"), [(5.0, "agrees"), (10.0, "agrees"), (0.625, "contradicts")])
def test_a_gain_that_peaks_elsewhere_than_induction(rises, verdict):
    """Within one doubling it agrees."""
    one = group({"svformer": 0.4}, rises=rises, noise=0.001)
    assert peaks_apart(one, "svformer") == [np.log2(5.0 / rises)] * SEEDS
    assert verdicts(one=one)["one/peak/svformer"] == verdict


def test_of_a_variant_of_ones_own_nothing_is_predicted():
    made = comparing(EXPERIMENT, "cpu", ["svformer"])
    config = made.profiles["cpu"].config
    assert all(one.arms == ("svformer",) for one in config.groups)
    prediction = made.predict(config)
    assert (prediction["signs"], prediction["order"], prediction["peak"]) == ({}, [], {})
    checks = made.compare(prediction, {"groups": {name: group({"svformer": 0.2}) for name in (SMALL, LARGE)}})
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
    assert {verdict for check, verdict in found.items() if name in check or "peak" in check} == {"inconclusive"}
    assert len(EXPERIMENT.draw(PREDICTION, {"groups": {"width 32": one, "width 48": one}}).axes) == 4


def test_figure_and_claim():
    measurement = {"groups": {f"width {i}": group({"svformer": 0.2}) for i in (32, 48)}}
    figure = EXPERIMENT.draw(PREDICTION, measurement)
    assert [axis.get_title(loc="left")[:3] for axis in figure.axes] == ["(a)", "(b)", "(c)", "(d)"]
    assert all(axis.get_xlabel() or axis.get_xticklabels() for axis in figure.axes)
    assert {check.claim for check in EXPERIMENT.compare(PREDICTION, measurement)} == set(EXPERIMENT.claims)


def test_its_groups_are_trained_up_to_the_last_length():
    assert [one.until for one in EXPERIMENT.profiles["cpu"].config.groups] == [END] * 4


# The rate table, on losses of which the best rates are known.

SHIFTS = (0.1, -0.1, 0.05, -0.05)


def measured(best):
    """Parabolas: by arm the best rate at the smallest width; at the next it is by the rule."""
    groups = {}
    for group in rates.EXPERIMENT.profiles["cpu"].config.groups:
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
    prediction = rates.EXPERIMENT.predict(rates.EXPERIMENT.profiles["cpu"].config)
    return {check.id: check for check in rates.EXPERIMENT.compare(prediction, measured(best))}


SMALLEST, BY_FAN_IN, WIDER = (
    "width 32, initial weights 0.02",
    "width 32, initial weights fan-in",
    f"width {NEXT}, initial weights 0.02",
)


def test_best_rates_and_how_far_they_are_apart():
    found = checks({"svformer": 10e-3, "vanilla": 8e-3})
    assert found[f"{SMALLEST}/svformer"].measured == pytest.approx(math.log2(10 / 8))
    assert found[f"{SMALLEST}/twin"].measured == pytest.approx(0, abs=1e-9)
    assert {one.verdict for one in found.values()} == {"unpredicted"}
    names = {*VANILLAS, *rates.ARMS} - {"vanilla"}
    assert {name for name in found if name.startswith(SMALLEST)} == {f"{SMALLEST}/{name}" for name in names}
    rule = math.log2(at_width(1.0, SWEEP.width, NEXT))
    for name in ("vanilla", *ELSEWHERE):
        assert found[f"moved/{WIDER}/{name}"].measured == pytest.approx(rule, abs=1e-6)
        assert found[f"moved/{WIDER}/{name}"].statement == f"{name}: the rule says {rule:.2f}"
        assert found[f"moved/{BY_FAN_IN}/{name}"].measured == pytest.approx(0, abs=1e-9)
        assert found[f"moved/{BY_FAN_IN}/{name}"].statement == name


def test_what_is_gained_at_each_rate_that_is_shared():
    """Losses are 0.1 times the squares of how many doublings each one's best is away."""
    found = {name: one.measured for name, one in checks({"svformer": 16e-3, "vanilla": 8e-3}).items()}
    gained = [found[f"gain/width 32, rate {rate:g}, initial weights fan-in/svformer"] for rate in rates.BY_FAN_IN]
    assert gained == pytest.approx([0.1 * (4 - 1), 0.1, -0.1, 0.1 * (1 - 4)])


def test_an_end_of_what_was_tried_is_named():
    found = checks({"denseformer": 1.0})
    assert "denseformer at 0.016, an end of what was tried" in found[f"{SMALLEST}/denseformer"].statement


def test_what_diverged_at_a_rate_is_no_candidate_there():
    """At every rate: it has no row of its own, and the others are as they were."""
    measurement = measured({})
    for at, group in enumerate(measurement["groups"].values()):
        group["loss"]["attnres"] = {"10.0": [None, *[3.0] * (len(SHIFTS) - 1)]} if at < len(SWEEP.rates) else {}
        if at == len(SWEEP.rates) - 1:
            group["loss"]["skipv1"]["10.0"] = [None] * len(SHIFTS)
        if "attnres" not in group["rates"]:
            del group["loss"]["attnres"]
    prediction = rates.EXPERIMENT.predict(rates.EXPERIMENT.profiles["cpu"].config)
    found = {check.id: check for check in rates.EXPERIMENT.compare(prediction, measurement)}
    assert f"{SMALLEST}/attnres" not in found
    assert "an end of what was tried" in found[f"{SMALLEST}/skipv1"].statement
    assert found[f"{SMALLEST}/svformer"] == checks({})[f"{SMALLEST}/svformer"]
    assert len(rates.EXPERIMENT.draw({}, measurement).axes) == 2


def test_groups_that_are_missing_are_left_out():
    whole = measured({})
    name = next(name for name in whole["groups"] if name.startswith(f"width {NEXT}"))
    some = {"groups": {other: group for other, group in whole["groups"].items() if other != name}}
    assert len(tables(some)[WIDER]["svformer"]) == len(SWEEP.rates) - 1
    assert tables({"groups": {name: whole["groups"][name]}}) == {}


def test_its_figure_has_a_row_for_every_arm():
    figure = rates.EXPERIMENT.draw({}, measured({}))
    by_fan_in = len(VANILLAS) + 1
    assert len(figure.axes[0].get_yticks()) == len(VANILLAS) + len(rates.ARMS) + by_fan_in
    assert all(axis.get_xlabel() for axis in figure.axes)


def test_its_figure_marks_ends_and_says_what_other_rates_cost():
    """Losses are 0.1 times the squares of how many doublings each one's best rate is away."""
    own, cost = rates.EXPERIMENT.draw({}, measured({"denseformer": 16e-3, "attnres": 2e-3})).axes
    rows = dict(zip([label.get_text() for label in own.get_yticklabels()], own.get_yticks(), strict=True))

    def points(axis, name):
        lines = [line for line in axis.lines if line.get_marker() in {*"o<>vs^Dp"} and line.get_xdata().size]
        return [(line.get_marker(), line.get_xdata()[0]) for line in lines if round(line.get_ydata()[0]) == rows[name]]

    assert [points(own, name) for name in ("DenseFormer", "Full")] == [[(">", 16e-3)], [("<", 2e-3)]]
    assert points(own, "SVFormer") == [("o", pytest.approx(8e-3))]
    by_distance = [0, pytest.approx(0.1), pytest.approx(0.4), pytest.approx(0.9)]
    assert points(cost, "SVFormer") == [*zip("vs^D", [by_distance[i] for i in (2, 1, 0, 1)], strict=True)]
    assert points(cost, "Full") == [*zip("vs^D", by_distance, strict=True)]
