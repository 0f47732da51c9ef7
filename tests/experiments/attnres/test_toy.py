"""`attnres-toy`: what is predicted, prompts and decoders, toys that are trained, and verdicts that turn."""

import math
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch

from experiments.attnres.networks import descending
from experiments.attnres.toy.experiment import EXPERIMENT, differences, exponents, interval
from experiments.attnres.toy.toys import BASELINE, NETWORKS, TWIN, answer, cell, predicted, start
from experiments.attnres.toy.training import (
    PROBE,
    SideBySide,
    ToyArm,
    at_widths,
    largest,
    last_read,
    last_squares,
    log_weights,
    own_weights,
    side_by_side,
    stepping,
    weighing,
)
from experiments.cli import main
from experiments.drawing import style
from experiments.store.folders import RunFolder, Slot
from experiments.training import probes, stacks
from experiments.training.arms import Arm, PromptSource, prompt_task
from experiments.training.pool import train_all
from icl.prompts import Generator, RegressionTask
from icl.stacks.training import StackTask
from tests.experiments.committed import as_stored, verdicts
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.plans.setting import Setting
from theory.prompts.regression import steps, trace_moments
from theory.prompts.spectral import best_polynomial, best_steps, noise_threshold
from theory.toy import stack

SMOKE = EXPERIMENT.profiles["smoke"].config
judged = partial(verdicts, EXPERIMENT)
SEEDS = 8  # of trained toys
NOISE = (-0.02, 0.01, 0.015, -0.01, 0.02, -0.015)  # of six seeds, mean 0
SOME_WIDTHS = (1.0, 2.0, 3.0)
SOURCE = PromptSource(2, 4, 0.5, 64, scored="last")
ROUNDING = 100 * torch.finfo(torch.float32).eps  # of few steps


@pytest.fixture(scope="module")
def few():
    """What theory says of one deep toy at two numbers of layers."""
    return predicted(replace(SMOKE, deep=(Setting(5, 8, 2.0),), layers=(2, 4), noises=(1.0, 2.0)))


def test_curves_pass_through_what_is_measured(few):
    for kind, rule, depth in SMOKE.starts():
        square = few["start"][start(kind, rule, depth, "context")]
        assert few["curves"][f"{kind}/{rule}"][depth - 1] == square


def test_bounded_are_those_with_norms_before_sublayers_and_weights_over_depth(few):
    assert set(few["bounded"]) == {
        name for name, x in NETWORKS.items() if x.normed and x.variant not in ("vanilla", "denseformer")
    }


@pytest.mark.parametrize(
    ("rule", "share", "step"),
    [("vanilla", 1, 1), ("attnres", Fraction(1, 4), 1), ("denseformer", 1, Fraction(1, 2))],
)
def test_one_layer_by_hand(few, rule, share, step):
    """The last read is (x ; Y (1 - b X^T X)) in a residual stream, half of it under Full, and with means over depth the
    mean of the embedding and of it with the layer's output."""
    d, n, noise, b = SMOKE.task.d, SMOKE.task.n, Fraction(SMOKE.task.sigma) ** 2, Fraction(SMOKE.step) * step
    one, two, three = trace_moments(d, n, 4)[1:4]
    expected = d + d * (one - 2 * b * two + b**2 * three + noise * (n - 2 * b * one + b**2 * two)) / n
    assert few["curves"][f"descent/{rule}"][0] == pytest.approx(float(share * expected))


def test_the_deep_toy_loses_what_the_theorem_has(few):
    four, two = (few["deep"][answer(Setting(5, 8, 2.0), layers)] for layers in (4, 2))
    assert four["depth"] == pytest.approx(31.35, abs=5e-3)
    assert four["residual"] == pytest.approx(31.69, abs=5e-3)
    assert two["residual"] == pytest.approx(steps(5, 8, 2.0, 2).value)
    assert two["one layer"] == pytest.approx(45 - 25 * 8 / 18)
    assert few["gains"]["5/8/4"] == [0.0, pytest.approx(four["gain"] / (four["residual"] - 20))]
    assert noise_threshold(5, 8, 4) > 1


@pytest.mark.long
def test_no_torch():
    statement = (
        "import sys; from experiments import catalogue; e = catalogue.experiment('attnres-toy'); "
        "e.predict(e.profiles['smoke'].config); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", statement], check=False).returncode == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"prompts": 91}, "equally often"), ({"widths": (2.0, 3.0)}, "as they come")],
)
def test_bad_configs(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SMOKE, **changes)


def some_prompts(count=6, d=2, n=4):
    return RegressionTask(d, n, 0.5).sample(count, Generator(9), torch.float64)


def test_tokens_hold_pairs_and_the_query_no_answer():
    drawn = some_prompts()
    tokens = side_by_side(drawn)
    expected = [stack.side_by_side(x[:, :-1], y[:, :-1], x[:, -1]) for x, y in zip(drawn.x, drawn.y, strict=True)]
    np.testing.assert_array_equal(tokens, np.stack(expected))


def test_wide_prompts_have_the_same_tasks_noise_and_query():
    drawn = some_prompts()
    wide = at_widths(drawn, torch.tensor([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]))
    torch.testing.assert_close(wide.x[4:, :, :-1], 3 * drawn.x[4:, :, :-1])
    torch.testing.assert_close(wide.x[:, :, -1], drawn.x[:, :, -1])
    torch.testing.assert_close(wide.y - wide.w @ wide.x, drawn.y - drawn.w @ drawn.x)
    torch.testing.assert_close(wide.label, drawn.label)
    assert torch.equal(at_widths(drawn, 1.0).x, drawn.x)


def test_weights_make_wide_numbers_plain_ones():
    """Means of 1, |z|^2 and |z|^8 in five dimensions; the last by rare numbers."""
    each = torch.tensor(SOME_WIDTHS).double().repeat_interleave(20_000)
    z = Generator(9).normal((60_000, 5), torch.float64) * each[:, None]
    weights, squares = log_weights(z, SOME_WIDTHS).exp(), z.square().sum(1)
    assert weights.max() <= len(SOME_WIDTHS)
    for power, mean in ((0, 1), (1, 5), (4, 5 * 7 * 9 * 11)):
        sample = weights * squares**power
        assert abs(sample.mean() - mean) < 5 * sample.std() / len(z) ** 0.5 < 0.2 * mean
    torch.testing.assert_close(log_weights(z, (1.0,)), torch.zeros(len(z), dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("rule", ["vanilla", "attnres", "attnres-block:size=2"])
def test_every_prompt_has_weights_of_its_own(rule):
    drawn, plan = some_prompts(3), resolve(rule, Shape(3, 1))
    weights = Generator(8).normal((3, 3, 2, 2), torch.float64) / 10
    model = descending(plan, 4, torch.eye(2, dtype=torch.float64).expand(3, 2, 2))
    with own_weights(model, weights):
        together = last_read(model, drawn)
    for i, of_prompt in enumerate(weights):
        torch.testing.assert_close(together[i], last_read(descending(plan, 4, of_prompt), drawn)[i])
    assert not torch.allclose(last_read(model, drawn), together)


def test_prompts_as_they_come_stand_first_and_rules_see_the_same():
    config = replace(SMOKE, prompts=4)
    squares, weights = last_squares(config, "random", "vanilla", 2, seed=0)
    assert squares.shape == (12, 5)
    assert torch.equal(weights, last_squares(config, "random", "attnres", 2, seed=0)[1])
    alone, plain = last_squares(replace(config, widths=(1.0,), wider=(1.0,)), "descent", "vanilla", 2, seed=0)
    torch.testing.assert_close(plain, torch.ones(4, dtype=torch.float64))
    assert alone.shape == (4, 5)


@pytest.mark.parametrize("layers", [2, 4])
def test_constructed_decoders_make_their_polynomials(layers):
    setting, drawn = Setting(3, 5, 2.0), some_prompts(4, d=3, n=5)
    sizes = best_steps(3, 5, 2.0, layers).steps
    product = np.poly([1 / eta for eta in sizes])[::-1]  # coefficients ascending, of roots 1 / eta
    stepped = product / product[0]
    best = [float(c) for c in best_polynomial(3, 5, 2, layers).residual]
    for (model, readout), residual in ((weighing(setting, layers), best), (stepping(setting, layers), stepped)):
        for x, y, read in zip(drawn.x.numpy(), drawn.y.numpy(), last_read(model, drawn), strict=True):
            expected = stack.polynomial_prediction(list(residual), x[:, :-1], y[:, :-1], x[:, -1])
            np.testing.assert_allclose(readout * read[-1, 3:], expected, atol=1e-9 * np.abs(expected).max())


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
    plain = arm(std=0.5)
    usual, wide = largest(plain.model("cpu"), plain.task(), "cpu")
    assert 1 < usual < wide
    assert largest(arm(std=100.0, depth=6).model("cpu"), plain.task(), "cpu") == [None, None]
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


@pytest.mark.long
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
    grouped = stacks.stacks([*together, plain, replace(ours, probes=(PROBE,)), arm("residual+head")])
    assert [stack.members for stack in grouped if len(stack.members) > 1] == [
        tuple(replace(one, recipe=grouped[0].members[0].recipe) for one in together)
    ]
    assert len(grouped) == 4


def made_up(prediction):
    """Squares and losses within 2 % of theory; reads that do not grow with norms, and as a power 8 without."""
    trained = {
        cell(name, depth): [made_up_reads(name, depth, seed) for seed in range(SEEDS)]
        for name in (*NETWORKS, TWIN)
        for depth in prediction["trained_depths"]
    }
    deeper = {
        cell(name, prediction["deeper"]): [[4.0, 5.0] if name in NETWORKS and NETWORKS[name].normed else None] * SEEDS
        for name in (*NETWORKS, TWIN)
    }
    return {
        "squares": {at: [square * (1 + x) for x in NOISE] for at, square in prediction["start"].items()},
        "plain": {str(depth): [1.0] * 6 for depth in prediction["depths"]},
        "answers": {
            at: [{what: exact[what] + exact["gain"] * x for what in ("depth", "residual")} for x in NOISE]
            for at, exact in prediction["deep"].items()
        },
        "trained": trained | deeper,
    }


def made_up_reads(name, depth, seed):
    """On prompts as they come, and wide ones.  The twin differs by noise alone."""
    if name in NETWORKS and NETWORKS[name].normed:
        return [4.0 + seed / 10, 5.0 + seed / 10]
    noise = (1, -1)[(seed + (name == TWIN)) % 2]
    return [4.0 + noise / 10, 100 * float(depth) ** (8 + noise)]


@pytest.fixture(scope="module")
def prediction():
    return as_stored(EXPERIMENT.predict(SMOKE))


@pytest.fixture
def measurement(prediction):
    return made_up(prediction)


@pytest.mark.long
def test_smoke_from_end_to_end(tmp_path, prediction):
    assert main(["run", EXPERIMENT.name, "--profile", "smoke", "--jobs", "1", "--out", str(tmp_path)]) == 0
    (folder,) = (tmp_path / EXPERIMENT.name).glob("smoke-*")
    run = RunFolder(folder)
    assert run.read("prediction.json") == prediction
    measurement, summary = run.read("measurement.json"), run.read("summary.json")
    assert set(measurement["trained"]) == {
        cell(name, depth) for name in (*NETWORKS, TWIN) for depth in (*SMOKE.trained_depths, SMOKE.deeper)
    }
    assert {check["claim"] for check in summary["checks"]} == set(EXPERIMENT.claims)
    assert not any(check["verdict"] in ("fail", "contradicts") for check in summary["checks"])
    assert (folder / "figure.png").stat().st_size > 10_000


def test_what_agrees_with_theory_passes(prediction, measurement):
    found = judged(prediction, measurement)
    theory = {name: verdict for name, verdict in found.items() if not name.startswith(("exponent", "diverged"))}
    assert set(theory.values()) == {"pass"}
    assert len(theory) == len(prediction["start"]) + 3 * len(prediction["deep"])
    assert found["diverged/3"] == found["diverged/3/head"] == "agrees"
    assert {verdict for name, verdict in found.items() if name.startswith("exponent/three")} == {"agrees"}
    assert {verdict for name, verdict in found.items() if name.startswith("exponent/as they")} == {"inconclusive"}


@pytest.mark.parametrize(
    ("what", "at", "alter", "failing"),
    [
        ("squares", "descent/vanilla/4/context", lambda x: 1.1 * x, "start/descent/vanilla/4/context"),
        ("squares", "random/attnres/2/query", lambda x: 0.9 * x, "start/random/attnres/2/query"),
        ("answers", "d5-n8-s2.0/4", lambda x: {**x, "depth": x["residual"]}, "gain/d5-n8-s2.0/4"),
        ("answers", "d5-n8-s2.0/3", lambda x: {what: x[what] + 1 for what in x}, "loss/depth/d5-n8-s2.0/3"),
    ],
)
def test_what_is_measured_otherwise_fails(prediction, measurement, what, at, alter, failing):
    before = judged(prediction, measurement)
    measurement[what][at] = list(map(alter, measurement[what][at]))
    after = judged(prediction, measurement)
    assert after[failing] == "fail"
    assert {name for name in before if before[name] != after[name]} <= {
        failing,
        failing.replace("gain/", "loss/depth/"),
        failing.replace("depth", "residual"),
    }


def test_wide_intervals_decide_nothing(prediction, measurement):
    for at, square in prediction["start"].items():
        measurement["squares"][at] = [square * (1 + 100 * x) for x in NOISE]
    found = judged(prediction, measurement)
    assert {found[f"start/{at}"] for at in prediction["start"]} == {"inconclusive"}


def test_norms_that_bound_nothing_are_no_agreement(prediction, measurement):
    """As if those toys did as the ones without, and diverged as they do."""
    for depth in (*prediction["trained_depths"], prediction["deeper"]):
        for name in NETWORKS:
            measurement["trained"][cell(name, depth)] = measurement["trained"][cell(BASELINE, depth)]
    found = judged(prediction, measurement)
    assert {v for name, v in found.items() if name.startswith(("exponent", "diverged"))} == {"inconclusive"}


def test_a_twin_that_differs_too_leaves_nothing_to_say(prediction, measurement):
    for depth in prediction["trained_depths"]:
        same = measurement["trained"][cell("full+keys+sublayers", depth)]
        measurement["trained"][cell(TWIN, depth)] = same
    found = judged(prediction, measurement)
    assert {v for name, v in found.items() if name.startswith("exponent")} == {"inconclusive"}


def test_seeds_that_diverged_are_left_out_and_told(prediction, measurement):
    measurement["trained"][cell("full+keys", 2)][:2] = [None, [3.0, None]]
    checks = {check.id: check for check in EXPERIMENT.compare(prediction, measurement)}
    wide = checks["exponent/three times as wide/full+keys+sublayers/full+keys"]
    usual = checks["exponent/as they come/full+keys+sublayers/full+keys"]
    assert wide.statement.endswith("6 of 8 seeds")
    assert usual.statement.endswith("7 of 8 seeds")
    assert wide.verdict == "agrees"
    measurement["trained"][cell("full+keys", 2)] = [None] * 8
    found = judged(prediction, measurement)
    assert found[wide.id] == "inconclusive"
    assert found["exponent/three times as wide/full+keys+sublayers/residual"] == "agrees"
    with style.drawing():
        EXPERIMENT.draw(prediction, deepcopy(measurement))


def test_exponents_are_slopes(prediction, measurement):
    assert exponents(prediction, measurement, BASELINE, "three times as wide") == pytest.approx([9, 7] * 4)
    assert differences([1.0, math.nan, 3.0], [0.5, 1.0, math.nan]) == [0.5]
    assert math.isnan(interval([0.5], 1).mean)
