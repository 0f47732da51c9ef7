"""Sizes for hypothesis to draw, models at generic points, and the comparison of a model with its reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import torch
from hypothesis import strategies as st
from torch import Tensor

from icl.models.decoder import Decoder
from icl.prompts import Generator
from icl.testing import check_identity
from tests.icl.models.references import Reference, decode
from theory.plans.architecture import Architecture, Latent, Patches, Stem, Tokens, Vectors
from theory.plans.plan import Plan


@dataclass(frozen=True)
class Case:
    made: Architecture
    batch: int
    length: int
    seed: int


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    least_heads: int = 1,
    even: bool = False,
    least_layers: int = 1,
    most_layers: int = 5,
    square: bool = False,
    parts: int = 1,
    stems: tuple[str, ...] = ("tokens", "tied", "vectors"),
    score: str = "softmax",
    latent: bool = False,
    **fixed: object,
) -> Case:
    """LLaMA, GPT-2 and everything between: each field is drawn by itself.

    The width is at least 3: LayerNorm makes signs of two numbers, and gradients through it are rounding alone.

    least_heads, even    key/value heads, for variants that split them
    square               the heads together are as wide as the model, which does without an output projection
    parts                divides the width, for depth attention with heads
    """
    kv = draw(st.integers(least_heads, 4).filter(lambda n: n % 2 == 0 if even else True))
    group = 1 if latent else draw(st.integers(1, 2))
    positions = "rope" if latent else draw(st.sampled_from(["rope", "learned", "none"]))
    widths = [2, 4] if positions == "rope" and not latent else [1, 2, 3]
    width = draw(st.sampled_from([w for w in widths if not square or kv * group * w >= 3]))
    d_model = kv * group * width if square else parts * draw(st.integers(ceil(3 / parts), max(1, 8 // parts)))
    layers = draw(st.integers(least_layers, most_layers))
    length = draw(st.integers(1, 7))
    biased = not latent and draw(st.booleans())
    stem, length = _stem(draw(st.sampled_from(stems)), length)
    made = Architecture(
        d_model=d_model,
        n_layers=layers,
        n_heads=kv * group,
        d_ff=draw(st.integers(1, 6)),
        context=length + draw(st.integers(0, 1)) * (not isinstance(stem, Patches)),
        stem=stem,
        n_kv_heads=kv,
        head_dim=width,
        norm=draw(st.sampled_from(["rms", "layer"])),
        norm_eps=draw(st.sampled_from([1e-5, 0.1])),
        gated=draw(st.booleans()),
        positions=positions,
        rope_theta=draw(st.sampled_from([10.0, 10_000.0])),
        qkv_bias=biased,
        bias=draw(st.booleans()),
        mask="none" if isinstance(stem, Patches) else "causal",
        score=score,
        latent=Latent(kv * draw(st.integers(1, 2)), draw(st.sampled_from([2, 4]))) if latent else None,
    )
    return Case(replace(made, **fixed), draw(st.integers(1, 3)), length, draw(st.integers(0, 2**16)))


def _stem(kind: str, length: int) -> tuple[Stem, int]:
    """A stem, and the length that it makes of the one that was drawn."""
    match kind:
        case "vectors":
            return Vectors(3), length
        case "patches":
            side = 2 if length > 3 else 1
            return Patches(image=2 * side, patch=2, channels=3, classes=4), side**2 + 1
        case _:
            return Tokens(5, tied=kind == "tied"), length


def inputs_of(case: Case, stream: int = 0) -> Tensor:
    numbers = Generator(case.seed, 1, stream)
    match case.made.stem:
        case Tokens(vocab=vocab):
            return (numbers.normal((case.batch, case.length), torch.float64) * 1e3).long() % vocab
        case Vectors(width=width):
            return numbers.normal((case.batch, case.length, width), torch.float64)
        case Patches(image=image, channels=channels):
            return numbers.normal((case.batch, channels, image, image), torch.float64)


def generic(made: Architecture, plan: Plan, seed: int) -> Decoder:
    """A float64 decoder at a generic point: no weight keeps a special starting value (0, 1, one-hot)."""
    model = Decoder(made, plan, seed=seed, std=0.3).double()
    numbers = Generator(seed, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * numbers.normal(tuple(parameter.shape), torch.float64)
    return model


class Watched(dict):
    """Weights that remember which of them were read."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__(weights)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.used.add(name)
        return super().__getitem__(name)


Function = Callable[[dict[str, Tensor], Tensor], Tensor]
Answer = tuple[Tensor, dict[str, Tensor]]


def answer(function: Function, leaves: dict[str, Tensor], inputs: Tensor, seed: int) -> Answer:
    """The output, and the gradients of a random functional of it with respect to `leaves` and continuous inputs."""
    if inputs.is_floating_point():
        inputs = inputs.detach().requires_grad_()
        leaves = leaves | {"inputs": inputs}
    out = function(leaves, inputs)
    functional = (out * Generator(seed, 3).normal(tuple(out.shape), torch.float64)).sum()
    grads = torch.autograd.grad(functional, list(leaves.values()), allow_unused=True)
    zeros = (torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves.values(), strict=True))
    return out.detach(), dict(zip(leaves, zeros, strict=True))


def leaves_of(model: Decoder) -> dict[str, Tensor]:
    return {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}


def moved_leaves(leaves: dict[str, Tensor], seed: int) -> tuple[float, dict[str, Tensor]]:
    """A relative step, and every weight moved by it, up or down."""
    step, numbers = 2.0**-26, Generator(seed, 4)
    signs = {name: numbers.normal(tuple(p.shape), torch.float64).sign() for name, p in leaves.items()}
    return step, {name: (p.detach() * (1 + step * signs[name])).requires_grad_() for name, p in leaves.items()}


def terms_of(made: Architecture) -> int:
    """Reads and sublayers: what rounding adds up over."""
    return 2 * made.n_layers + 2


def check_answers(left: Answer, right: Answer, moved: Answer, step: float, terms: int) -> None:
    """Outputs agree, and the gradients of all parameters, to rounding.

    `moved` is `right` at `moved_leaves`: every weight moved by a relative `step`.  (moved - right) / step is how far
    the result goes when every weight carries one unit of relative rounding: the scale that a backward-stable
    computation has.  The gradients share one scale, that of all of them together, because a parameter whose gradient
    cancels (a query, where only one key is visible) is left with the rounding of the others.
    """
    size = max(float(x.norm()) for x in (left[0], right[0], (moved[0] - right[0]) / step))
    check_identity(left[0], right[0], terms=terms, scale=size)
    assert left[1].keys() == right[1].keys()
    sizes = (together(right[1]), together({k: (moved[1][k] - right[1][k]) / step for k in right[1]}))
    for name, gradient in left[1].items():
        check_identity(gradient, right[1][name], terms=terms, scale=max(sizes))


def together(gradients: dict[str, Tensor]) -> float:
    return float(sum(g.square().sum() for g in gradients.values()).sqrt())


def agree(case: Case, plan: Plan, reference: Reference) -> None:
    """Assert that the decoder under `plan` is `reference`: outputs, all gradients, and which weights there are."""
    made, inputs = case.made, inputs_of(case)
    model = generic(made, plan, case.seed)
    right, watched = leaves_of(model), Watched({})

    def by_reference(leaves: dict[str, Tensor], inputs: Tensor) -> Tensor:
        nonlocal watched
        watched = Watched(leaves)
        return decode(watched, made, reference, inputs)

    expected = answer(by_reference, right, inputs, case.seed)
    unread = right.keys() - watched.used
    assert not unread, f"weights that the paper's formula does not have: {sorted(unread)}"
    got = answer(lambda _, inputs: model(inputs), dict(model.named_parameters()), inputs, case.seed)

    step, shifted = moved_leaves(right, case.seed)
    check_answers(got, expected, answer(by_reference, shifted, inputs, case.seed), step, terms_of(made))
