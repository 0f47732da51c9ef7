"""`attnres-dilution`: a run from end to end; what must hold holds and what is falsified fails; expectations turn."""

import json
from copy import deepcopy
from math import log

import pytest

from experiments import catalogue
from experiments.attnres.dilution.points import ATTENTION, BLOCK, FULL, RULES, cell, exponents, last_effective
from experiments.attnres.dilution.verdicts import verdicts
from experiments.cli import main
from experiments.drawing import style
from experiments.store.folders import RunFolder
from experiments.training.campaign import BASELINE, TWIN

EXPERIMENT = catalogue.experiment("attnres-dilution")
SMOKE = EXPERIMENT.profiles["smoke"].config
DEPTHS = SMOKE.depths
LAST = DEPTHS[-1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run at `smoke`."""
    out = tmp_path_factory.mktemp("dilution")
    assert main(["run", EXPERIMENT.name, "--profile", "smoke", "--jobs", "1", "--out", str(out)]) == 0
    (folder,) = (out / EXPERIMENT.name).glob("smoke-*")
    return RunFolder(folder)


@pytest.fixture
def stored(run):
    return run.read("prediction.json"), run.read("measurement.json")


def judged(prediction, measurement):
    return {check.id: check.verdict for check in verdicts(prediction, measurement)}


def test_a_run_leaves_everything(run):
    prediction, measurement, summary = (run.read(f"{x}.json") for x in ("prediction", "measurement", "summary"))
    assert prediction == json.loads(json.dumps(EXPERIMENT.predict(SMOKE)))
    assert (run / "prediction.json").stat().st_mtime <= (run / "metrics.jsonl").stat().st_mtime
    assert set(measurement["shares"]) == {cell(r, n) for n in DEPTHS for r in (*SMOKE.rules(n), TWIN)}
    assert measurement["at_prenorms_rate"] == {}  # nothing is tuned
    assert {check["verdict"] for check in summary["checks"]} == {"pass", "undecided"}
    assert all(check["quantity"] for check in summary["checks"])
    assert (run / "figure.png").stat().st_size > 10_000
    json.dumps(measurement, allow_nan=False)


def test_arms_are_paired_and_the_twin_alone_starts_elsewhere(run):
    arms = [line["arm"] for line in run.metrics() if line["kind"] == "run" and line["seed"] == 0]
    assert [arm["variant"] for arm in arms if arm["twin"]] == [BASELINE] * len(DEPTHS)
    assert len({json.dumps([arm["recipe"], arm["source"], arm["std"]]) for arm in arms}) == 1
    assert {(arm["variant"], arm["architecture"]["n_layers"]) for arm in arms if not arm["twin"]} == {
        (rule, n) for n in DEPTHS for rule in SMOKE.rules(n)
    }


def test_what_must_hold_is_asked_of_every_rule(stored):
    found = judged(*stored)
    rest = {name for name in found if not name.startswith(("own-rates", "exponent"))}
    assert {found[name] for name in rest} == {"pass"}
    for depth in DEPTHS:
        names = {rule for rule in RULES if cell(rule, depth) in stored[1]["shares"]}
        assert {f"reads/{rule}/{depth}" for rule in names} <= rest
        assert {f"{what}/{FULL}/{depth}" for what in ("start", "range")} <= rest
    assert {name for name in rest if name.startswith("cap")} == {f"cap/{BLOCK}/{depth}" for depth in DEPTHS}


def altered(name, probed):
    """What is probed, so that this check should fail."""
    what, *_, stage = name.split("/")
    if what == "law":
        probed["start" if stage == "start" else "end"]["coefficient"]["newest"][2] *= 1.001
    elif what == "range":
        probed["end"]["needed"][2] = 1.001 * probed["end"]["lengths"][2]
    else:
        stage, field, value = {
            "reads": ("end", "error", 0.01),
            "start": ("start", "from_prenorm", 1e-6),
            "cap": ("end", "spare", -1e-3),
        }[what]
        probed[stage][field] = value


@pytest.mark.parametrize(
    ("what", "rule"),
    [
        ("reads", BASELINE),
        ("reads", "denseformer"),
        ("reads", FULL),
        ("law", BASELINE),
        ("law", FULL),
        ("start", FULL),
        ("start", BLOCK),
        ("range", FULL),
        ("range", BLOCK),
        ("cap", BLOCK),
    ],
)
def test_what_is_measured_otherwise_fails(stored, what, rule):
    prediction, measurement = stored
    before, other = judged(prediction, measurement), deepcopy(measurement)
    name = f"{what}/{rule}/{LAST}" + ("/start" if what == "law" else "")
    altered(name, other["shares"][cell(rule, LAST)][1])
    after = judged(prediction, other)
    assert {n for n in before if before[n] != after[n]} == {name}
    assert after[name] == "fail"


def test_what_does_not_reject_its_control_is_inconclusive(stored):
    """Queries that are as if they had not been trained; a range of which nothing is used."""
    prediction, measurement = stored
    for seed in measurement["shares"][cell(FULL, LAST)]:
        seed["end"]["from_prenorm"] = 0.0
        seed["end"]["needed"] = [0.0] * len(seed["end"]["needed"])
    for seed in measurement["shares"][cell(BLOCK, LAST)]:
        seed["end"]["spare"] = 1.0
    found = judged(prediction, measurement)
    names = {f"start/{FULL}/{LAST}", f"range/{FULL}/{LAST}", f"cap/{BLOCK}/{LAST}"}
    assert {found[name] for name in names} == {"inconclusive"}


def test_a_query_of_no_length_allows_no_other_shares(stored):
    prediction, measurement = stored
    end = measurement["shares"][cell(FULL, LAST)][0]["end"]
    end["lengths"][3] = 0.0
    assert judged(prediction, measurement)[f"range/{FULL}/{LAST}"] == "fail"
    end["needed"][3] = 0.0
    assert judged(prediction, measurement)[f"range/{FULL}/{LAST}"] == "pass"


def with_numbers(measurement, of):
    """Effective numbers of the last read: of(rule, depth), times one per cent up or down by seed and cell."""
    made = deepcopy(measurement)
    for i, (at, seeds) in enumerate(made["shares"].items()):
        rule, depth = at.rsplit("/", 1)
        for seed, both in enumerate(seeds):
            both["end"]["effective"][-1] = log(of(rule, int(depth))) + 0.01 * (-1) ** (i * (seed + 1))
    return made


def expectations(prediction, measurement):
    return {
        name: v for name, v in judged(prediction, measurement).items() if name.startswith(("own", "prenorm", "exp"))
    }


@pytest.mark.parametrize(
    ("of", "verdict"),
    [
        (lambda rule, depth: (2 * depth + 1) ** (1.0 if rule in (BASELINE, TWIN) else 0.2), "agrees"),
        (lambda rule, depth: (2 * depth + 1) ** (0.2 if rule in (BASELINE, TWIN) else 1.0), "contradicts"),
        (lambda rule, depth: 2 * depth + 1, "inconclusive"),
        (lambda rule, depth: (2 * depth + 1) ** (1.0 if rule == BASELINE else 0.2), "inconclusive"),  # so does the twin
    ],
)
def test_expectations_turn(stored, of, verdict):
    prediction, measurement = stored
    found = expectations(prediction, with_numbers(measurement, of))
    assert {name.split("/")[1] for name in found} == set(ATTENTION) - {"attnres-block"}
    assert set(found.values()) == {verdict}


def test_at_prenorm_s_rate_they_are_judged_apart(stored):
    """At rates of their own fewer; at PreNorm's as many."""
    prediction, measurement = stored
    measurement = with_numbers(measurement, lambda rule, depth: depth if rule in (BASELINE, TWIN) else depth / 4)
    cells = [cell(rule, depth) for depth in DEPTHS for rule in SMOKE.rules(depth)]
    measurement["tuning"] = {
        "tuned": True,
        "losses": {at: {"0.1": 2.0, "0.2": 1.0, "0.4": 2.0} for at in cells},
        "best": dict.fromkeys(cells, 0.2),
    }
    measurement["tuning"]["best"][cell(FULL, LAST)] = 0.4
    for rule in (FULL, BLOCK):
        for depth in DEPTHS:
            same = last_effective(measurement, cell(BASELINE, depth))
            measurement["at_prenorms_rate"][cell(rule, depth)] = [same[0] + 0.02, same[1] - 0.02]
    found = {check.id: check for check in verdicts(prediction, measurement)}
    own, other = (found[f"{reading}/{FULL}/{LAST}"] for reading in ("own-rates", "prenorms-rate"))
    assert (own.verdict, other.verdict) == ("agrees", "inconclusive")
    assert "(0.4 and 0.2)" in own.statement
    assert "(untuned)" in own.group
    assert "all at PreNorm's learning rate (0.2)" in other.statement
    assert f"exponent-prenorms-rate/{FULL}" in found
    assert not any("denseformer" in name for name in found if not name.startswith("reads"))
    with style.drawing():
        figure = EXPERIMENT.draw(prediction, measurement)
    labels = [text.get_text() for axis in figure.axes for text in axis.get_legend().get_texts()]
    assert "small: PreNorm's learning rate" in labels
    assert "Full (untuned)" in labels


def test_exponents_are_powers_of_the_number_of_outputs(stored):
    prediction, measurement = stored
    for depth in DEPTHS:
        for both, power in zip(measurement["shares"][cell(FULL, depth)], (0.5, -0.25), strict=True):
            both["end"]["effective"][-1] = 3 + power * log(2 * depth + 1)
    assert exponents(prediction, measurement, FULL) == pytest.approx([0.5, -0.25])


def test_a_network_that_diverged_is_left_out(stored):
    prediction, measurement = stored
    measurement["shares"][cell(FULL, LAST)][0]["end"] = None
    with style.drawing():
        assert len(EXPERIMENT.draw(prediction, measurement).axes) == 4
    found = judged(prediction, measurement)
    assert found[f"own-rates/{FULL}/{LAST}"] == found[f"exponent-own-rates/{FULL}"] == "inconclusive"
    assert found[f"range/{FULL}/{LAST}"] == "pass"
