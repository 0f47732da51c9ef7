"""Questions to the pool: what one has trained the next one finds, whatever ended the sitting before; `campaign`."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import catalogue
from experiments.campaign import pool as pools
from experiments.campaign.question import CONTROL, TWIN
from experiments.campaign.reading import arms, at_length, gain, over
from experiments.campaign.standing import standings
from experiments.cli import main
from experiments.experiment.execution import execute, prepare
from experiments.store.folders import RunFolder, Slot, Unfinished, UserError
from experiments.training.trunks import trunks
from tests.experiments.campaign.conftest import Asking

NAMES = ["vanilla", TWIN, CONTROL, "shared-keys"]


@pytest.fixture
def slot(text):
    return Slot(jobs=1, data=str(text))


@pytest.fixture(scope="module")
def finished(setting, text, tmp_path_factory):
    """A folder in which a question has trained what it needs."""
    out = tmp_path_factory.mktemp("finished")
    execute(prepare(Asking(setting, 8), "cpu", None, out, Slot(jobs=1, data=str(text))))
    return out


@pytest.fixture
def there(finished, tmp_path):
    """A copy of it."""
    shutil.copytree(finished, tmp_path / "there")
    return tmp_path / "there"


@pytest.fixture
def trained(monkeypatch):
    """How many trunks were trained each time that some were."""
    counts = []

    def counting(missing, run, label, **how):
        counts.append(len(trunks(missing)))
        return train(missing, run, label, **how)

    train = pools.train_sharing
    monkeypatch.setattr(pools, "train_sharing", counting)
    return counts


def measurement(question, out, slot):
    job = prepare(question, "cpu", None, out, slot)
    execute(job)
    return job.run.read("measurement.json")


@pytest.mark.long
def test_what_is_measured(question, there, slot):
    found = measurement(question, there, slot)
    (group,) = found["groups"].values()
    assert group["seeds"] == found["seeds"] == 2
    assert list(group["loss"]) == NAMES
    assert arms(group) == ["shared-keys"]
    assert list(group["lengths"]) == ["0.625", "1.25", "2.5"]
    assert group["constant"] == pytest.approx(0.8 * group["lengths"]["2.5"])
    lines = group["curve"]["tokens_per_parameter"]
    assert lines[-1] == pytest.approx(group["lengths"]["2.5"])
    assert all(len(curve) == len(lines) for name in NAMES for curve in group["curve"][name])
    constant = [loss for at, loss in zip(lines, group["curve"]["vanilla"][1], strict=True) if at <= group["constant"]]
    assert 0 < len(constant) < len(lines)
    assert over(group, 0.0, 9.0)["vanilla"][1] == pytest.approx(sum(constant) / len(constant))
    ends = at_length(group, "2.5")
    by_hand = [a - (b + c) / 2 for a, b, c in zip(ends["shared-keys"], ends["vanilla"], ends[TWIN], strict=True)]
    assert gain(ends, "shared-keys").mean == pytest.approx(sum(by_hand) / 2)
    assert gain(ends, "shared-keys", against=(CONTROL,)).mean != gain(ends, "shared-keys").mean
    assert len(group["probed"]["vanilla"]["2.5"][0]["induction"]) == 2


@pytest.mark.long
def test_nothing_is_trained_twice(question, setting, there, slot, trained):
    found = measurement(question, there, slot)
    again = measurement(Asking(setting, 8, until=1.25), there, Slot(jobs=1))  # without the text, too
    assert not trained
    (long,), (short,) = found["groups"].values(), again["groups"].values()
    assert short["loss"]["vanilla"]["1.25"] == long["loss"]["vanilla"]["1.25"]
    measurement(Asking(setting, 8, 16), there, slot)
    assert trained == [8]


def test_a_group_that_is_not_complete_is_left_out(setting, there, slot):
    found = measurement(Asking(setting, 8, 16), there, replace(slot, deadline=1.0))
    assert [name.split(",")[0] for name in found["groups"]] == ["width 8"]
    assert [name.split(",")[0] for name in found["left_out"]] == ["width 16"]


def test_without_two_seeds_nothing_is_compared(question, tmp_path, slot):
    with pytest.raises(Unfinished, match="0 of 8 trainings are finished"):
        measurement(question, tmp_path, replace(slot, deadline=1.0))


def test_before_all_seeds_are_there_nothing_is_compared(question, there, slot):
    """Two of three seeds are there, which would do for two."""
    with pytest.raises(Unfinished, match="a comparison needs 3 seeds of all arms of a group"):
        execute(prepare(question, "cpu", 3, there, replace(slot, deadline=1.0)))


def test_a_group_of_fewer_seeds_needs_no_more_than_its_own(setting, there, slot):
    """Three seeds are asked for, of which this group trains two."""

    class OfTwo(Asking):
        def trainings(self, config, seeds, rates=None):
            return {name: rounds[:2] for name, rounds in super().trainings(config, seeds, rates).items()}

    job = prepare(OfTwo(setting, 8), "cpu", 3, there, replace(slot, deadline=1.0))
    execute(job)
    assert job.run.read("measurement.json")["seeds"] == 2


def test_without_the_text_what_is_finished_is_compared(setting, there, capsys):
    result = measurement(Asking(setting, 8, 16), there, Slot(jobs=1))
    assert [name.split(",")[0] for name in result["groups"]] == ["width 8"]
    assert [name.split(",")[0] for name in result["left_out"]] == ["width 16"]
    missing = "trainings are missing, and need --data FOLDER: the tests' text"
    assert capsys.readouterr().err == f"crosslayer: asking: what is finished is compared; {missing}\n"


@pytest.mark.long
def test_missing_or_other_text_is_named(question, setting, tmp_path, slot):
    with pytest.raises(UserError, match="need --data FOLDER: the tests' text"):
        measurement(question, tmp_path, Slot(jobs=1))
    other = replace(setting, corpus=replace(setting.corpus, digest="0" * 64))
    with pytest.raises(UserError, match="holds other text"):
        measurement(Asking(other, 8), tmp_path, slot)


@pytest.mark.long
def test_how_far_it_is(question, setting, there, tmp_path, slot):
    both = [question, Asking(setting, 8, 16)]
    before = standings(both, tmp_path, slot)
    assert [(one.trained, one.left, one.checks) for one in before] == [(0, 8, None), (0, 8, None)]  # half is shared
    assert before[1].seconds > before[0].seconds > 0
    after = standings(both, there, slot)
    assert [(one.trained, one.left) for one in after] == [(8, 0), (8, 8)]
    assert after[0].checks == []
    assert after[0].seconds == 0


def test_what_was_found_stays_until_there_is_something_new(question, there, slot):
    job = prepare(question, "cpu", None, there, slot)
    before = {path.name: path.read_bytes() for path in job.run.path.iterdir()}
    assert {"config.json", "measurement.json", "summary.json", "figure.png"} <= before.keys()
    with pytest.raises(Unfinished):
        execute(prepare(question, "cpu", 3, there, replace(slot, deadline=1.0)))
    assert {path.name: path.read_bytes() for path in job.run.path.iterdir()} == before


def test_a_curve_that_lacks_a_line_is_none(question, there, slot, monkeypatch):
    def finished(pool, every):
        records = read(pool, every)
        return {arm: {**one, "curve": one["curve"][arm.seed :]} for arm, one in records.items()}

    read = pools.Pool.finished
    monkeypatch.setattr(pools.Pool, "finished", finished)
    (group,) = measurement(question, there, slot)["groups"].values()
    assert [curve is None for curve in group["curve"]["vanilla"]] == [False, True]
    assert math.isnan(over(group, 0.0, 9.0)["vanilla"][1])


def test_committed_lines_count(question, there, tmp_path, slot, monkeypatch):
    found = measurement(question, there, slot)
    monkeypatch.setattr(pools, "committed_results", lambda: there)
    assert measurement(question, tmp_path / "here", Slot(jobs=1))["groups"] == found["groups"]
    assert not RunFolder(tmp_path / "here" / pools.FOLDER).metrics()


def test_how_long_it_takes_is_said_first(question, tmp_path, slot, monkeypatch, capsys):
    monkeypatch.setattr(pools, "LONG", 0.0)
    monkeypatch.setattr(pools, "train_sharing", lambda *_, **__: {})
    hours = "asking: 8 trainings to go, about 0.0 hours of one core"
    for given, there in ((slot, True), (replace(slot, deadline=1.0), False)):
        with pytest.raises(Unfinished, match="0 of 8 trainings are finished; a comparison needs 2 seeds of all arms"):
            measurement(question, tmp_path, given)
        assert (hours in capsys.readouterr().err) == there


def test_hours_left_tell_calls_from_operations_once_sizes_differ(setting):
    def arms_of(width):
        question = Asking(setting, width)
        return question.every(question.profiles["cpu"].config, 1, pools.Pool(Path("nowhere"), Slot()))

    def records(arms, call, operation):
        return {arm: {"tokens_per_second": 1 / (call + operation * pools._flops(arm))} for arm in arms}

    def seconds(trunk, call, operation):
        arm = trunk.arms[-1]
        tokens = trunk.steps() * arm.recipe.batch * arm.context
        return pools.BESIDES * tokens * (call + operation * pools._flops(arm))

    (large, *_) = trunks(arms_of(64))
    time = {"call": 1e-4, "operation": 1e-10}
    three_sizes = pools.prices(records([*arms_of(8), *arms_of(16), *arms_of(32)], **time))
    assert three_sizes(large) == pytest.approx(seconds(large, **time))
    one_size = pools.prices(records(large.arms, **time))
    assert one_size(large) == pytest.approx(seconds(large, **time))
    assert pools.prices({})(large) == seconds(large, call=0.0, operation=pools.SECONDS_PER_FLOP)


# `crosslayer campaign`: what is trained and left, what can be said, and going on with it.


@pytest.fixture
def small(question, tmp_path, monkeypatch):
    """The question is the only one; the folder for its runs."""
    monkeypatch.setattr(catalogue, "names", lambda _: ["asking"])
    monkeypatch.setattr(catalogue, "experiment", lambda _: question)
    return tmp_path / "runs"


def answered(capsys, *arguments):
    status = main(["campaign", *map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.mark.long
def test_it_shows_stops_when_time_is_up_goes_on_and_shows_what_can_be_said(small, text, capsys):
    status, out, _ = answered(capsys, "--out", small)
    assert (status, out.split("\n")[1].split()[:3]) == (0, ["asking", "0", "8"])
    assert "nothing can be said yet" in out
    assert not small.exists()
    status, _, errors = answered(capsys, "--out", small, "--data", text, "--minutes", "0.0001")
    assert status == 0
    assert "time is up: asking: 0 of 8 trainings are finished" in errors
    status, out, _ = answered(capsys, "--out", small, "--data", text, "--minutes", "9", "--json")
    (found,) = json.loads(out)
    assert (status, found["trained"], found["left"], found["hours_left"], found["checks"]) == (0, 8, 0, 0.0, [])
    assert len((small / "campaign" / "metrics.jsonl").read_text().splitlines()) == 8
    assert answered(capsys, "--out", small, "--minutes", "9", "--json")[1] == out  # without the text


@pytest.mark.usefixtures("small")
def test_when_time_is_up_later_questions_still_read_what_is_trained(setting, text, there, capsys, monkeypatch):
    first, last = Asking(setting, 16), Asking(setting, 8)
    first.name, first.order = "larger", 1
    monkeypatch.setattr(catalogue, "names", lambda _: ["asking", "larger"])
    monkeypatch.setattr(catalogue, "experiment", {"asking": last, "larger": first}.__getitem__)
    shutil.rmtree(there / "asking")
    status, out, errors = answered(capsys, "--out", there, "--data", text, "--minutes", "0.0001", "--json")
    assert status == 0
    assert errors.count("time is up") == 1
    assert [(one["question"], one["checks"]) for one in json.loads(out)] == [("larger", None), ("asking", [])]


def test_text_that_is_missing_is_named_in_one_line_before_anything_is_written(small, setting, there, capsys):
    """Though there is something to compare, as where all that a smaller question needs is trained."""
    missing = "crosslayer: trainings are missing, and need --data FOLDER: the tests' text\n"
    assert answered(capsys, "--out", small, "--minutes", "1") == (2, "", missing)
    assert not small.exists()
    two = Asking(setting, 8, 16)
    with pytest.MonkeyPatch.context() as other:
        other.setattr(catalogue, "experiment", lambda _: two)
        before = sorted(there.rglob("*"))
        assert answered(capsys, "--out", there, "--minutes", "1") == (2, "", missing)
        assert sorted(there.rglob("*")) == before
