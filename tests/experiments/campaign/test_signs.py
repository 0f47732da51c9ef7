"""Questions of signs, on measurements of which the answer is known: every question of this form, whoever asks it."""

from dataclasses import replace

import numpy as np
import pytest

from experiments import catalogue
from experiments.across.questions.design import step_times
from experiments.campaign.question import CONTROL, TWIN, VANILLAS, each
from experiments.campaign.reading import arms
from experiments.campaign.signs import LOSS, Signs, own_rate_groups
from experiments.training import expectations
from experiments.training.comparing import comparing
from experiments.training.expectations import PaperExpectation
from experiments.training.timed_step import Side

SEEDS, LINES = 8, 80
QUESTIONS = [one for one in catalogue.all_experiments().values() if isinstance(one, Signs)]
VALUES = next(one for one in QUESTIONS if one.name == "text-values")
named = pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)


def predicted(question):
    return question.predict(question.profiles["cpu"].config)


def measured(question, gains=(), *, own=(), noise=0.002):
    """What would be measured if these were the differences to vanilla, by what is measured and arm."""
    draw, gains = np.random.default_rng(0), dict(gains)
    config = question.profiles["cpu"].config
    groups = {}
    for group in config.groups:
        names = (*VANILLAS, *(own or group.arms))
        lengths = {str(x): x for x in config.setting.lengths if x <= group.until}
        places = np.linspace(group.until / LINES, group.until, LINES)

        def numbers(what, name, shape=()):
            return gains.get((what, name), 0.0) + draw.normal(scale=noise, size=(SEEDS, *shape))

        loss = {name: 3 + numbers(LOSS, name) for name in names}
        kept = {name: {what: numbers(what, name) for what in question.quantities} for name in names}
        groups[group.name] = {
            "seeds": SEEDS,
            "width": group.width,
            "context": 256,
            "rates": {name: group.rate or (8e-3 if name in VANILLAS else 4e-3) for name in names},
            "lengths": lengths,
            "constant": 0.8 * group.until,
            "curve": {
                "tokens_per_parameter": places.tolist(),
                **{name: (4 - 0.1 * np.log(places) + numbers("curve", name, (LINES,))).tolist() for name in names},
            },
            "loss": {name: {length: loss[name].tolist() for length in lengths} for name in names},
            "probed": {
                name: {
                    length: [{what: float(x[i]) for what, x in kept[name].items()} for i in range(SEEDS)]
                    for length in lengths
                }
                for name in names
            },
        }
    times = {name: {"ratio": 1.2, "low": 1.1, "high": 1.3} for name in own or config.groups[0].arms}
    return {"groups": groups, "step_times": times}


def as_predicted(question, prediction, size=0.1):
    """Differences to vanilla that have every predicted sign: places that are moved apart until they have."""
    draw, found = np.random.default_rng(0), {}
    for what in (LOSS, *question.quantities):
        pairs = [pair for pair in prediction["compared"] if pair["what"] == what and pair["against"]]
        places = {name: 0.0 for pair in pairs for name in (pair["arm"], pair["against"])}
        for _ in range(1000):
            wrong = [p for p in pairs if p["sign"] * (places[p["arm"]] - places[p["against"]]) < size / 2]
            for pair in wrong:
                arm, against, sign = pair["arm"], pair["against"], pair["sign"]
                if "vanilla" not in (arm, against) and draw.random() < 0.5:
                    places[against] -= sign * size
                else:
                    places[arm] += sign * size
        found |= {(what, name): place for name, place in places.items()}
    return found


def consistent(prediction):
    """Less those of which one says the opposite of another."""
    signs = {}
    for pair in prediction["compared"]:
        signs.setdefault((pair["what"], pair["arm"], pair["against"]), set()).add(pair["sign"])
    kept = [pair for pair in prediction["compared"] if len(signs[pair["what"], pair["arm"], pair["against"]]) == 1]
    return {**prediction, "compared": [pair for pair in kept if pair["against"]]}


def judged(question, prediction, measurement):
    """The checks of which somebody predicts something."""
    return [check for check in question.compare(prediction, measurement) if check.verdict != "unpredicted"]


@named
def test_differences_as_predicted_agree_and_the_opposite_contradicts(question):
    prediction = consistent(predicted(question))
    gains = as_predicted(question, prediction)
    checks = judged(question, prediction, measured(question, gains))
    assert len(checks) >= len(prediction["compared"]) > 3
    assert {check.verdict for check in checks} == {"agrees"}
    opposite = judged(question, prediction, measured(question, {which: -gain for which, gain in gains.items()}))
    assert {check.verdict for check in opposite} == {"contradicts"}
    assert {check.verdict for check in judged(question, prediction, measured(question))} == {"inconclusive"}


@named
def test_a_third_vanilla_that_differs_as_predicted_takes_every_verdict_back(question):
    prediction = consistent(predicted(question))
    gains = as_predicted(question, prediction)
    gains |= {(what, CONTROL): 0.5 for what in (LOSS, *question.quantities)}
    assert {check.verdict for check in judged(question, prediction, measured(question, gains))} == {"inconclusive"}


@named
def test_its_claims_are_there_and_each_is_judged(question):
    catalogue.check_claims(question)
    prediction = predicted(question)
    assert {pair["claim"] for pair in prediction["compared"]} == set(question.claims)
    measurement = measured(question, as_predicted(question, prediction))
    checks = question.compare(prediction, measurement)
    assert len({check.id for check in checks}) == len(checks)
    groups = [{*group["loss"], ""} for group in own_rate_groups(measurement).values()]
    pairs = [(pair["arm"], pair["against"]) for pair in prediction["compared"]] + list(question.together)
    assert len(checks) == sum({*pair} <= known for pair in pairs for known in groups)
    assert sum(check.verdict == "unpredicted" for check in checks) == len(question.together)


@named
def test_its_figure(question):
    prediction = predicted(question)
    figure = question.draw(prediction, measured(question))
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert 2 <= len(shown) <= 4
    assert all(axis.get_xlabel() and axis.get_title(loc="left").startswith("(") for axis in shown)


@named
def test_every_arm_is_a_model(question):
    """At the smoke profile's size, and at its own."""
    for profile in ("smoke", "cpu"):
        config = question.profiles[profile].config
        for rounds in question.trainings(config, 1).values():
            for by_length in rounds[0].values():
                arm = next(iter(by_length.values()))
                assert arm.plan.shape.layers == arm.architecture.n_layers


@named
def test_of_a_variant_of_ones_own_nothing_is_predicted(question):
    own = "gqa:group=2"
    made = comparing(question, "cpu", [own])
    config = made.profiles["cpu"].config
    prediction = made.predict(config)
    assert prediction["compared"] == []
    checks = made.compare(prediction, measured(made, {(LOSS, own): -0.3}, own=(own,)))
    assert {(check.verdict, check.claim) for check in checks} == {("unpredicted", "")}
    assert all(check.measured + check.half_width < 0 for check in checks)
    made.draw(prediction, measured(made, own=(own,)))
    arms = [of_seed[own] for rounds in made.trainings(config, 1).values() for of_seed in rounds]
    arms += [of_seed for seeds in made.sweeps(config)[own].values() for of_seed in seeds]
    assert {arm.architecture.kv_heads for by_length in arms for arm in by_length.values()} == {1}


def test_the_toy_and_the_papers_have_their_say_of_ones_own(tmp_path):
    """The toy has none where two layers do not contain what a variant changes."""
    path = tmp_path / "my.py"
    path.write_text(
        "from theory import plan, v\n\n\n"
        "def mine(shape):\n"
        "    return plan(shape, values=lambda n, h: v(n, h) + 0.5 * v(1, h) if n > 1 else v(n, h))\n\n\n"
        "def late(shape):\n"
        "    return plan(shape, values=lambda n, h: v(n, h) + v(1, h) if n > 2 else v(n, h))\n"
    )
    made = comparing(VALUES, "cpu", [f"{path}:mine", f"{path}:late", "resformer"])
    prediction = predicted(made)
    said = {(pair["by"], pair["arm"]): pair["sign"] for pair in prediction["compared"]}
    assert said == {("toy", "my.py:mine"): -1, ("toy", "resformer"): -1, ("paper", "resformer"): -1}
    own = tuple(prediction["own"])
    checks = made.compare(prediction, measured(made, {(LOSS, name): -0.3 for name in own}, own=own))
    found = {check.id.partition("/")[2]: check.verdict for check in checks}
    assert found.pop("own/my.py:late") == "unpredicted"
    assert set(found.values()) == {"agrees"}
    assert len(found) == 3


@pytest.mark.parametrize("better", [True, False])
def test_what_its_own_paper_expects_is_judged_under_its_own_claim(better, monkeypatch):
    paper = PaperExpectation(
        variant="gqa:group=2", measure="loss", better=better, claim="deep.own-values", place="section 9"
    )
    monkeypatch.setattr(expectations, "expectations_of", lambda variant: (paper,) if variant == paper.variant else ())
    made = comparing(VALUES, "cpu", ["gqa:group=2", "mqa"])
    assert made.claims == (*VALUES.claims, paper.claim)
    prediction = predicted(made)
    checks = made.compare(prediction, measured(made, {(LOSS, "gqa:group=2"): -0.3}, own=("gqa:group=2", "mqa")))
    (judged,) = (check for check in checks if check.claim == paper.claim)
    assert judged.verdict == ("agrees" if better else "contradicts")
    assert "section 9" in judged.statement
    assert [check.verdict for check in checks if "mqa" in check.id] == ["unpredicted"]


@named
def test_groups_of_one_rate_decide_nothing(question):
    prediction = predicted(question)
    measurement = measured(question, as_predicted(question, prediction))
    for name in own_rate_groups(measurement):
        del measurement["groups"][name]
    assert question.compare(prediction, measurement) == []


@pytest.mark.parametrize(("name", "rate"), [("attnres", 0.1), ("attnres-block:size=4", 0.1), ("attnres-block", 1.0)])
def test_a_variant_that_is_asked_for_by_name_is_the_one_that_is_trained(name, rate):
    """With the same learning rate of its queries over depth, so that it is trained once."""
    depth = next(one for one in QUESTIONS if one.name == "text-depth")
    made = comparing(depth, "cpu", [name])
    mine = [
        arm.key("cpu")
        for rounds in made.trainings(made.profiles["cpu"].config, 1).values()
        for arm in rounds[0][name].values()
    ]
    theirs = {arm.key("cpu") for arm in each(depth.trainings(depth.profiles["cpu"].config, 1))}
    assert ({*mine} <= theirs) == (rate == 0.1)
    cell = made.cell(made.profiles["cpu"].config, made.profiles["cpu"].config.groups[0], name, 1.0)
    assert cell.depth_rate == rate


@pytest.fixture
def designed():
    """The arms whose steps are timed: all that the first group trains, combinations too, and vanilla."""
    design = next(one for one in QUESTIONS if one.name == "text-design")
    config = design.profiles["gpu"].config
    tiny = replace(config, groups=tuple(replace(group, width=8) for group in config.groups))
    arms = design.one_of_each(replace(tiny, setting=design.profiles["smoke"].config.setting))
    assert list(arms) == ["vanilla", *tiny.groups[0].arms]
    return arms


def test_step_times_are_those_of_the_models_that_are_trained(designed):
    times = step_times(designed, "cpu")
    assert list(times) == list(designed)[1:]
    assert all(over_vanilla["low"] > 0 for over_vanilla in times.values())


@pytest.mark.parametrize("other", ["svformer", "vanilla"])
def test_of_a_step_that_computes_something_else_no_time_is_stated(other, designed, monkeypatch, capsys):
    monkeypatch.setattr(Side, "same_answer", lambda side: side.model.plan != designed[other].plan)
    monkeypatch.setattr(Side, "seconds", lambda *_: 1.0)
    there = designed.keys() - {"vanilla", other} if other != "vanilla" else set()
    assert step_times(designed, "cpu").keys() == there
    assert f"a step's time is not stated: {other}\n" in capsys.readouterr().err


def test_costs_where_a_time_is_undecided_or_a_group_is_missing():
    design = next(one for one in QUESTIONS if one.name == "text-design")
    prediction = predicted(design)
    measurement = measured(design, as_predicted(design, prediction))
    _, *others = measurement["groups"]
    shown = design.draw(prediction, measurement).axes[0]
    measurement["step_times"]["skipv1"]["ratio"] = None
    fewer = design.draw(prediction, measurement).axes[0]
    assert len(shown.containers) - len(fewer.containers) == 1
    del measurement["step_times"]["svformer"]
    fewer_still = design.draw(prediction, measurement).axes[0]
    assert len(fewer.containers) - len(fewer_still.containers) == 1
    some = {**measurement, "groups": {other: measurement["groups"][other] for other in others}}
    assert len(design.draw(prediction, some).axes) == 4


def test_two_rates_are_named_where_they_differ():
    prediction = predicted(VALUES)
    groups = {check.group for check in VALUES.compare(prediction, measured(VALUES))}
    assert any("SVFormer minus vanilla (rates 0.004 and 0.008)" in group for group in groups)


def test_the_baseline_is_the_mean_of_two_vanillas():
    prediction = predicted(VALUES)
    measurement = measured(VALUES, {(LOSS, TWIN): 0.2})
    (found,) = VALUES.differences(prediction, measurement).values()
    assert found[LOSS, "svformer", "vanilla"].mean == pytest.approx(-0.1, abs=0.01)
    assert "svformer" in arms(next(iter(measurement["groups"].values())))
    config = VALUES.profiles["cpu"].config
    assert all(replace(group, rate=1.0).until in config.setting.lengths for group in config.groups)
