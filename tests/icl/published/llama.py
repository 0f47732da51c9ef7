"""LLaMA as transformers defines and saves it, in plain tensor code that knows nothing of the decoder."""

import json

import torch
from safetensors.torch import save_file

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 11,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 13,
    "max_position_embeddings": 24,
    "rms_norm_eps": 1e-3,  # large enough to be missed
    "rope_theta": 50.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


# A layer's own value heads first, then layer 1's; and nothing beside.
OWN_FIRST = {
    "mixed": lambda own, first: own if own is first else torch.cat([own, first[:, 1:]], dim=1),
    "beside": lambda own, first: 0 * first,
}


def moved(model, seed=1):
    """With biases, gains and weights over depth that are not left at their start, which hides where they belong."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def state_dict(config, seed=0, dtype=torch.float64, valueless=()):
    """Random weights; layers in `valueless` project no values."""
    d, inner, width = config["hidden_size"], config["intermediate_size"], head_dim(config)
    queries, keys = (config[f"num_{kind}_heads"] * width for kind in ("attention", "key_value"))
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], d), "model.norm.weight": (d,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], d)
    for n in range(config["num_hidden_layers"]):
        shapes |= {
            f"model.layers.{n}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (d,),
                "self_attn.q_proj": (queries, d),
                "self_attn.k_proj": (keys, d),
                "self_attn.v_proj": (keys, d),
                "self_attn.o_proj": (d, queries),
                "post_attention_layernorm": (d,),
                "mlp.gate_proj": (inner, d),
                "mlp.up_proj": (inner, d),
                "mlp.down_proj": (d, inner),
            }.items()
            if not (n in valueless and "v_proj" in name)
        }
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], dim=-1)


def logits(config, weights, tokens, mixed=lambda own, first: own, beside=lambda own, first: 0 * own):
    """(batch, T) -> (batch, T, vocab).

    mixed, beside: what a layer attends over, and what is added to that, of its own values and of layer 1's
    """
    width, group = head_dim(config), config["num_attention_heads"] // config["num_key_value_heads"]
    batch, length = tokens.shape
    rates = config["rope_theta"] ** -(torch.arange(0, width, 2).double() / width)
    angles = torch.cat([torch.outer(torch.arange(length).double(), rates)] * 2, dim=-1)

    def norm(x, name):
        return weights[f"{name}.weight"] * x / (x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]).sqrt()

    def heads(x):
        return x.view(batch, length, -1, width).transpose(1, 2)

    def turned(x):
        return x * angles.cos() + rotate_half(x) * angles.sin()

    hidden, first = weights["model.embed_tokens.weight"][tokens], None
    for n in range(config["num_hidden_layers"]):
        layer = f"model.layers.{n}"
        x = norm(hidden, f"{layer}.input_layernorm")
        query, key, value = (
            heads(x @ weights[name].T) if (name := f"{layer}.self_attn.{kind}_proj.weight") in weights else None
            for kind in "qkv"
        )
        first = value if n == 0 else first
        added = 0 if value is None else beside(value, first).repeat_interleave(group, dim=1)
        value = mixed(value, first).repeat_interleave(group, dim=1)
        query, key = (
            norm(x, place) if f"{place}.weight" in weights else x
            for x, place in ((query, f"{layer}.self_attn.q_norm"), (key, f"{layer}.self_attn.k_norm"))
        )
        scores = turned(query) @ turned(key).repeat_interleave(group, dim=1).mT / width**0.5
        later = torch.arange(length)[:, None] - torch.arange(length)
        unseen = (later < 0) | (later >= (config.get("sliding_window") or length))
        scores = scores.masked_fill(unseen, float("-inf"))
        out = (scores.softmax(-1) @ value + added).transpose(1, 2).flatten(2)
        hidden = hidden + out @ weights[f"{layer}.self_attn.o_proj.weight"].T
        x = norm(hidden, f"{layer}.post_attention_layernorm")
        gate, up, down = (weights[f"{layer}.mlp.{name}_proj.weight"].T for name in ("gate", "up", "down"))
        hidden = hidden + (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return norm(hidden, "model.norm") @ weights[head].T


def write(folder, config, weights, shards=1):
    """A folder as transformers saves it."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    names = sorted(weights)
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
        return folder
    places = {name: f"model-{i % shards + 1:05d}-of-{shards:05d}.safetensors" for i, name in enumerate(names)}
    for place in set(places.values()):
        save_file({name: weights[name] for name in names if places[name] == place}, folder / place)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


def published_from(model, folder):
    """A decoder of ours as transformers would have saved it."""
    config, layer = model.config, "model.layers.{}"
    names = {"stem.embedding": "model.embed_tokens", "stem.head": "lm_head", "norm": "model.norm"}
    for n in range(config.n_layers):
        ours = {
            "attention.norm": "input_layernorm",
            "attention.projections.query": "self_attn.q_proj",
            "attention.projections.key": "self_attn.k_proj",
            "attention.projections.value": "self_attn.v_proj",
            "attention.output": "self_attn.o_proj",
            "feed_forward.norm": "post_attention_layernorm",
            "feed_forward.gate": "mlp.gate_proj",
            "feed_forward.up": "mlp.up_proj",
            "feed_forward.down": "mlp.down_proj",
        }
        names |= {f"layers.{n}.{own}": f"{layer.format(n)}.{theirs}" for own, theirs in ours.items()}
    about = {
        "model_type": "llama",
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.kv_heads,
        "vocab_size": config.stem.vocab,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "tie_word_embeddings": config.stem.tied,
    }
    weights = {f"{names[name.removesuffix('.weight')]}.weight": p.detach() for name, p in model.named_parameters()}
    return write(folder, about, weights)
