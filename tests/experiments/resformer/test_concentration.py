"""`resformer-concentration`: a smoke run, its probe on models that are known, and verdicts that turn."""

import json
from copy import deepcopy

import numpy as np
import pytest

from experiments import catalogue
from experiments.cli import main
from experiments.resformer.concentration.points import SAID, STATISTICS, lengths, said_of, together
from experiments.resformer.concentration.probe import NAME as PROBE
from experiments.resformer.concentration.probe import probe
from experiments.store.folders import RunFolder
from experiments.training import probes
from icl.training.objectives import Batch
from tests.icl.probes.models import CONTEXT, tokens, uniform
from theory.resformer import measures

NAME = "resformer-concentration"
EXPERIMENT = catalogue.experiment(NAME)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(exit status, folder) of one smoke run."""
    out = tmp_path_factory.mktemp(NAME)
    status = main(["run", NAME, "--profile", "smoke", "--jobs", "1", "--out", str(out)])
    (folder,) = (out / NAME).iterdir()
    return status, RunFolder(folder)


def results(run):
    return run[1].read("prediction.json"), run[1].read("measurement.json")


def test_it_predicts_before_it_trains_and_draws(run):
    status, folder = run
    assert status == 0
    assert (folder / "prediction.json").stat().st_mtime <= (folder / "metrics.jsonl").stat().st_mtime
    assert (folder / "figure.png").stat().st_size > 10_000
    checks = folder.read("summary.json")["checks"]
    assert [c["verdict"] for c in checks if c["id"].startswith("start/")] == ["pass"] * 6
    assert {c["verdict"] for c in checks if not c["id"].startswith("start/")} == {"undecided"}


def test_what_is_predicted_is_what_uniform_attention_has():
    config = EXPERIMENT.profiles["smoke"].config
    said = EXPERIMENT.predict(config)
    for length in lengths(config.architecture.context):
        attention = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
        shares = attention.mean(axis=0)
        assert said["uniform_entropy"][str(length)] == pytest.approx(-(shares * np.log(shares)).sum())
    assert said["uniform_by_position"] == pytest.approx(shares)
    assert said["uniform_first"] == pytest.approx(shares[0])
    assert said["total_drain_seen"] == pytest.approx(0.5**0.5)
    assert set(said["signs"]) == {s.key for s in SAID}
    assert {s.key for s in said_of(EXPERIMENT.profiles["cpu"].config.arms)} < set(said["signs"])


class Held:
    """A task with held-out text."""

    tokens = CONTEXT

    def held_out(self):
        for seed in range(20):
            text = tokens(batch=8, seed=seed)
            yield Batch(text, text)


def test_the_probe_finds_what_is_known_of_uniform_attention_and_is_found_by_name():
    assert probes.probe(PROBE) is probe
    model = uniform(layers=3).train()
    told = probe(model, Held(), "cpu")
    assert model.training
    json.dumps(told, allow_nan=False)
    shares = measures.uniform_causal_importance(CONTEXT)
    assert told["first"] == pytest.approx([shares[0]] * 3)
    assert told["by_position"][1] == pytest.approx(shares)
    for length, entropies in told["entropy"].items():
        known = measures.entropy(measures.uniform_causal_importance(int(length)))
        assert entropies == pytest.approx([known] * 3)
    assert told["own_first"] == told["value_first"]  # vanilla's
    assert len(told["similarity"]) == len(told["state_first"]) == 4


def changed(measurement, arm, stage="end", **values):
    """With an arm's numbers by layer multiplied, a little differently from seed to seed."""
    for i, seed in enumerate(measurement["probed"][stage][arm]):
        for name, factor in values.items():
            spread = factor * (1 + 0.001 * i)
            if name == "entropy":
                seed[name] = {at: [spread * x for x in by_layer] for at, by_layer in seed[name].items()}
            else:
                seed[name] = [spread * x for x in seed[name]]


def verdict(run, name, change=lambda _: None):
    prediction, measurement = results(run)
    measurement = deepcopy(measurement)
    for stage in measurement["probed"].values():  # all arms alike: then nothing but the change is seen
        for arm in stage:
            stage[arm] = deepcopy(stage["vanilla"])
    change(measurement)
    (found,) = (c for c in EXPERIMENT.compare(prediction, measurement) if c.id == name)
    return found.verdict


@pytest.mark.parametrize(("name", "field"), [("start/entropy/resformer", "entropy"), ("start/first/neutreno", "first")])
def test_what_is_not_uniform_before_training_fails(run, name, field):
    arm = name.split("/")[-1]
    assert verdict(run, name) == "pass"
    assert verdict(run, name, lambda m: changed(m, arm, "start", **{field: 1.05})) == "fail"


FIELDS = {
    "entropy": "entropy",
    "sink": "first",
    "drain": "value_first",
    "own drain": "own_first",
    "peak": "state_first",
}


@pytest.mark.parametrize("said", [s for s in SAID if s.less and s.statistic in FIELDS], ids=lambda s: s.key)
def test_what_is_said_of_two_arms_turns_with_them(run, said):
    field = FIELDS[said.statistic]

    def by(factor, arm="resformer"):
        return lambda m: changed(m, arm, **{field: factor**said.sign})

    def both(m):
        for arm in ("resformer", "twin"):
            by(1.5, arm)(m)

    assert verdict(run, said.key, by(1.5)) == "agrees"
    assert verdict(run, said.key, by(1 / 1.5)) == "contradicts"
    assert verdict(run, said.key) == "inconclusive"
    assert verdict(run, said.key, both) == "inconclusive"  # two models without a difference differ as much


def test_a_sink_in_vanilla_is_seen(run):
    assert (
        verdict(run, "sink/vanilla", lambda m: changed(m, "vanilla", first=1.5)) == "inconclusive"
    )  # so does its twin

    def all_arms(factor):
        def change(m):
            for arm in m["probed"]["end"]:
                changed(m, arm, first=factor)

        return change

    assert verdict(run, "sink/vanilla", all_arms(1.5)) == "agrees"
    assert verdict(run, "sink/vanilla", all_arms(0.5)) == "contradicts"


def test_nothing_is_expected_where_a_training_diverged(run):
    prediction, measurement = results(run)
    measurement["probed"]["end"]["resformer"][0] = None
    assert {c.id.split("/")[0] for c in EXPERIMENT.compare(prediction, measurement)} == {"start"}
    EXPERIMENT.draw(prediction, measurement)


def test_statistics_by_hand():
    prediction = {"lengths": [2, 8], "uniform_entropy": {"2": 0.5, "8": 2.0}, "uniform_first": 0.25}
    told = {
        "entropy": {"2": [0.5, 0.4, 0.2], "8": [1.9, 1.5, 1.0]},
        "first": [0.1, 0.5, 0.5],
        "value_first": [9.0, 0.5, 2.0],
        "own_first": [9.0, 0.25, 1.0],
        "state_first": [9.0, 1.0, 4.0, 1.0],
        "similarity": [0.0, 0.1, 0.2, 0.6],
    }
    found = {name: statistic.of(told, prediction) for name, statistic in STATISTICS.items()}
    assert found == pytest.approx(
        {
            "entropy": -0.75,
            "depth": -0.9,
            "lengths": (0.3 - 0.5) - (1.25 - 2.0),
            "sink": np.log(2),
            "drain": 0,
            "own drain": -np.log(2),
            "peak": np.log(4) / 3,
            "similarity": 0.3,
        }
    )
    assert together(told, prediction) == pytest.approx(np.corrcoef([1.9, 1.5, 1.0], [0.1, 0.2, 0.6])[0, 1])
