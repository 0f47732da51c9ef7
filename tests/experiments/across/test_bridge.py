"""The bridge from the toy to recall: what is predicted, what is trained, and when a verdict falls."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from experiments.across import bridge, bridge_rows
from experiments.across.bridge import AREA, ARMS, FAN_IN, MARGIN, OWN_MAP, SMALL
from experiments.drawing.style import drawing
from experiments.store.folders import RunFolder, Unfinished
from experiments.training import stacks
from experiments.training.campaign import BASELINE, TWIN
from experiments.training.comparing import comparing
from icl.models.decoder import Decoder
from tests.experiments.committed import as_stored
from theory.plans.accounting import total_parameters
from theory.plans.names import resolve
from theory.plans.plan import Shape

BRIDGE = bridge.EXPERIMENT
CPU, SMOKE = (BRIDGE.profiles[profile].config for profile in ("cpu", "smoke"))
RIGHT_AT = {8: 0.2, 16: 0.5, 32: 0.95}  # vanilla's, by width


def record(arm, *, gain=0.0, right=0.5):
    """A training that loses ln V until half of its steps, and then 1 - 2 gain of it."""
    blind, steps = arm.source.blind, arm.recipe.steps
    noise = 0.002 * ((arm.seed * 7 + len(arm.name)) % 5 - 2)
    curve = [[steps // 2, blind], [steps, blind * (1 - 2 * (gain + noise) - 0.4)]]
    about = {"curve": curve, "diverged": None, "seconds": 0.1, "device": "cpu"}
    return {**about, "probes": {bridge.PROBE: {"start": {"right": 0.0}, "end": {"right": right}}}}


@pytest.fixture
def trained(monkeypatch):
    """What would be trained; skips gain 0.2 where there is something to copy, at any width, and pass at width 16."""
    arms = []

    def answer(wanted, *_):
        arms.extend(wanted)
        skips = {"svformer", "skipv1", OWN_MAP, "my.py:mine"}
        found = {}
        for arm in wanted:
            ahead = arm.name in skips and arm.source.form == "interleaved"
            width = arm.architecture.d_model
            right = 0.97 if ahead and width >= 16 else RIGHT_AT.get(width, 0.9)
            worse = -0.2 * (arm.name == "shared-keys" and arm.source.form == "interleaved")
            found[arm] = record(arm, gain=0.2 * ahead + worse, right=right)
        return found

    monkeypatch.setattr(stacks, "train_stacked", answer)
    return arms


def through(experiment, config, tmp_path, seeds=8):
    return as_stored(experiment.predict(config)), as_stored(experiment.measure(config, seeds, RunFolder(tmp_path)))


def test_the_toy_s_word_for_every_arm():
    """By hand: of d^2 entries vanilla explains a quarter at width d and all at 2 d, and n / (n + d + 1) of each."""
    toy = BRIDGE.predict(CPU)["toy"]
    gain = 0.75 * 4 / (4 + 16 + 1)
    for arm in ("svformer", "skipv1", "resformer", OWN_MAP):
        assert toy[arm]["signs"] == {"speed": 1, "one token": 0, "null": 0, "width": 1}
        assert toy[arm]["worth"] == 2
        assert toy[arm]["gain"]["1 d"] == pytest.approx(gain)
    assert toy["skipv0"]["signs"] == {"speed": 0, "one token": 0, "null": 0, "width": 0}
    assert toy["shared-keys"]["signs"] == {"speed": -1, "one token": 0, "null": -1, "width": -1}
    assert toy["attnres"] is None
    assert BRIDGE.predict(CPU)["margins"][AREA] == MARGIN


def test_own_map_is_svformer_with_weights_of_its_own():
    part = CPU.parts[0]
    arms = {name: bridge._arm(name, part, CPU, seed=0, rate=0.01) for name in (OWN_MAP, "svformer", BASELINE)}
    own, shared = (
        Decoder(arms[name].architecture, arms[name].plan, seed=1, std=0.3, device="cpu")
        for name in (OWN_MAP, "svformer")
    )
    count = {name: total_parameters(arm.architecture, arm.plan) for name, arm in arms.items()}
    assert count[OWN_MAP] == count[BASELINE] == count["svformer"] + 16 * 16
    theirs, mine = dict(shared.named_parameters()), dict(own.named_parameters())
    with torch.no_grad():
        for name, weight in theirs.items():
            if mine[name].shape == weight.shape:
                mine[name].copy_(weight)
        (values,) = (name for name in theirs if mine[name].shape != theirs[name].shape)
        mine[values].copy_(torch.cat([theirs[values]] * 2))  # layer 1's own heads, and those that layer 2 alone reads
    inputs = next(arms[OWN_MAP].task().held_out()).inputs
    assert torch.allclose(own(inputs), shared(inputs), atol=1e-6)
    with torch.no_grad():
        mine[values][16:] *= -1
    assert not torch.allclose(own(inputs), shared(inputs), atol=1e-3)


def test_what_is_trained(trained, tmp_path):
    _, measurement = through(BRIDGE, CPU, tmp_path)
    assert {arm.std for arm in trained} == {0.02, 16**-0.5, 48**-0.5, 8**-0.5, 32**-0.5}
    assert {arm.name for arm in trained} == {*ARMS} - {TWIN} | {f"{BASELINE}-twin"}
    for part in CPU.parts:
        assert len(part.rates) >= 3
        here = measurement["parts"][part.key]
        assert set(here["area"]) == set(CPU.names(part))
        assert all(len(by_seed) == 8 for by_seed in here["area"].values())
    assert {(part.question, part.scale) for part in CPU.parts} >= {
        (question, scale) for question in bridge.QUESTIONS for scale in (SMALL, FAN_IN)
    }
    assert {arm.seed for arm in trained if arm.seed < 500_000} == set(range(8))  # rates are tried on others


def verdicts(prediction, measurement):
    return {row.judgement.id: row.words for row in bridge.rows(prediction, measurement)}


def test_each_verdict_as_it_falls(trained, tmp_path):  # noqa: ARG001
    prediction, measurement = through(BRIDGE, CPU, tmp_path)
    found = verdicts(prediction, measurement)
    for scale in (SMALL, FAN_IN):
        for arm in ("svformer", "shared-keys", "skipv0"):
            assert found[f"speed/{scale}/{arm}"] == "as the toy says"
        assert found[f"speed/{scale}/resformer"] == "against the toy"  # which does as vanilla does
        assert found[f"one token/{scale}/svformer"] == "as the toy says"
        assert found[f"null/{scale}/svformer"] == "against the toy"
        assert found[f"null/{scale}/resformer"] == "as the toy says"
        assert found[f"speed/{scale}/attnres"] == "no prediction"
        assert found[f"speed/{scale}/twin"] == "control"
    assert found["width/fan-in/svformer"] == "as the toy says"  # passes by 16, vanilla by 30
    assert found["width/fan-in/resformer"] == "not decided"  # which was not trained where it would pass
    assert [check.id for check in BRIDGE.compare(prediction, measurement)] == [
        name for name in found if "twin" not in name
    ]


def test_noise_and_a_twin_that_gains_decide_nothing(trained, tmp_path):  # noqa: ARG001
    prediction, measurement = through(BRIDGE, CPU, tmp_path)
    part = measurement["parts"][f"speed, width 1 d, {SMALL}"]
    clean = deepcopy(part["area"])
    part["area"][TWIN] = part["area"]["svformer"]  # the rule sees a gain where there is none
    assert verdicts(prediction, measurement)["speed/0.02/svformer"] == "not decided"
    part["area"] = {name: [x + 0.5 * (-1) ** (i + len(name)) for i, x in enumerate(by)] for name, by in clean.items()}
    assert verdicts(prediction, measurement)["speed/0.02/svformer"] == "not decided"
    part["area"] = clean
    part["half"][BASELINE] = clean[BASELINE]  # and where half of the steps are no worse, nothing is told from nothing
    assert verdicts(prediction, measurement)["speed/0.02/skipv0"] == "not decided"


def test_a_training_that_diverged_has_learnt_nothing():
    arm = bridge._arm("svformer", CPU.parts[0], CPU, seed=0, rate=0.01)
    gone = {**record(arm), "diverged": "training diverged by step 20"}
    nothing = {"area": 1.0, "half": 1.0, "right": 0.0, "left": None}
    assert bridge._reading(gone, arm.source) == {**nothing, "diverged": True}
    assert bridge._reading(record(arm), arm.source)["area"] == pytest.approx(0.8, abs=0.01)


def test_the_plateau_is_left_at_half_of_the_loss_of_a_guess_among_the_values_of_a_prompt():
    arm = bridge._arm("svformer", CPU.parts[0], CPU, seed=0, rate=0.01)
    assert bridge._reading(record(arm, gain=0.2), arm.source)["left"] == arm.recipe.steps  # ln 16 / 5, below ln 4 / 2
    assert bridge._reading(record(arm, gain=0.17), arm.source)["left"] is None
    assert bridge_rows._when([10, None, 40, 30]) == "3 of 4, step 35"
    assert bridge_rows._when([10, None, None]) == "1 of 3"


def test_parts_that_are_finished_count(trained, tmp_path, monkeypatch):  # noqa: ARG001
    whole = stacks.train_stacked

    def out_of_time(wanted, *rest):
        return whole([arm for arm in wanted if arm.architecture.d_model != 48], *rest)

    monkeypatch.setattr(stacks, "train_stacked", out_of_time)
    prediction, measurement = through(BRIDGE, CPU, tmp_path)
    left = {"speed", "one token", "width"}
    assert {part["question"] for part in measurement["parts"].values()} == left
    assert {row.question for row in bridge.rows(prediction, measurement)} == left
    with drawing():
        BRIDGE.draw(prediction, measurement)
        BRIDGE.draw_further("width", prediction, measurement)
    monkeypatch.setattr(stacks, "train_stacked", lambda *_: {})
    with pytest.raises(Unfinished, match="0 of"):
        through(BRIDGE, CPU, tmp_path)


MINE = """
from theory import plan, v

def mine(shape):
    return plan(shape, values=lambda n, h: v(n, h) + v(1, h) if n > 1 else v(n, h))
"""


@pytest.mark.long
def test_a_user_s_variant_stands_in_the_table_and_in_every_figure(trained, tmp_path):
    (tmp_path / "my.py").write_text(MINE)
    experiment = comparing(BRIDGE, "cpu", [f"{tmp_path}/my.py:mine", "gqa:group=2"])
    config = experiment.profiles["cpu"].config
    prediction, measurement = through(experiment, config, tmp_path)
    assert prediction["own"] == ["my.py:mine", "gqa:group=2"]
    assert prediction["toy"]["my.py:mine"]["worth"] == 2
    assert prediction["toy"]["gqa:group=2"] is None
    found = verdicts(prediction, measurement)
    assert found["speed/0.02/my.py:mine"] == "as the toy says"
    assert found["speed/0.02/gqa:group=2"] == "no prediction"
    assert {arm.architecture.kv_heads for arm in trained if arm.label == "gqa:group=2"} == {1}
    head, *table = BRIDGE.table(prediction, measurement)
    is_own = [row[0] in prediction["own"] for row in table]
    assert is_own == sorted(is_own, reverse=True)  # one's own stand first
    assert {row[1] for row in table if row[0] == "my.py:mine"} == {*bridge.QUESTIONS, "width"} <= {*BRIDGE.legend}
    assert all(sum(row[0] == arm for row in table) >= 7 for arm in ARMS if arm != BASELINE)
    assert all(len(row) == len(head) for row in table)
    with drawing():
        figures = [BRIDGE.draw(prediction, measurement), BRIDGE.draw_further("width", prediction, measurement)]
    for fig in figures:
        for axis in fig.axes:
            assert any("my.py:mine" in label.get_text() for label in axis.get_yticklabels())


def test_a_profile_that_decides_nothing_says_so(trained, tmp_path):  # noqa: ARG001
    quick = replace(SMOKE, symbols=16)
    words = set(verdicts(*through(BRIDGE, quick, tmp_path, seeds=2)).values())
    assert words == {"not decided", "control", "no prediction"}


def test_own_map_has_a_plan_for_any_number_of_heads():
    for heads in (1, 2, 3):
        made = bridge.own_map(Shape(2, heads))
        assert made.shape == Shape(2, 2 * heads)
        assert made.live(1) == made.live(2) == tuple(range(1, heads + 1))
        assert made != resolve("svformer", Shape(2, 2 * heads))
