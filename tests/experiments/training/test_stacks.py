"""Arms in stacks leave the records that they leave alone, whatever is finished, and whoever stacks with them."""

import json
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from experiments.store.common import unpacked
from experiments.store.desk import OutOfTime
from experiments.store.folders import RunFolder, Slot
from experiments.training import stacks
from experiments.training.arms import Arm, PromptSource
from experiments.training.pool import train_all
from experiments.training.probes import MAGNITUDE
from icl.recipe import Recipe
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

CONFIG = Architecture(d_model=4, n_layers=2, n_heads=2, d_ff=8, context=7, stem=Vectors(2), positions="bias")
LATE = Recipe(steps=20, batch=8, learning_rate=1e-2, warmup=0.2, decay="late", log_every=5)
BASE = Arm(
    architecture=CONFIG,
    variant="vanilla",
    source=PromptSource(2, 3, 0.1, 128, scored="last"),
    recipe=LATE,
    seed=0,
    std=0.5,
)
LONGER = replace(BASE, recipe=replace(LATE, steps=40, warmup=0.1))
ARMS = [
    *(replace(arm, variant=v, seed=s) for v in ("vanilla", "skipv1") for s in (0, 1) for arm in (BASE, LONGER)),
    replace(BASE, variant="cross-layer"),  # attends over a concatenation: it cannot stack
    replace(BASE, variant="attnres"),
    replace(BASE, recipe=replace(LATE, learning_rate=3e-2)),
    replace(BASE, twin=True),
]


def run(path) -> RunFolder:
    return RunFolder(path, Slot(jobs=1))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """One by one, and stacked."""
    out = tmp_path_factory.mktemp("runs")
    return (
        train_all(ARMS, run(out / "alone"), "alone"),
        stacks.train_stacked(ARMS, run(out / "stacked"), "stacked"),
        out,
    )


@pytest.mark.long
def test_the_same_records(records):
    alone, stacked, _ = records
    assert list(stacked) == list(alone) == ARMS
    for arm in ARMS:
        one, other = alone[arm], stacked[arm]
        assert one.keys() == other.keys()
        for same in ("arm", "name", "seed", "parameters", "diverged", "tokens"):
            assert one[same] == other[same], same
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["held_out"]["loss"] == pytest.approx(other["held_out"]["loss"], rel=1e-4)
        assert [point[0] for point in one["evaluations"]] == [point[0] for point in other["evaluations"]]


def test_curves_go_from_the_first_step_to_the_last(records):
    alone, stacked, _ = records
    for arm in (BASE, LONGER):
        steps = [step for step, _ in stacked[arm]["curve"]]
        assert steps[-1] == arm.recipe.steps
        assert steps == sorted(set(steps))
        by_step = dict(stacked[arm]["curve"])
        for step, loss in alone[arm]["curve"]:
            if step <= 15:  # windows end where a shorter training leaves, too
                assert by_step[step] == pytest.approx(loss, rel=1e-4)


def test_what_stacks_with_what():
    found = stacks.stacks([arm for arm in ARMS if arm.variant != "cross-layer"])
    assert sorted((len(stack.members), [r.steps for r in stack.recipes]) for stack in found) == [
        (1, [20]),  # attnres: another depth rule
        (2, [20]),  # another rate, and the twin: of one length
        (4, [20, 40]),
    ]


def test_no_stack_is_too_large(monkeypatch):
    monkeypatch.setattr(stacks, "MOST", 2)
    found = stacks.stacks([replace(BASE, seed=seed) for seed in range(5)])
    assert [len(stack.members) for stack in found] == [2, 2, 1]


def test_one_plan_under_two_names_is_trained_once(tmp_path, monkeypatch):
    """With two layers SVFormer and CLA's shared values are the same plan."""
    sizes = []
    honest = stacks._trained
    monkeypatch.setattr(stacks, "_trained", lambda stack, desk: sizes.append(len(stack.members)) or honest(stack, desk))
    named = [replace(BASE, variant=resolve(name, CONFIG.shape), label=name) for name in ("svformer", "cla-v")]
    found = stacks.train_stacked(named, run(tmp_path), "twice")
    assert sizes == [1]
    assert found[named[0]]["loss"] == found[named[1]]["loss"]


def test_what_is_finished_is_not_trained_again(records, monkeypatch):
    _, stacked, out = records
    trained = []
    honest = stacks._trained
    monkeypatch.setattr(stacks, "_trained", lambda stack, desk: trained.append(stack) or honest(stack, desk))
    more = replace(BASE, seed=2)
    found = stacks.train_stacked([more, *ARMS[:4]], run(out / "stacked"), "more")
    assert [stack.members for stack in trained] == [(replace(more, recipe=trained[0].members[0].recipe),)]
    assert {arm: record["loss"] for arm, record in found.items() if arm != more} == {
        arm: stacked[arm]["loss"] for arm in ARMS[:4]
    }


def test_out_of_time_what_is_finished_is_given_and_the_rest_goes_on(records, tmp_path):
    _, stacked, _ = records
    assert stacks.train_stacked(ARMS[:4], RunFolder(tmp_path, Slot(jobs=1, deadline=0.0)), "late") == {}
    found = stacks.train_stacked(ARMS[:4], run(tmp_path), "resumed")
    assert {arm: r["loss"] for arm, r in found.items()} == {
        arm: pytest.approx(stacked[arm]["loss"], rel=1e-4) for arm in ARMS[:4]
    }


SIZES = f"{__name__}:sizes"
PROBING = [replace(arm, seed=seed, probes=(MAGNITUDE, SIZES)) for seed in (0, 1) for arm in (BASE, LONGER)]
WILD = replace(PROBING[0], recipe=replace(LATE, learning_rate=1e6))


def sizes(model, task, device):  # noqa: ARG001
    """A probe: which prompts, and of which weights."""
    return {"tokens": task.tokens, "norms": [float(p.detach().norm()) for p in model.parameters()]}


@pytest.mark.long
def test_probes_find_in_a_stack_what_they_find_alone(tmp_path):
    arms = [*PROBING, WILD]
    alone = train_all(arms, run(tmp_path / "alone"), "alone")
    stacked = stacks.train_stacked(arms, run(tmp_path / "stacked"), "stacked")
    for one, other in ((alone[arm], stacked[arm]) for arm in PROBING):
        assert one.keys() == other.keys()
        assert one["probes"][SIZES]["start"] == other["probes"][SIZES]["start"]
        assert one["probes"][SIZES]["end"]["tokens"] == other["probes"][SIZES]["end"]["tokens"] == 7
        assert other["probes"][SIZES]["end"]["norms"] == pytest.approx(one["probes"][SIZES]["end"]["norms"], rel=1e-4)
        assert other["magnitudes"]["start"] == one["magnitudes"]["start"]
        assert other["magnitudes"]["end"].keys() == one["magnitudes"]["end"].keys()
        for name, found in one["magnitudes"]["end"].items():
            assert other["magnitudes"]["end"][name] == pytest.approx(found, rel=1e-3), name
    ends = [stacked[arm]["probes"][SIZES]["end"]["norms"] for arm in PROBING]
    assert len({tuple(end) for end in ends}) == len(PROBING)  # of every member, at every length
    for record in (alone[WILD], stacked[WILD]):
        assert record["diverged"]
        assert record["probes"][SIZES]["end"] is record["magnitudes"]["end"] is None
        assert record["probes"][SIZES]["start"] == stacked[PROBING[0]]["probes"][SIZES]["start"]


@pytest.mark.parametrize("killed", [1, 4, 5, 9])
@pytest.mark.long
def test_a_killed_stack_resumes_to_the_same_records_with_what_was_probed(tmp_path, killed):
    """It is killed while it shares its beginning, at the shorter training's end, after it, and at the last step."""

    shown = []

    @dataclass
    class Desk:
        folder: Path
        left: int
        slot: Slot = field(default_factory=partial(Slot, jobs=1))

        def show(self, done: float, note: str = "") -> None:
            shown.append((done, note))

        def report(self, done: float, note: str = "") -> None:  # noqa: ARG002
            self.left -= 1
            if not self.left:
                raise OutOfTime

    (stack,) = stacks.stacks(PROBING)
    assert len(stack.recipes) == 2
    desks = [Desk(tmp_path / name, left) for name, left in (("whole", -1), ("killed", killed))]
    for desk in desks:
        desk.folder.mkdir()
    whole = stacks._trained(stack, desks[0])
    assert -desks[0].left - 1 == 9
    assert [done for done, _ in shown] == [step * len(stack.members) for step in range(len(shown))]
    assert len(shown) > 9  # every step, long before the first log
    assert shown[1][1].endswith("step 1")
    with pytest.raises(OutOfTime):
        stacks._trained(stack, desks[1])
    resumed = stacks._trained(stack, replace(desks[1], left=-1))
    one, other = (unpacked(found["common"], found["records"]) for found in (whole, resumed))
    assert len(one) == 4
    assert [written(record) for record in one] == [written(record) for record in other]
    assert all(record["probes"][SIZES]["end"] for record in one)


def written(record):
    """But for the time that it took."""
    return json.dumps({**record, "seconds": None}, sort_keys=True)
