"""Changes that a variant makes in deeper models and that the two-layer toy does not contain.  Standard library only.

The toy's first layer is the assumed copy, so the toy sees only what a plan's layer 2 does.  A rule such as "from layer
3 on" is vanilla there, and so is a rule for layer 1 alone.
"""

from __future__ import annotations

from collections.abc import Callable

from theory.plans.depth import Chain, Residual
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape, changes

DEPTHS = (12, 4)  # layers of the models in which a variant is looked at
MOST_HEADS = 64  # a layer, of these: plans are written out head by head
LAYER = 2  # which the toy reads


def beyond_two_layers(variant: str | Callable[[Shape], Plan], heads: int) -> tuple[str, ...] | None:
    """Return what a variant changes against vanilla in deeper models and not in layer 2 of two layers.

    Args:
        variant: A variant's name, or a function from a shape to a plan.
        heads: Heads per layer.

    Returns:
        The changes in words, such as "values from layer 3 on"; empty where two layers contain every kind of change;
        None where the variant has no plan of 12 or 4 layers with this many heads, or heads exceed 64.
    """
    shapes = [Shape(layers, heads) for layers in DEPTHS] if heads <= MOST_HEADS else []
    plans = [made for shape in shapes if (made := _plan(variant, shape)) is not None]
    two = _plan(variant, Shape(2, heads))
    if two is None or not plans:
        return None
    found: dict[str, str] = {}
    for deeper in reversed(plans):
        found |= missing(two, deeper)
    return tuple(f"{what}{where}" for what, where in found.items())


def missing(two: Plan, deeper: Plan) -> dict[str, str]:
    """Return what `deeper` changes against vanilla and layer 2 of `two` does not, and in words where it begins."""
    seen = {what for what, layers in _changes(two).items() if not layers or LAYER in layers}
    found = {}
    for what, layers in _changes(deeper).items():
        if what not in seen:
            found[what] = _where(layers)
    return found


def _where(layers: list[int]) -> str:
    if not layers:
        return ""
    return f" in layer {layers[0]}" if len(layers) == 1 else f" from layer {layers[0]} on"


def _changes(changed: Plan) -> dict[str, list[int]]:
    """Return what differs from vanilla, each change with its layers; without layers for a change of the whole plan.

    A stream of all outputs and the last output alone are one to the toy, which has no residual stream.
    """
    whole = {
        "the depth rule": not isinstance(changed.depth, Residual | Chain),
        "values that depend on the query": changed.dynamic != "no",
        "the output projection": not changed.output_projection,
    }
    return changes(changed) | {what: [] for what, differs in whole.items() if differs}


def _plan(variant: str | Callable[[Shape], Plan], shape: Shape) -> Plan | None:
    try:
        made = resolve(variant, shape) if isinstance(variant, str) else variant(shape)
        return made if isinstance(made, Plan) else None
    except Exception:  # a rule of the user's for other depths may fail in any way
        return None
