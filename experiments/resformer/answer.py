"""ResFormer in five lines, and its notation."""

from __future__ import annotations

from experiments.ledger.overview import Answer, Line, Symbol

LINES = (
    Line(
        "The block form is exact once the earlier layer's keys are replaced.  If that moves no score by more than eps, "
        "attention weights move by at most kappa(eps) in total variation, (9/32) eps to first order; no smaller bound "
        "holds.",
        ("resformer.eqns-3-5", "resformer.block-form-sharp"),
    ),
    Line(
        "In the linear toy it is no approximation but something better: with a term C x it explains more than "
        "cross-layer attention around every W0.",
        ("resformer.block-form-better", "resformer.cross-layer-any-w0"),
    ),
    Line(
        "Where nothing but attention acts, by one matrix whose eigenvalues but one are smaller than 1, depth makes "
        "tokens alike, and half of layer 1's values keep them apart.",
        ("resformer.smoothing", "resformer.smoothing-any-layers"),
    ),
    Line(
        "SVFormer keeps (L - 1) / (2 L) of the cache out, as printed; that longer contexts suit it because a value "
        "matrix grows is not so, as none does.",
        ("resformer.svformer-cache", "resformer.svformer-value-matrix"),
    ),
    Line(
        "Three printed formulas are not what is meant: NeuTRENO's, DenseFormer's and the importance of a token.  "
        "Losses, sinks and spectra are for trained models to decide, and small ones leave most of that open.",
        ("resformer.neutreno-eqn8", "resformer.eqn9-denseformer", "resformer.eqn11-sum", "resformer.loss"),
    ),
)

NOTATION = (
    Symbol("l, d", "l (tokens), d_model", "length of a sequence; width"),
    Symbol("n, m", "n, m", "a layer, and an earlier one"),
    Symbol("A_n", "A_n", "attention weights of layer n, rows that sum to one"),
    Symbol("Q_n, K_n, V_n", "q(n, h), k(n, h), v(n, h)", "queries, keys and values that layer n projects, of head h"),
    Symbol("U_n", "what a head puts out", "attention's output before its projection"),
    Symbol("lambda, of section 4.2", "first", "the weight of layer 1's values beside a layer's own"),
    Symbol("lambda, of Eqn. (8)", "`weight` of `neutreno`", "NeuTRENO's factor"),
    Symbol("J", "I, where Eqn. (8) is meant", "printed as a matrix of ones"),
    Symbol("a'", "`importance`", "a token's mean weight over queries, normed"),
    Symbol("e", "`entropy`", "of the importance: low where attention is concentrated"),
    Symbol("lambda_j, w_j", "`value_spectrum`", "eigenvalues and eigenvectors of the mean of v v^T"),
)

ANSWER = Answer(
    asks="Do layer 1's values, added to every layer's, stand in for attention across layers?",
    lines=LINES,
    figure="resformer-blocks",
    notation=NOTATION,
)
