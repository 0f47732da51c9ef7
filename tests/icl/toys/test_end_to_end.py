"""The end-to-end toy: equal to plain loops over tokens, toy by toy, and able to copy as Assumption 1 says."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.probes.copying import copying
from icl.prompts import TRAIN_STREAM, Generator, Prompts, RegressionTask
from icl.testing import check_identity
from icl.toys.end_to_end import Copying, EndToEndSpec, EndToEndToys, Random, copying_layer
from icl.toys.literal import assumed_copy
from icl.toys.stack import EVAL_BATCH, explained_signal
from icl.toys.training import toy_recipe, train
from tests.icl.toys.small import randomised
from theory.errors import BadInput, InvalidSize
from theory.plans.heads import MHA, SKIPV1, Head
from theory.toy import least_width

MIXED = (Head(0.5, 0.5), Head(-2.0, 1.0))
CHAINED = 12  # matrix products in a row, at most, in a prediction and its gradient


def naive(weights, heads, scores, tokens):
    """What one toy says of one prompt, tokens (d, T): every token asks every other one, in plain loops."""
    length = tokens.shape[-1]
    n, last = (length - 1) // 2, length - 1
    read = [weights["read_in"] @ tokens[:, t] for t in range(length)]
    first = []
    for t in range(length):
        total = torch.zeros_like(read[0])
        for h in range(len(heads)):
            for s in range(length):
                if s == last and (t != last or scores == "printed"):
                    continue
                score = weights["bias"][h, s, t]
                if scores != "positions":
                    score = score + read[s] @ weights["match"][h] @ read[t] / n
                total = total + weights["value"][h] @ read[s] * score
        first.append(total)
    out = 0
    for h, head in enumerate(heads):
        for t in range(last):
            score = first[t] @ weights["key_query"][h] @ first[last] / n
            out = out + weights["readout"][h] @ (head.copied * first[t] + head.raw * read[t]) * score
    return out


def specs_of(task, scores=("both", "positions", "printed")):
    """Widths, seeds, heads and scores that share no shape."""
    return [
        EndToEndSpec(task, heads, task.d + extra, seed, scores=kind)
        for heads, extra, seed, kind in (
            (MHA, 0, 0, scores[0]),
            (SKIPV1, 2, 0, scores[0]),
            (MIXED, 1, 1, scores[1]),
            (SKIPV1, 0, 1, scores[2]),
            (MIXED, 3, 0, scores[2]),
        )
    ]


def built(specs):
    return randomised(EndToEndToys(specs, dtype=torch.float64))


def batch_of(weights, heads, scores, sample):
    """Predictions (B, d) by loops, their loss, and its gradients in the order of the weights, zero where unused."""
    weights = {name: x.detach().clone().requires_grad_() for name, x in weights.items()}
    tokens = sample.tokens()
    plain = torch.stack([naive(weights, heads, scores, prompt) for prompt in tokens])
    loss = (plain - sample.label).square().sum(-1).mean()
    gradients = torch.autograd.grad(loss, weights.values(), allow_unused=True)
    zeros = (torch.zeros_like(x) if g is None else g for g, x in zip(gradients, weights.values(), strict=True))
    return plain.detach(), dict(zip(weights, zeros, strict=True))


def largest(weights, heads, scores, sample):
    """The same if nothing cancels: all numbers replaced by their sizes, and the label's sign turned."""
    sizes = Prompts(sample.x.abs(), sample.y.abs(), sample.w)
    sizes.y[..., -1] *= -1  # no token holds the label
    absolute = tuple(Head(abs(head.copied), abs(head.raw)) for head in heads)
    return batch_of({name: x.abs() for name, x in weights.items()}, absolute, scores, sizes)


tasks = st.builds(RegressionTask, d=st.integers(1, 3), n=st.integers(1, 4), sigma=st.sampled_from([0.0, 1.0]))


@settings(max_examples=7)
@given(tasks, st.integers(0, 30))
@pytest.mark.long
def test_every_toy_predicts_and_learns_as_loops_over_tokens_do(task, step):
    toys = built(specs_of(task))
    batch = toys.batch(3, TRAIN_STREAM, step)
    predicted = toys(batch.tokens)
    parameters = dict(toys.named_parameters())
    gradients = dict(zip(parameters, torch.autograd.grad(toys.losses(batch).sum(), parameters.values()), strict=True))
    for i, spec in enumerate(toys.specs):
        s, m = toys.locate[i]
        sample = spec.task.sample(3, Generator(TRAIN_STREAM, spec.seed, step), torch.float64)
        case = toys.weights(i), spec.heads, spec.scores, sample
        (plain, expected), (size, sizes) = batch_of(*case), largest(*case)
        terms = CHAINED * (2 * task.n + 1)
        check_identity(predicted[s, m], plain, terms=terms, scale=float(size.norm()))
        for name, theirs in expected.items():
            place = (*((slice(None),) * (theirs.dim() - 2)), s, m, *map(slice, theirs.shape[-2:]))
            allowed = toys.get_buffer(f"mask_{name}")[place]
            scale = float((sizes[name] * allowed).norm())
            check_identity(gradients[name][place], theirs * allowed, terms=terms, scale=scale)


@pytest.mark.parametrize("heads", [MHA[:1], (*MIXED, *MHA, Head(0.0, 1.0))])
def test_any_number_of_heads_predicts_as_loops_over_tokens_do(heads):
    task = RegressionTask(2, 3, 0.5)
    toys = built([EndToEndSpec(task, heads, 3, seed, scores="both") for seed in (0, 1)])
    sample = task.sample(2, Generator(TRAIN_STREAM, 0, 0), torch.float64)
    for i in range(2):
        plain, _ = batch_of(toys.weights(i), heads, "both", sample)
        found = toys(torch.stack([sample.tokens()] * 2))[toys.locate[i]]
        torch.testing.assert_close(found.detach(), plain, rtol=1e-10, atol=1e-10)


def test_the_tolerance_above_would_notice_a_wrong_mask():
    """The query seen by all: the difference is not within rounding."""
    task = RegressionTask(2, 3, 0.5)
    toys = built(specs_of(task, ("both", "both", "both")))
    tokens = toys.batch(2, TRAIN_STREAM, 0).tokens
    printed = built(specs_of(task, ("printed", "printed", "printed")))
    difference = (toys(tokens) - printed(tokens)).abs().amax((-1, -2))
    assert bool((difference > 1e-3 * toys(tokens).abs().amax((-1, -2)))[0, :2].all())


@settings(max_examples=20)
@given(tasks, st.sampled_from([0.0, 1.0, 4.0]), st.data())
def test_assumption_1_holds_to_the_letter(task, beta, data):
    """At m = d and every rank, TF_1(E) is `assumed_copy` with A = (I 0) and B = beta (0 I)."""
    d = task.d
    rank = data.draw(st.integers(0, d))
    toys = EndToEndToys([EndToEndSpec(task, MHA, d, 0, scores="positions")], dtype=torch.float64)
    toys.load(0, copying_layer(task, d, rank, beta))
    tokens = task.sample(2, Generator(1), torch.float64).tokens()
    eye = torch.eye(d, dtype=torch.float64)
    expected = assumed_copy(tokens, eye[:rank], beta * eye[rank:])
    context, last = toys.first_layer(tokens[None])
    check_identity(torch.cat([context, last[..., None]], dim=-1)[0, :, 0], expected)


def test_the_mask_as_printed_hides_the_query_from_its_own_token():
    """Without a context there is nothing: A x_{n+1} cannot be in the last token.  With the other mask it can."""
    task = RegressionTask(2, 3, 0.0)
    toys = built([EndToEndSpec(task, MHA, 3, 0, scores=scores) for scores in ("printed", "both", "positions")])
    tokens = torch.zeros(1, 1, 2, 7, dtype=torch.float64)
    tokens[..., -1] = 1
    last = toys.first_layer(tokens)[1][0, 0]
    assert [bool(x.any()) for x in last[:3]] == [False, True, True]


def test_nothing_but_the_last_token_sees_the_last_token():
    toys = built(specs_of(RegressionTask(2, 3, 0.1)))
    tokens = toys.batch(2, TRAIN_STREAM, 0).tokens
    other = tokens.clone()
    other[..., -1] += 1
    before, after = toys.first_layer(tokens), toys.first_layer(other)
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])


def test_entries_that_are_masked_never_move_and_all_others_may():
    toys = EndToEndToys(specs_of(RegressionTask(2, 3, 0.1)), dtype=torch.float64)
    before = {name: p.detach().clone() for name, p in toys.named_parameters()}
    list(train(toys, toy_recipe(4, batch=4, log_every=4)))
    for name, p in toys.named_parameters():
        mask = toys.get_buffer(f"mask_{name}")
        assert not (p * (1 - mask)).any()
        assert bool(((p != before[name]) == (mask > 0)).all()), name


def test_initial_weights_are_paired():
    """Equal for all heads and scores; zero readouts; near copying, the noise is the random start's."""
    task = RegressionTask(2, 3, 0.1)
    spec = EndToEndSpec(task, MHA, 3, 4, Random(1.0))
    near = replace(spec, start=Copying(1, noise=0.1))
    specs = [spec, replace(spec, heads=SKIPV1), replace(spec, scores="printed"), near, replace(spec, seed=5)]
    toys = EndToEndToys(specs, dtype=torch.float64)
    mha, skip, printed, close, other = (toys.weights(i) for i in range(5))
    layer = copying_layer(task, 3, 1)
    for name, x in mha.items():
        assert torch.equal(x, skip[name])
        assert (name == "bias") != torch.equal(x, printed[name])
        assert (name == "readout") != bool(x.any())
        assert (name == "readout") == torch.equal(x, other[name])
        if name in layer:
            allowed = x != 0
            torch.testing.assert_close(close[name], (layer[name] + 0.1 * x) * (allowed | (layer[name] != 0)))
    assert torch.equal(mha["bias"][:, :-1], printed["bias"][:, :-1])
    assert not printed["bias"][:, -1].any()
    assert not mha["bias"][:, -1, :-1].any()


@pytest.mark.long
def test_hiding_weights_explain_what_theory_says():
    """All of SkipV1Former's at width 2d - 1, within five standard errors; five per cent less is noticed."""
    d, n, sigma, eps = 2, 6, 0.3, 0.25
    task = RegressionTask(d, n, sigma)
    weights = vars(least_width.hiding_weights(d, n, sigma, eps))
    first, second = ("bias", "value"), ("key_query", "readout")
    layers = {name: torch.as_tensor(weights[name]) for name in first}
    layers |= {name: torch.as_tensor(np.pad(weights[name], ((0, 2), (0, 0), (0, 0)))) for name in second}
    toys = EndToEndToys([EndToEndSpec(task, MHA * 2, 2 * d - 1, 0, scores="positions")], dtype=torch.float64)
    toys.load(0, {"read_in": torch.as_tensor(weights["read_in"]), **layers, "readout": n * layers["readout"]})
    values = torch.stack([explained_signal(toys, EVAL_BATCH, start=i)[0, 0] for i in range(800)])
    mean, error = float(values.mean()), float(values.std()) / 800**0.5
    said = least_width.explained_by_hiding(d, n, sigma, eps)
    assert abs(mean - said) <= 5 * error < 0.05 * said


@pytest.mark.long
def test_explained_signal_is_zero_for_zero_and_the_loss_s_rest():
    task = RegressionTask(2, 4, 0.5)
    toys = EndToEndToys([EndToEndSpec(task, MHA, 2, 0), EndToEndSpec(task, SKIPV1, 3, 0)], dtype=torch.float64)
    assert not explained_signal(toys, EVAL_BATCH).any()
    with torch.no_grad():
        toys.readout.normal_(std=0.1, generator=torch.Generator().manual_seed(0)).mul_(toys.mask_readout)
    found = torch.stack([explained_signal(toys, EVAL_BATCH, start=i)[0] for i in range(400)])
    losses = torch.stack([toys.sampled_losses(EVAL_BATCH, TRAIN_STREAM, i)[0].detach() for i in range(400)])
    error = (found.std(0) ** 2 + losses.std(0) ** 2).sqrt() / 20
    assert bool(((found.mean(0) - (task.zero_loss - losses.mean(0))).abs() <= 5 * error).all())
    with pytest.raises(ValueError, match="multiple of 64"):
        explained_signal(toys, 100)


def test_shares_of_copying_are_those_of_the_weights():
    """A first layer that copies has known shares; mixed over tokens by an orthogonal matrix, only `gram` stays."""
    task = RegressionTask(3, 5, 0.5)
    beta, rank = 2.0, 1
    mixed = copying_layer(task, 3, rank, beta)
    turn = torch.linalg.qr(Generator(3).normal((10, 10), torch.float64)).Q
    mixed["bias"][:, :, :-1] = mixed["bias"][:, :, :-1] @ turn
    toys = EndToEndToys([EndToEndSpec(task, MHA, 3, 0, scores="positions")] * 3, dtype=torch.float64)
    toys.load(0, copying_layer(task, 3, rank, beta))
    toys.load(1, mixed)
    shares = copying(toys, 4096)
    of_x, of_y = rank, beta**2 * (3 - rank) * (3 + 0.25)
    near = {"atol": 0.02, "rtol": 0}
    whole, x_share = torch.tensor(1.0, dtype=torch.float64), torch.tensor(of_x / (of_x + of_y), dtype=torch.float64)
    torch.testing.assert_close(shares.x_kept[0, 0], whole, **near)
    torch.testing.assert_close(shares.x_in_y[0, 0], x_share, **near)
    torch.testing.assert_close(shares.y_in_y[0, 0], whole - x_share, **near)
    torch.testing.assert_close(shares.gram[0, :2], torch.ones(2, dtype=torch.float64), atol=1e-9, rtol=0)
    assert float(shares.gram[0, 2]) < 0.9
    assert float(shares.x_kept[0, 1]) < 0.5
    assert float((shares.x_in_y + shares.y_in_y)[0, 1]) < 0.5
    for count in (0, 64, 100):
        with pytest.raises(ValueError, match="multiple of 128"):
            copying(toys, count)


def test_impossible_stacks_and_weights_are_refused():
    task = RegressionTask(2, 3, 0.1)
    spec = EndToEndSpec(task, MHA, 2, 0)
    for bad in ([], [spec, replace(spec, task=RegressionTask(2, 4, 0.1))]):
        with pytest.raises(BadInput, match="one task for all"):
            EndToEndToys(bad)
    for heads in (MHA[:1], (Head(1, 0, key_copied=0, key_raw=1),) * 2):
        with pytest.raises(BadInput, match="equally many heads, which attend by copied keys"):
            EndToEndToys([spec, replace(spec, heads=heads)])
    with pytest.raises(BadInput, match="near copying needs 2 heads"):
        EndToEndToys([replace(spec, heads=MHA * 2, start=Copying(1))])
    with pytest.raises(InvalidSize, match="width must be a whole number from 2, got 1"):
        EndToEndToys([replace(spec, width=1)])
    with pytest.raises(InvalidSize, match="rank must be from 0"):
        EndToEndToys([replace(spec, start=Copying(3))])
    toys = EndToEndToys([spec])
    with pytest.raises(InvalidSize, match="bias must be one of"):
        toys.load(0, {"bias": torch.zeros(2, 3, 3)})
    with pytest.raises(BadInput, match="bias has entries where"):
        toys.load(0, {"bias": torch.ones(2, 7, 7)})
