"""Hyper-Connections: several residual streams, which every sublayer reads, mixes and writes."""

from theory.plans.papers import Paper

PAPER = Paper(
    name="Hyper-Connections",
    title="Hyper-Connections",
    year=2024,
    reference="https://arxiv.org/abs/2409.19606",
    colour="#a5541c",
)
