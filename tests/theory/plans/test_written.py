"""Plans as JSON: what is read back is what was written, and what is none is refused in one line."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.testing import plans
from theory.errors import BadInput
from theory.plans.identity import text
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.variants import VARIANTS
from theory.plans.written import from_json, to_json


@settings(max_examples=60)
@given(plans() | plans(streams=True) | plans(tables=True))
@pytest.mark.long
def test_any_plan_is_read_back(plan):
    read = from_json(json.loads(json.dumps(to_json(plan))))
    assert read == plan
    assert text(read) == text(plan)


@pytest.mark.parametrize("name", VARIANTS)
def test_named_variants_are_read_back(name):
    plan = resolve(name, Shape(4, 4))
    assert from_json(json.loads(json.dumps(to_json(plan)))) == plan


def changed(change):
    content = copy.deepcopy(to_json(resolve("resformer", Shape(2, 2))))
    change(content)
    return content


WRONG = {
    "nothing": lambda c: c.clear(),
    "no depth of that kind": lambda c: c["depth"].update(kind="Deep"),
    "a depth rule with another field": lambda c: c["depth"].update(size=1),
    "a row too few": lambda c: c["table"].pop(),
    "a source of a later layer": lambda c: c["table"][0][0]["values"][0][0].__setitem__(2, 2),
    "a source that is not there": lambda c: c["table"][0][0]["values"][0][0].__setitem__(3, 9),
    "a kind that there is not": lambda c: c["table"][0][0]["values"][0][0].__setitem__(1, "w"),
    "a word for a weight": lambda c: c["table"][0][0]["values"][0][0].__setitem__(0, "half"),
    "a yes for a weight": lambda c: c["table"][0][0]["values"][0][0].__setitem__(0, True),
    "a nameless weight": lambda c: c["table"][0][0]["values"][0][0].__setitem__(0, {"start": 1.0}),
    "a number for a name": lambda c: c["table"][0][0]["values"][0][0].__setitem__(0, {"name": 1, "start": 1.0}),
    "half a layer": lambda c: c["table"][1][0]["values"][0][0].__setitem__(2, 1.5),
    "no values": lambda c: c["table"][1][0].pop("values"),
    "a word for a flag": lambda c: c.update(feed_forward="no"),
    "dynamics of its own": lambda c: c.update(dynamic="much"),
    "more layers than can be counted": lambda c: c.update(layers=10**400),
    "a weight beyond all numbers": lambda c: c["table"][0][0]["values"][0][0].__setitem__(0, 10**400),
    "half a head": lambda c: c.update(heads=2.5),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_plan_is_refused(wrong):
    with pytest.raises(BadInput) as stop:
        from_json(changed(WRONG[wrong]))
    assert "\n" not in str(stop.value)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_whatever_stands_there_ends_in_a_plan_or_in_one_line(content):
    with pytest.raises(BadInput):
        from_json(content)
