"""Dynamic Value Attention, in both of its forms and in a normal block, as plans."""

from __future__ import annotations

from theory.dva.paper import PAPER
from theory.plans.plan import Plan, Shape, plan
from theory.plans.variants import variant


@variant(PAPER, "section 3.2", "values that depend on the query; no feed-forward, no output projection")
def dva(shape: Shape) -> Plan:
    return plan(shape, dynamic="revised", feed_forward=False, output_projection=False)


@variant(PAPER, "section 3.2, kR = v", "dva's gate alone: what a head gives is scaled, linearly in the query's token")
def dva_gate(shape: Shape) -> Plan:
    """Let the query scale values coordinate by coordinate, without exchanging them for others; our own ablation."""
    return plan(shape, dynamic="gate", feed_forward=False, output_projection=False)


@variant(PAPER, "section 3.1", "dva in the initial form")
def dva_initial(shape: Shape) -> Plan:
    """Let the matrix qR^T kR act on the row v: our reading, as the text lacks the equations."""
    return plan(shape, dynamic="initial", feed_forward=False, output_projection=False)


@variant(PAPER, "section 3.2, in a normal block", "values that depend on the query")
def dva_attention(shape: Shape) -> Plan:
    return plan(shape, dynamic="revised")


@variant(PAPER, "section 3.1, in a normal block", "values that depend on the query, in the initial form")
def dva_initial_attention(shape: Shape) -> Plan:
    return plan(shape, dynamic="initial")
