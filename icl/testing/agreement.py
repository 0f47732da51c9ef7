"""The comparison of a decoder with its reference: outputs, all gradients, and which weights there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from hypothesis import Phase, given, settings
from torch import Tensor

from icl.models.decoder import Decoder
from icl.prompts import Generator
from icl.testing.identities import check_identity
from icl.testing.references import REFERENCES, Reference, decode
from icl.testing.sizes import Case, cases, generic, inputs_of
from theory.errors import BadInput
from theory.plans.architecture import Architecture
from theory.plans.plan import Plan, Shape
from theory.plans.variants import VARIANTS

Leaves: TypeAlias = dict[str, Tensor]
Answer: TypeAlias = tuple[Tensor, dict[str, Tensor]]  # an output, and gradients by parameter

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)  # to explain a failure takes as long again


class Watched(dict[str, Tensor]):
    """Weights that remember which of them were read."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__(weights)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.used.add(name)
        return super().__getitem__(name)


def check_variant(name: str, *, options: Mapping[str, Any] | None = None, examples: int = 4, **sizes: Any) -> None:
    """Assert that a variant is its registered reference, at sizes that hypothesis draws.

    Args:
        name: The variant's, which is its reference's too.
        options: Options of both.
        examples: The number of sizes that are drawn.
        sizes: Which ones, as of `cases`.

    Raises:
        AssertionError: They differ by more than rounding, or in their weights.
        BadInput: The variant or its reference is not there.
    """
    for kind, there in (("variant", VARIANTS), ("reference", REFERENCES)):
        if name not in there:
            raise BadInput(f"there is no {kind} {name!r}")
    options = dict(options or {})
    make, reference = VARIANTS[name].make, REFERENCES[name](**options)
    check_plan(lambda shape: make(shape, **options), reference, examples=examples, **sizes)


def check_plan(make: Callable[[Shape], Plan], reference: Reference, *, examples: int = 4, **sizes: Any) -> None:
    """Assert that the plan of any shape is a reference; arguments as of `check_variant`."""

    @settings(max_examples=examples, deadline=None, phases=PHASES)
    @given(cases(**sizes))
    def hold(case: Case) -> None:
        check_reference(case, make(case.config.shape), reference)

    hold()


def check_reference(case: Case, plan: Plan, reference: Reference) -> None:
    """Assert that the decoder of these sizes is a reference: outputs, all gradients, and which weights there are."""
    config, inputs = case.config, inputs_of(case)
    model = generic(config, plan, case.seed)
    right, watched = leaves_of(model), Watched({})

    def by_reference(leaves: Leaves, inputs: Tensor) -> Tensor:
        nonlocal watched
        watched = Watched(leaves)
        return decode(watched, config, reference, inputs)

    expected = answer(by_reference, right, inputs, case.seed)
    unread = right.keys() - watched.used
    assert not unread, f"weights that the paper's formula does not have: {sorted(unread)}"
    parameters: Leaves = dict(model.named_parameters())
    got = answer(lambda _, inputs: model(inputs), parameters, inputs, case.seed)

    step, shifted = moved_leaves(right, case.seed)
    moved = answer(by_reference, shifted, inputs, case.seed)
    check_answers(got, expected, moved, step=step, terms=terms_of(config))


def answer(function: Callable[[Leaves, Tensor], Tensor], leaves: Leaves, inputs: Tensor, seed: int) -> Answer:
    """Return the output, and the gradients of a random functional of it by `leaves` and by continuous inputs."""
    if inputs.is_floating_point():
        inputs = inputs.detach().requires_grad_()
        leaves = leaves | {"inputs": inputs}
    out = function(leaves, inputs)
    functional = (out * Generator(seed, 3).normal(tuple(out.shape), torch.float64)).sum()
    grads = torch.autograd.grad(functional, list(leaves.values()), allow_unused=True)
    zeros = (torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves.values(), strict=True))
    return out.detach(), dict(zip(leaves, zeros, strict=True))


def leaves_of(model: Decoder) -> Leaves:
    """Return copies of a decoder's parameters by name."""
    return {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}


def moved_leaves(leaves: Leaves, seed: int) -> tuple[float, Leaves]:
    """Return a relative step, and every weight moved by it, up or down."""
    step, numbers = 2.0**-26, Generator(seed, 4)
    signs = {name: numbers.normal(tuple(p.shape), torch.float64).sign() for name, p in leaves.items()}
    return step, {name: (p.detach() * (1 + step * signs[name])).requires_grad_() for name, p in leaves.items()}


def terms_of(config: Architecture) -> int:
    """Return the number of reads and sublayers, which rounding adds up over."""
    return 2 * config.n_layers + 2


def check_answers(left: Answer, right: Answer, moved: Answer, *, step: float, terms: int) -> None:
    """Assert that outputs agree, and the gradients of all parameters, to rounding.

    `moved` is `right` at `moved_leaves`: every weight moved by a relative `step`.  (moved - right) / step is how far
    the result goes when every weight carries one unit of relative rounding: the scale that a backward-stable
    computation has.  The gradients share one scale, that of all of them together, because a parameter whose gradient
    cancels (a query, where only one key is visible) is left with the rounding of the others.
    """
    size = max(float(x.norm()) for x in (left[0], right[0], (moved[0] - right[0]) / step))
    check_identity(left[0], right[0], terms=terms, scale=size)
    assert left[1].keys() == right[1].keys()
    sizes = (_together(right[1]), _together({k: (moved[1][k] - right[1][k]) / step for k in right[1]}))
    for name, gradient in left[1].items():
        check_identity(gradient, right[1][name], terms=terms, scale=max(sizes))


def _together(gradients: Mapping[str, Tensor]) -> float:
    return float(sum(float(g.square().sum()) for g in gradients.values()) ** 0.5)
