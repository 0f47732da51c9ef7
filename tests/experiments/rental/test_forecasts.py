"""What a rental would take: formulas beside what is counted elsewhere, and sizes that follow from the text."""

from dataclasses import replace

import pytest

from experiments.campaign.question import epochs
from experiments.campaign.setting import Corpus
from experiments.cli import main
from experiments.rental import machines, trainings
from experiments.rental.machines import MACHINES, machine_named
from experiments.rental.parts import Setup, parts
from experiments.training.trunks import trunks
from icl.recipe import Recipe
from theory.errors import BadInput
from theory.plans.accounting import flops, total_parameters
from theory.plans.names import model, resolve

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
    """What is not done in them goes on in the next command; but something is."""
    every = {part.name: part for part in parts(Setup(tmp_path), TEXT)}
    assert list(every) == ["decode", "text", "bridge", "step", "others"]
    assert [part.minutes for part in every.values()] == [2, 10, 6, 4, 0]
    for name, part in every.items():
        forecast = part.forecast(machine)
        if name == "others":
            assert forecast is None
            continue
        assert 0 < forecast.least <= forecast.seconds
        assert forecast.least <= 60 * part.minutes, name
        assert 1e9 < forecast.memory <= machine.memory, name
        assert forecast.formula
        if name != "step":
            assert forecast.seconds <= 60 * part.minutes, name


@pytest.mark.long
def test_the_plan_is_printed(capsys):
    assert main(["rental", "plan"]) == 0
    out = capsys.readouterr().out
    assert "decode, 2 min: decoding at 350M in bf16" in out
    assert out.count("  H100: ") == out.count("  H200: ") == 3
    assert "nothing is forecast without --data" in out
