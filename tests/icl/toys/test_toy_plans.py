"""The toy on plans: the decoder with linear scores does what `theory.plans.heads` says, and reaches the prediction."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.prompts import Generator, RegressionTask
from icl.testing import check_identity, tasks
from icl.toys.literal import SecondLayer, toy_output
from theory.plans.heads import MHA, SKIPV1, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Chain, Shape, plan, v
from theory.plans.presets import toy
from theory.plans.variants import VARIANTS
from theory.prompts.setting import signal_share
from theory.toy.value_maps import optimum

BEYOND = ("attnres", "dva", "denseformer")
BESIDE = ("neutreno", "identity-mapping", "resformer-neutreno")  # of these, the toy covers the optimum alone
LEARNED = ("resformer-learned",)


def toy_model(task, rank, chosen, seed=0):
    """The two-layer toy without a residual stream, as in appendix A.1."""
    made = toy(task.d, task.n, heads=chosen.shape.heads, copy_rank=rank)
    return Decoder(made, replace(chosen, depth=Chain()), seed=seed, std=0.5).double()


def rows(model, layer, name, head):
    """A head's part of a projection, (d, d), wherever it stands among the heads that are built."""
    projection = model.layers[layer - 1]["attention"].projections.get_submodule(name)
    place = projection.heads.index(head)
    return projection.weight.unflatten(0, (-1, projection.width))[place]


def reduced(model, task, prompts):
    """P x_{n+1} from second moments: for each head, value and key its W [S_xx + sum value key^T] K x_{n+1}."""
    s = prompts.second_moment()
    d, first = task.d, model.layers[0]["attention"]
    u = torch.zeros(d, 2 * d, dtype=torch.float64)
    u[: first.a.shape[0], :d], u[first.a.shape[0] :, d:] = first.a, first.b
    raw = torch.cat([torch.zeros(d, d), torch.eye(d)], dim=1).double()
    compressed = torch.cat([first.a, torch.zeros(d - first.a.shape[0], d)]) @ prompts.query.mT
    last, out = model.layers[1]["attention"], 0
    for place, h in enumerate(model.plan.live(2)):
        head = model.plan.head(2, h)
        readout = last.output.weight.unflatten(1, (-1, d))[:, place]
        query = sum(
            t.weight
            * rows(model, t.source.layer, "query", t.source.head)
            @ (compressed if t.source.layer == 2 else prompts.query.mT)
            for t in head.query.terms
        )
        for values, keys in zip(head.values, head.keys, strict=True):
            for a in values.terms:
                for b in keys.terms:
                    left, right = (u if t.source.layer == 2 else raw for t in (a, b))
                    gram = s[:, :d, :d] + left @ s @ right.T
                    value = readout @ rows(model, a.source.layer, "value", a.source.head) * a.weight
                    key = rows(model, b.source.layer, "key", b.source.head) * b.weight
                    out = out + torch.einsum("ij,bjk,lk,lb->bi", value, gram, key, query)
    return out


@pytest.mark.parametrize("name", [n for n in VARIANTS if not n.startswith(BEYOND) and n not in BESIDE + LEARNED])
@settings(max_examples=8)
@given(task=tasks(max_d=4, max_n=5), data=st.data())
def test_the_decoder_is_the_reduced_toy(name, task, data):
    rank = data.draw(st.integers(0, task.d))
    model = toy_model(task, rank, VARIANTS[name].make(Shape(2, 2)))
    with torch.no_grad():
        first = model.layers[0]["attention"]
        first.a.copy_(Generator(1).normal(tuple(first.a.shape), torch.float64))
        first.b.copy_(Generator(2).normal(tuple(first.b.shape), torch.float64))
        prompts = task.sample(3, Generator(3), torch.float64)
        out, expected = model(prompts.tokens().mT)[:, -1], reduced(model, task, prompts)
    allowed = {"terms": 40 * task.n, "scale": size(model, prompts)}
    check_identity(out, expected, **allowed)
    if float(out.norm()) > 1e-3:
        with pytest.raises(AssertionError):
            check_identity(out, 1.001 * expected, **allowed)


def size(model, prompts):
    """The product of the norms along the longest path: the largest intermediate there can be."""
    weights = [float(p.detach().norm()) for p in model.parameters()]
    largest = max(1.0, *weights)
    return largest**6 * float(prompts.second_moment().norm()) * float(prompts.query.norm())


@given(tasks(max_d=4, max_n=5), st.data())
def test_the_decoder_is_the_paper_s_two_layers(task, data):
    """Eqns. (2) and (3) as printed, with the same weights: MHA and SkipV1Former."""
    rank = data.draw(st.integers(0, task.d))
    name, heads = data.draw(st.sampled_from([("vanilla", MHA), ("skipv1", SKIPV1)]))
    model = toy_model(task, rank, VARIANTS[name].make(Shape(2, 2)))
    prompts = task.sample(2, Generator(3), torch.float64)
    first, d = model.layers[0]["attention"], task.d
    with torch.no_grad():
        out = model(prompts.tokens().mT)[:, -1]
        last = model.layers[1]["attention"].output.weight.unflatten(1, (2, d))
        values = [rows(model, 2, "value", 1), rows(model, 2 if name == "vanilla" else 1, "value", 2)]
        w_q, w_k = (torch.stack([rows(model, 2, x, h) for h in (1, 2)]) for x in ("query", "key"))
        w_v = torch.stack([last[:, h] @ values[h] for h in (0, 1)])
        layer = SecondLayer(w_q, w_k, w_v, torch.eye(d, dtype=torch.float64))
        expected = toy_output(prompts.tokens(), first.a, first.b, layer, heads)[..., -1]
    check_identity(out, expected, terms=40 * task.n, scale=size(model, prompts))


@pytest.mark.parametrize("name", ["skipv1", "resformer"])
def test_the_decoder_reaches_the_predicted_optimum(name):
    """Weights from the proof, written into the decoder: its loss on fresh prompts is the closed form to sampling error.

    With the control that the optimum of one rank less is rejected.
    """
    task, rank = RegressionTask(3, 8, 0.3), 2
    chosen = VARIANTS[name].make(Shape(2, 2))
    model = toy_model(task, rank, chosen)
    eye, pi = torch.eye(3).double(), torch.diag(torch.tensor([1.0, 1, 0])).double()
    lam = signal_share(task.d, task.n, task.sigma) / task.n
    cancel = -lam * torch.linalg.inv(eye + pi)
    with torch.no_grad():
        first = model.layers[0]["attention"]
        first.a.copy_(eye[:rank])
        first.b.zero_()
        for h in (1, 2):
            for part in ("query", "key"):
                rows(model, 2, part, h).copy_(eye)
        readouts = model.layers[1]["attention"].output.weight.unflatten(1, (2, 3))
        if name == "skipv1":
            readouts[:, 0], readouts[:, 1] = cancel, lam * eye
            rows(model, 2, "value", 1).copy_(eye)
            rows(model, 1, "value", 2).copy_(eye)
        else:  # one head does it; the other is silent
            readouts[:, 0], readouts[:, 1] = 2 * lam * eye, 0
            rows(model, 1, "value", 1).copy_(eye)
            rows(model, 2, "value", 1).copy_(cancel / lam)
        prompts = task.sample(40_000, Generator(5), torch.float64)
        errors = (model(prompts.tokens().mT)[:, -1] - prompts.label).square().sum(-1)
    mean, stderr = float(errors.mean()), float(errors.std() / len(errors) ** 0.5)
    said, less = (optimum(chosen, task.d, task.n, task.sigma, a).loss for a in (rank, rank - 1))
    assert abs(mean - said) < 4 * stderr < abs(less - said) / 2


def test_toys_of_any_depth_and_norm():
    """Four layers, a real first layer, norms, depth attention: all by the same loop."""
    task = RegressionTask(4, 5, 0.1)
    prompts = task.sample(2, Generator(0))
    for changes in ({}, {"norm": "rms"}, {"norm": "layer", "positions": "learned"}, {"copy_rank": 2}, {"d_ff": 6}):
        made = replace(toy(4, 5, heads=2, layers=4), **changes)
        for name in ("skipv1", "attnres", "attnres-block:size=3", "denseformer", "dva-attention"):
            out = Decoder(made, resolve(name, made.shape), std=0.05)(prompts.tokens().mT)
            assert out.shape == (2, 11, 4)
            assert out.isfinite().all()


def test_the_last_token_attends_over_all_but_itself():
    """The mask of Eqn. (2): changing the query changes no other token, and the query's own value is not summed."""
    task = RegressionTask(3, 4, 0.1)
    made = toy(3, 4)
    model = Decoder(made, replace(plan(made.shape, values=lambda n, h: v(n, h)), depth=Chain()), std=0.5).double()
    tokens = task.sample(1, Generator(0), torch.float64).tokens().mT.clone()
    before = model(tokens)
    tokens[:, -1] *= 2
    after = model(tokens)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])
    assert len(toy_heads(VARIANTS["skipv1"].make(Shape(2, 2)))) == 2
