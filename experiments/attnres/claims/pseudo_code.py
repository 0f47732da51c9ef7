"""Claims on the paper's pseudo-code of Block AttnRes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import log

from experiments.attnres.claims.structure import OF_DEPTH, reads_of
from experiments.ledger.claim import Claim
from theory.attnres import pseudo_code
from theory.attnres.paper import PAPER

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
    """Of all sublayers, without the last read."""
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
    "the same",
    states=[(0, False)],
    control=[(1, False)],
    wrong="with layers that count from 1",
    kind="exact",
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
    "odd sizes have the blocks of this size instead",
    states=-1,
    control=0,
    wrong="their own",
    kind="exact",
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
