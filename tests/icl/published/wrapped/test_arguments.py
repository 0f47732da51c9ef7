"""The arguments of transformers' LLaMA: answered as it answers for a vanilla plan, or refused by name."""

from dataclasses import replace

import pytest
import torch

from icl.published import writing
from tests.icl.published.exported import exported
from tests.icl.published.test_transformers import OURS, decoder, difference, tokens
from tests.icl.published.wrapped.small import close, every_plan, wrapped
from tests.icl.published.wrapped.small import decoder as small_decoder
from tests.icl.published.wrapped.small import tokens as small_tokens

transformers = pytest.importorskip("transformers")


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
        {"use_cache": True},
        {"use_cache": True, "attention_mask": LEFT},
        {"use_cache": True, "attention_mask": HOLE, "position_ids": torch.arange(3, T + 3)[None]},
        {"use_cache": True, "position_ids": TWICE},
        {"output_hidden_states": True},
        {"output_hidden_states": True, "attention_mask": LEFT, "use_cache": True},
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
    assert (ours.past_key_values is None) == (theirs.past_key_values is None)
    assert (ours.hidden_states is None) == (theirs.hidden_states is None)
    for state, expected in zip(ours.hidden_states or (), theirs.hidden_states or (), strict=True):
        assert difference(state[real], expected[real]) < 1e-5
    assert (ours.loss is None) == (theirs.loss is None)
    if ours.loss is not None:
        assert torch.allclose(ours.loss, theirs.loss, rtol=1e-5)


def test_weights_of_attention_are_those_of_transformers(both):
    theirs, ours = both
    for model in both:
        model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            for options in ({}, {"attention_mask": LEFT}, {"use_cache": True, "attention_mask": RIGHT}):
                options = {"use_cache": False, "output_attentions": True, **options}
                real = options.get("attention_mask", torch.ones(2, T)).bool()
                found, expected = ours(tokens(), **options), theirs(tokens(), **options)
                assert difference(found.logits[real], expected.logits[real]) < 1e-5
                for one, other in zip(found.attentions, expected.attentions, strict=True):
                    assert difference(one.transpose(1, 2)[real], other.transpose(1, 2)[real]) < 1e-5
    finally:
        for model in both:
            model.set_attn_implementation("sdpa")
    assert ours.decoder.config.n_layers == len(found.attentions)


def test_steps_from_a_cache_are_those_of_transformers(both):
    """Masks of two and of four dimensions, and positions, for tokens that follow others."""
    first, new = tokens()[:, :12], tokens()[:, 12:]
    four = (torch.arange(T) <= torch.arange(12, T)[:, None]) & (torch.arange(T) != 5)
    for options in (
        {},
        {"attention_mask": LEFT},
        {"attention_mask": HOLE, "position_ids": torch.arange(20, 28)[None]},
        {"attention_mask": four[None, None]},
    ):
        found = []
        for model in both:
            cache = transformers.DynamicCache(config=model.config)
            mask = options.get("attention_mask", torch.ones(2, T))
            with torch.no_grad():
                model(first, attention_mask=mask[:, :12] if mask.dim() == 2 else None, past_key_values=cache)
                if mask.dim() == 4 and cache.layers[0].keys.shape[2] < 12:
                    break  # a window has dropped what the mask shows
                found.append(model(new, past_key_values=cache, **options).logits)
        if len(found) == 2:
            assert difference(found[1], found[0]) < 1e-5


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


def test_columns_in_which_documents_begin_are_positions_that_restart(skip):
    begins, row = torch.tensor([0, T // 2, T], dtype=torch.int32), tokens(1)
    for texts, positions in ((begins, None), (begins[None], TWICE), (begins, TWICE[0])):
        found = skip(row, cu_seqlens=texts, position_ids=positions).logits
        assert torch.equal(found, skip(row, position_ids=TWICE).logits)
    assert torch.equal(skip(row, cu_seqlens=None).logits, skip(row).logits)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"cu_seqlens": torch.tensor([0, T - 1])}, "a single row"),
        ({"cu_seqlens": torch.tensor([0, 5, 5, T])}, "a single row"),
        ({"cu_seqlens": torch.tensor([0, T // 2, T]), "position_ids": torch.arange(T)[None]}, "position_ids begin"),
        ({"cu_seqlens": torch.tensor([0, T]), "attention_mask": torch.ones(1, T)}, "attention_mask"),
    ],
)
def test_columns_that_are_none_of_documents_are_refused(skip, arguments, says):
    with pytest.raises(ValueError, match=f"^cu_seqlens: .*{says}"):
        skip(tokens(1), **arguments)


def test_a_row_of_documents_may_be_longer_than_the_context(skip):
    context = skip.decoder.config.context
    alone = torch.cat([tokens(2)] * 4, dim=1)[:, :context]
    positions = torch.arange(context).repeat(2)[None]
    found = skip(alone.reshape(1, -1), position_ids=positions).logits
    assert difference(found.reshape(2, context, -1), skip(alone).logits) < 1e-5
    with pytest.raises(ValueError, match="more than the context"):
        skip(alone.reshape(1, -1), position_ids=torch.arange(2 * context)[None])


def test_a_tuple_is_answered_where_it_is_asked_for(skip):
    with torch.no_grad():
        loss, logits, cache = skip(tokens(), labels=tokens(), return_dict=False)
        named = skip(tokens(), labels=tokens(), return_dict=None)
        assert len(skip(tokens(), use_cache=False, return_dict=False)) == 1
    assert isinstance(cache, transformers.DynamicCache)
    assert torch.equal(loss, named.loss)
    assert torch.equal(logits, named.logits)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("past_key_values", ((),)),
        ("cache_position", torch.arange(3, T + 3)),
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


def test_what_the_config_asks_for_is_answered(skip, monkeypatch):
    assert skip(tokens()).hidden_states is None
    monkeypatch.setattr(skip.config, "output_hidden_states", True)
    assert len(skip(tokens()).hidden_states) == 3
    assert skip(tokens(), output_hidden_states=False).hidden_states is None
    monkeypatch.setattr(skip.config, "use_cache", False)
    assert skip(tokens()).past_key_values is None


@pytest.mark.parametrize("name", ["flash_attention_2", "flex_attention", "paged|eager"])
def test_kernels_that_do_not_know_the_plan_are_refused_by_name(skip, name):
    with pytest.raises((ValueError, ImportError), match=r"(?i)attn_implementation|flash|flex"):
        type(skip)._from_config(skip.config, attn_implementation=name)(tokens())
    skip.config._attn_implementation = "sdpa"


@every_plan
def test_states_and_weights_are_those_that_make_the_answer(name):
    """Under any plan: in the graph of the loss, the same from a cache, and none without being asked for."""
    model = wrapped(small_decoder(name))
    found = model(small_tokens(), labels=small_tokens(), output_hidden_states=True, output_attentions=True)
    close(found.logits, model(small_tokens()).logits)
    config = model.decoder.config
    assert len(found.hidden_states) == config.n_layers + 1
    assert len(found.attentions) == config.n_layers
    close(model.decoder.stem.answer(found.hidden_states[-1]), found.logits)
    for weights in found.attentions:
        assert weights.shape[0] == 2
        assert weights.shape[2:] == (12, 12)
        close(weights.sum(-1), torch.ones(weights.shape[:3]))
    for tensor in (*found.hidden_states, *found.attentions):
        tensor.retain_grad()
    found.loss.backward()
    assert all(tensor.grad is not None for tensor in (*found.hidden_states, *found.attentions))
    cache = transformers.DynamicCache()
    with torch.no_grad():
        model(small_tokens()[:, :11], past_key_values=cache)
        last = model(small_tokens()[:, 11:], past_key_values=cache, output_attentions=True, output_hidden_states=True)
    for one, whole in zip(last.attentions, found.attentions, strict=True):
        close(one, whole[:, :, 11:, whole.shape[3] - one.shape[3] :])
    for one, whole in zip(last.hidden_states, found.hidden_states, strict=True):
        close(one, whole[:, 11:])


def test_states_are_chosen_by_number(skip):
    found = skip(tokens(), output_hidden_states=[-1, 0]).hidden_states
    whole = skip(tokens(), output_hidden_states=True).hidden_states
    assert found[1] is None
    assert torch.equal(found[0], whole[0])
    assert torch.equal(found[2], whole[2])


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
    with pytest.raises(ValueError, match=r"^past_key_values: it holds what another model"):
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
