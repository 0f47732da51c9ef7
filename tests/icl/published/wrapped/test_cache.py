"""The cache that transformers generates with: same tokens as without, and no more bytes than the plan keeps."""

from dataclasses import replace

import pytest
import torch

from icl.models.decoder import Decoder
from icl.models.sampling import Sampling
from icl.models.sampling import generate as generate_here
from tests.icl.published.wrapped.small import (
    CONFIG,
    close,
    decoder,
    every_plan,
    left_padded,
    sizes_and_plan,
    tokens,
    wrapped,
)
from theory.plans.accounting import cache as cached_numbers
from theory.plans.names import resolve

transformers = pytest.importorskip("transformers")

FEW = (
    "vanilla",
    "skipv1",
    "svformer+mqa",
    "attnres-block",
    "value-embeddings",
    "skipv1:sink=1",
    "latent skipv1",
    "windows shifted-values",
)
# Columns that a dynamic cache holds of each layer after 20 tokens: one fewer than a window shows, and those of a shift.
COLUMNS = {
    "window skipv1": [4, 4, 4],
    "window skipv1:sink=1": [4, 4, 4],
    "windows shifted-values": [3, 7, 3],
    "some-windows vanilla": [2, 20, 2],
}
few_plans = pytest.mark.parametrize("name", FEW)


@pytest.fixture(scope="module")
def models():
    made = {}

    def model(name):
        if name not in made:
            made[name] = wrapped(decoder(name))
        return made[name]

    return model


def held(cache):
    """The bytes of all that a cache holds."""
    parts = [x for layer in cache.layers for x in (layer.keys, layer.values) if x is not None]
    return sum(x.numel() * x.element_size() for x in parts)


def read_lengths(model, patch):
    """The number of tokens that every forward pass from now on reads."""
    lengths, forward = [], model.decoder.stem.embed

    def embed(inputs):
        lengths.append(inputs.shape[1])
        return forward(inputs)

    patch.setattr(model.decoder.stem, "embed", embed)
    return lengths


@every_plan
def test_step_by_step_logits_are_those_of_the_whole_text(name, models):
    model, ids = models(name), tokens(2, 20)
    cache = transformers.DynamicCache()
    with torch.no_grad():
        whole = model(ids, use_cache=False).logits
        parts = [model(part, past_key_values=cache).logits for part in ids.split((7, 1, 4, 1, 1, 6), dim=1)]
    close(torch.cat(parts, 1), whole)
    assert cache.get_seq_length() == 20


@every_plan
def test_generated_tokens_are_those_without_a_cache(name, models, monkeypatch):
    model = models(name)
    options = {"attention_mask": left_padded(), "max_new_tokens": 9, "do_sample": False}
    lengths = read_lengths(model, monkeypatch)
    with_cache = model.generate(tokens(), **options)
    assert lengths == [12] + [1] * 8
    without = model.generate(tokens(), use_cache=False, **options)
    assert lengths[9:] == list(range(12, 21))
    assert with_cache.tolist() == without.tolist()


def test_tokens_are_those_that_are_generated_here():
    built = decoder("skipv1")
    there = wrapped(built).generate(tokens(1, 5), max_new_tokens=8, do_sample=False)[0, 5:].tolist()
    here = generate_here(built, tokens(1, 5).tolist(), 8, sampling=Sampling(temperature=0.0))
    assert there == [picked[0] for picked in here]


@every_plan
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_bytes_are_what_the_plan_keeps(name, kind, models):
    model, (config, plan) = models(name), sizes_and_plan(name)
    cache = (
        transformers.DynamicCache() if kind == "dynamic" else transformers.StaticCache(model.config, max_cache_len=30)
    )
    with torch.no_grad():
        for part in tokens(3, 20).split((9, 11), dim=1):
            model(part, past_key_values=cache)
    numbers = cached_numbers(config, plan)
    first = 3 * 4 * sum(numbers.first)
    if kind == "static":
        assert held(cache) == 3 * 30 * numbers.bytes(4) + first
        return
    columns = COLUMNS.get(name, [20] * config.n_layers)
    assert (
        held(cache)
        == 3
        * 4
        * sum(n * (keys + values) for n, keys, values in zip(columns, numbers.keys, numbers.values, strict=True))
        + 3 * 20 * 4 * numbers.indices
        + first
    )
    if name not in COLUMNS:
        assert held(cache) == 3 * 20 * numbers.bytes(4) + first


def test_skipv1_keeps_half_of_later_values_and_svformer_none(models):
    heads = {}
    for name in ("vanilla", "skipv1", "svformer+mqa"):
        cache = models(name)(tokens(), use_cache=True).past_key_values
        heads[name] = [(layer.keys.shape[1], layer.values.shape[1]) for layer in cache.layers]
    assert heads["vanilla"] == [(2, 2)] * 3
    assert heads["skipv1"] == [(2, 2), (2, 1), (2, 1)]
    assert heads["svformer+mqa"] == [(1, 1), (1, 0), (1, 0)]


@few_plans
def test_beams_are_reordered(name, models):
    model = models(name)
    options = {"attention_mask": left_padded(), "max_new_tokens": 8, "num_beams": 3, "do_sample": False}
    options |= {"num_return_sequences": 2, "output_scores": True, "return_dict_in_generate": True}
    found, expected = (model.generate(tokens(), use_cache=use, **options) for use in (True, False))
    assert found.sequences.tolist() == expected.sequences.tolist()
    close(found.sequences_scores, expected.sequences_scores)


@few_plans
def test_samples_are_those_without_a_cache(name, models):
    model, drawn = models(name), []
    for use in (True, False):
        torch.manual_seed(0)
        drawn.append(model.generate(tokens(), max_new_tokens=9, do_sample=True, top_k=5, use_cache=use).tolist())
    assert drawn[0] == drawn[1]


@few_plans
def test_an_assistant_changes_no_token(name, models, monkeypatch):
    model, assistant = models(name), wrapped(decoder(name, seed=1))
    options = {"max_new_tokens": 10, "do_sample": False}
    expected = model.generate(tokens(1), **options).tolist()
    lengths = read_lengths(model, monkeypatch)
    assert model.generate(tokens(1), assistant_model=assistant, **options).tolist() == expected
    assert max(lengths[1:]) > 1  # candidates are read together
    assert max(lengths[1:]) < 12  # and the text is not read again
    repeated = tokens(1, 4).repeat(1, 3)
    options["prompt_lookup_num_tokens"] = 3
    assert (
        model.generate(repeated, **options).tolist()
        == model.generate(repeated, max_new_tokens=10, do_sample=False).tolist()
    )


@every_plan
def test_a_static_cache_changes_no_token(name, models):
    model = models(name)
    options = {"attention_mask": left_padded(), "max_new_tokens": 9, "do_sample": False}
    expected = model.generate(tokens(), **options).tolist()
    assert model.generate(tokens(), cache_implementation="static", **options).tolist() == expected
    cache = transformers.StaticCache(model.config, max_cache_len=20)
    with torch.no_grad():
        model(tokens(), past_key_values=cache)
        with pytest.raises(ValueError, match=r"^past_key_values: it has room for 20 tokens, not 24"):
            model(tokens(), past_key_values=cache)


@few_plans
def test_a_prompt_is_continued_from_its_cache(name, models, monkeypatch):
    model = models(name)
    first = model.generate(tokens(1), max_new_tokens=5, do_sample=False, return_dict_in_generate=True)
    longer = torch.cat([first.sequences, tokens(1, 4, seed=2)], 1)
    lengths = read_lengths(model, monkeypatch)
    options = {"attention_mask": torch.ones_like(longer), "max_new_tokens": 4, "do_sample": False}
    found = model.generate(longer, past_key_values=first.past_key_values, **options)
    assert lengths == [5, 1, 1, 1]
    assert found.tolist() == model.generate(longer, **options).tolist()


@few_plans
def test_tokens_are_forgotten_and_chosen(name, models):
    model, ids = models(name), tokens(2, 14)
    cache = transformers.DynamicCache()
    cache_of_all = transformers.DynamicCache()
    with torch.no_grad():
        model(ids[:, :8], past_key_values=cache)
        cache.activate_past_recording()
        model(ids[:, 8:12], past_key_values=cache)
        cache.crop(-2)
        assert cache.get_seq_length() == 10
        cache.batch_select_indices(torch.tensor([1]))
        cache.batch_repeat_interleave(2)
        found = model(ids[1:, 10:].repeat(2, 1), past_key_values=cache).logits
        expected = model(ids[1:].repeat(2, 1), past_key_values=cache_of_all).logits[:, 10:]
    close(found, expected)


@few_plans
def test_embedded_prompts_are_continued(name, models):
    model = models(name)
    embedded = model.get_input_embeddings()(tokens())
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": left_padded()}
    if name == "value-embeddings":
        with pytest.raises(ValueError, match=r"^inputs_embeds: a table has rows for tokens"):
            model.generate(inputs_embeds=embedded, **options)
        return
    found = model.generate(inputs_embeds=embedded, **options)
    assert found.tolist() == model.generate(tokens(), **options)[:, 12:].tolist()


def test_states_and_weights_of_every_step(models):
    model = models("skipv1")
    asked = {"output_hidden_states": True, "output_attentions": True, "output_logits": True}
    options = {"max_new_tokens": 3, "do_sample": False, "return_dict_in_generate": True, **asked}
    found, expected = (model.generate(tokens(), use_cache=use, **options) for use in (True, False))
    assert found.sequences.tolist() == expected.sequences.tolist()
    for step, new in enumerate((12, 1, 1)):
        close(found.logits[step], expected.logits[step])
        for one, whole in zip(found.hidden_states[step], expected.hidden_states[step], strict=True):
            close(one, whole[:, -new:])
        for one, whole in zip(found.attentions[step], expected.attentions[step], strict=True):
            close(one, whole[:, :, -new:])


def test_a_prompt_is_read_in_chunks(models, monkeypatch):
    model = models("skipv1")
    lengths = read_lengths(model, monkeypatch)
    found = model.generate(tokens(), max_new_tokens=3, do_sample=False, prefill_chunk_size=5)
    assert lengths == [5, 5, 2, 1, 1]
    assert found.tolist() == model.generate(tokens(), max_new_tokens=3, do_sample=False).tolist()


def test_what_a_cache_cannot_be(models):
    model = models("skipv1")
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=13,
            hidden_size=24,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=20,
        )
    )
    filled = theirs(tokens(), use_cache=True).past_key_values
    other = models("vanilla")(tokens(), use_cache=True).past_key_values
    own = model(tokens(), use_cache=True).past_key_values
    for cache, says in (
        (filled, "what another model has read"),
        (tuple(own), "and no tuple"),
        (models("windows shifted-values")(tokens(), use_cache=True).past_key_values, "what another plan keeps"),
    ):
        with pytest.raises(ValueError, match=rf"^past_key_values: .*{says}"):
            model(tokens(), past_key_values=cache)
    with pytest.raises(ValueError, match=r"^past_key_values: it is of 2 sequences, not 3"):
        model(tokens(3), past_key_values=own)
    assert other.get_seq_length() == 12


def test_what_reads_whole_texts_is_refused_a_cache():
    sizes = replace(CONFIG, mask="none")
    model = wrapped(Decoder(sizes, resolve("vanilla", sizes.shape)).eval())
    assert not model.config.use_cache
    assert model(tokens()).past_key_values is None
    for options in ({"use_cache": True}, {"past_key_values": transformers.DynamicCache()}):
        with pytest.raises(ValueError, match=rf"^{next(iter(options))}: only a causal model") as stop:
            model(tokens(), **options)
        assert "\n" not in str(stop.value)


@pytest.mark.parametrize("name", ["bias shifted-values", "shifted-values"])
def test_positions_that_a_cache_cannot_tell_are_refused(name, models):
    model = models(name)
    with pytest.raises(ValueError, match=r"^position_ids: with a cache"):
        model(tokens(), position_ids=torch.arange(3, 15)[None], use_cache=True)
    model(tokens(), position_ids=torch.arange(12)[None], use_cache=True)
