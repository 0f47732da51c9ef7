"""`attnres-bounds`: verdicts turn with what they judge, and the figure draws without a network that diverged."""

from copy import deepcopy
from functools import partial

import pytest

from experiments.attnres.bounds.experiment import EXPERIMENT
from experiments.attnres.bounds.measurement import RULES, TRAINED, Start, at_start, attained, cell, largest, slopes
from experiments.drawing import style
from experiments.store.desk import LocalDesk
from experiments.store.folders import RunFolder
from experiments.training.magnitude_probe import bounds
from icl.models.decoder import Decoder
from tests.experiments.committed import committed, failing, verdicts
from theory.attnres import growth
from theory.plans.names import resolve

SMOKE = EXPERIMENT.profiles["smoke"].config
judged, failed = partial(verdicts, EXPERIMENT), partial(failing, EXPERIMENT)


@pytest.fixture
def stored():
    return committed(EXPERIMENT.name)


def test_theory_holds_in_the_committed_result(stored):
    found = judged(*stored)
    theory = {name: verdict for name, verdict in found.items() if not name.startswith("exponent")}
    assert set(theory.values()) == {"pass"}
    assert len(found) - len(theory) == len(TRAINED) - 1


@pytest.mark.parametrize(
    ("what", "place", "name", "alter"),
    [
        ("start", "attnres/48", "start/alike", lambda values: [2 * x for x in values]),
        ("scaled", "attnres/3", "scaled/alike", lambda values: [*values[:-1], 1.001 * values[-1]]),
        ("attained", "attnres/48", "attained/attnres/48", lambda values: 1.001 * values),
        ("sharp", "SwiGLU/64", "bound/SwiGLU/64", lambda values: [{**x, "largest": 1.01 * x["bound"]} for x in values]),
        ("sharp", "GELU/64", "bound/GELU/64", lambda values: [{**x, "random": 1.01 * x["bound"]} for x in values]),
        (
            "sharp",
            "attention/16",
            "typical/attention/16",
            lambda xs: [{**x, "typical": 1.2 * x["typical"]} for x in xs],
        ),
        ("sharpened", "vanilla", "end/vanilla/SwiGLU", lambda values: [_beyond(x) for x in values]),
    ],
)
def test_what_is_measured_otherwise_fails(stored, what, place, name, alter):
    prediction, measurement = stored
    before, other = judged(prediction, measurement), deepcopy(measurement)
    other[what][place] = alter(other[what][place])
    after = judged(prediction, other)
    assert {n for n in before if before[n] != after[n]} == {name}
    assert after[name] == "fail"


def _beyond(of_seed):
    """A SwiGLU whose output exceeds its bound, once trained."""
    altered = deepcopy(of_seed)
    altered["end"]["SwiGLU"]["largest"][3] = 1.01 * altered["end"]["SwiGLU"]["bound"][3]
    return altered


@pytest.mark.parametrize("kind", ["start", "scaled"])
def test_initial_sizes_that_are_others_fail_once(stored, kind):
    """All rules' at 48 layers, alike."""
    prediction, measurement = stored
    for at, squares in measurement[kind].items():
        if at.endswith("/48"):
            measurement[kind][at] = [1.3 * x for x in squares]
    assert failed(prediction, measurement) == {f"{kind}/48"}


@pytest.mark.parametrize("place", [1, 16])
def test_a_preset_that_starts_otherwise_fails(stored, place):
    prediction, measurement = stored
    for by_place in measurement["preset"]:
        by_place[place - 1] *= 1.2
    assert failed(prediction, measurement) == {f"preset/{place}"}


def test_a_rule_that_grows_as_prenorm_does_is_no_agreement(stored):
    prediction, measurement = stored
    for depth in prediction["trained_depths"]:
        measurement["trained"][cell("attnres", depth)] = measurement["trained"][cell("vanilla", depth)]
    assert judged(prediction, measurement)["exponent/attnres"] in {"inconclusive", "contradicts"}


def test_slopes_are_exponents():
    depths = [2, 4, 16]
    trained = {cell("attnres", n): [{"read_rms": [1.0, 3 * n**power]} for power in (0.5, -0.2)] for n in depths}
    powers = slopes({"trained_depths": depths}, {"trained": trained}, "attnres")
    assert powers[0] == pytest.approx(0.5)
    assert largest(trained["attnres/4"][0]) == 6
    assert powers[1] < 0


def test_the_worst_networks_are_no_larger_than_their_law(monkeypatch):
    """With a query that picks nothing, the law of Full is not attained."""
    monkeypatch.setattr("experiments.attnres.bounds.measurement.QUERY", 0.0)
    norms = attained(SMOKE)
    assert norms["attnres/4"] < 0.9 * growth.largest_read(growth.Residual(), 0, 1.0, 1.0)
    assert norms["vanilla/4"] == pytest.approx(9)


def test_a_network_that_diverged_is_left_out(stored):
    prediction, measurement = stored
    measurement["trained"][cell("attnres", prediction["trained_depths"][0])][0] = None
    with style.drawing():
        EXPERIMENT.draw(prediction, measurement)
    assert judged(prediction, measurement)["exponent/attnres"] == "inconclusive"


def test_bounds_at_the_start_are_those_of_every_rule_s_own_network(tmp_path):
    """Sublayers are bounded once a seed, as its networks share their weights: read by every rule they do."""
    depth, seed = SMOKE.depths[-1], 1
    by_rule = Start(SMOKE, "start", depth, seed).measured(LocalDesk("start", RunFolder(tmp_path), lambda *_: None))
    sizes = at_start(SMOKE, depth)
    for rule in RULES:
        model = Decoder(sizes, resolve(rule, sizes.shape), seed=seed, std=SMOKE.std, scale_outputs=False).double()
        embedding = float(model.get_parameter("stem.embedding.weight").detach().norm(dim=-1).max())
        assert by_rule[rule]["bound"] == bounds(model, embedding)[-1]
    assert len({record["bound"] for record in by_rule.values()}) > 1
