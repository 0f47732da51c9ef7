"""Ledger entries on SkipV1Former's Eqn. (1) and Theorem 1 (section 4), its task and its training (appendix A.1)."""

from __future__ import annotations

from experiments.claims import skipv1_setting_checks as check
from experiments.claims.ledger import Claim, Evidence
from experiments.claims.skipv1_theorem import PAPER, W0_ZERO

CLAIMS = (
    Claim(
        id="skipv1.eqn1-sign",
        paper=PAPER,
        place="section 4, Eqn. (1)",
        statement="One step of gradient descent on W takes y_j to y_j - eta grad L(W) x_j, and a linear attention "
        "layer approximates that.",
        assumes="tokens (x ; y) of width 2d, W kept",
        verdict="corrected",
        correction="A step leaves the residuals y_j - (W - eta grad L) x_j, as if y_j had become y_j + eta grad L "
        "x_j: the printed sign climbs.  At d = N = 1, W = 0, x = y = 1, eta = 1/2, grad L = -1: the residual is 1/2 "
        "after a step, and the printed label 3/2.  The minus is right for the query alone: with W = 0 and an empty "
        "label it makes the prediction.  The layer does it exactly, with no approximation.",
        evidence=(
            Evidence(
                "numeric",
                "the loss after a step is the old W's loss on the new labels; exact, the gradient by differentiation",
                check.step_moves_labels,
                states=1,
                control=-1,
                wrong="the printed sign",
            ),
            Evidence(
                "numeric",
                "a linear attention layer with values (0 ; W x - y) makes these labels; exact, d = 1..3",
                check.layer_moves_labels,
                states=1,
                control=-1,
                wrong="the printed sign",
            ),
            Evidence(
                "numeric",
                "at the query, from W = 0 and an empty label, the printed sign makes the prediction; exact",
                check.query_reads_prediction,
                states=-1,
                control=1,
                wrong="the sign of the context's labels",
            ),
        ),
    ),
    Claim(
        id="skipv1.theorem1-formal",
        paper=PAPER,
        place="section 4, Theorem 1, against appendix A.1, Theorem 2",
        statement="Theorem 2 is the formal statement of Theorem 1.",
        assumes="none",
        verdict="refuted",
        correction="Theorem 1 has W ~ N(0, I), that is W0 = 0.  Theorem 2 demands sigma_d(W0) > 2 sqrt(d) sigma, "
        "which W0 = 0 never satisfies, not even at sigma = 0, so it says nothing of Theorem 1's task.  Theorem 1 is "
        "true (skipv1.gap), for every d and n, with minima over A and B too; it is Theorem 2's lemmas that need W0 = "
        "0.  (Its proof is headed proof of Theorem 1.  The covariance is printed I_d^2 there; W has d^2 entries, and "
        "I_{d^2} is meant.)",
        evidence=(
            Evidence(
                "numeric",
                "the hypothesis is false at W0 = 0 for every d and sigma, and not for every W0",
                check.hypothesis_excludes_zero,
                states=True,
                control=False,
                wrong="a weak inequality, which would admit W0 = 0 at sigma = 0",
            ),
            Evidence(
                "numeric",
                "Theorem 1's task at d = 1: MHA predicts zero at best, SkipV1Former gains rho; exact",
                check.gap_at_one_dimension,
                states=1,
                control=0,
                wrong="no gap at W0 = 0",
            ),
        ),
    ),
    Claim(
        id="skipv1.uncompressed-step",
        paper=PAPER,
        place="section 4, after Theorem 1; appendix A.1, after Assumption 1",
        statement="SkipV1Former realises one step of gradient descent on the uncompressed pairs.",
        assumes=W0_ZERO,
        verdict="verified",
        correction="True at rank a = d, with eta = n lambda in Eqn. (1), and no better step exists.  At that rank B "
        "is empty: the token that should hold a pair holds x_t alone.  At a < d the skip head reads the raw y_t, but "
        "x_t through A still: a d entries of W* out of d^2 (skipv1.skipv1-minimum).",
        evidence=(
            Evidence(
                "numeric",
                "the minimum is the loss of one step of size lambda, by the moments of its spectrum; exact",
                check.best_loss_is_one_step,
                states=1,
                control=2,
                wrong="twice the step",
            ),
            Evidence(
                "numeric",
                "from tokens: the prediction is that of eta grad L(0), eta = n lambda; exact, whole-number prompts",
                check.best_prediction_is_one_step,
                states=lambda n: n,
                control=lambda n: 1,
                wrong="eta = lambda, without the 1/N of Eqn. (1)",
            ),
        ),
    ),
    Claim(
        id="skipv1.setting-noise",
        paper=PAPER,
        place="appendix A.1, the task: epsilon_i is the additive Gaussian noise for each sequence",
        statement="There is one noise vector for each sequence.",
        assumes="none",
        verdict="corrected",
        correction="There is one for each pair, independent, as the formula N(0, sigma^2 I_d) for epsilon_i says.  "
        "With one for each sequence (y_1 - y_2)/(x_1 - x_2) is W* itself at d = 1, and ridge regression (Lemma 1) is "
        "not the posterior mean.",
        evidence=(
            Evidence(
                "numeric",
                "with one noise for the sequence two pairs reveal W*; d = 1, exact",
                check.two_pairs_reveal_w,
                states=1,
                control=2,
                wrong="one for each pair: they do not",
            ),
            Evidence(
                "symbolic",
                "ridge regression is the posterior mean, d = 1, n = 2, by conditioning",
                check.ridge_is_posterior_mean,
                states=2,
                control=1,
                wrong="one noise for the sequence",
            ),
        ),
    ),
    Claim(
        id="skipv1.training-tokens",
        paper=PAPER,
        place="appendix A.1, before Eqn. (2), against Eqn. (4)",
        statement="The model is trained using only the context (x_1, y_1, ..., y_n).",
        assumes="none",
        verdict="corrected",
        correction="The loss of Eqn. (4) needs x_{n+1} and y_{n+1} too.  What holds is that attention sums over the "
        "context only, by P.  Trained to predict the context's own y_1, the best step would be another: (3 + "
        "sigma^2)/(15 + 3 sigma^2) at d = n = 1, not 1/(3 + sigma^2).  (Eqn. (4) writes E_out for both models and "
        "Eqn. (3) defines it for SkipV1Former; for MHA it is TF_2(TF_1(E)).)",
        evidence=(
            Evidence(
                "numeric",
                "what the loss of a prompt changes with; from tokens, exact",
                check.loss_depends_on,
                states=frozenset({"context", "x_{n+1}", "y_{n+1}"}),
                control=frozenset({"context"}),
                wrong="the context only",
            ),
            Evidence(
                "symbolic",
                "the best step at predicting y_1 from a prompt that holds it, by pairing",
                check.step_from_own_label,
                states=lambda s2: (3 + s2) / (15 + 3 * s2),
                control=lambda s2: 1 / (3 + s2),
                wrong="lambda of Eqn. (4)",
            ),
        ),
    ),
)
