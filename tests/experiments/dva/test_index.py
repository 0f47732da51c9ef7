"""The index of Dynamic Value Attention's paper has every numbered item, in order."""

import pytest

from experiments.dva.index import ITEMS

NUMBERED = [*(f"Eqn. ({i})" for i in range(1, 9)), "Table 1", "Table 2", *(f"Fig. {i}" for i in range(1, 5))]
PARTS = [
    "abstract",
    "section 1",
    *(f"section 2.{i}" for i in (1, 2, 3)),
    *(f"section 3.{i}" for i in (1, 2)),
    *(f"section {i}" for i in (4, 5, 6, 7)),
]


@pytest.mark.parametrize("name", NUMBERED)
def test_every_numbered_item_is_there(name):
    assert sum(item.place.endswith(f", {name}") for item in ITEMS) == 1


def test_the_parts_are_all_there_and_in_order():
    parts = [PARTS.index(item.place.partition(", ")[0]) for item in ITEMS]
    assert parts == sorted(parts)
    assert set(parts) == set(range(len(PARTS)))
