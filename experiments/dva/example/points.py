"""Hot girl drinks hot water as a task: which layers are trained on which tables of meanings."""

from __future__ import annotations

from dataclasses import dataclass

from theory.dva.meanings import independent, independent_of_dynamic, least_loss, width_needed
from theory.plans.plan import Dynamic

EXAMPLE = "dva.example"
Table = tuple[int, int]


@dataclass(frozen=True)
class Layer:
    """heads: of equal width, together as wide as the table needs, or as is asked for."""

    words: str
    heads: int
    dynamic: Dynamic = "no"

    def tells_apart(self, table: Table, width: int) -> int:
        """The most linearly independent meanings, of all heads' widths together."""
        if self.dynamic == "no":
            return independent(*table, self.heads, width // self.heads)
        return independent_of_dynamic(*table, width)


LAYERS = {
    "one": Layer("one ordinary head", 1),
    "two": Layer("two ordinary heads of half the width", 2),
    "dynamic": Layer("one dynamic head", 1, "revised"),
    "gate": Layer("one head with a linear gate", 1, "gate"),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """tables    adjectives and nouns, at the width that each needs
    swept     one table, at widths of all heads together, even ones
    restarts  of every training, from other weights; steps of each, full batches
    """

    tables: tuple[Table, ...]
    swept: Table
    widths: tuple[int, ...]
    restarts: int
    steps: int

    def cells(self) -> list[tuple[str, Table, int]]:
        """Layer, table and width."""
        sizes = [(table, even(width_needed(*table))) for table in self.tables]
        sizes += [(self.swept, width) for width in self.widths]
        return [(layer, table, width) for table, width in dict.fromkeys(sizes) for layer in LAYERS]


def even(width: int) -> int:
    """No smaller, so that two heads can share it."""
    return max(2, width + width % 2)


def cell(layer: str, table: Table, width: int) -> str:
    """How results name a training."""
    return f"{layer}/{table[0]}x{table[1]}/w{width}"


def predicted(layer: str, table: Table, width: int) -> float:
    """The least mean squared error, for meanings of length 1."""
    return least_loss(*table, LAYERS[layer].tells_apart(table, width))
