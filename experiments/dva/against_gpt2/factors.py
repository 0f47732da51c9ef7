"""In what model b differs from model a, one thing at a time, and what each adds to the difference of their losses.

There are four: one head for many, no feed-forward, no output projection, dynamic values.  They are taken in any order
but for one thing: the projection goes only where the feed-forward has gone, for neither the paper nor anybody else has
a block with the second and without the first.  That leaves twelve orders, and twelve models.  What a thing adds is the
mean, over these orders, of what it changes (Shapley 1953, as games with precedence have it: Faigle and Kern 1992): the
four add up to all of the difference.  Beside that mean stand what it changes as early as can be, on the way from model
a, and as late as can be, on the way to model b: where these are apart, it hangs on the others what it does.

Of one ordinary head the projection is one matrix more in a row, W_O W_V, and no other map: what it changes there is how
the model starts and is trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

from experiments.training.campaign import BASELINE

HEAD, BARE, UNPROJECTED, DYNAMIC = "one head", "no feed-forward", "no projection", "dynamic"
FACTORS = {
    HEAD: "one head for many",
    BARE: "no feed-forward",
    UNPROJECTED: "no output projection",
    DYNAMIC: "dynamic values",
}
ONLY_AFTER = {UNPROJECTED: BARE}
Cell = frozenset[str]
MODEL_B = "dva"


def _possible(cell: Cell) -> bool:
    return all(first in cell for factor, first in ONLY_AFTER.items() if factor in cell)


CELLS: dict[str, Cell] = {  # by name: in what each differs from model a
    BASELINE: frozenset(),
    **{
        " ".join(some): frozenset(some)
        for count in range(1, len(FACTORS))
        for some in combinations(FACTORS, count)
        if _possible(frozenset(some))
    },
    MODEL_B: frozenset(FACTORS),
}
NAMES = {cell: name for name, cell in CELLS.items()}


def named(*factors: str) -> str:
    """The model that differs from model a in these."""
    return NAMES[frozenset(factors)]


def in_words(cell: Cell) -> str:
    values = "dynamic " if DYNAMIC in cell else ""
    heads = f"one {values}head" if HEAD in cell else f"{values}heads"
    rest = " alone" if UNPROJECTED in cell else ", output projection" if BARE in cell else ", feed-forward"
    return f"{heads}{rest}"


@dataclass(frozen=True)
class Step:
    """From one model to another that differs from it in one factor."""

    factor: str
    before: str
    after: str

    def weights(self) -> dict[str, float]:
        return {self.before: -1.0, self.after: 1.0}


def orders() -> list[list[Step]]:
    """Every way from model a to model b, a factor at a time."""
    ways = []
    for order in permutations(FACTORS):
        cells = [frozenset(order[:i]) for i in range(len(order) + 1)]
        if all(map(_possible, cells)):
            names = [NAMES[cell] for cell in cells]
            ways.append([Step(*step) for step in zip(order, names, names[1:], strict=False)])
    return ways


def parts() -> dict[str, dict[str, float]]:
    """By factor, weights of the cells' losses whose sum is what it adds to model b's less model a's."""
    ways = orders()
    found = {factor: dict.fromkeys(CELLS, 0.0) for factor in FACTORS}
    for step in (step for way in ways for step in way):
        found[step.factor][step.after] += 1 / len(ways)
        found[step.factor][step.before] -= 1 / len(ways)
    return found


def earliest(factor: str) -> Step:
    """On the way from model a."""
    before = frozenset({ONLY_AFTER[factor]} if factor in ONLY_AFTER else ())
    return Step(factor, NAMES[before], NAMES[before | {factor}])


def latest(factor: str) -> Step:
    """On the way to model b."""
    after = frozenset(FACTORS) - {later for later, first in ONLY_AFTER.items() if first == factor}
    return Step(factor, NAMES[after - {factor}], NAMES[after])


def with_dynamic_values() -> dict[str, float]:
    """Weights of what leaving out the feed-forward changes under dynamic values, less what under static ones.

    The mean of one head and of many.
    """
    found = dict.fromkeys(CELLS, 0.0)
    for heads in ([HEAD], []):
        for values, sign in (([DYNAMIC], 1), ([], -1)):
            found[named(*heads, *values, BARE)] += sign / 2
            found[named(*heads, *values)] -= sign / 2
    return found
