"""The campaign's one recipe: lengths, what they share, names that outlast the text."""

from dataclasses import replace
from itertools import pairwise

import pytest

from experiments.campaign.profiles import CAMPAIGN
from experiments.campaign.setting import FAN_IN, LINES, Cell
from experiments.training.trunks import trunks
from theory.errors import BadInput

WIDTHS = (32, 48, 64, 80)
CELL = Cell(variant="svformer", width=48, rate=8e-3)


@pytest.mark.parametrize("width", WIDTHS)
def test_lengths_are_met_to_within_half_a_line_of_the_shortest(width):
    for length in CAMPAIGN.lengths:
        found = CAMPAIGN.tokens(width, length) / CAMPAIGN.parameters(width)
        assert abs(found / length - 1) < 0.5 / LINES
    assert [b / a for a, b in pairwise(CAMPAIGN.steps(width, at) for at in CAMPAIGN.lengths)] == [2.0] * 5


def test_no_token_is_read_twice():
    assert CAMPAIGN.tokens(max(WIDTHS), max(CAMPAIGN.lengths)) <= CAMPAIGN.corpus.tokens


@pytest.mark.parametrize("width", WIDTHS)
def test_a_training_of_all_lengths_is_one_trunk_with_cool_downs_of_a_fifth(width):
    arms = list(CAMPAIGN.arms(replace(CELL, width=width), 3).values())
    (trunk,) = trunks(arms)
    longest = arms[-1].recipe
    assert trunk.steps() == round(0.8 * longest.steps + 0.2 * sum(arm.recipe.steps for arm in arms))
    for arm in arms:
        falls = arm.recipe.begins_to_fall()
        assert falls == round(0.8 * arm.recipe.steps)
        assert falls % arm.recipe.log_every == 0
        assert [arm.recipe.rate(s) for s in range(falls)] == [longest.rate(s) for s in range(falls)]


def test_a_training_is_known_without_its_text():
    assert CAMPAIGN.arms(CELL, 0)[5.0].key("cpu") == CAMPAIGN.arms(CELL, 0, "anywhere")[5.0].key("cpu")


def test_what_makes_another_training():
    others = [
        replace(CELL, rate=4e-3),
        replace(CELL, std=FAN_IN),
        replace(CELL, twin=1),
        replace(CELL, twin=2),
        replace(CELL, width=64),
        replace(CELL, variant="vanilla"),
    ]
    arms = [CAMPAIGN.arms(cell, 0)[2.5] for cell in (CELL, *others)]
    assert len({arm.key("cpu") for arm in arms}) == len(arms)
    assert arms[2].std == pytest.approx(48**-0.5)


def test_every_twin_has_weights_of_its_own_on_the_same_data():
    arms = [CAMPAIGN.arms(replace(CELL, width=32, twin=twin), 0)[2.5] for twin in (0, 1, 2)]
    first = [next(arm.model("cpu").parameters()).sum().item() for arm in arms]
    assert len(set(first)) == 3
    assert len({arm.seed for arm in arms}) == 1


def test_lengths_that_do_not_double_are_refused():
    with pytest.raises(BadInput, match="twice"):
        replace(CAMPAIGN, lengths=(1.0, 3.0))
