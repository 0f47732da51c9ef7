"""Two processes train as one does, to the rounding of sums; what one leaves the other reads."""

import itertools
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from icl.checkpoint import Checkpoints
from icl.training.loop import train
from icl.training.processes import Alone
from tests.icl.training.parallel.launching import together
from tests.icl.training.parallel.two import CASES, RESUMED, report
from tests.icl.training.small import ALWAYS, COMPILED, RECIPE, assert_same_bits, numbers, reader, text, weights_of

EPS = {True: torch.finfo(torch.float64).eps, False: torch.finfo(torch.float32).eps}
MEAN = 4 * torch.finfo(torch.float32).eps  # of a few dozen losses, which are float32: by parts, and at once


def one(folder=None, reports=None):
    """The case that is resumed, in this process."""
    model = RESUMED.model()
    running = train(model, RESUMED.task(), RESUMED.recipe, 3, folder=folder, seconds_between_saves=ALWAYS)
    seen = [report(x) for x in itertools.islice(running, reports)]
    running.close()
    return seen, model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where one has begun a training, and two have gone through everything after it."""
    folder = tmp_path_factory.mktemp("two")
    one(folder / "one", reports=3)
    return folder


@pytest.fixture(scope="module")
def found(place):
    return together(place)


@pytest.fixture(scope="module")
def whole():
    return one()


def assert_same_reports(ours, theirs, rounding):
    assert [x[0] for x in ours] == [x[0] for x in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[1:] == pytest.approx(other[1:], rel=rounding)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.long
def test_losses_norms_and_weights_are_those_of_one_process(name, place, found):
    """A rounding of the gradient moves Adam's step by at most rate * rounding / eps."""
    case, ours = CASES[name], [ranks["trained"][name] for ranks in found]
    assert ours[0] == ours[1]
    model = case.model()
    theirs, weights = case.run(model), load_file(place / f"{name}.safetensors")
    if case.double:
        assert_same_reports(ours[0], theirs, MEAN)
        terms = case.recipe.batch * case.task(**case.options).tokens
        most = case.recipe.steps * case.recipe.learning_rate * terms * EPS[True] / case.recipe.eps
    else:
        most = torch.finfo(torch.bfloat16).eps if case.recipe.precision == "bf16" else 1e-4
        assert_same_reports(ours[0], theirs, most)
        most *= 4  # of a weight, whose gradient may all but vanish
    assert weights.keys() == {name for name, _ in model.named_parameters()}
    for key, p in model.named_parameters():
        assert float((weights[key] - p.detach()).abs().max()) <= most, key
    start = dict(case.model().named_parameters())
    assert max(float((weights[key] - p.detach()).abs().max()) for key, p in start.items()) > 1e-3


@pytest.mark.parametrize("wrong", ["same_share", "own_norm"])
def test_processes_that_do_it_wrongly_would_be_noticed(wrong, found):
    right, ours = found[0]["trained"]["vanilla, tied"], found[0][wrong]
    with pytest.raises(AssertionError):
        assert_same_reports(ours, right, 1e4 * MEAN)


@pytest.mark.parametrize("name", ["recomputed", "compiled"])
def test_activations_made_again_and_sublayers_on_their_own_change_nothing(name, found):
    case = "attnres" if name == "recomputed" else "float32"
    assert_same_reports(found[0][name], found[0]["trained"][case], MEAN)


@pytest.mark.long
def test_recomputing_changes_no_bit_of_one_process():
    """With dropout too, whose masks are made again."""
    kept, again = reader(), reader()
    seen = [[numbers(x) for x in train(model, text(), RECIPE, 3, processes=Alone(recomputed=redo))]
            for model, redo in ((kept, False), (again, True))]  # fmt: skip
    assert seen[0] == seen[1]
    assert_same_bits(weights_of(kept), weights_of(again))


def test_killed_and_resumed_they_end_the_same(place, found, whole):
    seen, model = whole
    ours = found[0]["killed"]
    assert ours["there"] == ["checkpoint-000000004", "checkpoint-000000008"]
    assert_same_reports(ours["before"], seen[:3], MEAN)
    assert_same_reports(ours["after"], seen[2:], MEAN)
    assert ours["after"][0] == ours["before"][2]
    assert_near(load_file(place / "killed.safetensors"), model)


def assert_near(weights, model):
    for key, p in model.named_parameters():
        assert torch.allclose(weights[key], p.detach(), rtol=0, atol=1e-9), key


def test_two_go_on_where_one_was_killed(place, found, whole):
    seen, model = whole
    assert_same_reports(found[0]["of_one"], seen[2:], MEAN)
    assert_near(load_file(place / "of one.safetensors"), model)


def test_one_goes_on_where_two_were_killed(place, found, tmp_path, whole):  # noqa: ARG001
    """From their checkpoint of step 4; it has the names, shapes and numbers of one process's."""
    seen, expected = whole
    name = "checkpoint-000000004"
    shutil.copytree(place / "killed" / name, tmp_path / name)
    ours = Checkpoints(tmp_path, "", pytest.fail).newest(of_any=True)
    content = load_file(place / "one" / name / "state.safetensors")
    assert ours.tensors.keys() == content.keys()
    for name, tensor in ours.tensors.items():
        assert tensor.dtype == content[name].dtype
        torch.testing.assert_close(tensor, content[name], rtol=1e-9, atol=1e-9)
    after, model = one(tmp_path)
    assert_same_reports(after, seen[2:], MEAN)
    assert_near(weights_of(model), expected)


def test_what_is_saved_while_training_goes_on_is_what_there_was(place, found):
    content = Checkpoints(place / "slow", "", pytest.fail).newest(of_any=True)
    assert content.step == 2
    _, model = one(place / "until 2", reports=2)
    expected = load_file(place / "until 2" / "checkpoint-000000002" / "state.safetensors")
    for name, tensor in content.tensors.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-9, atol=1e-9)
    assert any(not torch.allclose(p, content.tensors[f"model.{name}"]) for name, p in model.named_parameters())
    assert found[0]["meanwhile"]["there"] == ["checkpoint-000000002"]


def test_all_stop_where_one_is_told_to(found):
    assert found[0]["stopped"] == found[1]["stopped"] == {"reports": 1, "there": ["checkpoint-000000002"]}


def test_all_diverge_where_one_does(found):
    ours, theirs = (ranks["diverged"] for ranks in found)
    assert ours == theirs
    assert ours["seen"][1].startswith("training diverged by step 4: loss nan")
    assert ours["there"] == ["checkpoint-000000002"]


def test_a_damaged_part_gives_way_to_the_checkpoint_before(found):
    """The first process tells of it, whichever process has seen it."""
    ours, theirs = (ranks["damaged"] for ranks in found)
    (said,) = ours["newest"]["said"]
    assert "checkpoint-000000008 cannot be read (shard-00002" in said
    assert ours["newest"]["outcome"] == theirs["newest"]["outcome"] == found[0]["killed"]["after"]
    assert len(ours["every"]["said"]) == 2
    assert ours["every"]["outcome"][0] == "BadCheckpoint"
    assert theirs["every"] == {"said": [], "outcome": ["OfAnother", "2"]}


def test_a_folder_of_another_training_is_refused(found):
    kind, said = found[0]["foreign"]
    assert kind == "BadCheckpoint"
    assert "belongs to another run" in said
    assert found[1]["foreign"] == ["OfAnother", "2"]


def test_a_full_disk_is_told_of_by_the_process_that_meets_it(found):
    """As soon as anybody waits for what was saved; what had been saved is there."""
    ours, theirs = (ranks["full"] for ranks in found)
    assert {ours["said"][0], theirs["said"][0]} <= {"OSError", "OfAnother"}
    assert any(
        "No space left on device" in said and "checkpoint-" in said for _, said in (ours["said"], theirs["said"])
    )
    assert ours["there"] == ["checkpoint-000000002"]


@pytest.mark.slow
@COMPILED
def test_what_torch_compile_makes_of_sublayers_trains_the_same(tmp_path):
    case = CASES["float32"]
    case = replace(case, recipe=replace(case.recipe, steps=4, log_every=4))
    theirs = case.run(case.model())
    assert_same_reports(together(tmp_path, "compiled")[0]["really_compiled"], theirs, 1e-4)


def test_what_fails_in_one_is_told_once(found):
    assert found[0]["failing"] == [["ValueError", "it is 0"], ["OfAnother", "2"]]
    assert found[1]["failing"] == [["OfAnother", "2"], ["ValueError", "it is 1"]]
