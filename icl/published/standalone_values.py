"""The values of a standalone model file: what later layers attend over, as a sum of their own and the first layer's.

Supported plans have one rule for all layers after the first: every head attends, with the layer's own queries and
keys, over a weighted sum with fixed weights of value heads of its own layer and of layer 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from theory.plans.mix import Learned, Mix, k, q, v
from theory.plans.plan import Plan, Run, built, runs

Rule = tuple[Run, ...]


@dataclass(frozen=True)
class Values:
    """The values of the layers after the first.

    rule    by runs of neighbouring heads; terms of layer 1 are the first layer's, others the layer's own
    own     the value heads that such a layer projects, from 1
    first   the value heads that layer 1 projects
    heads   key/value heads
    """

    rule: Rule
    own: tuple[int, ...]
    first: tuple[int, ...]
    heads: int

    @property
    def plain(self) -> bool:
        """True where all layers attend over their own values alone, as in LLaMA."""
        return not any(layer == 1 for run in self.rule for _, _, layer, *_ in run.terms)

    @property
    def mixed(self) -> bool:
        """True where every head has a part of its own layer, so that the sums are what is cached."""
        return len(self.own) == self.heads and all(any(layer != 1 for _, _, layer, *_ in r.terms) for r in self.rule)

    @property
    def sum(self) -> str:
        """The values of a later layer in Python, from `value`, its own heads, and `first_value`."""
        parts = [self._of_run(run) for run in self.rule]
        if len(parts) == 1:
            return parts[0]
        return f"torch.cat([{', '.join(parts)}], dim=1)  # {', '.join(map(self._heads, self.rule))}"

    def words(self) -> str:
        """Return one sentence on what the heads attend over."""
        if self.plain:
            return "Every layer attends over values of its own."
        if len(self.rule) == 1:
            return f"In every layer after the first, heads attend over {self._sources(self.rule[0])}."
        parts = [
            f"{self._heads(run)} attend{'s' if run.count == 1 else ''} over {self._sources(run)}" for run in self.rule
        ]
        return f"In every layer after the first, key/value {'; '.join(parts)}."

    def _of_run(self, run: Run) -> str:
        return " + ".join(
            f"{'' if weight == 1 else f'{weight!r} * '}{self._slice(layer == 1, head, run.count)}"
            for weight, _, layer, head, *_ in run.terms
        )

    def _slice(self, of_first: bool, head: int, count: int) -> str:
        name, there = ("first_value", self.first) if of_first else ("value", self.own)
        start = there.index(head)
        stop = start + count
        if count == len(there):
            return name
        return f"{name}[:, {start or ''}:{'' if stop == len(there) else stop}]"

    def _heads(self, run: Run) -> str:
        last = run.first + run.count - 1
        return f"head {run.first}" if run.count == 1 else f"heads {run.first} to {last}"

    def _sources(self, run: Run) -> str:
        parts = []
        for weight, _, layer, head, *_ in run.terms:
            whose = "the first layer's values" if layer == 1 else "the layer's own values"
            moved = "" if head == run.first else f" (from head {head} on)"
            parts.append(f"{'' if weight == 1 else f'{weight:g} times '}{whose}{moved}")
        return " plus ".join(parts)


def values_of(plan: Plan) -> Values:
    """Return the values of a plan without `unsupported` parts."""
    heads = plan.shape.heads
    exist = built(plan)
    if plan.shape.layers == 1:
        everyone = tuple(range(1, heads + 1))
        own = tuple(v(2, h) for h in everyone)
        return Values(runs(everyone, own), everyone, everyone, heads)
    return Values(_rule(plan, 2), exist.get(("v", 2), ()), exist["v", 1], heads)


def unsupported(plan: Plan) -> Iterator[str]:
    """Yield what of a plan's heads a standalone file cannot express, one item per line."""
    for n, h in plan.shape.cells():
        head, where = plan.head(n, h), f"layer {n}, head {h}"
        if not head.live:
            yield f"{where} is not built"
        elif head.query != q(n, h) or head.keys != (k(n, h),):
            yield f"{where} has other queries or keys than its own"
        elif head.beside.terms:
            yield f"{where} adds values beside its attention"
        elif n == 1 and head.values != (v(1, h),):
            yield f"{where} attends over other values than its own"
        else:
            yield from (f"{where} {problem}" for problem in _unsupported_terms(head.values[0], n))
    if _alike(plan):
        return
    yield "layers after the first have different value maps"


def _unsupported_terms(values: Mix, layer: int) -> Iterator[str]:
    for term in values.terms:
        source = term.source
        if isinstance(term.weight, Learned):
            yield f"weighs values by a learned number ({term.weight.number})"
        elif source.kind != "v" or source != source.unshifted:
            yield f"attends over {source}, which is no projection of the token itself"
        elif source.layer not in (1, layer):
            yield f"attends over values of layer {source.layer}, neither its own nor the first layer's"


def _alike(plan: Plan) -> bool:
    """Return whether all layers after the first have one rule, and the same value heads built."""
    exist, later = built(plan), range(2, plan.shape.layers + 1)
    return len({(_rule(plan, n), exist.get(("v", n), ())) for n in later}) <= 1


def _rule(plan: Plan, layer: int) -> Rule:
    """Return the runs of a layer's heads, with own terms written as those of layer 2."""
    heads = tuple(range(1, plan.shape.heads + 1))
    found = runs(heads, tuple(plan.head(layer, h).values[0] if plan.head(layer, h).values else Mix() for h in heads))
    return tuple(
        Run(run.first, run.count, tuple((w, kind, 1 if n == 1 else 2, h, s, at) for w, kind, n, h, s, at in run.terms))
        for run in found
    )
