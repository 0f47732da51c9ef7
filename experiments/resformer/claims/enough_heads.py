"""What cross-layer attention explains with enough heads, by descents, and what its claims assume."""

from __future__ import annotations

from theory.plans.heads import Heads
from theory.prompts.moments import PromptMoments
from theory.resformer.cross_layer_weights import TWO_HEADS
from theory.toy.enough_heads import EnoughHeads

PLACE = "section 4.3, Fig. 8, around any W0: theory/resformer/cross_layer.py"
FREE_TERM = (
    "Assumption 1 of SkipV1Former; linear attention; a free term C x in the prediction; any n, sigma >= 0 and W0; "
    "normal x"
)
DESCENT = 1e-6  # of the zero loss, or of d^2: how far the best of the descents may stay from a minimum
KINDS = TWO_HEADS[:2]  # of which cross-layer attention consists; that its plan does, `SHARP` shows


def explained(moments: PromptMoments, rank: int, of: Heads = KINDS, starts: int = 4) -> float:
    """What the best of the descents with enough heads explains; of cross-layer attention, or of other kinds."""
    enough = EnoughHeads(moments, of)
    return enough.zero_loss - enough.minimise(rank, starts=starts)[0]
