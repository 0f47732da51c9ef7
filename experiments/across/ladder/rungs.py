"""The rungs from the toy of the theorem to a decoder of two layers, as data: each is one ingredient more.

    1   the assumed-copy toy: linear attention whose first layer copies; exact, by theory, not trained
    2   both layers trained: linear attention with learned biases for pairs of positions, no residual stream
    3   the residual stream          4   softmax          5   RMSNorm          6   a gated feed-forward

A rung makes an `Architecture` for a task and a width, and a variant's plan for it; nothing else.  The ingredients of 3
to 6 can be had in any order, and rotary positions in place of the biases with any of them: a rung holds a set of them.

Rung 2 is a decoder, not the paper's toy to the letter: its mask is causal, so that the last token sees itself in both
layers (`icl.toys.end_to_end` says what the paper's mask costs), and biases stand in both.  There are two heads, each as
wide as the model, as in the toy, so that no head is short of numbers at m = d; with rotary positions, which need pairs,
one number wider where the width is odd.
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
LAYERS, HEADS = 2, 2


@dataclass(frozen=True)
class Rung:
    """One set of ingredients.

    Attributes:
        key: how results name it.
        adds: what it adds to the rung before it, in words.
        ingredients: all that it has, those of rungs before it too.
    """

    key: str
    adds: str
    ingredients: tuple[str, ...]

    def architecture(self, task: Setting, width: int) -> Architecture:
        """Return the sizes for prompts of the task, read into tokens of `width` numbers."""
        has = self.ingredients
        return Architecture(
            d_model=width,
            n_layers=LAYERS,
            n_heads=HEADS,
            d_ff=2 * width if "feed-forward" in has else 0,
            context=2 * task.n + 1,
            stem=Vectors(task.d),
            head_dim=width + width % 2 if ROTARY in has else width,
            norm="rms" if "norms" in has else "none",
            positions="rope" if ROTARY in has else "bias",
            score="softmax" if "softmax" in has else "linear",
        )

    def plan(self, made: Plan) -> Plan:
        """Return a variant's plan as this rung has it.

        It loses its residual stream where the rung lacks one and the plan has no depth rule of its own in its place.
        """
        chained = "residual" not in self.ingredients and isinstance(made.depth, Residual)
        return replace(made, depth=Chain()) if chained else made


def ladder() -> list[Rung]:
    """Return rungs 2 to 6."""
    return [
        Rung(FIRST, "a trained first layer", ()),
        *(Rung(str(i + 3), added, INGREDIENTS[: i + 1]) for i, added in enumerate(INGREDIENTS)),
    ]


def cell(ingredients: Sequence[str]) -> Rung:
    """Return the rung that has just these ingredients, named by its number if it stands on the ladder."""
    has = tuple(x for x in INGREDIENTS if x in ingredients)
    found = next((rung for rung in ladder() if rung.ingredients == has), None) or Rung("+".join(has), has[-1], has)
    if ROTARY not in ingredients:
        return found
    return Rung(f"{found.key}+{ROTARY}", "rotary positions", (*has, ROTARY))


def without(rotary: str) -> str:
    """Return the key of the rung that has biases for pairs of positions in place of rotary ones."""
    return rotary.removesuffix(f"+{ROTARY}")


def in_order(order: Sequence[str]) -> list[Rung]:
    """Return rung 2, and what it becomes as ingredients are added in this order."""
    return [cell(order[:count]) for count in range(len(order) + 1)]


def cells() -> list[Rung]:
    """Return all subsets of the ingredients of 3 to 6, small ones first."""
    return [cell(some) for count in range(len(INGREDIENTS) + 1) for some in combinations(INGREDIENTS, count)]


def first_added(shape: Shape) -> Plan:
    """Return a plan as a user's own file has it: after layer 1 the last head adds layer 1's values to its own."""
    return plan(shape, values=lambda n, h: v(n, h) + v(1, h) if n > 1 and h == shape.heads else v(n, h))


OF_OUR_OWN: Mapping[str, Callable[[Shape], Plan]] = {"first-added": first_added}


@lru_cache(maxsize=1024)
def plan_of(variant: str, shape: Shape) -> Plan:
    """Return the plan of a named variant, or of the one above."""
    return OF_OUR_OWN[variant](shape) if variant in OF_OUR_OWN else resolve(variant, shape)
