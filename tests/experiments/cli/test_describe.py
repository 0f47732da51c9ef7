"""A plan in words, characters and a picture, and what `describe` compares."""

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from experiments.cli.describe import description, markdown, percent, print_description, variant_rows
from experiments.drawing.plans import FIRST, draw
from theory.plans.names import model, resolve
from theory.plans.plan import Shape
from theory.plans.presets import toy
from theory.plans.words import depth_words, layer_words, rules, shown_maps, sketch

SIX_BY_FOUR = Shape(6, 4)


@pytest.mark.parametrize(
    ("name", "what", "lines"),
    [
        ("vanilla", "values", ["layers 1-6: own"]),
        ("resformer", "values", ["layer 1: own", "layers 2-6: 0.5 own + 0.5 layer 1"]),
        ("resformer-constant", "values", ["layer 1: own", "layers 2-6: own + 2 layer 1"]),
        ("skipv1", "values", ["layer 1: own", "layers 2-6: heads 1-2 own, heads 3-4 layer 1"]),
        ("skipv1:ratio=0.25", "values", ["layer 1: own", "layers 2-6: heads 1-3 own, head 4 layer 1"]),
        ("skipv0", "values", ["layer 1: own", "layers 2-6: heads 1-2 own; heads 3-4 left out"]),
        ("neutreno", "beside", ["layer 1: nothing", "layers 2-6: 0.4 layer 1 + -0.4 own"]),
        ("shared-keys", "keys", ["layer 1: own", "layers 2-6: layer 1"]),
        ("residual-queries", "queries", ["layer 1: own", "layers 2-6: 0.5 own + 0.5 layer 1"]),
        ("yoco-k", "keys", ["layers 1-3: own", "layers 4-6: layer 3"]),
        ("cross-layer:source=1", "values", ["layer 1: own", "layers 2-6: own, and layer 1"]),
        (
            "skipv1-odd-even",
            "values",
            [
                "layer 1: own",
                "layer 2: heads 1-2 own, heads 3-4 layer 1",
                "layer 3: heads 1-2 own, heads 3-4 layer 1's heads 1-2",
                "layer 4: heads 1-2 own, heads 3-4 layer 1",
                "layer 5: heads 1-2 own, heads 3-4 layer 1's heads 1-2",
                "layer 6: heads 1-2 own, heads 3-4 layer 1",
            ],
        ),
    ],
)
def test_rules_in_words(name, what, lines):
    assert rules(resolve(name, SIX_BY_FOUR), what) == lines


def test_learned_weights_are_named():
    assert rules(resolve("resformer-learned", Shape(2, 2)), "values")[1] == "layer 2: own_2 own + first_2 layer 1"


@pytest.mark.parametrize(
    ("name", "what", "rows"),
    [
        ("skipv1", "values", ["   3 ..11", "   2 ..11", "   1 ...."]),
        ("skipv0", "values", ["   3 ..  ", "   2 ..  ", "   1 ...."]),
        ("resformer", "values", ["   3 ++++", "   2 ++++", "   1 ...."]),
        ("cross-layer", "keys", ["   3 ||||", "   2 ||||", "   1 ...."]),
        ("neutreno", "beside", ["   3 ++++", "   2 ++++", "   1     "]),
        ("cla", "keys", ["   3 ....", "   2 1111", "   1 ...."]),
    ],
)
def test_sketches(name, what, rows):
    assert sketch(resolve(name, Shape(3, 4)), what) == rows


def test_only_changed_maps_are_shown():
    shown = {
        name: shown_maps(resolve(name, SIX_BY_FOUR)) for name in ("vanilla", "skipv0", "cla", "neutreno", "skipv1")
    }
    assert shown["vanilla"] == shown["skipv0"] == shown["skipv1"] == ["values"]
    assert shown["cla"] == ["values", "keys"]
    assert shown["neutreno"] == ["values", "beside"]


def test_layers_and_depth_in_words():
    assert layer_words(*model("dva-b")) == (
        "1 head of 768, dynamic values (revised form), no output projection, no feed-forward"
    )
    assert layer_words(*model("llama-60m", "gqa")) == "8 heads of 64 in groups of 2, feed-forward of 1376"
    told = "8 heads of 64, normed queries and keys, a window of 7 tokens, feed-forward of 1376"
    assert layer_words(*model("llama-60m", "window:size=7+qk-norm")) == told
    config, plan = model("llama-60m", "skipv1+gqa+window")
    assert (config.kv_heads, config.window, plan) == (4, config.context // 4, resolve("skipv1", config.shape))
    pairs = "8 heads of 64, differences of pairs of heads, feed-forward of 1376"
    assert layer_words(*model("llama-60m", "differential")) == pairs
    assert layer_words(*model("llama-60m", "mla")) == "8 heads from a latent of 128, feed-forward of 1376"
    words = [
        depth_words(resolve(name, SIX_BY_FOUR).depth) for name in ("vanilla", "attnres-block:size=3", "attnres-static")
    ]
    assert words == ["a residual stream", "Block AttnRes, 3 sublayers a block", "Full AttnRes, static query"]
    assert depth_words(resolve("attnres-block:layers=2", SIX_BY_FOUR).depth) == "Block AttnRes, 4 sublayers a block"


def test_what_is_saved_is_against_vanilla_on_the_preset_s_own_sizes():
    saved = description("llama-60m", "skipkv1", *model("llama-60m", "skipkv1"))["saved"]
    assert saved["cache"] == saved["key_cache"] == saved["value_cache"] == pytest.approx(7 / 16)
    grouped = description("llama-60m", "gqa:group=4", *model("llama-60m", "gqa:group=4"))["saved"]
    assert grouped["cache"] == pytest.approx(3 / 4)
    assert description("llama-60m", "skipv1", *model("llama-60m", "skipv1"))["stated_parameters"] is None
    about = description("llama-60m", "vanilla", *model("llama-60m"), "fp32", 7)
    assert about["stated_parameters"] == "60M"
    assert about["cache_bytes_per_token"] == 8 * 2 * 512 * 4
    assert about["cache_bytes_per_sequence"] == 7 * about["cache_bytes_per_token"]
    assert (about["context"], about["depth_bytes_per_token"]) == (7, 512 * 4)


def test_a_sequence_s_cache_is_smaller_under_windows(capsys):
    variant = "windows:pattern=(100,0)"
    config, plan = model("llama-60m", variant)
    about = description("llama-60m", variant, config, plan)
    assert about["cache_bytes_per_sequence"] == 2 * 2 * 512 * (4 * 200 + 4 * 1024)
    print_description(about, plan)
    assert f"under their windows, {4 * 512 * 4 * 1224:,} bytes for 1,024 tokens" in capsys.readouterr().out


def test_a_variant_that_does_not_fit_a_preset_has_no_costs():
    """One head cannot be halved."""
    rows = {row["name"]: row for row in variant_rows("dva-b")}
    assert rows["skipv1"]["cache"] is None
    assert rows["svformer"]["cache"] == pytest.approx(-11 / 24)
    assert "| n/a | n/a |" in markdown([rows["skipv1"]])


@pytest.mark.parametrize(
    ("change", "said"),
    [(0, "="), (-0.25, "-25.0%"), (0.0001, "+<0.1%"), (-0.0001, "-<0.1%"), (0.0005, "+0.1%"), (None, "n/a")],
)
def test_percent(change, said):
    assert percent(change) == said


def cells(axis):
    return [patch for patch in axis.patches if isinstance(patch, Rectangle)]


def test_the_picture_has_a_cell_for_every_term():
    config, plan = model("llama-60m", "skipv1")
    values, depth = draw(config, plan, "a title").axes
    shades = [to_hex(cell.get_facecolor()) for cell in cells(values)]
    assert shades.count(FIRST) == 7 * 4
    assert shades.count("#ffffff") == 8 * 8 - 7 * 4
    assert [text.get_text() for text in values.texts] == ["1"] * 28
    assert len(cells(depth)) == 17
    mixed = draw(*model("llama-60m", "resformer"), "").axes[0]
    assert len(cells(mixed)) == 8 + 7 * 8 * 2
    assert {round(cell.get_width(), 3) for cell in cells(mixed)} == {0.88, 0.44}


def test_the_picture_marks_gates():
    figure = draw(*model("llama-60m", "gated-value-embeddings"), "")
    marked = [cell for cell in cells(figure.axes[0]) if cell.get_hatch()]
    assert len(marked) == 4 * 8
    assert "a weight of every token's own" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_picture_tells_depth_rules_apart():
    count = {
        name: len(cells(draw(*model("llama-60m", name), "").axes[-1])) for name in ("attnres", "attnres-block:size=4")
    }
    assert count["attnres"] == 17 * 18 // 2
    assert count["attnres-block:size=4"] == sum(1 + -(-i // 4) for i in range(17))
    hatched = [cell for cell in cells(draw(*model("llama-60m", "denseformer"), "").axes[-1]) if cell.get_hatch()]
    assert len(hatched) == sum(n + 1 for n in range(1, 9)) + sum(n + 1 for n in range(1, 8))


def test_a_toy_can_be_drawn():
    config = toy(4, 5, copy_rank=2)
    assert draw(config, resolve("skipv1", config.shape), "").axes
