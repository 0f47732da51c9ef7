"""Toys that are trained: prompts side by side, arms, and the largest of what they read."""

from dataclasses import replace

import pytest
import torch

from experiments.attnres.toy.points import NETWORKS
from experiments.attnres.toy.training import PROBE, SideBySide, ToyArm, largest
from experiments.training import probes
from experiments.training.arms import Arm, PromptSource, prompt_task
from icl.prompts import RegressionTask
from tests.experiments.attnres.toy.made_up import SMOKE

SOURCE = PromptSource(2, 4, 0.5, 64, scored="last")


def arm(name="residual", kind=ToyArm, depth=2, **changes):
    network = NETWORKS[name]
    sizes = SMOKE.trained(network, depth)
    changes |= {"bare": network.bare} if kind is ToyArm else {}
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
