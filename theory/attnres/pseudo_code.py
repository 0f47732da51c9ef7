"""The paper's pseudo-code of Block AttnRes, run on names: the outputs that its sources hold, and how that goes wrong.

Its forward of a layer reads the blocks and the partial sum, ends a block if layer_number % (block_size // 2) is 0, adds
the attention's output, reads again, and adds the feed-forward's.  It does not say what the list of blocks is at first,
whether layers count from 0 or 1, or what becomes of its results after the last layer.

1. It is Block AttnRes with blocks of block_size sublayers if block_size is even, layers count from 0, and the list is
   empty at first: layer 0 then puts the embedding there.  "Blocks already include token embedding", as its comment has
   it, is so from layer 0's second read on.
2. If the list holds the embedding at first, too, all later reads have it twice, as two sources with one key.  Whatever
   the query, a share alpha of the embedding becomes 2 alpha / (1 + alpha): double at first order.  At zero queries it
   weighs 2 / (k + 1) for 1 / k, and the network does not start as a PreNorm network.
3. Counted from 1, layers end the first block one layer early, and it has the embedding in its sum, which is then no
   source of its own, or, if the list holds it at first, is counted in two sources.
4. block_size // 2 rounds down: odd sizes are those below them, and 1, which would be Full, divides by zero.
5. There is no last read: what the last layer returns as the stream is the sum of the last block alone.

A partial sum of zeros, counted as a source when a block begins, has the key 0 and the logit 0.  It takes the share 1 /
(1 + sum_i exp(l_i)), 1 / (k + 1) at zero queries, and leaves the shares of the others to each other as they were: the
read is (1 - share) times the right one, so a norm with eps = 0 removes it, in function and gradients.  (The key of a
zero vector has to be made with eps > 0; with 0 it is 0 / 0.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import exp

from theory.errors import BadInput, at_least
from theory.prompts.setting import Number

Source = Counter[int]  # how often each output is in a source's sum; 0 the embedding, 2 n - 1 and 2 n layer n's


def pseudo_code(
    layers: int, block_size: int, *, first: int = 0, holds_embedding: bool = False
) -> tuple[list[list[Source]], Source]:
    """Return the sources of every read, two per layer, and what the last layer returns as the stream.

    first: the number of the first layer; holds_embedding: whether the list of blocks does before it.  Raises
    InvalidSize, and ZeroDivisionError for blocks of one sublayer, as the pseudo-code does.
    """
    at_least("layers", layers, 1)
    at_least("block_size", block_size, 1)
    blocks, partial = [Counter({0: 1})] if holds_embedding else [], Counter({0: 1})
    reads = []
    for layer in range(layers):
        reads.append([*blocks, partial])
        if (first + layer) % (block_size // 2) == 0:
            blocks = [*blocks, partial]
            partial = Counter()
        partial = partial + Counter({2 * layer + 1: 1})
        reads.append([*blocks, partial])
        partial = partial + Counter({2 * layer + 2: 1})
    return reads, partial


def start_weights(sources: Sequence[Source]) -> dict[int, Fraction]:
    """Return each output's weight in a read at zero queries, 1 / k per source.  Raises BadInput without a source."""
    if not sources:
        raise BadInput("a read needs a source")
    outputs = sorted({output for source in sources for output in source})
    return {output: Fraction(sum(source[output] for source in sources), len(sources)) for output in outputs}


def doubled_share(share: Number) -> Fraction:
    """Return a source's share of a softmax once the source is counted twice.  Raises BadInput outside [0, 1]."""
    if not 0 <= share <= 1:
        raise BadInput(f"a share lies between 0 and 1, got {share}")
    return 2 * Fraction(share) / (1 + Fraction(share))


def zero_share(logits: Sequence[float]) -> float:
    """Return the share that a source of zeros takes beside sources with these logits."""
    return 1 / (1 + sum(map(exp, logits)))
