"""Pictures of what rests on what: premises to the left, nothing on top of anything else, no wider than a page."""

import re
from itertools import pairwise

import pytest

from experiments import catalogue
from experiments.report.graph import BOX, Node, drawn

WIDEST = 1200  # what a page has room for on a screen of 1600 pixels


def node(name, *uses):
    return Node(uses, "verified", f"{name}.html", f"{name}, verified", name)


def boxes(picture):
    """By name: left, top and height of each."""
    found = re.findall(r'data-name="([^"]+)".*?<rect x="(\d+)" y="(\d+)" width="\d+" height="(\d+)"', picture)
    return {name: tuple(map(int, numbers)) for name, *numbers in found}


def ends(picture):
    """By premise and what uses it: where the line begins and ends."""
    found = re.findall(r'<path d="M(\S+) (\S+)C.*?(\d+) (\d+)" data-from="([^"]+)" data-to="([^"]+)"', picture)
    return {(premise, name): tuple(map(int, numbers)) for *numbers, premise, name in found}


def check(picture, uses):
    places, lines = boxes(picture), ends(picture)
    assert lines.keys() == {(premise, name) for name, premises in uses.items() for premise in premises}
    for (premise, name), (x0, y0, x1, y1) in lines.items():
        (left, top, high), (right, below, deep) = places[premise], places[name]
        assert left + BOX == x0 < x1 == right
        assert top <= y0 <= top + high
        assert below <= y1 <= below + deep


def test_lines_join_boxes_and_boxes_stand_apart():
    uses = {"a": (), "b": ("a",), "c": ("b", "a"), "d": ("a",), "e": ("c", "d", "a"), "other": (), "one": ("other",)}
    picture = drawn({name: node(name, *premises) for name, premises in uses.items()}, "all")
    check(picture, uses)
    assert picture.count("<svg") == 2
    assert picture.index('data-name="e"') < picture.index('data-name="one"')


@pytest.fixture(scope="module")
def pictures():
    """Of the rooms of the ledger, with their entries' premises."""
    found = {}
    for package in {claim.module.partition(".claims")[0] for claim in catalogue.claims().values()}:
        own = [c for c in catalogue.claims().values() if c.module.startswith(f"{package}.claims") and c.uses]
        uses = {name: () for claim in own for name in claim.uses} | {claim.id: claim.uses for claim in own}
        found[package] = uses, drawn({name: node(name, *premises) for name, premises in uses.items()}, package)
    return found


def test_the_ledger_fits_a_page(pictures):
    assert len(pictures) > 4
    for uses, picture in pictures.values():
        check(picture, uses)
        for part in picture.split("<svg")[1:]:
            assert int(re.search(r' width="(\d+)"', part)[1]) <= WIDEST
            stand = sorted(boxes(part).values())
            for (x, top, high), (other, below, _) in pairwise(stand):
                assert x != other or top + high < below


def test_names_are_text():
    hostile = 'a<b>"&'
    picture = drawn({hostile: node(hostile), "x": node("x", hostile)}, hostile)
    assert "<b>" not in picture
    assert "a&lt;b&gt;" in picture
