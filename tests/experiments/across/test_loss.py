"""`scale-loss`: curves at vanilla's learning rate alone, both rates named at the end."""

import json

import pytest

from experiments import catalogue
from experiments.drawing.style import drawing
from experiments.training.campaign import BASELINE, TWIN

EXPERIMENT = catalogue.experiment("scale-loss")
CONFIG = EXPERIMENT.profiles["cpu"].config


@pytest.fixture
def both():
    """What is predicted, and a measurement in which SVFormer alone has another rate than vanilla."""
    prediction = json.loads(json.dumps(EXPERIMENT.predict(CONFIG)))
    names = [*CONFIG.variants, TWIN]
    best = {name: 0.008 if name == "svformer" else 0.004 for name in CONFIG.variants}
    return prediction, {
        "seeds": 3,
        "tuning": {"tuned": True, "best": best, "losses": {name: {"0.002": 3, "0.016": 3} for name in best}},
        "loss": {name: [3.0 + 0.01 * i * (i + k) for i in range(3)] for k, name in enumerate(names)},
        "curves": {name: [[[20, 4.0], [40, 3.5 + 0.01 * i]] for i in range(3)] for name in names},
    }


def test_a_curve_at_another_rate_is_not_drawn(both):
    with drawing():
        curves, final = EXPERIMENT.draw(*both).axes
    shown = curves.get_legend_handles_labels()[1]
    assert "svformer" not in shown
    assert {BASELINE, "skipv1", "vanilla, other initial weights"} <= set(shown)
    labels = [text.get_text() for text in final.get_yticklabels()]
    assert [label for label in labels if "rates" in label] == [
        label for label in labels if label.startswith("svformer")
    ]


def test_both_rates_are_named_at_the_end(both):
    groups = {check.id: check.group for check in EXPERIMENT.compare(*both)}
    assert groups["paper/svformer"].endswith("(rates 0.008 and 0.004)")
    assert "rates" not in groups["paper/skipv1"]
