"""The index of Dynamic Value Attention's paper is complete, in order, and judged by entries that exist."""

import pytest

from experiments import catalogue
from experiments.dva.index import INDEX, ITEMS, NOT_JUDGED
from theory.dva.paper import PAPER

LEDGER = catalogue.claims()
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


def test_items_are_said_once_and_their_entries_exist():
    assert len({item.place for item in ITEMS}) == len(ITEMS)
    for item in ITEMS:
        assert item.says.endswith(".")
        assert set(item.entries) <= set(LEDGER), item.place
        assert len(set(item.entries)) == len(item.entries)


def test_what_is_not_judged_says_why():
    assert {item.place for item in ITEMS if not item.entries} == set(NOT_JUDGED)
    assert all(NOT_JUDGED.values())


def test_every_entry_on_the_paper_is_reached():
    reached = {entry for item in ITEMS for entry in item.entries}
    about = {c.id for c in LEDGER.values() if c.paper in (PAPER.name, PAPER.ours) and c.id.startswith("dva.")}
    assert about == reached


def test_the_summary_counts():
    assert f"{len(ITEMS)} items, {len(NOT_JUDGED)} of them not judged" in INDEX.summary(LEDGER)
