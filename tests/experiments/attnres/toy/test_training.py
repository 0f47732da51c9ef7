"""Toys that are trained: prompts side by side, arms, and the largest of what they read."""

from dataclasses import replace

import pytest
import torch

from experiments.attnres.toy.toys import NETWORKS
from experiments.attnres.toy.training import PROBE, SideBySide, ToyArm, largest
from experiments.store.folders import RunFolder, Slot
from experiments.training import probes, stacks
from experiments.training.arms import Arm, PromptSource, prompt_task
from experiments.training.pool import train_all
from icl.prompts import RegressionTask
from icl.stacks.feed import StackTask
from tests.experiments.attnres.toy.made_up import SMOKE

SOURCE = PromptSource(2, 4, 0.5, 64, scored="last")
ROUNDING = 100 * torch.finfo(torch.float32).eps  # of few steps


def arm(name="residual", kind=ToyArm, depth=2, **changes):
    network = NETWORKS[name]
    sizes = SMOKE.trained(network, depth)
    return kind(architecture=sizes, variant=network.variant, source=SOURCE, recipe=SMOKE.recipe, seed=0, **changes)


def test_the_prompts_are_those_of_single_tokens():
    ours, theirs = SideBySide(RegressionTask(2, 4, 0.5), 64), prompt_task(SOURCE)
    for a, b in ((ours.batch(3, 5, 8), theirs.batch(3, 5, 8)), (next(ours.held_out()), next(theirs.held_out()))):
        assert torch.equal(a.targets[:, 0], b.targets[:, -1])
        assert torch.equal(a.inputs[:, :, :2], b.inputs[:, ::2])
        assert torch.equal(a.inputs[:, :-1, 2:], b.inputs[:, 1::2])
        assert not a.inputs[:, -1, 2:].any()
    assert ours.tokens == 5


def test_the_query_s_y_slot_is_scored():
    task = SideBySide(RegressionTask(2, 4, 0.5), 64)
    answer, targets = torch.zeros(3, 5, 4), torch.ones(3, 1, 2)
    assert torch.equal(task.losses(answer, targets), torch.full((3, 1), 2.0))
    answer[:, -1, 2:] = 1
    assert not task.losses(answer, targets).any()


def test_an_arm_is_no_other_s():
    ours, plain = arm(), arm(kind=Arm)
    assert isinstance(ours.task(), SideBySide)
    assert ours.key("cpu") != plain.key("cpu")
    assert ours.key("cpu") != replace(ours, twin=True).key("cpu")
    assert len({arm(name).key("cpu") for name in NETWORKS}) == len(NETWORKS)


def test_norms_stand_where_they_are_said_to():
    for name, network in NETWORKS.items():
        model = arm(name).model("cpu")
        of_sublayers = {f"layers.{n}.attention.norm.weight" for n in range(2)}
        names = {name for name, _ in model.named_parameters()}
        assert ("norm.weight" in names) == network.head
        assert names & of_sublayers == (of_sublayers if network.normed else set())
        assert ("depth.gain" in dict(model.named_parameters())) == network.keys_normed


def test_the_largest_read_grows_with_the_prompts_and_may_be_no_number():
    assert probes.probe(PROBE) is largest
    found = arm(std=0.5)
    usual, wide = largest(found.model("cpu"), found.task(), "cpu")
    assert 1 < usual < wide
    assert largest(arm(std=100.0, depth=6).model("cpu"), found.task(), "cpu") == [None, None]
    normed = arm("full+keys+sublayers", std=0.5)
    usual, wide = largest(normed.model("cpu"), normed.task(), "cpu")
    assert wide == pytest.approx(usual, rel=2)


def test_a_stack_s_prompts_are_those_of_its_seeds():
    task = SideBySide(RegressionTask(2, 4, 0.5), 64)
    assert isinstance(task, StackTask)
    together = task.batches([3, 1], 5, 8)
    for i, seed in enumerate((3, 1)):
        alone = task.batch(seed, 5, 8)
        torch.testing.assert_close(together.inputs[i], alone.inputs)
        torch.testing.assert_close(together.targets[i], alone.targets)
    assert not torch.equal(together.inputs[0], together.inputs[1])


def test_stacked_every_network_ends_where_it_ends_alone(tmp_path):
    arms = [replace(arm(name, std=SMOKE.std, probes=(PROBE,)), seed=seed) for name in NETWORKS for seed in (0, 1)]
    assert {len(stack.members) for stack in stacks.stacks(arms)} == {2}
    alone = train_all(arms, RunFolder(tmp_path / "alone", Slot(jobs=1)), "alone")
    stacked = stacks.train_stacked(arms, RunFolder(tmp_path / "stacked", Slot(jobs=1)), "stacked")
    for one, other in zip(alone.values(), stacked.values(), strict=True):
        assert one.keys() == other.keys()
        for same in ("arm", "key", "parameters", "diverged", "tokens", "magnitudes", "source"):
            assert one.get(same) == other.get(same), same
        assert other["loss"] == pytest.approx(one["loss"], rel=ROUNDING)
        (before, after), (start, end) = ([r["probes"][PROBE][at] for at in ("start", "end")] for r in (one, other))
        assert start == before
        assert end == pytest.approx(after, rel=10 * ROUNDING)
        assert end != pytest.approx(start, rel=1e-3)
    assert len({tuple(record["probes"][PROBE]["end"]) for record in stacked.values()}) == len(arms)


def test_what_stacks_with_what():
    """The twin beside its network; other networks, probes and prompts apart."""
    ours, plain = arm(), arm(kind=Arm)
    together = [ours, replace(ours, twin=True), replace(ours, seed=1)]
    found = stacks.stacks([*together, plain, replace(ours, probes=(PROBE,)), arm("residual+head")])
    assert [stack.members for stack in found if len(stack.members) > 1] == [
        tuple(replace(one, recipe=found[0].members[0].recipe) for one in together)
    ]
    assert len(found) == 4
