"""Designs of the field: variants of many sources, each of which names its own."""

from theory.plans.papers import Paper

PAPER = Paper(
    name="the field",
    title="Cross-layer designs of the field",
    year=2025,
    reference="",
    colour="#5b5b5b",
    further=True,
)
