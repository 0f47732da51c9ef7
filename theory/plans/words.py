"""A plan in words and characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from theory.plans.architecture import Architecture
from theory.plans.depth import Depth
from theory.plans.mix import Gated, Learned, Mix, Term
from theory.plans.plan import ABSENT, HeadPlan, Plan, Run, runs, vanilla

MAPS: dict[str, Callable[[HeadPlan], tuple[Mix, ...]]] = {
    "values": lambda head: head.values,
    "keys": lambda head: head.keys,
    "queries": lambda head: (head.query,) if head.live else (),
    "beside": lambda head: (head.beside,) if head.beside.terms else (),
}
TITLES = {
    "values": "values that the heads attend over",
    "keys": "keys that the heads attend over",
    "queries": "queries",
    "beside": "values added beside the attention",
}


def shown_maps(plan: Plan) -> list[str]:
    """Return the value map, and the maps of the others that differ from vanilla in a head that is built."""
    base = vanilla(plan.shape)

    def differs(name: str) -> bool:
        sources = MAPS[name]
        return any(sources(plan.head(*cell)) not in ((), sources(base.head(*cell))) for cell in plan.shape.cells())

    return [name for name in MAPS if name == "values" or differs(name)]


def rules(plan: Plan, name: str) -> list[str]:
    """Return one of the `MAPS` in words, one line for neighbouring layers that read alike."""
    texts = [_rule(plan, name, n) for n in range(1, plan.shape.layers + 1)]
    starts = [i for i in range(len(texts)) if i == 0 or texts[i] != texts[i - 1]]
    ends = [*starts[1:], len(texts)]
    return [
        f"{f'layer {a + 1}' if b == a + 1 else f'layers {a + 1}-{b}'}: {texts[a]}"
        for a, b in zip(starts, ends, strict=True)
    ]


def _rule(plan: Plan, name: str, layer: int) -> str:
    row = plan.table[layer - 1]
    reading = {h: MAPS[name](head) for h, head in enumerate(row, 1) if MAPS[name](head)}
    lists = len(next(iter(reading.values()), ()))
    parts = [", ".join(_runs(plan, layer, {h: mixes[i] for h, mixes in reading.items()})) for i in range(lists)]
    text = ", and ".join(parts) or "nothing"
    absent = [h for h, head in enumerate(row, 1) if head == ABSENT]
    return f"{text}; {_heads(absent)} left out" if absent else text


LONG = 8  # terms of a sum; longer ones whose weights are numbers of one parameter are counted, not written out


def _runs(plan: Plan, layer: int, reading: dict[int, Mix]) -> Iterator[str]:
    found: list[tuple[int, int, str]] = []  # first head, number of heads, words
    for run in runs(tuple(reading), tuple(map(_without_places, reading.values()))):
        names = {weight.name for weight, *_ in run.terms if isinstance(weight, Learned) and weight.name.endswith("[]")}
        is_long = len(run.terms) > LONG and len(names) == 1
        words = f"a sum of {len(run.terms)}, weighed by {names.pop()}" if is_long else _sum(run, layer)
        if is_long and found and found[-1][2] == words and sum(found[-1][:2]) == run.first:
            first, count, _ = found.pop()
            found.append((first, count + run.count, words))
        else:
            found.append((run.first, run.count, words))
    for first, count, words in found:
        everyone = count == plan.shape.heads
        yield ("" if everyone else f"{_heads(range(first, first + count))} ") + words


def _without_places(mix: Mix) -> Mix:
    """Return a sum in which the numbers of one parameter have one name."""

    def term(old: Term) -> Term:
        weight = old.weight
        if not isinstance(weight, Learned) or weight.place is None:
            return old
        return replace(old, weight=replace(weight, name=f"{weight.name}[]", place=None))

    return Mix(tuple(map(term, mix.terms)))


def _sum(run: Run, layer: int) -> str:
    terms = []
    for weight, kind, source, start, shift, where in run.terms:
        if isinstance(weight, Gated):
            number = f"{weight.named(_gate_words(weight, run, layer))} "
        else:
            number = f"{weight} " if isinstance(weight, Learned) else "" if weight == 1 else f"{weight:.3g} "
        whose = "own" if source == layer else f"layer {source}"
        if kind == "e":
            whose = "own table" if source == layer else f"layer {source}'s table"
        if start != run.first:
            heads = _heads(range(start, start + run.count))
            whose = f"{whose} {heads}" if kind == "e" or source == layer else f"{whose}'s {heads}"
        before = f", {shift} token{'s' if shift > 1 else ''} before" if shift else ""
        at = {"first": ", at the first token", "later": ", after the first token"}.get(where, "")
        terms.append(number + whose + before + at)
    return " + ".join(terms)


def _gate_words(weight: Gated, run: Run, layer: int) -> str:
    """Return the name of the gates that weigh a run of heads, which are their own where nothing else is said."""
    whose = "gate" if weight.layer == layer else f"layer {weight.layer}'s gate"
    if weight.head == run.first:
        return whose
    return f"{whose} of {_heads(range(weight.head, weight.head + run.count))}"


def _span(heads: Sequence[int]) -> str:
    return f"{heads[0]}" if len(heads) == 1 else f"{heads[0]}-{heads[-1]}"


def _heads(heads: Sequence[int]) -> str:
    return f"head{'s' if len(heads) > 1 else ''} {_span(heads)}"


def sketch(plan: Plan, name: str) -> list[str]:
    """Return one of the `MAPS` in characters, the last layer on top: one row per layer, one column per head."""
    layers = range(plan.shape.layers, 0, -1)
    return [f"{n:4} " + "".join(_mark(MAPS[name](head), n) for head in plan.table[n - 1]) for n in layers]


SKETCH_KEY = "a row a layer, a column a head: . own, 1-9 and a-z another layer's, @ a table, + a sum, | a concatenation"


def _mark(mixes: tuple[Mix, ...], layer: int) -> str:
    if not mixes:
        return " "
    if len(mixes) > 1 or len(mixes[0].terms) > 1:
        return "|" if len(mixes) > 1 else "+"
    if mixes[0].terms[0].source.kind == "e":
        return "@"
    source = mixes[0].terms[0].source.layer
    if source == layer:
        return "."
    return "0123456789abcdefghijklmnopqrstuvwxyz"[source] if source < 36 else "#"


def depth_words(depth: Depth) -> str:
    """Describe a depth rule in a few words."""
    return depth.words()


def layer_words(config: Architecture, plan: Plan) -> str:
    """Describe in a few words what a layer is made of."""
    if config.latent is not None:
        heads = f"{config.n_heads} heads from a latent of {config.latent.width}"
    else:
        heads = f"{config.n_heads} head{'s' if config.n_heads > 1 else ''} of {config.width}"
        heads += f" in groups of {config.group}" if config.group > 1 else ""
    parts = [heads]
    if config.normed != "all":
        parts.append("no norm before the head" if config.normed == "sublayers" else "a norm before the head alone")
    if config.qk_norm:
        parts.append("normed queries and keys")
    if config.window:
        parts.append(f"a window of {config.window} tokens")
    if config.windows:
        sizes = ", ".join(str(size) if size else "all" for size in config.windows)
        parts.append(f"windows of {sizes} tokens, layer by layer in turn")
    if config.rotated:
        turned = ", ".join("rotary" if one else "none" for one in config.rotated)
        parts.append(f"positions {turned}, layer by layer in turn")
    if config.differential:
        parts.append("differences of pairs of heads")
    if config.output_gate != "no":
        parts.append(f"a sigmoid gate of outputs, one per {'head' if config.output_gate == 'head' else 'number'}")
    if config.output_scale != "no":
        parts.append(f"outputs scaled by a learned {config.output_scale}, at first {config.scale_start:.3g}")
    if config.residual_rank:
        parts.append(f"residual maps of rank {config.residual_rank}")
    if plan.dynamic == "gate":
        parts.append("a linear gate of queries")
    elif plan.dynamic != "no":
        parts.append(f"dynamic values ({plan.dynamic} form)")
    if not plan.output_projection:
        parts.append("no output projection")
    beside = " beside the attention" if config.parallel else ""
    parts.append(f"feed-forward of {config.d_ff}{beside}" if config.has_feed_forward(plan) else "no feed-forward")
    return ", ".join(parts)
