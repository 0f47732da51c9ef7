"""What a decoded token reads, against counts by hand and against what is kept."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.plans.accounting import cache, total_parameters
from theory.plans.architecture import Architecture, Latent, Tokens, misfits
from theory.plans.decoding import numbers_of_a_step, reads
from theory.plans.names import model, resolve
from theory.plans.plan import lifetimes
from theory.plans.variants import VARIANTS

LAYERS, HEADS, WIDTH = 4, 8, 2
CONFIG = Architecture(d_model=16, n_layers=LAYERS, n_heads=HEADS, d_ff=24, context=9, stem=Tokens(11, tied=False))
ALL = LAYERS * HEADS * WIDTH  # keys, or values, of all layers


def of(name, config=CONFIG):
    return reads(config, resolve(name, config.shape))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("vanilla", 2 * ALL),
        ("skipv1", 2 * ALL),
        ("svformer", 2 * ALL),
        ("cla-v", 2 * ALL),
        ("skipv0", ALL + ALL // LAYERS),
        ("resformer", 3 * ALL - HEADS * WIDTH),
        ("attnres", 2 * ALL),
        ("dva", 3 * ALL),
    ],
)
def test_by_hand(name, count):
    """SkipV0 lacks half of the heads past layer 1; ResFormer sums two values there; dynamic values have keys' gates."""
    assert of(name) == count


def test_kinds_of_heads():
    grouped = replace(CONFIG, n_kv_heads=2, head_dim=WIDTH)
    assert of("vanilla", grouped) == of("skipv1", grouped) == 2 * ALL // 4
    latent = replace(CONFIG, latent=Latent(8, 2))
    assert of("vanilla", latent) == of("skipv1", latent) == LAYERS * (8 + 2)


@given(
    name=st.sampled_from(sorted(VARIANTS)),
    layers=st.sampled_from([1, 2, 3, 6]),
    latent=st.sampled_from([None, Latent(8, 2)]),
)
def test_no_less_is_read_than_kept_and_as_much_by_layers_that_share_nothing(name, layers, latent):
    config = replace(CONFIG, n_layers=layers, latent=latent)
    try:
        plan = resolve(name, config.shape)
    except ValueError:
        return
    if any(misfits(config, plan)):
        return
    kept = cache(config, plan).total
    assert reads(config, plan) >= kept
    rows = config.width * sum(life.source.kind == "e" for life in lifetimes(plan))  # looked up, and not kept
    if layers == 1 or name in ("vanilla", "attnres"):
        assert reads(config, plan) == kept + rows


@given(layers=st.integers(1, 9), half=st.integers(1, 5), width=st.integers(1, 4))
@pytest.mark.long
def test_skipv1_keeps_less_and_reads_as_much(layers, half, width):
    heads = 2 * half
    config = replace(CONFIG, d_model=heads * width, n_heads=heads, n_layers=layers, positions="none")
    plans = [resolve(name, config.shape) for name in ("vanilla", "skipv1")]
    before, after = (cache(config, plan).total for plan in plans)
    assert before - after == (layers - 1) * heads * width // 2
    assert {reads(config, plan) for plan in plans} == {2 * layers * heads * width}


def test_a_step_reads_weights_once_and_the_cache_of_every_sequence():
    config, plan = model("llama-350m")
    table = config.stem.vocab * config.d_model
    weights = total_parameters(config, plan) - table
    assert numbers_of_a_step(config, plan, 1, 0) == weights + config.d_model
    assert numbers_of_a_step(config, plan, 3, 100) == weights + 3 * config.d_model + 300 * reads(config, plan)
    windowed = replace(config, window=7)
    assert numbers_of_a_step(windowed, plan, 3, 100) == numbers_of_a_step(config, plan, 3, 7)
    assert numbers_of_a_step(windowed, plan, 3, 5) == numbers_of_a_step(config, plan, 3, 5)
    tied = replace(config, stem=replace(config.stem, tied=True))
    assert numbers_of_a_step(tied, plan, 5, 0) == total_parameters(tied, plan)
