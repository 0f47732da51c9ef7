"""The rungs between the toy of the theorem and a full-size model, as data: each is one ingredient more.

    1   the assumed-copy toy: linear attention whose first layer copies; exact, by theory, not trained
    2   both layers trained: linear attention with learned biases for pairs of positions, no residual stream
    3   the residual stream          4   softmax          5   RMSNorm          6   a gated feed-forward
    7   more layers, and four heads that share the width
    8a  how full-size models are trained: AdamW with its schedule, a loss at every position
    8b  what they are: rotary positions in place of biases for pairs of positions

A rung makes an `Architecture` for a task and a width, and a variant's plan for it; nothing else.  The ingredients of 3
to 6 can be had in any order, and rotary positions with any of them: a rung holds a set of them.

Rung 2 is a decoder, not the paper's toy to the letter: its mask is causal, so that the last token sees itself in both
layers (`icl.toys.end_to_end` says what the paper's mask costs), and biases stand in both.  Up to rung 6 there are two
heads, each as wide as the model, as in the toy, so that no head is short of numbers at m = d.  From rung 7 on heads
share the width, as in full-size models, but have an even number of numbers, two at least: rotary positions need pairs,
and with the same heads on both sides of it rung 8b adds none of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

from theory.plans.architecture import Architecture, Vectors
from theory.plans.mix import v
from theory.plans.names import resolve
from theory.plans.plan import Chain, Plan, Residual, Shape, plan
from theory.plans.setting import Setting

THEORY, FIRST = "1", "2"
INGREDIENTS = ("residual", "softmax", "norms", "feed-forward")
ROTARY = "rotary"
FEW, SEVERAL = 2, 4  # heads of every layer


@dataclass(frozen=True)
class Rung:
    """key: how results name it; adds: to the rung before it, in words; preset: trained as full-size models are."""

    key: str
    adds: str
    ingredients: tuple[str, ...] = INGREDIENTS
    layers: int = 2
    heads: int = FEW
    preset: bool = False

    def architecture(self, task: Setting, width: int) -> Architecture:
        """For prompts of the task, read into tokens of `width` numbers."""
        has = self.ingredients
        return Architecture(
            d_model=width,
            n_layers=self.layers,
            n_heads=self.heads,
            d_ff=2 * width if "feed-forward" in has else 0,
            context=2 * task.n + 1,
            stem=Vectors(task.d),
            head_dim=self._head(width),
            norm="rms" if "norms" in has else "none",
            positions="rope" if ROTARY in has else "bias",
            score="softmax" if "softmax" in has else "linear",
        )

    def _head(self, width: int) -> int:
        if self.heads == FEW:
            return width + width % 2 if ROTARY in self.ingredients else width
        return 2 * max(1, width // (2 * self.heads))

    def plan(self, made: Plan) -> Plan:
        """Of a variant's plan: without the residual stream, where the rung lacks it and the plan has no depth rule of
        its own in its place."""
        chained = "residual" not in self.ingredients and isinstance(made.depth, Residual)
        return replace(made, depth=Chain()) if chained else made


def ladder(depths: Sequence[int]) -> list[Rung]:
    """Rungs 2 to 8b, of which 7 comes in every depth, in layers, and 8a and 8b in the last.

    Depths are named where there are several.  Without any, rung 6 is the last.
    """
    climbed = [
        Rung(FIRST, "a trained first layer", ()),
        *(Rung(str(i + 3), added, INGREDIENTS[: i + 1]) for i, added in enumerate(INGREDIENTS)),
    ]
    if not depths:
        return climbed
    names = {depth: f"7, {depth} layers" if len(depths) > 1 else "7" for depth in depths}
    deeper = [Rung(names[depth], f"{depth} layers of {SEVERAL} heads", layers=depth, heads=SEVERAL) for depth in depths]
    full = Rung("8a", "AdamW, every position", layers=depths[-1], heads=SEVERAL, preset=True)
    top = replace(full, key="8b", adds="rotary positions", ingredients=(*INGREDIENTS, ROTARY))
    return [*climbed, *deeper, full, top]


def cell(ingredients: Sequence[str]) -> Rung:
    """Two layers with some of the ingredients: the rung that has just these, if there is one."""
    has = tuple(x for x in INGREDIENTS if x in ingredients)
    found = next((rung for rung in ladder(()) if rung.ingredients == has), None) or Rung("+".join(has), has[-1], has)
    if ROTARY not in ingredients:
        return found
    return Rung(f"{found.key}+{ROTARY}", "rotary positions", (*has, ROTARY))


def without(rotary: str) -> str:
    """The key of the rung that has biases for pairs of positions in place of rotary ones."""
    return rotary.removesuffix(f"+{ROTARY}")


def in_order(order: Sequence[str]) -> list[Rung]:
    """Rung 2, and what it becomes as ingredients are added in this order."""
    return [cell(order[:count]) for count in range(len(order) + 1)]


def cells() -> list[Rung]:
    """All subsets of the ingredients of 3 to 6, small ones first."""
    return [cell(some) for count in range(len(INGREDIENTS) + 1) for some in combinations(INGREDIENTS, count)]


def first_added(shape: Shape) -> Plan:
    """A variant as a user's own file would have it: in every layer after the first, the last head adds layer 1's
    values to its own."""
    return plan(shape, values=lambda n, h: v(n, h) + v(1, h) if n > 1 and h == shape.heads else v(n, h))


OF_OUR_OWN: Mapping[str, Callable[[Shape], Plan]] = {"first-added": first_added}


@lru_cache(maxsize=1024)
def plan_of(variant: str, shape: Shape) -> Plan:
    """Of a named variant, or of the one above."""
    return OF_OUR_OWN[variant](shape) if variant in OF_OUR_OWN else resolve(variant, shape)
