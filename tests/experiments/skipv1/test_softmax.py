"""`skipv1-softmax`: its checks reject what theory forbids."""

import copy

import pytest

from experiments.skipv1.softmax import EXPERIMENT, arm_key
from tests.experiments.committed import committed, verdicts

SIZE = "d2-n8-s0.3"


@pytest.fixture
def stored():
    return committed("skipv1-softmax")


def changed(prediction, before, after):
    """Ids of the judgements whose verdict an altered measurement changes, with the new verdicts."""
    return dict(verdicts(EXPERIMENT, prediction, after).items() - verdicts(EXPERIMENT, prediction, before).items())


def explaining(measurement, kind, toy, shares):
    """The measurement, if seeds of a model explained these shares."""
    return {**measurement, "explained": {**measurement["explained"], arm_key(SIZE, kind, toy): shares}}


def test_a_compressed_model_above_its_bound_fails(stored):
    prediction, measurement = stored
    bound = prediction["sizes"][SIZE]["compressed"]
    for kind in ("two heads", "three heads", "transformer"):
        altered = explaining(measurement, kind, "mha", [bound + 0.02 + 0.001 * i for i in range(6)])
        # and what was to show that the expectation can tell it apart, no longer does
        assert changed(prediction, measurement, altered) == {
            f"floor/{SIZE}/{kind}": "fail",
            f"beyond/{SIZE}/{kind}": "inconclusive",
        }


def test_a_model_above_the_posterior_mean_fails(stored):
    prediction, measurement = stored
    altered = explaining(measurement, "transformer", "skipv1", [1.0 + 0.001 * i for i in range(6)])
    assert changed(prediction, measurement, altered) == {f"bayes/{SIZE}/transformer": "fail"}


def test_raw_values_that_win_nothing_contradict(stored):
    prediction, measurement = stored
    ordinary = measurement["explained"][arm_key(SIZE, "three heads", "mha")]
    altered = explaining(measurement, "three heads", "skipv1", ordinary)
    assert changed(prediction, measurement, altered) == {
        f"beyond/{SIZE}/three heads": "contradicts",
        f"bayes/{SIZE}/three heads": "inconclusive",
    }


def test_weights_that_explain_less_than_linear_heads_fail(stored):
    prediction, measurement = stored
    altered = copy.deepcopy(measurement)
    place = f"{SIZE}/three heads"
    altered["constructions"][place]["explained"] = prediction["sizes"][SIZE]["linear"] - 0.03
    assert changed(prediction, measurement, altered) == {
        f"construction/{place}": "fail",
        f"beyond linear/{SIZE}": "fail",
    }


def test_nothing_is_expected_where_theory_knows_no_better_weights(stored):
    """Two heads and two pairs: theory's weights explain less than the best compressed model."""
    prediction, measurement = stored
    short = prediction["sizes"]["d2-n2-s0.3"]
    assert short["constructions"]["two heads"]["explained"] < short["compressed"]
    assert "beyond/d2-n2-s0.3/two heads" not in verdicts(EXPERIMENT, prediction, measurement)
