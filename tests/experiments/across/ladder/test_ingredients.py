"""What is made of an ingredient: nothing where no model learns, or where the twin changes as much."""

import pytest

from experiments.across.ladder.ingredients import climbed
from experiments.across.ladder.reading import Results

from .made_up import CONFIG, as_the_toy, measured, predicted, verdicts

TASK = CONFIG.tasks[0].key


def test_of_an_ingredient_that_leaves_nothing_learned_nothing_is_made():
    def fails(prediction, point):
        return 0.06 if "softmax" in point.rung.ingredients else as_the_toy(prediction, point)

    prediction = predicted()
    measurement = measured(prediction, share=fails)
    (effect,) = (e for e in climbed(Results(prediction, measurement)) if (e.after, e.variant) == ("4", "skipv1"))
    assert (effect.word, effect.doubt) == ("breaks", "no model there explains as much as the toy's vanilla")
    assert verdicts(prediction, measurement)[f"ingredient/3 to 4/{TASK}/skipv1"] == "inconclusive"


@pytest.mark.parametrize(("of_twin", "verdict"), [(0.0, "contradicts"), (0.3, "inconclusive"), (-0.5, "inconclusive")])
def test_a_change_that_the_twin_has_too_is_none_of_the_variant_s(of_twin, verdict):
    def shifted(prediction, point):
        late = "softmax" in point.rung.ingredients
        return as_the_toy(prediction, point) + late * {"skipv1": -0.2, "twin": of_twin}.get(point.variant, 0.0)

    prediction = predicted()
    found = verdicts(prediction, measured(prediction, share=shifted, noise=0.001))
    assert found[f"ingredient/3 to 4/{TASK}/skipv1"] == verdict
    assert found[f"ingredient/3 to 4/{TASK}/resformer"] == "agrees"
