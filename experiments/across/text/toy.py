"""What the toy says of a variant: who is ahead, and what reaching back is worth in width, narrow and wide."""

from __future__ import annotations

from experiments.across.loss.experiment import TOY
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.comparing import TOY as SHAPE
from theory.errors import BadInput
from theory.plans.names import resolve
from theory.plans.plan import Plan


def toy(variant: str | Plan | None) -> Json | None:
    """sign: -1 where the toy at width d has a lower loss than MHA's, 0: the same, 1: a higher one; and the width that
    MHA needs over the variant's, at a width of d and of 2d.  None: not covered, or not known.
    """
    d = TOY[0]
    try:
        plan = resolve(variant, SHAPE) if isinstance(variant, str) else variant
        narrow, wide = (_worth(plan, at) for at in (d, 2 * d)) if plan else (None, None)
    except BadInput:
        return None
    if narrow is None or wide is None:
        return None
    share, base = _share(plan, d), _share(resolve(BASELINE, SHAPE), d)
    assert share is not None  # else there was no worth
    assert base is not None
    return {"sign": (share < base) - (share > base), "width": {"narrow": narrow, "wide": wide}}


def _worth(plan: Plan, width: int) -> float | None:
    """The least width, of a whole number from d on, at which MHA explains as much, over the variant's."""
    d, vanilla = TOY[0], resolve(BASELINE, SHAPE)
    if (share := _share(plan, width)) is None:
        return None
    for own in range(d, 2 * width + 1):
        base = _share(vanilla, own)
        if base is not None and base >= share:
            return own / width
    return None


def _share(plan: Plan | None, width: int) -> float | None:
    from theory.toy.width import explained_share_at_width

    return None if plan is None else explained_share_at_width(plan, *TOY, width)
