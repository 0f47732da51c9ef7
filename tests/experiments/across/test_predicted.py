"""The toy's and recall's order of variants against text, on measurements of which the answer is known."""

from dataclasses import fields, replace

import numpy as np
import pytest

from experiments.across import bridge
from experiments.across.questions.induction import EXPERIMENT as INDUCTION
from experiments.across.questions.predicted import ARMS, EXPERIMENT, differences
from experiments.across.questions.values import EXPERIMENT as VALUES
from experiments.across.recalled import COMPARED, MARGIN, RECALLED, recalled
from experiments.campaign.question import CONTROL, TWIN, VANILLAS, Group, each
from experiments.campaign.rates import each_swept
from experiments.training.comparing import comparing
from tests.experiments.committed import as_stored, committed
from tests.experiments.test_figures import MOST_WORDS

LINES = 80
PREDICTION = as_stored(EXPERIMENT.predict(EXPERIMENT.profiles["cpu"].config))
GAINS = {"svformer": 0.5, "skipv1": 0.4, "resformer": 0.3, "cla-v": 0.4, "shared-keys": -0.2}  # as both predict


def measured(gains, question=EXPERIMENT, *, only="", noise=0.01):
    """What would be measured if arms ended so far below vanilla, of groups whose names begin so."""
    draw = np.random.default_rng(0)
    config = question.profiles["cpu"].config
    groups = {}
    for group in (one for one in config.groups if one.name.startswith(only)):
        names = (*VANILLAS, *group.arms)
        at = np.linspace(group.until / LINES, group.until, LINES)

        def numbers(name, shape, seeds=group.seeds):
            return (4 - gains.get(name, 0.0) + draw.normal(scale=noise, size=(seeds, *shape))).tolist()

        groups[group.name] = {
            "seeds": group.seeds,
            "lengths": {str(group.until): group.until},
            "constant": 0.8 * group.until,
            "curve": {"tokens_per_parameter": at.tolist(), **{name: numbers(name, (LINES,)) for name in names}},
            "loss": {name: {str(group.until): numbers(name, ())} for name in names},
        }
    return {"groups": groups, "left_out": [one.name for one in config.groups if one.name not in groups]}


def checks_of(*arguments, prediction=PREDICTION, **about):
    return {check.id: check for check in EXPERIMENT.compare(prediction, measured(*arguments, **about))}


def test_what_recall_says_is_what_the_bridge_has_measured():
    prediction, measurement = committed("bridge/long")
    whole = recalled(measurement)
    assert whole.keys() == RECALLED.keys()
    for arm, known in whole.items():
        other = RECALLED[arm]
        assert (known.gain, known.half_width) == pytest.approx((other.gain, other.half_width), abs=5.1e-5)
        assert known.level == other.level
    assert MARGIN == bridge.MARGIN
    rows = [row for row in bridge.rows(prediction, measurement) if row.question == "speed"]
    for arm in {*COMPARED, TWIN} - {"vanilla"}:
        scales = [row.judgement.measured for row in rows if row.arm == arm]
        assert sum(scales) / len(scales) == pytest.approx(RECALLED[arm].gain, abs=5.1e-5)


@pytest.mark.long
def test_it_asks_for_no_training_that_two_others_do_not_ask_for():
    def every(question):
        about = question.profiles["cpu"]
        swept = [arm for of_arm in question.sweeps(about.config).values() for arm in each_swept(of_arm)]
        return {*swept, *each(question.trainings(about.config, about.seeds))}

    assert every(EXPERIMENT) < every(INDUCTION) | every(VALUES)


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_its_groups_are_those_of_two_others(profile):
    theirs = [
        (replace(group, arms=()), question.profiles[profile].seeds, group.arms)
        for question in (INDUCTION, VALUES)
        for group in question.profiles[profile].config.groups
    ]
    mine = EXPERIMENT.profiles[profile]
    for group in mine.config.groups:
        plain = Group(**{**{field.name: getattr(group, field.name) for field in fields(Group)}, "arms": ()})
        lent = [arms for other, seeds, arms in theirs if other == plain and seeds >= min(mine.seeds, group.seeds)]
        assert {*group.arms} in [{*arms} & {*ARMS} for arms in lent]


def test_orders_that_are_predicted():
    assert PREDICTION["levels"] == {
        "toy": {"svformer": 0, "skipv1": 0, "resformer": 0, "cla-v": 0, "vanilla": 1, "shared-keys": 2},
        "recall": {"svformer": 0, "skipv1": 1, "resformer": 2, "shared-keys": 3, "vanilla": 3},
    }
    assert PREDICTION["toy"]["svformer"] == 0.75
    toy, recall = ({tuple(p["pair"]) for p in PREDICTION["compared"] if p["by"] == who} for who in ("toy", "recall"))
    assert len(toy) == len(recall) == 9
    assert recall - toy == {("svformer", "skipv1"), ("svformer", "resformer"), ("skipv1", "resformer")}


def test_the_predicted_order_agrees_and_the_opposite_is_no():
    checks = checks_of(GAINS)
    assert len(checks) == len(PREDICTION["compared"]) + 2
    assert {check.verdict for check in checks.values()} == {"agrees"}
    assert "text orders 9 as predicted, 0 the other way, and leaves 0 open" in checks["order/toy"].statement
    opposite = checks_of({arm: -gain for arm, gain in GAINS.items()})
    assert {check.verdict for name, check in opposite.items() if "order" not in name} == {"contradicts"}
    assert opposite["order/recall"].verdict == "contradicts"


def test_no_difference_and_a_third_vanilla_that_differs_decide_nothing():
    assert {check.verdict for check in checks_of({}).values()} == {"inconclusive"}
    checks = checks_of({**GAINS, CONTROL: 0.3})
    assert {check.verdict for check in checks.values()} == {"inconclusive"}
    assert "text orders 0 as predicted" in checks["order/toy"].statement


def test_a_pair_that_places_decide_both_ways_is_left_open():
    measurement = measured(GAINS)
    last = measured({**GAINS, "svformer": -0.5})["groups"]
    name = "width 48, own rates, initial weights 0.02"
    checks = EXPERIMENT.compare(PREDICTION, {"groups": {**measurement["groups"], name: last[name]}, "left_out": []})
    (toy,) = (check for check in checks if check.id == "order/toy")
    assert "text orders 7 as predicted, 0 the other way, and leaves 2 open" in toy.statement


def test_what_is_not_trained_is_left_out_and_widens_no_interval():
    whole, first = checks_of(GAINS), checks_of(GAINS, only="width 32, rate 0.008, initial weights 0.02")
    assert 0 < len(first) < len(whole)
    assert all(check.half_width == whole[name].half_width for name, check in first.items() if "order" not in name)
    assert first["order/toy"].verdict == "inconclusive"  # four arms have too few permutations
    assert "leaves 4 open; exact permutation p = 0.083, at best 0.083" in first["order/toy"].statement


def test_pairs_are_compared_both_ways_round():
    place = next(iter(PREDICTION["places"]))
    of_place = differences(PREDICTION, measured(GAINS))[place]
    for arm, other in list(of_place):
        assert of_place[arm, other].mean == -of_place[other, arm].mean
    assert of_place["vanilla", "svformer"].mean == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("variant", "verdicts"), [("svformer", {"agrees"}), ("gqa:group=2", {"unpredicted"})])
def test_of_a_variant_of_ones_own_the_toy_says_what_it_can(variant, verdicts):
    made = comparing(EXPERIMENT, "cpu", [variant])
    config = made.profiles["cpu"].config
    prediction = made.predict(config)
    measurement = measured({variant: 0.3}, made)
    checks = [check for check in made.compare(prediction, measurement) if "order" not in check.id]
    assert {check.verdict for check in checks} == verdicts
    assert len({check.id for check in checks}) == len(checks) >= len(prediction["places"])
    assert len(made.draw(prediction, measurement).axes) == 4


def test_its_figure_with_all_trained_and_with_the_first_group_alone():
    for only, words in (("", "not measured"), ("width 32, rate 0.008, initial weights 0.02", "not trained yet")):
        figure = EXPERIMENT.draw(PREDICTION, measured({**GAINS, "resformer": -0.3}, only=only))
        assert [axis.get_title(loc="left")[:3] for axis in figure.axes] == ["(a)", "(b)", "(c)", "(d)"]
        assert all(axis.get_xlabel() for axis in figure.axes)
        shown = [text.get_text().strip() for axis in figure.axes for text in axis.texts]
        assert words in shown
        assert ("no" in shown) == (not only)
        assert len(figure.axes[2].get_legend().get_texts()) == (2 if only else 6)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][:1] == ["SVFormer"]
    assert len(figure.axes[0].get_yticks()) == len(ARMS) + 1


def test_every_check_bears_on_its_claim_and_none_fails():
    checks = list(checks_of(GAINS).values())
    assert {check.claim for check in checks} == set(EXPERIMENT.claims)
    assert all(check.quantity for check in checks)
    assert len(EXPERIMENT.caption.split()) <= MOST_WORDS
