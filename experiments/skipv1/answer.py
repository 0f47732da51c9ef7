"""SkipV1Former in five lines, and its notation."""

from __future__ import annotations

from experiments.ledger.overview import Answer, Line, Symbol

LINES = (
    Line(
        "As it is printed, Theorem 2 is false in every dimension from 3 on: two heads of MHA can end below "
        "SkipV1Former's minimum, by as much as one likes.",
        ("skipv1.w0",),
    ),
    Line(
        "At W0 = 0, where the paper's lemmas hold, more is true than it says: minimised over the compression too, the "
        "gap is rho a^2 at equal rank a, for any number of MHA's heads.",
        ("skipv1.gap", "skipv1.mha-infimum", "skipv1.skipv1-minimum"),
    ),
    Line(
        "So even with endless context MHA explains at most a quarter of the signal, and SkipV1Former all of it.",
        ("skipv1.limit",),
    ),
    Line(
        "Around any W0 it is ahead of MHA if it has enough heads, or, with two heads, if a term C x with a free matrix "
        "C is added to the prediction.",
        ("skipv1.w0-enough-heads", "skipv1.bias"),
    ),
    Line(
        "The first layer that the proof needs is assumed: linear attention without positions cannot copy so.  The "
        "cache is smaller as counted, but decoding reads as much of it as MHA's.",
        ("skipv1.assumption1", "skipv1.inference-memory", "skipv1.inference-speed"),
    ),
)

NOTATION = (
    Symbol("d, n, a", "d, n, a (`rank`)", "width of x and of y; pairs in a prompt; numbers of x that a token keeps"),
    Symbol("sigma", "sigma", "standard deviation of the noise"),
    Symbol("W^*, W_0", "W*, W0", "the task's matrix and its mean"),
    Symbol("E", "`tokens`", "the prompt: columns x_1, y_1, ..., x_n, y_n, x_{n+1}"),
    Symbol("A, B", "A: a x d, B: (d - a) x d", "the compression of a pair into one token"),
    Symbol("X X^T, Y X^T, Y Y^T", "S_xx, S_yx, S_yy", "sums over the pairs of a prompt"),
    Symbol("G_{1,D}, G_{2,D}^2", "G of an ordinary head, of a skip head", "what a head reads of the prompt"),
    Symbol("W^h, M^h", "W^h, K^h A", "what a head makes of it: P = sum_h W^h G^h K^h A"),
    Symbol("L_1, L_2", "inf L_mha(a), min L_skipv1(a)", "population losses of MHA and of SkipV1Former"),
    Symbol("lambda_i", "lambda = 1/(n + d + 1 + sigma^2)", "the best step of gradient descent, for every i"),
    Symbol("n lambda", "rho", "the share of an entry of W* that a linear read of S_yx explains"),
    Symbol("N_1 + N_2, N_3", "P_even, P_odd", "parts of P that keep and change their sign with y"),
    Symbol("c", "the gap", "by how much MHA's lowest loss exceeds SkipV1Former's"),
)

ANSWER = Answer(
    asks="Is MHA worse by a constant than heads half of which read layer 1's values?",
    lines=LINES,
    figure="skipv1-gap",
    notation=NOTATION,
)
