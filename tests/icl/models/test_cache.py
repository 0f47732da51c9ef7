"""Decoding: a few tokens at a time, from what is kept, every model answers as on the whole sequence."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.cache import Cache, read, step
from icl.models.decoder import Decoder
from icl.models.latent import LatentAttention
from icl.testing import check_identity, plans
from tests.icl.models.small import ARCHITECTURES, OPTIONS, models, some_input
from tests.icl.models.test_any_plan import architecture
from theory.errors import BadInput
from theory.plans.accounting import cache as cached_numbers
from theory.plans.architecture import Architecture, Latent, Patches, misfits
from theory.plans.mix import NOTHING
from theory.plans.names import resolve
from theory.plans.plan import Shape, longest_shift, plan, v
from theory.plans.rooms import cache_bytes
from theory.plans.variants import VARIANTS

CAUSAL = {kind: config for kind, config in ARCHITECTURES.items() if config.mask == "causal"}


def decoder(config: Architecture, chosen, seed: int = 0) -> Decoder:
    return Decoder(replace(config, dropout=0.0), chosen, std=0.3, seed=seed).double().eval()


def in_chunks(model: Decoder, inputs, sizes, room: int, real=None):
    cache, found, start = Cache(model, len(inputs), room), [], 0
    for size in sizes:
        part = slice(start, start + size)
        found.append(step(model, inputs[:, part], cache, None if real is None else real[:, part]))
        start += size
    return torch.cat(found, dim=1), cache


@pytest.mark.parametrize(("config", "chosen"), list(models(CAUSAL)))
def test_named_variants_decode_from_as_many_bytes_as_accounted_for(config, chosen):
    model, inputs = decoder(config, chosen), some_input(config, 2, 7, torch.float64)
    found, cache = in_chunks(model, inputs, (3, 1, 2, 1), 7)
    check_identity(found, model(inputs), terms=100)
    room = min(7, 2 * config.window + longest_shift(chosen) if config.window else 7)
    assert cache.bytes == 2 * room * cached_numbers(config, chosen).bytes(8)


@pytest.mark.parametrize("name", ["vanilla", "skipv1"])
@pytest.mark.parametrize("window", [1, 3, 9])
def test_latents_are_seen_through_a_window(name, window):
    config = replace(CAUSAL["latent"], window=window)
    model, inputs = decoder(config, resolve(name, config.shape)), some_input(config, 2, 7)
    found, _ = in_chunks(model, inputs, (2, 1, 3, 1), 7)
    check_identity(found, model(inputs), terms=100)
    whole = decoder(CAUSAL["latent"], model.plan)(inputs)
    assert torch.equal(model(inputs), whole) == (window == 9)


@settings(max_examples=30)
@given(
    plans() | plans(streams=True) | plans(tables=True),
    st.integers(1, 2),
    st.sampled_from(["none", "bias", "learned"]),
    st.sampled_from(["softmax", "linear"]),
    st.lists(st.integers(1, 3), min_size=1, max_size=6),
    st.integers(0, 4),
    st.integers(0, 99),
)
@pytest.mark.long
def test_any_plan_decodes_in_any_chunks(chosen, group, positions, score, sizes, window, seed):
    config = replace(architecture(chosen, group, positions, score), window=window, qk_norm=seed % 2 == 1)
    model = decoder(config, chosen, seed)
    length = min(sum(sizes), config.context)
    tokens = torch.randint(config.stem.vocab, (2, length), generator=torch.Generator().manual_seed(seed))
    cuts = torch.tensor([0, *sizes]).cumsum(0).clamp(max=length).diff()
    found, cache = in_chunks(model, tokens, [int(n) for n in cuts if n], config.context)
    check_identity(found, model(tokens), terms=100)
    room = min(config.context, 2 * window + longest_shift(chosen) if window else config.context)
    numbers = cached_numbers(config, chosen)
    assert cache.bytes == 2 * (room * numbers.bytes(8) + 8 * sum(numbers.first))


@settings(max_examples=20)
@given(
    st.sampled_from([name for name in VARIANTS if not misfits(CAUSAL["llama"], resolve(name, CAUSAL["llama"].shape))]),
    st.sampled_from(["llama", "gpt2", "grouped", "bias", "windowed"]),
    st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=2, max_size=3),
    st.integers(1, 4),
    st.integers(0, 2),
)
@pytest.mark.long
def test_sequences_of_different_lengths_are_decoded_together(name, kind, real, size, window):
    """With whatever stands between real tokens: each sequence as by itself."""
    config = replace(CAUSAL[kind], window=window or CAUSAL[kind].window)
    chosen = resolve(name + OPTIONS.get(name, ""), config.shape)
    if misfits(config, chosen):
        return
    model, real = decoder(config, chosen), torch.tensor(real)
    tokens = some_input(config, len(real), 5)
    sizes = [size] * (5 // size) + [5 % size] * (5 % size > 0)
    found, cache = in_chunks(model, tokens, sizes, 5, real)
    assert cache.lengths == real.sum(-1).tolist()
    for row, mask in enumerate(real):
        if mask.any():
            check_identity(found[row : row + 1, mask], model(tokens[row : row + 1, mask]), terms=100)
    more = tokens[:, :1]
    _, cache = in_chunks(model, tokens, sizes, 6, real)
    answers = step(model, more, cache)
    for row, mask in enumerate(real):
        whole = torch.cat([tokens[row, mask], more[row]])[None]
        check_identity(answers[row : row + 1], model(whole)[:, -1:], terms=100)


@pytest.mark.parametrize("at_once", [1, 2, 3, 9])
@pytest.mark.parametrize("ragged", [False, True])
def test_reading_answers_for_the_last_real_token(at_once, ragged):
    config = CAUSAL["llama"]
    model, tokens = decoder(config, resolve("skipv1", config.shape)), some_input(config, 3, 7)
    real = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0, 0]]).bool()
    cache = Cache(model, 3, 7)
    found = read(model, tokens, cache, real if ragged else None, at_once=at_once)
    for row in range(3):
        own = tokens[row : row + 1, real[row]] if ragged else tokens[row : row + 1]
        check_identity(found[row : row + 1], model(own)[:, -1], terms=100)
    assert cache.lengths == (real.sum(-1).tolist() if ragged else [7, 7, 7])


@pytest.mark.parametrize("score", ["softmax", "linear"])
@pytest.mark.parametrize("name", ["vanilla", "skipv1", "resformer", "cross-layer"])
def test_latents_are_widened_or_met_by_the_queries_as_they_are(name, score, monkeypatch):
    config = replace(CAUSAL["latent"], score=score, latent=Latent(24, 4))
    chosen = resolve(name, config.shape)
    if misfits(config, chosen):
        pytest.skip("has no meaning")
    model, tokens = decoder(config, chosen), some_input(config, 2, 12)
    pays = [x._absorbing_pays for x in model.sublayers if isinstance(x, LatentAttention)]
    assert [pays[0](n) for n in (1, 7, 8, 9)] == [True, True, False, False]  # 24 * 6 / 18 = 8
    expected = model(tokens)
    for always in (None, True, False):
        if always is not None:
            monkeypatch.setattr(LatentAttention, "_absorbing_pays", lambda *_, always=always: always)
        for sizes in ((9, 1, 2), (1,) * 12, (12,)):
            check_identity(in_chunks(model, tokens, sizes, 12)[0], expected, terms=100)


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("name", ["skipv1", "mla"])
def test_steps_after_tokens_that_are_pretended_are_those_after_tokens_of_zeros(name, window):
    """What they see has the same length and place; so their time is that of steps after real tokens."""
    config = replace(CAUSAL["latent" if name == "mla" else "llama"], window=window)
    model, tokens = decoder(config, resolve("vanilla", config.shape)), some_input(config, 2, 12)
    pretended = Cache(model, 2, 12)
    for seen in (9, 2):
        real = Cache(model, 2, 12)
        step(model, tokens[:, :seen], real)
        for entry in (*real.entries.values(), *pretended.entries.values()):
            entry.zero_()
        pretended.pretend(seen)
        assert pretended.lengths == real.lengths
        for at in range(seen, 12 if seen == 9 else 5):
            found, expected = (step(model, tokens[:, at : at + 1], cache) for cache in (pretended, real))
            check_identity(found, expected, terms=100)
    with pytest.raises(BadInput, match="room for 12"):
        pretended.pretend(13)
    assert {x.shape[2] for x in pretended.entries.values()} == {6 if window else 12}
    assert pretended.bytes == 2 * cache_bytes(config, model.plan, 12, number=8)


def test_values_that_are_only_added_beside_are_not_kept():
    """The control of what the bytes say: heads that nobody attends over later."""
    config = CAUSAL["llama"]
    beside = plan(config.shape, beside=lambda n, h: v(1, h) if n > 1 else NOTHING)
    assert cached_numbers(config, beside) == cached_numbers(config, plan(config.shape))
    only_beside = plan(Shape(3, 4), values=lambda n, h: v(n, h) if n > 1 else v(1, 1), beside=lambda n, h: v(1, h))
    model, tokens = decoder(config, only_beside), some_input(config, 2, 6)
    found, cache = in_chunks(model, tokens, (2, 1, 3), 6)
    check_identity(found, model(tokens), terms=100)
    assert cache.entries["v1"].shape[1] == 1 < 4


def test_a_step_in_bf16_is_one_in_float32_to_its_precision():
    config = CAUSAL["llama"]
    model, tokens = decoder(config, resolve("resformer", config.shape)).float(), some_input(config, 2, 6)
    exact, _ = in_chunks(model, tokens, (4, 1, 1), 6)
    found, cache = in_chunks(model.bfloat16(), tokens, (4, 1, 1), 6)
    assert {x.dtype for x in cache.entries.values()} == {torch.bfloat16}
    assert ((found - exact).abs().max() / exact.abs().max()) < 0.1


def test_what_cannot_be_decoded_is_refused():
    shape = CAUSAL["llama"].shape
    vanilla = resolve("vanilla", shape)
    model = decoder(CAUSAL["llama"], vanilla)
    for wrong in ((0, 3), (1, 0), (1, 13)):
        with pytest.raises(BadInput, match=r"at least|context"):
            Cache(model, *wrong)
    seeing_all = decoder(replace(ARCHITECTURES["patches"], stem=Patches(8, 4, 3, 5)), resolve("vanilla", Shape(3, 4)))
    with pytest.raises(BadInput, match="causal"):
        Cache(seeing_all, 1, 2)
    copying = replace(ARCHITECTURES["copying"], mask="causal")
    with pytest.raises(BadInput, match="copy"):
        Cache(decoder(copying, resolve("vanilla", copying.shape)), 1, 2)
    cache = Cache(model, 2, 3)
    with pytest.raises(BadInput, match="room for 3"):
        step(model, torch.zeros(2, 4, dtype=torch.long), cache)
    with pytest.raises(BadInput, match="of 2 sequences"):
        step(model, torch.zeros(1, 1, dtype=torch.long), cache)
    with pytest.raises(BadInput, match="no token"):
        read(model, torch.zeros(2, 2, dtype=torch.long), cache, torch.tensor([[True, True], [False, False]]))
    assert cache.lengths == [0, 0]


@pytest.mark.parametrize("kind", ["llama", "gpt2", "grouped", "bias", "latent"])
@pytest.mark.parametrize("window", [1, 2, 3])
def test_a_window_has_room_for_what_it_shows_however_long_the_sequence(kind, window):
    """Read in one piece, and on from there a token at a time, with and without others of different lengths."""
    config = replace(CAUSAL[kind], window=window, context=16)
    model, tokens = decoder(config, resolve("skipv1", config.shape)), some_input(config, 3, 16)
    found, cache = in_chunks(model, tokens, (9, *[1] * 7), 16)
    check_identity(found, model(tokens), terms=100)
    assert {x.shape[2] for x in cache.entries.values()} == {2 * window}
    (span,) = set(cache.spans.values()) - {0}
    assert min(cache.starts[span]) > 16 - 2 * window - 1
    real = torch.ones(3, 16, dtype=torch.bool)
    real[1, 3:8] = real[2, :11] = False
    found, cache = in_chunks(model, tokens, (9, *[1] * 7), 16, real)
    for row in range(3):
        own = tokens[row : row + 1, real[row]]
        check_identity(found[row : row + 1, real[row]], model(own), terms=100)
