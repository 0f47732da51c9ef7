"""Records that are packed come back as they were, and are written once where they agree."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.store.common import packed, unpacked

PLAIN = st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 2) | st.text("ab", max_size=1)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xyz", max_size=1), inner, max_size=3)
)
RECORDS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), max_size=5)


def written(records):
    return [json.dumps(record, sort_keys=True) for record in records]


@given(RECORDS)
def test_there_and_back(records):
    common, rest = packed(records)
    assert written(unpacked(common, rest)) == written(records)
    assert written(unpacked(*json.loads(json.dumps([common, rest])))) == written(records)


def test_what_all_have_is_written_once():
    records = [{"arm": {"sizes": [1, 2], "recipe": {"steps": 5, "rate": rate}}, "loss": rate} for rate in (0.1, 0.2)]
    common, rest = packed(records)
    assert common == {"arm": {"sizes": [1, 2], "recipe": {"steps": 5}}}
    assert rest[1] == {"arm": {"recipe": {"rate": 0.2}}, "loss": 0.2}


@pytest.mark.parametrize("other", [True, 1.0, "1", [1], None])
def test_what_is_written_differently_is_not_the_same(other):
    common, _ = packed([{"x": 1}, {"x": other}])
    assert common == {}


def test_nothing_in_common_with_none():
    assert packed([]) == ({}, [])
    assert unpacked({}, []) == []
