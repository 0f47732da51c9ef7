"""Attention Residuals: a softmax over depth in place of the residual sum."""

from theory.plans.papers import Paper

PAPER = Paper(
    name="Attention Residuals",
    title="Attention Residuals",
    year=2026,
    reference="https://arxiv.org/abs/2603.15031",
    colour="#1d6b34",
)
