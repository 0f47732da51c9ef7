"""Training at full size: what is killed resumes to the same bits, and what is damaged or diverges says so."""

import copy
import itertools
import json
import math
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

from icl.checkpoint import ABOUT, TENSORS, BadCheckpoint, Checkpoints, restore, state
from icl.data.preparing import prepare
from icl.data.shards import open_data
from icl.models.decoder import Decoder
from icl.prompts import RegressionTask
from icl.recipe import SCHEDULES, Diverged, Recipe
from icl.training.devices import peak_flops
from icl.training.loop import ROUTINE, _dropout_stream, evaluate, take_step, train
from icl.training.objectives import Batch, PromptTask, TextTask
from icl.training.optimiser import adamw
from theory.errors import BadInput
from theory.plans.architecture import Architecture, Tokens, Vectors
from theory.plans.names import resolve

VOCAB, CONTEXT = 23, 6
READER = Architecture(
    d_model=8, n_layers=2, n_heads=2, d_ff=16, context=CONTEXT, stem=Tokens(VOCAB, tied=True), dropout=0.1
)
REGRESSOR = Architecture(d_model=8, n_layers=1, n_heads=2, d_ff=16, context=7, stem=Vectors(2))
RECIPE = Recipe(steps=12, batch=4, learning_rate=0.01, weight_decay=0.1, accumulate=2, log_every=3, evaluate_every=6)
ALWAYS, AT_THE_END = 0.0, math.inf


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def model_of(config, variant="vanilla", seed=0):
    return Decoder(config, resolve(variant, config.shape), seed=seed)


def text(length=300, **options):
    """Text without a file: training tokens below VOCAB - 1, and held-out ones, of which each is VOCAB - 1 or 0."""
    place = np.arange(length)
    splits = {"train": (7 * place**2 + place) % (VOCAB - 1), "held_out": (VOCAB - 1) * (place[:60] % 5 // 3)}
    data = SimpleNamespace(tokens=splits.__getitem__, manifest=SimpleNamespace(digest=f"squares {length}"))
    return TextTask(data, CONTEXT, **options)


def prompts(d=2, n=3, **options):
    return PromptTask(RegressionTask(d, n, 0.1), **{"held_out_prompts": 64, "held_out_batch": 32, **options})


def numbers(logged):
    """What of a report does not depend on the clock."""
    return logged.step, logged.loss, logged.gradient_norm, logged.learning_rate, logged.held_out


def reader():
    return model_of(READER, "attnres")


def weights_of(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_same_bits(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, x in ours.items():
        assert torch.equal(x, theirs[name]), name


@pytest.fixture(scope="module")
def whole():
    """A run that nobody killed: its reports by step, and its weights."""
    model = reader()
    reports = {logged.step: numbers(logged) for logged in train(model, text(), RECIPE, seed=3)}
    return reports, weights_of(model)


def test_a_run_logs_every_few_steps_and_evaluates_where_it_is_due(whole):
    reports, weights = whole
    assert list(reports) == [3, 6, 9, 12]
    assert [step for step, (*_, held_out) in reports.items() if held_out] == [6, 12]
    assert [rate for _, _, _, rate, _ in reports.values()] == [RECIPE.rate(step - 1) for step in reports]
    assert any(name.startswith("depth.") for name in weights)
    start = weights_of(reader())
    assert not any(torch.equal(x, start[name]) for name, x in weights.items() if not name.startswith("depth.gain"))
    *_, last = train(reader(), text(), replace(RECIPE, steps=13, evaluate_every=0), seed=3)
    assert (last.step, last.held_out is not None) == (13, True)


# Going on.


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([ALWAYS, AT_THE_END])), min_size=1, max_size=4))
def test_a_killed_run_ends_with_the_same_bits(whole, kills):
    """With dropout, accumulation, depth attention and tied embeddings; killed again and again at a logged step."""
    expected, weights = whole
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        options = {"folder": Path(folder), "warn": pytest.fail}
        for reports, seconds in kills:
            steps = train(reader(), text(), RECIPE, 3, seconds_between_saves=seconds, **options)
            seen |= {logged.step: numbers(logged) for logged in itertools.islice(steps, reports)}
            steps.close()
        model = reader()
        seen |= {logged.step: numbers(logged) for logged in train(model, text(), RECIPE, 3, **options)}
        assert seen == expected
        assert_same_bits(weights_of(model), weights)
        again = reader()
        assert list(train(again, text(), RECIPE, 3, **options)) == []
        assert_same_bits(weights_of(again), weights)


def abandoned(folder, reports=3):
    """A folder with the checkpoints of a run that was killed at its last report but for the end: of steps 3 and 6."""
    steps = train(reader(), text(), RECIPE, 3, folder=folder, seconds_between_saves=ALWAYS)
    for _ in range(reports):
        next(steps)
    steps.close()
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-000000003", "checkpoint-000000006"]
    return folder / "checkpoint-000000006", folder / "checkpoint-000000003"


def flip(path, place=0.5):
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "a bit of the tensors": lambda path: flip(path / TENSORS),
    "the tensors' header": lambda path: flip(path / TENSORS, 0.0),
    "the end of the tensors": lambda path: (path / TENSORS).write_bytes((path / TENSORS).read_bytes()[:-1]),
    "no tensors": lambda path: (path / TENSORS).unlink(),
    "no description": lambda path: (path / ABOUT).unlink(),
    "an empty description": lambda path: (path / ABOUT).write_bytes(b""),
    "no JSON": lambda path: (path / ABOUT).write_bytes(b"\xff{"),
    "no object": lambda path: (path / ABOUT).write_text("[]"),
    "a number": lambda path: (path / ABOUT).write_text("4"),
    "too deep": lambda path: (path / ABOUT).write_text("[" * 100_000),
    "nothing in it": lambda path: (path / ABOUT).write_text("{}"),
    "no folder": lambda path: (shutil.rmtree(path), path.write_bytes(b""))[0],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_checkpoint_that_cannot_be_read_gives_way_to_the_one_before(whole, damage, tmp_path):
    expected, weights = whole
    newest, _ = abandoned(tmp_path)
    DAMAGE[damage](newest)
    model, warnings = reader(), []
    rest = list(train(model, text(), RECIPE, 3, folder=tmp_path, warn=warnings.append))
    assert [numbers(logged) for logged in rest] == [expected[step] for step in (6, 9, 12)]
    assert_same_bits(weights_of(model), weights)
    (warning,) = warnings
    assert str(newest) in warning
    assert "\n" not in warning


@pytest.mark.parametrize("damage", DAMAGE)
def test_when_none_can_be_read_nothing_is_trained(damage, tmp_path):
    warnings = []
    for path in abandoned(tmp_path):
        DAMAGE[damage](path)
    with pytest.raises(BadCheckpoint, match="can be read; delete it") as stop:
        next(train(reader(), text(), RECIPE, 3, folder=tmp_path, warn=warnings.append))
    assert "\n" not in str(stop.value)
    assert len(warnings) == 2


def test_no_bit_of_the_description_can_change_unseen(tmp_path):
    """A step, a first loss or an identity that is not what was written must not be believed."""
    model = reader()
    optimiser = adamw(model, RECIPE)
    warnings = []
    saved = Checkpoints(tmp_path, "mine", warnings.append)
    for step in (10, 20):
        saved.save(step, state(model, optimiser), first_loss=3.25)
    assert (saved.newest().step, saved.newest().numbers) == (20, {"first_loss": 3.25})
    path = tmp_path / "checkpoint-000000020" / ABOUT
    content = path.read_bytes()
    believed = []
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        warnings.clear()
        try:
            found = (saved.newest().step, saved.newest().numbers)
        except BadCheckpoint as error:
            found = str(error)
        if found != (10, {"first_loss": 3.25}) or not warnings:
            believed.append((path.read_text(), found))
    assert not believed, f"{len(believed)} of {len(content)} went unseen, such as {believed[0]}"


def test_what_a_kill_left_half_written_is_harmless(whole, tmp_path):
    expected, weights = whole
    abandoned(tmp_path)
    for name in ("checkpoint-000000009.part", "checkpoint-999999999.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / TENSORS).write_bytes(b"half")
    model = reader()
    rest = list(train(model, text(), RECIPE, 3, folder=tmp_path, seconds_between_saves=ALWAYS, warn=pytest.fail))
    assert [numbers(logged) for logged in rest] == [expected[step] for step in (9, 12)]
    assert_same_bits(weights_of(model), weights)
    kept = {path.name for path in tmp_path.iterdir() if path.suffix != ".part"}
    assert kept == {"checkpoint-000000009", "checkpoint-000000012"}


def test_checkpoints_hold_weights_and_moments_in_float32(tmp_path):
    newest, _ = abandoned(tmp_path)
    state = load_file(newest / TENSORS)
    assert {x.dtype for x in state.values()} == {torch.float32}
    names = [name for name, _ in reader().named_parameters()]
    kinds = ("model", "optimiser.step", "optimiser.exp_avg", "optimiser.exp_avg_sq")
    assert set(state) == {f"{kind}.{name}" for kind in kinds for name in names}
    assert {float(x) for name, x in state.items() if name.startswith("optimiser.step.")} == {6.0}


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01),  # has state before its first step
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_whatever_an_optimiser_keeps_is_restored(name, tmp_path):
    """Restored into another model, it takes the steps that it would have taken, to the bit."""

    def steps(model, optimiser, seeds):
        for seed in seeds:
            for place, parameter in enumerate(model.parameters()):
                generator = torch.Generator().manual_seed(100 * seed + place)
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            optimiser.step()

    (ours, mine), (theirs, other) = (
        (m, OPTIMISERS[name](m.parameters())) for m in (reader(), model_of(READER, "attnres", seed=1))
    )
    steps(ours, mine, range(3))
    saved = Checkpoints(tmp_path, "one", pytest.fail)
    saved.save(3, state(ours, mine), first_loss=1.0)
    restore(theirs, other, saved.newest().tensors)
    kinds = [{kind for kept in o.state.values() for kind in kept} for o in (mine, other)]
    assert kinds[0] == kinds[1] != set()
    for model, optimiser in ((ours, mine), (theirs, other)):
        steps(model, optimiser, range(3, 5))
    assert_same_bits(weights_of(theirs), weights_of(ours))


def test_what_an_optimiser_keeps_and_a_checkpoint_cannot_hold_is_not_dropped():
    model = reader()
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    optimiser.state[model.norm.weight]["note"] = "something"
    with pytest.raises(TypeError, match="SGD keeps note = 'something'; only tensors can be saved"):
        state(model, optimiser)


@pytest.mark.parametrize(
    "other",
    [
        {"recipe": replace(RECIPE, learning_rate=0.02)},
        {"recipe": replace(RECIPE, steps=15)},
        {"recipe": replace(RECIPE, accumulate=1)},
        {"seed": 4},
        {"model": lambda: model_of(READER)},
        {"model": lambda: model_of(replace(READER, dropout=0.2), "attnres")},
        {"task": lambda: text(301)},
        {"task": lambda: text(held_out_windows=2)},
    ],
    ids=lambda case: "".join(case),
)
def test_a_checkpoint_is_used_only_for_what_it_belongs_to(other, tmp_path):
    abandoned(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("state.*")}
    mine = {"model": reader, "task": text, "recipe": RECIPE, "seed": 3} | other
    steps = train(mine["model"](), mine["task"](), mine["recipe"], mine["seed"], folder=tmp_path, warn=pytest.fail)
    with pytest.raises(BadCheckpoint, match="belongs to another run"):
        next(steps)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("state.*")}


# Data.


@pytest.mark.parametrize("task", [text, prompts])
def test_batches_follow_from_seed_and_step_alone(task):
    ours, theirs = task(), task()
    list(theirs.held_out())
    batches = {(seed, step): ours.batch(seed, step, 4) for step in range(3) for seed in range(2)}
    for (seed, step), batch in reversed(batches.items()):
        again = theirs.batch(seed, step, 4)
        assert torch.equal(batch.inputs, again.inputs)
        assert torch.equal(batch.targets, again.targets)
    for one, other in itertools.combinations(batches.values(), 2):
        assert not torch.equal(one.inputs, other.inputs)
        assert not torch.equal(one.targets, other.targets)


def test_two_variants_see_the_same_batches_and_held_out_data():
    class Recorder(PromptTask):
        def losses(self, answer, targets):
            seen[-1].append(targets.clone())
            return super().losses(answer, targets)

    seen = []
    for variant, seed in (("vanilla", 0), ("resformer-learned", 0), ("vanilla", 1)):
        seen.append([])
        task = Recorder(RegressionTask(2, 3, 0.1), 32, 16)
        list(train(model_of(REGRESSOR, variant), task, replace(RECIPE, steps=4, evaluate_every=0), seed))
    ours, theirs, others = seen
    assert len(ours) == len(theirs) == len(others) == 4 * 2 + 2
    assert all(torch.equal(x, y) for x, y in zip(ours, theirs, strict=True))
    assert [torch.equal(x, y) for x, y in zip(ours, others, strict=True)] == 8 * [False] + 2 * [True]


def test_text_is_the_next_token_and_what_is_held_out_is_never_trained_on():
    task, visited = text(), set()
    for step in range(2 * 299 // CONTEXT // 7):
        batch = task.batch(0, step, 7)
        assert batch.inputs.shape == batch.targets.shape == (7, CONTEXT)
        assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
        assert int(torch.stack([batch.inputs, batch.targets]).max()) < VOCAB - 1
        visited |= {tuple(row) for row in batch.targets.tolist()}
    assert len(visited) == len({tuple(text().data.tokens("train")[i * CONTEXT + 1 :][:CONTEXT]) for i in range(49)})
    held_out = torch.cat([batch.targets for batch in task.held_out()])
    assert held_out.flatten().tolist() == task.data.tokens("held_out")[1 : 9 * CONTEXT + 1].tolist()
    assert task.held_out_windows == 9
    assert [len(batch.inputs) for batch in text(held_out_windows=5, held_out_batch=2).held_out()] == [2, 2, 1]


def test_held_out_prompts_are_none_that_are_trained_on():
    """Not even at the seed and the steps that name the held-out stream."""
    task = prompts()
    held_out = {x for batch in task.held_out() for x in batch.inputs.flatten().tolist()}
    trained = {x for step in range(50) for x in task.batch(0, step, 32).inputs.flatten().tolist()}
    assert len(held_out) > 800
    assert len(held_out & trained) < 5  # of float32 numbers, a few are met twice


def test_prompts_are_read_at_every_query_and_lost_in_squares():
    task = prompts()
    batch = task.batch(0, 0, 5)
    assert batch.inputs.shape == (5, task.tokens, 2)
    assert batch.targets.shape == (5, 4, 2)
    assert torch.equal(batch.inputs[:, 1::2], batch.targets[:, :3])  # y_k follows x_k
    answer = torch.full((5, task.tokens, 2), torch.nan)
    answer[:, ::2] = batch.targets + torch.tensor([3.0, 4.0])
    torch.testing.assert_close(task.losses(answer, batch.targets), torch.full((5, 4), 25.0))


def test_what_no_task_can_be_is_refused():
    with pytest.raises(BadInput, match="multiple of 32"):
        prompts(held_out_prompts=33)
    for options in ({"held_out_prompts": 0}, {"held_out_prompts": True}):
        with pytest.raises(BadInput, match="held_out_prompts must be a whole number from 1"):
            prompts(**options)
    with pytest.raises(BadInput, match="held_out_windows must be a whole number from 1"):
        text(held_out_windows=0)
    with pytest.raises(BadInput, match="there are only 5"):
        text(5)


# Divergence.


class Poisoned(PromptTask):
    """From step 6 on, its targets are not what they were."""

    factor = math.nan

    def batch(self, seed, step, size):
        batch = super().batch(seed, step, size)
        return batch if step < 6 else Batch(batch.inputs, self.factor * batch.targets)


@pytest.mark.parametrize("factor", [math.nan, math.inf, 100.0])
def test_what_diverges_keeps_the_last_good_checkpoint(factor, tmp_path, monkeypatch):
    monkeypatch.setattr(Poisoned, "factor", factor)
    task, recipe = Poisoned(RegressionTask(2, 3, 0.1), 64, 32), replace(RECIPE, steps=10, log_every=2, evaluate_every=0)
    steps = train(model_of(REGRESSOR), task, recipe, 0, folder=tmp_path, seconds_between_saves=ALWAYS)
    seen = [numbers(logged) for logged in itertools.islice(steps, 3)]
    with pytest.raises(Diverged, match="diverged by step 8: loss") as stop:
        next(steps)
    assert "\n" not in str(stop.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-000000004", "checkpoint-000000006"]
    resumed, unbroken = model_of(REGRESSOR), model_of(REGRESSOR)
    seen += [numbers(x) for x in train(resumed, prompts(), recipe, 0, folder=tmp_path, warn=pytest.fail)]
    assert seen == [numbers(x) for x in train(unbroken, prompts(), recipe, 0)]
    assert_same_bits(weights_of(resumed), weights_of(unbroken))


class Spiked(PromptTask):
    """One step of the second five costs some ten thousand times what others cost."""

    def batch(self, seed, step, size):
        batch = super().batch(seed, step, size)
        return Batch(batch.inputs, batch.targets * (100 if step == 8 else 1))


def test_a_step_that_costs_much_is_no_divergence():
    recipe = replace(RECIPE, steps=10, log_every=5, evaluate_every=0)
    task = Spiked(RegressionTask(2, 3, 0.1), 64, 32)
    first, last = train(model_of(REGRESSOR), task, recipe, 0)
    assert last.loss > 100 * first.loss


def test_a_weight_that_is_no_number_is_noticed_at_the_first_report():
    model = model_of(REGRESSOR)
    with torch.no_grad():
        model.stem.read_in.weight[0, 0] = torch.nan
    with pytest.raises(Diverged, match="by step 3: loss nan"):
        next(train(model, prompts(), RECIPE, 0))


@pytest.mark.parametrize("steps", [1, 9])
def test_an_absurd_learning_rate_diverges_even_in_the_last_step(steps, tmp_path):
    """The loss of a step is that before its update, so of the last update only the held-out loss tells."""
    recipe = Recipe(steps=steps, batch=4, learning_rate=3e38, warmup=0.0, floor=1.0, log_every=1)
    with pytest.raises(Diverged, match=f"diverged by step {min(steps, 2)}"):
        list(train(model_of(REGRESSOR), prompts(), recipe, 0, folder=tmp_path, seconds_between_saves=ALWAYS))


# One step.


LINEAR = {"learning_rate": 1e4, "eps": 1e6, "warmup": 0.0, "floor": 1.0}  # Adam's first step is then -0.01 gradients


def gradients_of_a_step(**options):
    """What a first step is made of, by parameter; and its loss and gradient norm."""
    model = model_of(REGRESSOR, "attnres")
    start = weights_of(model)
    recipe = Recipe(**{"steps": 10, "batch": 8, **LINEAR, **options})
    found = take_step(model, prompts(), recipe, adamw(model, recipe), 0, 0, torch.device("cpu"))
    return {name: (start[name] - p.detach()) / 0.01 for name, p in model.named_parameters()}, found.tolist()


@pytest.mark.parametrize("parts", [2, 8])
def test_parts_of_a_batch_make_the_step_of_the_whole(parts):
    whole, said = gradients_of_a_step(clip=0.0)
    ours, also = gradients_of_a_step(clip=0.0, accumulate=parts)
    assert also == pytest.approx(said, rel=1e-5)
    norm = sum(float(x.square().sum()) for x in whole.values()) ** 0.5
    assert norm == pytest.approx(said[1], rel=1e-3)
    for name, x in whole.items():
        torch.testing.assert_close(ours[name], x, rtol=1e-3, atol=1e-4 * norm)


@pytest.mark.parametrize("share", [0.01, 0.5, 2.0])
def test_gradients_are_clipped_by_their_norm_together(share):
    """What is reported is the norm before."""
    free, (loss, norm) = gradients_of_a_step(clip=0.0)
    clipped, said = gradients_of_a_step(clip=share * norm)
    assert said == [loss, norm]
    for name, x in free.items():
        torch.testing.assert_close(clipped[name], min(share, 1.0) * x, rtol=1e-3, atol=1e-4 * norm)


def test_the_step_is_adamw_s():
    """Against torch's own, not fused, in a plain loop over parameters and steps."""
    recipe = replace(RECIPE, clip=0.05, accumulate=1, steps=6, evaluate_every=0)
    ours, plain = model_of(REGRESSOR, "skipv1"), model_of(REGRESSOR, "skipv1")
    list(train(ours, prompts(), recipe, 2))
    kinds = {True: [], False: []}
    for p in plain.parameters():
        kinds[p.dim() > 1].append(p)
    groups = [{"params": kinds[True], "weight_decay": 0.1}, {"params": kinds[False], "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, betas=recipe.betas, eps=recipe.eps, foreach=False, fused=False)
    for step in range(recipe.steps):
        batch = prompts().batch(2, step, recipe.batch)
        loss = (plain(batch.inputs)[:, ::2] - batch.targets).square().sum(-1).mean()
        adam.zero_grad()
        loss.backward()
        assert float(nn.utils.clip_grad_norm_(plain.parameters(), recipe.clip)) > recipe.clip
        for group in adam.param_groups:
            group["lr"] = recipe.rate(step)
        adam.step()
    for name, p in plain.named_parameters():
        torch.testing.assert_close(dict(ours.named_parameters())[name], p, rtol=1e-4, atol=1e-6)


EXEMPT = {
    "vanilla": (),
    "skipv1": (),
    "resformer-learned": ("learned.",),
    "denseformer": ("depth.weights.",),
    "attnres": ("depth.query", "depth.gain"),
    "attnres-static": ("depth.logits.",),
    "attnres-input-query": ("depth.query", "depth.gain", "depth.matrix"),
}


@pytest.mark.parametrize("variant", EXEMPT)
@pytest.mark.parametrize("positions", ["rope", "learned", "bias"])
def test_only_matrices_and_embeddings_decay(variant, positions):
    """With gradients of zero, a step is decay and nothing else."""
    biases, scores = positions == "learned", ".attention.position_bias.scores"
    config = replace(READER, bias=biases, qkv_bias=biases, norm="layer" if biases else "rms", positions=positions)
    model = model_of(config, variant)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1.0)
            p.grad = torch.zeros_like(p)
    optimiser = adamw(model, replace(RECIPE, weight_decay=0.5, learning_rate=0.5))
    named = dict(model.named_parameters())
    grouped = [p for group in optimiser.param_groups for p in group["params"]]
    assert sorted(map(id, grouped)) == sorted(map(id, named.values()))
    optimiser.step()
    kept = {name for name, p in named.items() if bool((p == 1).all())}
    exempt = {name for name, p in named.items() if name.startswith(EXEMPT[variant] or "?") or p.dim() == 1}
    assert kept == exempt | {name for name in named if name.endswith(scores)}
    assert any(name.endswith(scores) for name in named) == (positions == "bias")
    assert all(bool((p == 0.75).all()) for name, p in named.items() if name not in kept)
    assert all(any(name.startswith(prefix) for name in kept) for prefix in EXEMPT[variant])
    assert "stem.embedding.weight" not in kept


@pytest.mark.parametrize(
    "variant", ["denseformer", "attnres", "attnres-block", "attnres-static", "attnres-input-query"]
)
def test_a_depth_rule_has_a_learning_rate_of_its_own(variant):
    """At a quarter of the rate Adam's first step is a quarter as long; every parameter is in one group."""
    model, other = (model_of(READER, variant) for _ in range(2))
    recipe = replace(RECIPE, warmup=0.0, start=1.0, clip=0.0, eps=1e-30, weight_decay=0.0)
    for each, of in ((model, replace(recipe, depth_rate=0.25)), (other, recipe)):
        take_step(each, text(), of, optimiser := adamw(each, of), 0, 0, torch.device("cpu"))
        grouped = [p for group in optimiser.param_groups for p in group["params"]]
        assert sorted(map(id, grouped)) == sorted(map(id, each.parameters()))
    start = dict(model_of(READER, variant).named_parameters())
    for (name, slow), fast in zip(model.named_parameters(), other.parameters(), strict=True):
        if name.startswith("depth."):
            torch.testing.assert_close(4 * (slow - start[name]), fast - start[name], rtol=1e-4, atol=1e-6)
        else:
            torch.testing.assert_close(slow, fast, rtol=0, atol=0)
    assert any(name.startswith("depth.") and (p != start[name]).any() for name, p in other.named_parameters())


@pytest.mark.parametrize("variant", ["attnres", "attnres-block"])
def test_queries_that_are_held_at_zero_train_as_a_residual_stream(variant):
    """Where eps does nothing: one function of all other parameters, so one training."""
    config = replace(READER, norm_eps=1e-30)
    models = {name: model_of(config, name).double() for name in ("vanilla", variant)}
    recipe = replace(RECIPE, depth_rate=0.0)
    seen = {name: [each.loss for each in train(model, text(), recipe, 0)] for name, model in models.items()}
    np.testing.assert_allclose(seen[variant], seen["vanilla"], rtol=1e-6)
    held = dict(models[variant].named_parameters())
    assert not held["depth.query"].any()
    for name, p in models["vanilla"].named_parameters():
        torch.testing.assert_close(p, held[name], rtol=1e-4, atol=1e-6)
    free = model_of(config, variant).double()
    assert not np.allclose([each.loss for each in train(free, text(), RECIPE, 0)], seen["vanilla"], rtol=1e-6)


def test_the_held_out_loss_is_a_mean_with_its_error():
    model, task = model_of(replace(REGRESSOR, dropout=0.5)), prompts()
    found = evaluate(model, task, RECIPE)
    assert model.training
    model.eval()
    with torch.no_grad():
        each = torch.cat([(model(b.inputs)[:, ::2] - b.targets).square().sum(-1) for b in task.held_out()]).double()
    np.testing.assert_allclose(found.loss, each.mean(0))
    np.testing.assert_allclose(found.stderr, each.std(0) / 8)
    single = evaluate(model_of(READER), text(held_out_windows=1), RECIPE)
    assert single.stderr == (0.0,) * CONTEXT


# The schedule.


def test_the_rate_at_the_corners_of_the_schedule():
    recipe = Recipe(steps=110, batch=1, learning_rate=2.0, warmup=1 / 11, floor=0.1)
    at = {0: 0.2, 4: 1.0, 9: 2.0, 59: 1.1, 109: 0.2}
    assert {step: recipe.rate(step) for step in at} == pytest.approx(at)
    assert recipe.rate(10) < 2.0
    started = replace(recipe, start=0.5)
    assert [started.rate(step) for step in (0, 4, 9, 59)] == pytest.approx([1.1, 1.5, 2.0, 1.1])
    flat = replace(recipe, warmup=0.0, floor=1.0)
    assert {flat.rate(step) for step in range(110)} == {2.0}
    rising = replace(recipe, warmup=1.0)
    assert [rising.rate(step) for step in (0, 109)] == pytest.approx([2 / 110, 2.0])


def test_the_quadratic_decay():
    recipe = Recipe(steps=20, batch=1, learning_rate=2.0, warmup=0.25, floor=0.0, decay="quadratic")
    at = {0: 2 * 0.2, 2: 2 * 0.6 * 0.81, 4: 2 * 0.64, 10: 0.5, 19: 2 * 0.0025}
    assert {step: recipe.rate(step) for step in at} == pytest.approx(at)
    assert [recipe.share(step) for step in (0, 10)] == pytest.approx([0.2, 0.25])
    assert replace(recipe, floor=0.2).rate(10) == pytest.approx(2 * (0.2 + 0.8 * 0.25))
    assert replace(recipe, start=0.5).rate(2) == pytest.approx(2 * 0.8 * 0.81)
    assert replace(recipe, warmup=0.0).rate(0) == 2.0


def test_the_late_decay():
    recipe = Recipe(steps=20, batch=1, learning_rate=2.0, warmup=0.25, floor=0.2, decay="late")
    at = {0: 0.4, 4: 2.0, 5: 2.0, 15: 2.0, 16: 2 * 0.8, 17: 2 * 0.6, 18: 2 * 0.4, 19: 2 * 0.2}
    assert {step: recipe.rate(step) for step in at} == pytest.approx(at)
    assert {recipe.rate(step) for step in range(5, 16)} == {2.0}
    assert recipe.begins_to_fall() == 16
    assert replace(recipe, start=0.5).rate(0) == pytest.approx(2 * 0.6)
    latest = replace(recipe, warmup=0.8)
    assert [latest.rate(step) for step in (14, 15, 16)] == pytest.approx([2 * 15 / 16, 2.0, 1.6])
    assert [replace(recipe, steps=steps, warmup=0.0).begins_to_fall() for steps in (1, 2, 3, 7, 8)] == [1, 2, 2, 6, 6]


@given(st.integers(1, 2000), st.integers(1, 5), st.floats(0, 0.7), st.floats(0, 1), st.floats(0, 0.99))
def test_a_longer_training_with_late_decay_begins_as_a_shorter_one(steps, times, warmup, start, floor):
    """With as many steps of warm-up, until the shorter one's rate falls, to the bit; and not any further."""
    rising = int(warmup * steps)
    options = {"batch": 1, "learning_rate": 0.1, "start": start, "floor": floor, "decay": "late"}
    short, long = (Recipe(steps=count, warmup=rising / count, **options) for count in (steps, times * steps))
    shared = short.begins_to_fall()
    assert shared == round(0.8 * steps)
    assert [short.rate(step) for step in range(shared)] == [long.rate(step) for step in range(shared)]
    if times > 1 and shared < steps:
        assert short.rate(shared) < long.rate(shared) == 0.1
    halved = Recipe(steps=2 * steps, warmup=short.warmup / 2, **options)  # as the docstring says
    assert [short.rate(step) for step in range(shared)] == [halved.rate(step) for step in range(shared)]
    # The control: as large a share is not as many steps.
    other = Recipe(steps=2 * steps, warmup=short.warmup, **options)
    if rising and start < 0.9:
        assert short.rate(rising - 1) > other.rate(rising - 1)


def test_a_longer_training_branches_off_with_the_weights_of_a_shorter_one():
    """Both read the same data; after the shorter one's rate has begun to fall they part."""
    seen = {}
    for steps in (10, 20):
        recipe = replace(RECIPE, steps=steps, warmup=2 / steps, decay="late", log_every=1, evaluate_every=0)
        model = reader()
        seen[steps] = [
            torch.cat([p.detach().flatten().clone() for p in model.parameters()])
            for _ in train(model, text(), recipe, 3)
        ]
    equal = [torch.equal(short, long) for short, long in zip(seen[10], seen[20], strict=False)]
    assert equal == [True] * 8 + [False] * 2


DECAYS = st.sampled_from(["cosine", "quadratic", "late"])
NOT_NEARLY_ALL = st.one_of(st.floats(0, 0.9), st.just(1.0))


@given(DECAYS, st.integers(1, 60), st.integers(0, 60), NOT_NEARLY_ALL, NOT_NEARLY_ALL)
def test_the_rate_begins_to_fall_for_good(decay, steps, rising, start, floor):
    warmup = min(rising, round(0.8 * steps) if decay == "late" else steps) / steps
    recipe = Recipe(steps=steps, batch=1, learning_rate=1.0, warmup=warmup, start=start, floor=floor, decay=decay)
    at_peak = [step for step in range(steps) if recipe.share(step) == pytest.approx(1, abs=1e-12)]
    assert recipe.begins_to_fall() == max(at_peak, default=-1) + 1


SHARES = st.floats(0, 1)


@given(st.integers(1, 60), SHARES, SHARES, SHARES, st.floats(1e-9, 1e9))
@example(27, 0.875, 0.2703340896006868, 0.0, 1.0)  # (1 - start) 24 / 24 is not 1 - start
def test_the_rate_rises_and_falls_and_is_never_above_the_peak(steps, warmup, start, floor, peak):
    recipe = Recipe(steps=steps, batch=1, learning_rate=peak, warmup=warmup, start=start, floor=floor)
    rates = [recipe.rate(step) for step in range(steps)]
    assert max(rates) <= peak
    assert min(rates) >= min(start, floor) * peak * (1 - 1e-12)
    top = rates.index(max(rates))
    tiny = 1e-12 * peak
    assert all(a <= b + tiny for a, b in itertools.pairwise(rates[: top + 1]))
    assert all(a >= b - tiny for a, b in itertools.pairwise(rates[top:]))


def test_the_papers_settings():
    said = {
        name: (s["learning_rate"], s["weight_decay"], s["clip"], s["warmup"], s["floor"])
        for name, s in ((name, schedule.settings) for name, schedule in SCHEDULES.items())
    }
    assert said == {
        "skipv1-llama": (2e-3, 0.0, 0.0, 0.1, 0.1),
        "skipv1-llama-large": (1e-3, 0.1, 1.0, 0.1, 0.1),
        "skipv1-gpt2": (1e-3, 0.1, 1.0, 0.1, 0.1),
        "resformer": (6e-4, 0.1, 1.0, 0.012, 0.1),
    }
    assert [name for name, s in SCHEDULES.items() if not s.settings.get("scale_outputs", True)] == ["resformer"]
    for schedule in SCHEDULES.values():
        assert schedule.place
        recipe = Recipe(steps=10_000, batch=1, **schedule.settings)
        assert recipe.rate(9999) == pytest.approx(0.1 * recipe.learning_rate)
    recipe = Recipe(steps=10_000, batch=1, **SCHEDULES["resformer"].settings)
    assert max(range(10_000), key=recipe.rate) == 119
    assert recipe.rate(119) == pytest.approx(6e-4)
    assert recipe.betas == (0.9, 0.95)
    assert recipe.rate(0) == pytest.approx(1e-7 + 6e-4 / 120, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 1.5}, "steps must be a whole number, got 1.5"),
        ({"steps": "10"}, "steps must be a whole number, got 10"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"batch": True}, "batch must be a whole number, got True"),
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
        ({"accumulate": 3}, "3 parts do not divide a batch of 4 sequences"),
        ({"decay": "linear"}, "decay must be one of cosine, quadratic, late, got linear"),
        ({"decay": "late", "warmup": 0.9}, "a late decay leaves 10 of 12 steps to the warm-up, which takes 11"),
        ({"log_every": 0}, "log_every must be at least 1, got 0"),
        ({"evaluate_every": 7}, "evaluate_every must be a multiple of log_every = 3, got 7"),
        ({"evaluate_every": -3}, "evaluate_every must be a multiple of log_every = 3, got -3"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"learning_rate": math.nan}, "learning_rate must be a finite number, got nan"),
        ({"learning_rate": None}, "learning_rate must be a finite number, got None"),
        ({"eps": -1e-8}, "eps must be positive, got -1e-08"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative, got -0.1"),
        ({"clip": -1.0}, "clip must not be negative, got -1.0"),
        ({"clip": math.inf}, "clip must be a finite number, got inf"),
        ({"warmup": 1.1}, r"warmup must lie in \[0, 1\], got 1.1"),
        ({"start": -0.1}, r"start must lie in \[0, 1\], got -0.1"),
        ({"floor": 2.0}, r"floor must lie in \[0, 1\], got 2.0"),
        ({"betas": (0.9,)}, r"betas must be two numbers in \[0, 1\), got \(0.9,\)"),
        ({"betas": (0.9, 1.0)}, r"betas must be two numbers in \[0, 1\), got \(0.9, 1.0\)"),
        ({"betas": (0.9, math.nan)}, r"betas must be two numbers in \[0, 1\), got \(0.9, nan\)"),
        ({"betas": 0.9}, r"betas must be two numbers in \[0, 1\), got 0.9"),
        ({"betas": ("a", "b")}, r"betas must be two numbers in \[0, 1\), got \('a', 'b'\)"),
        ({"precision": "fp16"}, "precision must be one of fp32, bf16, got fp16"),
        ({"compile": 1}, "compile must be true or false, got 1"),
        ({"scale_outputs": 1}, "scale_outputs must be true or false, got 1"),
    ],
)
def test_what_no_recipe_can_mean_is_refused_in_one_line(options, says):
    with pytest.raises(BadInput, match=f"^{says}$"):
        replace(RECIPE, **options)


# Precision, compilation, speed.


def test_bf16_trains_weights_that_stay_in_float32(tmp_path):
    losses = {}
    for precision in ("fp32", "bf16"):
        recipe = replace(RECIPE, precision=precision)
        model = model_of(replace(READER, dropout=0.0), "attnres")
        logged = list(train(model, text(), recipe, 0, folder=tmp_path / precision))
        losses[precision] = [x.loss for x in logged] + list(logged[-1].held_out.loss)
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        state = load_file(tmp_path / precision / "checkpoint-000000012" / TENSORS)
        assert {x.dtype for x in state.values()} == {torch.float32}
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.01)
    assert losses["bf16"] != losses["fp32"]


@pytest.mark.slow
def test_every_model_of_a_process_is_compiled(monkeypatch):
    """However many were compiled before it: torch stops after eight versions of one function, and says little."""
    graphs = []

    def backend(graph, _inputs):
        graphs[-1] += 1
        return graph.forward

    monkeypatch.setattr(Decoder, "compile", lambda self, **options: nn.Module.compile(self, backend=backend, **options))
    recipe = replace(RECIPE, steps=2, log_every=2, evaluate_every=0, compile=True)
    for width in range(4, 16, 2):
        graphs.append(0)
        list(train(model_of(replace(REGRESSOR, d_model=width, n_heads=1)), prompts(), recipe, 0))
    assert len(set(graphs)) == 1, graphs
    assert graphs[0] >= 2  # one to train, one to evaluate


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of its inductor
def test_a_compiled_model_trains_the_same():
    if not (shutil.which("g++") or shutil.which("clang++")):  # then torch cannot compile
        return
    found = []
    for compiled in (False, True):
        model = model_of(REGRESSOR, "attnres")
        logged = list(train(model, prompts(), replace(RECIPE, compile=compiled), 0))
        found.append([number for x in logged for number in (x.loss, x.gradient_norm)] + list(logged[-1].held_out.loss))
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_tokens_a_second_and_the_share_of_the_peak(monkeypatch):
    (logged,) = train(model_of(REGRESSOR), prompts(), replace(RECIPE, steps=2, evaluate_every=0), 0)
    assert logged.tokens_per_second > 0
    assert logged.mfu is None
    monkeypatch.setattr("icl.training.loop.peak_flops", lambda device, precision: 1e12)
    (logged,) = train(model_of(REGRESSOR), prompts(), replace(RECIPE, steps=2, evaluate_every=0), 0)
    assert 0 < logged.mfu < 1


@pytest.mark.parametrize(
    ("title", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L40", None),
        ("NVIDIA L4", 121e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
        ("Tesla T4", None),
    ],
)
def test_peaks_are_told_by_the_whole_name(title, peak, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: title)
    assert peak_flops(torch.device("cuda"), "bf16") == peak
    assert peak_flops(torch.device("cuda"), "fp32") is None
    assert peak_flops(torch.device("cpu"), "bf16") is None


# Learning.


def test_in_context_regression_is_learnt_and_nothing_leaks():
    """One pair tells w where there is no noise; before it, nobody can do better than zero."""
    task = PromptTask(RegressionTask(1, 1, 0.0), 2048)
    config = Architecture(d_model=16, n_layers=2, n_heads=2, d_ff=32, context=3, stem=Vectors(1))
    recipe = Recipe(steps=400, batch=64, learning_rate=0.01, log_every=100)
    *_, last = train(Decoder(config, resolve("vanilla", config.shape), std=0.2), task, recipe, 0)
    before, after = last.held_out.loss
    assert after + 4 * last.held_out.stderr[1] < 0.6
    assert before > 1 - 4 * last.held_out.stderr[0]


def test_a_sentence_is_learnt(tmp_path):
    """From files, through the tokenizer and the shards."""
    (tmp_path / "text").mkdir()
    for i in range(30):
        (tmp_path / "text" / f"{i}.txt").write_text((i + 1) * "The rain in Spain stays mainly in the plain. ")
    prepare(str(tmp_path / "text"), tmp_path / "data", vocab=280, held_out=0.3)
    data = open_data(tmp_path / "data")
    task = TextTask(data, 16)
    config = Architecture(
        d_model=16, n_layers=1, n_heads=2, d_ff=32, context=16, stem=Tokens(data.manifest.tokenizer.vocab)
    )
    *_, last = train(model_of(config), task, Recipe(steps=120, batch=8, learning_rate=0.02, log_every=40), 0)
    assert np.mean(last.held_out.loss) < 0.25 * math.log(config.stem.vocab)


def test_sequences_may_begin_alike(tmp_path):
    """With the end of text in the first token's place; what is to be predicted stays, and the identity differs."""
    (tmp_path / "text").mkdir()
    for i in range(30):
        (tmp_path / "text" / f"{i}.txt").write_text((i + 1) * "The rain in Spain stays mainly in the plain. ")
    prepare(str(tmp_path / "text"), tmp_path / "data", vocab=280, held_out=0.3)
    data = open_data(tmp_path / "data")
    plain, opened = TextTask(data, 16, 4), TextTask(data, 16, 4, opened=True)
    assert opened.identity != plain.identity
    for before, after in (
        (plain.batch(1, 2, 8), opened.batch(1, 2, 8)),
        (next(plain.held_out()), next(opened.held_out())),
    ):
        assert (after.inputs[:, 0] == data.manifest.tokenizer.end).all()
        assert (before.inputs[:, 0] != data.manifest.tokenizer.end).any()
        assert torch.equal(before.inputs[:, 1:], after.inputs[:, 1:])
        assert torch.equal(before.targets, after.targets)


def test_a_part_of_the_text_is_read_again_and_again(tmp_path):
    """Its first tokens, each once an epoch; the held-out text stays."""
    (tmp_path / "text").mkdir()
    for i in range(30):
        (tmp_path / "text" / f"{i}.txt").write_text((i + 1) * "The rain in Spain stays mainly in the plain. ")
    prepare(str(tmp_path / "text"), tmp_path / "data", vocab=280, held_out=0.3)
    data = open_data(tmp_path / "data")
    whole, part = TextTask(data, 16, 4), TextTask(data, 16, 4, train_tokens=49)
    assert part.identity != whole.identity
    assert torch.equal(next(part.held_out()).inputs, next(whole.held_out()).inputs)
    assert part.windows(0).epochs(2, 3) == 2
    first = data.tokens("train")[:49].astype(int)
    for epoch in range(2):
        windows = part.batch(5, epoch, 3)
        starts = sorted(int(x) for x in windows.inputs[:, 0])
        assert starts == sorted(first[:48:16].tolist())
    for wrong in (16, 10**9, -1, 0.5):
        with pytest.raises(BadInput):
            TextTask(data, 16, train_tokens=wrong).windows(0)


# Golden losses.


GOLDEN = {  # of every report the loss and the gradient norm, and the held-out losses by position where they are due
    "text": "3.018693 1.450459 2.755603 1.046462 2.986536 3.115633 3.199299 3.049591 2.877967 2.956673 "
    "2.598452 0.9887406 2.529676 0.8335456 2.971857 3.1354 3.250947 3.068246 2.811734 2.94052",
    "prompts": "4.385448 8.765549 4.946765 5.956845 4.152301 4.337278 3.854029 3.490205 "
    "8.567058 12.54267 5.753125 14.94616 4.125322 4.36676 3.862527 3.501503",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_losses(name):
    """Without dropout, whose masks are not the same on all kinds of CPU."""
    if name == "text":
        model, task = model_of(replace(READER, dropout=0.0), "skipv1+attnres"), text()
    else:
        model, task = model_of(replace(REGRESSOR, n_layers=2), "resformer-learned+denseformer"), prompts()
    found = []
    for logged in train(model, task, RECIPE, 5):
        found += [logged.loss, logged.gradient_norm, *(logged.held_out.loss if logged.held_out else ())]
    assert found == pytest.approx([float(x) for x in GOLDEN[name].split()], rel=1e-4), (
        f"the same recipe trains another model than it did; if that was meant, raise icl.training.loop.ROUTINE, now "
        f"{ROUTINE}, and write these here: {' '.join(f'{x:.7g}' for x in found)}"
    )


def test_dropout_is_another_one_in_every_part_of_every_step_of_every_seed():
    """And follows from these three alone, whatever torch's own stream has come to."""

    def drawn(state):
        torch.manual_seed(state)
        found = {}
        for name in itertools.product(range(2), range(3), range(2)):
            with _dropout_stream(reader(), *name):
                found[name] = tuple(torch.rand(3).tolist())
        return found

    assert drawn(0) == drawn(1)
    assert len(set(drawn(0).values())) == 12


def test_training_leaves_torch_s_own_stream_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    list(train(reader(), text(), replace(RECIPE, steps=3, evaluate_every=0), 0))
    assert torch.equal(torch.rand(3), expected)
    one, other = (list(train(reader(), text(), replace(RECIPE, steps=3, evaluate_every=0), 0)) for _ in range(2))
    assert [numbers(x) for x in one] == [numbers(x) for x in other]


def test_a_checkpoint_that_was_read_is_not_what_training_goes_on_in(tmp_path):
    """The optimiser's tensors are its own: what is trained afterwards does not change what was saved."""
    newest, _ = abandoned(tmp_path)
    before = copy.deepcopy(load_file(newest / TENSORS))
    list(itertools.islice(train(reader(), text(), RECIPE, 3, folder=tmp_path), 1))
    assert_same_bits(load_file(newest / TENSORS), before)
    assert json.loads((newest / ABOUT).read_bytes())["step"] == 6
