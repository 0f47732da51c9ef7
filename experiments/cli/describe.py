"""The costs of a model and a description of its plan, for people and as JSON.  Needs neither torch nor matplotlib."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from experiments import catalogue
from theory.plans.accounting import cache, depth_memory, flops, parameters, total_parameters
from theory.plans.architecture import Architecture
from theory.plans.names import BadName, model
from theory.plans.plan import Plan
from theory.plans.presets import PRESETS
from theory.plans.rooms import cache_bytes
from theory.plans.words import SKETCH_KEY, TITLES, depth_words, layer_words, rules, shown_maps, sketch

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


def description(
    preset: str, variant: str, config: Architecture, plan: Plan, dtype: str = "bf16", context: int | None = None
) -> dict[str, Any]:
    """Return all that `crosslayer describe` prints of a model; `saved` compares with vanilla on the preset's own sizes.

    preset: a name, or what else a model is called, whose own sizes are then compared.  Caches and memory are in bytes
    of `dtype` per token; FLOPs are those of a token that attends over `context` tokens (default: the whole context).
    """
    size, over = BYTES[dtype], config.context if context is None else context
    cached, parts = cache(config, plan), parameters(config, plan)
    named = PRESETS.get(preset)
    return {
        "preset": preset,
        "variant": variant,
        "place": named.place if named else "",
        "stated_parameters": named.stated if named and variant == named.variant else None,
        "note": named.note if named else "",
        "total_parameters": sum(parts.values()),
        "parameters": {name: count for name, count in parts.items() if count},
        "dtype": dtype,
        "cache_bytes_per_token": cached.bytes(size),
        "cache_bytes_by_layer": {"keys": [n * size for n in cached.keys], "values": [n * size for n in cached.values]},
        "cache_bytes_per_sequence": cache_bytes(config, plan, over, number=size),
        "cache_bytes_of_first_token": sum(cached.first) * size,
        "context": over,
        "flops_per_token": flops(config, plan, over),
        "depth_vectors": depth_memory(config, plan) // config.d_model,
        "depth_bytes_per_token": depth_memory(config, plan) * size,
        "saved": _saved(_costs(*model(preset if named else config, "vanilla")), _costs(config, plan)),
        "plan": {name: rules(plan, name) for name in shown_maps(plan)},
        "depth": depth_words(plan.depth),
        "layer": layer_words(config, plan),
    }


def _costs(config: Architecture, plan: Plan) -> dict[str, int]:
    cached = cache(config, plan)
    return {
        "parameters": total_parameters(config, plan),
        "cache": cached.total,
        "key_cache": sum(cached.keys),
        "value_cache": sum(cached.values),
    }


def _saved(before: dict[str, int], after: dict[str, int]) -> dict[str, float]:
    """Return the share of each cost that the second model saves; negative where it needs more."""
    return {name: 1 - after[name] / before[name] for name in before}


def print_description(about: dict[str, Any], plan: Plan) -> None:
    """Print the maps as sketches, then the numbers."""
    print(f"{about['preset']}{' (' + about['place'] + ')' if about['place'] else ''} under {about['variant']}")
    if about["note"]:
        print(f"note: {about['note']}")
    print(f"\n{SKETCH_KEY}")
    for name, lines in about["plan"].items():
        print(f"\n{TITLES[name]}")
        print("\n".join(sketch(plan, name)))
        shown = lines if len(lines) <= 8 else [*lines[:5], "...", lines[-1]]
        print("\n".join(f"     {line}" for line in shown))
    print(f"\nlayer: {about['layer']}\ndepth: {about['depth']}\n")
    width = max(len(part) for part in about["parameters"])
    for part, count in about["parameters"].items():
        print(f"{part.replace('_', ' '):{width}} {count:>15,}")
    stated = about["stated_parameters"]
    says = f"   the paper says {stated}" if stated else ""
    print(f"{'parameters':{width}} {about['total_parameters']:>15,}{says}")
    print(f"\ncache, bytes per token in {about['dtype']}: {about['cache_bytes_per_token']:,}; by layer")
    for kind, numbers in about["cache_bytes_by_layer"].items():
        same = ((number, len(list(group))) for number, group in groupby(numbers))
        print(f"  {kind:7}" + ", ".join(f"{number:,}" if n == 1 else f"{n} x {number:,}" for number, n in same))
    if about["cache_bytes_of_first_token"]:
        print(f"  and of each sequence's first token {about['cache_bytes_of_first_token']:,} bytes")
    whole = about["cache_bytes_per_sequence"]
    if whole < about["context"] * about["cache_bytes_per_token"]:
        print(f"  under their windows, {whole:,} bytes for {about['context']:,} tokens")
    vectors = "1 vector" if about["depth_vectors"] == 1 else f"{about['depth_vectors']} vectors"
    print(f"depth memory, bytes per token: {about['depth_bytes_per_token']:,} ({vectors} of the model's width)")
    print(f"FLOPs of a token that attends over {about['context']:,}: {about['flops_per_token']:.4g} forward")
    changes = (f"{name.replace('_', ' ')} {percent(-share)}" for name, share in about["saved"].items())
    print(f"against vanilla: {', '.join(changes)}")


def variant_rows(preset: str) -> list[dict[str, Any]]:
    """Return a row for every named variant on one preset: its source, what it changes, its costs against vanilla.

    A variant that has no meaning there has None for its costs.  Raises theory.plans.names.BadName for an unknown
    preset.
    """
    vanilla = _costs(*model(preset, "vanilla"))
    rows: list[dict[str, Any]] = []
    for name, variant in catalogue.variants().items():
        row = {"name": name, "paper": variant.source, "place": variant.place, "changes": variant.changes}
        try:
            config, plan = model(preset, name)
        except BadName:
            rows.append({**row, "parameters": None, "cache": None, "depth_vectors": None})
            continue
        saved = _saved(vanilla, _costs(config, plan))
        changes = {name: 0 - saved[name] for name in ("parameters", "cache")}
        rows.append({**row, **changes, "depth_vectors": depth_memory(config, plan) // config.d_model})
    return rows


def print_variants(rows: list[dict[str, Any]]) -> None:
    """Print these rows as lines of text."""
    for row in rows:
        costs = f"{percent(row['parameters']):>7} {percent(row['cache']):>7}"
        print(f"{row['name']:22} {costs}  {row['changes']} ({_where(row)})")


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the table of theory/plans/VARIANTS.md."""
    lines = ["| variant | paper | what it changes | parameters | cache |", "|---|---|---|---:|---:|"]
    for row in rows:
        cells = (f"`{row['name']}`", _where(row), row["changes"], percent(row["parameters"]), percent(row["cache"]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _where(row: dict[str, Any]) -> str:
    return ", ".join(filter(None, (row["paper"], row["place"])))


def percent(change: float | None) -> str:
    """Return a change in per cent with one digit: `=` for none, `<` where one digit does not show it."""
    if change is None:
        return "n/a"
    if abs(change) < 5e-4:
        return "=" if change == 0 else f"{'+' if change > 0 else '-'}<0.1%"
    return f"{change:+.1%}"
