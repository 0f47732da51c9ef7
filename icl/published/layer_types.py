"""The fields of LLaMA-like configs that say which layers have a window, and which layers have positions.

transformers says in `layer_types` of every layer whether its attention has the window; kinds that leave the field out
derive it.  Positions are the same in all layers, but for `smollm3`, which has none in some (`no_rope_layers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from icl.published.layouts import Config
from theory.plans.architecture import Architecture

T = TypeVar("T")
# What transformers takes where config.json says nothing: sliding_window of kinds that have one, max_window_layers,
# which is the first layer that has a window, and no_rope_layer_interval.
WINDOW = {"mistral": 4096, "ministral": 4096, "qwen2": 4096, "qwen3": 4096, "smollm3": None}
FIRST_WINDOWED = 28
INTERVAL = 4
SWITCHED = ("qwen2", "qwen3", "smollm3")  # with a field that turns windows on: use_sliding_window
ALIKE = ("llama", "mistral")  # whose layers are all alike
SLIDING, FULL = "sliding_attention", "full_attention"


def unknown(config: Config) -> Iterator[str]:
    """Yield what the decoder cannot express of windows and positions by layer, one item per line."""
    kind, layers = config["model_type"], config.get("num_hidden_layers")
    if kind == "smollm3":
        yield from _unknown_positions(config)
    if kind == "llama" or not isinstance(layers, int):  # no number of layers is named with the other sizes
        return
    types, window = config.get("layer_types"), _window(config)
    if types is not None and not (
        isinstance(types, list) and len(types) == layers and all(x in (FULL, SLIDING) for x in types)
    ):
        yield "layer_types does not say of every layer whether its attention is full or has a window"
    elif kind in ("qwen2", "qwen3") and not isinstance(config.get("max_window_layers", FIRST_WINDOWED), int):
        yield "max_window_layers is no number of layers"
    elif types is not None and SLIDING in types and window is None:
        yield "layer_types has layers with a window, and there is none"
    elif kind in ALIKE and types is not None and types != [FULL if window is None else SLIDING] * layers:
        yield f"layer_types differs from what transformers makes of a {kind}, whose layers are alike"
    elif window == 0 and any(_windowed(config)):
        yield "its window of 0 tokens shows not even a token itself"


def _unknown_positions(config: Config) -> Iterator[str]:
    layers, turned = config.get("num_hidden_layers"), config.get("no_rope_layers")
    interval = config.get("no_rope_layer_interval", INTERVAL)
    if turned is None and not (isinstance(interval, int) and interval >= 1):
        yield "no_rope_layer_interval is no number of layers"
    elif turned is not None and not (
        isinstance(turned, list) and all(x in (0, 1) for x in turned) and len(turned) >= (layers or 0)
    ):
        yield "no_rope_layers does not say of every layer, by 1 or 0, whether it has positions"


def windows(config: Config) -> dict[str, Any]:
    """Return the fields of an architecture for the windows: one for all layers, or one for each, or none."""
    window = _window(config)
    sizes = [window or 0 if has else 0 for has in _windowed(config)]
    if len(set(sizes)) > 1:
        return {"windows": _pattern(sizes)}
    return {"window": sizes[0]} if sizes else {}


def positions(config: Config) -> dict[str, Any]:
    """Return the field of an architecture for the layers that positions turn, if some are left out."""
    if config["model_type"] != "smollm3" or all(turned := _turned(config)):
        return {}
    return {"rotated": _pattern(turned)}


def _window(config: Config) -> int | None:
    kind = config["model_type"]
    if kind == "llama" or (kind in SWITCHED and not config.get("use_sliding_window", False)):
        return None
    window: int | None = config.get("sliding_window", WINDOW[kind])
    return window


def _windowed(config: Config) -> list[bool]:
    """Return, by layer, whether it has a window; nothing where none has."""
    kind, layers, types = config["model_type"], config["num_hidden_layers"], config.get("layer_types")
    if _window(config) is None:
        return []
    if types is not None:
        return [x == SLIDING for x in types]
    if kind == "smollm3":
        return [not one for one in _turned(config)]
    first = config.get("max_window_layers", FIRST_WINDOWED) if kind in ("qwen2", "qwen3") else 0
    return [layer >= first for layer in range(layers)]


def _turned(config: Config) -> list[bool]:
    """Return, by layer, whether positions turn its queries and keys."""
    layers, turned = config["num_hidden_layers"], config.get("no_rope_layers")
    if turned is not None:
        return [bool(one) for one in turned[:layers]]
    interval = config.get("no_rope_layer_interval", INTERVAL)
    return [(layer + 1) % interval != 0 for layer in range(layers)]


def _pattern(layers: Sequence[T]) -> tuple[T, ...]:
    """Return the shortest beginning that makes all layers when it is repeated."""
    return next(
        tuple(layers[:n])
        for n in range(1, len(layers) + 1)
        if all(one == layers[i % n] for i, one in enumerate(layers))
    )


def window_sizes(architecture: Architecture) -> list[int]:
    """Return the window of every layer, 0 for all tokens."""
    return [architecture.window_of(n) for n in range(1, architecture.n_layers + 1)]


def fields(architecture: Architecture, kind: str) -> dict[str, Any]:
    """Return the fields of config.json for a kind that can express the architecture's windows and positions."""
    sizes, layers = window_sizes(architecture), range(1, architecture.n_layers + 1)
    found: dict[str, Any] = {}
    if kind != "llama":
        found["sliding_window"] = max(sizes) or None
    if kind in SWITCHED:
        found["use_sliding_window"] = any(sizes)
    if kind in ("qwen2", "qwen3"):
        found["max_window_layers"] = 0
    if kind == "smollm3":
        found["no_rope_layers"] = [int(architecture.rotates(n)) for n in layers]
    if kind == "smollm3" or len(set(sizes)) > 1:
        found["layer_types"] = [SLIDING if size else FULL for size in sizes]
    return found
