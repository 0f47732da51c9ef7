"""SkipV1Former's appendix A, line by line: what stands where, in our words, and which ledger entries judge it.

Every numbered statement and equation, every displayed equation without a number, every step of the proofs and every
claim of the discussion, in the order of the text; before them what section 4 says of the theorem.  W* has mean W0, S is
X X^T, S_yx is Y X^T, P the d x d matrix that multiplies x_{n+1}.
"""

from __future__ import annotations

from experiments.ledger.overview import Index, Item

ITEMS = (
    Item(
        "section 4, Eqn. (1)",
        "A linear attention layer moves labels as a gradient step on W does.",
        ("skipv1.eqn1-sign",),
    ),
    Item(
        "section 4, Theorem 1",
        "At W0 = 0 SkipV1Former's least loss is below MHA's by a constant; appendix A states and proves it formally.",
        ("skipv1.theorem1-formal", "skipv1.gap", "skipv1.limit"),
    ),
    Item(
        "section 4, after Theorem 1",
        "SkipV1Former makes an uncompressed step, and equals an MHA whose embedding is wide enough for x and y.",
        ("skipv1.uncompressed-step", "toy.width", "toy.least-width"),
    ),
    # A.1: the task and the model
    Item("A.1, the examples", "y_i = W* x_i + noise, with one noise for each sequence.", ("skipv1.setting-noise",)),
    Item(
        "A.1, first display: the prompt E",
        "The prompt is d x (2n + 1): n pairs, then the query; all is Gaussian, W* of mean W0 and unit variance.",
        ("skipv1.eqns-5-6", "skipv1.prior-variance"),
    ),
    Item(
        "A.1, the simplified model",
        "Two layers of linear attention, two heads each, without residuals, suffice to show the difference.",
        ("skipv1.a2-residual", "toy.value-maps"),
    ),
    Item("A.1, the training", "Training uses the context's tokens only.", ("skipv1.training-tokens",)),
    Item(
        "Eqn. (2), with P and W_O below it",
        "A block sums two heads of linear attention over the context; W_O goes into W_V without loss.",
        ("skipv1.eqn2", "skipv1.assumption1"),
    ),
    Item("Eqn. (3)", "SkipV1Former's second head takes its values from E.", ("skipv1.eqn3-misprints", "skipv1.eqn2")),
    Item("Eqn. (4)", "The loss is the mean square of H E_out's last column less y_{n+1}.", ("skipv1.training-tokens",)),
    Item(
        "Assumption 1",
        "Layer 1 keeps every x_t, makes (A x_t ; B y_t) of y_t and (A x_{n+1} ; 0) of the query.",
        (
            "skipv1.assumption1",
            "skipv1.assumption1-mask",
            "skipv1.assumption1-query",
            "skipv1.assumption1-blocks",
            "toy.rotating-mha",
            "toy.positions-bound",
        ),
    ),
    Item(
        "after Assumption 1, on causality",
        "No causal mask is needed, as only labels copy, from the tokens before them.",
        ("skipv1.assumption1-query", "skipv1.a2-order"),
    ),
    Item(
        "after Assumption 1, the intuition",
        "MHA solves the compressed regression, SkipV1Former the original one.",
        ("skipv1.uncompressed-step", "skipv1.mha-infimum", "skipv1.skipv1-minimum"),
    ),
    Item(
        "Theorem 2",
        "For sigma_d(W0) > 2 sqrt(d) sigma and large d the minima differ by some c > 0 that no weight enters.",
        (
            "skipv1.w0",
            "skipv1.gap",
            "skipv1.fixed-compression",
            "skipv1.w0-heads",
            "skipv1.w0-equal-heads",
            "skipv1.w0-heads-needed",
            "skipv1.w0-enough-heads",
            "skipv1.mha-unattained",
            "skipv1.theorem1-formal",
        ),
    ),
    Item(
        "proof of Theorem 2, W^h, M^h and the display of G_{1,D}",
        "W^h = H W_V^h, M^h = W_K^T W_Q (A ; 0), and G sums x x^T + u u^T.",
        ("skipv1.eqns-5-6",),
    ),
    Item("Eqn. (5)", "MHA's loss is E|sum_h W^h G M^h x_{n+1} - y_{n+1}|^2.", ("skipv1.eqns-5-6",)),
    Item("Eqn. (6), with G_{2,D}^1 and G_{2,D}^2", "SkipV1Former's, with y u^T in head two.", ("skipv1.eqns-5-6",)),
    # Lemma 1
    Item(
        "Lemma 1",
        "The loss is C + E||P - W_D||^2, C > 0, W_D ridge regression of strength sigma^2.",
        ("skipv1.lemma1-ridge", "skipv1.lemma1-constant"),
    ),
    Item(
        "proof of Lemma 1, first display: W, G~, M",
        "The heads stacked; for SkipV1Former with two different G.",
        ("skipv1.lemma1-constant",),
    ),
    Item(
        "proof of Lemma 1, total expectation",
        "The loss is a mean over D and x_{n+1} of the mean over y_{n+1}.",
        ("skipv1.eqn7", "skipv1.lemma1-constant"),
    ),
    Item(
        "proof of Lemma 1, g(U) and its minimiser",
        "g is convex, so that a minimiser exists; any one is called W_D.",
        ("skipv1.lemma1-minimiser", "skipv1.eqn7"),
    ),
    Item("proof of Lemma 1, first-order condition", "The gradient of g is zero.", ("skipv1.eqn7",)),
    Item("Eqn. (7)", "So E[2 (U x - y) x^T (U - W_D)^T] is zero, for every U.", ("skipv1.eqn7",)),
    Item(
        "proof of Lemma 1, decomposition in three lines",
        "|y - P x|^2 splits into two squares and a cross term, which (7) removes.",
        ("skipv1.eqn7",),
    ),
    Item(
        "proof of Lemma 1, the two displays of L_k and C",
        "What is left of the loss, with C = E|y - W_D x|^2, which no weight enters.",
        ("skipv1.lemma1-constant",),
    ),
    Item(
        "proof of Lemma 1, last display",
        "x_{n+1} is standard normal, so E|(W_D - P) x|^2 is E||W_D - P||^2.",
        ("skipv1.lemma1-minimiser",),
    ),
    # Lemma 2
    Item(
        "before Lemma 2, the blocks",
        "W^h and M^h are split into d x a and d x (d - a) blocks.",
        ("skipv1.lemma2-blocks",),
    ),
    Item(
        "Lemma 2",
        "L_k = C + C_k + E||H_k - W_D||^2 with constants C_k > 0 and given H_1, H_2.",
        ("skipv1.lemma2-parity", "skipv1.lemma2-constants", "skipv1.lemma2-blocks", "skipv1.lemma2-h2"),
    ),
    Item("Eqn. (8)", "MHA's P written with X and Y.", ("skipv1.lemma2-blocks",)),
    Item("Eqn. (9)", "N_1(X), N_2(Y) and N_3(X, Y) of MHA.", ("skipv1.lemma2-blocks",)),
    Item("proof of Lemma 2, L_1 by (9)", "P = N_1 + N_2 + N_3.", ("skipv1.lemma2-blocks",)),
    Item(
        "proof of Lemma 2, the formula for W_D",
        "W_D = Y X^T (X X^T + sigma I)^-1 almost everywhere.",
        ("skipv1.lemma1-ridge", "skipv1.lemma2-ridge-formula"),
    ),
    Item(
        "proof of Lemma 2, parity",
        "W_D - N_3 is odd in Y and N_1 + N_2 even, so that their squares add up.",
        ("skipv1.lemma2-parity",),
    ),
    Item(
        "proof of Lemma 2, H_1 and C_1",
        "H_1 = N_3 and C_1 = E||N_1 + N_2||^2.",
        ("skipv1.lemma2-constants", "skipv1.lemma2-blocks"),
    ),
    Item("proof of Lemma 2, L_2", "The same for SkipV1Former.", ("skipv1.lemma2-parity", "skipv1.lemma2-h2")),
    Item(
        "Eqn. (10)",
        "N_1', N_2' and N_3' of SkipV1Former.",
        ("skipv1.eq10-even-part", "skipv1.lemma2-blocks", "skipv1.lemma2-h2"),
    ),
    Item(
        "proof of Lemma 2, H_2 and C_2",
        "H_2 = N_3' and C_2 = E||N_1' + N_2'||^2.",
        ("skipv1.lemma2-h2", "skipv1.lemma2-constants"),
    ),
    # Lemmas 3 and 4
    Item("before Eqn. (11), h(W~, M~)", "A class of functions linear in S_yx and S_xy.", ("skipv1.class-h",)),
    Item("Eqn. (11)", "Its distance to W_D.", ("skipv1.class-h", "skipv1.lemma4-constant")),
    Item(
        "Lemma 3",
        "E[X y_i y_i X^T] and E[X y_i (W_D)_i] are multiples t_1 and t_2 of the identity.",
        ("skipv1.lemma3-isotropy", "skipv1.lemma3-second-moment"),
    ),
    Item(
        "Lemma 3, second and third display",
        "lambda_i, the ratio of their traces, cancels one against the other.",
        ("skipv1.lemma3-second-moment", "skipv1.step-size"),
    ),
    Item(
        "Lemma 4",
        "The distance of h to W_D is C_3 > 0 and its distance to Lambda S_yx.",
        ("skipv1.lemma4-constant", "skipv1.step-size"),
    ),
    Item("proof of Lemma 4, the aim", "Both sides have one gradient.", ("skipv1.lemma4-gradients",)),
    Item("proof of Lemma 4, gradients in W~^1", "2 E[(h - W_D) M~^T G'], and likewise.", ("skipv1.lemma4-gradients",)),
    Item("Eqn. (12)", "E[W_D M~^T G'] = E[Lambda S_yx M~^T G'].", ("skipv1.lemma4-gradients",)),
    Item("Eqn. (13)", "Its block with S_xy.", ("skipv1.lemma4-gradients",)),
    Item("Eqn. (14)", "Its block with S_yx.", ("skipv1.lemma4-gradients",)),
    Item("proof of Lemma 4, traces for (13)", "Entry by entry, as a trace.", ("skipv1.lemma4-gradients",)),
    Item(
        "proof of Lemma 4, two displays for i != j",
        "Rows of Y are uncorrelated given X, so that both sides vanish.",
        ("skipv1.lemma4-gradients",),
    ),
    Item(
        "proof of Lemma 4, display for i = j",
        "Lemma 3's third display.",
        ("skipv1.lemma4-gradients", "skipv1.lemma3-second-moment"),
    ),
    Item("proof of Lemma 4, four displays for (14)", "Row by row, by transposing.", ("skipv1.lemma4-gradients",)),
    Item("proof of Lemma 4, gradient in M~^1", "The same for G' W~^T W_D.", ("skipv1.lemma4-gradients",)),
    Item(
        "proof of Lemma 4, last display",
        "At W~ = 0, C_3 = E||W_D||^2 - E||Lambda S_yx||^2.",
        ("skipv1.lemma4-constant",),
    ),
    # The theorem
    Item("proof of the theorem, first display", "min E||W_D - N_3'||^2 >= min L~.", ("skipv1.class-h",)),
    Item(
        "proof of the theorem, the weights",
        "A = I, B = 0, W^1 = -Lambda/2, W^2 = Lambda, M^h = I make N_1' = N_2' = 0, N_3' = Lambda S_yx.",
        ("skipv1.eq10-even-part", "skipv1.skipv1-minimum"),
    ),
    Item(
        "proof of the theorem, min L_2",
        "min L_2 = C + C_3.",
        ("skipv1.lemma4-constant", "skipv1.lemma2-constants", "skipv1.skipv1-minimum"),
    ),
    Item(
        "proof of the theorem, a = d",
        "B is empty, and L_1 >= C + E||W_D||^2 = C + C_3 + E||Lambda S_yx||^2.",
        ("skipv1.mha-infimum", "skipv1.lemma4-constant", "skipv1.paper-bound"),
    ),
    Item(
        "proof of the theorem, a < d: rank",
        "N_3 has rank at most a, and is a special case of h.",
        ("skipv1.rank-argument", "skipv1.class-h", "skipv1.assumption1-query"),
    ),
    Item(
        "proof of the theorem, a < d: the two lines",
        "So E||W_D - N_3|| is C_3 + E||Lambda S_yx - N_3||, at least C_3 + c.",
        ("skipv1.missing-squares", "skipv1.paper-bound"),
    ),
    Item(
        "proof of the theorem, c",
        "c = E||Lambda S_yx - R_a(Lambda S_yx)||^2, which no weight enters.",
        ("skipv1.paper-bound", "skipv1.final-display"),
    ),
    Item(
        "proof of the theorem, conclusion",
        "L_2 >= C + C_3 + c = L_2' + c, as C_2 > 0.",
        ("skipv1.final-display", "skipv1.lemma2-constants"),
    ),
    Item(
        "proof of the theorem, numerator of lambda_i in two lines",
        "It splits into a part of W and a part of the noise.",
        ("skipv1.lemma3-second-moment",),
    ),
    Item(
        "proof of the theorem, two displays on S (S + sigma^2)^-1 S",
        "It is at least S - sigma^2 I, of mean (d - sigma^2) I.",
        ("skipv1.ridge-inequality",),
    ),
    Item(
        "proof of the theorem, lambda_i is not zero",
        "Both parts being non-negative, |lambda_i| > 0 and Lambda is regular.",
        ("skipv1.ridge-inequality", "skipv1.step-size", "skipv1.lemma3-second-moment"),
    ),
    Item(
        "proof of the theorem, Lambda taken out",
        "The best approximation of Lambda S_yx is no nearer than min |lambda_i| times that of S_yx.",
        ("skipv1.lambda-factor",),
    ),
    Item(
        "proof of the theorem, Eckart-Young",
        "The square is at least |sum of the singular values beyond a|^2, and sigma_d^2.",
        ("skipv1.eckart-young",),
    ),
    Item("proof of the theorem, Weyl", "sigma_d(S_yx) and sigma_d(W* S) differ by ||noise X||_2.", ("skipv1.weyl",)),
    Item("proof of the theorem, products", "sigma_d(W* S) >= sigma_d(W*) sigma_d(X)^2.", ("skipv1.singular-products",)),
    Item(
        "proof of the theorem, Edelman",
        "sigma_d(X) is of order 1/sqrt(d), so sigma_d(W* S) is of order sigma_d(W*)/d, with high probability.",
        ("skipv1.edelman",),
    ),
    Item(
        "proof of the theorem, the spread of W*",
        "W* has spread sigma, so that the hypothesis on W0 applies.",
        ("skipv1.prior-variance",),
    ),
    Item("proof of the theorem, last display", "E[sigma_d(W* S) - ||noise X||_2] > 0.", ("skipv1.noise-outweighs",)),
    Item(
        "proof of the theorem, c > 0",
        "All this shows that c > 0.",
        ("skipv1.c-positive", "skipv1.noise-outweighs", "skipv1.paper-bound"),
    ),
    # A.2
    Item(
        "A.2, on auto-regression",
        "The analysis centres on auto-regressive tasks; on others SkipV1Former fails to help (appendix C.6).",
        ("skipv1.a2-order",),
    ),
    Item(
        "A.2, on the first layer",
        "Other work finds that layer 1 prepares the examples and later layers optimise.",
        ("skipv1.a2-copying",),
    ),
    Item(
        "A.2, on attention concentration",
        "ResFormer's own explanation may or may not be connected; it too sees information lost in layer 1.",
        ("skipv1.a2-concentration", "toy.resformer-head"),
    ),
    Item(
        "A.2, first clue: linear copying",
        "The first layer of deep Transformers with residuals copies linearly.",
        ("skipv1.a2-copying", "skipv1.assumption1"),
    ),
    Item(
        "A.2, second clue: one layer",
        "With and without residuals one layer makes a gradient step, so leaving them out does no harm.",
        ("skipv1.a2-residual",),
    ),
    Item(
        "A.2, deeper models",
        "With one gradient step a layer the same proof extends to deeper models.",
        ("skipv1.a2-deeper", "skipv1.any-architecture"),
    ),
    Item(
        "A.2, the probes of appendix C.1",
        "Linear probes on deeper models support the analysis.",
        ("skipv1.a2-copying", "skipv1.a2-deeper"),
    ),
)

INDEX = Index("SkipV1Former's appendix A", ITEMS)
