"""The summary of Attention Residuals, line by line, and what its paper adds: which ledger entries judge it.

The summary is the text of the authors' repository, in its order, with the introduction that precedes it in the text
that is handed on; what the paper adds stands behind it, by its sections, as far as its numbers are known to us.  What
no entry judges stands in `NOT_JUDGED`, with the reason.
"""

from __future__ import annotations

from experiments.ledger.overview import Index, Item

ITEMS = (
    # The introduction that precedes the summary
    Item(
        "introduction, compute",
        "Block does as well as a baseline on a quarter more compute, so that training needs about a fifth less.",
        ("attnres.compute",),
    ),
    Item("introduction, bandwidth", "Inference needs much less bandwidth.", ("attnres.traffic",)),
    Item("introduction, consumer hardware", "Models run better on machines that people own.", ()),
    Item("introduction, a pupil's part", "It was developed with the help of a pupil.", ()),
    # The summary
    Item(
        "summary, three forms",
        "Residual streams add uniformly, Full attends over all earlier outputs, Block over groups of them.",
        ("attnres.semiseparable-rank", "attnres.pseudo-code"),
    ),
    Item(
        "summary, drop-in replacement",
        "Residual connections can be replaced as they are.",
        ("attnres.zero-query", "attnres.ablations"),
    ),
    Item(
        "summary, unit weights",
        "A residual stream holds every output with weight one.",
        ("attnres.semiseparable-rank", "attnres.dilution"),
    ),
    Item("summary, dilution", "As depth grows, each layer's contribution is diluted.", ("attnres.dilution",)),
    Item(
        "summary, growth",
        "Hidden states grow with depth without bound, as is known of PreNorm.",
        (
            "attnres.growth",
            "attnres.initial-size",
            "attnres.typical-output",
            "attnres.norms",
            "attnres.toy-magnitude",
        ),
    ),
    Item(
        "summary, the formula",
        "A layer reads a sum of earlier outputs, weighted by a softmax over depth.",
        ("attnres.bounded", "attnres.pseudo-code", "attnres.deep-toy"),
    ),
    Item(
        "summary, pseudo-query",
        "One learned vector a layer decides the weights.",
        ("attnres.query-gradient", "attnres.gradients", "attnres.zero-query"),
    ),
    Item(
        "summary, selective access",
        "Every layer can pick any earlier representation by its content.",
        ("attnres.dilution", "attnres.growth", "attnres.deep-toy"),
    ),
    Item("summary, memory of Full", "Full needs memory of the order of L d.", ("attnres.memory",)),
    Item(
        "summary, blocks",
        "Outputs within a block are summed, N blocks are attended over: memory of the order of N d.",
        ("attnres.memory", "attnres.pseudo-code", "attnres.bounded"),
    ),
    Item("summary, eight blocks", "About eight recover most of what Full gains.", ("attnres.blocks-recover",)),
    Item("summary, overhead", "Block costs little beside the rest.", ("attnres.traffic",)),
    Item(
        "summary, pseudo-code: the read",
        "Sources are stacked, normed for keys, weighed by a softmax over depth and summed as they are.",
        ("attnres.pseudo-code",),
    ),
    Item(
        "summary, pseudo-code: boundaries",
        "Before its attention a layer whose number is a multiple of half the block's length begins a block.",
        ("attnres.pseudo-code",),
    ),
    Item(
        "summary, pseudo-code: the embedding",
        "The list of blocks holds the token embedding from the start.",
        ("attnres.pseudo-code",),
    ),
    Item(
        "summary, all budgets",
        "It is better than the baseline at every compute budget.",
        ("attnres.loss", "attnres.compute"),
    ),
    Item("summary, 1.25", "Block is worth 1.25 times its compute.", ("attnres.compute",)),
    Item(
        "summary, downstream table",
        "Nine scores of a model of 48B parameters, 3B of them active, on 1.4T tokens.",
        ("attnres.downstream",),
    ),
    Item("summary, across the board", "All nine scores are higher.", ("attnres.downstream",)),
    Item(
        "summary, largest gains",
        "They are those of multi-step reasoning and of code.",
        ("attnres.downstream",),
    ),
    Item("summary, mitigation", "It mitigates PreNorm's dilution.", ("attnres.dilution",)),
    Item(
        "summary, bounded magnitudes",
        "What layers put out stays bounded over depth.",
        (
            "attnres.bounded",
            "attnres.attention-output",
            "attnres.feed-forward-output",
            "attnres.swiglu-quartic",
            "attnres.growth",
            "attnres.norms",
            "attnres.toy-magnitude",
        ),
    ),
    Item(
        "summary, gradients",
        "Gradients' norms are more uniform over layers.",
        ("attnres.gradients", "attnres.start-gradients"),
    ),
    # What the paper adds
    Item(
        "section 4.2, Algorithm 1",
        "Reads in two phases are those of the formula.",
        ("attnres.two-phases",),
    ),
    Item(
        "section 4.2, Table 1",
        "Vectors moved a token and sublayer: 3 of a residual stream, S + N of Full, N / S + 5 of Block.",
        ("attnres.traffic",),
    ),
    Item("section 4.2, measured overhead", "Below 4 % in training, below 2 % at inference.", ()),
    Item(
        "section 5, the start",
        "With queries of zero every read is an average with equal weights.",
        ("attnres.zero-query", "attnres.zero-query-distance", "attnres.gradients"),
    ),
    Item(
        "section 5.1, Table 2",
        "Losses of the baseline, Block and Full at five sizes.",
        ("attnres.loss", "attnres.blocks-recover", "attnres.compute"),
    ),
    Item("section 5.1, Fig. 4", "Three power laws of the compute.", ("attnres.compute",)),
    Item("ablations, the table", "Losses of ten ways to read over depth, at 436M.", ("attnres.ablations",)),
    Item("ablations, mHC", "The table's eleventh row: hyper-connections on a manifold lose 1.747.", ()),
    Item(
        "section 6.2, Fig. 9",
        "Ways to read over depth as lower triangular matrices, structured by their rank.",
        ("attnres.semiseparable-rank",),
    ),
)

NOT_JUDGED = {
    "introduction, consumer hardware": "an expectation, of machines that are not named",
    "introduction, a pupil's part": "no matter of computation",
    "section 4.2, measured overhead": "of models and pipelines on many GPUs, which `crosslayer bench depth` does not "
    "have: it measures one step on the machine at hand",
    "ablations, mHC": "no plan of ours has manifold-constrained hyper-connections, so no decoder here trains with them",
}

INDEX = Index("the summary of Attention Residuals", ITEMS)
