"""Claims on how depth attention is computed: in two phases, as matrices, by the pseudo-code, and at what cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import log

import numpy as np

from experiments.ledger.claim import Claim, Conditions, at
from experiments.toys.unjudged import OF_COUNTS, OF_VALUES
from theory.attnres import mixing, pseudo_code, two_phase
from theory.attnres import traffic as moves
from theory.attnres.paper import PAPER
from theory.attnres.two_phase import Array, Part, Sublayer
from theory.attnres.variants import attnres as attnres_plan
from theory.plans import mix
from theory.plans.accounting import depth_memory, depth_reads, flops
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve
from theory.plans.plan import Plan
from theory.plans.presets import llama

FORMS = {"two-phase Full": 1, "two-phase Block": 4, "naive Full": 1, "naive Block": 4}  # the rule's block, if any
SIZE = 4


def problem(count: int, scale: float = 1.0) -> tuple[Array, list[Sublayer], Array]:
    """Return an embedding, sublayers and queries of width 3, with a last read."""
    rng = np.random.default_rng(count)
    matrices = rng.standard_normal((count, 3, 3))
    sublayers: list[Sublayer] = [lambda h, m=m: m @ np.tanh(h) for m in matrices]  # type: ignore[misc]
    return rng.standard_normal(3), sublayers, scale * rng.standard_normal((count + 1, 3))


def softmax_of(query: Array, values: Array) -> tuple[Array, float]:
    """Return the read of these sources and the log of its mass, computed directly."""
    logits = values @ query / np.sqrt((values**2).mean(axis=1))
    shares = np.exp(logits - logits.max())
    return shares @ values / shares.sum(), float(logits.max() + np.log(shares.sum()))


def direct(block: int, embedding: Array, sublayers: list[Sublayer], queries: Array) -> list[Array]:
    """Return all sublayers' reads and the last one, with one softmax each over the embedding and sums of blocks."""
    outputs, inputs = [embedding], []
    for i, query in enumerate(queries):
        starts = range(1, i + 1, block)
        sources = [embedding, *(np.sum(outputs[s : s + block], axis=0) for s in starts)]
        inputs.append(softmax_of(query, np.stack(sources))[0])
        if i < len(sublayers):
            outputs.append(sublayers[i](inputs[-1]))
    return inputs


def near(one: object, other: object) -> bool:
    return bool(np.allclose(np.asarray(one), np.asarray(other), rtol=1e-9, atol=1e-9))


TWO_PHASES = Claim(
    "attnres.two-phases",
    PAPER.name,
    place="section 4.2, Algorithm 1",
    statement="Reading what is before a block for all its sublayers at once, and merging in what the block makes by an "
    "online softmax, is exact, for Full and for Block.",
    assumes="queries are parameters; exact arithmetic, or float64 to its rounding",
    verdict="verified",
    correction="For the same reason Full can do with half its vectors in a forward pass: once fewer reads than "
    "sources are left, merge each source into the reads to come.  Queries that depend on the input allow neither.",
    proof=two_phase,
)


@TWO_PHASES.check(
    "parts of 40 sources, with logits up to thousands, merged by these masses",
    states=lambda part: part.log_mass,
    control=lambda part: 0 * part.log_mass,
    wrong="by equal ones: the mean of the parts' means",
)
def parts_merge(mass: Callable[[Part], Array]) -> Conditions:
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e3):
        values, query = rng.standard_normal((40, 3)), scale * rng.standard_normal(3)
        for cut in (1, 7, 33):
            parts = [two_phase.attend(query, piece) for piece in (values[:cut], values[cut:])]
            merged = two_phase.merge(*(Part(part.mean, mass(part)) for part in parts))
            mean, log_mass = softmax_of(query, values)
            yield near(merged.mean, mean) and near(merged.log_mass, log_mass)


@TWO_PHASES.check(
    "what sublayers are handed by schedules with blocks of 4 against one softmax a read, 1 to 37 sublayers",
    states=4,
    control=3,
    wrong="blocks of 3 in what Block weighs",
)
def schedules_are_exact(size: int) -> Conditions:
    for count in (1, 2, 5, 37):
        embedding, sublayers, queries = problem(count)
        for name, block in FORMS.items():
            found = moves.traffic(name, embedding, sublayers, queries=queries[:-1], block=SIZE).inputs
            expected = direct(size if block > 1 else 1, embedding, sublayers, queries)
            yield near(found, expected[:-1])


@TWO_PHASES.check(
    "the most vectors kept for all reads of n - 1 sublayers, which are those of a direct softmax",
    states=lambda n: (n + 1) // 2,
    control=lambda n: n,
    wrong="all n sources",
)
def half_is_kept(vectors: Callable[[int], int]) -> Conditions:
    for count in (1, 2, 9, 36):
        reads, kept = two_phase.reads_from_half(*problem(count))
        yield kept == vectors(count + 1)
        yield near(reads, direct(1, *problem(count)))


TRAFFIC = Claim(
    "attnres.traffic",
    PAPER.name,
    place="Table 1; section 4.2",
    statement="A token's sublayer costs 3 vectors of memory traffic with a residual stream, on average S + N with Full "
    "and N/S + 5 with Block, in two phases: 3, 24 and 5.5 at L = 128 and N = 8.",
    assumes="vectors read or written by the depth rule, not by sublayers; what they read is handed over, not written; "
    "L = N S",
    verdict="corrected",
    correction="3 is exact.  The others are what the last sublayer of all costs with Full, but for the embedding, and "
    "what late ones in the last block cost with Block; the means are (N + S)/2 + 1 + 1/S and (N + 1)/(2S) + 5 - 2/S: "
    "13.06 and 5.16.  Where what a sublayer reads is written, both are one more.  So none moves less than a residual "
    "stream; 64.5 and 8.25 are what Full and Block move read by read.  Beside the rest it is little in wide models: "
    "with 64 layers of width 1536 all reads of Block are 0.12 % of the FLOPs of a token's products with weights, of "
    "Full 1.4 %, and what they move is 0.06 % and 0.14 % of the weights that decoding one sequence reads.  All of "
    "these go as one over the width.  Of time nothing is said.",
    proof=moves,
    uses=("attnres.two-phases",),
    unjudged={
        **OF_VALUES,
        **OF_COUNTS,
        Architecture.attending: "no copy stands in for heads here",
        Architecture.window_of: "of one token no window hides anything",
        attnres_plan: "a norm of the keys is no product",
        **dict.fromkeys(
            (
                moves.ResidualStream.hand,
                moves.NaiveFull.hand,
                moves.NaiveBlock.hand,
                moves.TwoPhases.hand,
                moves.TwoPhaseFull.recent,
                moves.TwoPhaseBlock.recent,
            ),
            "how many vectors are moved, and not what they hold, which is attnres.two-phases'",
        ),
    },
)


def counted(name: str, blocks: int, size: int) -> moves.Traffic:
    embedding, sublayers, queries = problem(blocks * size)
    return moves.traffic(name, embedding, sublayers, queries=queries[:-1], block=size)


@TRAFFIC.check(
    "the mean over all sublayers, counted while running, and by its closed form, from 1 to 5 blocks of 1 to 6",
    states={
        "residual": lambda n, s: Fraction(3),
        "naive Full": lambda n, s: Fraction(n * s + 1, 2),
        "naive Block": lambda n, s: Fraction(n + 1, 2) + 4 - Fraction(4, s),
        "two-phase Full": lambda n, s: Fraction(n + s, 2) + 1 + Fraction(1, s),
        "two-phase Block": lambda n, s: Fraction(n + 1, 2 * s) + (5 - Fraction(2, s) if s > 1 else 2),
    },
    control={
        "residual": lambda n, s: Fraction(3),
        "two-phase Full": lambda n, s: Fraction(s + n),
        "two-phase Block": lambda n, s: Fraction(n, s) + 5,
    },
    wrong="the printed formulas, as means",
    kind="exact",
)
def means(forms: dict[str, Callable[[int, int], Fraction]]) -> bool:
    return all(
        counted(name, blocks, size).mean == moves.mean_traffic(name, blocks, size) == form(blocks, size)
        for name, form in forms.items()
        for blocks in (1, 2, 5)
        for size in (1, 2, 3, 6)
    )


@TRAFFIC.check(
    "at L = 128 and N = 8: the last sublayer with Full, without the embedding; the last but one with Block; any other",
    states=(Fraction(24), Fraction(11, 2), 3),
    control=(Fraction(209, 16), Fraction(165, 32), 3),
    wrong="the means",
    kind="exact",
)
def late_sublayers(printed: tuple[Fraction, Fraction, int]) -> bool:
    full, block, stream = (counted(name, 8, 16).counts for name in ("two-phase Full", "two-phase Block", "residual"))
    return (full[-1] - Fraction(1, 16), block[-2]) == printed[:2] and set(stream) == {printed[2]}


@TRAFFIC.check(
    "what the counted residual stream hands to sublayers: sums of outputs, from this one on",
    states=0,
    control=1,
    wrong="without the embedding",
)
def stream_is_the_sum(first: int) -> bool:
    embedding, sublayers, queries = problem(6)
    inputs = moves.traffic("residual", embedding, sublayers, queries=queries[:-1], block=2).inputs
    outputs = [embedding, *(f(h) for f, h in zip(sublayers, inputs, strict=True))]
    return all(near(h, np.sum(outputs[first : i + 1], axis=0)) for i, h in enumerate(inputs))


@TRAFFIC.check(
    "at L = 128 and N = 8: from the least to the most vectors a sublayer, counted while running",
    states=("residual", "two-phase Block", "naive Block", "two-phase Full", "naive Full"),
    control=("residual", "two-phase Block", "two-phase Full", "naive Block", "naive Full"),
    wrong="in two phases Full moves less than Block read by read",
    kind="exact",
    others={
        "Block moves less than a residual stream": (
            "two-phase Block",
            "residual",
            "naive Block",
            "two-phase Full",
            "naive Full",
        )
    },
)
def least_to_most(names: Sequence[str]) -> bool:
    found = [counted(name, 8, 16).mean for name in names]
    return all(less < more for less, more in pairwise(found))


@TRAFFIC.check(
    "64 layers of width 1536: what reads cost beside products with weights, what they move beside the weights",
    states={"attnres-block:blocks=8": (0.0012, 0.0006), "attnres": (0.0142, 0.0014)},
    control={"attnres-block:blocks=8": (0.0191, 0.0090), "attnres": (0.2275, 0.0227)},
    wrong="as at width 96",
    others={"Full costs as little as Block": {"attnres-block:blocks=8": (0.0012, 0.0006), "attnres": (0.0012, 0.0006)}},
)
def beside_the_rest(shares: Mapping[str, tuple[float, float]]) -> Conditions:
    """Compare shares: a layer has 12 d^2 weights, attention over one token takes 4 d FLOPs, a source 4 d FLOPs."""
    d, layers = 1536, 64
    config = llama(d_model=d, n_heads=24, n_layers=layers, d_ff=4096, vocab=1, context=1)
    weights = layers * 12 * d**2
    sources = {"attnres-block:blocks=8": sum(1 + -(-i // 16) for i in range(129)), "attnres": sum(range(1, 130))}
    moved = {"attnres-block:blocks=8": "two-phase Block", "attnres": "two-phase Full"}
    for name, (of_flops, of_weights) in shares.items():
        found = flops(config, resolve(name, config.shape), 1)
        reads = found - 2 * weights - 4 * d * layers - 2 * d  # the last: one score
        vectors = 128 * d * float(counted(moved[name], 8, 16).mean)
        ratios = reads / (2 * weights), vectors / weights
        yield reads == 4 * d * sources[name]
        yield np.allclose(ratios, (of_flops, of_weights), rtol=0, atol=5e-5)


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
def ranks_are(ranks: Ranks) -> Conditions:
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
            yield softmax and len(reads) == n and found <= attained == bound == rank(n, 4)


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


@RANK.number(
    "blocks on and below the diagonal of a matrix whose ranks are known",
    [1, 2, 2, 1],
    control=[1, 2, 3, 4],
    wrong="of leading blocks, as of the whole matrix",
)
def state_sizes() -> list[int]:
    matrix = [[1, 0, 0, 0], [1, 2, 0, 0], [1, 1, 3, 0], [1, 1, 1, 4]]
    return mixing.state_sizes(matrix)


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


@RANK.number(
    "DenseFormer's averages of streams as weights on what layers add, worked out by hand for two layers",
    [[2, 0, 0], [7, 3, 0], [17, 8, 1]],
    control=[[2, 0, 0], [1, 3, 0], [0, 5, 1]],
    wrong="as if its sources were outputs",
)
def averages_are() -> list[list[Fraction]]:
    """Return the coefficients of Y0 = 2 X0, X1 = Y0 + o1, Y1 = X0 + 3 X1, X2 = Y1 + o2, Y2 = 5 X1 + X2."""
    return mixing.of_averages([[2], [1, 3], [0, 5, 1]])


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
def sources_are_kept(vectors: Mapping[str, Callable[[int], int]]) -> Conditions:
    for name, count in vectors.items():
        for layers in (1, 2, 4, 12):
            config = config_of(layers)
            yield depth_memory(config, resolve(name, config.shape)) == config.d_model * count(2 * layers)


@MEMORY.check(
    "the width of the smallest stream for Full, at 1 to 6 layers",
    states=lambda n: (n + 2) // 2,
    control=lambda n: n + 1,
    wrong="all sources",
    kind="exact",
)
def smallest_stream(width: Callable[[int], int]) -> Conditions:
    for layers in (1, 2, 6):
        reads = reads_of("attnres", layers)
        matrix = mixing.mixing_matrix(reads, mixing.powers(reads))
        yield max(mixing.state_sizes(matrix)) == width(2 * layers)


PSEUDO_CODE = Claim(
    "attnres.pseudo-code",
    PAPER.name,
    place="PyTorch-style pseudocode",
    statement="The printed forward of a layer is Block AttnRes, for blocks that already include the token embedding.",
    assumes="blocks of block_size sublayers, the list of blocks handed from layer to layer",
    verdict="corrected",
    correction="It is for even block sizes, layers that count from 0 and a list that is empty at first, with a last "
    "read added.  With a list that holds the embedding it is counted twice, at zero queries 2/(k + 1) for 1/k; counted "
    "from 1, the first block is a layer short and has it in its sum; odd sizes are rounded down, and 1 fails.",
    proof=pseudo_code,
    unjudged=OF_DEPTH,
)


def of_plan(layers: int, size: int) -> list[list[Counter[int]]]:
    """Return the sources of every sublayer's read, without the last read."""
    reads = reads_of(f"attnres-block:size={size}", layers)[:-1]
    return [[Counter(source) for source in sources] for sources in reads]


@PSEUDO_CODE.check(
    "sources of every read against the plan's, for blocks of 2, 4 and 6, by (first layer, list holds the embedding)",
    states=[(0, False)],
    control=[(0, True)],
    wrong="with a list that holds the embedding, as its comment has it",
    kind="exact",
)
@PSEUDO_CODE.check(
    "the same", states=[(0, False)], control=[(1, False)], wrong="with layers that count from 1", kind="exact"
)
def sources_are(starts: list[tuple[int, bool]]) -> bool:
    return all(
        pseudo_code.pseudo_code(5, size, first=first, holds_embedding=holds)[0] == of_plan(5, size)
        for first, holds in starts
        for size in (2, 4, 6)
    )


@PSEUDO_CODE.check(
    "the embedding's weight at zero queries with a list that holds it, where k sources are right, from the second read",
    states=lambda k: Fraction(2, k + 1),
    control=lambda k: Fraction(1, k),
    wrong="what it should be",
    kind="exact",
)
def embedding_weighs(weight: Callable[[int], Fraction]) -> bool:
    reads, _ = pseudo_code.pseudo_code(5, 4, holds_embedding=True)
    found = [pseudo_code.start_weights(sources)[0] for sources in reads[1:]]
    right = [len(sources) for sources in of_plan(5, 4)[1:]]
    by_share = [pseudo_code.doubled_share(Fraction(1, k)) for k in right]
    return found == by_share == [weight(k) for k in right]


@PSEUDO_CODE.check(
    "odd sizes have the blocks of this size instead", states=-1, control=0, wrong="their own", kind="exact"
)
def odd_sizes(more: int) -> bool:
    return all(pseudo_code.pseudo_code(5, size)[0] == of_plan(5, size + more) for size in (3, 5, 7))


@PSEUDO_CODE.check(
    "the share of a partial sum of zeros beside k sources at zero queries",
    states=lambda k: 1 / (k + 1),
    control=lambda k: 0.0,
    wrong="none",
)
def zeros_weigh(share: Callable[[int], float]) -> bool:
    even = all(abs(pseudo_code.zero_share([0.0] * k) - share(k)) < 1e-15 for k in (1, 2, 9))
    return even and abs(pseudo_code.zero_share([log(2), log(3)]) - 1 / 6) < 1e-15
