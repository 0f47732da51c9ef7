"""Decoders under any plan as models of transformers, and back.

They take the arguments of transformers' LLaMA, and answer as it does or refuse by name."""

import json
from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.models.sampling import Sampling, generate
from icl.published import own, writing
from icl.published.reading import architecture, load, plan
from tests.icl.models.small import LLAMA
from tests.icl.published.test_transformers import OURS, decoder, difference, tokens
from theory.errors import BadInput
from theory.plans.architecture import Tokens, Vectors
from theory.plans.mix import NOTHING
from theory.plans.names import resolve
from theory.plans.plan import DepthAttention, Learned, Shape, v
from theory.plans.plan import plan as made

transformers = pytest.importorskip("transformers")

MINE = made(
    Shape(2, 2),
    values=lambda n, h: v(n, h) if h == 1 else Learned("mine", 0.7) * v(1, h),
    beside=lambda n, h: v(1, 1) if n > 1 else NOTHING,
    depth=DepthAttention(),
)


def exported(ours, place, patch, **options):
    """A decoder that is written to `place`/theirs, as transformers reads it."""
    own.save(ours, place / "theirs", **options)
    patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(place / "modules"))
    options = {"trust_remote_code": True, "dtype": torch.float32}
    return transformers.AutoModelForCausalLM.from_pretrained(place / "theirs", **options).eval()


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as one:
        yield one


@pytest.fixture(scope="module")
def skip(patch, tmp_path_factory):
    return exported(decoder(OURS["llama"], "skipv1"), tmp_path_factory.mktemp("skip"), patch)


@pytest.mark.parametrize("name", ["skipv1", "resformer-learned", "attnres", "denseformer", "mine", "dva"])
def test_any_plan_answers_there_as_here(name, monkeypatch, tmp_path):
    config = OURS["llama"] if name != "dva" else replace(OURS["llama"], n_kv_heads=0)
    chosen = MINE if name == "mine" else resolve(name, config.shape)
    ours = Decoder(config, chosen, std=0.4).eval()
    theirs = exported(ours, tmp_path, monkeypatch, shard=4000)
    with torch.no_grad():
        found = theirs(tokens())
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


def test_texts_are_those_that_are_generated_here(skip):
    """Without a cache there, with one here."""
    there = skip.generate(tokens(1, 5), max_new_tokens=8, do_sample=False, pad_token_id=0)[0, 5:].tolist()
    here = generate(decoder(OURS["llama"], "skipv1"), tokens(1, 5).tolist(), 8, sampling=Sampling(temperature=0.0))
    assert there == [picked[0] for picked in here]


def test_from_a_config_it_starts_as_a_decoder_does(skip):
    ours, new = Decoder(OURS["llama"], resolve("skipv1", OURS["llama"].shape)), type(skip)(skip.config)
    assert all(torch.equal(p, dict(new.decoder.named_parameters())[n]) for n, p in ours.named_parameters())


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


# --- the arguments of transformers' LLaMA ----------------------------------------------------------------------------

T = 20
TWICE = torch.arange(T // 2).repeat(2)[None]
LEFT, RIGHT, HOLE = torch.ones(3, 2, T, dtype=torch.long)
LEFT[0, :6], RIGHT[0, -6:], HOLE[0, 7:10] = 0, 0, 0
CAUSAL = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
LABELS = tokens().clone()
LABELS[:, :5] = -100


@pytest.fixture(scope="module", params=[0, 4], ids=["llama", "mistral"])
def both(request, patch, tmp_path_factory):
    """The same vanilla model as transformers' own code runs it and as the wrapper does."""
    folder = tmp_path_factory.mktemp("both")
    ours = decoder(replace(OURS["llama"], window=request.param))
    writing.save(ours, folder / "llama")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder / "llama", dtype=torch.float32).eval()
    return theirs, exported(ours, folder, patch)


@pytest.mark.parametrize(
    "arguments",
    [
        {"position_ids": TWICE},
        {"position_ids": torch.arange(T)[None] // 4 * 2 + torch.arange(T)[None] % 4},
        {"position_ids": torch.cat([torch.arange(T)[None], TWICE])},
        {"position_ids": torch.arange(3, T + 3)[None]},
        {"position_ids": TWICE, "attention_mask": torch.ones(2, T)},
        {"position_ids": TWICE, "attention_mask": RIGHT},
        {"attention_mask": LEFT},
        {"attention_mask": LEFT, "position_ids": (LEFT.cumsum(-1) - 1).clamp(min=0)},
        {"attention_mask": RIGHT},
        {"attention_mask": HOLE},
        {"attention_mask": CAUSAL & (torch.arange(T) > torch.arange(T)[:, None] - 5)},
        {"attention_mask": torch.zeros(1, 1, T, T).masked_fill(~CAUSAL, torch.finfo(torch.float32).min)},
        {"logits_to_keep": 3},
        {"logits_to_keep": torch.tensor([0, 7])},
        {"labels": LABELS},
        {"labels": LABELS, "num_items_in_batch": 7},
        {"labels": tokens(), "ignore_index": 3},
        {"labels": LABELS, "shift_labels": LABELS},
        {"labels": LABELS, "position_ids": TWICE},
        {"use_cache": False, "output_attentions": False, "is_causal": True, "cu_seq_lens_q": None},
    ],
    ids=str,
)
def test_answers_are_those_of_transformers(both, arguments):
    mask = arguments.get("attention_mask", torch.ones(2, T))
    real = mask.bool() if mask.dim() == 2 else torch.ones(2, T, dtype=torch.bool)
    if "logits_to_keep" in arguments:
        real = slice(None)
    with torch.no_grad():
        theirs, ours = (model(tokens(), **({"use_cache": False} | arguments)) for model in both)
    assert difference(ours.logits[real], theirs.logits[real]) < 1e-5
    assert (ours.loss is None) == (theirs.loss is None)
    if ours.loss is not None:
        assert torch.allclose(ours.loss, theirs.loss, rtol=1e-5)


def test_embedded_tokens_are_read_as_tokens(both):
    with torch.no_grad():
        for model in both:
            x = model.get_input_embeddings()(tokens())
            for options in ({}, {"attention_mask": torch.ones(2, T)}, {"position_ids": TWICE}):
                found = model(inputs_embeds=x, use_cache=False, **options).logits
                assert difference(found, model(tokens(), use_cache=False, **options).logits) < 1e-5
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        both[1](tokens(), inputs_embeds=x)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        both[1]()


@pytest.mark.parametrize("plan", ["skipv1", "attnres", "dva", "resformer-learned"])
def test_packed_documents_do_not_see_each_other(plan, monkeypatch, tmp_path):
    config = OURS["llama"] if plan != "dva" else replace(OURS["llama"], n_kv_heads=0)
    model = exported(decoder(config, plan), tmp_path, monkeypatch)
    alone = tokens()[:, : T // 2]
    with torch.no_grad():
        packed = model(alone.reshape(1, T), position_ids=TWICE).logits
        assert difference(packed.reshape(2, T // 2, -1), model(alone).logits) < 1e-5


def test_a_tuple_is_answered_where_it_is_asked_for(skip):
    with torch.no_grad():
        loss, logits = skip(tokens(), labels=tokens(), return_dict=False)
        named = skip(tokens(), labels=tokens(), return_dict=None)
    assert torch.equal(loss, named.loss)
    assert torch.equal(logits, named.logits)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("past_key_values", ((),)),
        ("use_cache", True),
        ("cache_position", torch.arange(T)),
        ("output_hidden_states", True),
        ("output_attentions", True),
        ("output_router_logits", True),
        ("is_causal", False),
        ("head_mask", torch.ones(3, 4)),
        ("token_type_ids", torch.zeros(2, T, dtype=torch.long)),
        ("seq_idx", torch.zeros(2, T, dtype=torch.int)),
        ("cu_seq_lens_q", torch.tensor([0, 10, 20])),
        ("max_length_k", 10),
        ("ignore_index", 3),
        ("labels", tokens()[:, :5]),
        ("shift_labels", tokens()[:, :5]),
        ("position_ids", torch.arange(T)),
        ("position_ids", TWICE.float()),
        ("attention_mask", torch.ones(2, T + 1)),
        ("attention_mask", torch.ones(2, T, T)),
        ("attention_mask", torch.full((1, 1, T, T), -1.5)),
        ("attention_mask", torch.ones(1, 1, T, T, dtype=torch.long)),
    ],
    ids=str,
)
def test_what_has_no_answer_is_refused_by_name(skip, name, value):
    with pytest.raises(ValueError, match=f"^{name}: ") as stop:
        skip(tokens(), **{name: value})
    assert "\n" not in str(stop.value)


def test_what_the_config_asks_for_is_refused_as_an_argument_is(skip, monkeypatch):
    monkeypatch.setattr(skip.config, "output_hidden_states", True)
    with pytest.raises(ValueError, match=r"^output_hidden_states: "):
        skip(tokens())


@pytest.mark.parametrize("name", ["atention_mask", "position_id", "use_cashe"])
def test_misspelt_arguments_are_type_errors(skip, name):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        skip(tokens(), **{name: None})


def test_learned_positions_have_an_end(monkeypatch, tmp_path):
    ours = decoder(OURS["gpt2"], "skipv1")
    model = exported(ours, tmp_path, monkeypatch)
    with torch.no_grad():
        assert difference(model(tokens(), position_ids=torch.arange(T)[None]).logits, ours(tokens())) < 1e-5
    for start in (-1, ours.config.context - T + 1):
        with pytest.raises(ValueError, match=r"^position_ids: the model has positions from 0"):
            model(tokens(), position_ids=torch.arange(start, start + T)[None])


@pytest.mark.parametrize("cache", [{}, {"use_cache": False}, {"use_cache": True}], ids=str)
@pytest.mark.parametrize("beams", [1, 2])
def test_transformers_generates_the_same_after_padded_prompts(both, cache, beams):
    mask = LEFT[:, :12]
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "num_beams": beams, **cache}
    with torch.no_grad():
        theirs, ours = (model.generate(tokens(2, 12), attention_mask=mask, **options).tolist() for model in both)
    assert ours == theirs


def test_generate_refuses_what_it_cannot_go_on_from(both):
    with pytest.raises(ValueError, match="misspelt"):
        both[1].generate(tokens(), max_new_tokens=1, misspelt=1)
    cache = transformers.DynamicCache()
    both[0](tokens()[:, :5], past_key_values=cache, use_cache=True)
    with pytest.raises(ValueError, match=r"^past_key_values: "):
        both[1].generate(tokens(), max_new_tokens=1, past_key_values=cache)


def test_a_trainer_finds_the_labels_and_leaves_the_mean_to_the_model(skip):
    from transformers.utils.generic import find_labels

    assert find_labels(type(skip)) == ["labels"]
    assert type(skip).accepts_loss_kwargs


def test_a_trainer_trains(skip, tmp_path):
    pytest.importorskip("accelerate")
    data = [{"input_ids": row, "labels": row} for row in tokens(4)]
    options = {"max_steps": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "use_cpu": True}
    settings = transformers.TrainingArguments(tmp_path / "run", report_to=[], save_strategy="no", **options)
    trainer = transformers.Trainer(skip, settings, train_dataset=data, eval_dataset=data)
    assert trainer.train().training_loss > 0
    assert trainer.evaluate()["eval_loss"] > 0
