"""A ladder of several tasks: its figure, and what is said of rungs between which others are left out."""

from dataclasses import replace
from itertools import pairwise

import pytest

from experiments.across.ladder.ingredients import climbed
from experiments.across.ladder.reading import Results
from experiments.drawing.style import drawing

from .made_up import EXPERIMENT, TWO_TASKS, measured, predicted

SEVERAL = EXPERIMENT.profiles["tasks"].config


@pytest.mark.parametrize(("only", "axes"), [(("3",), 2), (("3", "6"), 4), (("2", "3", "6"), 4)])
def test_several_tasks_are_drawn_side_by_side(only, axes):
    config = replace(SEVERAL, only=only)
    prediction = predicted(config)
    with drawing():
        figure = EXPERIMENT.draw(prediction, measured(prediction, config))
    assert len(figure.axes) == axes
    tasks = [f"d = {t.d}, n = {t.n}" for t in config.tasks]
    for axis in figure.axes:
        assert [text.get_text().partition("\n")[0] for text in axis.get_xticklabels()] == tasks
    shown = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"vanilla", *prediction["variants"], "Bayes ridge"} <= shown


def test_the_toy_s_leads_are_drawn_where_the_theory_has_them():
    """Each task's line of a variant stands at the difference of the toy's shares."""
    prediction = predicted(SEVERAL)
    with drawing():
        figure = EXPERIMENT.draw(prediction, measured(prediction, SEVERAL))
    levels = {round(float(line.get_ydata()[0]), 9) for line in figure.axes[1].lines if len(line.get_ydata()) == 2}
    for numbers in prediction["tasks"].values():
        share, d = numbers["share"], str(numbers["d"])
        assert round(share["svformer"][d] - share["vanilla"][d], 9) in levels


def test_a_task_without_time_is_left_out():
    prediction = predicted(SEVERAL)
    few = replace(SEVERAL, tasks=SEVERAL.tasks[:2])
    with drawing():
        figure = EXPERIMENT.draw(prediction, measured(predicted(few), few))
    assert len(figure.axes[0].get_xticklabels()) == 2


def test_rungs_left_out_are_named_in_what_is_added():
    config = replace(TWO_TASKS, only=("3", "6"))
    prediction = predicted(config)
    found = {(e.before, e.after): e.added for e in climbed(Results(prediction, measured(prediction, config)))}
    assert found["3", "6"] == "softmax, norms and a feed-forward"


def test_on_the_whole_ladder_an_ingredient_is_all_that_is_added():
    prediction = predicted(TWO_TASKS)
    found = {(e.before, e.after): e.added for e in climbed(Results(prediction, measured(prediction, TWO_TASKS)))}
    names = ["a trained first layer", "a residual stream", "softmax", "norms", "a feed-forward"]
    assert [found[pair] for pair in pairwise("123456")] == names
