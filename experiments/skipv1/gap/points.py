"""Which toys are compared with which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.store.folders import Json

if TYPE_CHECKING:
    pass


def paired_gaps(trained: Json, size: str, rank: int) -> list[float]:
    """SkipV1Former's explained signal less MHA's, seed by seed."""
    pairs = zip(trained[f"{size}/skipv1/a{rank}"], trained[f"{size}/mha/a{rank}"], strict=True)
    return [skip - mha for skip, mha in pairs]
