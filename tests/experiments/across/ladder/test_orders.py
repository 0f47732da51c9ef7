"""The order of the variants on a rung, against the toy's."""

from dataclasses import replace

from experiments.across.ladder.orders import levels, order, places
from experiments.across.ladder.reading import Results

from .made_up import CONFIG, TWO_TASKS, judged, measured, predicted, verdicts

TASK = CONFIG.tasks[0].key


def test_the_order_of_the_toy_and_of_a_rung():
    prediction = predicted(TWO_TASKS)
    results = Results(prediction, measured(prediction, TWO_TASKS, noise=0.001))
    narrow, wide = (task.key for task in TWO_TASKS.tasks)
    known = levels(results, narrow)
    assert "attnres" not in known
    assert known["skipv1"] == known["resformer"] == known["first-added"] == 0
    assert (known["shared-keys"], known["vanilla"], known["skipv0"]) == (1, 2, 2)
    assert levels(results, wide)["shared-keys"] == levels(results, wide)["vanilla"] == 1
    assert ("skipv1", "vanilla") in order(results, "6", narrow)
    assert ("shared-keys", "vanilla") in order(results, "6", narrow)


def test_places_are_the_middles_of_what_is_possible():
    assert places("abc", [("a", "b"), ("a", "c"), ("b", "c")]) == {"a": 1, "b": 2, "c": 3}
    assert places("abc", [("a", "c")]) == {"a": 1.5, "b": 2, "c": 2.5}
    assert places("ab", []) == {"a": 1.5, "b": 1.5}


def test_one_model_with_two_names_counts_once_in_the_order():
    prediction = predicted()
    measurement = measured(prediction, noise=0.001)
    assert Results(prediction, measurement).distinct("4", TASK, 2)[:2] == ["vanilla", "skipv1"]
    measurement["losses"][f"4/{TASK}/resformer/2"] = measurement["losses"][f"4/{TASK}/skipv1/2"]
    results = Results(prediction, measurement)
    assert "resformer" not in results.distinct("4", TASK, 2)
    assert not any("resformer" in pair for pair in order(results, "4", TASK))
    assert any("resformer" in pair for pair in order(results, "5", TASK))


def test_an_order_that_cannot_be_told_from_chance_is_undecided():
    config = replace(CONFIG, variants=("vanilla", "skipv1", "svformer"), orders=())
    prediction = predicted(config)
    assert judged(verdicts(prediction, measured(prediction, config)), "order/") == {"undecided"}
