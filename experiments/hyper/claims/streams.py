"""Claims on what streams hold and how they grow: at the start, unconstrained, doubly stochastic, without norms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from experiments.hyper.networks import (
    aligned,
    doubly_stochastic,
    floats,
    fractions,
    largest_norm,
    mixing,
    nonlinear,
    passed,
    prenorm,
    row_stochastic,
)
from experiments.ledger.claim import Claim, Conditions
from theory.hyper import streams as streams_theory
from theory.hyper.paper import PAPER
from theory.hyper.streams import Sublayer, grown, largest, mean_row, rows, start, typical_mean

if TYPE_CHECKING:
    from theory.hyper.streams import Array

CLOSE = 1e-12
COUNTS = (1, 2, 4)  # of streams
MHC = "Xie et al. 2025, mHC (arXiv 2512.24880)"
PLACE = "theory/hyper/streams.py; bears on"
NORMED = "a norm with eps = 0 before every sublayer"

START = Claim(
    "hyper.start",
    PAPER.name,
    place="initialisation of static hyper-connections: identity, ones, one stream read in turn",
    statement="At its initial weights a network with hyper-connections is the PreNorm network: every sublayer reads "
    "what it reads there, whatever the sublayers are.",
    assumes="static weights, or dynamic ones whose dynamic part starts at zero; a norm with eps = 0 before the head",
    verdict="verified",
    correction="The last read, a sum over n streams, is n times PreNorm's; the head's norm removes the factor.",
    proof=streams_theory,
)


@START.check(
    "random sublayers behind norms, 1, 2 and 4 streams: reads are PreNorm's, the last one this many times",
    states=lambda n: n,
    control=lambda n: 1,
    wrong="the last read is PreNorm's too",
)
def starts_as_prenorm(factor: Callable[[int], int]) -> Conditions:
    for n, sublayers in product(COUNTS, (0, 1, 7)):
        output = nonlinear(sublayers, 5, seed=n)
        embedding = np.random.default_rng(0).standard_normal(5)
        found = passed(start(n, sublayers), np.ones(n), embedding, output).reads
        expected = prenorm(embedding, output, sublayers)
        expected[-1] = factor(n) * expected[-1]
        yield np.allclose(found, expected, rtol=1e-9, atol=0)


@START.check(
    "the streams read in turn hold every output once, in whole numbers",
    states=lambda s: s,
    control=lambda s: replace(s, write=s.read),
    wrong="an output goes to the stream that was read alone",
    kind="exact",
    others={"half of every stream stays": lambda s: Sublayer(s.read, s.mix * 2, s.write)},
)
def holds_every_output(changed: Callable[[Sublayer], Sublayer]) -> Conditions:
    for n in COUNTS:
        sublayers = start(n, 9)
        weights = rows([changed(s) for s in sublayers], np.ones(n, dtype=int))
        yield [len(row) for row in weights] == list(range(1, 11))
        yield all((row == 1).all() for row in weights[:-1])
        yield (weights[-1] == n).all()
        yield [s.read.tolist().index(1) for s in sublayers] == [i % n for i in range(9)]


GROWTH = Claim(
    "hyper.growth",
    PAPER.ours,
    place=f"{PLACE} {MHC}, section 3.1: signals explode under hyper-connections",
    statement="With given weights a read is largest when outputs are aligned: the sum of absolute weights over depth "
    "times the bounds of the outputs.  If H differs from the identity by row sums of eps, streams can grow as "
    "(1 + eps)^L over L sublayers, norms or not, and (1 + eps) I does; if it differs at random, mean squares grow as "
    "(1 + eps^2)^L.",
    assumes=f"{NORMED}; at random: independent entries of mean 0 and variance eps^2 / n, uncorrelated outputs",
    verdict="verified",
    proof=streams_theory,
)


def _signed(n: int, sublayers: int, seed: int) -> list[Sublayer]:
    rng = np.random.default_rng(seed)
    return [Sublayer(*(rng.standard_normal(s) for s in (n, (n, n), n))) for _ in range(sublayers)]


@GROWTH.check(
    "aligned networks with weights of every sign attain the largest read, 1, 3 and 4 streams",
    states=abs,
    control=lambda weights: weights,
    wrong="weights of opposite signs cancel",
)
def aligned_attain(taken: Callable[[Array], Array]) -> Conditions:
    """Compare the last read of the network whose signs are those of its weights with a sum over `taken` of them."""
    for n, sublayers in ((1, 4), (3, 5), (4, 40)):
        weights, last = _signed(n, sublayers, seed=n), np.ones(n)
        row = rows(weights, last)[-1]
        sizes = [2.0, *np.random.default_rng(0).uniform(0.1, 3, sublayers)]
        embedding = np.array([2.0 * np.sign(row[0]), 0, 0])
        found = passed(weights, last, embedding, aligned(sizes[1:], np.sign(row[1:]).tolist())).reads[-1]
        yield abs(found[0] - taken(row) @ sizes) <= 1e-9 * abs(row) @ sizes
        yield abs(found[0] - largest(row, sizes)) <= 1e-9 * abs(row) @ sizes


@GROWTH.check(
    "mixing by (1 + eps) I, outputs of length 1 behind norms: the largest stream after 1 to 40 sublayers",
    states=lambda eps, count: (1 + eps) ** count + ((1 + eps) ** count - 1) / eps,
    control=lambda eps, count: 1 + count * (1 + eps),
    wrong="linear growth, as of PreNorm",
)
def grows_geometrically(law: Callable[[float, int], float]) -> Conditions:
    for n, eps, count in product((1, 3), (0.01, 0.5), (1, 8, 40)):
        weights = [Sublayer(np.ones(n), (1 + eps) * np.eye(n), np.ones(n))] * count
        found = passed(weights, np.ones(n), np.eye(2)[0], aligned([1.0] * count, [1.0] * count))
        expected = law(eps, count)
        yield abs(largest_norm(found.streams[-1]) - expected) <= 1e-9 * expected
        yield abs(grown(1 + eps, count, embedding=1.0, output=1.0) - expected) <= 1e-9 * expected


@GROWTH.check(
    "random matrices of this distance from the identity keep below the bound, largest stream over it",
    states=1.0,
    control=0.0,
    wrong="as if H were the identity",
)
def keeps_below(counted: float) -> Conditions:
    """Check every stream after every sublayer; `counted` is the share of the distance that the bound takes."""
    rng, count, d = np.random.default_rng(1), 12, 5
    for n, eps in ((2, 0.3), (5, 1.0)):
        off = rng.uniform(0, 1, (count, n, n))
        off *= eps / off.sum(2, keepdims=True)
        weights = [Sublayer(np.ones(n), np.eye(n) + e, rng.uniform(0.8, 1, n)) for e in off]
        found = passed(weights, np.ones(n), np.eye(d)[0], aligned([1.0] * count, [1.0] * count))
        for i, streams in enumerate(found.streams):
            yield largest_norm(streams) <= grown(1 + counted * eps, i, embedding=1.0, output=1.0) * (1 + CLOSE)


@GROWTH.check(
    "two streams and all signs of the random part, enumerated: mean squares of the streams and of their mean after "
    "two sublayers",
    states=2,
    control=1,
    wrong="mean squares grow as the largest length",
)
def mean_squares_grow(power: int) -> Conditions:
    """Compare the mean over 16 x 16 pairs of matrices with growth by 1 + eps to this power; outputs orthogonal."""
    n, eps, first, later = 2, 0.4, 3.0, 0.7
    signs = np.array(list(product((-1.0, 1.0), repeat=4))).reshape(16, 2, 2)
    mixes = np.eye(n) + eps * signs / np.sqrt(n)
    outputs = np.diag([later, later, first])

    def output(i: int, _: Array) -> Array:
        return outputs[i]

    squares, of_mean = [], []
    for pair in product(mixes, repeat=2):
        weights = [Sublayer(np.ones(n), mix, np.ones(n)) for mix in pair]
        streams = passed(weights, np.ones(n), outputs[2], output).streams[-1]
        squares.append((streams**2).sum() / n)
        of_mean.append((streams.mean(0) ** 2).sum())
    expected = grown(1 + eps**power, 2, embedding=first**2, output=later**2)
    yield abs(np.mean(squares) - expected) <= CLOSE * expected
    mean = typical_mean(eps ** (power / 2), 2, streams=n, embedding=first**2, output=later**2)
    yield abs(np.mean(of_mean) - mean) <= CLOSE * mean


STOCHASTIC = Claim(
    "hyper.doubly-stochastic",
    PAPER.ours,
    place=f"{PLACE} {MHC}, section 4.1: doubly stochastic mixing keeps signals bounded and means conserved",
    statement="With doubly stochastic mixing the largest stream is at most the embedding and every output times its "
    "largest write: linear in depth.  A network that writes to all streams alike is PreNorm and attains it, whatever "
    "the H are.  The mean stream is exactly a residual sum with weights mean(b), in which the H have no part.  "
    "Gradients pass the mixing without growth.",
    assumes=f"{NORMED}; H exactly doubly stochastic",
    verdict="corrected",
    correction="What is bounded is each sublayer's mixing, not the streams: their bound grows with depth as PreNorm's "
    "does, and it is attained; a softmax over depth (Full AttnRes) has one that does not grow.  A last read that sums "
    "the streams holds every output for good.",
    proof=streams_theory,
)


@STOCHASTIC.check(
    "equal writes of 0.7, random mixing: streams of length 1 + 0.7 L in aligned networks of 1 to 64 sublayers",
    states=lambda write, count: 1 + write * count,
    control=lambda write, count: 1 + write,
    wrong="bounded at every depth",
)
def grows_as_prenorm(law: Callable[[float, int], float]) -> Conditions:
    for n, count in product((1, 3), (1, 16, 64)):
        rng = np.random.default_rng(n)
        weights = [Sublayer(np.ones(n), doubly_stochastic(n, rng).astype(float), np.full(n, 0.7)) for _ in range(count)]
        found = passed(weights, np.ones(n) / n, np.eye(2)[0], aligned([1.0] * count, [1.0] * count))
        expected = law(0.7, count)
        lengths = np.linalg.norm(found.streams[-1], axis=1)
        yield np.allclose(lengths, expected, rtol=1e-9)
        yield abs(grown(1, count, embedding=1.0, output=0.7) - expected) <= 1e-9 * expected


@STOCHASTIC.check(
    "any reads and writes, random mixing: no stream is longer than the embedding and the largest writes",
    states=np.max,
    control=np.mean,
    wrong="the mean write, which bounds the mean stream alone",
)
def keeps_below_writes(of_writes: Callable[[Array], float]) -> Conditions:
    """Check outputs of length 1, in networks of random sublayers and in aligned ones."""
    count, d = 6, 4
    for n in (2, 5):
        rng = np.random.default_rng(n)
        weights = floats(mixing(n, [doubly_stochastic(n, rng) for _ in range(count)], rng))
        random = nonlinear(count, d, seed=n)
        along = aligned([1.0] * count, [1.0] * count)
        for output in (along, lambda i, h, random=random: random(i, h) / np.linalg.norm(random(i, h))):
            bound = 1.0
            for sublayer, streams in zip(
                weights, passed(weights, np.ones(n), np.eye(d)[0], output).streams[1:], strict=True
            ):
                bound += float(of_writes(sublayer.write))
                yield largest_norm(streams) <= bound * (1 + CLOSE)


@STOCHASTIC.check(
    "the mean stream holds output l with the mean of b_l, in fractions, 1 to 5 streams",
    states=doubly_stochastic,
    control=row_stochastic,
    wrong="H whose rows alone sum to 1",
    kind="exact",
)
def mean_is_kept(mix: Callable[[int, np.random.Generator], Array]) -> Conditions:
    """Compare by `rows`; on one stream all matrices are 1."""
    for n in (5, 2, 1):
        rng = np.random.default_rng(n)
        sublayers = mixing(n, [mix(n, rng) for _ in range(4)], rng)
        yield (rows(sublayers, fractions(np.ones(n, dtype=int)) / n)[-1] == mean_row(sublayers)).all()


@STOCHASTIC.check(
    "gradients handed back through 30 mixings: the largest of a stream does not grow, their sum is kept",
    states=doubly_stochastic,
    control=row_stochastic,
    wrong="H whose rows alone sum to 1",
)
def gradients_are_handed_back(mix: Callable[[int, np.random.Generator], Array]) -> Conditions:
    """Check gradients that are all equal, and random ones."""
    for n in (2, 4):
        rng = np.random.default_rng(n)
        mixes = [mix(n, rng).astype(float) for _ in range(30)]
        for gradient in (np.ones((n, 1)), rng.standard_normal((n, 3))):
            back = gradient
            for h in mixes:
                back = h.T @ back
            yield largest_norm(back) <= largest_norm(gradient) * (1 + CLOSE)
            yield np.allclose(back.sum(0), gradient.sum(0), atol=1e-9)


FORGOTTEN = Claim(
    "hyper.mixing-forgotten",
    PAPER.ours,
    place=f"{PLACE} two public codes that computed H X and went on with X (lucidrains/hyper-connections, issue 8; "
    "tokenbender/mHC-manifold-constrained-hyper-connections, issue 3)",
    statement="A code that forgets to apply doubly stochastic mixing keeps below the same bound and has the same mean "
    "stream for the same outputs, so neither tells.  What a read of single streams holds of single outputs does.",
    assumes="H doubly stochastic, and neither the identity nor all ones over n",
    verdict="verified",
    proof=streams_theory,
    uses=("hyper.doubly-stochastic",),
)


def _fixed_outputs(count: int, d: int) -> Array:
    return np.random.default_rng(7).standard_normal((count, d))


@FORGOTTEN.check(
    "with and without the mixing, the same outputs: what is equal",
    states=np.ones(3) / 3,
    control=np.eye(3)[0],
    wrong="the first stream",
    others={"a weighted mean of streams": np.array([0.5, 0.3, 0.2])},
)
def mean_is_blind(read: Array) -> bool:
    rng, outputs = np.random.default_rng(0), _fixed_outputs(5, 4)
    sublayers = floats(mixing(3, [doubly_stochastic(3, rng) for _ in range(5)], rng))
    without = [replace(s, mix=np.eye(3)) for s in sublayers]
    with_mixing, forgotten = (
        passed(weights, read, np.ones(4), lambda i, _: outputs[i]).reads[-1] for weights in (sublayers, without)
    )
    return np.allclose(with_mixing, forgotten, rtol=1e-9, atol=0)


@FORGOTTEN.check(
    "the weights of every read are those of the recursion, random sublayers behind norms",
    states=lambda mix: mix,
    control=lambda mix: np.eye(len(mix)),
    wrong="the recursion forgets the mixing",
    others={"the recursion mixes by the transposed matrix": lambda mix: mix.T},
)
def reads_tell(applied: Callable[[Array], Array]) -> Conditions:
    """Compare `rows` with a network that applies `applied(H)`; no read is one of equal streams."""
    for n, count in ((2, 3), (4, 6)):
        rng = np.random.default_rng(n + 1)
        sublayers = floats(mixing(n, [doubly_stochastic(n, rng) for _ in range(count)], rng))
        run = [replace(s, mix=applied(s.mix)) for s in sublayers]
        found = passed(run, np.arange(1.0, n + 1), np.ones(5), nonlinear(count, 5, seed=n))
        for row, read in zip(rows(sublayers, np.arange(1.0, n + 1)), found.reads, strict=True):
            yield np.allclose(row @ np.array(found.outputs[: len(row)]), read, rtol=1e-9, atol=1e-12)


NORMS = Claim(
    "hyper.norms",
    PAPER.ours,
    place=f"{PLACE} {MHC}, section 4.1",
    statement="Without norms before the sublayers doubly stochastic mixing does not bound streams: with linear "
    "sublayers of norm alpha, reads of the mean and writes of one, they grow as (1 + alpha)^L, whatever the H are, as "
    "a residual stream does; with the ranges of mHC's weights, up to (1 + 2 n alpha)^L.",
    assumes="sublayers whose outputs are at most alpha times what they read",
    verdict="verified",
    proof=streams_theory,
)


@NORMS.check(
    "sublayers that return 0.3 of what they read, by (sum of a, b): 12 sublayers of random mixing",
    states={(1.0, 1.0): 1 + 0.3, (4.0, 2.0): 1 + 0.3 * 8},
    control={(1.0, 1.0): 1.0},
    wrong="mixing bounds the streams",
    others={"sums of reads do not count": {(4.0, 2.0): 1 + 0.3 * 2}},
)
def grows_without_norms(factors: dict[tuple[float, float], float]) -> Conditions:
    n, count = 4, 12
    for (total, write), factor in factors.items():
        rng = np.random.default_rng(0)
        weights = [
            Sublayer(np.full(n, total / n), doubly_stochastic(n, rng).astype(float), np.full(n, write))
            for _ in range(count)
        ]
        found = passed(weights, np.ones(n) / n, np.eye(2)[0], lambda _, h: 0.3 * h)
        yield np.allclose(np.linalg.norm(found.streams[-1], axis=1), factor**count, rtol=1e-9)
        yield abs(grown(factor, count, embedding=1.0, output=0.0) / factor**count - 1) <= 1e-9


@NORMS.check(
    "random reads, writes and mixing: no stream grows by more than 1 + alpha sum(a) max(b) in a sublayer",
    states=np.sum,
    control=np.max,
    wrong="the largest read in place of the sum",
)
def keeps_below_without_norms(of_reads: Callable[[Array], float]) -> Conditions:
    """Check sublayers that turn what they read and return 0.5 of its length, or that do not turn it."""
    for n, turns in product((1, 3), (False, True)):
        rng = np.random.default_rng(n)
        weights = floats(mixing(n, [doubly_stochastic(n, rng) for _ in range(6)], rng))
        turned = np.linalg.qr(rng.standard_normal((6, 3, 3)))[0] if turns else np.array([np.eye(3)] * 6)
        found = passed(weights, np.ones(n), np.ones(3), partial(_half_turned, turned))
        bound = largest_norm(found.streams[0])
        for sublayer, streams in zip(weights, found.streams[1:], strict=True):
            bound *= 1 + 0.5 * float(of_reads(sublayer.read)) * sublayer.write.max()
            yield largest_norm(streams) <= bound * (1 + CLOSE)


def _half_turned(turned: Array, sublayer: int, h: Array) -> Array:
    return 0.5 * turned[sublayer] @ h
