"""Claims on the cost of converted heads in nats, to second order, and on sets of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import sqrt
from typing import NamedTuple

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.reading import second_order
from theory.reading.refit import Array
from theory.reading.second_order import (
    additive,
    best_set,
    curvature,
    curved_bound,
    fisher_scores,
    gram,
    greedy,
    greedy_trap,
    overlap,
    overlap_bounds,
    predicted,
    remainder_bound,
    slopes,
    softmax,
    spread,
)
from theory.skipv1.paper import PAPER

CLOSE = 1e-9
ROOT = sqrt(3)

COST = Claim(
    "reading.second-order",
    PAPER.ours,
    place="theory/reading/second_order.py; bears on conversion of checkpoints, section 5.1",
    statement="Where scores are linear in what is converted, a set S of heads costs sum g plus a divergence, for any "
    "labels; to second order that is 1/2 1^T Q 1 over S, Q the Gram matrix of Fisher scores.  For changes of scores "
    "with the spread w the remainder is at most w^3 / (36 sqrt 3), and the divergence is between (e^-w + w - 1) / w^2 "
    "and (e^w - w - 1) / w^2 times 1^T Q 1, both the best possible.  With labels from the model g is 0, and Q is the "
    "expected Hessian in any model.  Scores with a bend of the spread k change the cost by at most k / 2.",
    assumes="softmax cross-entropy",
    verdict="verified",
    proof=second_order,
)


class Converted(NamedTuple):
    """Scores z (contexts, V), their changes D (contexts, cells, V), and the labels' law q (contexts, V)."""

    scores: Array
    changes: Array
    labels: Array


def drawn(contexts: int, cells: int, symbols: int, *, size: float) -> Converted:
    """Return random scores, changes of this size, and labels' probabilities."""
    rng = np.random.default_rng(contexts + cells)
    scores, changes = rng.standard_normal((contexts, symbols)), rng.standard_normal((contexts, cells, symbols))
    return Converted(scores, size * changes, rng.dirichlet(np.ones(symbols), contexts))


def losses(scores: Array, labels: Array) -> float:
    """Return the mean cross-entropy in nats of labels with these probabilities."""
    return float((np.logaddexp.reduce(scores, axis=1) - (labels * scores).sum(1)).mean())


def exact_cost(one: Converted) -> float:
    """Return the rise of the loss when all cells are converted, in nats."""
    return losses(one.scores + one.changes.sum(1), one.labels) - losses(one.scores, one.labels)


CASES = ((1, 1, 2), (3, 2, 5), (9, 5, 12))


def second(width: float) -> tuple[float, float]:
    """Return the factors of the divergence in 1^T Q 1 by their formulas."""
    return (np.exp(-width) + width - 1) / width**2, (np.exp(width) - width - 1) / width**2


@COST.check(
    "random scores and labels, changes of size 0.01 to 3: the exact cost lies between the two multiples of 1^T Q 1; "
    "two symbols with probabilities near 0 and 1 attain them",
    states=second,
    control=lambda width: (0.5, 0.5),
    wrong="the second order is exact",
    others={"half as far from 1/2": lambda width: tuple(0.25 + x / 2 for x in second(width))},
)
def cost_lies_between(factors: Callable[[float], tuple[float, float]]) -> Conditions:
    for contexts, cells, symbols in CASES:
        for size in (0.01, 0.3, 3.0):
            one = drawn(contexts, cells, symbols, size=size)
            everything, total = range(cells), one.changes.sum(1)
            width = float(np.ptp(total, axis=1).max())
            g, q = slopes(one.scores, one.changes, one.labels), gram(one.scores, one.changes)
            least, most = (x * q.sum() for x in factors(width))
            yield least - 1e-12 <= exact_cost(one) - g.sum() <= most + 1e-12
            yield abs(spread(one.changes, everything) - width) <= CLOSE
            yield np.allclose(curvature(width), factors(width), rtol=1e-6, atol=0)
            yield abs(predicted(g, q, everything) - g.sum() - q.sum() / 2) <= CLOSE
    for width in (0.5, 3.0):
        for chance, side in ((1e-7, 1), (1 - 1e-7, 0)):
            divergence = np.log1p(chance * np.expm1(width)) - chance * width
            if side == 0:
                divergence = np.log1p((1 - chance) * np.expm1(-width)) + (1 - chance) * width
            yield abs(divergence / (chance * (1 - chance) * width**2) / factors(width)[side] - 1) <= 1e-5
    yield np.allclose(curvature(1e-7), (0.5, 0.5), rtol=1e-6, atol=0)


@COST.check(
    "what the second order leaves out, over w^3: never more than this, and this at two symbols with probabilities of "
    "(1 -+ 1/sqrt 3) / 2 as w goes to 0",
    states=1 / (36 * ROOT),
    control=1 / (48 * ROOT),
    wrong="three quarters of it",
)
def remainder_is_of_third_order(factor: float) -> Conditions:
    for contexts, cells, symbols in CASES:
        for size in (0.03, 0.3, 3.0):
            one = drawn(contexts, cells, symbols, size=size)
            g, q = slopes(one.scores, one.changes, one.labels), gram(one.scores, one.changes)
            bound = factor * spread(one.changes, range(cells)) ** 3
            yield abs(exact_cost(one) - predicted(g, q, range(cells))) <= bound + 1e-12
    for width in (0.02, 1.0, 5.0):
        yield abs(remainder_bound(width) / (factor * width**3) - 1) <= CLOSE
    chance, width = (1 - 1 / ROOT) / 2, 0.05
    one = Converted(np.log([[chance, 1 - chance]]), width * np.array([[[1.0, 0.0]]]), np.array([[0.5, 0.5]]))
    g, q = slopes(one.scores, one.changes, one.labels), gram(one.scores, one.changes)
    yield abs((exact_cost(one) - predicted(g, q, [0])) / (factor * width**3) - 1) <= 1e-2


def of_model(one: Converted) -> Array:
    """Return the model's own probabilities of labels."""
    powers: Array = np.exp(one.scores)
    return powers / powers.sum(1, keepdims=True)


@COST.check(
    "labels enumerated, those drawn from the model: mean Fisher scores are 0, their products Q, and the derivatives "
    "of the loss g and Q, also where scores bend; the labels' law",
    states=of_model,
    control=lambda one: one.labels,
    wrong="another law, such as the text's",
)
def sampled_labels(law: Callable[[Converted], Array]) -> Conditions:
    for contexts, cells, symbols in CASES:
        one = drawn(contexts, cells, symbols, size=1.0)
        labels, phi = law(one), fisher_scores(one.scores, one.changes)
        yield np.allclose(softmax(one.scores), of_model(one), rtol=1e-12, atol=0)
        mean = np.einsum("cv,csv->cs", labels, phi)
        yield np.allclose(mean, 0, rtol=0, atol=CLOSE)
        yield np.allclose(slopes(one.scores, one.changes, labels), 0, rtol=0, atol=CLOSE)
        products = sum(labels[c, v] * np.outer(phi[c, :, v], phi[c, :, v]) for c, v in np.ndindex(labels.shape))
        q = gram(one.scores, one.changes)
        yield np.allclose(products / contexts, q, rtol=0, atol=CLOSE)
        expected = one.changes - np.einsum("cv,csv->cs", of_model(one), one.changes)[..., None]
        yield np.allclose(phi, expected, rtol=0, atol=CLOSE)
        bend = np.random.default_rng(5).standard_normal((contexts, symbols))

        def loss(x: Array, one: Converted = one, labels: Array = labels, bend: Array = bend) -> float:
            moved = one.scores + np.einsum("s,csv->cv", x, one.changes) + (x @ x) / 2 * bend
            return losses(moved, labels)

        step = 1e-3 * np.eye(cells)
        hessian = np.array(
            [[(loss(a + b) - loss(a - b) - loss(b - a) + loss(-a - b)) / 4e-6 for a in step] for b in step]
        )
        yield np.allclose(hessian, q, rtol=1e-3, atol=1e-4)
        text = one.labels
        slope = np.array([(loss(a, labels=text) - loss(-a, labels=text)) / 2e-3 for a in step])
        yield np.allclose(slopes(one.scores, one.changes, text), slope, rtol=0, atol=1e-4)


@COST.check(
    "heads of a decoder of two layers, left out by degrees: Hessian and gradient of the loss by automatic "
    "differentiation against Q and g, for labels from the model",
    states=True,
    control=False,
    wrong="labels that are symbols of the text, for the Hessian",
)
def heads_of_decoders(sampled: bool) -> Conditions:
    import torch
    from torch import Tensor
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from icl.models.decoder import Decoder

    config = Architecture(d_model=8, n_layers=2, n_heads=2, d_ff=8, context=4, stem=Tokens(5))
    model = Decoder(config, resolve("vanilla", config.shape), std=0.5).double()
    rng = np.random.default_rng(0)
    tokens, text = (torch.from_numpy(rng.integers(0, 5, (3, 4))) for _ in range(2))
    outputs = [layer.get_submodule("attention.output") for layer in model.layers]

    def scores(left_out: Tensor) -> Tensor:
        kept = (1 - left_out).reshape(2, 2).repeat_interleave(4, dim=1)
        handles = [
            output.register_forward_pre_hook(lambda _, reads, keep=keep: (reads[0] * keep,))
            for output, keep in zip(outputs, kept, strict=True)
        ]
        found: Tensor = model(tokens).flatten(0, 1)
        for handle in handles:
            handle.remove()
        return found

    start = torch.zeros(4, dtype=torch.float64)
    before = scores(start).detach()
    one_hot = torch.nn.functional.one_hot(text.flatten(), 5).double()
    labels = before.softmax(1) if sampled else one_hot

    def loss(left_out: Tensor, labels: Tensor) -> Tensor:
        return -(labels * scores(left_out).log_softmax(1)).sum(1).mean()

    with sdpa_kernel(SDPBackend.MATH):  # the one with second derivatives
        changes = torch.autograd.functional.jacobian(scores, start).permute(0, 2, 1).numpy()
        hessian = torch.autograd.functional.hessian(lambda x: loss(x, labels), start).numpy()
        gradient = torch.autograd.functional.jacobian(lambda x: loss(x, one_hot), start).numpy()
    yield np.allclose(hessian, gram(before.numpy(), changes), rtol=0, atol=CLOSE)
    yield np.allclose(gradient, slopes(before.numpy(), changes, one_hot.numpy()), rtol=0, atol=CLOSE)


@COST.check(
    "scores that bend, their second derivative with the spread k: the cost less that of linear scores, at most, in "
    "parts of k; attained where one symbol is certain and another one right",
    states=2,
    control=3,
    wrong="a third",
)
def bent_scores(parts: int) -> Conditions:
    for contexts, cells, symbols in CASES:
        one = drawn(contexts, cells, symbols, size=1.0)
        for size in (0.1, 4.0):
            bend = size * np.random.default_rng(6).standard_normal((contexts, symbols))
            bound = float(np.ptp(bend, axis=1).max()) / parts
            bent = losses(one.scores + one.changes.sum(1) + bend / 2, one.labels) - losses(one.scores, one.labels)
            yield abs(bent - exact_cost(one)) <= bound
            yield abs(curved_bound(float(np.ptp(bend, axis=1).max())) - bound) <= CLOSE
    certain, right, bend = np.array([[60.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[0.7, -0.3]])
    yield abs(losses(certain + bend / 2, right) - losses(certain, right) - 1 / parts) <= CLOSE


SETS = Claim(
    "reading.converted-sets",
    PAPER.ours,
    place="theory/reading/second_order.py; bears on which heads a conversion takes, section 5.1",
    statement="With g = 0 the second-order cost of a set is from 0 to |S| times the sum of its heads' costs, both "
    "attained; from 1 - (|S| - 1) r to 1 + (|S| - 1) r times, both attained, if no two scores are correlated by more "
    "than r.  Greedy choice is the best if all cross terms are equal, as for orthogonal scores; else it can be wrong "
    "by any factor.  The m heads of least cost are within (1 + (m - 1) r) / (1 - (m - 1) r) of the best m, and within "
    "m where no cross term is negative.",
    assumes="the second order is taken for the cost: reading.second-order says how far it is from it",
    verdict="verified",
    proof=second_order,
    uses=("reading.second-order",),
)
NO_SLOPE = np.zeros(9)


def correlated(cells: int, correlation: float) -> Array:
    """Return a Gram matrix of scores with mean square 1 and equal correlations."""
    return (1 - correlation) * np.eye(cells) + correlation


@SETS.check(
    "sets of 1 to 9 cells: the cost over the sum of single costs; random Gram matrices keep within these bounds, "
    "equal correlations r and -r attain them",
    states=lambda cells, r: (max(0.0, 1 - (cells - 1) * r), 1 + (cells - 1) * r),
    control=lambda cells, r: (1.0, 1.0),
    wrong="costs add up",
    others={"half as far": lambda cells, r: (max(0.0, 1 - (cells - 1) * r / 2), 1 + (cells - 1) * r / 2)},
)
def cost_of_sets(bounds: Callable[[int, float], tuple[float, float]]) -> Conditions:
    for cells in (1, 2, 5, 9):
        everything, slope = range(cells), NO_SLOPE[:cells]
        for r in (0.0, 0.3, 1.0):
            yield np.allclose(overlap_bounds(cells, r), bounds(cells, r), rtol=0, atol=CLOSE)
            matrix = correlated(cells, r)
            yield abs(overlap(matrix) - r * (cells > 1)) <= CLOSE
            yield abs(predicted(slope, matrix, everything) / (cells / 2) - bounds(cells, r)[1]) <= CLOSE
        r = 1 / (2 * cells)
        ratio = predicted(slope, correlated(cells, -r), everything) / additive(slope, correlated(cells, -r), everything)
        yield abs(ratio - bounds(cells, r)[0]) <= CLOSE
        for seed in range(20):
            rng = np.random.default_rng(seed)
            scores = rng.standard_normal((30, cells)) * rng.uniform(0.5, 2, cells)
            matrix, single = scores.T @ scores / 30, (scores**2).mean(0)
            apart = np.abs(matrix / np.sqrt(np.outer(single, single)) - np.eye(cells))
            yield abs(overlap(matrix) - apart.max()) <= CLOSE
            least, most = bounds(cells, overlap(matrix))
            cost = float((scores.sum(1) ** 2).mean()) / 2
            yield least * single.sum() / 2 - CLOSE <= cost <= most * single.sum() / 2 + CLOSE
            yield abs(predicted(slope, matrix, everything) - cost) <= CLOSE
            g = rng.standard_normal(cells)
            yield abs(additive(g, matrix, everything) - g.sum() - single.sum() / 2) <= CLOSE
    yield overlap(np.diag([0.0, 1.0])) == 0


def equal_cross_terms(seed: int) -> Array:
    """Return a Gram matrix of seven scores with equal cross terms; every other one is of orthogonal scores."""
    rng = np.random.default_rng(seed)
    return np.diag(rng.uniform(0.1, 2, 7)) + (seed % 2) * rng.uniform(0, 1)


def random_gram(seed: int) -> Array:
    scores = np.random.default_rng(seed).standard_normal((4, 7))
    return scores.T @ scores


def cost_of(slope: Array, matrix: Array, cells: tuple[int, ...]) -> float:
    """Return the second-order cost, entry by entry."""
    return float(sum(slope[i] for i in cells) + sum(matrix[i, j] for i in cells for j in cells) / 2)


@SETS.check(
    "greedy choice of 0 to 7 of seven cells, with slopes: as cheap as the best of all sets; the Gram matrices",
    states=equal_cross_terms,
    control=random_gram,
    wrong="any",
)
def greedy_is_best(matrices: Callable[[int], Array]) -> Conditions:
    for seed in range(6):
        matrix, slope = matrices(seed), np.random.default_rng(seed + 100).standard_normal(7)
        for count in range(8):
            least = min(cost_of(slope, matrix, cells) for cells in combinations(range(7), count))
            chosen = greedy(slope, matrix, count)
            yield len(set(chosen)) == count
            yield abs(cost_of(slope, matrix, chosen) - least) <= CLOSE
            yield abs(cost_of(slope, matrix, best_set(slope, matrix, count)) - least) <= CLOSE


@SETS.check(
    "three cells with scores e, K and -K: the costs of the two that greedy choice takes, and of the best two",
    states=lambda e, k: ((k - e) ** 2 / 2, 0.0),
    control=lambda e, k: (0.0, 0.0),
    wrong="greedy choice finds them",
)
def greedy_is_trapped(costs: Callable[[float, float], tuple[float, float]]) -> Conditions:
    for small, large in ((0.1, 1.0), (0.5, 20.0)):
        matrix, slope = greedy_trap(small, large), np.zeros(3)
        scores = np.array([small, large, -large])
        chosen, best = greedy(slope, matrix, 2), best_set(slope, matrix, 2)
        found = tuple(float(scores[list(cells)].sum()) ** 2 / 2 for cells in (chosen, best))
        yield np.allclose(found, costs(small, large), rtol=0, atol=CLOSE)
        yield abs(predicted(slope, matrix, chosen) - found[0]) <= CLOSE * large**2
        yield chosen[0] == 0 and set(best) == {1, 2}


@SETS.check(
    "the m cells of least single cost against the best m: within the bound by correlations, and, no cross term being "
    "negative, within a factor that m copies of one cell beside m orthogonal ones, hardly larger, attain",
    states=lambda m: float(m),
    control=lambda m: 1.0,
    wrong="they are the best",
)
def least_single_costs(factor: Callable[[int], float]) -> Conditions:
    for m in (1, 3, 5):
        matrix = np.block([[np.ones((m, m)), np.zeros((m, m))], [np.zeros((m, m)), 1.0001 * np.eye(m)]])
        slope, singles = np.zeros(2 * m), np.argsort(matrix.diagonal(), kind="stable")[:m].tolist()
        ratio = predicted(slope, matrix, singles) / predicted(slope, matrix, best_set(slope, matrix, m))
        yield abs(ratio / factor(m) - 1) <= 1e-3
        yield ratio <= factor(m) + CLOSE
    for seed in range(30):
        rng, m = np.random.default_rng(seed), 3
        scores = rng.standard_normal((200, 7)) * rng.uniform(0.8, 1.2, 7)
        matrix, slope = scores.T @ scores / 200, np.zeros(7)
        singles = np.argsort(matrix.diagonal())[:m].tolist()
        least, most = overlap_bounds(m, overlap(matrix))
        yield least > 0
        best = predicted(slope, matrix, best_set(slope, matrix, m))
        yield predicted(slope, matrix, singles) <= most / least * best + CLOSE
