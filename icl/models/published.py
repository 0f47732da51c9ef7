"""Decoders from weights that others have published: of LLaMA's architecture, as Hugging Face's transformers saves them.

A folder holds config.json and model.safetensors, or several such files and model.safetensors.index.json, which says
where each tensor lies.  Queries and keys are turned there in pairs (i, i + width / 2), as they are here
(`icl.models.rotary`), and query head h reads key/value head h // group: tensors are taken as they are, under other
names.  What the decoder cannot express is refused.  Nothing is unpickled, and no code of a folder is run.

ResFormer's, SVFormer's and NeuTRENO's public code names its tensors in the same way, and leaves out what it does not
project; so their weights are read under `resformer`, `svformer` and `neutreno`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from icl.models.decoder import Decoder
from icl.models.saved import CONFIG, WEIGHTS
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, misfits
from theory.plans.names import fitting
from theory.plans.plan import Plan

INDEX = f"{WEIGHTS}.index.json"
KINDS = ("llama", "mistral")
PLAIN = {"F64", "F32", "F16", "BF16"}  # as safetensors names them: numbers that stand for themselves
MOST_TOKENS = {"llama": 2048, "mistral": 131_072}  # transformers' default of max_position_embeddings
WINDOW = 4096  # its default of Mistral's sliding window
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
NAMES = {"stem.embedding.weight": EMBEDDING, "norm.weight": "model.norm.weight", "stem.head.weight": HEAD}
NAMES_OF_A_LAYER = {
    "attention.norm.weight": "input_layernorm.weight",
    "attention.projections.query.weight": "self_attn.q_proj.weight",
    "attention.projections.key.weight": "self_attn.k_proj.weight",
    "attention.projections.value.weight": "self_attn.v_proj.weight",
    "attention.output.weight": "self_attn.o_proj.weight",
    "feed_forward.norm.weight": "post_attention_layernorm.weight",
    "feed_forward.gate.weight": "mlp.gate_proj.weight",
    "feed_forward.up.weight": "mlp.up_proj.weight",
    "feed_forward.down.weight": "mlp.down_proj.weight",
}


def is_published(folder: Path) -> bool:
    """Whether a folder's config.json says of which type its model is, as a training's does not."""
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "model_type" in config


def architecture(folder: Path | str) -> Architecture:
    """What a folder's config.json describes; its context ends where a sliding window would begin to matter.

    Raises BadInput, in one line, for what is not there, makes no sense, or cannot be expressed.
    """
    path = Path(folder) / CONFIG
    try:
        config = json.loads(path.read_bytes())
        kind = config["model_type"]
    except OSError as error:
        raise BadInput(f"{folder} holds no {CONFIG}") from error
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise BadInput(f"{path} describes no model ({type(error).__name__}: {error})") from error
    for problem in _unknown(config, kind):
        raise BadInput(f"{path}: {problem}")
    try:
        return _architecture(config, kind)
    except KeyError as error:
        raise BadInput(f"{path} describes no model: it has no {error.args[0]}") from error
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path} describes no model: {error}") from error


def _unknown(config: Mapping[str, Any], kind: object) -> Iterator[str]:
    """What of a config the decoder cannot express, a line each."""
    if kind not in KINDS:
        yield f"a model of type {str(kind)[:24]!r}; those that can be read are {' and '.join(KINDS)}"
    for name in ("attention_bias", "mlp_bias", "quantization_config"):
        if config.get(name):
            yield f"{name} is set, which the decoder does not have"
    if (act := config.get("hidden_act", "silu")) not in ("silu", "swish"):
        yield f"hidden_act is {str(act)[:24]!r}; the decoder's gated feed-forward has silu"
    for rope in _rotary(config):
        if (scaled := rope.get("rope_type", rope.get("type", "default"))) != "default":
            yield f"its rotary positions are scaled ({str(scaled)[:24]!r}), which the decoder's are not"
        if rope.get("partial_rotary_factor", 1) != 1:
            yield "its rotary positions turn a part of a head, and the decoder's all of it"


def _rotary(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What says how positions are turned: rope_parameters since version 5 of transformers, two fields before."""
    parts = [config.get(name) or {} for name in ("rope_parameters", "rope_scaling")]
    fields = {name: config[name] for name in ("rope_theta", "partial_rotary_factor") if name in config}
    return [*(part if isinstance(part, dict) else {"rope_type": part} for part in parts), fields]


def _architecture(config: Mapping[str, Any], kind: str) -> Architecture:
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", 8 if kind == "mistral" else None)
    context = config.get("max_position_embeddings", MOST_TOKENS[kind])
    if kind == "mistral" and (window := config.get("sliding_window", WINDOW)) is not None:
        context = min(context, window)
    theta = next((part["rope_theta"] for part in _rotary(config) if "rope_theta" in part), 10_000.0)
    return Architecture(
        d_model=config["hidden_size"],
        n_layers=config["num_hidden_layers"],
        n_heads=heads,
        d_ff=config["intermediate_size"],
        context=context,
        stem=Tokens(config["vocab_size"], tied=config.get("tie_word_embeddings", False)),
        n_kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=config.get("head_dim") or 0,
        norm="rms",
        norm_eps=config.get("rms_norm_eps", 1e-6),
        gated=True,
        positions="rope",
        rope_theta=theta,
    )


def check(folder: Path, variant: str | Plan) -> None:
    """Raises BadInput, as `load` does, for a folder whose tensors are not the variant's.  Reads no numbers."""
    _laid_out(folder, variant)


def _laid_out(folder: Path, variant: str | Plan) -> tuple[Decoder, dict[str, str], dict[str, tuple[int, ...]]]:
    """A decoder without weights, its parameters' names by the folder's, and the shape of a head that is tied."""
    config = architecture(folder)
    plan = fitting(variant, config) if isinstance(variant, str) else variant
    for misfit in misfits(config, plan):
        raise BadInput(f"{folder}: {misfit}")
    model = Decoder(config, plan, device="meta")
    ours = {_named(name): name for name, _ in model.named_parameters()}
    shapes = {name: tuple(model.get_parameter(own).shape) for name, own in ours.items()}
    tied = {} if HEAD in ours else {HEAD: shapes[EMBEDDING]}  # some folders hold it all the same
    _check(weight_files(folder), {**shapes, **tied}, optional=tied.keys())
    return model, ours, tied


def load(
    folder: Path | str,
    *,
    variant: str | Plan = "vanilla",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Decoder:
    """The decoder of a folder, ready to be asked.

    variant   what the weights are of, by name or as a plan
    dtype     float32 or better

    Raises BadInput, in one line, for a folder that is not whole, or whose tensors are not, one for one, the variant's.
    """
    folder = Path(folder)
    model, ours, tied = _laid_out(folder, variant)
    found: dict[str, Tensor] = {}
    for path in weight_files(folder):
        with _opened(path) as file:
            for name in _tensors(file):
                found[name] = file.get_tensor(name).to(device=device, dtype=dtype)
                if not bool(found[name].isfinite().all()):
                    raise BadInput(f"{path} is damaged: {name} holds numbers that are not finite")
    if tied and not torch.equal(found.pop(HEAD, found[EMBEDDING]), found[EMBEDDING]):
        raise BadInput(f"{folder}: {CONFIG} makes the embeddings the head, and the weights hold another head")
    model.load_state_dict({ours[name]: tensor for name, tensor in found.items()}, assign=True)
    return model.eval()


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's weights, in order.  Raises BadInput if some are not there."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    path = folder / INDEX
    if not path.is_file():
        raise BadInput(f"{folder} holds no {WEIGHTS} and no {INDEX}; weights of other kinds are not read")
    try:
        names = sorted({str(name) for name in json.loads(path.read_bytes())["weight_map"].values()})
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} is damaged ({type(error).__name__}: {error})") from error
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise BadInput(f"{path} names {name[:80]!r}, which is not there")
    if not names:
        raise BadInput(f"{path} names no files")
    return [folder / name for name in names]


def _named(name: str) -> str:
    """What a decoder's parameter is called in a published folder.  Raises BadInput for one that has no place there."""
    if name in NAMES:
        return NAMES[name]
    first, _, rest = name.partition(".")
    number, _, part = rest.partition(".")
    if first == "layers" and part in NAMES_OF_A_LAYER:
        return f"model.layers.{number}.{NAMES_OF_A_LAYER[part]}"
    raise BadInput(f"the variant's weight {name} has no name in the layout of published LLaMA models")


def _check(files: list[Path], shapes: Mapping[str, tuple[int, ...]], *, optional: Collection[str]) -> None:
    """Raises BadInput unless the files hold tensors of just these names and shapes, each once."""
    there: dict[str, Path] = {}
    for path in files:
        with _opened(path) as file:
            for name in _tensors(file):
                if name in there:
                    raise BadInput(f"{path} and {there[name]} both hold {name}")
                there[name] = path
                tensor = file.get_slice(name)
                shape, dtype = tuple(tensor.get_shape()), tensor.get_dtype()
                if name not in shapes:
                    raise BadInput(f"{path} holds {name}, which is not of the model that {CONFIG} describes")
                if shape != shapes[name]:
                    raise BadInput(f"{path}: {name} is {shape} where {shapes[name]} belongs")
                if dtype not in PLAIN:
                    raise BadInput(f"{path}: {name} is of type {dtype}; those that can be read are {sorted(PLAIN)}")
    if missing := shapes.keys() - there.keys() - set(optional):
        raise BadInput(f"{files[0].parent} holds no tensor {min(missing)}")


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{path} is damaged ({error})") from error


def _tensors(file: Any) -> list[str]:
    """Names in a file; without the rotary rates that older folders hold, as they follow from config.json."""
    return [name for name in file.keys() if not name.endswith("rotary_emb.inv_freq")]  # noqa: SIM118 - not a mapping
