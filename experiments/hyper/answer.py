"""Hyper-connections in five lines, and their notation."""

from __future__ import annotations

from experiments.ledger.answer import Answer, Line, Symbol

LINES = (
    Line(
        "At their initial weights hyper-connections are PreNorm, exactly: what they gain is what they learn.",
        ("hyper.start", "hyper.decoders"),
    ),
    Line(
        "Mixing that is off the identity by eps can enlarge streams by (1 + eps)^L over L sublayers, norms or not.",
        ("hyper.growth",),
    ),
    Line(
        "Doubly stochastic mixing (mHC) takes that away and leaves PreNorm's bound, linear in depth and attained; the "
        "mean stream is a residual sum in which the mixing has no part.  Without norms streams grow geometrically.",
        ("hyper.doubly-stochastic", "hyper.norms"),
    ),
    Line(
        "Under it streams become one unless mixing stays near a permutation: what tells old outputs apart fades "
        "geometrically.",
        ("hyper.merging",),
    ),
    Line(
        "After finitely many Sinkhorn iterations gradients can grow by the number of streams, and not more, at any "
        "depth.",
        ("hyper.sinkhorn",),
    ),
)

NOTATION = (
    Symbol("H", "X", "the streams, one a row"),
    Symbol("A_r; H^res", "H (`mix`)", "what every stream becomes, without the output; transposed in the first paper"),
    Symbol("A_m; H^pre", "a (`read`)", "the weights with which a sublayer reads the streams"),
    Symbol("B; H^post", "b (`write`)", "the weights with which its output is added to them"),
    Symbol("T_r, T_c", "rows last, columns first", "a Sinkhorn iteration's two divisions"),
)

ANSWER = Answer(
    asks="Do several residual streams, mixed at every sublayer, stay bounded?",
    lines=LINES,
    figure="hyper-growth",
    notation=NOTATION,
)
