"""Published weights: the decoder answers as LLaMA does in plain tensor code and, where it is there, in transformers."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import icl
from icl.models.context import of_context
from icl.published.reading import architecture, is_published, load
from icl.testing import check_identity
from tests.icl.published.llama import CONFIG, logits, state_dict, write
from theory.errors import BadInput

FULL, SLIDING = "full_attention", "sliding_attention"


def tokens(config, length, batch=2):
    return torch.randint(config["vocab_size"], (batch, length), generator=torch.Generator().manual_seed(1))


def agree(found, expected, config):
    """To rounding, which grows with the layers and with the lengths of sums."""
    terms = 100 * config["num_hidden_layers"] * (config["hidden_size"] + config["intermediate_size"])
    check_identity(found, expected, terms=terms, scale=max(1.0, float(expected.abs().max())))


@st.composite
def configs(draw):
    """Sizes from 1 on, odd ones among them; heads that do not make up the width; one group, several, or as many."""
    kv_heads, group, width = draw(st.integers(1, 3)), draw(st.integers(1, 3)), 2 * draw(st.integers(1, 3))
    free = draw(st.booleans())
    return CONFIG | {
        "hidden_size": draw(st.integers(1, 9)) if free else kv_heads * group * width,
        "intermediate_size": draw(st.integers(1, 7)),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "num_attention_heads": kv_heads * group,
        "num_key_value_heads": kv_heads,
        "head_dim": width if free else None,
        "vocab_size": draw(st.integers(1, 9)),
        "rope_theta": draw(st.sampled_from([2.0, 1e4, 5e5])),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 0.5])),
        "tie_word_embeddings": draw(st.booleans()),
    }


@settings(deadline=None, max_examples=60)
@given(configs(), st.integers(1, 9), st.integers(1, 3), st.integers(0, 99))
@pytest.mark.long
def test_logits_are_those_of_llama_in_plain_tensor_code(config, length, shards, seed):
    weights = state_dict(config, seed)
    with tempfile.TemporaryDirectory() as folder:
        model = load(write(Path(folder), config, weights, shards), dtype=torch.float64)
        inputs = tokens(config, length)
        agree(model(inputs), logits(config, weights, inputs), config)


MIXED = {
    "resformer": ((), {"mixed": lambda own, first: own if own is first else (own + first) / 2}),
    "svformer": ((1, 2), {"mixed": lambda own, first: first}),
    "neutreno": ((), {"beside": lambda own, first: 0.4 * (first - own)}),
}


def test_mistral_is_llama_with_a_window(tmp_path):
    sizes = {"model_type": "mistral", "num_key_value_heads": None, "num_attention_heads": 2, "sliding_window": 3}
    config = CONFIG | sizes
    weights = state_dict(config | {"num_key_value_heads": 2})
    folder = write(tmp_path, config, weights)
    inputs, plain = tokens(config, 9), config | {"num_key_value_heads": 2}
    model = icl.load_published(folder, dtype=torch.float64)
    agree(model(inputs), logits(plain, weights, inputs), plain)
    for wrong in (2, 4, None):
        with pytest.raises(AssertionError):
            agree(model(inputs), logits(plain | {"sliding_window": wrong}, weights, inputs), plain)
    for window in (None, 99, 24, 23):
        write(tmp_path, config | {"sliding_window": window}, {})
        assert _sizes(folder) == (24, window or 0)


def test_a_window_as_long_as_the_context_stays_when_that_is_lengthened(tmp_path):
    config = CONFIG | {"model_type": "mistral", "sliding_window": 5, "max_position_embeddings": 5}
    weights, inputs = state_dict(config), tokens(config, 12)
    longer = of_context(icl.load_published(write(tmp_path, config, weights), dtype=torch.float64), 12)
    agree(longer(inputs), logits(config, weights, inputs), config)


@pytest.mark.parametrize(
    ("says", "context", "window"),
    [
        ({}, 24, 0),
        ({"use_sliding_window": False, "sliding_window": 5, "max_window_layers": 0}, 24, 0),
        ({"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}, 24, 5),
        ({"use_sliding_window": True, "sliding_window": 5, "max_window_layers": -1}, 24, 5),
        ({"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 3}, 24, 0),
        ({"use_sliding_window": True, "sliding_window": 5}, 24, 0),  # from layer 28 on
        ({"use_sliding_window": True, "sliding_window": 5, "layer_types": ["sliding_attention"] * 3}, 24, 5),
        ({"use_sliding_window": True, "sliding_window": 5, "layer_types": ["full_attention"] * 3}, 24, 0),
        ({"model_type": "llama", "sliding_window": 5, "layer_types": ["sliding_attention"] * 3}, 24, 0),
        ({"model_type": "mistral", "sliding_window": 5, "layer_types": ["sliding_attention"] * 3}, 24, 5),
        ({"model_type": "mistral", "sliding_window": None, "layer_types": ["full_attention"] * 3}, 24, 0),
    ],
)
def test_windows_of_all_layers_and_of_none(says, context, window, tmp_path):
    assert _sizes(write(tmp_path, CONFIG | {"model_type": "qwen2"} | says, {})) == (context, window)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"layer_types": ["sliding_attention"] * 2}, "layer_types does not say of every layer"),
        ({"layer_types": []}, "layer_types does not say of every layer"),
        ({"layer_types": ["chunked_attention"] * 3}, "layer_types does not say of every layer"),
        ({"layer_types": 4}, "layer_types does not say of every layer"),
        ({"use_sliding_window": False, "layer_types": ["sliding_attention"] * 3}, "and there is none"),
        ({"max_window_layers": None}, "max_window_layers is no number"),
        ({"max_window_layers": 0, "sliding_window": 0}, "shows not even a token itself"),
        ({"max_window_layers": 2, "sliding_window": 0}, "shows not even a token itself"),
        ({"model_type": "mistral", "layer_types": [FULL, SLIDING, FULL]}, "layer_types differs .* of a mistral"),
        ({"model_type": "mistral", "layer_types": [FULL] * 3}, "layer_types differs .* of a mistral"),
    ],
)
def test_windows_that_the_decoder_has_not(says, why, tmp_path):
    config = CONFIG | {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 5} | says
    with pytest.raises(BadInput, match=why):
        architecture(write(tmp_path, config, {}))


@pytest.mark.parametrize(
    ("says", "windows"),
    [
        ({"max_window_layers": 1}, (0, 5, 5)),
        ({"layer_types": [FULL, SLIDING, FULL]}, (0, 5)),
        ({"layer_types": [SLIDING, FULL, FULL]}, (5, 0, 0)),
        ({"model_type": "ministral", "layer_types": [SLIDING, SLIDING, FULL]}, (5, 5, 0)),
        ({"model_type": "smollm3", "layer_types": [SLIDING, FULL, SLIDING]}, (5, 0)),
        ({"model_type": "smollm3", "no_rope_layer_interval": 2}, (0, 5)),
    ],
)
def test_windows_of_some_layers(says, windows, tmp_path):
    config = CONFIG | {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 5} | says
    found = architecture(write(tmp_path, config, {}))
    assert (found.window, found.windows) == (0, windows)


@pytest.mark.parametrize(
    ("says", "rotated"),
    [
        ({}, ()),  # every fourth layer, and there are three
        ({"no_rope_layer_interval": 2}, (True, False)),
        ({"no_rope_layer_interval": 1}, (False,)),
        ({"no_rope_layers": [1, 1, 0, 0]}, (True, True, False)),
        ({"no_rope_layers": [1, 1, 1, 0]}, ()),
        ({"model_type": "llama", "no_rope_layers": [1, 0, 1]}, ()),  # which transformers does not read there
    ],
)
def test_positions_of_some_layers(says, rotated, tmp_path):
    assert architecture(write(tmp_path, CONFIG | {"model_type": "smollm3"} | says, {})).rotated == rotated


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"no_rope_layers": [1, 0]}, "no_rope_layers does not say of every layer"),
        ({"no_rope_layers": [1, 0, 2]}, "no_rope_layers does not say of every layer"),
        ({"no_rope_layers": "all"}, "no_rope_layers does not say of every layer"),
        ({"no_rope_layer_interval": 0}, "no_rope_layer_interval is no number of layers"),
        ({"attention_bias": True}, "attention_bias is set without mlp_bias"),
    ],
)
def test_positions_that_have_no_meaning(says, why, tmp_path):
    with pytest.raises(BadInput, match=why):
        architecture(write(tmp_path, CONFIG | {"model_type": "smollm3"} | says, {}))


def test_what_smollm3_is_where_its_config_says_nothing(tmp_path):
    left_out = ("rope_theta", "tie_word_embeddings", "num_key_value_heads", "max_position_embeddings")
    config = {k: v for k, v in CONFIG.items() if k not in left_out} | {"model_type": "smollm3"}
    found = architecture(write(tmp_path, config, {}))
    assert (found.rope_theta, found.stem.tied, found.kv_heads, found.context) == (2e6, True, 4, 32_768)


def _sizes(folder):
    return architecture(folder).context, architecture(folder).window


def test_as_version_5_of_transformers_writes_it(tmp_path):
    parameters = {"rope_type": "default", "rope_theta": 50.0}
    config = {name: value for name, value in CONFIG.items() if name != "rope_theta"} | {"rope_parameters": parameters}
    weights, inputs = state_dict(CONFIG), tokens(CONFIG, 8)
    model = load(write(tmp_path, config, weights), dtype=torch.float64)
    agree(model(inputs), logits(CONFIG, weights, inputs), CONFIG)


def test_older_folders_hold_rotary_rates_and_tied_heads(tmp_path):
    config = CONFIG | {"tie_word_embeddings": True}
    weights, inputs = state_dict(config), tokens(config, 8)
    older = {"lm_head.weight": weights["model.embed_tokens.weight"].clone()}
    older |= {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": torch.ones(2) for n in range(3)}
    model = load(write(tmp_path, config, weights | older), dtype=torch.float64)
    agree(model(inputs), logits(config, weights, inputs), config)


def test_what_is_loaded_is_float32_or_as_asked_and_can_be_asked_for_gradients(tmp_path):
    weights = state_dict(CONFIG, dtype=torch.bfloat16)
    model = load(write(tmp_path, CONFIG, weights))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert torch.equal(model.norm.weight, weights["model.norm.weight"].float())
    assert all(p.requires_grad for p in model.parameters())
    assert not model.training
    exact = {name: tensor.double() for name, tensor in weights.items()}
    agree(load(tmp_path, dtype=torch.float64)(tokens(CONFIG, 8)), logits(CONFIG, exact, tokens(CONFIG, 8)), CONFIG)


def configured(**fields):
    def hurt(folder):
        content = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({k: v for k, v in (content | fields).items() if v != "absent"}))

    return hurt


def reweighted(change):
    def hurt(folder):
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors")

    return hurt


def indexed(content):
    def hurt(folder):
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        (folder / "model.safetensors.index.json").write_text(content)

    return hurt


def twice(folder):
    shutil.copy(folder / "model.safetensors", folder / "b.safetensors")
    indexed('{"weight_map": {"x": "model-1.safetensors", "y": "b.safetensors"}}')(folder)


DAMAGE = {
    "no config": (lambda f: (f / "config.json").unlink(), "holds no config.json"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "describes no model"),
    "no object": (lambda f: (f / "config.json").write_text("[]"), "describes no model"),
    "too deep": (lambda f: (f / "config.json").write_text("[" * 100_000), "describes no model"),
    "another type": (
        configured(model_type="bert"),
        "of type 'bert'; .* can be read are llama, mistral, ministral, qwen2, qwen3, smollm3, gpt2, .* and crosslayer",
    ),
    "no type": (configured(model_type=None), "of type 'None'"),
    "biases": (configured(attention_bias=True), "attention_bias is set"),
    "biases inside": (configured(mlp_bias=True), "mlp_bias is set"),
    "quantised": (configured(quantization_config={"bits": 4}), "quantization_config is set"),
    "another activation": (configured(hidden_act="gelu"), "hidden_act is 'gelu'"),
    "scaled by half": (configured(rope_scaling={"rope_type": "llama3", "factor": 8.0}), "has no low_freq_factor"),
    "scaled as before": (configured(rope_scaling={"type": "linear", "factor": 2.0}), r"are scaled \('linear'\)"),
    "scaled as now": (configured(rope_parameters={"rope_type": "yarn", "rope_theta": 9.0}), r"are scaled \('yarn'\)"),
    "scaled somehow": (configured(rope_scaling="much"), r"are scaled \('much'\)"),
    "positions by layer": (
        configured(rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 9.0}}),
        "rope_parameters has positions for full_attention alone",
    ),
    "a part turned": (configured(partial_rotary_factor=0.5), "turn a part of a head"),
    "no width": (configured(hidden_size="absent"), "has no hidden_size"),
    "no number": (configured(hidden_size="wide"), "describes no model"),
    "half a layer": (configured(num_hidden_layers=2.5), "n_layers must be a whole number"),
    "no layers": (configured(num_hidden_layers=0), "n_layers must be at least 1"),
    "odd heads": (configured(head_dim=3), "rotary positions need an even width"),
    "groups that do not divide": (configured(num_key_value_heads=3), "3 key/value heads do not divide 4 heads"),
    "a wordy theta": (configured(rope_theta="10000"), "rope_theta must be a finite number"),
    "no weights": (
        lambda f: (f / "model.safetensors").unlink(),
        "holds no model.safetensors and no model.safetensors.",
    ),
    "cut weights": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-1]),
        "is damaged",
    ),
    "no tensors": (lambda f: (f / "model.safetensors").write_bytes(b"nothing"), "is damaged"),
    "a tensor missing": (reweighted(lambda w: w.pop("model.norm.weight")), r"holds no tensor model\.norm\.weight"),
    "a tensor too many": (
        reweighted(lambda w: w.update({"model.layers.0.self_attn.q_proj.bias": torch.zeros(16)})),
        "q_proj.bias, which is not of the model",
    ),
    "a layer too many": (configured(num_hidden_layers=2), r"layers\.2\..*, which is not of the model"),
    "another shape": (configured(intermediate_size=12), r"is \(11, 16\) where \(12, 16\) belongs|is \(16, 11\) where"),
    "a transposed matrix": (
        reweighted(lambda w: w.update({"lm_head.weight": w["lm_head.weight"].T.contiguous()})),
        r"lm_head\.weight is \(16, 13\) where \(13, 16\) belongs",
    ),
    "whole numbers": (
        reweighted(lambda w: w.update({"model.norm.weight": torch.ones(16, dtype=torch.int8)})),
        "is of type I8",
    ),
    "no number at all": (
        reweighted(lambda w: w["model.norm.weight"].fill_(float("nan"))),
        r"model\.norm\.weight holds numbers that are not finite",
    ),
    "two heads": (configured(tie_word_embeddings=True), "the weights hold another head"),
    "an index of nothing": (indexed('{"weight_map": {}}'), "names no files"),
    "a damaged index": (indexed("{"), "index.json is damaged"),
    "a file that is not there": (indexed('{"weight_map": {"x": "y.safetensors"}}'), "names 'y.safetensors', which is"),
    "a file elsewhere": (indexed('{"weight_map": {"x": "../model-1.safetensors"}}'), "which is not there"),
    "a tensor twice": (twice, "both hold lm_head.weight"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_missing_damaged_or_cannot_be_expressed_is_one_line(damage, tmp_path):
    folder = write(tmp_path / "folder", CONFIG, state_dict(CONFIG))
    assert is_published(folder)
    hurt, message = DAMAGE[damage]
    hurt(folder)
    with pytest.raises(BadInput, match=message) as stop:
        load(folder)
    assert "\n" not in str(stop.value)
    assert str(folder) in str(stop.value)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("resformer-learned", "the variant's weight learned"),
        ("attnres", "the variant's weight depth"),
        ("skipv1", "self_attn.v_proj.weight is"),
        ("nothing", "nothing"),
    ],
)
def test_variants_that_the_weights_are_not_of(variant, message, tmp_path):
    folder = write(tmp_path, CONFIG, state_dict(CONFIG))
    with pytest.raises(BadInput, match=message) as stop:
        load(folder, variant=variant)
    assert "\n" not in str(stop.value)
