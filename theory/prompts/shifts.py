"""The signal that a step learned on one task explains on another: longer prompts, other noise, inputs, W0, covariances.

Setting.  Tasks as in `theory.prompts.preconditioned`.  The optima of the two-layer toys predict P x with
    P = Q S_yx M,
Q an orthogonal projection on b outputs, M: d x d of rank a; trained on the isotropic task (d, n, sigma), M = lambda
times a projection on a inputs, lambda = 1 / (n + d + 1 + sigma^2).  SkipV1Former, ResFormer, SVFormer have a = b = d,
vanilla a = min(floor(m/2), d) and b = min(ceil(m/2), d) at width m, or the other way round (`theory.toy.width`).
Weights that approach such an optimum approach this P in mean square under every law of x with finite fourth moments, as
what they leave beside it is a matrix that shrinks times second moments of the context.  So P is what optima do
elsewhere.

Theorem.  On a task of n' pairs, noise sigma', covariance Sigma of x, mean W0 and prior Psi (x) Gamma, P loses
    L_0 - 2 n' tr(M Sigma Omega_Q Sigma) + tr(M Sigma M^T A_Q),
    Omega_Q = E[W*^T Q W*] = tr(Q Psi) Gamma + W0^T Q W0,      A_Q = E[S_xx Omega_Q S_xx] + n' tr(Q) sigma'^2 Sigma.
Proof.  E ||(P - W*) Sigma^(1/2)||^2 = E ||W* Sigma^(1/2)||^2 - 2 E tr(P Sigma W*^T) + E tr(P Sigma P^T).  Of S_yx =
W* S_xx + noise X^T the noise drops out of the second term, where E S_xx = n' Sigma, and the third is
tr(M Sigma M^T E[S_yx^T Q S_yx]).                                                                                QED

Isotropic tests, x with independent entries of excess kurtosis kappa or, as kappa = -2, on the sphere |x|^2 = d: with
W0 = 0 that is a share of E ||W*||^2
    (a b / d^2) [2 n' mu - n' mu^2 (n' + d + 1 + kappa + sigma'^2)],        mu = lambda (`share_elsewhere`),
which at the task trained on is (a b / d^2) rho.  It falls below zero from n' + d + 1 + kappa + sigma'^2 > 2 / lambda
on: with kappa = 0 and the noise as it was, from n' > 2 n + d + 1 + sigma^2 on.  Where attention takes means over the
prompt, mu = lambda n / n'; then longer prompts help, or make no difference if d = 1, kappa = -2 and sigma' = 0.  The
bracket is the same for all plans: whatever the shift of this kind, the order of the plans stays as it was, as long as
the share is positive, and turns round where it is negative.

Orientation.  Trained on an isotropic task, vanilla may end with any projections, Q and the one in M independent and
uniform, say.  On average, for Pi uniform of rank a and symmetric X,
    E Pi X Pi = p X + q tr(X) I,    q = a (d - a) / (d (d + 2) (d - 1)),    p = a (a + 2) / (d (d + 2)) - q,
so that the loss above, linear in Q, has the mean that `on_average` gives.
Proof.  By invariance E Pi X Pi is of this form.  Its trace is a / d tr X = p tr X + q d tr X, and at X = e e^T
e^T E[Pi X Pi] e = E (e^T Pi e)^2 = a (a + 2) / (d (d + 2)) = p + q, a Beta variable's.                              QED
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from theory.errors import BadInput, InvalidSize, check_sizes
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.setting import Number


def learned_step(d: int, n: int, sigma: Number, *, test_n: int | None = None) -> Any:
    """Return lambda = 1 / (n + d + 1 + sigma^2), the step that training finds; exact if sigma is.

    With test_n it is lambda n / test_n, for attention that takes means.  Raises InvalidSize.
    """
    check_sizes(d, n, sigma)
    step = 1 / (n + d + 1 + sigma**2)
    if test_n is None:
        return step
    check_sizes(d, test_n, sigma)
    return step * n / test_n


def share_elsewhere(
    d: int, n: int, sigma: Number, step: Number, *, entries: int | None = None, kurtosis: Number = 0
) -> Any:
    """Return the share of E ||W*||^2 that P = step times `entries` (default: d^2) of S_yx explains on the test's task.

    n, sigma, kurtosis: the test's, kurtosis -2 the sphere's too; W0 = 0.  Below zero where P does harm.  Raises
    InvalidSize, and BadInput for a kurtosis below -2.
    """
    check_sizes(d, n, sigma)
    entries = d**2 if entries is None else entries
    if not 0 <= entries <= d**2:
        raise InvalidSize(f"entries must be from 0 to d^2 = {d**2}, got {entries}")
    if kurtosis < -2:
        raise BadInput(f"an excess kurtosis is at least -2, got {kurtosis}")
    explained = 2 * n * step - n * step**2 * (n + d + 1 + kurtosis + sigma**2)
    return explained * entries / d**2


def loss_elsewhere(moments: PromptMoments, rows: Array, columns: Array, *, sphere: bool = False) -> Any:
    """Return the loss of P = Q S_yx M on a task; exact if all are.

    rows: Q, a projection, columns: M, (d, d) each.  sphere: x is Sigma^(1/2) times a uniform vector of length sqrt(d)
    instead of a normal one.  Raises BadInput for a kurtosis beside it.
    """
    signal, power = _signal_and_power(moments, rows, sphere=sphere)
    weighted = columns @ moments.covariance
    return moments.zero_loss - 2 * moments.n * (columns * signal.T).sum() + (weighted * (power @ columns)).sum()


def on_average(moments: PromptMoments, step: Number, outputs: int, inputs: int, *, sphere: bool = False) -> Any:
    """Return the mean loss of P = step Q S_yx Pi over independent uniform projections Q and Pi.

    Their ranks are `outputs` and `inputs`.  Exact if the task and the step are.  Raises InvalidSize for ranks that are
    not from 0 to d, and as `loss_elsewhere`.
    """
    d = moments.d
    for rank in (outputs, inputs):
        check_sizes(d, 1, 0, rank)
    exact = moments.covariance.dtype.hasobject
    one = Fraction(1) if exact else 1.0
    eye = np.eye(d, dtype=moments.covariance.dtype)
    signal, power = _signal_and_power(moments, eye, sphere=sphere)
    part = one * outputs / d
    q = one * inputs * (d - inputs) / (d * (d + 2) * (d - 1)) if d > 1 else 0 * one
    p = one * inputs * (inputs + 2) / (d * (d + 2)) - q
    inner = p * moments.covariance + q * moments.covariance.trace() * eye
    linear = one * inputs / d * signal.trace()
    return moments.zero_loss - part * (2 * moments.n * step * linear - step**2 * (inner * power).sum())


def share_of(moments: PromptMoments, loss: Number) -> Any:
    """Return (L_0 - loss) / E ||W* Sigma^(1/2)||^2, the share of the test's signal that a loss explains."""
    return (moments.zero_loss - loss) / moments.prior_power


def _signal_and_power(moments: PromptMoments, rows: Array, *, sphere: bool) -> tuple[Array, Array]:
    """Return Sigma Omega_Q Sigma and A_Q."""
    of_x, trace = moments.covariance, (rows * moments.prior_rows).sum()
    omega = moments.prior_columns * trace + moments.w0.T @ rows @ moments.w0
    noise = moments.n * rows.trace() * moments.sigma**2
    return of_x @ omega @ of_x, _of_inputs(moments, omega, sphere=sphere) + of_x * noise


def _of_inputs(moments: PromptMoments, omega: Array, *, sphere: bool) -> Array:
    """Return E[S_xx Omega S_xx] = n (n-1) Sigma Omega Sigma + n E[x x^T Omega x x^T]."""
    d, n = moments.d, moments.n
    if not sphere:
        return moments.sandwich(np.pad(omega, (0, d)))[:d, :d]
    if moments.kurtosis is not None:
        raise BadInput("inputs on the sphere have no independent entries, whose kurtosis could be given")
    of_x, one = moments.covariance, Fraction(1) if moments.covariance.dtype.hasobject else 1.0
    fourth = 2 * of_x @ omega @ of_x + (of_x * omega).sum() * of_x
    return n * (n - 1) * (of_x @ omega @ of_x) + fourth * (one * n * d / (d + 2))
