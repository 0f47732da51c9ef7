"""What cross-layer attention explains with enough heads, by descents, and what its claims assume."""

from __future__ import annotations

from theory.plans.heads import Heads, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import PromptMoments
from theory.toy.enough_heads import EnoughHeads

PLACE = "section 4.3, Fig. 8, around any W0: theory/resformer/cross_layer.py"
FREE_TERM = "Assumption 1; linear attention; a free term C x in the prediction; any n, sigma >= 0 and W0; normal x"
DESCENT = 1e-6  # of the zero loss, or of d^2: how far the best of the descents may stay from a minimum


def kinds() -> Heads:
    """The kinds of head of which the plan of Eqn. (2) consists."""
    return toy_heads(resolve("cross-layer", Shape(2, 1)))


def explained(moments: PromptMoments, rank: int, of: Heads | None = None, starts: int = 4) -> float:
    """What the best of the descents with enough heads explains; of cross-layer attention, or of other kinds."""
    enough = EnoughHeads(moments, kinds() if of is None else of)
    return enough.zero_loss - enough.minimise(rank, starts=starts)[0]
