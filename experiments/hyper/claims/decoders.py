"""Claims on hyper-connections in built decoders: how they start, what their reads hold, what mHC conserves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from experiments.hyper.claims.streams import MHC
from experiments.ledger.claim import Claim, Conditions
from theory.hyper import streams as streams_theory
from theory.hyper.paper import PAPER
from theory.hyper.streams import Sublayer, mean_row, rows
from theory.plans.names import resolve
from theory.plans.presets import llama

if TYPE_CHECKING:
    from torch import Tensor

    from icl.models.decoder import Decoder
    from theory.hyper.streams import Array

    Layout = Callable[[Decoder, int, Array, int], Sublayer]  # from the gates of one sublayer, by number, and n

CLOSE = 1e-9
EPS = 0.1
CONFIG = replace(llama(d_model=8, n_heads=2, n_layers=2, d_ff=6, vocab=16, context=4), norm_eps=EPS)
STATIC, DYNAMIC, CONSTRAINED = "hyper-connections-static", "hyper-connections", "mhc"

DECODERS = Claim(
    "hyper.decoders",
    PAPER.ours,
    place=f"icl/models/streams.py; bears on section 2 and {MHC}, section 4.1",
    statement="A built decoder with n streams at the initial weights of hyper-connections, static or dynamic, is the "
    "PreNorm decoder with the same other weights whose last norm has eps / n^2: answers and gradients are equal.  At "
    "any weights its reads are the sums of outputs that theory makes of reads, mixing and writes.  Under mHC the last "
    "read is a residual sum, output l times the sum of its writes.",
    assumes="for mHC: Sinkhorn iterations that have converged",
    verdict="verified",
    proof=streams_theory,
    uses=("hyper.start", "hyper.doubly-stochastic", "hyper.mixing-forgotten"),
)


def answer_and_gradients(model: Decoder) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the scores of four sequences, (4, 4, vocabulary), and all gradients of their mean square."""
    import torch

    result: Tensor = model(torch.arange(16).view(4, 4))
    result.square().mean().backward()
    return result.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@DECODERS.check(
    "static and dynamic, 1, 2 and 4 streams, against PreNorm with eps over this power of n in the last norm: answers "
    "and gradients",
    states=2,
    control=0,
    wrong="the same eps",
    others={"eps / n": 1},
)
def starts_as_prenorm(power: int) -> Conditions:
    from icl.models.decoder import Decoder

    for name, n in product((STATIC, DYNAMIC), (1, 2, 4)):
        model = Decoder(CONFIG, resolve(f"{name}:streams={n}", CONFIG.shape), std=0.3).double()
        prenorm = Decoder(CONFIG, resolve("vanilla", CONFIG.shape), std=0.3).double()
        prenorm.norm.eps = EPS / n**power
        (found, gradients), (expected, others) = answer_and_gradients(model), answer_and_gradients(prenorm)
        yield bool((found - expected).norm() <= CLOSE * expected.norm())
        yield bool(others) and all((gradients[p] - g).norm() <= CLOSE * (1 + g.norm()) for p, g in others.items())


def static(model: Decoder, i: int, gates: Array, n: int) -> Sublayer:  # noqa: ARG001 - it has none
    """Return the weights of sublayer i as they lie in the parameters: a, then a row of H and its entry of b."""
    weights = model.get_parameter(f"depth.weights.step_{i}").detach().numpy()
    table = weights[n:].reshape(n, n + 1)
    return Sublayer(weights[:n], table[:, :n], table[:, n])


def dynamic(model: Decoder, i: int, gates: Array, n: int) -> Sublayer:  # noqa: ARG001
    """Return the weights of sublayer i from its gates: of every stream its part in a, in each row of H, and b."""
    table = gates.reshape(n, n + 2)
    return Sublayer(table[:, 0], table[:, 1:-1].T, table[:, -1])


def constrained(model: Decoder, i: int, gates: Array, n: int) -> Sublayer:  # noqa: ARG001
    """Return the weights of sublayer i from its gates: a, b, then H row by row."""
    return Sublayer(gates[:n], gates[2 * n :].reshape(n, n), gates[n : 2 * n])


LAYOUTS: dict[str, Layout] = {STATIC: static, DYNAMIC: dynamic, CONSTRAINED: constrained}


def passed(variant: str, n: int) -> tuple[list[Sublayer], Array, list[Array]]:
    """Return what a decoder under a variant with n streams does with one token, at random weights.

    Returns:
        The weights of its sublayers over n streams, the embedding and every output, (outputs, d_model), and what every
        sublayer and then the last norm reads, (d_model,) each.
    """
    import torch

    from icl.models.decoder import Decoder

    layout = LAYOUTS[variant.partition(":")[0]]
    model = Decoder(CONFIG, resolve(variant, CONFIG.shape)).double()
    generator = torch.Generator().manual_seed(n)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    reads: list[Array] = []
    outputs: list[Array] = []
    parts = [*model.sublayers, model.norm]
    handles = [p.register_forward_pre_hook(lambda _, args: reads.append(args[0].numpy().ravel())) for p in parts]
    handles += [p.register_forward_hook(lambda *o: outputs.append(o[2][0].numpy().ravel())) for p in parts[:-1]]
    tokens = torch.tensor([[5]])
    with torch.no_grad():
        model(tokens)
        embedding = model.stem.embed(tokens)
        state, sublayers = model.depth.start(embedding), []
        for i, output in enumerate(outputs):
            gates = np.array([float(gate) for gate in state.gates])
            sublayers.append(layout(model, i, gates, n))
            state = model.depth.write(i, state, torch.from_numpy(output)[None, None])
    for handle in handles:
        handle.remove()
    return sublayers, np.array([embedding.numpy().ravel(), *outputs]), reads


@DECODERS.check(
    "static, dynamic and mHC at random weights, 2 and 3 streams: every read is the sum of outputs with the weights of "
    "theory",
    states=lambda mix: mix,
    control=lambda mix: np.eye(len(mix)),
    wrong="mixing is computed and not applied",
    others={"it is applied transposed": lambda mix: mix.T},
)
def reads_hold_outputs(applied: Callable[[Array], Array]) -> Conditions:
    for name, n in product(LAYOUTS, (2, 3)):
        sublayers, outputs, reads = passed(f"{name}:streams={n}", n)
        weights = rows([replace(s, mix=applied(s.mix)) for s in sublayers], np.ones(n))
        yield len(reads) == 2 * CONFIG.n_layers + 1
        for row, read in zip(weights, reads, strict=True):
            expected = row @ outputs[: len(row)]
            yield np.linalg.norm(read - expected) <= CLOSE * np.linalg.norm(expected)


@DECODERS.check(
    "mHC at random weights after so many Sinkhorn iterations, 2 and 4 streams: the last read is a residual sum",
    states=300,
    control=1,
    wrong="one iteration, after which rows alone sum to 1",
)
def sum_of_streams_is_residual(rounds: int) -> Conditions:
    for n in (2, 4):
        sublayers, outputs, reads = passed(f"{CONSTRAINED}:streams={n},rounds={rounds},diagonal=0", n)
        expected = n * mean_row(sublayers) @ outputs
        yield np.linalg.norm(reads[-1] - expected) <= CLOSE * np.linalg.norm(expected)
