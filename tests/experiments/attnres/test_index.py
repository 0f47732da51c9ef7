"""The index of Attention Residuals has every sentence of the summary, in order."""

import pytest

from experiments.attnres.index import ITEMS

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
