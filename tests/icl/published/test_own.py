"""Decoders under any plan as folders that transformers reads, and back."""

import json
from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.published import own
from icl.published.reading import architecture, load, plan
from tests.icl.models.small import LLAMA
from tests.icl.published.exported import exported
from tests.icl.published.test_transformers import OURS, decoder, difference, tokens
from theory.errors import BadInput
from theory.plans.architecture import Tokens, Vectors
from theory.plans.mix import NOTHING
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention, Learned, Shape, v
from theory.plans.plan import plan as made

pytest.importorskip("transformers")

MINE = made(
    Shape(2, 2),
    values=lambda n, h: v(n, h) if h == 1 else Learned("mine", 0.7) * v(1, h),
    beside=lambda n, h: v(1, 1) if n > 1 else NOTHING,
    depth=DepthAttention(),
)


@pytest.mark.parametrize("name", ["skipv1", "resformer-learned", "attnres", "denseformer", "mine", "dva"])
def test_any_plan_answers_there_as_here(name, monkeypatch, tmp_path):
    config = OURS["llama"] if name != "dva" else replace(OURS["llama"], n_kv_heads=0)
    chosen = MINE if name == "mine" else resolve(name, config.shape)
    ours = Decoder(config, chosen, std=0.4).eval()
    theirs = exported(ours, tmp_path, monkeypatch, shard=4000)
    with torch.no_grad():
        found = theirs(tokens(), use_cache=False)
        assert torch.equal(found.logits, ours(tokens()))
        labelled = theirs(tokens(), labels=tokens()).loss
    expected = torch.nn.functional.cross_entropy(found.logits[:, :-1].flatten(0, 1), tokens()[:, 1:].flatten())
    assert torch.allclose(labelled, expected)
    again = load(tmp_path / "theirs")
    assert (again.config, again.plan) == (config, chosen)
    assert torch.equal(again(tokens()), ours(tokens()))
    assert plan(tmp_path / "theirs") == chosen
    assert architecture(tmp_path / "theirs") == config


def test_padded_texts_are_answered_each_as_by_itself(skip):
    ours = decoder(OURS["llama"], "skipv1")
    real = torch.ones(2, 20, dtype=torch.long)
    real[0, :6] = 0
    with torch.no_grad():
        found = skip(tokens(), attention_mask=real).logits
        assert difference(found[0, 6:], ours(tokens()[:1, 6:])[0]) < 1e-5
        assert difference(found[1], ours(tokens())[1]) < 1e-5


def test_tied_embeddings_are_one_matrix(monkeypatch, tmp_path):
    ours = decoder(replace(OURS["llama"], stem=Tokens(13, tied=True)), "skipv1")
    theirs = exported(ours, tmp_path, monkeypatch)
    with torch.no_grad():
        assert difference(theirs(tokens()).logits, ours(tokens())) < 1e-5


def test_the_folder_says_itself_what_it_holds(tmp_path):
    ours = decoder(OURS["llama"], "skipv1")
    own.save(ours, tmp_path / "x")
    assert load(tmp_path / "x", variant="skipv1").plan == ours.plan
    with pytest.raises(BadInput, match="says itself"):
        load(tmp_path / "x", variant="resformer")
    path = tmp_path / "x" / "config.json"
    content = json.loads(path.read_text())
    for wrong, says in (
        ({"plan": {"layers": 2}}, "no plan"),
        ({"plan": None}, "no plan"),
        ({"architecture": {}}, "has no stem"),
        ({"architecture": content["architecture"] | {"n_layers": 3}}, "does not fit"),
    ):
        path.write_text(json.dumps(content | wrong))
        with pytest.raises(BadInput, match=says) as stop:
            load(tmp_path / "x")
        assert "\n" not in str(stop.value)


def test_what_reads_no_tokens_is_refused(tmp_path):
    vectors = decoder(replace(LLAMA, stem=Vectors(4)))
    with pytest.raises(BadInput, match="reads no tokens"):
        own.save(vectors, tmp_path / "x")
    with pytest.raises(BadInput, match="not 'int8'"):
        own.save(decoder(OURS["llama"]), tmp_path / "x", dtype="int8")
    assert not list(tmp_path.iterdir())
