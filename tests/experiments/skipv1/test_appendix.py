"""The index of SkipV1Former's appendix A is complete, in order, and judged by entries that exist."""

import re

import pytest

from experiments import catalogue
from experiments.skipv1.index import INDEX, ITEMS
from theory.skipv1.paper import PAPER

LEDGER = catalogue.claims()

NUMBERED = [
    *(f"Theorem {i}" for i in (1, 2)),
    "Assumption 1",
    *(f"Lemma {i}" for i in (1, 2, 3, 4)),
    *(f"Eqn. ({i})" for i in range(1, 15)),
]


def _is(name: str, place: str) -> bool:
    """Whether the item at `place` is the numbered one itself, and not a step of its proof or a remark on it."""
    return place.removeprefix("section 4, ").split(", ")[0] == name


@pytest.mark.parametrize("name", NUMBERED)
def test_every_numbered_item_is_there(name):
    assert any(_is(name, item.place) for item in ITEMS)


def test_numbered_items_are_in_the_order_of_the_text():
    for kind in (r"Eqn\. \((\d+)\)", r"Theorem (\d)", r"Lemma (\d)"):
        found = [int(m[1]) for item in ITEMS if (m := re.match(f"(?:section 4, )?{kind}", item.place))]
        assert found == sorted(found)


def test_every_item_is_said_and_judged():
    for item in ITEMS:
        assert item.place
        assert item.says.endswith(".")
        assert item.entries
        assert set(item.entries) <= set(LEDGER), item.place
        assert len(set(item.entries)) == len(item.entries)


def test_places_are_different():
    places = [item.place for item in ITEMS]
    assert len(set(places)) == len(places)


def test_every_entry_on_the_appendix_is_reached():
    reached = {entry for item in ITEMS for entry in item.entries}
    about = {c.id for c in LEDGER.values() if c.paper == PAPER.name and "appendix A" in c.place}
    assert {i for i in about if i.startswith("skipv1.")} <= reached


def test_every_proof_is_walked_through():
    for start in ("Lemma 1", "Lemma 2", "Lemma 4", "the theorem"):
        assert sum(item.place.startswith(f"proof of {start}, ") for item in ITEMS) >= 5


def test_summary_counts_every_entry_once():
    line = INDEX.summary(LEDGER)
    judged = {entry for item in ITEMS for entry in item.entries}
    counts = [int(count) for count in re.findall(r"(\d+) (?:verified|corrected|refuted|inconclusive|open)", line)]
    assert sum(counts) == len(judged)
    assert f"{len(ITEMS)} items" in line
    assert f"{len(judged)} entries" in line
