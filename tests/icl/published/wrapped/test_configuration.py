"""The configuration: fields that tools read, sizes from LLaMA's fields, and models that need no trust flag."""

import json
import subprocess
import sys
from dataclasses import asdict, replace

import pytest
import torch

from icl.published import own
from icl.published.reading import load
from tests.icl.published.test_transformers import OURS, THEIRS
from tests.icl.published.wrapped.small import CONFIG, close, decoder, tokens, wrapped
from theory.plans.architecture import Latent, Tokens
from theory.plans.names import model as named
from theory.plans.written import from_json, to_json

transformers = pytest.importorskip("transformers")
published = pytest.importorskip("icl.published.wrapped")
CrosslayerConfig, CrosslayerForCausalLM = published.CrosslayerConfig, published.CrosslayerForCausalLM

READ_BY_TOOLS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_parameters",
    "hidden_act",
    "tie_word_embeddings",
    "use_cache",
    "initializer_range",
)


@pytest.mark.parametrize(
    "name", [name for name, (kind, _) in THEIRS.items() if kind == "Llama" and "biases" not in name]
)
def test_fields_are_those_of_llama(name):
    """Taken from LLaMA's, and found again."""
    theirs = transformers.LlamaConfig(**THEIRS[name][1])
    config = CrosslayerConfig(**{field: getattr(theirs, field) for field in READ_BY_TOOLS}, plan="resformer")
    for field in READ_BY_TOOLS:
        assert getattr(config, field) == getattr(theirs, field), field
    again = CrosslayerConfig.from_dict(json.loads(config.to_json_string()))
    assert again.described() == config.described()


def test_sizes_and_names_make_a_model():
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
    config = CrosslayerConfig(**sizes, vocab_size=11, max_position_embeddings=20, plan="skipv1+gqa:group=2")
    architecture, plan = config.described()
    assert (architecture.kv_heads, architecture.context, architecture.stem) == (2, 20, Tokens(11))
    assert (architecture, plan) == named(replace(architecture, n_kv_heads=4), "skipv1+gqa:group=2")
    model = transformers.AutoModelForCausalLM.from_config(config)
    assert type(model) is CrosslayerForCausalLM
    assert model(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 11)
    assert transformers.AutoConfig.for_model("crosslayer", **sizes, plan="skipv1").num_hidden_layers == 3


def test_the_least_model_is_made_of_nothing():
    assert CrosslayerForCausalLM(CrosslayerConfig())(torch.tensor([[0]])).logits.shape == (1, 1, 1)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"hidden_size": 25, "num_attention_heads": 4}, "4 heads do not divide the width 25"),
        ({"plan": "skipv9"}, "skipv9"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"architecture": asdict(CONFIG), "hidden_size": 25}, "^hidden_size: 25, and the architecture has 24"),
        ({"architecture": asdict(CONFIG), "plan": to_json(named(OURS["llama"], "skipv1")[1])}, "does not fit"),
    ],
)
def test_contradictions_are_one_line(fields, says):
    with pytest.raises(ValueError, match=says) as stop:
        CrosslayerConfig(**fields)
    assert "\n" not in str(stop.value)


def test_a_field_that_is_set_later_must_not_contradict():
    config = CrosslayerConfig(asdict(CONFIG), "skipv1")
    config.num_hidden_layers = 7
    with pytest.raises(ValueError, match=r"^num_hidden_layers: 7, and the architecture has 3"):
        CrosslayerForCausalLM(config)


def test_what_no_llama_has_is_there_too():
    for sizes in (replace(CONFIG, n_kv_heads=0, latent=Latent(16, 4)), OURS["gpt2"]):
        config = CrosslayerConfig(asdict(sizes), "vanilla")
        assert (config.num_key_value_heads, config.head_dim) == (sizes.kv_heads, sizes.width)
        assert config.described()[0] == sizes


def test_older_folders_say_that_no_embeddings_are_tied(tmp_path):
    tied = replace(CONFIG, stem=Tokens(13, tied=True))
    config = CrosslayerConfig(asdict(tied), "skipv1", tie_word_embeddings=False)
    assert config.tie_word_embeddings
    config.tie_word_embeddings = False
    untied = CrosslayerForCausalLM(config)
    assert untied.get_output_embeddings() is not None
    untied.save_pretrained(tmp_path)
    assert not CrosslayerForCausalLM.from_pretrained(tmp_path).decoder.config.stem.tied


def test_folders_need_no_trust_once_the_package_is_imported(tmp_path):
    built = decoder("skipv1")
    own.save(built, tmp_path / "x")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "x")
    assert type(model) is CrosslayerForCausalLM
    assert type(transformers.AutoConfig.from_pretrained(tmp_path / "x")) is CrosslayerConfig
    with torch.no_grad():
        close(model(tokens()).logits, built(tokens()))


@pytest.mark.long
def test_others_are_asked_for_trust_and_nobody_else_imports_transformers(tmp_path):
    wrapped(decoder("skipv1")).save_pretrained(tmp_path / "x")
    code = f"""
import sys
import icl, icl.published.reading, icl.published.own
assert "transformers" not in sys.modules
import transformers
from transformers.dynamic_module_utils import HF_MODULES_CACHE
transformers.dynamic_module_utils.HF_MODULES_CACHE = {str(tmp_path / "modules")!r}
for auto in (transformers.AutoConfig, transformers.AutoModelForCausalLM):
    try:
        auto.from_pretrained({str(tmp_path / "x")!r}, trust_remote_code=False)
    except ValueError as error:
        assert "trust_remote_code" in str(error)
    else:
        raise AssertionError
model = transformers.AutoModelForCausalLM.from_pretrained({str(tmp_path / "x")!r}, trust_remote_code=True)
model.save_pretrained({str(tmp_path / "y")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    kept = {path.name for path in (tmp_path / "y").iterdir()}
    assert kept == {"config.json", "generation_config.json", "model.safetensors", own.MODULE}
    assert (tmp_path / "y" / own.MODULE).read_text() == own.CODE


def test_what_transformers_saves_is_read_here_and_there(tmp_path):
    built = decoder("value-embeddings")
    wrapped(built).save_pretrained(tmp_path / "x", max_shard_size="4KB")
    assert len(list((tmp_path / "x").glob("*.safetensors"))) > 2
    again, here = CrosslayerForCausalLM.from_pretrained(tmp_path / "x"), load(tmp_path / "x")
    for name, parameter in built.named_parameters():
        assert torch.equal(again.decoder.get_parameter(name), parameter)
        assert torch.equal(here.get_parameter(name), parameter)
    assert here.plan == built.plan
    content = json.loads((tmp_path / "x" / "config.json").read_text())
    assert from_json(content["plan"]) == built.plan
