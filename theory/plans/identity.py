"""Identities: what names a training, a checkpoint or a run, so that it is resumed by what began it and by nothing else.

An identity is made of everything that decides the numbers.  A field that has its default value does not enter it: so a
new field, whose default is what was done before, orphans no finished training.  Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

# Fields that entered identities before defaults were left out.  They still do, else what was finished then would be
# orphaned.  New fields and new classes are not added here.
ALWAYS = {
    name: frozenset(always.split())
    for name, always in {
        "Architecture": "n_kv_heads head_dim norm norm_eps gated positions rope_theta qkv_bias bias dropout mask score "
        "latent copy_rank",
        "Arm": "std twin",
        "Arms": "scores start",
        "Config": "std heads mixed held_out_windows large held_out copying_prompts construction_prompts starts",
        "Copying": "noise",
        "DepthAttention": "block score query key_norm window heads",
        "EndToEndSpec": "start scores",
        "Gaussian": "scale",
        "Head": "key_copied key_raw readout key",
        "Mix": "terms",
        "Orthogonal": "embedding key",
        "Plan": "depth dynamic feed_forward output_projection",
        "PromptSource": "held_out_prompts",
        "Random": "gain",
        "Recipe": "betas eps weight_decay clip warmup start floor accumulate precision compile log_every "
        "evaluate_every",
        "TextSource": "held_out_windows",
        "Tokens": "tied",
        "ToySpec": "init",
        "Training": "batch learning_rate start",
        "Tuning": "grid share",
        "Vectors": "read_in",
    }.items()
}


def canonical(value: Any) -> Any:
    """Return dataclasses as dictionaries of the fields that count, where `dataclasses.asdict` takes all fields."""
    if _is_made(value):
        return {field.name: canonical(getattr(value, field.name)) for field in _counting(value)}
    if isinstance(value, dict):
        return {canonical(key): canonical(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(canonical(item) for item in value)
    return value


def text(value: Any) -> str:
    """Return the `repr` of a value with the fields that count, and no others."""
    if _is_made(value):
        parts = (field for field in _counting(value) if field.repr)
        return f"{type(value).__qualname__}({', '.join(f'{f.name}={text(getattr(value, f.name))}' for f in parts)})"
    if type(value) is tuple:
        return f"({', '.join(map(text, value))}{',' if len(value) == 1 else ''})"
    if type(value) is list:
        return f"[{', '.join(map(text, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{text(key)}: {text(item)}' for key, item in value.items())}}}"
    return repr(value)


def _is_made(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _counting(value: Any) -> Iterator[Field[Any]]:
    always = ALWAYS.get(type(value).__qualname__, frozenset())
    for field in fields(value):
        if field.name in always or getattr(value, field.name) != _default(field):
            yield field


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
