"""What theory says of recall, plan by plan."""

import math

import pytest

from theory.errors import BadInput
from theory.plans.heads import NotCovered
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.recall import RecallSetting
from theory.toy.recall_prediction import predict_recall

SETTING = RecallSetting(pairs=4, keys=16, values=8)
SHAPE = Shape(2, 2)


@pytest.mark.parametrize(
    ("variant", "width"),
    [("vanilla", 4), ("skipv0", 4), ("svformer", 2), ("skipv1", 2), ("resformer", 2), ("shared-keys", None)],
)
def test_how_wide_a_token_has_to_be(variant, width):
    found = predict_recall(resolve(variant, SHAPE), SETTING)
    assert (found.least_width, found.vanilla_width, found.floor) == (width, 4, 0.0)
    assert (found.guess, found.plateau) == (math.log(8), math.log(4))


def test_keys_and_values_of_layer_1_alone_do_not_recall():
    found = predict_recall(resolve("shared-keys+svformer", SHAPE), SETTING)
    assert (found.floor, found.least_width) == (math.log(4), None)


def test_where_a_token_holds_both_no_plan_is_ahead():
    paired = RecallSetting(pairs=4, keys=16, values=8, form="paired")
    assert len({predict_recall(resolve(name, SHAPE), paired) for name in ("vanilla", "svformer", "shared-keys")}) == 1
    assert predict_recall(resolve("vanilla", SHAPE), paired).least_width == 2


def test_two_keys_or_values_need_a_number_less():
    few = RecallSetting(pairs=2, keys=2, values=8)
    assert [predict_recall(resolve(name, SHAPE), few).least_width for name in ("vanilla", "svformer")] == [3, 2]


def test_what_is_not_covered():
    with pytest.raises(NotCovered, match="three or more"):
        predict_recall(resolve("vanilla", SHAPE), RecallSetting(pairs=1, keys=1, values=8))
    with pytest.raises(NotCovered, match="three or more"):
        predict_recall(resolve("vanilla", SHAPE), RecallSetting(pairs=2, keys=4, values=2, form="paired"))
    with pytest.raises(BadInput):
        predict_recall(resolve("attnres", SHAPE), SETTING)
