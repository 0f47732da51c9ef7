"""Decoders as folders of one readable model file, which needs torch and transformers and not this package.

The file is written for one plan and called after it; it reads as if somebody had written that variant of LLaMA by hand.
Weights have LLaMA's names; attention over depth adds a query and a gain to every sublayer, `attention_read` and
`mlp_read`, and `last_read`.  Its cache is transformers' DynamicCache, which holds the heads that a layer projects
itself: what the plan keeps, and nothing twice.

What it writes: LLaMA-like decoders whose layers attend over their own and the first layer's values
(`icl.published.standalone_values`), with a residual stream or a softmax over depth.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from icl.models.decoder import Decoder
from icl.published import standalone_attention as attention
from icl.published import standalone_text as pieces
from icl.published.layouts import Held
from icl.published.llama import EMBEDDING, HEAD, OF_A_LAYER
from icl.published.standalone_values import Values, unsupported, values_of
from icl.published.writing import SHARD, dtype_called, named, write_folder
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens
from theory.plans.plan import DepthAttention, Plan, Residual

# What an architecture must be: everything else is left to `Architecture`.
REQUIRED: dict[str, Any] = {
    "norm": "rms",
    "normed": "all",
    "gated": True,
    "positions": "rope",
    "bias": False,
    "dropout": 0.0,
    "mask": "causal",
    "score": "softmax",
    "latent": None,
    "copy_rank": None,
    "windows": (),
    "output_gate": "no",
    "output_scale": "no",
    "residual_rank": 0,
    "parallel": False,
    "differential": False,
    "rotated": (),
}
WIDTH = 118


def save(
    model: Decoder,
    folder: Path | str,
    *,
    name: str = "crosslayer",
    dtype: str = "float32",
    beside: Iterable[Path] = (),
    texts: Mapping[str, str] | None = None,
    shard: int = SHARD,
) -> None:
    """Write the model into a new folder, whole or not at all; other arguments as in `icl.published.writing.save`.

    name    of the variant, after which the file and its classes are called

    Raises BadInput for a folder that is there already, and for a model that such a file cannot express.
    """
    numbers = dtype_called(dtype)
    check(model.config, model.plan)
    about = {**config_of(model.config, name), "dtype": dtype, "torch_dtype": dtype}
    text = {f"{module_of(name)}.py": source(model.config, model.plan, name)}
    tensors = _split(named(model, _layout(model), numbers), model)
    write_folder(Path(folder), about, tensors, texts={**text, **(texts or {})}, beside=beside, shard=shard)


def check(config: Architecture, plan: Plan) -> None:
    """Raise BadInput, with the first thing that a standalone file cannot express of a decoder, if there is one."""
    for problem in _problems(config, plan):
        raise BadInput(f"a standalone file cannot be written: {problem}")


def _problems(config: Architecture, plan: Plan) -> Iterator[str]:
    if not isinstance(config.stem, Tokens):
        yield "the model reads no tokens"
    for field in fields(config):
        if field.name in REQUIRED and (value := getattr(config, field.name)) != REQUIRED[field.name]:
            yield f"{field.name} = {value}; it writes models with {field.name} = {REQUIRED[field.name]}"
    if not config.has_feed_forward(plan):
        yield "the model has no feed-forward network"
    if plan.dynamic != "no":
        yield f"values are dynamic ({plan.dynamic})"
    if not plan.output_projection:
        yield "attention has no output projection"
    yield from unsupported(plan)
    match plan.depth:
        case Residual():
            return
        case DepthAttention(score="softmax", query="learned", window=None, heads=1):
            return
        case rule:
            yield f"the depth rule ({rule.words()}) is neither a residual stream nor a softmax with one learned query"


def module_of(name: str) -> str:
    """Return the name of the module for a variant."""
    return "modeling_" + "_".join(_words(name)).lower()


def class_of(name: str) -> str:
    """Return what the names of the module's classes begin with."""
    joined = "".join(word[:1].upper() + word[1:] for word in _words(name))
    return joined if joined.isidentifier() else f"Crosslayer{joined}"


def _words(name: str) -> list[str]:
    """Return the words of a variant's name, without options: svformer+gqa:group=2 are svformer and gqa."""
    plain = re.sub(r":[^+]*", "", name)
    return [word for word in re.split(r"[^0-9A-Za-z]+", plain) if word and not word.isdigit()] or ["crosslayer"]


def config_of(config: Architecture, name: str) -> dict[str, Any]:
    """Return the content of config.json."""
    assert isinstance(config.stem, Tokens)
    module, name = module_of(name), class_of(name)
    return {
        "architectures": [f"{name}ForCausalLM"],
        "model_type": _model_type(name),
        "auto_map": {"AutoConfig": f"{module}.{name}Config", "AutoModelForCausalLM": f"{module}.{name}ForCausalLM"},
        "vocab_size": config.stem.vocab,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.width,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.stem.tied,
    }


def _model_type(name: str) -> str:
    return f"crosslayer_{name.lower()}"


def source(config: Architecture, plan: Plan, name: str) -> str:
    """Return the text of the model file.  The two have to fit (`check`)."""
    assert isinstance(config.stem, Tokens)
    values, depth = values_of(plan), plan.depth if isinstance(plan.depth, DepthAttention) else None
    names = {
        "name": class_of(name),
        "model_type": _model_type(class_of(name)),
        "title": f"{name}: {_title(values, depth)}",
        "explanation": _explained(values, depth, class_of(name)),
        "vocab": str(config.stem.vocab),
        "d": str(config.d_model),
        "d_ff": str(config.d_ff),
        "layers": str(config.n_layers),
        "heads": str(config.n_heads),
        "kv_heads": str(config.kv_heads),
        "width": str(config.width),
        "context": str(config.context),
        "eps": repr(config.norm_eps),
        "theta": repr(config.rope_theta),
        "tied": str(config.stem.tied),
        "bias": str(config.qkv_bias),
        "head_norms": attention.HEAD_NORMS if config.qk_norm else "",
        "norm_heads": attention.NORM_HEADS if config.qk_norm else "",
        "window": pieces.WINDOW.substitute(window=config.window) if config.window else "",
        "plain": pieces.WINDOWED if config.window else pieces.PLAIN,
        **_rotation(config),
        **_values(values, config),
        **_depth(depth, len(values.own), values),
    }
    names["through"] = pieces.filled(pieces.THROUGH if depth is None else pieces.THROUGH_DEPTH, names)
    layers = [pieces.LAYER] if depth is None else [pieces.DEPTH, pieces.DEPTH_LAYER]
    static = [] if len(values.own) == values.heads else [attention.STATIC_LAYER]
    whole = [pieces.HEAD, attention.ROTATION, *static, attention.ATTENTION, pieces.MLP, *layers, pieces.MODEL]
    return "\n".join(pieces.filled(piece, names) for piece in whole).rstrip("\n") + "\n"


def _rotation(config: Architecture) -> dict[str, str]:
    stretched = config.rope_stretched
    if stretched is None:
        return {"stretched": ""}
    numbers = {"factor": stretched.factor, "low": stretched.low, "high": stretched.high, "former": stretched.context}
    return {"stretched": attention.STRETCHED.substitute({name: repr(value) for name, value in numbers.items()})}


def _values(values: Values, config: Architecture) -> dict[str, str]:
    """Return the names of attention's pieces."""
    carried = not values.plain
    projection = attention.ALL_VALUES if len(values.own) == values.heads else attention.SOME_VALUES
    text = attention.VALUES_MIXED if values.mixed else attention.VALUES_JOINED
    if not values.own:
        projection, text = attention.FIRST_VALUES, attention.VALUES_FIRST
    return {
        "attention": "Attention with rotary positions" + (", over values of two layers." if carried else "."),
        "import_static": "" if len(values.own) == values.heads else attention.IMPORT_STATIC,
        "own_heads": "" if len(values.own) == values.heads else attention.OWN_HEADS,
        "value_projection": projection.substitute(bias=config.qkv_bias),
        "values": attention.VALUES_OWN if values.plain else text.substitute(sum=values.sum),
        "first_in": "first_value, " if carried else "",
        "last_in": ", first_value" if carried else "",
        "and_first": ", and the first layer's values" if carried else "",
        "first_first": "the first layer's values and " if carried else "",
        "no_first": pieces.NO_FIRST if carried else "",
        "returned_sources": "first_value, *sources" if carried else "tuple(sources)",
    }


def _depth(depth: DepthAttention | None, own: int, values: Values) -> dict[str, str]:
    """Return the names of the pieces of attention over depth, and the constants at the file's head."""
    constants = []
    if 0 < own < values.heads:
        constants.append(f"OWN_VALUE_HEADS = {own}  # of {values.heads}, in every layer after the first")
    if depth is None:
        return {"constants": "\n".join(constants), "init_depth": "", "last_read": ""}
    if depth.block > 1:
        constants.append(f"BLOCK = {depth.block}  # sublayers whose outputs are added up to one source")
    return {
        "constants": "\n".join(constants),
        "gain": pieces.GAIN if depth.key_norm else "",
        "query": "(self.query * self.gain)" if depth.key_norm else "self.query",
        "contents": "the normed sources" if depth.key_norm else "the sources",
        "becomes": "opens a new source, or is added to the newest" if depth.block > 1 else "is a new source",
        "call": _call(carried=not values.plain),
        "keys": pieces.NORMED_KEYS if depth.key_norm else pieces.BARE_KEYS,
        "write": pieces.WRITE_BLOCK if depth.block > 1 else pieces.WRITE_FULL,
        "init_depth": pieces.INIT_DEPTH + (f"\n{pieces.INIT_GAIN}" if depth.key_norm else ""),
        "last_read": pieces.LAST_READ,
    }


def _call(*, carried: bool) -> str:
    """Return the call of a layer, in one line or three."""
    left, first = ("first_value, *sources", "first_value, ") if carried else ("sources", "")
    arguments = f"{first}rotation, visible, attentions, *sources, past_key_values=past_key_values"
    if carried:
        return f"            {left} = layer(\n                {arguments}\n            )"
    return f"            {left} = layer({arguments})"


def _title(values: Values, depth: DepthAttention | None) -> str:
    parts = [] if values.plain else ["with values of the first layer"]
    parts += [] if depth is None else ["with attention over depth"]
    return f"LLaMA {' and '.join(parts)}." if parts else "LLaMA."


def _explained(values: Values, depth: DepthAttention | None, name: str) -> str:
    """Return what the variant is, in paragraphs of the file's docstring.

    name: what the names of classes begin with
    """
    sentences = [values.words()]
    if not values.plain:
        if len(values.own) < values.heads:
            kept = f"{len(values.own)} of {values.heads} value heads" if values.own else "no values"
            sentences.append(f"Such a layer projects and caches {kept} of its own (`{name}Attention`).")
        else:
            sentences.append(f"The sum is what is cached (`{name}Attention`).")
    paragraphs = ["  ".join(sentences)]
    if depth is not None:
        sources = (
            f"the embedding, and the sum of the outputs of every {depth.block} sublayers (an attention or a "
            f"feed-forward network is one sublayer)"
            if depth.block > 1
            else "the embedding and the output of every sublayer, which is an attention or a feed-forward network"
        )
        normed = "the sources, RMS-normed" if depth.key_norm else "the sources"
        paragraphs.append(
            f"There is no residual stream.  A sublayer reads a weighted sum of sources: {sources}.  The weights are a "
            f"softmax over the products of a query, which each sublayer learns, with {normed} (`DepthAttention`)."
        )
    return "\n\n".join(textwrap.fill(paragraph, WIDTH) for paragraph in paragraphs)


def _layout(model: Decoder) -> dict[str, Held]:
    """Return the tensors by the file's names, those of depth by ours."""
    present = dict(model.named_parameters())
    layout = {EMBEDDING: Held(("stem.embedding.weight",)), HEAD: Held(("stem.head.weight",))}
    layout["model.norm.weight"] = Held(("norm.weight",))
    for n in range(model.config.n_layers):
        layout |= {f"model.layers.{n}.{theirs}": Held((f"layers.{n}.{ours}",)) for theirs, ours in OF_A_LAYER.items()}
    layout |= {name: Held((name,)) for name in present if name.startswith("depth.")}
    return {name: held for name, held in layout.items() if held.parameters[0] in present}


def _split(tensors: Mapping[str, Tensor], model: Decoder) -> dict[str, Tensor]:
    """Return the tensors with the rows of depth attention's parameters by sublayer."""
    found = {name: tensor for name, tensor in tensors.items() if not name.startswith("depth.")}
    layers = [f"model.layers.{n}" for n in range(model.config.n_layers)]
    reads = [*(f"{layer}.{read}" for layer in layers for read in ("attention_read", "mlp_read")), "model.last_read"]
    for part in ("query", "gain"):
        if f"depth.{part}" in tensors:
            rows = tensors[f"depth.{part}"].unbind(0)
            found |= {f"{read}.{part}": row.clone() for read, row in zip(reads, rows, strict=True)}
    return found
