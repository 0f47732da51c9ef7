"""Names of the paper."""

from theory.plans.papers import Paper

PAPER = Paper(
    name="PostNorm",
    title="Attention Is All You Need, section 3.1",
    year=2017,
    reference="https://arxiv.org/abs/1706.03762",
    colour="#8a3b12",
)
