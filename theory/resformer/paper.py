"""ResFormer and SVFormer: value residual learning."""

from theory.plans.papers import Paper

PAPER = Paper(
    name="ResFormer",
    title="Value Residual Learning for Alleviating Attention Concentration in Transformers",
    year=2024,
    reference="https://arxiv.org/abs/2410.17897",
    colour="#d98a2b",
)
