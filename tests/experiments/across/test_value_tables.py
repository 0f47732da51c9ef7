"""`value-tables`: verdicts turn with what they judge, and training leaves of a table what theory says."""

from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest

from experiments.across.value_tables import ARMS, EXPERIMENT, SMOKE, Cell, tables, train
from tests.experiments.committed import committed, failing, verdicts
from theory.toy.value_embeddings import least_missed, missed

judged, failed = partial(verdicts, EXPERIMENT), partial(failing, EXPERIMENT)
CELL = Cell("two", tokens=9, seed=3, width=4, steps=400)


@pytest.fixture
def stored():
    return committed(EXPERIMENT.name)


def test_theory_holds_in_the_committed_result(stored):
    assert set(judged(*stored).values()) == {"pass"}


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("tokens", ["8", "64"])
def test_another_share_fails(stored, arm, tokens):
    prediction, measurement = stored
    other = deepcopy(measurement)
    other[arm][tokens] = [share + 0.1 for share in other[arm][tokens]]
    assert failed(prediction, other) == {f"{arm}/{tokens}"}


def test_tables_that_tell_little_decide_nothing(stored):
    """Two tables of much spread: the interval holds the controls."""
    prediction, measurement = stored
    measurement["four"]["16"] = [
        share + change for share, change in zip(measurement["four"]["16"], (-0.2, 0.2), strict=False)
    ]
    assert judged(prediction, measurement)["four/16"] == "inconclusive"


@pytest.mark.parametrize("arm", ["one", "two", "four"])
def test_a_trained_embedding_ends_at_the_least_distance(arm):
    """Of its own table, not of the mean one."""
    cell = replace(CELL, arm=arm)
    table = tables(cell).numpy()
    assert train(cell)["missed"] == pytest.approx(least_missed(table, cell.width) / (table**2).sum(), abs=1e-4)


def test_a_given_embedding_ends_at_its_own_distance():
    from experiments.across.value_tables import decoder

    cell = replace(CELL, arm="map")
    embedding = decoder(cell).get_parameter("stem.embedding.weight").detach().numpy()
    table = tables(cell).numpy()
    assert train(cell)["missed"] == pytest.approx(missed(embedding, table) / (table**2).sum(), abs=1e-6)


def test_a_value_embedding_is_left_nothing():
    assert train(replace(CELL, arm="table"))["missed"] < 1e-9


def test_predictions_are_shares_and_grow_with_the_vocabulary():
    for name, arm in ARMS.items():
        shares = [arm.missed(n, 4)[0] for n in (2, 4, 8, 32)]
        assert shares == sorted(shares)
        assert shares[:2] == [0, 0]
        assert (0 < shares[2] < shares[3] < 1) == (name not in ("one", "table"))
    assert ARMS["map"].missed(SMOKE.tokens[1], SMOKE.width) == (0.75, 0.0)


def test_the_figure_is_drawn_of_what_is_stored(stored):
    (axis,) = EXPERIMENT.draw(*stored).axes
    assert len(axis.get_legend().get_texts()) == len(ARMS)
