"""`svformer-length`: planted critical points are found, and verdicts turn with what they judge."""

import json
import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments import catalogue
from experiments.experiment.execution import execute, prepare
from experiments.resformer.length.experiment import ARMS, EXPERIMENT
from experiments.resformer.length.points import (
    POSITIONS,
    SVFORMER,
    Case,
    critical_point,
    cumulated,
    mean_between,
    points_of,
    relative,
)
from experiments.resformer.length.probe import by_octave
from experiments.resformer.length.profiles import PROFILES
from experiments.resformer.length.verdicts import common, octaves_of_sum, positions_of_all, verdicts
from experiments.store.folders import Slot
from experiments.training import probes
from experiments.training.campaign import BASELINE, TWIN
from experiments.verdicts.crossings import UNKNOWN
from icl.recipe import Recipe
from icl.training.objectives import Batch
from tests.icl.probes.models import config_of, model_of, tokens
from theory.errors import BadInput

NAME = "svformer-length"
LAST = 400
CPU = PROFILES["cpu"].config
CONFIG = replace(  # every axis but one has several values, the reference in their middle
    CPU,
    architecture=replace(CPU.architecture, context=8),
    recipe=replace(CPU.recipe, steps=LAST, learning_rate=0.01, warmup=0.12),
    lengths=(4, 8, 16),
    rates=(0.005, 0.01, 0.02),
    warmups=(0.012, 0.12),
    layers=(6,),
)


def case_of(of_step, steps=range(5, LAST + 1, 5), seeds=1, twin=lambda t, seed: 0.0, first=0.0):
    """Curves in which SVFormer's loss is vanilla's and `of_step(step, seed)`, in the middle of the steps of a point."""
    steps = list(steps)
    middles = [(a + b + 1) / 2 for a, b in zip([0, *steps], steps, strict=False)]
    base = [[6 / (1 + 0.01 * t) + 0.1 * seed for t in middles] for seed in range(seeds)]

    def curves(added):
        return [[x + added(t, seed) for x, t in zip(b, middles, strict=True)] for seed, b in enumerate(base)]

    def positions(added):
        return [{"first": [1, 2, 4], "loss": [3 + added(seed), 2 + added(seed), 1]} for seed in range(seeds)]

    return {
        "steps": steps,
        "curves": {BASELINE: base, SVFORMER: curves(of_step), TWIN: curves(twin)},
        "positions": {
            BASELINE: positions(lambda _: 0.0),
            SVFORMER: positions(lambda seed: first + 0.001 * seed),
            TWIN: positions(lambda seed: 0.01 * (-1) ** seed),
        },
    }


@given(
    st.integers(1, 20),
    st.integers(4, 60),
    st.integers(1, 100),
    st.floats(-100, 700),
    st.floats(1e-4, 1e-2),
    st.booleans(),
)
def test_a_planted_critical_point_is_found(every, count, window, at, rise, falls):
    """A straight line through zero, whatever the log averages over and the smoothing."""
    steps = range(every, every * count + 1, every)
    case = case_of(lambda t, _: (-1 if falls else 1) * rise * (t - at), steps)
    times, _ = relative(case, 0, SVFORMER, window)
    if len(times) < 2:
        return
    found = critical_point(case, 0, SVFORMER, window)
    if min(abs(at - times[0]), abs(at - times[-1])) < 1e-6:
        return
    inside = times[0] < at < times[-1]
    if falls:
        assert found.last == (math.inf if at < times[-1] else -math.inf)
    else:
        assert found.last == pytest.approx(at if inside else math.inf if at > times[-1] else -math.inf)
    assert found.changes == inside


def test_several_and_none():
    wave = case_of(lambda t, _: -math.cos(t / 400 * 3 * math.pi))  # up, down, up, at sixths
    found = critical_point(wave, 0, SVFORMER, 5)
    assert found.changes == 3
    assert (found.first, found.last) == pytest.approx((LAST / 6, 5 * LAST / 6), abs=0.1)
    gone = case_of(lambda t, _: 1.0)
    gone["curves"][SVFORMER][0] = None
    assert critical_point(gone, 0, SVFORMER, 5) == UNKNOWN
    assert math.isnan(mean_between(gone, 0, SVFORMER, 0, 1))
    assert mean_between(case_of(lambda t, _: float(t > 200)), 0, SVFORMER, 0.25, 1.0) == pytest.approx(2 / 3)


def test_smoothing_counts_steps():
    assert points_of(range(5, 401, 5), 50) == 10
    assert points_of(range(5, 401, 5), 1) == 1
    with pytest.raises(ValueError, match="finite"):  # too few steps for two points is no curve
        critical_point(case_of(lambda t, _: 1.0, [5, 10]), 0, SVFORMER, 50)


@given(st.integers(1, 50), st.floats(0, 60), st.floats(0, 60))
def test_summed_rates(steps, one, other):
    recipe = Recipe(steps=steps, batch=1, learning_rate=0.5, warmup=0.2)
    assert cumulated(recipe, 0) == 0
    assert cumulated(recipe, steps) == pytest.approx(sum(map(recipe.rate, range(steps))))
    low, high = sorted((one, other))
    assert 0 <= cumulated(recipe, high) - cumulated(recipe, low) <= 0.5 * (high - low) + 1e-9
    assert cumulated(recipe, 0.5) == pytest.approx(recipe.rate(0) / 2)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_step_has_the_same_tokens_at_every_length(profile):
    config = PROFILES[profile].config
    assert config.reference in config.cases
    for case in config.cases:
        sizes, recipe = config.trained(case)
        assert recipe.batch * sizes.context == config.tokens
        assert (sizes.context, sizes.n_layers) == (case.length, case.layers)
        assert (recipe.learning_rate, recipe.warmup) == (case.rate, case.warmup)
        assert recipe.steps == config.recipe.steps
    assert len({case.key for case in config.cases}) == len(config.cases)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lengths": (4, 16)}, "context length: needs rising values, among them the reference"),
        ({"rates": (0.02, 0.01)}, "learning rate: needs rising values"),
        ({"layers": ()}, "layers: needs rising values"),
        ({"lengths": (3, 8)}, "sequences of 3 do not divide 512 and 4096 tokens"),
        ({"held_out_tokens": 100}, "sequences of 8 do not divide 512 and 100 tokens"),
    ],
)
def test_what_cannot_be_compared_says_why(changes, says):
    with pytest.raises(BadInput, match=says):
        replace(CONFIG, **changes)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 6])
def test_the_probe_is_the_loss_by_octave(length):
    model = model_of(config_of(context=length)).train()

    class Held:
        def held_out(self):
            for seed in range(3):
                text = tokens(batch=2, length=length, seed=seed)
                yield Batch(text, text.roll(1, 1))

        def losses(self, answer, targets):
            return torch.nn.functional.cross_entropy(answer.mT, targets, reduction="none")

    assert probes.probe(POSITIONS) is by_octave
    found = by_octave(model, Held(), "cpu")
    assert model.training
    by_hand = torch.cat([Held().losses(model(b.inputs), b.targets) for b in Held().held_out()]).mean(0).tolist()
    assert found["first"] == [first for first in (1, 2, 4) if first <= length]
    for first, loss in zip(found["first"], found["loss"], strict=True):
        here = by_hand[first - 1 : 2 * first - 1]
        assert loss == pytest.approx(sum(here) / len(here))


@pytest.mark.parametrize(("shortest", "count"), [(1, 1), (2, 1), (3, 3), (4, 3), (6, 3), (7, 7), (64, 63)])
def test_positions_that_all_lengths_have(shortest, count):
    """In whole octaves; their difference is that of the positions one by one."""
    assert positions_of_all({"axes": {"length": {"values": [64.0, float(shortest)]}}}) == count
    firsts = [1, 2, 4, 8, 16, 32, 64]
    ours, base = ([{"first": firsts, "loss": [start + first**0.5 for first in firsts]}] for start in (0.5, 0.2))
    ours[0]["loss"][0] += 1
    case = {"positions": {SVFORMER: ours, BASELINE: base}}
    assert common(count, case, 0, SVFORMER) == pytest.approx(0.3 + 1 / count)


def planted(seeds=4, later=1.0, with_rate=-1.0, positions=True, **changes):
    """Critical points at the reference in step 200, that move by 50 steps for a doubling of length or rate, and final
    differences that move with them; noise that differs from seed to seed."""
    cases = {}
    for case in CONFIG.cases:
        length, rate = (math.log2(getattr(case, x) / getattr(CONFIG.reference, x)) for x in ("length", "rate"))
        at = 200 + 50 * later * length + 50 * with_rate * rate

        def of_step(t, seed, at=at):
            return 2e-4 * (t - at - 5 * (seed % 2))

        def twin(t, seed):
            return 0.01 * (-1) ** seed * (1 if t > 100 + 10 * seed else -1)

        cases[case.key] = case_of(of_step, seeds=seeds, twin=twin, first=-0.05 * length * positions)
    return {"seeds": seeds, "cases": cases, **changes}


PREDICTION = json.loads(json.dumps(EXPERIMENT.predict(CONFIG)))


def judged(measurement, prediction=PREDICTION):
    return {check.id: check for check in verdicts(prediction, json.loads(json.dumps(measurement)))}


def test_verdicts_find_what_is_planted():
    found = judged(planted())
    said = {name: check.verdict for name, check in found.items()}
    of_cases = {name: verdict for name, verdict in said.items() if name.startswith(("early", "late/length ", "toy"))}
    assert {v for name, v in of_cases.items() if name.startswith("early")} == {"agrees"}
    assert {v for name, v in of_cases.items() if name.startswith("late")} == {"agrees"}
    assert {v for name, v in of_cases.items() if name.startswith("toy")} == {"contradicts"}
    assert len(of_cases) == 2 * len(CONFIG.cases) + len(CONFIG.lengths)
    others = {name: verdict for name, verdict in said.items() if name not in of_cases}
    assert others == {
        "late/length": "agrees",
        "late/rate": "agrees",
        "common/length": "agrees",
        "late/warmup": "agrees",
        "critical/length": "agrees",
        "critical/rate": "agrees",
        "critical/summed rate": others["critical/summed rate"],
    }
    assert found["late/length"].measured == pytest.approx(-0.01)
    assert found["late/rate"].measured == pytest.approx(0.01)
    assert found["critical/length"].measured == 12  # 4 seeds of 3 pairs
    assert all(check.quantity and check.claim in EXPERIMENT.claims for check in found.values())


def test_verdicts_fall_where_the_opposite_is_planted():
    found = judged(planted(later=-1.0, with_rate=1.0))
    for name in ("late/length", "late/rate", "critical/length", "critical/rate", "late/warmup"):
        assert found[name].verdict == "contradicts"


def test_nothing_is_found_where_nothing_is():
    flat = judged(planted(later=0.0, with_rate=0.0, positions=False))
    for name in ("late/length", "late/rate", "critical/length", "critical/rate", "common/length"):
        assert flat[name].verdict == "inconclusive", name


def test_what_is_censored_everywhere_decides_no_order():
    """Ahead to the end at all lengths: final differences are judged, critical points are not."""
    altered = planted()
    for case in altered["cases"].values():
        case["curves"][SVFORMER] = [[x - 1 for x in curve] for curve in case["curves"][SVFORMER]]
    found = judged(altered)
    assert found["late/length"].verdict == "agrees"
    assert found["critical/length"].verdict == found["critical/rate"].verdict == "inconclusive"
    assert (found["critical/length"].measured, found["critical/length"].tolerance) == (0, 0)
    assert math.isnan(found["critical/summed rate"].measured)
    assert found["critical/summed rate"].verdict == "inconclusive"
    assert {c.verdict for name, c in found.items() if name.startswith("toy")} == {"agrees"}
    assert {c.verdict for name, c in found.items() if name.startswith("late/length ")} == {"contradicts"}


def test_a_twin_that_does_the_same_takes_the_verdicts_away():
    altered = planted()
    for case in altered["cases"].values():
        case["curves"][TWIN] = deepcopy(case["curves"][SVFORMER])
        case["positions"][TWIN] = deepcopy(case["positions"][SVFORMER])
    found = judged(altered)
    for name in ("late/length", "late/rate", "critical/length", "critical/rate", "common/length", "late/warmup"):
        assert found[name].verdict == "inconclusive", name


def test_a_training_that_diverged_is_no_number():
    altered = planted()
    case = altered["cases"][CONFIG.reference.key]
    case["curves"][SVFORMER][1] = None
    case["positions"][SVFORMER][1] = None
    found = judged(altered)
    for name in ("late/length", "late/rate", "common/length"):
        assert found[name].verdict == "inconclusive", name
    assert found["critical/length"].measured == 10  # two of the seed's three pairs are not known
    json.dumps([check.to_json() for check in found.values()], allow_nan=False)


def test_the_summed_rate_is_held_against_steps():
    """Planted at one sum whatever the peak it agrees; planted at one step it does not."""
    recipes = [Recipe(**{**r, "betas": tuple(r["betas"])}) for r in PREDICTION["axes"]["rate"]["recipes"]]
    goal = cumulated(recipes[0], 300)

    def measured(step_of):
        altered = planted()
        for key, recipe in zip(PREDICTION["axes"]["rate"]["cases"], recipes, strict=True):
            at = step_of(recipe)
            altered["cases"][key] = case_of(lambda t, seed, at=at: 1e-3 * (t - at - 0.1 * seed), seeds=4)
        return altered

    summed = measured(lambda recipe: next(t for t in range(401) if cumulated(recipe, t) >= goal))
    assert judged(summed)["critical/summed rate"].verdict == "agrees"
    assert octaves_of_sum(PREDICTION, summed) == pytest.approx([0] * 4, abs=0.05)
    steps = measured(lambda recipe: 150)
    assert judged(steps)["critical/summed rate"].verdict == "contradicts"
    assert octaves_of_sum(PREDICTION, steps) == pytest.approx([2] * 4)


def test_depth_is_similar_or_not():
    """Judged where there is more than one depth, against the length's effect."""
    config = replace(CONFIG, layers=(3, 6))
    prediction = EXPERIMENT.predict(config)
    shallow = Case(8, 0.01, 0.12, 3).key
    altered = planted()
    verdict = {}
    for words, offset in (("same", 0.0), ("other", 0.1)):
        altered["cases"][shallow] = case_of(lambda t, s, x=offset: 2e-4 * (t - 200 - 5 * (s % 2)) - x, seeds=4)
        for key in prediction["axes"]["length"]["cases"]:
            for seed, curve in enumerate(altered["cases"][key]["curves"][SVFORMER]):
                step = 0.2 * math.log2(int(key.split(",")[0].split()[1]))
                altered["cases"][key]["curves"][SVFORMER][seed] = [x - step * (words == "same") for x in curve]
        reference = altered["cases"][CONFIG.reference.key]["curves"][SVFORMER]
        if words == "same":
            altered["cases"][shallow]["curves"][SVFORMER] = deepcopy(reference)
        verdict[words] = judged(altered, prediction)["late/layers"].verdict
    assert verdict == {"same": "agrees", "other": "contradicts"}


def test_it_runs_from_training_to_figure(tmp_path, monkeypatch):
    """Two lengths, a few steps each, in this process; a second run trains nothing again."""
    smoke = PROFILES["smoke"]
    recipe = replace(smoke.config.recipe, steps=6, log_every=1)
    tiny = replace(smoke.config, recipe=recipe, rates=(0.01,), warmups=(0.12,), window=2, tokens=16, held_out_tokens=16)
    monkeypatch.setitem(PROFILES, "smoke", replace(smoke, config=tiny))
    job = prepare(catalogue.experiment(NAME), "smoke", None, tmp_path, Slot(jobs=1))
    execute(job)
    measurement = job.run.read("measurement.json")
    assert set(measurement["cases"]) == {case.key for case in tiny.cases}
    case = measurement["cases"][tiny.reference.key]
    assert case["steps"] == [1, 2, 3, 4, 5, 6]
    assert set(case["curves"]) == set(ARMS)
    assert case["curves"][BASELINE] != case["curves"][SVFORMER] != case["curves"][TWIN]
    assert case["parameters"][BASELINE] - case["parameters"][SVFORMER] == 16 * 16  # one layer's values
    assert case["positions"][SVFORMER][0]["first"] == [1, 2, 4, 8]
    assert (job.run / "figure.png").exists()
    lines = job.run.metrics()
    assert len(lines) == len(tiny.cases) * len(ARMS) * 2
    execute(job)
    assert job.run.metrics() == lines
    first = [c.to_json() for c in EXPERIMENT.compare(job.run.read("prediction.json"), measurement)]
    altered = deepcopy(measurement)
    for changed in altered["cases"].values():
        changed["curves"][SVFORMER] = [[x - 1 for x in curve] for curve in changed["curves"][SVFORMER]]
    assert first != [c.to_json() for c in EXPERIMENT.compare(job.run.read("prediction.json"), altered)]


def test_the_figure_draws_what_is_planted():
    fig = EXPERIMENT.draw(PREDICTION, planted())
    curves, rates, points, finals = fig.axes
    assert {line.get_label() for line in curves.lines} >= {"T = 4", "T = 8", "T = 16"}
    assert {line.get_label() for line in rates.lines} >= {"peak rate 0.005", "peak rate 0.01", "peak rate 0.02"}
    lines = {line.get_label(): line for line in points.lines}
    assert lines["context length, 4, 8, 16"].get_ydata() == pytest.approx([150, 200, 250])
    assert lines["rate, 0.005, 0.01, 0.02"].get_ydata() == pytest.approx([250, 200, 150])
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in (curves, rates, points, finals))
    gone = planted()
    for case in gone["cases"].values():
        case["curves"][SVFORMER] = [None] * 4
        case["positions"][SVFORMER] = [None] * 4
    EXPERIMENT.draw(PREDICTION, gone).canvas.draw()
