"""What a measurement says: keeps, bends and breaks by their rules; convergence; what sets in; worths."""

from itertools import pairwise
from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.across.gaps import KEPT
from experiments.across.ladder.ingredients import climbed, permuted
from experiments.across.ladder.reading import Results, against_toy, by_ingredient
from experiments.verdicts.intervals import Interval

from .made_up import CONFIG, RUNGS, TWO_TASKS, as_the_toy, measured, predicted

TASK = CONFIG.tasks[0].key


def gap(mean, half_width=0.01):
    return Interval(mean, half_width / 2, half_width)


@pytest.mark.parametrize(
    ("found", "toy", "word"),
    [
        (gap(0.42), 0.4, "keeps"),
        (gap(0.44, 0.02), 0.4, "undecided"),  # it reaches beyond
        (gap(0.4, 0.5), 0.4, "undecided"),
        (gap(0.2), 0.4, "bends"),
        (gap(0.6), 0.4, "bends"),
        (gap(0.02), 0.4, "bends"),  # small, but there
        (gap(0.0), 0.4, "breaks"),
        (gap(-0.3), 0.4, "breaks"),
        (gap(0.1, 0.15), 0.4, "undecided"),  # there or not
        (gap(0.01), 0.0, "keeps"),
        (gap(0.2), 0.0, "breaks"),
        (gap(0.05, 0.03), 0.0, "undecided"),
        (gap(nan), 0.4, "undecided"),
        (gap(0.4, inf), 0.4, "undecided"),
    ],
)
def test_a_gap_against_the_toy_s(found, toy, word):
    assert against_toy(found, toy) == word
    assert against_toy(Interval(-found.mean, found.stderr, found.half_width), -toy) == word


@pytest.mark.parametrize(
    ("change", "before", "after", "word"),
    [
        (gap(0.0), gap(0.4), gap(0.4), "keeps"),
        (gap(-0.2), gap(0.4), gap(0.2), "bends"),
        (gap(-0.4), gap(0.4), gap(0.0), "breaks"),
        (gap(-0.6), gap(0.4), gap(-0.2), "breaks"),
        (gap(-0.3, 0.1), gap(0.4), gap(0.1, 0.11), "undecided"),  # after it there may be none
        (gap(0.05), gap(0.4), gap(0.45), "undecided"),
        (gap(0.3), gap(0.0), gap(0.3), "breaks"),  # there was none
        (gap(0.3), gap(0.1, 0.2), gap(0.4), "undecided"),  # whether there was one is not known
        (gap(nan), gap(0.4), gap(0.4), "undecided"),
    ],
)
def test_what_an_ingredient_does(change, before, after, word):
    assert by_ingredient(change, before, after) == word
    mirrored = (Interval(-x.mean, x.stderr, x.half_width) for x in (change, before, after))
    assert by_ingredient(*mirrored) == word


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 0.5))
def test_no_gap_both_keeps_and_is_told_apart(toy, mean, half_width):
    word = against_toy(gap(mean, half_width), toy)
    inside = abs(mean - toy) + half_width <= KEPT
    apart = abs(mean - toy) - half_width > KEPT
    assert (word == "keeps") == inside or abs(abs(mean - toy) + half_width - KEPT) < 1e-9
    if word in ("bends", "breaks"):
        assert apart or abs(abs(mean - toy) - half_width - KEPT) < 1e-9


def test_shares_gaps_and_doublings_are_those_put_in():
    prediction = predicted(TWO_TASKS)
    results = Results(prediction, measured(prediction, TWO_TASKS, noise=0.0, doubling=0.01))
    for task in results.tasks:
        d = results.tasks[task]["d"]
        for variant in ("skipv1", "skipv0", "shared-keys"):
            toy = results.toy_gap(task, variant, d)
            assert results.gap("5", task, variant, d).mean == pytest.approx(toy)
            assert results.change("1", "5", task, variant, d, 1).mean == pytest.approx(0, abs=1e-12)
        assert results.toy_gap(task, "attnres", d) is None
        assert isnan(results.gap("1", task, "attnres", d).mean)
        assert results.doubling("6", task, "vanilla", d).mean == pytest.approx(0.01)


@pytest.mark.parametrize(("doubling", "noise", "converged"), [(0.0, 0.0, True), (0.019, 0.0, True), (0.03, 0.0, False)])
def test_converged(doubling, noise, converged):
    prediction = predicted()
    results = Results(prediction, measured(prediction, noise=noise, doubling=doubling))
    assert results.converged("4", TASK, "skipv1", 2) == converged
    assert ("not converged" in results.note("4", TASK, "skipv1", 2)) != converged


def test_the_upper_end_decides_and_one_length_shows_nothing():
    prediction = predicted()
    measurement = measured(prediction, noise=0.0)
    name = f"4/{TASK}/skipv1/2"
    early, late = measurement["losses"][name].values()
    early[0] = late[0] + 0.3  # one seed of six: 0.0125 more of the signal on the mean, and nobody knows
    assert not Results(prediction, measurement).converged("4", TASK, "skipv1", 2)
    assert Results(prediction, measurement).converged("4", TASK, "vanilla", 2)
    of_vanilla = measurement["losses"][f"4/{TASK}/vanilla/2"]
    del of_vanilla[min(of_vanilla, key=int)]
    assert not Results(prediction, measurement).converged("4", TASK, "vanilla", 2)


def test_what_sets_in():
    prediction = predicted()
    measurement = measured(prediction, noise=0.0)
    losses = measurement["losses"][f"4/{TASK}/skipv1/2"][str(CONFIG.lengths[-1])]
    losses[0], losses[1] = prediction["tasks"][TASK]["zero_loss"], None
    found = Results(prediction, measurement).sets_in("4", TASK, "skipv1", 2)
    toy = prediction["tasks"][TASK]["share"]["skipv1"]["2"]
    assert (found.count, found.trainings, found.share) == (4, 6, pytest.approx(toy))
    assert 0.22 < found.low < 0.23  # Clopper and Pearson's for 4 of 6
    assert 0.95 < found.high < 0.96
    assert (
        found.sentence == f"learning sets in in 4 of 6 trainings (0.22 to 0.96), which explain {toy:.3f} of the signal"
    )
    every = Results(prediction, measurement).sets_in("4", TASK, "vanilla", 2)
    assert (every.count, every.high) == (6, 1)


def test_what_sets_in_is_said_of_all_restarts():
    """The shares are those of the best of each seed's."""
    prediction = predicted()
    measurement = measured(prediction, noise=0.0)
    zero = prediction["tasks"][TASK]["zero_loss"]
    *_, (loss, *_) = measurement["losses"][f"4/{TASK}/skipv1/2"].values()
    measurement["restarts"] = {f"4/{TASK}/skipv1/2": [[loss, zero, None], [zero, loss, loss]]}
    results = Results(prediction, measurement)
    found = results.sets_in("4", TASK, "skipv1", 2)
    assert (found.count, found.trainings) == (3, 6)
    assert found.share == pytest.approx(prediction["tasks"][TASK]["share"]["skipv1"]["2"])
    assert min(results.shares("4", TASK, "skipv1", 2)) == pytest.approx(found.share)
    assert results.sets_in("4", TASK, "vanilla", 2).trainings == 6


def test_a_model_that_predicts_zero_explains_nothing_whatever_prompts_were_drawn():
    prediction = predicted()
    measurement = measured(prediction, noise=0.0, share=lambda *_: 0.0)
    zero = prediction["tasks"][TASK]["zero_loss"]
    for by_steps in measurement["losses"].values():
        by_steps |= {steps: [1.05 * x for x in losses] for steps, losses in by_steps.items()}
    drawn = {**measurement, "power": {TASK: 1.05 * zero}}
    assert Results(prediction, drawn).shares("4", TASK, "vanilla", 2) == pytest.approx([0.0] * 6, abs=1e-12)
    assert Results(prediction, drawn).sets_in("4", TASK, "vanilla", 2).count == 0
    assert Results(prediction, measurement).shares("4", TASK, "vanilla", 2)[0] < -0.04


def test_worths_in_width_and_parameters():
    prediction = predicted()
    results = Results(prediction, measured(prediction, noise=1e-5))
    for rung in results.rungs:
        assert results.worth(rung, TASK, "skipv1", 2, less=0.001).factor == pytest.approx(2, rel=0.01)
        assert results.worth(rung, TASK, "shared-keys", 3).factor == pytest.approx(1, rel=0.01)
        in_parameters = results.worth(rung, TASK, "skipv1", 2, parameters=True, less=0.001)
        counts = prediction["parameters"]
        expected = counts[f"{rung}/{TASK}/vanilla/4"] / counts[f"{rung}/{TASK}/skipv1/2"]
        assert in_parameters.factor == pytest.approx(expected, rel=0.01)


def test_every_ingredient_in_words():
    def softmax_takes_it(prediction, point):
        base = as_the_toy(prediction, point)
        vanilla = prediction["tasks"][point.task.key]["share"]["vanilla"][str(point.width)]
        return vanilla if "softmax" in point.rung.ingredients else base

    prediction = predicted()
    results = Results(prediction, measured(prediction, share=softmax_takes_it, noise=0.001))
    words = {effect.after: (effect.word, effect.sentence) for effect in climbed(results) if effect.variant == "skipv1"}
    assert {rung: word for rung, (word, _) in words.items()} == {r: "breaks" if r == "4" else "keeps" for r in RUNGS}
    assert words["4"][1].startswith("adding softmax breaks skipv1's gap to vanilla at width d (d2-n8-s0.1), from 0.5")
    others = {(effect.before, effect.after): effect.word for effect in permuted(results)}
    assert others["norms+feed-forward", "softmax+norms+feed-forward"] == "breaks"
    assert others["softmax+norms+feed-forward", "6"] == "keeps"
    assert len(others) == 8
    assert not list(permuted(Results({**prediction, "orders": []}, results.measurement)))
    slow = Results(prediction, measured(prediction, noise=0.001, doubling=0.1))
    assert all("not all of these trainings have converged" in effect.sentence for effect in climbed(slow))


def test_two_tasks_stand_side_by_side():
    prediction = predicted(TWO_TASKS)
    results = Results(prediction, measured(prediction, TWO_TASKS))
    steps = {(effect.task, effect.before, effect.after) for effect in climbed(results)}
    assert steps == {(task.key, before, after) for task in TWO_TASKS.tasks for before, after in pairwise("123456")}
