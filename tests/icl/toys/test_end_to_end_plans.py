"""The end-to-end toy on plans: a decoder with biases of positions holds its layers, and copies as Assumption 1 says."""

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from icl.models.decoder import Decoder
from icl.prompts import Generator
from icl.testing import check_identity, tasks
from icl.toys.end_to_end import HEADS, EndToEndSpec, EndToEndToys, copying_layer
from icl.toys.literal import assumed_copy
from theory.plans.architecture import Architecture, Vectors
from theory.plans.heads import MHA, SKIPV1
from theory.plans.names import resolve
from theory.plans.plan import Chain


def decoder(task, width, mask, variant="vanilla"):
    """Tokens read into `width`, two layers of two heads as wide, no residual stream, all weights zero."""
    config = Architecture(
        d_model=width,
        n_layers=2,
        n_heads=HEADS,
        d_ff=0,
        context=2 * task.n + 1,
        stem=Vectors(task.d),
        head_dim=width,
        norm="none",
        positions="bias",
        mask=mask,
        score="linear",
    )
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
    numbers = Generator(seed)
    with torch.no_grad():
        for name, parameter in toys.named_parameters():
            parameter.copy_(numbers.normal(tuple(parameter.shape), torch.float64) * toys.get_buffer(f"mask_{name}"))
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
