"""Claims on depth rules as matrices, and on what they keep in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from experiments.ledger.claim import Claim, at
from theory.attnres import mixing
from theory.attnres.paper import PAPER
from theory.attnres.variants import attnres as attnres_plan
from theory.plans import mix
from theory.plans.accounting import depth_memory, depth_reads
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve
from theory.plans.plan import Plan

OF_DEPTH: Mapping[Callable[..., object], str] = {
    **dict.fromkeys((mix.q, mix.k, mix.v), "a claim on depth: what heads attend over makes no difference"),
    Plan.head: "the same",
    attnres_plan: "and whether keys are normed makes none",
}
Ranks = Mapping[str, Callable[[int, int], int]]  # by rule, of n reads and blocks of s
ATTAINING = {at(mixing.powers, "Fraction(2)"): "weights that attain a rank: those of another base do, too"}


def config_of(layers: int) -> Architecture:
    return Architecture(d_model=4, n_layers=layers, n_heads=1, d_ff=4, context=4, stem=Vectors(4), positions="none")


def reads_of(name: str, layers: int) -> list[list[range]]:
    config = config_of(layers)
    return depth_reads(config, resolve(name, config.shape))


RANK = Claim(
    "attnres.semiseparable-rank",
    PAPER.name,
    place="section 6.2, Fig. 9",
    statement="The residual stream's depth mixing matrix is 1-semiseparable; Full's is of rank L; Block's of an "
    "effective rank from N to N + S, from the residual stream (N = 1) to Full (N = L).",
    assumes="any weights; n reads, the last one included; semiseparable ranks, of which the section speaks",
    verdict="corrected",
    correction="A lower-triangular n by n matrix has a semiseparable rank of at most floor((n + 1)/2), which Full "
    "attains, and with it the smallest stream that can do for it.  Block's is at most N + 1, whatever S, and at N = 1 "
    "it is 2, not the residual stream's 1.  The ordinary rank is n for all of them, the residual stream too.",
    proof=mixing,
    unjudged={**OF_DEPTH, **ATTAINING},
)


def block_rank(n: int, size: int) -> int:
    return max(min(n - t, 1 + -(-t // size)) for t in range(n))


@RANK.check(
    "attained in exact arithmetic, at 2 to 6 layers and blocks of 4, and not exceeded by random weights",
    states={
        "vanilla": lambda n, s: 1,
        "attnres": lambda n, s: (n + 1) // 2,
        "attnres-block:size=4": block_rank,
        "attnres-window:window=2": lambda n, s: 3,
    },
    control={
        "vanilla": lambda n, s: 1,
        "attnres": lambda n, s: n,
        "attnres-block:size=4": lambda n, s: (n - 1) // s + s,
    },
    wrong="L for Full and N + S for Block",
    kind="exact",
)
def ranks_are(ranks: Ranks) -> bool:
    rng = np.random.default_rng(0)
    for name, rank in ranks.items():
        for layers in (2, 4, 6):
            reads, config = reads_of(name, layers), config_of(layers)
            weights = mixing.powers(reads)
            attained = mixing.semiseparable_rank(mixing.mixing_matrix(reads, weights))
            drawn = [[Fraction(int(rng.integers(1, 9))) for _ in sources] for sources in reads]
            found = mixing.semiseparable_rank(mixing.mixing_matrix(reads, drawn))
            bound = mixing.greatest_rank(config, resolve(name, config.shape))
            softmax = all(sum(row) == 1 and min(row) > 0 for row in weights)
            n = 2 * layers + 1
            if not (softmax and len(reads) == n and found <= attained == bound == rank(n, 4)):
                return False
    return True


@RANK.check(
    "one block of all sublayers, at 1 to 6 layers",
    states=2,
    control=1,
    wrong="the residual stream's rank",
    kind="exact",
)
def one_block(rank: int) -> bool:
    found = []
    for layers in (1, 3, 6):
        config = config_of(layers)
        found.append(mixing.greatest_rank(config, resolve(f"attnres-block:size={2 * layers}", config.shape)))
    return found == [rank] * 3


@RANK.check(
    "blocks on and below the diagonal of a matrix whose ranks are known",
    states=[1, 2, 2, 1],
    control=[1, 2, 3, 4],
    wrong="of leading blocks, as of the whole matrix",
    kind="exact",
)
def state_sizes(ranks: list[int]) -> bool:
    matrix = [[1, 0, 0, 0], [1, 2, 0, 0], [1, 1, 3, 0], [1, 1, 1, 4]]
    return mixing.state_sizes(matrix) == ranks


@RANK.check(
    "the matrix of three reads, of which the last weighs the sum of two outputs",
    states=Fraction(7),
    control=Fraction(7, 2),
    wrong="a source's weight shared out among its outputs",
    kind="exact",
)
def matrix_of_sources(each: Fraction) -> bool:
    reads = [[range(1)], [range(1), range(1, 2)], [range(1), range(1, 3)]]
    return mixing.mixing_matrix(reads, [[1], [3, 5], [2, 7]]) == [[1, 0, 0], [3, 5, 0], [2, each, each]]


@RANK.check(
    "DenseFormer's averages of streams as weights on what layers add, worked out by hand for two layers",
    states=[[2, 0, 0], [7, 3, 0], [17, 8, 1]],
    control=[[2, 0, 0], [1, 3, 0], [0, 5, 1]],
    wrong="as if its sources were outputs",
    kind="exact",
)
def averages_are(matrix: list[list[int]]) -> bool:
    """Y0 = 2 X0, X1 = Y0 + o1, Y1 = X0 + 3 X1, X2 = Y1 + o2, Y2 = 5 X1 + X2."""
    return mixing.of_averages([[2], [1, 3], [0, 5, 1]]) == matrix


MEMORY = Claim(
    "attnres.memory",
    PAPER.name,
    place="summary: memory of O(Ld) for Full, O(Nd) for Block",
    statement="Full keeps a vector for every sublayer before, Block one for every block.",
    assumes="a forward pass, per token; L sublayers in N blocks",
    verdict="verified",
    correction="L + 1 and N + 1 with the embedding.  That is what keeping sources takes.  Full needs half of it for a "
    "forward pass, floor((L + 2)/2), and there are weights with which no linear scheme can do with less.",
    proof=mixing,
    uses=("attnres.semiseparable-rank", "attnres.two-phases"),
    unjudged={**OF_DEPTH, **ATTAINING},
)


@MEMORY.check(
    "the sources that a plan keeps at most, in vectors, at 1 to 12 layers",
    states={"vanilla": lambda n: 1, "attnres": lambda n: n + 1, "attnres-block:blocks=4": lambda n: min(n, 4) + 1},
    control={"vanilla": lambda n: 1, "attnres": lambda n: n, "attnres-block:blocks=4": lambda n: min(n, 4)},
    wrong="without the embedding",
    kind="exact",
)
def sources_are_kept(vectors: Mapping[str, Callable[[int], int]]) -> bool:
    for name, count in vectors.items():
        for layers in (1, 2, 4, 12):
            config = config_of(layers)
            if depth_memory(config, resolve(name, config.shape)) != config.d_model * count(2 * layers):
                return False
    return True


@MEMORY.check(
    "the width of the smallest stream for Full, at 1 to 6 layers",
    states=lambda n: (n + 2) // 2,
    control=lambda n: n + 1,
    wrong="all sources",
    kind="exact",
)
def smallest_stream(width: Callable[[int], int]) -> bool:
    for layers in (1, 2, 6):
        reads = reads_of("attnres", layers)
        matrix = mixing.mixing_matrix(reads, mixing.powers(reads))
        if max(mixing.state_sizes(matrix)) != width(2 * layers):
            return False
    return True
