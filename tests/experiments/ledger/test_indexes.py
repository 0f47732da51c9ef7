"""Every paper's index says each item once, names entries that exist, reaches all on its paper, and gives reasons."""

import pytest

import experiments.attnres.index as attnres
import experiments.dva.index as dva
from experiments import catalogue
from theory.attnres import paper as of_attnres
from theory.dva import paper as of_dva

LEDGER = catalogue.claims()
PAPERS = [(attnres, of_attnres.PAPER), (dva, of_dva.PAPER)]


@pytest.mark.parametrize(("index", "paper"), PAPERS, ids=["attnres", "dva"])
def test_an_index(index, paper):
    items, bare = index.ITEMS, index.NOT_JUDGED
    assert len({item.place for item in items}) == len(items)
    for item in items:
        assert item.says.endswith(".")
        assert set(item.entries) <= set(LEDGER), item.place
        assert len(set(item.entries)) == len(item.entries)
    assert {item.place for item in items if not item.entries} == set(bare)
    assert all(bare.values())
    reached = {entry for item in items for entry in item.entries}
    assert reached == {c.id for c in LEDGER.values() if c.paper in (paper.name, paper.ours)}
    assert f"{len(items)} items, {len(bare)} of them not judged" in index.INDEX.summary(LEDGER)
    assert index.INDEX in catalogue.indexes()
