"""The stack of toys: equal to its plain twin, toy by toy, in function, gradient and training."""

import contextlib
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.toys.runs import population_weights
from icl.checkpoint import TENSORS, BadCheckpoint
from icl.prompts import HELD_OUT_STREAM, TRAIN_STREAM, Generator, RegressionTask
from icl.testing import check_identity
from icl.toys.end_to_end import EndToEndSpec, EndToEndToys
from icl.toys.literal import Toy
from icl.toys.softmax import SoftmaxToys
from icl.toys.stack import explained_signal
from icl.toys.stacked import Gaussian, Given, Orthogonal, StackedToys, ToySpec
from icl.toys.training import identity, toy_recipe, train
from icl.toys.transformer import TransformerToys
from tests.crashes import flip
from tests.icl.toys.small import randomised
from tests.icl.toys.test_end_to_end import specs_of
from tests.icl.toys.test_softmax import SOFTMAX, TRANSFORMERS
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import MHA, ORDINARY, SKIPV1, Head, shares, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.prompts.moments import PromptMoments
from theory.resformer.weights import ONE_HEAD
from theory.toy.population import PopulationLoss

CHAINED = 8  # matrix products in a row, at most, in a prediction and its gradient
MIXED = (Head(0.5, 0.5), Head(0.0, 2.0))


def mixed_specs():
    """Sizes, ranks, seeds and architectures that share no shape, including rank 0, rank d and d = 1."""
    tasks = RegressionTask(1, 2, 0.3), RegressionTask(3, 5, 0.0), RegressionTask(4, 2, 1.0)
    return [
        ToySpec(task, heads, rank, seed)
        for task in tasks
        for heads, rank, seed in ((MHA, 0, 0), (SKIPV1, task.d, 0), (MIXED, task.d // 2, 1), (MHA, task.d // 2, 0))
    ]


def built(specs):
    return randomised(StackedToys(specs, dtype=torch.float64))


def twin(toys, i):
    spec = toys.specs[i]
    return Toy(**toys.parameters_of(i), heads=spec.heads, scale=1 / spec.task.n)


def test_every_toy_predicts_what_its_plain_twin_predicts():
    toys = built(mixed_specs())
    batch = toys.batch(6, TRAIN_STREAM, 0)
    stacked = toys(batch.moments, batch.query[..., None, :])[..., 0, :]
    for i, spec in enumerate(toys.specs):
        s, m = toys.locate[i]
        sample = spec.task.sample(6, Generator(TRAIN_STREAM, spec.seed, 0), torch.float64)
        expected = twin(toys, i)(sample.tokens()).detach()
        allowed = {"terms": CHAINED * (2 * spec.task.n + 1), "scale": 1 + float(expected.norm())}
        check_identity(stacked[s, m, :, : spec.task.d].detach(), expected, **allowed)
        assert not stacked[s, m, :, spec.task.d :].any()


SHARED = (Head(0.5, 2.0, 1.0, -0.5, key="k"), Head(1.0, 0.0, 0.0, 2.0, key="k"))
CROSS = toy_heads(resolve("cross-layer", Shape(2, 1)))  # raw values with raw keys
ONE_READOUT = (Head(1.0, 0.0, readout="w"), Head(0.0, 1.0, key_copied=0, key_raw=1, readout="w"))


def test_raw_keys_and_shared_matrices_are_read_as_the_formula_says():
    """W F K A x with F = sum over the tokens of value key^T, and the gradient goes into one matrix for all sharers."""
    tasks = RegressionTask(1, 2, 0.3), RegressionTask(3, 5, 0.5)
    kinds = (ONE_HEAD, SHARED, CROSS, MHA, ONE_READOUT)
    toys = built([ToySpec(task, heads, rank, 0) for task in tasks for heads in kinds for rank in (0, 1, task.d)])
    batch = toys.batch(4, TRAIN_STREAM, 0)
    stacked = toys(batch.moments, batch.query[..., None, :])[..., 0, :]
    for i, spec in enumerate(toys.specs):
        s, m = toys.locate[i]
        own, d = toys.weights(i), spec.task.d
        (readouts, of_w), (keys, of_k) = (shares(spec.heads, label) for label in ("readout", "key"))
        assert (len(own["w"]), len(own["k"])) == (readouts, keys)
        prompts = spec.task.sample(4, Generator(TRAIN_STREAM, 0, 0), torch.float64)
        x, y = prompts.x[..., :-1], prompts.y[..., :-1]
        u = torch.cat([own["a"] @ x, own["b"] @ y], dim=-2)
        expected = torch.zeros_like(prompts.query)
        for h, head in enumerate(spec.heads):
            value, key = head.copied * u + head.raw * y, head.key_copied * u + head.key_raw * y
            read = (head.copied + head.raw) * (head.key_copied + head.key_raw) * x @ x.mT + value @ key.mT
            matrix = own["w"][of_w[h]] @ read @ own["k"][of_k[h]] @ own["a"]
            expected = expected + (matrix @ prompts.query[..., None])[..., 0]
        size = 1 + float(expected.norm())
        check_identity(stacked[s, m, :, :d].detach(), expected, terms=CHAINED * (2 * spec.task.n + 1), scale=size)
    (gradient,) = torch.autograd.grad(toys.losses(batch).sum(), [toys.k])
    for i, spec in enumerate(toys.specs):
        if spec.heads in (ONE_HEAD, SHARED):
            assert not gradient[1][toys.locate[i]].any()
            assert gradient[0][toys.locate[i]].any() == (spec.rank > 0)


@settings(max_examples=10)
@given(st.integers(0, 11), st.integers(0, 50))
def test_gradients_are_the_plain_twin_s(i, step):
    toys = built(mixed_specs())
    u, w, k = torch.autograd.grad(toys.losses(toys.batch(4, TRAIN_STREAM, step)).sum(), [toys.u, toys.w, toys.k])
    spec, (s, m), plain = toys.specs[i], toys.locate[i], twin(toys, i)
    sample = spec.task.sample(4, Generator(TRAIN_STREAM, spec.seed, step), torch.float64)
    loss = (plain(sample.tokens()) - sample.label).square().sum(-1).mean()
    size = 1 + float(loss.detach())
    expected = torch.autograd.grad(loss, [plain.a, plain.b, plain.w, plain.k])
    d, rank, wide = spec.task.d, spec.rank, toys.d_max
    got = (u[s, m, :rank, :d], u[s, m, rank:d, wide : wide + d], w[:, s, m, :d, :d], k[:, s, m, :d, :rank])
    for ours, theirs in zip(got, expected, strict=True):
        check_identity(ours, theirs, terms=CHAINED * 4 * (2 * spec.task.n + 1), scale=size + float(theirs.norm()))


def test_toys_take_a_recipe_with_any_schedule_but_only_settings_that_they_know():
    toys = StackedToys([SPEC])
    rates = torch.full(toys.shape, SHORT.learning_rate)
    others = [{"decay": "cosine"}, {"decay": "late"}, {"floor": 0.1}, {"start": 0.1}, {"clip": 0.5}]
    assert len({identity(toys, replace(SHORT, **other), rates) for other in [{}, *others]}) == 6
    before = toys.u.detach().clone()
    for decay in ("cosine", "late"):
        list(train(toys, replace(SHORT, decay=decay, floor=0.1, clip=0.0)))
        assert not torch.equal(before, toys.u)
        before = toys.u.detach().clone()
    unknown = {"accumulate": 2, "compile": True, "evaluate_every": 2, "precision": "bf16", "scale_outputs": False}
    for name, value in {**unknown, "weight_decay": 0.1}.items():
        with pytest.raises(BadInput, match=f"^{name} has no meaning for toys: leave it at .*, not {value}$"):
            next(train(toys, replace(SHORT, **{name: value})))


def test_without_a_clip_no_gradient_is_clipped():
    both = [StackedToys([SPEC]) for _ in range(2)]
    for toys, clip in zip(both, (0.0, 1e9), strict=True):
        list(train(toys, replace(SHORT, clip=clip)))
    assert torch.equal(both[0].u, both[1].u)


def test_masked_entries_never_move():
    toys = StackedToys(mixed_specs(), dtype=torch.float64)
    list(train(toys, toy_recipe(5, batch=4, log_every=5)))
    for name, p in toys.named_parameters():
        assert not (p * (1 - toys.get_buffer(f"mask_{name}"))).any()
        assert (p != 0).any()


@pytest.mark.long
def test_training_a_stack_is_training_each_toy_in_a_loop():
    """Thirty steps with per-toy learning rates and clips, against torch.optim.Adam and clip_grad_norm_."""
    specs = mixed_specs()
    config = toy_recipe(30, batch=4, clip=0.05, log_every=10)
    toys = StackedToys(specs, dtype=torch.float64)
    plains = [twin(toys, i) for i in range(len(specs))]
    rates = torch.zeros(toys.copied.shape[1:3], dtype=torch.float64)
    for i in range(len(specs)):
        rates[toys.locate[i]] = 0.01 / (1 + i)
    logged = [p.losses for p in train(toys, config, learning_rates=rates)]
    clipped = 0
    for i, (spec, plain) in enumerate(zip(specs, plains, strict=True)):
        base = 0.01 / (1 + i)
        adam = torch.optim.Adam(plain.parameters(), base, config.betas, config.eps)
        window = 0.0
        for step in range(config.steps):
            sample = spec.task.sample(4, Generator(TRAIN_STREAM, spec.seed, step), torch.float64)
            loss = (plain(sample.tokens()) - sample.label).square().sum(-1).mean()
            adam.zero_grad()
            loss.backward()
            limit = config.clip * spec.task.zero_loss
            clipped += bool(torch.nn.utils.clip_grad_norm_(plain.parameters(), limit) > limit)
            adam.param_groups[0]["lr"] = base * config.share(step)
            adam.step()
            window += loss.item() if step >= 20 else 0.0
        assert float(logged[-1][toys.locate[i]]) == pytest.approx(window / 10, rel=1e-8)
        for name, x in toys.parameters_of(i).items():
            torch.testing.assert_close(x, getattr(plain, name).detach(), rtol=1e-7, atol=1e-9)
    assert 0 < clipped < config.steps * len(specs), "the clip must bind for some toys and steps, and not for others"


TASK = RegressionTask(3, 5, 0.2)
LAYERS = EndToEndSpec(RegressionTask(2, 3, 0.2), SKIPV1, 3, seed=1)
STACKS = {  # a kind of toys, one of them, and others
    StackedToys: (ToySpec(TASK, SKIPV1, 2, 1), ToySpec(TASK, MHA, 1, 1), ToySpec(RegressionTask(2, 9, 2.0), MHA, 1, 0)),
    EndToEndToys: (LAYERS, replace(LAYERS, width=5, seed=0), replace(LAYERS, heads=MHA, scores="printed")),
    SoftmaxToys: SOFTMAX,
    TransformerToys: TRANSFORMERS,
}


@pytest.mark.parametrize("kind", STACKS)
def test_a_toy_is_what_it_is_alone(kind):
    """Start, prompts and training do not depend on what else is in the stack."""
    one, *others = STACKS[kind]
    alone, together = kind([one], torch.float64), kind([*others, one], torch.float64)
    for toys in (alone, together):
        list(train(toys, toy_recipe(30, batch=16, learning_rate=0.02, log_every=15)))
    for name, x in alone.weights(0).items():
        torch.testing.assert_close(x, together.weights(len(others))[name], rtol=1e-9, atol=1e-12)
    found = explained_signal(together, 64)[together.locate[len(others)]]
    torch.testing.assert_close(found, explained_signal(alone, 64)[0, 0])


def test_initial_weights_are_shared_wherever_shapes_agree():
    """Paired seeds: the same seed gives MHA and SkipV1Former the same weights, and rank a's A is part of rank d's."""
    task = RegressionTask(4, 5, 0.2)
    toys = StackedToys([ToySpec(task, MHA, 2, 3), ToySpec(task, SKIPV1, 2, 3), ToySpec(task, SKIPV1, 4, 3)])
    mha, skip, full = (toys.parameters_of(i) for i in range(3))
    for name in "abwk":
        assert torch.equal(mha[name], skip[name])
    assert torch.equal(full["a"][:2], skip["a"])
    scales = Orthogonal()
    torch.testing.assert_close(full["a"] @ full["a"].mT, scales.embedding**2 * torch.eye(4), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("fresh", [lambda: StackedToys(mixed_specs()), lambda: EndToEndToys(specs_of(SPEC.task))])
@pytest.mark.parametrize(("kill_at", "saved"), [(1, True), (2, False), (3, True), (5, False)])
def test_a_killed_training_resumes_to_the_same_bits(tmp_path, kill_at, saved, fresh):
    """Killed after its kill_at-th report, before or after the checkpoint that follows; no report is lost."""
    config = toy_recipe(50, batch=4, log_every=10)
    whole, resumed = fresh(), fresh()
    unbroken = list(train(whole, config))
    steps = train(fresh(), config, folder=tmp_path, seconds_between_saves=0.0)
    reports = [next(steps) for _ in range(kill_at)]
    if saved:
        with contextlib.suppress(StopIteration):
            next(steps)
    steps.close()
    rest = list(train(resumed, config, folder=tmp_path, seconds_between_saves=0.0, warn=pytest.fail))
    for p, q in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(p, q)
    kept = reports[: 5 - len(rest)]
    assert [r.step for r in kept + rest] == [10, 20, 30, 40, 50]
    for ours, theirs in zip(kept + rest, unbroken, strict=True):
        assert torch.equal(ours.losses, theirs.losses)
    assert list(train(fresh(), config, folder=tmp_path)) == []
    steps_saved = sorted(int(p.name.removeprefix("checkpoint-")) for p in tmp_path.iterdir())
    assert len(steps_saved) == 2
    assert steps_saved[-1] == 50


SPEC, SHORT = ToySpec(RegressionTask(2, 3, 0.1), MHA, 1, 0), toy_recipe(6, batch=2, log_every=2)
OTHERS = {
    "seed": lambda: (StackedToys([replace(SPEC, seed=1)]), SHORT),
    "steps": lambda: (StackedToys([SPEC]), replace(SHORT, steps=8)),
    "start": lambda: (StackedToys([replace(SPEC, init=Gaussian())]), SHORT),
    "dtype": lambda: (StackedToys([SPEC], dtype=torch.float64), SHORT),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_is_used_only_for_what_it_belongs_to(tmp_path, other):
    list(train(StackedToys([SPEC]), SHORT, folder=tmp_path))
    toys, config = OTHERS[other]()
    with pytest.raises(BadCheckpoint, match="belongs to another run; delete"):
        next(train(toys, config, folder=tmp_path))


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
    whole, resumed, warnings = StackedToys([SPEC]), StackedToys([SPEC]), []
    list(train(whole, SHORT))
    list(train(StackedToys([SPEC]), SHORT, folder=tmp_path, seconds_between_saves=0.0))
    newest = tmp_path / "checkpoint-000000006"
    flip(newest / TENSORS, 1)
    assert [report.step for report in train(resumed, SHORT, folder=tmp_path, warn=warnings.append)] == [6]
    assert torch.equal(resumed.u, whole.u)
    (warning,) = warnings
    assert str(newest) in warning
    for path in tmp_path.iterdir():
        flip(path / TENSORS, 1)
    with pytest.raises(BadCheckpoint, match="can be read; delete it to retrain"):
        next(train(StackedToys([SPEC]), SHORT, folder=tmp_path))


@pytest.mark.long
def test_held_out_signal_agrees_with_the_exact_loss():
    """icl's sampled estimate against theory's exact number, for random weights, within five standard errors."""
    specs = [ToySpec(RegressionTask(d, 4, 0.5), h, d // 2, s) for d in (1, 3) for h in (MHA, SKIPV1) for s in range(2)]
    toys = built(specs)
    with torch.no_grad():
        toys.w.mul_(0.1)
    chunks = torch.stack([explained_signal(toys, 4096, start=64 * i) for i in range(16)])
    assert torch.equal(chunks[0], explained_signal(toys, 4096))
    mean, error = chunks.mean(0), chunks.std(0) / 4
    for i, spec in enumerate(specs):
        weights = population_weights(toys, i)
        loss = PopulationLoss(PromptMoments(spec.task.d, spec.task.n, spec.task.sigma), spec.heads)
        at = toys.locate[i]
        assert abs(float(mean[at]) - (loss.zero_loss - loss.value(weights))) <= 5 * float(error[at]) + 1e-9
    purposes = [toys.batch(1, purpose, 0).moments for purpose in (TRAIN_STREAM, HELD_OUT_STREAM)]
    assert not torch.equal(*purposes)


def test_impossible_stacks_are_refused():
    task = RegressionTask(2, 3, 0.1)
    with pytest.raises(ValueError, match="same number of heads"):
        StackedToys([ToySpec(task, MHA, 1, 0), ToySpec(task, (ORDINARY,), 1, 0)])
    for bad in ([], [ToySpec(task, (), 1, 0)]):
        with pytest.raises(ValueError, match="at least one"):
            StackedToys(bad)
    for rank in (3, -1):
        with pytest.raises(InvalidSize, match="rank must be"):
            StackedToys([ToySpec(task, MHA, rank, 0)])
    with pytest.raises(ValueError, match="multiple of 64"):
        explained_signal(StackedToys([ToySpec(task, MHA, 1, 0)]), 100)


def test_given_weights_are_where_a_toy_starts():
    for spec in mixed_specs():
        own = built([spec]).parameters_of(0)
        toys = StackedToys([replace(spec, init=Given.of(own)), mixed_specs()[-1]], dtype=torch.float64)
        assert all(torch.equal(x, own[name]) for name, x in toys.parameters_of(0).items())


def test_given_weights_must_fit():
    start = Given(((1.0, 0.0),), ((0.0, 1.0),), (((0.0, 0.0), (0.0, 0.0)),) * 2, (((1.0,), (0.0,)),) * 2)
    task = RegressionTask(2, 3, 0.0)
    StackedToys([ToySpec(task, SKIPV1, 1, 0, start)])
    for wrong in (ToySpec(task, SKIPV1, 2, 0, start), ToySpec(RegressionTask(3, 3, 0.0), SKIPV1, 1, 0, start)):
        with pytest.raises(BadInput, match="shapes"):
            StackedToys([wrong])


def test_keys_start_larger_by_what_is_said_and_nothing_else_does():
    task = RegressionTask(3, 4, 0.5)
    one, three = (StackedToys([ToySpec(task, MHA, 2, 0, Gaussian(0.5, keys))]).parameters_of(0) for keys in (1.0, 3.0))
    assert torch.allclose(three["k"], 3 * one["k"])
    assert all(torch.equal(one[name], three[name]) for name in ("a", "b", "w"))


def test_descent_is_torch_s_own():
    specs = [ToySpec(RegressionTask(2, 3, 0.3), SKIPV1, rank, 0, Gaussian()) for rank in (1, 2)]
    toys, plain = StackedToys(specs, torch.float64), StackedToys(specs, torch.float64)
    recipe = toy_recipe(7, 8, 0.05, warmup=0.0, floor=1.0, clip=0.0, log_every=7)
    list(train(toys, recipe, method="descent"))
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.05)
    for step in range(7):
        optimiser.zero_grad()
        plain.sampled_losses(8, TRAIN_STREAM, step).sum().backward()
        optimiser.step()
    for name, p in toys.named_parameters():
        torch.testing.assert_close(p, plain.get_parameter(name))
    rates = torch.full(toys.shape, 0.05)
    assert identity(toys, recipe, rates) != identity(toys, recipe, rates, "descent")
