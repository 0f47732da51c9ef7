"""Claims on the task of section 4 and appendix A.1: its noise and training tokens, and its gradient step."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from theory.plans.heads import MHA, SKIPV1
from theory.prompts import regression, setting
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array
from theory.skipv1 import gap as skipv1
from theory.skipv1.gap_weights import skipv1_weights
from theory.skipv1.paper import PAPER
from theory.toy.exact import RATIONAL_TASKS, exact_loss, random_weights, rational
from theory.toy.population import Weights
from theory.toy.tokens import Prompt, draw, draw_weights, output, whole

W0_ZERO = "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; Assumption 1"
ANY_W0 = "W* ~ N(W0, I), x ~ N(0, I), Gaussian noise; Assumption 1; minima over A, B, K and W"


THEOREM1_FORMAL = Claim(
    "skipv1.theorem1-formal",
    PAPER.name,
    place="section 4, Theorem 1, against appendix A.1, Theorem 2",
    statement="Theorem 2 is the formal statement of Theorem 1.",
    assumes="none",
    verdict="refuted",
    correction="Theorem 1 has W ~ N(0, I), that is W0 = 0.  Theorem 2 demands sigma_d(W0) > 2 sqrt(d) sigma, "
    "which W0 = 0 never satisfies, not even at sigma = 0, so it does not cover Theorem 1's task.  Theorem 1 is "
    "true (skipv1.gap), for every d and n, with minima over A and B too; it is Theorem 2's lemmas that need W0 = "
    "0.  (Its proof is headed proof of Theorem 1.  The covariance is printed I_d^2 there; W has d^2 entries, and "
    "I_{d^2} is meant.)",
    proof=skipv1,
    uses=("skipv1.gap", "skipv1.lemma1-ridge", "skipv1.lemma2-parity", "skipv1.lemma3-isotropy"),
)


@THEOREM1_FORMAL.check(
    "the hypothesis is false at W0 = 0 for every d and sigma, and not for every W0",
    states=True,
    control=False,
    wrong="a weak inequality, which would admit W0 = 0 at sigma = 0",
)
def hypothesis_excludes_zero(strict: bool) -> bool:
    """sigma_d(W0) > 2 sqrt(d) sigma, W0 = w I, d = k^2: excludes w = 0 and w = 2 k sigma, and nothing above."""

    def holds(w: Fraction, d: int, sigma: Fraction) -> bool:
        return w**2 >= 4 * d * sigma**2 and not (strict and w**2 == 4 * d * sigma**2)

    sizes = [(k, Fraction(s, 3)) for k in (1, 2, 3) for s in range(4)]
    return all(
        not holds(Fraction(0), k**2, s) and not holds(2 * k * s, k**2, s) and holds(2 * k * s + Fraction(1, 9), k**2, s)
        for k, s in sizes
    )


@THEOREM1_FORMAL.check(
    "Theorem 1's task at d = 1: MHA predicts zero at best, SkipV1Former gains rho; exact",
    states=1,
    control=0,
    wrong="no gap at W0 = 0",
    kind="exact",
)
def gap_at_one_dimension(share: int) -> bool:
    """d = 1, W0 = 0: no MHA weights beat predicting zero, and SkipV1Former does so by share rho."""
    rng = np.random.default_rng(21)
    for n, sigma in ((1, Fraction(0)), (3, Fraction(1, 2)), (2, Fraction(2))):
        mha, skip = exact_loss(MHA, 1, n, sigma), exact_loss(SKIPV1, 1, n, sigma)
        if any(mha.value(random_weights(rng, 2, a, 1)) < mha.zero_loss for a in (0, 1) for _ in range(10)):
            return False
        best = skip.value(skipv1_weights(1, n, sigma, 1))
        if mha.zero_loss - best != share * setting.signal_share(1, n, sigma):
            return False
    return True


SETTING_NOISE = Claim(
    "skipv1.setting-noise",
    PAPER.name,
    place="appendix A.1, the task: epsilon_i is the additive Gaussian noise for each sequence",
    statement="There is one noise vector for each sequence.",
    assumes="none",
    verdict="corrected",
    correction="There is one for each pair, independent, as the formula N(0, sigma^2 I_d) for epsilon_i says.  "
    "With one for each sequence (y_1 - y_2)/(x_1 - x_2) is W* itself at d = 1, and ridge regression (Lemma 1) is "
    "not the posterior mean.",
)


@SETTING_NOISE.check(
    "with one noise for the sequence two pairs reveal W*; d = 1, exact",
    states=1,
    control=2,
    wrong="one for each pair: they do not",
    kind="exact",
)
def two_pairs_reveal_w(noises: int) -> bool:
    """d = 1: (y_1 - y_2)/(x_1 - x_2) = W* on whole numbers, with one noise for the sequence or two for its tokens."""
    rng = np.random.default_rng(22)
    for _ in range(20):
        w, x, shift, *noise = (Fraction(int(v)) for v in rng.integers(1, 9, 5))
        first, second = noise if noises == 2 else (noise[0], noise[0])
        if (w * x + first - w * (x + shift) - second) / -shift != w:
            return False
    return True


@SETTING_NOISE.check(
    "ridge regression is the posterior mean, d = 1, n = 2, by conditioning",
    states=2,
    control=1,
    wrong="one noise for the sequence",
    kind="exact",
)
def ridge_is_posterior_mean(noises: int) -> bool:
    """d = 1, n = 2: the conditional mean of W* given both pairs, from the covariance of (W*, y_1, y_2)."""
    x1, x2, y1, y2, s = sympy.symbols("x1 x2 y1 y2 sigma", positive=True)
    x, y = sympy.Matrix([x1, x2]), sympy.Matrix([y1, y2])
    noise = s**2 * (sympy.eye(2) if noises == 2 else sympy.ones(2, 2))
    mean = (x.T * (x * x.T + noise).inv() * y)[0]
    return bool(sympy.simplify(mean - (x.T * y)[0] / ((x.T * x)[0] + s**2)) == 0)


def step_from_own_label(step: Callable[[Any], Any]) -> bool:
    """d = n = 1, P = mu S_yx: the mu that is best at predicting y_1 from a prompt that holds it, by pairing.

    Its loss is E (y - mu y x^2)^2, least at E[y^2 x^2] / E[y^2 x^4].  Given x, y^2 has mean x^2 + sigma^2, so that this
    is (E x^4 + sigma^2 E x^2) / (E x^6 + sigma^2 E x^4) = (3 + sigma^2) / (15 + 3 sigma^2).
    """
    engine, xx, yy = PromptEngine(1), ("xx", 0, 0), ("yy", 0, 0)
    for sigma in (Fraction(0), Fraction(1, 2), Fraction(2)):
        values = [(engine.n, 1), (engine.sigma, sigma), (engine.w0[0][0], 0)]
        top, bottom = rational(engine.expect(yy, xx), values), rational(engine.expect(yy, xx, xx), values)
        if top != step(sigma**2) * bottom:
            return False
    return True


TRAINING_TOKENS = Claim(
    "skipv1.training-tokens",
    PAPER.name,
    place="appendix A.1, before Eqn. (2), against Eqn. (4)",
    statement="The model is trained using only the context (x_1, y_1, ..., y_n).",
    assumes="none",
    verdict="corrected",
    correction="The loss of Eqn. (4) needs x_{n+1} and y_{n+1} too.  What holds is that attention sums over the "
    "context only, by P.  Trained to predict the context's own y_1, the best step would be another: (3 + "
    "sigma^2)/(15 + 3 sigma^2) at d = n = 1, not 1/(3 + sigma^2).  (Eqn. (4) writes E_out for both models and "
    "Eqn. (3) defines it for SkipV1Former; for MHA it is TF_2(TF_1(E)).)",
    proof=step_from_own_label,
    uses=("skipv1.eqn2", "skipv1.step-size"),
    unjudged={rational: "both sides of an equation are its values"},
)


@TRAINING_TOKENS.check(
    "what the loss of a prompt changes with; from tokens, exact",
    states=frozenset({"context", "x_{n+1}", "y_{n+1}"}),
    control=frozenset({"context"}),
    wrong="the context only",
    kind="exact",
)
def loss_depends_on(names: frozenset[str]) -> bool:
    """Check what changes the loss of one prompt: its context, the query x_{n+1}, the label y_{n+1}."""
    rng = np.random.default_rng(23)
    d, n = 2, 3
    parts: set[str] = set()
    for _ in range(5):
        w, p, label = draw_weights(rng, 1, d), draw(rng, d, n), whole(rng, d, 1)
        before = _sample_loss(p, w, label)
        losses = {
            "context": _sample_loss(p.with_(y=p.y + 1), w, label),
            "x_{n+1}": _sample_loss(p.with_(query=p.query + 1), w, label),
            "y_{n+1}": _sample_loss(p, w, label + 1),
        }
        parts |= {k for k, v in losses.items() if v != before}
    return parts == names


def _sample_loss(p: Prompt, w: Weights, label: Array) -> int:
    return ((output(p, w, MHA) - label) ** 2).sum()


TRAINING_TOKENS.check(
    "the best step at predicting y_1 from a prompt that holds it, by pairing",
    states=lambda s2: (3 + s2) / (15 + 3 * s2),
    control=lambda s2: 1 / (3 + s2),
    wrong="lambda of Eqn. (4)",
    kind="exact",
)(step_from_own_label)


STEP = Fraction(1, 7)


def least_squares(w: Array, x: Array, y: Array) -> Any:
    """Return L(W) of Eqn. (1)."""
    return ((w @ x - y) ** 2).sum() / Fraction(2 * x.shape[1])


def gradient(w: Array, x: Array, y: Array) -> Array:
    """Return the gradient of `least_squares` at W, by differentiating it: (d, d).

    What a step does to the labels.  It leaves y_j - (W - eta grad L) x_j = (y_j + eta grad L x_j) - W x_j, which are
    the residuals of W itself on the labels y_j + eta grad L x_j.

    What a layer does.  grad L = (1/N) sum_i (W x_i - y_i) x_i^T, so that linear attention with values
    (0 ; W x_i - y_i) eta / N and the scores x_i^T x_j adds eta grad L x_j to y_j, exactly.

    What the query reads.  From W = 0 the step's prediction is -eta grad L(0) x: an empty label with the printed sign.
    """
    symbols = np.array([sympy.Symbol(f"w_{i}") for i in range(w.size)], dtype=object)
    loss = least_squares(symbols.reshape(w.shape), x, y)
    at = dict(zip(symbols, (int(v) for v in w.ravel()), strict=True))
    values = [sympy.diff(loss, s).subs(at) for s in symbols]
    return np.array([Fraction(int(v.p), int(v.q)) for v in values], dtype=object).reshape(w.shape)


EQN1_SIGN = Claim(
    "skipv1.eqn1-sign",
    PAPER.name,
    place="section 4, Eqn. (1)",
    statement="One step of gradient descent on W takes y_j to y_j - eta grad L(W) x_j, and a linear attention "
    "layer approximates that.",
    assumes="tokens (x ; y) of width 2d, W kept",
    verdict="corrected",
    correction="A step leaves the residuals y_j - (W - eta grad L) x_j, as if y_j had become y_j + eta grad L "
    "x_j: the printed sign climbs.  At d = N = 1, W = 0, x = y = 1, eta = 1/2, grad L = -1: the residual is 1/2 "
    "after a step, and the printed label 3/2.  The minus is right for the query alone: with W = 0 and an empty "
    "label it makes the prediction.  The layer does it exactly, with no approximation.",
    proof=gradient,
)


def _regressions() -> list[tuple[Array, Prompt]]:
    rng = np.random.default_rng(20)
    return [(whole(rng, d, d), draw(rng, d, n)) for d, n in ((1, 1), (1, 3), (2, 2), (3, 4))]


@EQN1_SIGN.check(
    "the loss after a step is the old W's loss on the new labels; exact, the gradient by differentiation",
    states=1,
    control=-1,
    wrong="the printed sign",
    kind="exact",
)
def step_moves_labels(sign: int) -> bool:
    """The loss of W after a step is the loss of W on the labels y_j + sign eta grad L x_j."""
    return all(
        least_squares(w - STEP * g, p.x, p.y) == least_squares(w, p.x, p.y + sign * STEP * g @ p.x)
        for w, p in _regressions()
        for g in [gradient(w, p.x, p.y)]
    )


@EQN1_SIGN.check(
    "a linear attention layer with values (0 ; W x - y) makes these labels; exact, d = 1..3",
    states=1,
    control=-1,
    wrong="the printed sign",
    kind="exact",
)
def layer_moves_labels(sign: int) -> bool:
    """A linear attention layer on tokens (x ; y), values (0 ; W x - y) eta/n, adds sign eta grad L x_j to y_j."""
    for w, p in _regressions():
        d, n = p.x.shape
        eye, zero = np.eye(d, dtype=object), np.zeros((d, d), dtype=object)
        tokens = np.concatenate([p.x, p.y])
        value, key = np.block([[zero, zero], [w, -eye]]), np.block([[eye, zero], [zero, zero]])
        after = tokens + STEP / n * (value @ tokens) @ (tokens.T @ key @ tokens)
        expected = p.y + sign * STEP * gradient(w, p.x, p.y) @ p.x
        if (after != np.concatenate([p.x, expected])).any():
            return False
    return True


@EQN1_SIGN.check(
    "at the query, from W = 0 and an empty label, the printed sign makes the prediction; exact",
    states=-1,
    control=1,
    wrong="the sign of the context's labels",
    kind="exact",
)
def query_reads_prediction(sign: int) -> bool:
    """Check that from W = 0 and an empty label, sign eta grad L(0) x_{n+1} is (eta/n) sum_i y_i x_i^T x_{n+1}."""
    return all(
        (sign * STEP * gradient(0 * w, p.x, p.y) @ p.query == STEP / p.x.shape[1] * p.y @ p.x.T @ p.query).all()
        for w, p in _regressions()
    )


UNCOMPRESSED_STEP = Claim(
    "skipv1.uncompressed-step",
    PAPER.name,
    place="section 4, after Theorem 1; appendix A.1, after Assumption 1",
    statement="SkipV1Former realises one step of gradient descent on the uncompressed pairs.",
    assumes=W0_ZERO,
    verdict="verified",
    correction="True at rank a = d, with eta = n lambda in Eqn. (1), and no better step exists.  At that rank B "
    "is empty: the token that should hold a pair holds x_t alone.  At a < d the skip head reads the raw y_t, but "
    "x_t through A still: a d entries of W* out of d^2 (skipv1.skipv1-minimum).",
    proof=skipv1_weights,
    uses=("skipv1.eqn1-sign", "skipv1.skipv1-minimum"),
)


@UNCOMPRESSED_STEP.check(
    "the minimum is the loss of one step of size lambda, by the moments of its spectrum; exact",
    states=1,
    control=2,
    wrong="twice the step",
    kind="exact",
)
def best_loss_is_one_step(factor: int) -> bool:
    """SkipV1Former's optimum is the loss of one step of factor lambda on the uncompressed pairs."""
    return all(
        exact_loss(SKIPV1, d, n, sigma).value(skipv1_weights(d, n, sigma, d))
        == regression.after_steps(d, n, sigma, count=1, eta=factor * setting.signal_share(d, n, sigma) / n)
        for d, n, sigma in RATIONAL_TASKS
    )


@UNCOMPRESSED_STEP.check(
    "from tokens: the prediction is that of eta grad L(0), eta = n lambda; exact, whole-number prompts",
    states=lambda n: n,
    control=lambda n: 1,
    wrong="eta = lambda, without the 1/N of Eqn. (1)",
    kind="exact",
)
def best_prediction_is_one_step(scale: Callable[[int], int]) -> bool:
    """Check from tokens that it predicts (0 - eta grad L(0)) x_{n+1}, eta = scale(n) lambda; whole-number prompts."""
    rng = np.random.default_rng(33)
    for d, n, sigma in RATIONAL_TASKS:
        p, step = draw(rng, d, n), setting.signal_share(d, n, sigma) / n
        predicted = output(p, skipv1_weights(d, n, sigma, d), SKIPV1)
        if (predicted != -scale(n) * step * gradient(np.zeros((d, d), dtype=object), p.x, p.y) @ p.query).any():
            return False
    return True
