"""The toy on plans: the decoder with linear scores does what `theory.plans.heads` says, and reaches the prediction.

And the end-to-end toy: a decoder with biases of positions holds its layers, and copies as Assumption 1 says."""

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.prompts import Generator
from icl.testing import check_identity, tasks
from icl.toys.end_to_end import HEADS, EndToEndSpec, EndToEndToys, copying_layer
from icl.toys.literal import SecondLayer, assumed_copy, toy_output
from tests.icl.toys.small import randomised
from theory.plans.architecture import Architecture, Vectors
from theory.plans.heads import MHA, SKIPV1
from theory.plans.names import resolve
from theory.plans.plan import Chain, Shape
from theory.plans.presets import toy
from theory.plans.variants import VARIANTS

BEYOND = ("attnres", "dva", "denseformer", "value-embeddings", "gated-value", "shifted-values")
BESIDE = ("neutreno", "identity-mapping", "resformer-neutreno")  # of these, the toy covers the optimum alone
LEARNED = ("resformer-learned", "tied-resformer", "lime")


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
    largest = max(1.0, *(float(p.detach().norm()) for p in model.parameters()))
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


# --- the end-to-end toy ---------------------------------------------------------------------------------------------


END_TO_END = Architecture(
    d_model=1, n_layers=2, n_heads=HEADS, d_ff=0, context=1, stem=Vectors(1), head_dim=1, norm="none", positions="bias"
)


def decoder(task, width, mask, variant="vanilla"):
    """Tokens read into `width`, two layers of two heads as wide, no residual stream, all weights zero."""
    sizes = {"d_model": width, "head_dim": width, "context": 2 * task.n + 1, "stem": Vectors(task.d)}
    config = replace(END_TO_END, **sizes, mask=mask, score="linear")
    model = Decoder(config, replace(resolve(variant, config.shape), depth=Chain())).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


@torch.no_grad()
def hold_first_layer(model, weights):
    """The toy's read-in, values V_h and biases R_h, which go from key to query there and from query to key here."""
    attention, width = model.layers[0]["attention"], model.config.width
    model.stem.read_in.weight.copy_(weights["read_in"])
    attention.projections.value.weight.copy_(weights["value"].flatten(0, 1))
    attention.output.weight.copy_(torch.eye(width).repeat(1, HEADS))
    attention.position_bias.scores.copy_(weights["bias"].mT)
    return attention


@torch.no_grad()
def first_layer(model, tokens):
    """What layer 1 puts out: (batch, T, width)."""
    seen = []
    hook = model.layers[0]["attention"].register_forward_hook(lambda _module, _args, out: seen.append(out[0]))
    model(tokens)
    hook.remove()
    return seen[0]


@settings(max_examples=40)
@given(tasks(max_d=4, max_n=4), st.data())
def test_layer_1_can_copy_as_assumption_1_says(task, data):
    """With a causal mask, at every width and rank: y_t's token holds (A x_t ; B y_t), the query (A x_{n+1} ; 0)."""
    d, width = task.d, data.draw(st.integers(task.d, 2 * task.d + 1))
    rank, beta = data.draw(st.integers(0, d)), 0.7
    rows = min(width - rank, d)
    model = decoder(task, width, "causal")
    attention = hold_first_layer(model, copying_layer(task, width, rank, beta))
    prompts = task.sample(2, Generator(3), torch.float64)
    eye = torch.eye(d, dtype=torch.float64)
    a, b = eye[:rank], beta * eye[d - rows :]

    out = first_layer(model, prompts.tokens().mT)
    zero = torch.zeros(2, task.n, width - rank - rows, dtype=torch.float64)
    x, y = prompts.tokens()[..., 0:-1:2].mT, prompts.tokens()[..., 1::2].mT
    check_identity(out[:, 1::2], torch.cat([x @ a.mT, y @ b.mT, zero], dim=-1), terms=4 * task.n)
    query = torch.cat([prompts.query @ a.mT, torch.zeros(2, width - rank, dtype=torch.float64)], dim=-1)
    check_identity(out[:, -1], query, terms=4 * task.n)
    if width == d:  # the x tokens stay as they are
        check_identity(out.mT, assumed_copy(prompts.tokens(), a, b), terms=4 * task.n)
    with torch.no_grad():  # the control: without positions nothing is copied
        attention.position_bias.scores.zero_()
    assert not first_layer(model, prompts.tokens().mT).any()


def held(toys, task, width, variant):
    """A decoder with the weights of `toys`, whose scores of contents are over n."""
    weights = toys.weights(0)
    model = decoder(task, width, "context", variant)
    with torch.no_grad():
        first, last = hold_first_layer(model, weights), model.layers[1]["attention"]
        for attention, match in ((first, "match"), (last, "key_query")):
            attention.projections.key.weight.copy_(torch.eye(width).repeat(HEADS, 1))
            attention.projections.query.weight.copy_(weights[match].flatten(0, 1) / task.n)
        values = list(last.projections.value.weight.unflatten(0, (-1, width)))
        readouts = last.output.weight.unflatten(1, (HEADS, width))
        for value in values:
            value.copy_(torch.eye(width))
        for h in range(HEADS):  # a skip head's values are layer 1's, V_h E'
            inverse = torch.eye(width).double() if h < len(values) else torch.linalg.inv(weights["value"][h])
            readouts[: task.d, h] = weights["readout"][h] @ inverse
        model.stem.head.weight.copy_(torch.eye(task.d, width))
    return model


@pytest.mark.parametrize(("variant", "heads"), [("vanilla", MHA), ("skipv1", SKIPV1)])
@settings(max_examples=15)
@given(task=tasks(max_d=3, max_n=4), extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_the_decoder_is_the_end_to_end_toy_with_the_mask_as_printed(variant, heads, task, extra, seed):
    """Scores of contents and positions, generic weights; only layer 1 has a bias there, so layer 2's is zero here."""
    width = task.d + extra
    toys = EndToEndToys([EndToEndSpec(task, heads, width, seed, scores="printed")], dtype=torch.float64)
    randomised(toys, seed=seed)
    inverted = float(torch.linalg.cond(toys.weights(0)["value"][1]))
    assume(inverted < 1e4)
    model = held(toys, task, width, variant)
    prompts = task.sample(2, Generator(seed, 1), torch.float64)
    expected = toys(prompts.tokens()[None])[0, 0].detach()
    with torch.no_grad():
        out = model(prompts.tokens().mT)[:, -1]
        context, last = (part[0, :, 0] for part in toys.first_layer(prompts.tokens()[None]))
        first = first_layer(model, prompts.tokens().mT)
        sizes = float(first.norm()) ** 2 * max(float(first.norm()), float(prompts.tokens().norm()))
        check_identity(first.mT, torch.cat([context, last[..., None]], dim=-1), terms=1000 * task.n, scale=sizes)
        largest = max(float(p.norm()) for p in model.parameters())
        check_identity(out, expected, terms=100 * inverted * task.n, scale=sizes * largest**2)
        model.layers[0]["attention"].position_bias.scores *= 1.001
        other = model(prompts.tokens().mT)[:, -1]
    assert float((other - expected).norm()) > 1e3 * float((out - expected).norm())
