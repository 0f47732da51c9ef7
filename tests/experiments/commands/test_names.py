"""Data from the words that a user writes."""

import pytest

from experiments.commands import names
from experiments.commands.training_options import TrainingOptions
from experiments.training.arms import PromptSource
from theory.errors import BadInput
from theory.plans.law import Law
from theory.plans.names import BadName

SIZES = "regression:d=5,n=20,sigma=0.1"


def source(words):
    options = TrainingOptions(preset="llama-2m", data=words, batch=4, steps=2)
    made = names.arm(names.model("llama-2m", None, {}), options)
    assert made.architecture.context == 41
    return made.source


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", PromptSource(5, 20, 0.1)),
        (",scored=all", PromptSource(5, 20, 0.1)),
        (",scored=last", PromptSource(5, 20, 0.1, scored="last")),
        (",spike=4", PromptSource(5, 20, 0.1, law=Law(spike=4))),
        (",decay=1.5,inputs=rademacher", PromptSource(5, 20, 0.1, law=Law(decay=1.5, inputs="rademacher"))),
        (",w0=-2,w0_random=1,w0_seed=3", PromptSource(5, 20, 0.1, law=Law(w0=-2, w0_random=1, w0_seed=3))),
        (",pool=64,pool_seed=1", PromptSource(5, 20, 0.1, law=Law(pool=64, pool_seed=1))),
    ],
)
def test_prompts_in_words(words, expected):
    assert source(SIZES + words) == expected


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("regression:", "regression"),
        ("recall:", "recall"),
        ("recall:pairs=4", "recall data are written recall:pairs=4,keys=16,values=16"),
        ("recall:pairs=4,keys=16,values=x", "recall data are written recall:pairs=4,keys=16,values=16"),
        ("recall:pairs=4,keys=16,values=16,sigma=1", "recall data are written recall:pairs=4,keys=16,values=16"),
        ("recall:pairs=4,keys=3,values=16", "keys must be at least as many as pairs, 4, got 3"),
        ("recall:pairs=4,keys=16,values=16,form=odd", "the form of recall is interleaved or paired, got 'odd'"),
        ("regression:d=5,n=20", "regression data are written regression:d=5,n=20,sigma=0.1"),
        ("regression:d=5,n=20,spike=4", "regression data are written regression:d=5,n=20,sigma=0.1"),
        ("regression:d=5,n=20,sigma=x", "regression data are written regression:d=5,n=20,sigma=0.1"),
        (SIZES + ",scored", "regression: scored must be all or last, got ''"),
        (SIZES + ",scored=", "regression: scored must be all or last, got ''"),
        (SIZES + ",held_out_prompts=8", "regression has no 'held_out_prompts'"),
        (SIZES + ",spike", "regression: spike must be a number, got ''"),
        (SIZES + ",spike=4,spike=5", "regression: spike is given twice"),
        (SIZES + ",pool=-1", "regression: pool must be from 0"),
    ],
)
def test_bad_words_are_told_in_one_line(words, says):
    with pytest.raises((BadInput, BadName)) as error:
        source(words)
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)
