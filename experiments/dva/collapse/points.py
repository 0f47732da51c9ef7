"""Which ways to attend with dynamic values are compared, at which sizes."""

from __future__ import annotations

from dataclasses import dataclass

from theory.dva.collapse import Form, pair_numbers
from theory.dva.cost import Way

REVISED, INITIAL = "dva.revised", "dva.initial"
CLAIMS: dict[Form, str] = {"revised": REVISED, "initial": INITIAL}


@dataclass(frozen=True)
class Side:
    """A form, worked out in a way; blocks: some queries at a time."""

    form: Form
    way: Way
    blocks: bool
    words: str

    def made(self, config: Config, tokens: int) -> bool:
        """Whether it is made at so many tokens: not where its pairs' numbers are too many."""
        few = pair_numbers(self.form, tokens, config.width, naive=self.way == "pairs") <= config.most
        return few and (not self.blocks or tokens > config.queries)


SIDES = {
    "initial, pairs": Side("initial", "pairs", False, "initial, every pair's matrix"),
    "revised, pairs": Side("revised", "pairs", False, "revised, every pair's value"),
    "initial, collapsed": Side("initial", "collapsed", False, "initial, collapsed"),
    "revised, collapsed": Side("revised", "collapsed", False, "revised, collapsed"),
    "initial, blocks": Side("initial", "collapsed", True, "initial, collapsed, in blocks of queries"),
    "revised, blocks": Side("revised", "collapsed", True, "revised, collapsed, in blocks of queries"),
}
HEADS, ONE_HEAD = "heads", "one head"
LAYERS = {  # ways to attend at the sizes of the paper's models, and what a figure calls them
    HEADS: "model a: ordinary heads",
    ONE_HEAD: "one ordinary head",
    "kernel twice": "one dynamic head, two calls",
    "collapsed": "one dynamic head, at once",
    "blocks": "one dynamic head, in blocks",
    "pairs": "one dynamic head, every pair",
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """One head of a width over `tokens`, float32, causal; most: numbers of all pairs that are made at once.

    queries     of a block
    paper       width of the models, heads, and tokens
    turns       that are timed, after one that is not; of one alone nothing is judged
    """

    width: int
    tokens: tuple[int, ...]
    most: int
    queries: int
    paper: tuple[int, int, tuple[int, ...]]
    turns: int

    @property
    def cells(self) -> list[tuple[str, int]]:
        return [(name, t) for t in self.tokens for name, side in SIDES.items() if side.made(self, t)]

    @property
    def layers(self) -> list[tuple[str, int]]:
        """Of the paper's sizes, those that are made."""
        width, _, tokens = self.paper
        return [
            (name, t)
            for t in tokens
            for name in LAYERS
            if not (name == "pairs" and t * t * width > self.most) and not (name == "blocks" and t <= self.queries)
        ]
