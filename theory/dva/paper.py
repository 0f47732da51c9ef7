"""Dynamic Value Attention: values that depend on the query."""

from theory.plans.papers import Paper

PAPER = Paper(
    name="Dynamic Value Attention",
    title="Transformer Reconstructed with Dynamic Value Attention",
    year=2025,
    reference="https://www.kaggle.com/xw0220",
    colour="#b0478f",
)
