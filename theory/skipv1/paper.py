"""SkipV1Former: half of the value heads are the first layer's."""

from theory.plans.papers import Paper

PAPER = Paper(
    name="SkipV1Former",
    title="Improving Model Representation and Reducing KV Cache via Skip Connections with First Value Heads",
    year=2025,
    reference="https://github.com/Zhoutong-Wu/SkipV1Former",
    colour="#2f7fb8",
)
