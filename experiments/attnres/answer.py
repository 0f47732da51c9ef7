"""Attention Residuals in five lines, and its notation."""

from __future__ import annotations

from experiments.ledger.overview import Answer, Line, Symbol

LINES = (
    Line(
        "A softmax over depth bounds what is read by the outputs.  Norms before the sublayers bound the outputs; "
        "without them Full is bounded if no sublayer enlarges its input, else some networks grow geometrically.",
        ("attnres.norms", "attnres.bounded"),
    ),
    Line(
        "With these norms, eps = 0, and outputs and embedding of at most C, the last read after M sublayers is at "
        "most (M + 1) C in PreNorm, C in Full, and min(S, M) C with blocks of S sublayers; a fixed number of blocks "
        "grows linearly too.",
        ("attnres.growth",),
    ),
    Line(
        "At the start, where queries are zero, it is the PreNorm network, if norms have no eps: what it gains is what "
        "its queries learn.",
        ("attnres.zero-query", "attnres.start-gradients"),
    ),
    Line(
        "A layer's contribution is diluted as 1 / l by queries of bounded length too, and by a fixed number of blocks.",
        ("attnres.dilution",),
    ),
    Line(
        "That it ends below PreNorm at every budget is for training to decide: `text-depth` asks it of small decoders.",
        ("attnres.loss", "attnres.compute"),
    ),
)

NOTATION = (
    Symbol("L, l", "M (sublayers), l", "sublayers in all, attention and feed-forward each; one of them"),
    Symbol("d, D", "d_model", "width"),
    Symbol("N", "N", "blocks"),
    Symbol("`block_size`", "S (`block`)", "sublayers in a block"),
    Symbol("h_l", "what sublayer l reads", "a sum of earlier outputs with weights over depth"),
    Symbol("v_i", "v_i", "what sublayer i puts out; v_0 is the embedding"),
    Symbol("alpha_{i -> l}", "the share of i in l", "a softmax over depth"),
    Symbol("w_l", "query", "the learned vector that decides the shares"),
    Symbol("`norm`", "gain, eps", "the RMSNorm of what is attended over"),
)

ANSWER = Answer(
    asks="Does attention over depth bound hidden states, and does it train better than a residual stream?",
    lines=LINES,
    figure="attnres-bounds",
    notation=NOTATION,
)
