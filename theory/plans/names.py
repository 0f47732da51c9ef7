"""Models as a user names them: a preset, and variants joined by `+`.  Standard library only.

skipv1                          a named variant
skipv1:ratio=0.25,source=2      with options
resformer+gqa:group=4           several, whose changes are combined
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from theory.errors import BadInput, at_least
from theory.plans.architecture import Architecture, Latent, misfits
from theory.plans.combine import combine
from theory.plans.plan import Plan, Shape
from theory.plans.presets import PRESETS
from theory.plans.suggestions import hint, unknown
from theory.plans.variants import VARIANTS


class BadName(BadInput):
    """A name from a user that does not exist or makes no sense."""


def gqa(config: Architecture, group: int = 2) -> Architecture:
    """Give `group` query heads one key/value head (grouped queries)."""
    if group < 1 or config.n_heads % group:
        raise ValueError(f"groups of {group} do not divide {config.n_heads} heads")
    return replace(config, n_kv_heads=config.n_heads // group)


def mqa(config: Architecture) -> Architecture:
    """Give all query heads one key/value head (multi-query attention)."""
    return replace(config, n_kv_heads=1)


def mla(config: Architecture, width: int = 0, rope: int = 32) -> Architecture:
    """Use multi-head latent attention; width 0 stands for a quarter of the model's width, SkipV1Former's choice."""
    return replace(config, latent=Latent(width or config.d_model // 4, rope))


def window(config: Architecture, size: int = 0) -> Architecture:
    """Let every token attend to the last `size` tokens, itself included; by default a quarter of the context."""
    return replace(config, window=size or max(1, config.context // 4))


def qk_norm(config: Architecture) -> Architecture:
    """Norm the queries and keys of every head before positions turn them, as in Qwen3."""
    return replace(config, qk_norm=True)


def windows(config: Architecture, pattern: tuple[int, ...] = ()) -> Architecture:
    """Give the layers windows in turn, 0 for all tokens; by default a quarter of the context in five of six layers."""
    return replace(config, windows=pattern or (max(1, config.context // 4),) * 5 + (0,))


def nope(config: Architecture, every: int = 4) -> Architecture:
    """Leave rotary positions out of every so many layers, from that one on (NoPE layers, as in SmolLM3)."""
    at_least("every", every, 1)
    return replace(config, rotated=(True,) * (every - 1) + (False,))


def gated_heads(config: Architecture) -> Architecture:
    """Multiply what each head gives by a sigmoid of what its layer reads: gated attention, a number per head."""
    return replace(config, output_gate="head")


def gated_outputs(config: Architecture) -> Architecture:
    """Multiply what each head gives by a sigmoid of what its layer reads: gated attention, elementwise."""
    return replace(config, output_gate="element")


def differential(config: Architecture) -> Architecture:
    """Subtract the attention of every second head from its neighbour's (Differential Transformer, arXiv 2410.05258)."""
    return replace(config, differential=True)


def rezero(config: Architecture) -> Architecture:
    """Multiply what each sublayer puts out by a learned number, at first 0 (ReZero, arXiv 2003.04887)."""
    return replace(config, output_scale="number")


def layer_scale(config: Architecture, start: float = 0.1) -> Architecture:
    """Multiply what each sublayer puts out by a learned vector (LayerScale, arXiv 2103.17239)."""
    return replace(config, output_scale="vector", scale_start=start)


def laurel(config: Architecture, rank: int | None = None) -> Architecture:
    """Add a low-rank map of what each sublayer reads to its output (LAuReL-LR, arXiv 2411.07501).

    Its rank is by default a sixteenth of the model's width.
    """
    if rank is not None:
        at_least("rank", rank, 1)
    return replace(config, residual_rank=max(1, config.d_model // 16) if rank is None else rank)


def parallel(config: Architecture) -> Architecture:
    """Let attention and feed-forward of a layer read the same input, through one norm (GPT-J, PaLM)."""
    return replace(config, parallel=True)


HEAD_KINDS: dict[str, Callable[..., Architecture]] = {"gqa": gqa, "mqa": mqa, "mla": mla}
SIZES: dict[str, Callable[..., Architecture]] = {  # what is not a plan's, but the architecture's
    **HEAD_KINDS,
    "window": window,
    "windows": windows,
    "nope": nope,
    "qk-norm": qk_norm,
    "gated-heads": gated_heads,
    "gated-outputs": gated_outputs,
    "differential": differential,
    "rezero": rezero,
    "layer-scale": layer_scale,
    "laurel": laurel,
    "parallel": parallel,
}
ALTERNATIVES = (  # of which one part may stand in a name
    (frozenset(HEAD_KINDS), "what the heads are"),
    (frozenset({"gated-heads", "gated-outputs"}), "how what heads give is gated"),
    (frozenset({"rezero", "layer-scale"}), "how what sublayers put out is scaled"),
)

_PART = re.compile(r"\s*(?P<file>[^:]+\.py:)?(?P<name>[^:]+?)\s*(?::(?P<options>.*))?$")


def model(preset: str | Architecture, variant: str | None = None) -> tuple[Architecture, Plan]:
    """Return the architecture and plan of a preset under a variant, by default the one that its paper gives it.

    Any architecture may stand in place of a preset's name; its default is vanilla.  Raises BadName for anything that
    does not exist or does not fit.
    """
    config, rest = sized(preset, variant)
    return config, fitting(rest, config)


def sized(preset: str | Architecture, variant: str | None = None) -> tuple[Architecture, str]:
    """Return the architecture under a variant's architectural parts, such as `gqa`, and the rest, for `resolve`."""
    if isinstance(preset, Architecture):
        config, default = preset, "vanilla"
    elif preset in PRESETS:
        config, default = PRESETS[preset].architecture, PRESETS[preset].variant
    else:
        raise BadName(unknown("preset", preset, PRESETS, others={"variant": VARIANTS}))
    parts = (default if variant is None else variant).split("+")
    for alternatives, what in ALTERNATIVES:
        chosen = [name for name, _ in map(parsed, parts) if name in alternatives]
        if len(chosen) > 1:
            raise BadName(f"{' and '.join(chosen)} both say {what}")
    of_sizes = [part for part in parts if parsed(part)[0] in SIZES]
    named = [parsed(part)[0] for part in of_sizes]
    if len(set(named)) < len(named):
        raise BadName(f"{next(name for name in named if named.count(name) > 1)} is there twice")
    for name, options in map(parsed, of_sizes):
        config = called(name, SIZES[name], options, first=config)
    return config, "+".join(part for part in parts if part not in of_sizes) or "vanilla"


def fitting(text: str, config: Architecture) -> Plan:
    """Return the plan that `text` names for an architecture.  Raises BadName if the two do not fit."""
    return checked(resolve(text, config.shape), config)


def checked(plan: Plan, config: Architecture) -> Plan:
    """Return the plan itself.  Raises BadName if it does not fit the architecture."""
    for misfit in misfits(config, plan):
        raise BadName(misfit)
    return plan


def resolve(text: str, shape: Shape) -> Plan:
    """Return the plan that `text` names for a shape.  Raises BadName."""
    parts = text.split("+")
    if twice := next((part for part in parts if parts.count(part) > 1), None):
        raise BadName(f"{twice} is there twice")
    return joined([_plan(part, shape) for part in parts])


def joined(plans: Sequence[Plan]) -> Plan:
    """Return one plan with the changes of several.  Raises BadName if they do not go together."""
    try:
        return combine(*plans)
    except ValueError as error:
        raise BadName(str(error)) from None


def names_in(text: str) -> list[str]:
    """Return the named variants in a text such as `skipv1:ratio=0.25+gqa`; none where the text is something else."""
    parts = [part.partition(":")[0].strip() for part in text.split("+")]
    return [part for part in parts if part in VARIANTS]


def _plan(part: str, shape: Shape) -> Plan:
    name, options = parsed(part)
    if is_file(name):
        raise BadName(f"{name}: files are read by the command line; pass the plan itself instead")
    if name in SIZES:
        raise BadName(f"{name} says something of a model's architecture; here there is no model")
    if name not in VARIANTS:
        raise BadName(unknown("variant", name, [*VARIANTS, *SIZES], others={"preset": PRESETS}))
    return called(name, VARIANTS[name].make, options, first=shape)


def parsed(part: str) -> tuple[str, str]:
    """Return name and options of one part of a variant.  Raises BadName for an empty part."""
    match = _PART.match(part)
    if match is None:
        raise BadName(f"a variant is missing in {part!r}")
    return (match["file"] or "").strip() + match["name"], match["options"] or ""


def is_file(name: str) -> bool:
    """Return whether a name is a file, or FILE.py:function."""
    return name.endswith((".py", ".json")) or ".py:" in name


def called(name: str, make: Callable[..., Any], text: str, first: object) -> Any:
    """Return make(first, **options) with options read from the text.  Raises BadName for whatever goes wrong in
    there."""
    parameters = dict(list(signature(make).parameters.items())[1:])
    options: dict[str, object] = {}
    for key, value in pairs(name, text).items():
        if key not in parameters:
            takes = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
            raise BadName(f"{name} has no option {key!r}; {hint(key, parameters, takes)}")
        options[key] = _value(f"{name}: {key}", value, parameters[key].default)
    try:
        return make(first, **options)
    except BadName:
        raise
    except ValueError as error:
        raise BadName(f"{name}: {error}") from None
    except Exception as error:
        raise BadName(f"{name}: {type(error).__name__} {error}".rstrip()) from None


def pairs(name: str, text: str) -> dict[str, str]:
    """Return the options in `option=value,option=value`, where a value in brackets may hold commas.

    Raises BadName, also for repeated options.
    """
    parts = re.findall(r"(?:[^,()]|\([^()]*\))+", text)
    if ",".join(parts) != text:
        raise BadName(f"{name}: options are written option=value,option=value, got {text!r}")
    found: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key.strip() in found:
            raise BadName(f"{name}: {key.strip()} is given twice")
        found[key.strip()] = value
    return found


def _value(what: str, text: str, default: object) -> object:
    """Return a number of the default's type, or a tuple of them where it is one; without a default, a whole number."""
    try:
        value = literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    numbers = value if isinstance(value, tuple) and isinstance(default, tuple) else (value,)
    kinds, words = (int, "whole numbers") if isinstance(default, int | tuple | None) else (int | float, "numbers")
    if not numbers or not all(isinstance(x, kinds) and not isinstance(x, bool) for x in numbers):
        expected = f"{words} in brackets" if isinstance(default, tuple) else f"a {words[:-1]}"
        raise BadName(f"{what} must be {expected}, got {text!r}")
    return numbers if isinstance(default, tuple) else value
