"""The index of Attention Residuals is in order, judged by entries that exist, and reaches all of them."""

import pytest

from experiments import catalogue
from experiments.attnres.index import INDEX, ITEMS, NOT_JUDGED
from theory.attnres.paper import PAPER

LEDGER = catalogue.claims()
PARTS = ["introduction", "summary", "section 4.2", "section 5", "section 5.1", "ablations", "section 6.2"]
# What the summary says, by a word of it: every sentence, formula, function of the pseudo-code and table.
SAID = [
    "three forms",
    "drop-in",
    "unit weights",
    "dilution",
    "growth",
    "formula",
    "pseudo-query",
    "selective",
    "memory of Full",
    "blocks",
    "eight blocks",
    "overhead",
    "pseudo-code",
    "all budgets",
    "1.25",
    "downstream table",
    "across the board",
    "largest gains",
    "mitigation",
    "bounded",
    "gradients",
]


@pytest.mark.parametrize("word", SAID)
def test_every_sentence_of_the_summary_is_there(word):
    assert any(word in item.place for item in ITEMS if item.place.startswith("summary, "))


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
    about = {c.id for c in LEDGER.values() if c.paper in (PAPER.name, PAPER.ours)}
    assert about == reached


def test_the_summary_counts():
    assert f"{len(ITEMS)} items, {len(NOT_JUDGED)} of them not judged" in INDEX.summary(LEDGER)
