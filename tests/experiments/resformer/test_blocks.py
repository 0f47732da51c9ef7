"""`resformer-blocks`: it measures what it says, and it rejects altered closed forms."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from experiments.resformer.blocks import linear
from experiments.resformer.blocks.experiment import EXPERIMENT, Config
from experiments.resformer.blocks.linear import BLOCK, CROSS, TOYS, WAYS, moved_keys, own_keys
from experiments.resformer.blocks.softmax import climbed, random_rows, variation
from icl.prompts import Generator, RegressionTask
from icl.toys.stacked import StackedToys, ToySpec
from tests.experiments.committed import committed
from theory.plans.setting import Setting
from theory.prompts.moments import PromptMoments
from theory.resformer.weights import ONE_HEAD
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss

NAME = EXPERIMENT.name


def test_the_toys_are_those_of_the_theorem():
    """Cross-layer attention pairs copied with copied and raw with raw; its block form has one key for both values."""
    kinds = {name: [(h.copied, h.raw, h.key_copied, h.key_raw) for h in heads] for name, heads in TOYS.items()}
    assert kinds == {CROSS: [(1, 0, 1, 0), (0, 1, 0, 1)], BLOCK: [(1, 0, 1, 0), (0, 1, 1, 0)]}
    assert [len({h.key for h in TOYS[name]}) for name in (CROSS, BLOCK)] == [2, 1]
    assert {(h.copied, h.raw, h.key_copied, h.key_raw) for h in ONE_HEAD} == set(kinds[BLOCK])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [Setting(1, 3, 0.5), Setting(3, 4, 0.0)])
def test_keys_are_as_far_apart_as_is_said(size, way):
    """The root mean square of the difference over that of layer 2's keys, on 40,000 prompts' tokens."""
    prompts = RegressionTask(*size.floats).sample(40_000, Generator(8), torch.float64)
    x, y = prompts.x[..., :-1].numpy(), prompts.y[..., :-1].numpy()

    def mean_square(keys):
        of_x, by_x, by_y = keys
        return float(np.mean((of_x @ x) ** 2) + np.mean((by_x @ x + by_y @ y) ** 2))

    ratio = mean_square(moved_keys(size, way, 0.5)) / mean_square(own_keys(size))
    assert ratio**0.5 == pytest.approx(0.5, rel=0.02)


def test_variation_is_of_softmax_rows():
    rng = np.random.default_rng(1)
    for tokens, layers in ((1, 2), (4, 3)):
        own, moves = rng.standard_normal(tokens), rng.standard_normal((layers - 1, tokens))
        still, moved = np.tile(own, layers), np.concatenate([own, *(own + moves)])
        expected = np.abs(softmax(moved) - softmax(still)).sum() / 2
        assert variation(own, moves) == pytest.approx(expected, rel=1e-12)
    assert variation(own, 0 * moves) == 0


def test_climbing_finds_more_than_chance_and_repeats():
    eps = (0.5, 3.0)
    worst = climbed(eps, 2, climbs=2, steps=400)
    drawn = [row["most"] for row in random_rows(eps, 2, 200)]
    assert all(a > b for a, b in zip(worst, drawn, strict=True))
    assert worst == climbed(eps, 2, climbs=2, steps=400)


def test_the_difference_in_trained_toys_is_theirs():
    """At random weights: 1 within five errors of its prompts, and another toy's weights give another number."""
    specs = [ToySpec(RegressionTask(2, 4, 0.3), TOYS[CROSS], rank, seed) for rank in (1, 2) for seed in range(6)]
    toys = StackedToys(specs)
    with torch.no_grad():
        for name, numbers in toys.named_parameters():
            numbers.copy_(torch.randn(numbers.shape, generator=torch.Generator().manual_seed(2)))
            numbers.mul_(toys.get_buffer(f"mask_{name}"))
    ratios = np.array([linear.distance_over_theory(toys, i) for i in range(len(specs))])
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / len(ratios) ** 0.5
    assert ratios.std() < 0.1


def test_a_block_form_put_into_cross_layer_attention_is_read_by_the_first_keys():
    """At the optimum of `ONE_HEAD`, its K given twice, this is that optimum."""
    task = RegressionTask(2, 4, 0.3)
    loss = PopulationLoss(PromptMoments(2, 4, 0.3), TOYS[BLOCK])
    best = minimise(loss, 1, starts=1).weights
    toys = StackedToys([ToySpec(task, TOYS[CROSS], 1, 0)], dtype=torch.float64)
    with torch.no_grad():
        toys.u[0, 0, :1, :2], toys.u[0, 0, 1:, 2:] = torch.from_numpy(best.a), torch.from_numpy(best.b)
        toys.w[:, 0, 0] = 4 * torch.from_numpy(best.w)
        toys.k[0, 0, 0, :, :1] = torch.from_numpy(best.k[0])
    assert linear.swapped(toys, 0) == pytest.approx(loss.zero_loss - loss.value(best), rel=1e-9)


def test_altered_closed_forms_fail():
    """The committed measurements, held against theories that are a little wrong."""
    prediction, measurement = committed(NAME)

    def failed(altered):
        return {c.group.split(",")[0] for c in EXPERIMENT.compare(altered, measurement) if c.verdict == "fail"}

    assert not failed(prediction)
    keys = prediction["keys"]
    nearer = {key: {**one, "share": 0.9 * one["share"]} for key, one in keys.items()}
    assert failed({**prediction, "keys": nearer}) == {"keys apart"}
    toys = prediction["toys"]
    for factor in (0.98, 1.02):
        ranks = [{name: factor * signal for name, signal in rank.items()} for rank in toys["ranks"]]
        assert failed({**prediction, "toys": {**toys, "ranks": ranks}}) >= {"exact minimum", "trained"}
        bounds = {k: [factor * x for x in bound] for k, bound in prediction["softmax"]["bounds"].items()}
        groups = failed({**prediction, "softmax": {**prediction["softmax"], "bounds": bounds}})
        assert {"worst moves found"} <= groups <= {"worst moves found", "random rows and moves"}


def test_other_prompts_at_other_distances():
    config: Config = EXPERIMENT.profiles["smoke"].config
    size = config.keys[0]
    one = linear.Moved(size, 0.5, 100, 0)
    near, far = (replace(one, distance=distance).measured(None) for distance in (0.5, 1.0))
    assert near == one.measured(None)
    assert all(far[way] / near[way] != pytest.approx(4, rel=1e-6) for way in WAYS)
