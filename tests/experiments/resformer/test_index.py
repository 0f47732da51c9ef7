"""The index of ResFormer's paper is complete, in order, and judged by entries that exist."""

import re

import pytest

from experiments import catalogue
from experiments.resformer.index import INDEX, ITEMS, NOT_JUDGED
from theory.resformer.paper import PAPER

LEDGER = catalogue.claims()

# By looking for "(i)" at the end of displays, for "Table i:" and for "Figure i:"; there are no algorithms or theorems.
NUMBERED = [
    *(f"Eqn. ({i})" for i in range(1, 14)),
    *(f"Table {i}" for i in range(1, 6)),
    *(f"Fig. {i}" for i in range(1, 22)),
]
PANELS = {
    "Fig. 1": {"left", "middle", "right"},
    "Fig. 5": {"left", "middle", "right"},
    "Fig. 13": {"left", "right"},
    "Fig. 14": {"left", "right"},
}
PARTS = [
    "abstract",
    "section 1",
    *(f"section 2.{i}" for i in (1, 2)),
    *(f"section 3.{i}" for i in range(1, 6)),
    *(f"section 4.1.{i}" for i in range(1, 5)),
    *(f"section 4.{i}" for i in range(2, 9)),
    "reproducibility statement",
    *(f"appendix A.{i}" for i in range(1, 7)),
]


def _numbered(place):
    """What an item is itself, without its section: Fig. 1 (left), and not a remark on it."""
    return place.partition(", ")[2]


@pytest.mark.parametrize("name", NUMBERED)
def test_every_numbered_item_is_there(name):
    found = [_numbered(item.place).removeprefix(name) for item in ITEMS if _numbered(item.place).startswith(name)]
    expected = {f" ({panel})" for panel in PANELS[name]} if name in PANELS else {""}
    assert {rest for rest in found if not rest[:1].isdigit()} == expected


def test_the_parts_are_all_there_and_in_the_order_of_the_text():
    parts = [PARTS.index(item.place.partition(", ")[0]) for item in ITEMS]
    assert parts == sorted(parts)
    assert set(parts) == set(range(len(PARTS)))


@pytest.mark.parametrize("kind", [r"Eqn\. \((\d+)\)", r"Table (\d)"])
def test_equations_and_tables_are_in_order(kind):
    found = [int(m[1]) for item in ITEMS if (m := re.match(kind, _numbered(item.place)))]
    assert found == sorted(found)
    assert len(found) == len(set(found))


def test_every_item_is_said_and_its_entries_exist():
    for item in ITEMS:
        assert item.says.endswith(".")
        assert set(item.entries) <= set(LEDGER), item.place
        assert len(set(item.entries)) == len(item.entries)


def test_what_is_not_judged_says_why():
    assert {item.place for item in ITEMS if not item.entries} == set(NOT_JUDGED)
    assert all(NOT_JUDGED.values())
    assert not any(_numbered(place) in NUMBERED for place in NOT_JUDGED)


def test_places_are_different():
    places = [item.place for item in ITEMS]
    assert len(set(places)) == len(places)


def test_every_entry_on_the_paper_is_reached():
    reached = {entry for item in ITEMS for entry in item.entries}
    about = {c.id for c in LEDGER.values() if c.paper in (PAPER.name, PAPER.ours)}
    assert about <= reached, sorted(about - reached)
    assert {entry for entry in LEDGER if entry.startswith("resformer.")} <= reached


def test_summary_counts_every_entry_once_and_says_what_is_not_judged():
    line = INDEX.summary(LEDGER)
    judged = {entry for item in ITEMS for entry in item.entries}
    counts = [int(count) for count in re.findall(r"(\d+) (?:verified|corrected|refuted|inconclusive|open)", line)]
    assert sum(counts) == len(judged)
    assert f"{len(ITEMS)} items, {len(NOT_JUDGED)} of them not judged" in line
