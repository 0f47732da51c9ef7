"""Exported decoders take the arguments of transformers' LLaMA, and answer as it does or refuse by name."""

from dataclasses import replace

import pytest
import torch

from icl.published import own, writing
from tests.icl.published.test_own import in_transformers
from tests.icl.published.test_transformers import OURS, decoder, difference, tokens

transformers = pytest.importorskip("transformers")

T = 20
TWICE = torch.arange(T // 2).repeat(2)[None]
LEFT, RIGHT, HOLE = torch.ones(3, 2, T, dtype=torch.long)
LEFT[0, :6], RIGHT[0, -6:], HOLE[0, 7:10] = 0, 0, 0
CAUSAL = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
LABELS = tokens().clone()
LABELS[:, :5] = -100


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as one:
        yield one


@pytest.fixture(scope="module", params=[0, 4], ids=["llama", "mistral"])
def both(request, patch, tmp_path_factory):
    """The same vanilla model as transformers' own code runs it and as the wrapper does."""
    folder = tmp_path_factory.mktemp("both")
    ours = decoder(replace(OURS["llama"], window=request.param))
    writing.save(ours, folder / "theirs")
    own.save(ours, folder / "ours")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder / "theirs", dtype=torch.float32).eval()
    return theirs, in_transformers(folder / "ours", patch, folder)


@pytest.fixture(scope="module")
def skip(patch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("skip")
    own.save(decoder(OURS["llama"], "skipv1"), folder / "ours")
    return in_transformers(folder / "ours", patch, folder)


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
    own.save(decoder(config, plan), tmp_path / "x")
    model = in_transformers(tmp_path / "x", monkeypatch, tmp_path)
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
    own.save(ours, tmp_path / "x")
    model = in_transformers(tmp_path / "x", monkeypatch, tmp_path)
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
