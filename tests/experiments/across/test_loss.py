"""`scale-loss`: what is compared at two learning rates names both, and is compared at the end alone."""

from pathlib import Path

from experiments import catalogue
from experiments.drawing import style
from experiments.store.folders import RunFolder

RUN = RunFolder(Path(__file__).parents[3] / "results" / "scale-loss")
EXPERIMENT = catalogue.experiment("scale-loss")


def test_both_rates_are_named_and_a_curve_at_another_rate_is_left_out():
    prediction, measurement = RUN.read("prediction.json"), RUN.read("measurement.json")
    best = measurement["tuning"]["best"]
    others = {name for name, rate in best.items() if rate != best["vanilla"]}
    assert others
    for check in EXPERIMENT.compare(prediction, measurement):
        name = check.id.partition("/")[2]
        assert ("(rates " in check.statement) == (name in others)
    with style.drawing():
        axis = EXPERIMENT.draw(prediction, measurement).axes[0]
    drawn = {str(line.get_label()).partition(" ")[0] for line in axis.get_lines()}
    assert drawn >= best.keys() - others
    assert not drawn & others
