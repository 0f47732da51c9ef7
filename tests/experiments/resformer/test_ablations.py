"""`resformer-ablations`: arms that differ as the figures say, predictions before training, verdicts that turn."""

import copy
import json
from pathlib import Path

import pytest
import torch

from experiments import catalogue
from experiments.cli import main
from experiments.resformer.ablations.points import (
    ALL_KEYS,
    ANCHORS,
    IN_THE_TOY,
    KEYS,
    LEARNED,
    ONE,
    PREVIOUS,
    PROBED,
    QUERIES,
    RESFORMER,
    SHOWN,
    SPARSE,
    SVFORMER,
    TWO,
    arms,
    by_the_paper,
    by_the_toy,
    toy_shares,
)
from experiments.resformer.ablations.probe import NAME as PROBE
from experiments.resformer.ablations.probe import probe
from experiments.resformer.ablations.verdicts import differences
from experiments.store.folders import RunFolder
from experiments.training import probes
from experiments.training.campaign import BASELINE, TWIN
from icl.models.decoder import Decoder
from icl.training.objectives import Batch
from tests.experiments.cli.answers import outcome
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.presets import llama

EXPERIMENT = catalogue.experiment("resformer-ablations")
SMALL = llama(d_model=8, n_heads=4, n_layers=4, d_ff=12, vocab=32, context=8, n_kv_heads=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run at `smoke`."""
    out = tmp_path_factory.mktemp("ablations")
    assert main(["run", EXPERIMENT.name, "--profile", "smoke", "--jobs", "1", "--out", str(out)]) == 0
    (folder,) = (out / EXPERIMENT.name).glob("smoke-*")
    return RunFolder(folder)


def test_predictions_stand_before_anything_is_trained(run):
    assert (run / "prediction.json").stat().st_mtime <= (run / "metrics.jsonl").stat().st_mtime
    prediction = run.read("prediction.json")
    assert prediction == json.loads(json.dumps(EXPERIMENT.predict(EXPERIMENT.profiles["smoke"].config)))
    assert {"rule", "statistic", "source", "tuning"} <= set(prediction)


def test_a_run_trains_every_arm_and_decides_nothing(run):
    measurement, summary = run.read("measurement.json"), run.read("summary.json")
    assert set(measurement["loss"]) == {*arms(3), TWIN}
    assert all(len(losses) == 2 for losses in measurement["loss"].values())
    assert set(measurement["values"]) == set(PROBED)
    assert {check["verdict"] for check in summary["checks"]} == {"undecided"}
    assert (run / "figure.png").stat().st_size > 10_000


def test_arms_are_paired_and_the_twin_alone_starts_elsewhere(run):
    records = [line["arm"] for line in run.metrics() if line["kind"] == "run" and line["seed"] == 0]
    assert [record["variant"] for record in records if record["twin"]] == [BASELINE]
    assert (
        len({json.dumps({k: v for k, v in r.items() if k in ("recipe", "source", "architecture")}) for r in records})
        == 1
    )
    assert len(records) == len(arms(3)) + 1


@pytest.mark.parametrize("layers", [3, 4, 5, 8, 12])
def test_arms_differ_at_every_depth_that_is_used(layers):
    """And each in the maps that its question is about."""
    plans = {name: resolve(variant, Shape(layers, 2)) for name, variant in arms(layers).items()}
    assert len(set(plans.values())) == len(plans)
    vanilla = plans[BASELINE]
    for name, changed in ((QUERIES, "query"), (KEYS, "keys"), (RESFORMER, "values"), (ANCHORS, "values")):
        heads = [(plans[name].head(n, 1), vanilla.head(n, 1)) for n in range(1, layers + 1)]
        differ = {
            part
            for a, b in heads
            for part in ("query", "keys", "values", "beside")
            if getattr(a, part) != getattr(b, part)
        }
        assert differ == {changed}
    anchors = {plans[ANCHORS].head(n, 1).values[0].terms[0].source.layer for n in range(1, layers + 1)}
    assert len(anchors) == 2


@pytest.mark.parametrize("profile", EXPERIMENT.profiles)
def test_every_pair_is_of_arms_and_is_told_once(profile):
    prediction = EXPERIMENT.predict(EXPERIMENT.profiles[profile].config)
    names = {*arms(EXPERIMENT.profiles[profile].config.architecture.n_layers), TWIN}
    pairs = [(pair["by"], pair["arm"], pair["against"]) for pair in prediction["compared"]]
    assert len(set(pairs)) == len(pairs)
    assert {name for _, *pair in pairs for name in pair} | {name for pair in SHOWN for name in pair} <= names
    assert {pair["claim"] for pair in prediction["compared"]} == set(EXPERIMENT.claims)


def test_the_paper_s_signs():
    """Figs. 6, 7, 9, 14, 16 and 17, and Table 5; of learned and sparse weights it says nothing."""
    said = {(pair.arm, pair.against): pair.sign for pair in by_the_paper(8)}
    assert said[RESFORMER, BASELINE] == said[TWO, ONE] == said[ONE, BASELINE] == said[ANCHORS, SVFORMER] == -1
    assert said[QUERIES, BASELINE] == said[KEYS, BASELINE] == said[PREVIOUS, RESFORMER] == said[SVFORMER, BASELINE] == 1
    assert len(said) == 12
    assert not {LEARNED, SPARSE} & {name for pair in said for name in pair}


def test_the_toy_s_signs():
    """Only values give the path that is not compressed; what ties is not predicted."""
    shares = toy_shares(SMALL)
    assert shares[QUERIES] == shares[BASELINE] < shares[KEYS] < shares[RESFORMER] == shares[SVFORMER] == 1
    assert shares[ALL_KEYS] < shares[BASELINE]
    said = {(pair.arm, pair.against): pair.sign for pair in by_the_toy(shares)}
    assert set(said) == set(IN_THE_TOY)
    assert {pair for pair, sign in said.items() if sign > 0} == {(ALL_KEYS, BASELINE)}
    tied = by_the_toy(shares | {RESFORMER: shares[QUERIES]})
    assert (RESFORMER, QUERIES) not in {(pair.arm, pair.against) for pair in tied}


class Held:
    """A task with one batch of held-out text."""

    def held_out(self):
        text = torch.randint(0, 32, (3, 8), generator=torch.Generator().manual_seed(2))
        yield Batch(text, text)


def told(variant, change=lambda model: None):
    model = Decoder(SMALL, resolve(variant, SMALL.shape), seed=3, std=0.5).double()
    change(model)
    found = probe(model.train(), Held(), "cpu")
    assert model.training
    return found


def test_the_probe_tells_weights_and_shares():
    assert probes.probe(PROBE) is probe
    half, twice = told(RESFORMER), told(arms(4)[TWO])
    assert half["layer"] == [2, 3, 4]
    assert half["own"] == half["first"] == [0.5] * 3
    assert twice["first"] == [2.0] * 3
    first, second = half["share"][0], twice["share"][0]
    assert second / (1 - second) == pytest.approx(2 * first / (1 - first))  # of layer 2: both have the same stream
    assert told(BASELINE)["share"] == [0.0] * 3
    assert told(SVFORMER)["share"] == [1.0] * 3

    def learn(model):
        with torch.no_grad():
            model.learned["w_first_3"].fill_(-1.5)

    learned = told(LEARNED, learn)
    assert learned["first"] == [0.5, -1.5, 0.5]
    assert learned["share"][1] > told(LEARNED)["share"][1]


def test_shares_do_not_depend_on_how_weights_are_written():
    """One function, once with halves and once with lambda = 2: W_V is doubled and W_O a quarter from layer 2 on."""
    given = Decoder(SMALL, resolve(RESFORMER, SMALL.shape), seed=3, std=0.5).double().state_dict()
    text = next(Held().held_out()).inputs
    logits = []

    def rewrite(model, values=2.0, outputs=0.25):
        weights = {name: tensor.clone() for name, tensor in given.items()}
        for n in range(1, 4):
            weights[f"layers.{n}.attention.projections.value.weight"] *= values
            weights[f"layers.{n}.attention.output.weight"] *= outputs
        model.load_state_dict(weights)
        logits.append(model(text).detach())

    halves = told(RESFORMER, lambda model: rewrite(model, 1.0, 1.0))["share"]
    assert told(arms(4)[TWO], rewrite)["share"] == pytest.approx(halves, rel=1e-10)
    assert torch.allclose(*logits, rtol=0, atol=1e-10)
    assert told(arms(4)[TWO])["share"] != pytest.approx(halves, rel=1e-2)


def made(run, **shifts):
    """The prediction, and a measurement in which each arm's loss is shifted from one that is alike for all."""
    noise = {name: (1e-4 * (i % 3), -1e-4 * (i % 2)) for i, name in enumerate((*arms(3), TWIN))}
    measurement = copy.deepcopy(run.read("measurement.json"))
    measurement["loss"] = {name: [4 + e + shifts.get(name, 0.0) for e in pair] for name, pair in noise.items()}
    return run.read("prediction.json"), measurement


def verdicts(prediction, measurement):
    return {check.id: check.verdict for check in EXPERIMENT.compare(prediction, measurement)}


def test_verdicts_follow_the_losses(run):
    lower, higher = verdicts(*made(run, resformer=-0.1)), verdicts(*made(run, resformer=0.1))
    for pair in (f"paper/{RESFORMER}/{BASELINE}", f"toy/{RESFORMER}/{QUERIES}", f"paper/{PREVIOUS}/{RESFORMER}"):
        assert (lower[pair], higher[pair]) == ("agrees", "contradicts")
    assert lower[f"paper/{QUERIES}/{BASELINE}"] == "inconclusive"


def test_the_twin_is_the_control(run):
    """Where vanilla differs from itself as the prediction says, or the other way round, nothing is decided."""
    for shift in (0.1, -0.1):
        found = verdicts(*made(run, **{RESFORMER: -0.1, TWIN: shift}))
        assert set(found.values()) == {"inconclusive"}


def test_a_pair_whose_rates_differ_says_so(run):
    prediction, measurement = made(run)
    measurement["tuning"] = {"tuned": True, "losses": {}, "best": dict.fromkeys(arms(3), 0.004) | {RESFORMER: 0.008}}
    groups = {check.id: check.group for check in EXPERIMENT.compare(prediction, measurement)}
    said = {name for name, group in groups.items() if "(rates 0.00" in group}
    assert said == {name for name in groups if RESFORMER in name.split("/")}


def test_intervals_hold_for_all_pairs_at_once(run):
    prediction, measurement = made(run)
    wide = differences(prediction, measurement)
    narrow = differences({"compared": []}, measurement)
    assert set(narrow) == set(SHOWN)
    assert wide[TWIN, BASELINE].half_width > narrow[TWIN, BASELINE].half_width
    assert wide[TWIN, BASELINE].stderr == narrow[TWIN, BASELINE].stderr


def test_a_training_that_diverged_decides_nothing_and_is_drawn(run):
    prediction, measurement = made(run, resformer=-0.1)
    measurement["loss"][RESFORMER][0] = None
    measurement["values"][RESFORMER][0] = None
    assert verdicts(prediction, measurement)[f"paper/{RESFORMER}/{BASELINE}"] == "inconclusive"
    figure = EXPERIMENT.draw(prediction, measurement)
    assert len(figure.axes) == 4
    assert all(axis.get_xlabel() for axis in figure.axes)


@pytest.mark.parametrize("wrong", ["--data {}/none", "--variant skipv1", "--seeds 0"])
def test_what_cannot_be_run_is_said_in_one_line(wrong, tmp_path):
    status, _, errors = outcome(["run", EXPERIMENT.name, "--out", str(tmp_path), *wrong.format(tmp_path).split()])
    assert status == 2
    assert len(errors.strip().splitlines()) == 1


RESULTS = Path(__file__).resolve().parents[3] / "results" / EXPERIMENT.name


def test_the_committed_result_was_tuned_and_complete():
    measurement = json.loads((RESULTS / "measurement.json").read_text())
    assert measurement["tuning"]["tuned"]
    assert set(measurement["tuning"]["best"]) == set(arms(5))
    assert not measurement["diverged"]
