"""What deeper models of a variant change and two layers do not contain."""

from dataclasses import replace

import pytest

from theory.plans.deeper import beyond_two_layers, missing
from theory.plans.depth import DepthAttention
from theory.plans.names import resolve
from theory.plans.plan import NOTHING, Shape, k, plan, q, v
from theory.plans.variants import ours


def test_of_the_papers_variants_two_begin_after_layer_2():
    found = {name: beyond_two_layers(name, heads=4) for name in ours()}
    assert {name: beyond for name, beyond in found.items() if beyond != ()} == {
        "skipv2": ("values from layer 3 on",),
        "gemma-sharing": ("keys from layer 8 on", "values from layer 8 on"),  # three sevenths of 12 layers
    }


@pytest.mark.parametrize(
    ("rules", "changes"),
    [
        ({"values": lambda n, h: 2 * v(n, h) if n == 1 else v(n, h)}, ("values in layer 1",)),  # the assumed copy
        ({"keys": lambda n, h: k(max(1, n - 5), h)}, ()),
        ({"queries": lambda n, h: q(3, h) if n > 8 else q(n, h)}, ("queries from layer 9 on",)),
        ({"beside": lambda n, h: v(n, h) if n == 3 else NOTHING}, ("terms beside the attention in layer 3",)),
    ],
)
def test_changes_are_compared_by_kind_with_layer_2(rules, changes):
    assert beyond_two_layers(lambda shape: plan(shape, **rules), heads=2) == changes


def test_what_is_the_whole_plan_s_is_seen():
    flat, deep = plan(Shape(2, 1)), plan(Shape(4, 1))
    assert missing(flat, replace(deep, depth=DepthAttention())) == {"the depth rule": ""}
    assert missing(flat, replace(deep, dynamic="gate")) == {"values that depend on the query": ""}
    assert missing(resolve("attnres", Shape(2, 1)), resolve("attnres", Shape(4, 1))) == {}


def test_where_there_is_no_deeper_plan_nothing_is_known():
    def only_two(shape):
        return {2: plan(Shape(2, shape.heads))}[shape.layers]

    assert beyond_two_layers(only_two, heads=2) is None
    assert beyond_two_layers(lambda shape: None, heads=2) is None
    assert beyond_two_layers("vanilla", heads=65) is None
