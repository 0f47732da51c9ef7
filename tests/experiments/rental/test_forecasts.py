"""What a rental would take: formulas beside what is counted elsewhere, and sizes that follow from the text."""

from dataclasses import replace

import pytest

from experiments.campaign.question import epochs
from experiments.campaign.setting import Corpus
from experiments.cli import main
from experiments.rental import machines, trainings
from experiments.rental.machines import MACHINES, machine_named
from experiments.rental.parts import Setup, parts
from experiments.rental.sitting import ROOT
from experiments.training.trunks import trunks
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.accounting import flops, total_parameters
from theory.plans.memory import training_bytes
from theory.plans.names import model, resolve
from theory.plans.sharding import recomputed

TEXT = Corpus("a text", "0123", 45_000_000, vocab=4096)
H100, H200 = MACHINES["H100"], MACHINES["H200"]


@pytest.mark.parametrize("tokens", [12_000_000, 40_000_000, 45_000_000, 400_000_000])
def test_the_text_decides_the_width_and_no_token_is_read_twice(tokens):
    wanted = trainings.trainings(replace(TEXT, tokens=tokens))
    assert epochs(wanted.config) <= 1
    wider = replace(wanted, width=wanted.width + 32)
    assert epochs(wider.config) > 1
    read = wanted.setting.tokens(wanted.width, 20.0)
    assert read == pytest.approx(20 * wanted.setting.parameters(wanted.width), rel=0.06)


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(BadInput, match="the narrowest model reads"):
        trainings.trainings(replace(TEXT, tokens=1_000_000))


def test_every_arm_has_twins_two_rates_and_two_seeds():
    wanted = trainings.trainings(TEXT)
    alone = trunks(wanted.arms(2))
    assert len(alone) == 2 * 2 * (3 + len(trainings.ARMS))
    assert {arm.twin for trunk in alone for arm in trunk.arms} == {0, 1, 2}
    rates = sorted({arm.recipe.learning_rate for trunk in alone for arm in trunk.arms})
    assert rates[1] == 2 * rates[0]
    slow = {arm.recipe.depth_rate for trunk in alone for arm in trunk.arms if "attnres" in arm.name}
    assert slow == {0.1}


def test_the_page_s_seconds_until_the_first_step_are_the_forecast_s():
    wanted = trainings.trainings(TEXT)
    arm = wanted.arms(2)[0]
    compiling = machines.compile_seconds(arm.architecture, arm.plan, arm.recipe)
    start = machines.START + machines.initial_seconds(arm.architecture, arm.plan) + compiling
    page = (ROOT / "experiments/bench/SCALE.md").read_text()
    assert f"| trainings, of {arm.architecture.n_layers} layers and width {wanted.width} | 24 |" in page
    assert f"| start to first step on an H100, forecast | {-(-start // 1):.0f} s |" in page
    assert f"| of these, compilation of the first plan | {compiling:.0f} s |" in page


def test_a_large_step_is_work_and_a_small_one_launches():
    config, _ = model("llama-350m")
    plan = resolve("vanilla", config.shape)
    recipe = Recipe(steps=1, batch=32, learning_rate=1e-3, precision="bf16", compile=True)
    work = 3 * flops(config, plan, (config.context + 1) // 2) * 32 * config.context
    assert machines.step_seconds(config, plan, recipe, H100) == work / (989e12 * machines.REACHED)
    assert machines.step_seconds(config, plan, replace(recipe, precision="fp32"), H100) > 10 * work / 989e12
    small, _ = model("llama-2m")
    plan = resolve("vanilla", small.shape)
    one = machines.step_seconds(small, plan, replace(recipe, batch=1), H100)
    assert one == machines.step_seconds(small, plan, replace(recipe, batch=1), H200)
    assert one < machines.step_seconds(small, plan, replace(recipe, batch=1, compile=False), H100)


# Bytes per token that a layer keeps, and those of scores and their gradients at the head.  Written out for a layer with
# RMSNorm, rotary positions, fused attention and a gated feed-forward; d is the width, f that of the feed-forward.
KEPT = {
    # Inputs and results of two norms; q, k, v, attention's output twice; what gate, up, silu and their product put out.
    "plain": lambda d, f: 4 * (4 * d + 5 * d + 4 * f),
    # The residual stream twice in float32; q, k, v and the output in bf16; gate and up in bf16; all else is made again.
    "compiled": lambda d, f: 2 * 4 * d + 2 * (4 * d + 2 * f),
    # The inputs of two sublayers in float32.
    "recomputed": lambda d, f: 2 * 4 * d,
}
# Bytes per score at the head: log-probabilities, their gradients and those of the scores; compiled, scores in bf16, the
# log-probabilities made again, and one gradient.
SCORES = {"plain": 12, "compiled": 8, "recomputed": 12}


def by_hand(kept, tokens):
    d, f, layers, vocab = 1024, 2736, 24, 32_000
    parameters = 2 * vocab * d + layers * (4 * d * d + 3 * d * f + 2 * d) + d
    one = KEPT[kept](d, f) * layers + SCORES[kept] * vocab
    if kept == "recomputed":
        one += KEPT["plain"](d, f) / 2  # one layer, in bf16
    copies = 0 if kept == "plain" else 2 * parameters
    return 16 * parameters + copies + tokens * one


@pytest.mark.parametrize("tokens", [16_384, 65_536])
def test_memory_at_350m_is_what_a_hand_counts(tokens):
    """Weights, gradients and two moments in float32, activations and the head, within a fifth."""
    config, _ = model("llama-350m")
    plan = resolve("vanilla", config.shape)
    plain = Recipe(steps=1, batch=tokens // config.context, learning_rate=1e-3)
    for kept, recipe in {"plain": plain, "compiled": replace(plain, precision="bf16", compile=True)}.items():
        forecast = machines.training_memory(config, plan, recipe) - machines.CONTEXT
        assert forecast == pytest.approx(by_hand(kept, tokens), rel=0.2), kept
    held = recomputed(config, plan, fused=True)
    again = training_bytes(config, plan, plain.batch, number=2.0, fused=True, kept=held)
    assert again == pytest.approx(by_hand("recomputed", tokens), rel=0.2)


def test_decoding_is_bound_by_what_it_reads_or_by_launches():
    config, _ = model("llama-350m")
    config = replace(config, context=20_000)
    plan = resolve("vanilla", config.shape)
    alone = machines.decoding_seconds(config, plan, H100, batch=1, tokens=16)
    assert alone == machines.LAUNCH * machines.DECODED * config.sublayers(plan)
    many = machines.decoding_seconds(config, plan, H100, batch=64, tokens=16_384)
    assert many > 2 * total_parameters(config, plan) / 3.35e12
    assert machines.decoding_seconds(config, plan, H200, batch=64, tokens=16_384) < many


def test_machines_are_known_by_their_names():
    assert machine_named("NVIDIA H200") is H200
    assert machine_named("NVIDIA H100 80GB HBM3") is H100
    assert machine_named("") is machines.SLOWEST


@pytest.mark.long
@pytest.mark.parametrize("machine", [H100, H200], ids=["H100", "H200"])
def test_every_part_s_forecast_fits_the_machine_and_its_minutes(machine, tmp_path):
    every = {part.name: part for part in parts(Setup(tmp_path), TEXT)}
    assert list(every) == ["decode", "text", "bridge", "step", "others"]
    assert [part.minutes for part in every.values()] == [2, 8, 4, 8, 0]
    for name, part in every.items():
        forecast = part.forecast(machine)
        if name == "others":
            assert forecast is None
            continue
        assert 0 < forecast.least <= forecast.seconds
        assert forecast.seconds <= 60 * part.minutes, name
        assert 1e9 < forecast.memory <= machine.memory, name
        assert forecast.formula


@pytest.mark.long
def test_the_plan_is_printed(capsys):
    assert main(["rental", "plan"]) == 0
    out = capsys.readouterr().out
    assert "decode, 2 min: decoding at 350M in bf16" in out
    assert out.count("  H100: ") == out.count("  H200: ") == 3
    assert "nothing is forecast without --data" in out
