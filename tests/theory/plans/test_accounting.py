"""Counts from plans against formulas and against the papers' sizes; models by name."""

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.plans.accounting import cache, depth_memory, depth_reads, parameters, total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import BadName, model, resolve
from theory.plans.plan import plan, v
from theory.plans.presets import PRESETS, toy
from theory.plans.streams import Streams
from theory.plans.variants import VARIANTS

LLAMA_350M = PRESETS["llama-350m"].architecture


@pytest.mark.parametrize(
    ("preset", "millions"),
    [
        ("llama-2m", 1.62),
        ("llama-82m", 81.9),
        ("llama-180m", 179.9),
        ("llama-468m", 467.9),
        ("llama-60m", 58.1),
        ("llama-130m", 134.1),
        ("llama-350m", 368.0),
        ("llama-1b", 1339.1),
        ("llama-3b", 2685.8),
        ("llama-7b", 6738.4),
        ("gpt2-0.8m", 0.804),
        ("gpt2-125m", 123.6),
        ("gpt2-200m", 202.5),
        ("gpt2-355m", 353.6),
        ("gpt2-550m", 544.3),
        ("tinyllama-125m", 123.5),
        ("tinyllama-315m", 330.2),
        ("tinyllama-1.1b", 1123.1),
        ("vit-tiny", 5.36),
    ],
)
def test_presets_have_the_size_of_their_dimensions(preset, millions):
    assert total_parameters(*model(preset)) / 1e6 == pytest.approx(millions, abs=0.05 if millions > 10 else 0.005)


@pytest.mark.long
def test_presets_far_from_their_name_say_why():
    """Within 6 % of the stated size, or a note that names the size or the reason."""
    units = {"M": 1e6, "B": 1e9}
    for name, preset in PRESETS.items():
        digits = preset.stated.replace(",", "")
        number = float(digits[:-1]) * units[digits[-1]] if digits[-1] in units else float(digits)
        assert abs(total_parameters(*model(name)) / number - 1) < 0.06 or " make" in preset.note, name


def test_a_note_says_whose_numbers_it_is_about():
    """The paper's, which the note contradicts, or ours, where the paper has none."""
    for name, preset in PRESETS.items():
        if preset.note and preset.stated.endswith(("M", "B")):
            assert "the paper " in preset.note or "the authors' code" in preset.note, name
    assert "99 %" in PRESETS["llama-2m"].note
    parts = parameters(*model("llama-2m"))
    assert round(100 * (parts["embedding"] + parts["head"]) / sum(parts.values())) == 99


@given(st.integers(2, 8), st.sampled_from([2, 4, 6]))
@pytest.mark.long
def test_caches_against_the_papers_formulas(layers, heads):
    """Shares of vanilla's cache of 2 L numbers a head width (ResFormer 3.5, SkipV1Former 3.2, B.1, C.5)."""
    config = Architecture(d_model=heads * 4, n_layers=layers, n_heads=heads, d_ff=8, context=16, stem=Tokens(5))
    full = cache(config, resolve("vanilla", config.shape))
    assert full.total == 2 * layers * config.d_model

    def saved(name: str) -> float:
        return 1 - cache(config, resolve(name, config.shape)).total / full.total

    rest, upper = (layers - 1) / layers, (layers - layers // 2) / layers
    assert saved("svformer") == pytest.approx(rest / 2)
    assert saved("skipv1") == pytest.approx(rest / 4)
    assert saved("skipkv1") == pytest.approx(rest / 2)
    assert saved("skipv1-yoco") == pytest.approx(rest / 4 + upper / 2)
    assert saved("yoco") == pytest.approx(upper)
    assert saved("cla") == pytest.approx((layers // 2) / layers)
    assert saved("cla-v") == pytest.approx((layers // 2) / layers / 2)
    for name in ("resformer", "resformer-all", "neutreno", "cross-layer", "attnres", "denseformer", "shared-queries"):
        assert saved(name) == 0
    assert saved("dva-attention") == pytest.approx(-0.5)


def test_queries_beside_the_attention_are_not_cached():
    config = replace(LLAMA_350M, n_layers=2)
    beside = plan(config.shape, values=lambda n, h: v(n, 1), beside=lambda n, h: v(n, h))
    assert cache(config, beside).values == (64, 64)


@given(st.integers(1, 6), st.integers(1, 5))
def test_depth_memory_is_what_attnres_says(layers, block):
    """O(Ld) Full, O(Nd) Block: the embedding and one vector a sublayer or block."""
    config = Architecture(d_model=8, n_layers=layers, n_heads=2, d_ff=8, context=16, stem=Tokens(5))
    full, blocks, stream = (
        depth_memory(config, resolve(name, config.shape)) // 8
        for name in ("attnres", f"attnres-block:size={block}", "vanilla")
    )
    assert full == 2 * layers + 1
    assert blocks == -(-2 * layers // block) + 1
    assert stream == 1
    assert depth_memory(config, resolve("denseformer", config.shape)) // 8 == layers + 1


@pytest.mark.parametrize("name", [n for n in VARIANTS if n != "attnres-heads"])
def test_every_read_covers_every_output_once(name):
    """Whatever the depth rule, sources do not overlap, and without a window nothing before a sublayer is lost."""
    config = Architecture(d_model=8, n_layers=5, n_heads=2, d_ff=8, context=16, stem=Tokens(5))
    chosen = resolve(name, config.shape)
    if isinstance(chosen.depth, Streams):
        assert [set(read) for read in chosen.depth.reach] == [set(range(after + 1)) for after in range(11)]
        with pytest.raises(BadInput, match="streams are read"):
            depth_reads(config, chosen)
        return
    for after, sources in enumerate(depth_reads(config, chosen)):
        outputs = [i for source in sources for i in source]
        assert len(set(outputs)) == len(outputs)
        if name != "attnres-window":
            assert sorted(outputs) == list(range(after + 1))
        else:
            assert outputs == sorted({0, *range(max(0, after - 7), after + 1)})


def test_a_toy_has_what_the_paper_gives_it():
    config = toy(5, 3, copy_rank=2)
    counts = parameters(config, resolve("skipv1", config.shape))
    assert {name for name, count in counts.items() if count} == {"queries", "keys", "values", "output", "copy"}
    assert counts["copy"] == 25
    assert counts["values"] == 2 * 25  # layer 2's first head, and layer 1's second, which layer 2 reads


@pytest.mark.parametrize("layers", [1, 2, 3, 5, 12])
def test_blocks_of_whole_layers_end_with_a_layer(layers):
    """Every finished block that a read weighs holds both sublayers of its layers; the default's blocks do not."""
    config, plan = model("llama-130m", f"attnres-block:layers={layers}")
    assert plan == model("llama-130m", f"attnres-block:size={2 * layers}")[1]
    ends = {source.stop - 1 for read in depth_reads(config, plan) for source in read[:-1]}
    assert ends == set(range(0, 24, 2 * layers))
    assert depth_memory(config, plan) == (1 + ceil(12 / layers)) * config.d_model
    halved = {source.stop - 1 for read in depth_reads(*model("llama-130m", "attnres-block")) for source in read[:-1]}
    assert {end % 2 for end in halved} == {0, 1}


@pytest.mark.parametrize(
    ("preset", "variant", "says"),
    [
        ("llama-350", None, "unknown preset 'llama-350'; did you mean llama-350m?"),
        ("llama-350m", "skipv9", "unknown variant 'skipv9'; did you mean skipv"),
        ("llama-350m", "skipv1:ratio=1.5", "skipv1: ratio must lie in [0, 1], got 1.5"),
        ("llama-350m", "skipv1:ratio=half", "ratio must be a number, got 'half'"),
        ("llama-350m", "skipv1:share=1", "skipv1 has no option 'share'; it takes ratio, source"),
        ("llama-350m", "skipv1:source=99", "source must be one of the 24 layers, got 99"),
        ("llama-350m", "skipv1+resformer", "two of these variants change the value map"),
        ("llama-350m", "skipv1+", "a variant is missing"),
        ("llama-350m", "svformer:anchors=2", "anchors must hold layer 1"),
        ("llama-350m", "cla:every=0", "every must be a whole number from 1, got 0"),
        ("llama-350m", "attnres-block:size=-1", "size must be a whole number from 0, got -1"),
        ("llama-350m", "attnres-block:layers=-1", "layers must be a whole number from 0, got -1"),
        ("llama-350m", "attnres-block:layers=25", "layers must be at most the 24 there are, got 25"),
        ("llama-350m", "attnres-block:layers=2,size=4", "given by size or by layers, not by both: got 4 and 2"),
        ("llama-350m", "attnres-window:window=0", "window must be a whole number from 1, got 0"),
        ("llama-350m", "skipv1:source=1.5", "source must be a whole number, got '1.5'"),
        ("llama-350m", "svformer:anchors=(1,2.5)", "anchors must be whole numbers in brackets, got '(1,2.5)'"),
        ("llama-350m", "svformer:anchors=()", "anchors must be whole numbers in brackets"),
        ("llama-350m", "neutreno:weight=(1,2)", "weight must be a number, got '(1,2)'"),
        ("llama-350m", "skipv1:(", "options are written option=value"),
        ("llama-350m", "skipv1:ratio=0.5,ratio=0.25", "ratio is given twice"),
        ("llama-350m", "skipv1:ratio=" + "-" * 100_000 + "1", "ratio must be a number"),
        ("llama-350m", "mine.py", "mine.py: files are read by the command line; pass the plan itself instead"),
        ("llama-350m", "mla:width=128.0", "width must be a whole number"),
        ("llama-350m", "gqa+mqa", "gqa and mqa both say what the heads are"),
        ("llama-350m", "layer-scale+rezero", "layer-scale and rezero both say how what sublayers put out is scaled"),
        ("llama-350m", "gated-heads+gated-outputs", "gated-heads and gated-outputs both say how what heads give is"),
        ("llama-350m", "mhc:diagonal=1e400", "gains, scales, biases and bases must be finite"),
        ("llama-350m", "window:size=-1", "window: window must not be negative, got -1"),
        ("llama-350m", "window+window:size=3", "window is there twice"),
        ("llama-350m", "skipv1+skipv1", "skipv1 is there twice"),
        ("llama-350m", "window:length=3", "window has no option 'length'; it takes size"),
        ("llama-350m", "gqa:group=3", "groups of 3 do not divide 16 heads"),
        ("llama-350m", "mla+skipkv1", "keys must be its own or follow all its values"),
        ("llama-350m", "mla:width=100", "16 heads do not divide the latent width 100"),
        ("gpt2-125m", "mqa+skipv1", "leaves no head to skip among 1 value heads"),
        (
            "llama-350m",
            "skipv1+mine.py:mine:layer=2",
            "mine.py:mine: files are read by the command line; pass the plan",
        ),
    ],
)
def test_names_without_meaning_say_why(preset, variant, says):
    with pytest.raises(BadName) as error:
        model(preset, variant)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_preset_s_own_variant_can_be_replaced():
    assert model("dva-b")[1].dynamic == "revised"
    assert model("dva-b", "vanilla")[1].dynamic == "no"
    assert model("dva-a", "dva")[0].n_heads == 12
