"""Dynamic Value Attention in five lines, and its notation."""

from __future__ import annotations

from experiments.ledger.overview import Answer, Line, Symbol

LINES = (
    Line(
        "No pair of tokens needs a value of its own: the revised form is ordinary attention with values twice as wide "
        "and a gate that is linear in the query's token.",
        ("dva.revised",),
    ),
    Line(
        "The initial form collapses, too, so that it is feasible; it costs more than the revised one.",
        ("dva.initial",),
    ),
    Line(
        "Ordinary heads cannot replace a dynamic head, whose query's token is a factor (inputs in all of R^d or on a "
        "sphere, no output matrix); in the paper's example two can.  Nor can it replace two ordinary heads.",
        ("dva.one-head", "dva.example"),
    ),
    Line(
        "It has not done without a feed-forward, but holds a bilinear one.",
        ("dva.no-feed-forward",),
    ),
    Line(
        "The training time that it saves, 37.6 %, goes with FLOPs that are 38 % fewer: nothing is matched there.  "
        "Whose doing the lower loss is, its table cannot tell.",
        ("dva.time", "dva.table-2"),
    ),
)

NOTATION = (
    Symbol("s(B, A)", "s_ij", "the weight with which token i attends to token j"),
    Symbol("q(B), k(A)", "q_i, k_j", "queries and keys"),
    Symbol("v(A)", "v_j", "the value of token j, the same for every query"),
    Symbol("r", "q^R_i * k^R_j", "what the revised form adds to it for a pair, entry by entry"),
    Symbol("WQR, WKR", "the gate's and the gated projection", "of query and key, for the value of a pair"),
    Symbol("model a, model b", "dva-a, dva-b", "GPT-2, and the paper's model with one head a layer"),
)

ANSWER = Answer(
    asks="Does one head with a value for every pair of tokens do what many heads and a feed-forward do?",
    lines=LINES,
    figure="dva-example",
    notation=NOTATION,
)
