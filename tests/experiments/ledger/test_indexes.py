"""Every paper's index has each part and numbered item, in order; entries that exist judge it, or it says why not."""

import re

import pytest

import experiments.attnres.index as attnres
import experiments.dva.index as dva
import experiments.resformer.index as resformer
import experiments.skipv1.index as skipv1
from experiments import catalogue
from theory.attnres import paper as of_attnres
from theory.dva import paper as of_dva
from theory.resformer import paper as of_resformer
from theory.skipv1 import paper as of_skipv1

LEDGER = catalogue.claims()
PAPERS = {"attnres": of_attnres.PAPER, "dva": of_dva.PAPER, "resformer": of_resformer.PAPER, "skipv1": of_skipv1.PAPER}
INDEXES = {"attnres": attnres, "dva": dva, "resformer": resformer, "skipv1": skipv1}
PARTS = {
    "attnres": ["introduction", "summary", "section 4.2", "section 5", "section 5.1", "ablations", "section 6.2"],
    "dva": [
        *("abstract", "section 1"),
        *(f"section {i}" for i in ("2.1", "2.2", "2.3", "3.1", "3.2", "4", "5", "6", "7")),
    ],
    "resformer": [
        *("abstract", "section 1"),
        *(f"section 2.{i}" for i in (1, 2)),
        *(f"section 3.{i}" for i in range(1, 6)),
        *(f"section 4.1.{i}" for i in range(1, 5)),
        *(f"section 4.{i}" for i in range(2, 9)),
        "reproducibility statement",
        *(f"appendix A.{i}" for i in range(1, 7)),
    ],
}


@pytest.mark.parametrize("name", INDEXES)
def test_an_index(name):
    index, paper = INDEXES[name], PAPERS[name]
    items, bare = index.ITEMS, getattr(index, "NOT_JUDGED", {})
    assert len({item.place for item in items}) == len(items)
    for item in items:
        assert item.place
        assert item.says.endswith(".")
        assert set(item.entries) <= set(LEDGER), item.place
        assert len(set(item.entries)) == len(item.entries)
    assert {item.place for item in items if not item.entries} == set(bare)
    assert all(bare.values())
    reached = {entry for item in items for entry in item.entries}
    about = {c.id for c in LEDGER.values() if c.paper in (paper.name, paper.ours)}
    if name == "skipv1":  # of its paper the appendix alone
        about = {i for i in about if i.startswith("skipv1.") and LEDGER[i].paper == paper.name}
        about = {i for i in about if "appendix A" in LEDGER[i].place}
    if name == "resformer":
        about |= {entry for entry in LEDGER if entry.startswith("resformer.")}
    assert about <= reached, sorted(about - reached)
    assert reached == about or name in ("resformer", "skipv1")
    line = index.INDEX.summary(LEDGER)
    counts = re.findall(r"(\d+) (?:verified|corrected|refuted|inconclusive|open)", line)
    assert sum(map(int, counts)) == len(reached)
    assert f"{len(items)} items, {f'{len(bare)} of them not judged' if bare else 'judged by'}" in line
    assert f"{len(reached)} entries" in line
    assert index.INDEX in catalogue.indexes()


@pytest.mark.parametrize("name", PARTS)
def test_the_parts_are_all_there_and_in_order(name):
    parts = [PARTS[name].index(item.place.partition(", ")[0]) for item in INDEXES[name].ITEMS]
    assert parts == sorted(parts)
    assert set(parts) == set(range(len(PARTS[name])))


# What the summary says, by a word of it: every sentence, formula, function of the pseudo-code and table.
SAID = (
    *("three forms", "drop-in", "unit weights", "dilution", "growth", "formula", "pseudo-query", "selective"),
    *("memory of Full", "blocks", "eight blocks", "overhead", "pseudo-code", "all budgets", "1.25", "downstream table"),
    *("across the board", "largest gains", "mitigation", "bounded", "gradients"),
)


@pytest.mark.parametrize("word", SAID)
def test_every_sentence_of_the_summary_of_attention_residuals_is_there(word):
    assert any(word in item.place for item in attnres.ITEMS if item.place.startswith("summary, "))


# By looking for "(i)" at the end of displays, for "Table i:" and for "Figure i:"; there are no algorithms or theorems.
NUMBERED = {
    "dva": [*(f"Eqn. ({i})" for i in range(1, 9)), "Table 1", "Table 2", *(f"Fig. {i}" for i in range(1, 5))],
    "resformer": [
        *(f"Eqn. ({i})" for i in range(1, 14)),
        *(f"Table {i}" for i in range(1, 6)),
        *(f"Fig. {i}" for i in range(1, 22)),
    ],
    "skipv1": [
        *("Theorem 1", "Theorem 2", "Assumption 1"),
        *(f"Lemma {i}" for i in (1, 2, 3, 4)),
        *(f"Eqn. ({i})" for i in range(1, 15)),
    ],
}
SIDES, THREE = {" (left)", " (right)"}, {" (left)", " (middle)", " (right)"}
PANELS = {"Fig. 1": THREE, "Fig. 5": THREE, "Fig. 13": SIDES, "Fig. 14": SIDES}


def numbered(index, place):
    """What an item is itself, without its section: Fig. 1 (left), and not a remark on it or a step of its proof."""
    if index == "skipv1":
        return place.removeprefix("section 4, ").split(", ")[0]
    return place.partition(", ")[2]


@pytest.mark.parametrize(("index", "name"), [(index, name) for index, names in NUMBERED.items() for name in names])
def test_every_numbered_item_is_there(index, name):
    places = [numbered(index, item.place) for item in INDEXES[index].ITEMS]
    panels = {place.removeprefix(name) for place in places if place.startswith(name)}
    match index:
        case "dva":
            assert sum(item.place.endswith(f", {name}") for item in dva.ITEMS) == 1
        case "resformer":
            assert {rest for rest in panels if not rest[:1].isdigit()} == PANELS.get(name, {""})
            assert not any(numbered(index, place) == name for place in resformer.NOT_JUDGED)
        case _:
            assert name in places


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        *(("resformer", kind) for kind in (r"Eqn\. \((\d+)\)", r"Table (\d)")),
        *(("skipv1", f"(?:section 4, )?{kind}") for kind in (r"Eqn\. \((\d+)\)", r"Theorem (\d)", r"Lemma (\d)")),
    ],
)
def test_numbered_items_are_in_the_order_of_the_text(index, kind):
    places = [item.place if index == "skipv1" else numbered(index, item.place) for item in INDEXES[index].ITEMS]
    found = [int(m[1]) for place in places if (m := re.match(kind, place))]
    assert found == sorted(found)
    assert len(found) == len(set(found)) or index == "skipv1"


def test_every_proof_of_skipv1former_s_appendix_is_walked_through():
    for start in ("Lemma 1", "Lemma 2", "Lemma 4", "the theorem"):
        assert sum(item.place.startswith(f"proof of {start}, ") for item in skipv1.ITEMS) >= 5
