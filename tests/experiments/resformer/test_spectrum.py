"""`resformer-spectrum`: a smoke run, its probe against plain sums, and verdicts that turn with what they judge."""

import json
from copy import deepcopy

import numpy as np
import pytest

from experiments import catalogue
from experiments.cli import main
from experiments.resformer.spectrum.points import DIFFERENT, SAID, STATISTICS, TEXT
from experiments.resformer.spectrum.probe import NAME as PROBE
from experiments.resformer.spectrum.probe import probe
from experiments.store.folders import RunFolder
from experiments.training import probes
from icl.probes.recording import observed
from icl.training.objectives import Batch
from tests.icl.probes.models import CONTEXT, config_of, model_of, tokens
from theory.resformer import measures

NAME = "resformer-spectrum"
EXPERIMENT = catalogue.experiment(NAME)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(exit status, folder) of one smoke run."""
    out = tmp_path_factory.mktemp(NAME)
    status = main(["run", NAME, "--profile", "smoke", "--jobs", "1", "--out", str(out)])
    (folder,) = (out / NAME).iterdir()
    return status, RunFolder(folder)


def test_it_predicts_before_it_trains_and_draws(run):
    status, folder = run
    assert status == 0
    assert (folder / "prediction.json").stat().st_mtime <= (folder / "metrics.jsonl").stat().st_mtime
    assert (folder / "figure.png").stat().st_size > 10_000
    checks = folder.read("summary.json")["checks"]
    assert {c["verdict"] for c in checks if c["id"].startswith("start/")} <= {"pass", "inconclusive"}
    assert {c["verdict"] for c in checks if not c["id"].startswith("start/")} == {"undecided"}


def test_predicted_sums_are_those_of_a_plain_simulation():
    """Weights and tokens drawn anew, at the sizes of the smoke profile."""
    architecture = EXPERIMENT.profiles["smoke"].config.architecture
    said = EXPERIMENT.predict(EXPERIMENT.profiles["smoke"].config)
    rng, (d, length) = np.random.default_rng(0), (architecture.d_model, architecture.context)
    embedded = 0.02 * rng.standard_normal((4000, length, d))
    x = embedded / np.sqrt((embedded**2).mean(-1, keepdims=True) + architecture.norm_eps)
    own, first = (x @ (0.02 * rng.standard_normal((4000, d, d))).swapaxes(1, 2) for _ in range(2))
    for arm, v in (("vanilla", own), ("resformer", (own + first) / 2)):
        assert said["sum"][arm][-1] == pytest.approx((v**2).sum(axis=(1, 2)).mean() / length, rel=0.02)
    squares = ((own.swapaxes(1, 2) @ own / length) ** 2).sum(axis=(1, 2))
    assert said["square_sum"] == pytest.approx(squares.mean(), rel=0.03)
    assert said["sum"]["resformer"][0] == said["sum"]["vanilla"][0]
    assert sum(said["eigenvalues"]) == pytest.approx(said["sum"]["vanilla"][0], rel=0.02)


class Held:
    """A task with held-out text."""

    tokens = CONTEXT

    def held_out(self):
        for seed in range(2):
            text = tokens(batch=3, seed=seed)
            yield Batch(text, text)


def test_the_probe_is_what_plain_sums_say_and_is_found_by_name():
    assert probes.probe(PROBE) is probe
    model = model_of(config_of(layers=3), "resformer").train()
    told = probe(model, Held(), "cpu")
    assert model.training
    json.dumps(told, allow_nan=False)
    batches = list(Held().held_out())
    layers = [observed(model, b.inputs, attention=lambda at: (at.values[0], at.own_values)).attention for b in batches]
    for layer in (1, 2, 3):
        for name, which in (("participation", 0), ("own_participation", 1)):
            found = []
            for each in layers:
                for v in each[layer][which].transpose(1, 2).flatten(2).numpy():
                    eigenvalues = measures.value_spectrum(v)
                    found.append(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())
            assert told[TEXT][name][layer - 1] == pytest.approx(np.mean(found), rel=1e-9)
    assert told[TEXT]["sum"][0] == pytest.approx(sum(told[TEXT]["eigenvalues"]))
    assert told[TEXT]["largest"][0] == told[TEXT]["own"][0]  # of layer 1
    assert told[TEXT]["largest"][1] != told[TEXT]["own"][1]
    assert all(told[DIFFERENT][name] != told[TEXT][name] for name in ("sum", "largest"))


def judged(run, name, change=lambda _: None):
    """With all arms alike after training, and before it as predicted, but for a change."""
    prediction, measurement = (run[1].read(f"{what}.json") for what in ("prediction", "measurement"))
    measurement = deepcopy(measurement)
    probed = measurement["probed"]
    for arm in probed["end"]:
        probed["end"][arm] = deepcopy(probed["end"]["vanilla"])
    for arm, sums in prediction["sum"].items():
        for i, seed in enumerate(probed["start"][arm]):
            seed[DIFFERENT] |= {
                "sum": [total * (1 + 0.001 * i) for total in sums],
                "square_sum": [prediction["square_sum"] * (1 + 0.001 * i)] * len(sums),
                "largest": [prediction["largest"] * (1 + 0.001 * i)] * len(sums),
            }
    change(probed)
    (found,) = (c for c in EXPERIMENT.compare(prediction, measurement) if c.id == name)
    return found.verdict


@pytest.mark.parametrize(
    ("name", "arm", "field", "place"),
    [
        ("start/sum/resformer/2", "resformer", "sum", 1),
        ("start/sum/vanilla/3", "vanilla", "sum", 2),
        ("start/square sum", "vanilla", "square_sum", 0),
        ("start/largest at start", "vanilla", "largest", 0),
    ],
)
def test_what_random_matrices_do_not_make_fails(run, name, arm, field, place):
    def change(probed):
        for seed in probed["start"][arm]:
            seed[DIFFERENT][field][place] *= 1.3

    assert judged(run, name) == "pass"
    assert judged(run, name, change) == "fail"


FIELDS = {"largest": "largest", "own": "own", "filled": "participation", "own filled": "own_participation"}


@pytest.mark.parametrize("said", [s for s in SAID if s.statistic in FIELDS], ids=lambda s: s.key)
def test_what_is_said_of_resformer_turns_with_it(run, said):
    def by(factor, *arms):
        def change(probed):
            for arm in arms or ("resformer",):
                for i, seed in enumerate(probed["end"][arm]):
                    told = seed[TEXT]
                    field = FIELDS[said.statistic]
                    told[field] = [x * factor * (1 + 0.001 * i) for x in told[field]]

        return change

    assert judged(run, said.key, by(1.5)) == "agrees"
    assert judged(run, said.key, by(1 / 1.5)) == "contradicts"
    assert judged(run, said.key) == "inconclusive"
    assert judged(run, said.key, by(1.5, "resformer", "twin")) == "inconclusive"


def test_nothing_is_expected_where_a_training_diverged(run):
    prediction, measurement = (run[1].read(f"{what}.json") for what in ("prediction", "measurement"))
    measurement["probed"]["end"]["resformer"][0] = None
    assert {c.id.split("/")[0] for c in EXPERIMENT.compare(prediction, measurement)} == {"start"}
    EXPERIMENT.draw(prediction, measurement)


def test_statistics_by_hand():
    told = {"largest": [4.0, 1.0, 9.0], "own": [4.0, 4.0, 1.0], "participation": [8.0, 2.0, 2.0]}
    told["own_participation"] = [8.0, 1.0, 16.0]
    found = {name: statistic.of(told) for name, statistic in STATISTICS.items()}
    log = np.log
    assert found == pytest.approx(
        {
            "layer 1": log(4),
            "largest": log(3),
            "own": log(2),
            "filled": log(2),
            "own filled": log(4),
            "collapse": -log(4),
        }
    )
