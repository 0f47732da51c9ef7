"""`skipv1-end-to-end`: its checks reject what is wrong, and a killed run is resumed."""

import copy
import json
import math
from functools import partial

import pytest

from experiments.drawing.style import drawing
from experiments.skipv1.end_to_end.experiment import EXPERIMENT, PROFILES, compare_heads, gaps, worths
from experiments.skipv1.end_to_end.training import Arms, Config, Sweep, Trained, arm_key, lowest, trainees_of
from experiments.store.folders import RunFolder, Slot
from experiments.store.steps import StepLog
from experiments.toys import training as toy_training
from experiments.verdicts.checks import Check, Expectation
from tests.experiments.committed import committed, failing, verdicts
from theory.plans.heads import TOYS
from theory.plans.setting import Setting
from theory.toy.positions import most_entries_with_positions

SIZE = "d2-n8-s0.1"


def test_checks_reject_what_theory_forbids():
    """A first layer shifted by one, a toy above its bound, a toy above Bayes: each fails, and nothing else."""
    prediction, measurement = committed("skipv1-end-to-end")

    failed = partial(failing, EXPERIMENT, prediction)
    assert not failed(measurement)
    shifted = copy.deepcopy(measurement)
    for result in shifted["constructions"][SIZE].values():
        result["explained"] = result["shifted"]
    assert failed(shifted) == {f"construction/{SIZE}/{name}" for name in shifted["constructions"][SIZE]}
    for scores, check in (("positions", f"bound/{SIZE}/positions/random/mha/m2"), ("both", f"bayes/{SIZE}")):
        altered = copy.deepcopy(measurement)
        share = prediction["sizes"][SIZE]["widths"]["2"]["bound"]["mha"] if scores == "positions" else 1.0
        altered["explained"][arm_key(SIZE, scores, "random", "mha", 2)] = [
            share + 0.01 * (1 + i / 100) for i in range(6)
        ]
        assert failed(altered) == {check}


def test_a_gap_as_predicted_agrees_and_none_contradicts():
    prediction, measurement = committed("skipv1-end-to-end")
    name = f"{SIZE}/both/copying/m2"

    def judged(skip):
        altered = copy.deepcopy(measurement)
        altered["explained"][arm_key(SIZE, "both", "copying", "mha", 2)] = [0.18, 0.182, 0.181, 0.183, 0.18, 0.182]
        altered["explained"][arm_key(SIZE, "both", "copying", "skipv1", 2)] = [
            skip + 0.18 + 0.001 * i for i in range(6)
        ]
        return verdicts(EXPERIMENT, prediction, altered)

    shares = prediction["sizes"][SIZE]["widths"]["2"]["assumed_copy"]
    as_predicted, none = judged(shares["skipv1"] - shares["mha"]), judged(-0.1)
    assert as_predicted[f"gap/{name}"] == as_predicted[f"gap size/{name}"] == "agrees"
    assert none[f"gap/{name}"] == none[f"gap size/{name}"] == "contradicts"


def test_worth_is_read_off_the_curve_of_mha():
    variant = ("both", "random")
    shares = {("skipv1", 2): [1.0, 0.2, 0.9], ("mha", 2): [0.495, 0.3, 0.1]}
    shares |= {("mha", 3): [0.6, 0.9, 0.2], ("mha", 6): [0.99, 0.9, 0.3], ("skipv1", 3): [1.0] * 3}
    shares |= {("skipv1", 6): [1.0] * 3}
    arms = {arm_key(SIZE, *variant, toy, m): values for (toy, m), values in shares.items()}
    trained = Trained(SIZE, {"d": 2, "widths": {"2": {}, "3": {}, "6": {}}}, arms)
    first, second, never = worths(trained, variant)
    assert first == pytest.approx(6)
    assert second == 2
    assert math.isnan(never)
    arms[arm_key(SIZE, *variant, "mha", 6)][0] = 1.38  # 0.99 lies halfway between 0.6 at width 3 and this at 6
    assert worths(trained, variant)[0] == pytest.approx(4.5)
    assert gaps(trained, variant, 2) == pytest.approx([0.505, -0.1, 0.8])


def test_more_heads_are_worth_what_they_explain_at_width_2d_less_1():
    """Synthetic shares: 4 heads reach SkipV1Former at width 3 = 2d - 1, two do not; width 2 is judged by its heads."""
    variant, near = ("positions", "random"), [0.72, 0.73, 0.71, 0.725]
    shares = {("skipv1", 2): near, ("mha", 2): [0.35] * 4, ("mha", 3): [0.55, 0.56, 0.54, 0.552]}
    shares |= {("mha-4", 2): [0.36, 0.37, 0.355, 0.36], ("mha-4", 3): [x - 0.01 for x in near]}
    shares |= {("skipv1", 3): near}
    arms = {arm_key(SIZE, *variant, toy, m): values for (toy, m), values in shares.items()}
    numbers = {"d": 2, "widths": {str(m): {"enough_heads": {"mha": share}} for m, share in ((2, 0.4), (3, 0.73))}}
    trained = Trained(SIZE, numbers, arms)
    judged = {v.id: v.verdict for v in compare_heads(trained)}
    assert judged[f"heads/{SIZE}/m3/h4"] == judged[f"least width/{SIZE}/h4"] == "agrees"
    assert set(judged) == {f"heads/{SIZE}/m2/h4", f"heads/{SIZE}/m3/h4", f"least width/{SIZE}/h4"}
    arms[arm_key(SIZE, *variant, "mha-4", 3)] = [0.6] * 4
    assert {v.id: v.verdict for v in compare_heads(trained)}[f"least width/{SIZE}/h4"] == "contradicts"


@pytest.mark.long
def test_predictions_hold_the_theory_they_name():
    for name, profile in PROFILES.items():
        if name == "full":
            continue
        prediction = EXPERIMENT.predict(profile.config)
        for numbers in prediction["sizes"].values():
            for width, shares in numbers["widths"].items():
                for toy, heads in TOYS.items():
                    entries = most_entries_with_positions(heads, numbers["d"], int(width))
                    assert shares["bound"][toy] == pytest.approx(numbers["rho"] * entries / numbers["d"] ** 2)
                    assert shares["assumed_copy"][toy] <= shares["bound"][toy] <= numbers["rho"] < numbers["ridge"]
                if "enough_heads" in shares:
                    assert shares["assumed_copy"]["mha"] < shares["enough_heads"]["mha"] <= shares["bound"]["mha"]
                    assert int(width) < 2 * numbers["d"] - 1 or shares["enough_heads"]["mha"] == numbers["rho"]
            assert numbers["worth"] == 2 * numbers["d"]


def test_of_two_learning_rates_the_lower_training_loss_counts():
    sweep = Sweep(
        size=Setting(2, 3, 0.1), arms=(Arms((2,)), Arms((2,), start="copying")), steps=10, learning_rates=(0.02, 0.05)
    )
    trainees = list(trainees_of(sweep, 2))
    assert [t.learning_rate for t in trainees] == [0.02, 0.05] * 4 + [0.02] * 4
    chosen = lowest(trainees, [2.0, 1.0, 1.0, 2.0, math.nan, 3.0, 3.0, math.nan, *[math.nan] * 4])
    assert list(chosen.values()) == [[1, 2], [5, 6], [8, 9], [10, 11]]
    assert all(trainees[i].arm == arm for arm, members in chosen.items() for i in members)


TINY = Config(
    sweeps=(
        Sweep(
            size=Setting(2, 3, 0.1),
            arms=(
                Arms((2, 4)),
                Arms((2,), start="copying"),
                Arms((2,), "positions"),
                Arms((2, 4), "printed"),
                Arms((2,), "positions", heads=4),
            ),
            steps=300,
            learning_rates=(0.02, 0.05),
        ),
    ),
    held_out=1024,
    copying_prompts=256,
    construction_prompts=1024,
)


@pytest.mark.long
def test_two_seeds_suffice_for_verdicts_and_a_figure(tmp_path):
    measurement = EXPERIMENT.measure(TINY, 2, RunFolder(tmp_path, Slot(jobs=1)))
    prediction = EXPERIMENT.predict(TINY)
    judged = EXPERIMENT.compare(prediction, measurement)
    assert all(type(v).from_json(json.loads(json.dumps(v.to_json()))).verdict == v.verdict for v in judged)
    assert {Check, Expectation} == {type(v) for v in judged}
    with drawing():
        assert EXPERIMENT.draw(prediction, measurement).axes


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_numbers(tmp_path, monkeypatch):
    """Killed in its second stack, after a checkpoint."""
    monkeypatch.setattr(toy_training, "SECONDS_BETWEEN_SAVES", 0.0)
    whole, killed = (RunFolder(tmp_path / name, Slot(jobs=1)) for name in ("whole", "killed"))
    expected, add = EXPERIMENT.measure(TINY, 2, whole), StepLog.add

    def die(log, step, **fields):
        add(log, step, **fields)
        if step == 200 and killed.metrics():
            raise KeyboardInterrupt

    monkeypatch.setattr(StepLog, "add", die)
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.measure(TINY, 2, killed)
    monkeypatch.setattr(StepLog, "add", add)
    assert len(killed.metrics()) == 1
    assert EXPERIMENT.measure(TINY, 2, killed) == expected
    assert killed.metrics() == whole.metrics()
