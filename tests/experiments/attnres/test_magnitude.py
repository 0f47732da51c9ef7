"""`scale-magnitude`: what is made of gradients that were put in."""

import math
from dataclasses import replace

import pytest

from experiments import catalogue
from experiments.attnres.magnitude.points import RULES, cell, unevenness
from experiments.drawing.style import drawing
from experiments.training.campaign import BASELINE, TWIN
from theory.plans.names import resolve

EXPERIMENT = catalogue.experiment("scale-magnitude")
DEPTH, SEEDS = 2, 6


def probed(layers, outputs, seed):
    """With gradients of layers and outputs that rise by these factors a step, and a little noise."""
    noise = 1 + 0.01 * math.sin(5 * seed)
    return {
        "read_rms": [1.0, 2.0 * noise, 2.0, 2.0, 2.0],
        "read_max": [1.0, 1.0, 1.0, 1.0, 1.0],
        "ratio": [1.0, 1.0, 1.0, 1.0, 1.0],
        "bounds": None,
        "layer_gradient": [(layers * noise) ** i for i in range(DEPTH)],
        "output_gradient": [1.0, *((outputs * noise) ** i for i in range(2 * DEPTH))],
    }


def measured(slopes):
    """slopes: those of `probed`, by rule."""
    found = {}
    for rule, of_rule in slopes.items():
        ends = [probed(*of_rule, seed + 7 * (rule == TWIN)) for seed in range(SEEDS)]
        found[cell(rule, DEPTH)] = [{"start": end, "end": end} for end in ends]
    return {"magnitudes": found, "d_model": 4, "seeds": SEEDS}


@pytest.fixture(scope="module")
def prediction():
    smoke = EXPERIMENT.profiles["smoke"].config
    return EXPERIMENT.predict(replace(smoke, depths=(DEPTH,)))


def test_more_even_gradients_of_outputs_and_less_even_ones_of_parameters_are_told_apart(prediction):
    slopes = {BASELINE: (2.0, 2.0), TWIN: (2.0, 2.0), **dict.fromkeys(RULES[1:], (3.0, 1.2))}
    measurement = measured(slopes)
    verdicts = {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}
    for rule in RULES[1:]:
        assert verdicts[f"outputs/{rule}/{DEPTH}"] == "agrees"
        assert verdicts[f"gradients/{rule}/{DEPTH}"] == "contradicts"
    with drawing():
        assert len(EXPERIMENT.draw(prediction, measurement).axes) >= 4


def test_a_gradient_of_zero_leaves_it_undecided(prediction):
    measurement = measured(dict.fromkeys((BASELINE, TWIN, *RULES[1:]), (2.0, 2.0)))
    measurement["magnitudes"][cell("attnres", DEPTH)][0]["end"]["output_gradient"][-1] = 0.0
    verdicts = {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}
    assert verdicts[f"outputs/attnres/{DEPTH}"] == "inconclusive"


def test_unevenness_is_free_of_scale():
    assert unevenness([1.0, math.e]) == pytest.approx(0.5)
    assert unevenness([2.0, 2 * math.e]) == pytest.approx(0.5)
    assert math.isnan(unevenness([1.0, 0.0]))


@pytest.mark.parametrize("profile", ["gpu", "gpu-tiny"])
def test_on_a_gpu_all_is_compiled_but_what_is_too_long_unrolled(profile):
    """The tiny profile has both, as the large one; where a recipe does not compile nothing is."""
    config = EXPERIMENT.profiles[profile].config
    compiled = {}
    for rule in RULES:
        for sizes in EXPERIMENT.architectures(config):
            recipe = config.trained(sizes, resolve(rule, sizes.shape))
            assert (recipe.precision, recipe.accumulate) == ("bf16", 2)
            compiled[rule, sizes.n_layers] = recipe.compile
    assert all(compiled[BASELINE, n] and compiled["attnres-block", n] for n in config.depths) or profile == "gpu-tiny"
    assert {compiled["attnres", n] for n in config.depths} == {True, False}
    assert compiled["attnres", min(config.depths)]
    assert not compiled["attnres", max(config.depths)]
    cpu = EXPERIMENT.profiles["cpu"].config
    assert cpu.trained(sizes, resolve("vanilla", sizes.shape)) == cpu.recipe
    if profile == "gpu":
        assert max(config.depths) >= 96
