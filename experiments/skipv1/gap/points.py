"""Which toys are compared with which."""

from __future__ import annotations

from experiments.store.folders import Json
from experiments.toys.runs import point_key


def paired_gaps(trained: Json, size: str, rank: int) -> list[float]:
    """SkipV1Former's explained signal less MHA's, seed by seed."""
    skip, mha = (trained[point_key(size, toy, rank)] for toy in ("skipv1", "mha"))
    return [s - m for s, m in zip(skip, mha, strict=True)]
