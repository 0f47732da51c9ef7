"""Claims on refitting the output projection to what converted heads read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import exp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.reading import refit as refit_theory
from theory.reading.refit import (
    Moments,
    excess,
    least_error,
    moments,
    refit,
    ridge_bound,
    shift_bound,
    squared_error,
)
from theory.skipv1.paper import PAPER

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from theory.reading.refit import Array

CLOSE = 1e-9

REFIT = Claim(
    "reading.refit",
    PAPER.ours,
    place="theory/reading/refit.py; bears on conversion of checkpoints, section 5.1",
    statement="At fixed attention patterns the projection E[y z^T] E[z z^T]^+ of what converted heads read, z, has "
    "the least squared error of a layer's output y, layer by layer: on the calibration distribution it is never "
    "worse than the raw swap or than leaving heads out.  A ridge t costs at most t/4 times the squared distance from "
    "the best projection to where the ridge pulls, and toward the raw swap it is never worse than that.  On another "
    "distribution with a density between a and b it is at most (a + b)^2 / (4 a b) times as bad as any projection, "
    "which is attained.  A smaller squared error can cost more nats, and more in a later layer whose pattern moves.",
    assumes="patterns do not depend on the projection; second moments are known; no bias in the projection",
    verdict="verified",
    proof=refit_theory,
)


class Contexts(NamedTuple):
    """Outputs (contexts, outputs), reads (contexts, reads) and probabilities (contexts,)."""

    outputs: Array
    reads: Array
    chance: Array

    def error(self, projection: Array) -> float:
        return float(self.chance @ ((self.outputs - self.reads @ projection.T) ** 2).sum(1))

    @property
    def moments(self) -> Moments:
        return moments(self.outputs, self.reads, self.chance)

    @property
    def solved(self) -> Array:
        """The projection of least squared error by a least-squares solver, (outputs, reads)."""
        root = np.sqrt(self.chance)[:, None]
        found: Array = np.linalg.lstsq(root * self.reads, root * self.outputs, rcond=None)[0].T
        return found


def contexts() -> Iterator[Contexts]:
    """Yield random contexts, where reads are singular too: fewer contexts than reads, or reads of a lower rank."""
    for count, outputs, reads, rank in ((1, 1, 1, 1), (7, 5, 3, 3), (3, 2, 5, 5), (40, 4, 6, 6), (40, 3, 7, 2)):
        rng = np.random.default_rng(count + reads)
        seen = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, reads))
        chance = rng.uniform(0.5, 2, count)
        yield Contexts(rng.standard_normal((count, outputs)), seen, chance / chance.sum())


@REFIT.check(
    "random contexts, 1 to 40, reads of 1 to 7 numbers, singular ones too: errors as means over contexts, the least "
    "one by a least-squares solver",
    states=refit,
    control=lambda of: of.cross,
    wrong="E[y z^T] alone",
    others={"every read by itself": lambda of: of.cross / of.reads.diagonal()},
)
def refit_is_least(projection: Callable[[Moments], Array]) -> Conditions:
    for one in contexts():
        of, least, scale = one.moments, one.error(one.solved), 1 + float((one.outputs**2).sum())
        yield abs(one.error(projection(of)) - least) <= CLOSE * scale
        yield abs(least_error(of) - least) <= CLOSE * scale
        other = np.random.default_rng(0).standard_normal(of.cross.shape)
        yield abs(squared_error(of, other) - one.error(other)) <= CLOSE * scale
        yield abs(excess(of, other) - one.error(other) + least) <= CLOSE * scale
        equal = one._replace(chance=np.full(len(one.chance), 1 / len(one.chance)))
        yield abs(squared_error(moments(one.outputs, one.reads), other) - equal.error(other)) <= CLOSE * scale


CONFIG = Architecture(d_model=8, n_layers=2, n_heads=4, d_ff=8, context=6, stem=Tokens(11), norm="none")


class Layer(NamedTuple):
    """Reads of layer 2's attention, (batch, T, heads * width), its outputs, (batch, T, d_model), and its projection."""

    reads: Array
    outputs: Array
    projection: Array


def second_layer(model: Decoder) -> Layer:
    """Return layer 2's attention on random tokens."""
    import torch

    output = model.layers[1].get_submodule("attention.output")
    seen: list[tuple[Array, Array]] = []
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 11, (16, 6)))
    with (
        torch.no_grad(),
        output.register_forward_hook(lambda _, reads, out: seen.append((reads[0].numpy(), out.numpy()))),
    ):
        model(tokens)
    ((reads, outputs),) = seen
    return Layer(reads, outputs, output.get_parameter("weight").detach().numpy().copy())


@REFIT.check(
    "layer 2 of decoders as SkipV1Former, whose patterns are those before: the error measured with the refitted "
    "projection is the least, its gradient zero, and raw swap and leaving out are worse",
    states=lambda of, raw: refit(of),
    control=lambda of, raw: raw,
    wrong="the projection as it was",
    others={"heads left out": lambda of, raw: raw * np.repeat([1.0, 0.0], 4)},
)
def decoders_are_refitted(projection: Callable[[Moments, Array], Array]) -> Conditions:
    import torch

    from icl.conversion import convert
    from icl.models.decoder import Decoder

    for seed in (0, 1):
        trained = Decoder(CONFIG, resolve("vanilla", CONFIG.shape), seed=seed, std=0.5).double()
        model = convert(trained, "skipv1", "first").double()
        before, after = second_layer(trained), second_layer(model)
        target, reads = before.outputs.reshape(-1, 8), after.reads.reshape(-1, 8)
        of, raw = moments(target, reads), after.projection
        weight = model.layers[1].get_submodule("attention.output").get_parameter("weight")
        with torch.no_grad():
            weight.copy_(torch.from_numpy(projection(of, raw)))
        measured = float(((second_layer(model).outputs - before.outputs) ** 2).sum(-1).mean())
        yield abs(measured - least_error(of)) <= CLOSE * (1 + of.power)
        free = weight.detach().clone().requires_grad_()
        (torch.from_numpy(target) - torch.from_numpy(reads) @ free.T).square().sum(1).mean().backward()
        yield free.grad is not None and float(free.grad.norm()) <= 1e-7 * (1 + of.power)
        left_out = raw * np.repeat([1.0, 0.0], 4)
        yield measured < min(squared_error(of, raw), squared_error(of, left_out))


@REFIT.check(
    "ridges toward zero and toward a projection: the minimum by a least-squares solver with further rows; what they "
    "cost, in parts of t times the squared distance, which is attained where all reads have the mean square t",
    states=4,
    control=5,
    wrong="a fifth at most",
)
def ridge_costs(parts: int) -> Conditions:
    for one, ridge, pulled in product(contexts(), (0.1, 1.0, 30.0), (False, True)):
        of, best = one.moments, one.solved
        toward = np.random.default_rng(1).standard_normal(of.cross.shape) if pulled else None
        start = np.zeros_like(best) if toward is None else toward
        root, more = np.sqrt(one.chance)[:, None], np.sqrt(ridge) * np.eye(best.shape[1])
        rows = np.concatenate([root * one.reads, more]), np.concatenate([root * one.outputs, more @ start.T])
        found, size = refit(of, ridge, toward), 1 + float((best**2).sum() + (start**2).sum())
        yield np.allclose(found, np.linalg.lstsq(*rows, rcond=None)[0].T, rtol=0, atol=1e-8 * size)
        onto = np.linalg.pinv(one.reads) @ one.reads
        bound = ridge / parts * float((((start - best) @ onto) ** 2).sum())
        yield one.error(found) - one.error(best) <= bound + CLOSE * size
        yield abs(ridge_bound(of, ridge, toward) - bound) <= 1e-8 * size * ridge
    for ridge in (0.5, 3.0):
        one = Contexts(np.array([[1.0], [2.0], [4.0]]), np.sqrt(3 * ridge) * np.eye(3), np.full(3, 1 / 3))
        cost = one.error(refit(one.moments, ridge)) - one.error(one.solved)
        yield abs(cost - ridge / parts * float((one.solved**2).sum())) <= CLOSE


@REFIT.check(
    "a ridge of any size is never worse than the raw swap on the calibration distribution: toward what it pulls",
    states=lambda raw: raw,
    control=lambda raw: None,
    wrong="toward zero",
)
def ridge_toward_raw(toward: Callable[[Array], Array | None]) -> Conditions:
    for one, exact, ridge in product(contexts(), (False, True), (0.1, 10.0)):
        raw = np.random.default_rng(2).standard_normal((one.outputs.shape[1], one.reads.shape[1]))
        swapped = one._replace(outputs=one.reads @ raw.T) if exact else one
        of = swapped.moments
        yield swapped.error(refit(of, ridge, toward(raw))) <= swapped.error(raw) + CLOSE * (1 + of.power)


@REFIT.check(
    "another distribution, with a density between a and b: the refit against the best projection there, at two "
    "contexts that attain the factor, and at random ones that do not exceed it",
    states=lambda a, b: (a + b) ** 2 / (4 * a * b),
    control=lambda a, b: b / a,
    wrong="b / a",
    others={"1: it carries over": lambda a, b: 1.0},
)
def other_distributions(factor: Callable[[float, float], float]) -> Conditions:
    half = np.full(2, 0.5)
    for h in (0.2, 0.5, 0.95):
        one = Contexts(np.array([[1 / h], [-1 / h]]), np.ones((2, 1)), half)
        other = one._replace(chance=half * [1 + h, 1 - h])
        ratio = other.error(refit(one.moments)) / other.error(np.ones((1, 1)))
        yield abs(ratio / factor(1 - h, 1 + h) - 1) <= CLOSE
        yield abs(shift_bound(1 - h, 1 + h) / factor(1 - h, 1 + h) - 1) <= CLOSE
    for seed in range(50):
        rng = np.random.default_rng(seed)
        one = Contexts(rng.standard_normal((12, 2)), rng.standard_normal((12, 3)), np.full(12, 1 / 12))
        density = rng.uniform(0.2, 3, 12)
        density /= density.mean()
        other = one._replace(chance=one.chance * density)
        ratio = other.error(refit(one.moments)) / other.error(other.solved)
        yield ratio <= factor(float(density.min()), float(density.max())) * (1 + CLOSE)


def divergence(score: float, other: float) -> float:
    """Return the divergence in nats of two symbols' probabilities, given by the score of one over the other."""
    first, second = 1 / (1 + exp(-score)), 1 / (1 + exp(score))
    return float(
        first * (np.logaddexp(0, -other) - np.logaddexp(0, -score))
        + second * (np.logaddexp(0, other) - np.logaddexp(0, score))
    )


@REFIT.check(
    "counterexample in nats: a saturated score K beside a score 1, both read as the same z = 1: the projection with "
    "the lower cost",
    states="raw",
    control="refit",
    wrong="the refit, whose squared error is lower",
)
def fewer_squares_more_nats(better: str) -> Conditions:
    for size in (40.0, 400.0):
        one = Contexts(np.array([[size], [1.0]]), np.ones((2, 1)), np.full(2, 0.5))
        ways = {"raw": np.ones((1, 1)), "refit": refit(one.moments)}
        nats = {
            way: np.mean([divergence(float(score), float(w[0, 0])) for score in one.outputs[:, 0]])
            for way, w in ways.items()
        }
        yield one.error(ways["refit"]) < one.error(ways["raw"])
        yield min(nats, key=lambda way: nats[way]) == better
        yield nats["refit"] >= size / 30 * nats["raw"]  # no factor bounds it


@REFIT.check(
    "counterexample of a pattern that moves: an output that is small and negative in 99 of 100 contexts decides which "
    "of two values, +1 and -1, the next layer reads: the projection with the lower squared error there",
    states="raw",
    control="refit",
    wrong="the refit, whose squared error is lower in its own layer",
)
def patterns_that_move(better: str) -> Conditions:
    one = Contexts(np.array([[-0.1], [20.0]]), np.ones((2, 1)), np.array([0.99, 0.01]))
    ways = {"raw": np.full((1, 1), -0.1), "refit": refit(one.moments)}

    def read(score: Array) -> Array:
        return np.tanh(100 * score)  # a softmax over the two tokens, whose scores differ by 200 times the output

    errors = {
        way: float(one.chance @ ((read(one.outputs) - read(one.reads @ w.T)) ** 2).sum(1)) for way, w in ways.items()
    }
    yield one.error(ways["refit"]) < one.error(ways["raw"])
    yield min(errors, key=lambda way: errors[way]) == better
    yield errors["refit"] > 50 * errors["raw"]
