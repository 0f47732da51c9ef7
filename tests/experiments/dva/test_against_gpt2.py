"""`dva-against-gpt2`: sizes to the unit, matched models, parts that add up, and verdicts that follow the losses."""

import json
from dataclasses import replace

import pytest

from experiments.drawing import style
from experiments.dva.against_gpt2.experiment import EXPERIMENT
from experiments.dva.against_gpt2.factors import (
    BARE,
    CELLS,
    DYNAMIC,
    FACTORS,
    HEAD,
    MODEL_B,
    UNPROJECTED,
    earliest,
    latest,
    named,
    orders,
    parts,
    with_dynamic_values,
)
from experiments.dva.against_gpt2.points import (
    A_AT_B_S,
    B_AT_A_S,
    FLOPS,
    GATE,
    MANY_DYNAMIC,
    MATCHED,
    ONE_ORDINARY,
    SHALLOW,
    THIN,
    WORDS,
    cost,
)
from experiments.dva.against_gpt2.profiles import PROFILES
from experiments.dva.against_gpt2.verdicts import differences, of_trainings, roughness, what_adds
from experiments.dva.heads.experiment import EXPERIMENT as HEADS
from experiments.dva.tables import PARAMETERS
from experiments.experiment import execution
from experiments.store.folders import RunFolder
from experiments.training import campaign, tuning
from experiments.training import text as text_data
from experiments.training.arms import TextSource
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.text import Text
from theory.plans.accounting import total_parameters
from theory.plans.names import resolve

CPU, GPU = PROFILES["cpu"].config, PROFILES["gpu"].config
SEEDS = 4
GAINS = {HEAD: -0.05, BARE: -0.3, UNPROJECTED: 0.15, DYNAMIC: 0.4}


def test_the_paper_s_sizes_to_the_unit():
    models = GPU.models(50_257)
    assert total_parameters(*models[BASELINE]) == PARAMETERS["a"]
    assert total_parameters(*models[MODEL_B]) == PARAMETERS["b"]
    sizes, plan = models[MODEL_B]
    assert (sizes.n_heads, plan) == (1, resolve("dva", sizes.shape))
    assert models[GATE][1] == resolve("dva-gate", sizes.shape)


@pytest.mark.parametrize("config", [CPU, GPU, PROFILES["smoke"].config])
def test_matched_models_are_as_near_as_whole_widths_allow(config):
    models = config.models(config.vocab)
    target = total_parameters(*models[MODEL_B])
    for name in MATCHED:
        sizes, plan = models[name]
        count = (lambda *model: cost(*model)) if name == FLOPS else total_parameters
        wanted = cost(*models[MODEL_B]) if name == FLOPS else target
        off = abs(count(sizes, plan) - wanted)
        for inner in (sizes.d_ff - 1, sizes.d_ff + 1):
            assert abs(count(replace(sizes, d_ff=max(inner, 1)), plan) - wanted) >= off
        assert plan == resolve("vanilla", sizes.shape)
    assert models[SHALLOW][0].n_layers < models[BASELINE][0].n_layers == models[THIN][0].n_layers


def test_models_differ_by_one_factor_at_a_time():
    ways = orders()
    assert len(ways) == 12
    assert {step.before for way in ways for step in way} | {MODEL_B} == CELLS.keys()
    for way in ways:
        assert [step.factor for step in way].index(BARE) < [step.factor for step in way].index(UNPROJECTED)
        for step in way:
            assert CELLS[step.after] - CELLS[step.before] == {step.factor}
    first = {way[0] for way in ways} | {earliest(UNPROJECTED)}
    last = {way[-1] for way in ways} | {latest(BARE)}
    assert {earliest(factor) for factor in FACTORS} == first
    assert {latest(factor) for factor in FACTORS} == last


def test_parts_add_up_and_of_effects_that_add_each_gets_its_own():
    losses = {name: 3 - sum(GAINS[factor] for factor in cell) for name, cell in CELLS.items()}
    for factor, weights in parts().items():
        assert sum(weights.values()) == pytest.approx(0)
        for some in (weights, earliest(factor).weights(), latest(factor).weights()):
            assert sum(w * losses[name] for name, w in some.items()) == pytest.approx(-GAINS[factor])
    joint = {name: float(len(cell) == 4) for name, cell in CELLS.items()}  # only all together change anything
    shares = {factor: sum(w * joint[name] for name, w in weights.items()) for factor, weights in parts().items()}
    assert shares[BARE] == 0  # it never comes last
    assert sum(shares.values()) == pytest.approx(1)
    assert shares[UNPROJECTED] == pytest.approx(2 * shares[HEAD]) == pytest.approx(2 * shares[DYNAMIC])
    assert sum(w * losses[name] for name, w in with_dynamic_values().items()) == pytest.approx(0)
    helped = {name: float({BARE, DYNAMIC} <= cell) for name, cell in CELLS.items()}
    assert sum(w * helped[name] for name, w in with_dynamic_values().items()) == pytest.approx(1)


def measured(gains, spread=1e-4, *, diverged=False):
    """Losses of models that gain so much on model a's, with noise of seeds, and curves to match."""
    noise = {name: [spread * ((7 * i + 3 * k) % 5 - 2) for i in range(SEEDS)] for k, name in enumerate(WORDS)}
    loss = {name: [3 - gains.get(name, 0.0) + 0.05 * i + noise[name][i] for i in range(SEEDS)] for name in WORDS}
    if diverged:
        loss[GATE][0] = None

    def curve(name, i, rough):
        training = [[8 * s, 4 - 0.01 * s + rough * (-1) ** s * (1 + 0.1 * i)] for s in range(1, 41)]
        return {"training": training, "held_out": [[8 * s, loss[name][i] + 1 / s] for s in (1, 16, 20, 40)]}

    rough = {BASELINE: 0.1, TWIN: 0.1, MODEL_B: 0.05, B_AT_A_S: 0.05, A_AT_B_S: 0.1}
    risen = {"training": [[1, 3.0], [2, 2.0]], "held_out": [[1, 4.0], [2, 3.0], [3, 3.4], [4, 3.4]]}

    def rising(i):
        return {**risen, "held_out": [*risen["held_out"], [5, 3.5 + 0.01 * i]]}

    return {
        "tuning": {"tuned": False},
        "loss": loss,
        "curves": {name: [curve(name, i, rough[name]) for i in range(SEEDS)] for name in rough},
        "start": {name: [6.2 + 0.01 * i for i in range(SEEDS)] for name in (BASELINE, MODEL_B)},
        "again": {name: [rising(i) for i in range(SEEDS)] for name in (BASELINE, MODEL_B)},
        "epochs": 5.0,
        "tokens_per_second": {
            name: [1000 * speed * (1 + 0.01 * i * (i + k)) for i in range(SEEDS)]
            for k, (name, speed) in enumerate({**dict.fromkeys(rough, 1), MODEL_B: 1.6}.items())
        },
        "parameters": dict.fromkeys(WORDS, 1000),
    }


WITH, WITHOUT = named(HEAD, DYNAMIC), named(HEAD, BARE, DYNAMIC)
AS_SAID = {
    MODEL_B: 0.3,
    HEAD: -0.2,
    MANY_DYNAMIC: 0.3,
    WITH: 0.3,
    WITHOUT: 0.3,
    ONE_ORDINARY: -0.3,
    BARE: -0.3,
    named(HEAD, BARE): -0.3,
    named(BARE, DYNAMIC): 0.3,
    B_AT_A_S: 0.3,
}


def verdicts(measurement):
    prediction = json.loads(json.dumps(EXPERIMENT.predict(CPU)))
    return {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}


def test_verdicts_follow_what_was_put_in():
    assert set(verdicts(measured(AS_SAID)).values()) == {"agrees"}
    turned = verdicts(measured({MODEL_B: -0.3, HEAD: 0.2, ONE_ORDINARY: 0.4, GATE: 0.1}))
    assert {turned[f"{MODEL_B}/{name}"] for name in (BASELINE, *MATCHED)} == {"contradicts"}
    assert turned[f"{HEAD}/{BASELINE}"] == turned[f"{GATE}/{MODEL_B}"] == "contradicts"
    many = MANY_DYNAMIC
    assert turned[f"{many}/{MODEL_B}"] == "inconclusive"  # where one ordinary head alone costs nothing, what would?
    assert verdicts(measured({**AS_SAID, many: 0.5}))[f"{many}/{MODEL_B}"] == "contradicts"
    assert verdicts(measured({**AS_SAID, WITH: 0.1}))[f"{WITH}/{WITHOUT}"] == "agrees"
    assert verdicts(measured({**AS_SAID, WITH: 0.5}))[f"{WITH}/{WITHOUT}"] == "contradicts"
    nothing = verdicts(measured({}))
    assert nothing[f"{MODEL_B}/{BASELINE}"] == nothing[f"{MANY_DYNAMIC}/{MODEL_B}"] == "inconclusive"
    assert verdicts(measured({**AS_SAID, TWIN: 0.3}))[f"{MODEL_B}/{BASELINE}"] == "inconclusive"


def test_what_diverged_decides_nothing_and_is_drawn():
    measurement = measured(AS_SAID, diverged=True)
    measurement["curves"][MODEL_B][0] = None
    assert verdicts(measurement)[f"{GATE}/{MODEL_B}"] == "inconclusive"
    assert verdicts(measurement)["training/roughness at model b's rate"] == "inconclusive"
    with style.drawing():
        assert len(EXPERIMENT.draw(EXPERIMENT.predict(CPU), measurement).axes) == 4


def test_what_is_told_of_trainings():
    straight = [[s, 4 - 0.1 * s] for s in range(20)]
    assert roughness(straight) == pytest.approx(0, abs=1e-12)
    assert roughness([[s, (-1) ** s] for s in range(41)]) == pytest.approx(4)
    told = of_trainings(measured(AS_SAID), MODEL_B)
    assert told["held out"] == pytest.approx([-0.3] * SEEDS, abs=1e-3)
    assert max(told["roughness"]) < -0.5
    assert max(told["time"]) < 0
    found = measured(AS_SAID)
    assert sum(x.mean.mean for x in what_adds(found).values()) == pytest.approx(
        differences(found)[MODEL_B, BASELINE].mean
    )


def test_every_model_is_trained_at_the_rate_that_was_best_for_it(monkeypatch, tmp_path):
    asked = []

    def train_all(arms, *_):
        asked.extend(arms)

        def record(arm):
            best = (8e-3 if arm.name in (MODEL_B, B_AT_A_S) else 4e-3) / (4 if arm.source.train_tokens else 1)
            loss = 3 + (arm.recipe.learning_rate != best)
            curve = [[arm.recipe.steps, loss]]
            about = {"parameters": 1, "diverged": None, "seconds": 1.0, "tokens_per_second": 1.0, "epochs": 5.0}
            asked_first = {"probes": {name: {"start": {"loss": 6.2}} for name in arm.probes}}
            return {**about, **asked_first, "loss": loss, "curve": curve, "evaluations": curve}

        return {arm: record(arm) for arm in arms}

    for asks in (campaign, tuning):
        monkeypatch.setattr(asks, "train_all", train_all)
    monkeypatch.setattr(text_data, "text", lambda *_: Text(TextSource("anywhere", "digest"), "some", 512, 10**9))
    found = EXPERIMENT.measure(CPU, 2, RunFolder(tmp_path))
    elsewhere = {B_AT_A_S: 4, A_AT_B_S: 4}
    assert found["loss"] == {name: [elsewhere.get(name, 3)] * 2 for name in WORDS}
    assert found["start"] == {name: [6.2, 6.2] for name in (BASELINE, MODEL_B)}
    again = [arm for arm in asked if arm.source.train_tokens and arm.seed < 2]
    assert {arm.recipe.steps * arm.recipe.batch * arm.architecture.context for arm in again} == {5 * CPU.epochs.tokens}
    assert {arm.name: arm.recipe.learning_rate for arm in again} == {MODEL_B: 2e-3, BASELINE: 1e-3}
    assert {arm.twin for arm in asked if arm.name.startswith(TWIN)} == {True}


def test_the_table_has_a_row_a_factor_and_their_sum():
    rows = EXPERIMENT.table(measured({MODEL_B: 0.3, BARE: 0.1})).splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:]] == [*FACTORS.values(), "together"]
    assert {row.count("|") for row in rows} == {5}
    assert "-0.300 ±" in rows[-1]
    assert "-0.100 ±" in rows[2 + list(FACTORS).index(BARE)].split("|")[3]


def test_compare_has_the_table_of_a_run_that_fits():
    found = measured(AS_SAID)
    assert execution.table(EXPERIMENT, found) == EXPERIMENT.table(found)
    assert execution.table(HEADS, found) is None
    assert execution.table(EXPERIMENT, {"loss": {BASELINE: [1.0, 2.0]}}) is None  # as another version of it would leave
