"""`scale-decode`: bytes and answers must hold, times are read as they were put in, and a tiny run is drawn."""

import math
from copy import deepcopy
from functools import partial

import pytest

from experiments import catalogue
from experiments.drawing import style
from experiments.skipv1.decoding import PROFILES, VARIANTS
from experiments.store.folders import RunFolder, Slot
from experiments.training import decode_times
from tests.experiments.committed import as_stored
from tests.experiments.committed import verdicts as judged

EXPERIMENT = catalogue.experiment("scale-decode")
CONFIG = PROFILES["cpu"].config
verdicts = partial(judged, EXPERIMENT)
WIGGLE = (0.99, 1.0, 1.01, 1.0) * 4


@pytest.fixture(scope="module")
def prediction():
    return as_stored(EXPERIMENT.predict(CONFIG))


def planted(prediction, slower=None, of_reads=True):
    """Steps that take as long as what they read, times `slower`."""
    sides = {}
    for name in VARIANTS:
        sizes = {}
        for batch, tokens in CONFIG.sizes:
            size = f"{batch} x {tokens}"
            time = prediction["read"][name][size] if of_reads else prediction["read"]["vanilla"][size]
            time *= (slower or {}).get(name, 1.0)
            sizes[size] = {
                "bytes": 4 * batch * tokens * prediction["kept"][name],
                "turns": [time * x for x in (WIGGLE if name != "vanilla" else WIGGLE[::-1])],
            }
        prompts = {f"{b} x {t}": [1.0, 1.1] for b, t in CONFIG.prompts}
        sides[name] = {"apart": 1e-6, "same_answer": True, "sizes": sizes, "prompts": prompts}
    return {"what": "8 layers, width 256, float32", "sides": sides}


def test_what_is_predicted(prediction):
    kept, read = prediction["kept"], prediction["read"]
    assert kept["skipv1"] / kept["vanilla"] == pytest.approx(1 - 7 / 32)
    longest = {name: sizes["1 x 4096"] for name, sizes in read.items()}
    assert 0.98 < longest["skipv1"] / longest["vanilla"] < 1
    assert longest["gqa:group=2"] / longest["vanilla"] < 0.65
    prompt = {name: sizes["1 x 512"] for name, sizes in prediction["prompt"].items()}
    assert 0.9 < prompt["skipv1"] / prompt["vanilla"] < 1


def test_times_that_are_as_what_is_read(prediction):
    assert set(verdicts(prediction, planted(prediction)).values()) == {"pass", "agrees"}
    slow = verdicts(prediction, planted(prediction, {"skipv1": 1.3, "mla": 1.3}))
    assert {slow[f"slower/skipv1/{b} x {t}"] for b, t in CONFIG.sizes} == {"contradicts"}
    assert slow["read/mla/1 x 4096"] == slow["read/skipv1/1 x 128"] == "contradicts"
    assert slow["read/gqa:group=2/1 x 4096"] == "agrees"
    alike = verdicts(prediction, planted(prediction, of_reads=False))
    assert alike["read/gqa:group=2/1 x 4096"] == "contradicts"
    assert alike["slower/skipv1/1 x 4096"] == "agrees"


def test_a_byte_too_many_and_a_wrong_answer_are_defects(prediction):
    wrong = deepcopy(planted(prediction))
    wrong["sides"]["mla"]["sizes"]["1 x 128"]["bytes"] += 1
    wrong["sides"]["skipv1"]["apart"] = 0.01
    found = verdicts(prediction, wrong)
    assert [name for name, verdict in found.items() if verdict == "fail"] == ["answer/skipv1", "bytes/mla/1 x 128"]


def test_a_turn_of_the_machine_decides_nothing(prediction):
    noisy = planted(prediction)
    noisy["sides"]["skipv1"]["sizes"]["1 x 128"]["turns"] = [
        x * f for x, f in zip((1, 9, 1, 9) * 4, WIGGLE, strict=True)
    ]
    assert verdicts(prediction, noisy)["slower/skipv1/1 x 128"] == "inconclusive"


def test_a_tiny_run(tmp_path, monkeypatch):
    monkeypatch.setattr(decode_times, "find_spec", lambda _: None)
    config = PROFILES["smoke"].config
    prediction = EXPERIMENT.predict(config)
    measurement = EXPERIMENT.measure(config, 0, RunFolder(tmp_path, Slot(device="cpu")))
    found = EXPERIMENT.compare(prediction, measurement)
    assert {j.verdict for j in found if j.id.startswith(("answer", "bytes"))} == {"pass"}
    assert all(math.isfinite(j.measured) for j in found)
    assert set(measurement["sides"]["skipv1"]["prompts"]) == {"1 x 16"}
    with style.drawing():
        figure = EXPERIMENT.draw(prediction, measurement)
    assert len(figure.axes) == 3
