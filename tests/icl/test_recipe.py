"""Schedules of the learning rate, the papers' settings, and what no recipe can mean."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from icl.recipe import SCHEDULES, Recipe
from icl.training.loop import train
from tests.icl.training.small import RECIPE, reader, text
from theory.errors import BadInput


def test_the_rate_at_the_corners_of_the_schedule():
    recipe = Recipe(steps=110, batch=1, learning_rate=2.0, warmup=1 / 11, floor=0.1)
    at = {0: 0.2, 4: 1.0, 9: 2.0, 59: 1.1, 109: 0.2}
    assert {step: recipe.rate(step) for step in at} == pytest.approx(at)
    assert recipe.rate(10) < 2.0
    started = replace(recipe, start=0.5)
    assert [started.rate(step) for step in (0, 4, 9, 59)] == pytest.approx([1.1, 1.5, 2.0, 1.1])
    flat = replace(recipe, warmup=0.0, floor=1.0)
    assert {flat.rate(step) for step in range(110)} == {2.0}
    rising = replace(recipe, warmup=1.0)
    assert [rising.rate(step) for step in (0, 109)] == pytest.approx([2 / 110, 2.0])


def test_the_quadratic_decay():
    recipe = Recipe(steps=20, batch=1, learning_rate=2.0, warmup=0.25, floor=0.0, decay="quadratic")
    at = {0: 2 * 0.2, 2: 2 * 0.6 * 0.81, 4: 2 * 0.64, 10: 0.5, 19: 2 * 0.0025}
    assert {step: recipe.rate(step) for step in at} == pytest.approx(at)
    assert [recipe.share(step) for step in (0, 10)] == pytest.approx([0.2, 0.25])
    assert replace(recipe, floor=0.2).rate(10) == pytest.approx(2 * (0.2 + 0.8 * 0.25))
    assert replace(recipe, start=0.5).rate(2) == pytest.approx(2 * 0.8 * 0.81)
    assert replace(recipe, warmup=0.0).rate(0) == 2.0


def test_the_late_decay():
    recipe = Recipe(steps=20, batch=1, learning_rate=2.0, warmup=0.25, floor=0.2, decay="late")
    at = {0: 0.4, 4: 2.0, 5: 2.0, 15: 2.0, 16: 2 * 0.8, 17: 2 * 0.6, 18: 2 * 0.4, 19: 2 * 0.2}
    assert {step: recipe.rate(step) for step in at} == pytest.approx(at)
    assert {recipe.rate(step) for step in range(5, 16)} == {2.0}
    assert recipe.begins_to_fall() == 16
    assert replace(recipe, start=0.5).rate(0) == pytest.approx(2 * 0.6)
    latest = replace(recipe, warmup=0.8)
    assert [latest.rate(step) for step in (14, 15, 16)] == pytest.approx([2 * 15 / 16, 2.0, 1.6])
    assert [replace(recipe, steps=steps, warmup=0.0).begins_to_fall() for steps in (1, 2, 3, 7, 8)] == [1, 2, 2, 6, 6]


@given(st.integers(1, 2000), st.integers(1, 5), st.floats(0, 0.7), st.floats(0, 1), st.floats(0, 0.99))
def test_a_longer_training_with_late_decay_begins_as_a_shorter_one(steps, times, warmup, start, floor):
    """With as many steps of warm-up, until the shorter one's rate falls, to the bit; and not any further."""
    rising = int(warmup * steps)
    options = {"batch": 1, "learning_rate": 0.1, "start": start, "floor": floor, "decay": "late"}
    short, long = (Recipe(steps=count, warmup=rising / count, **options) for count in (steps, times * steps))
    shared = short.begins_to_fall()
    assert shared == round(0.8 * steps)
    assert [short.rate(step) for step in range(shared)] == [long.rate(step) for step in range(shared)]
    if times > 1 and shared < steps:
        assert short.rate(shared) < long.rate(shared) == 0.1
    halved = Recipe(steps=2 * steps, warmup=short.warmup / 2, **options)  # as the docstring says
    assert [short.rate(step) for step in range(shared)] == [halved.rate(step) for step in range(shared)]
    # The control: as large a share is not as many steps.
    other = Recipe(steps=2 * steps, warmup=short.warmup, **options)
    if rising and start < 0.9:
        assert short.rate(rising - 1) > other.rate(rising - 1)


@pytest.mark.long
def test_a_longer_training_branches_off_with_the_weights_of_a_shorter_one():
    """Both read the same data; after the shorter one's rate has begun to fall they part."""
    seen = {}
    for steps in (10, 20):
        recipe = replace(RECIPE, steps=steps, warmup=2 / steps, decay="late", log_every=1, evaluate_every=0)
        model = reader()
        seen[steps] = [
            torch.cat([p.detach().flatten().clone() for p in model.parameters()])
            for _ in train(model, text(), recipe, 3)
        ]
    equal = [torch.equal(short, long) for short, long in zip(seen[10], seen[20], strict=False)]
    assert equal == [True] * 8 + [False] * 2


DECAYS = st.sampled_from(["cosine", "quadratic", "late"])
NOT_NEARLY_ALL = st.one_of(st.floats(0, 0.9), st.just(1.0))


@given(DECAYS, st.integers(1, 60), st.integers(0, 60), NOT_NEARLY_ALL, NOT_NEARLY_ALL)
def test_the_rate_begins_to_fall_for_good(decay, steps, rising, start, floor):
    warmup = min(rising, round(0.8 * steps) if decay == "late" else steps) / steps
    recipe = Recipe(steps=steps, batch=1, learning_rate=1.0, warmup=warmup, start=start, floor=floor, decay=decay)
    at_peak = [step for step in range(steps) if recipe.share(step) == pytest.approx(1, abs=1e-12)]
    assert recipe.begins_to_fall() == max(at_peak, default=-1) + 1


SHARES = st.floats(0, 1)


@given(st.integers(1, 60), SHARES, SHARES, SHARES, st.floats(1e-9, 1e9))
@example(27, 0.875, 0.2703340896006868, 0.0, 1.0)  # (1 - start) 24 / 24 is not 1 - start
def test_the_rate_rises_and_falls_and_is_never_above_the_peak(steps, warmup, start, floor, peak):
    recipe = Recipe(steps=steps, batch=1, learning_rate=peak, warmup=warmup, start=start, floor=floor)
    rates = [recipe.rate(step) for step in range(steps)]
    assert max(rates) <= peak
    assert min(rates) >= min(start, floor) * peak * (1 - 1e-12)
    top = rates.index(max(rates))
    tiny = 1e-12 * peak
    assert all(a <= b + tiny for a, b in itertools.pairwise(rates[: top + 1]))
    assert all(a >= b - tiny for a, b in itertools.pairwise(rates[top:]))


def test_the_papers_settings():
    fields = ("learning_rate", "weight_decay", "clip", "warmup", "floor")
    assert {name: tuple(map(schedule.settings.get, fields)) for name, schedule in SCHEDULES.items()} == {
        "skipv1-llama": (2e-3, 0.0, 0.0, 0.1, 0.1),
        "skipv1-llama-large": (1e-3, 0.1, 1.0, 0.1, 0.1),
        "skipv1-gpt2": (1e-3, 0.1, 1.0, 0.1, 0.1),
        "resformer": (6e-4, 0.1, 1.0, 0.012, 0.1),
    }
    assert [name for name, s in SCHEDULES.items() if not s.settings.get("scale_outputs", True)] == ["resformer"]
    for schedule in SCHEDULES.values():
        assert schedule.place
        recipe = Recipe(steps=10_000, batch=1, **schedule.settings)
        assert recipe.rate(9999) == pytest.approx(0.1 * recipe.learning_rate)
    recipe = Recipe(steps=10_000, batch=1, **SCHEDULES["resformer"].settings)
    assert max(range(10_000), key=recipe.rate) == 119
    assert recipe.rate(119) == pytest.approx(6e-4)
    assert recipe.betas == (0.9, 0.95)
    assert recipe.rate(0) == pytest.approx(1e-7 + 6e-4 / 120, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 1.5}, "steps must be a whole number, got 1.5"),
        ({"steps": "10"}, "steps must be a whole number, got the text '10'"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"batch": True}, "batch must be a whole number, got True"),
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
        ({"accumulate": 3}, "3 parts do not divide a batch of 4 sequences"),
        ({"decay": "linear"}, "decay must be one of cosine, quadratic, late, got linear"),
        ({"decay": "late", "warmup": 0.9}, "a late decay leaves 10 of 12 steps to the warm-up, which takes 11"),
        ({"log_every": 0}, "log_every must be at least 1, got 0"),
        ({"evaluate_every": 7}, "evaluate_every must be a multiple of log_every = 3, got 7"),
        ({"evaluate_every": -3}, "evaluate_every must be a multiple of log_every = 3, got -3"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"learning_rate": math.nan}, "learning_rate must be a finite number, got nan"),
        ({"learning_rate": None}, "learning_rate must be a finite number, got None"),
        ({"eps": -1e-8}, "eps must be positive, got -1e-08"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative, got -0.1"),
        ({"clip": -1.0}, "clip must not be negative, got -1.0"),
        ({"clip": math.inf}, "clip must be a finite number, got inf"),
        ({"warmup": 1.1}, r"warmup must lie in \[0, 1\], got 1.1"),
        ({"start": -0.1}, r"start must lie in \[0, 1\], got -0.1"),
        ({"floor": 2.0}, r"floor must lie in \[0, 1\], got 2.0"),
        ({"betas": (0.9,)}, r"betas must be two numbers in \[0, 1\), got \(0.9,\)"),
        ({"betas": (0.9, 1.0)}, r"betas must be two numbers in \[0, 1\), got \(0.9, 1.0\)"),
        ({"betas": (0.9, math.nan)}, r"betas must be two numbers in \[0, 1\), got \(0.9, nan\)"),
        ({"betas": 0.9}, r"betas must be two numbers in \[0, 1\), got 0.9"),
        ({"betas": ("a", "b")}, r"betas must be two numbers in \[0, 1\), got \('a', 'b'\)"),
        ({"precision": "fp16"}, "precision must be one of fp32, bf16, got fp16"),
        ({"compile": 1}, "compile must be true or false, got 1"),
        ({"scale_outputs": 1}, "scale_outputs must be true or false, got 1"),
    ],
)
def test_what_no_recipe_can_mean_is_refused_in_one_line(options, says):
    with pytest.raises(BadInput, match=f"^{says}$"):
        replace(RECIPE, **options)
