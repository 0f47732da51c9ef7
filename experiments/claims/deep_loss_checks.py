"""Checks behind the ledger's entries on what deeper toys lose.  Each takes a version: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import sympy

from experiments.claims.deep_checks import TASKS
from theory.prompts import regression, setting, spectral
from theory.skipv1.compressed import compressed_losses
from theory.toy.stack import Array, AttentionHead, Value, run

SAMPLES = 20_000


# --- the best polynomial --------------------------------------------------------------------------------------------


def normal_equations_give(degree_off: int) -> bool:
    """The loss by elimination from the moments, in fractions, at k = 1..5: `best_polynomial` at degree k + off."""
    for d, n, sigma in TASKS:
        moments, noise = regression.trace_moments(d, n, 10), sympy.Rational(sigma.numerator, sigma.denominator) ** 2
        for k in range(1, 6):
            form = sympy.Matrix(k, k, lambda i, j: moments[i + j + 2] + noise * moments[i + j + 1])  # noqa: B023
            right = sympy.Matrix(moments[1 : k + 1])
            loss = d * (d - (right.T * form.LUsolve(right))[0] + noise)
            found = spectral.best_polynomial(d, n, sigma, k + degree_off).loss
            if loss != sympy.Rational(found.numerator, found.denominator):
                return False
    return True


def sampled_prompts_lose(factor: float) -> bool:
    """The best p's mean loss over 20,000 prompts, within 4 standard errors, for one to three layers."""
    rng = np.random.default_rng(27)
    for d, n, sigma in TASKS[1:]:
        w, x, noise = (rng.standard_normal((SAMPLES, d, size)) for size in (d, n, n))
        y = w @ x + float(sigma) * noise
        for degree in (1, 2, 3):
            best = spectral.best_polynomial(d, n, sigma, degree)
            estimate, power = np.zeros_like(w), y @ x.mT
            for c in best.residual[1:]:
                estimate, power = estimate - float(c) * power, power @ (x @ x.mT)
            losses = ((w - estimate) ** 2).sum(axis=(1, 2)) + d * float(sigma) ** 2
            if not agree(losses, factor * float(best.loss)):
                return False
    return True


def ridge_lies_between(factor: float) -> bool:
    """Sampled ridge losses lie between the rules without and with a node at 0, which meet to one in a thousand."""
    for d, n, sigma in ((1, 3, 1.0), (3, 8, 1.0), (4, 2, 2.0)):
        lower, upper = spectral.ridge_bounds(d, n, sigma * factor, 32)
        ridge = regression.ridge(d, n, sigma)
        if upper - lower > 1e-3 * upper or not lower - 4 * ridge.stderr <= ridge.value <= upper + 4 * ridge.stderr:
            return False
    return True


def keeps_off_ridge(kind: str) -> bool:
    """log |p / f| is off 0 by the proof's bound on half of an interval: p random with real roots, or the best."""
    rng, grid = np.random.default_rng(28), 20_000
    for degree in (2, 4, 8, 12):
        for noise, low, high in ((4.0, 1.0, 6.0), (1.0, 2.0, 12.0)):
            if kind == "real":
                p = np.poly1d([1.0])
                for beta in rng.standard_normal(degree) / high:
                    p = p * np.poly1d([-2 * beta, 1.0])
            else:
                best = spectral.best_polynomial(1, 4, Fraction(int(noise) ** 0.5), degree)
                p = np.poly1d([float(c) for c in reversed(best.residual)])
            s = np.linspace(low, high, grid)
            bound = min(1.0, (high - low) / (high + noise)) ** 2 / 256
            with np.errstate(divide="ignore"):
                off = abs(np.log(abs(p(s) * (1 + s / noise)))) > bound
            if off.mean() < 0.5 - 4 * (degree + 1) / grid:
                return False
    return True


def excess_stays(free: bool) -> bool:
    """From 4 to 12 layers the excess over ridge falls by less than half, by descents over own steps, or freely."""
    for d, n, sigma in ((3, 8, 2.0), (1, 2, 1.5)):
        ridge = sum(spectral.ridge_bounds(d, n, sigma, 32)) / 2
        losses = [
            spectral.best_loss(d, n, sigma, k) if free else spectral.best_steps(d, n, sigma, k).loss for k in (4, 12)
        ]
        if losses[1] - ridge < 0.5 * (losses[0] - ridge):
            return False
    return True


# --- compressed tokens ----------------------------------------------------------------------------------------------


def sampled_on_compressed_tokens(d: int, n: int, sigma: float, rank: int, count: int) -> tuple[Array, Array]:
    """Losses of MHA and of SkipV1Former, token by token over `SAMPLES` prompts.

    Own steps of the best polynomial on (A x ; B y), as matrices where its roots are complex (d - rank even); and in
    SkipV1Former's last layer a skip head that writes what raw y says into A x's place.
    """
    rng = np.random.default_rng([d, n, rank, count])
    w = rng.standard_normal((SAMPLES, d, d))
    x, y = rng.standard_normal((SAMPLES, n + 1, d)), sigma * rng.standard_normal((SAMPLES, n + 1, d))
    y = y + x @ w.mT
    tokens = np.concatenate([x[..., :rank], y[..., rank:]], axis=-1)
    tokens[:, -1, rank:] = 0
    kept, rest = (np.diag(flags).astype(float) for flags in (np.arange(d) < rank, np.arange(d) >= rank))
    layers = [
        [AttentionHead((Value(layer, rest),), -step, kept, kept)]
        for layer, step in enumerate(_steps(d, n, sigma, rank, count), 1)
    ]
    skip = AttentionHead((Value(0, kept),), kept / (n + d + 1 + sigma**2), kept, kept)
    layers[-1].append(skip)
    streams = run(tokens, layers, raw=y)
    label, last, written = y[:, -1], streams[-1][:, -1], (streams[-1] - streams[-2])[:, -1]
    seen = ((label + last) ** 2)[:, rank:].sum(axis=1)
    return seen + (label**2)[:, :rank].sum(axis=1), seen + ((label - written) ** 2)[:, :rank].sum(axis=1)


def _steps(d: int, n: int, sigma: float, rank: int, count: int) -> list[Array]:
    """B_ll on the last d - rank numbers of a token: (d, d) each."""
    residual = spectral.best_polynomial(rank, n, float(np.sqrt(sigma**2 + d - rank)), count).residual
    inverse = [1 / z for z in np.roots([float(c) for c in reversed(residual)])]
    flat, turn = np.zeros((d, d)), np.zeros((d, d))
    flat[rank:, rank:] = np.eye(d - rank)
    for i in range(rank, d - 1, 2):
        turn[i, i + 1], turn[i + 1, i] = -1, 1
    return [z.real * flat + z.imag * turn for z in inverse]


def compressed_steps_lose(share: Callable[[int, int], Fraction]) -> bool:
    """Sampled losses of one to three steps on compressed tokens; SkipV1Former's lie rho times share(a, k) below."""
    for d, n, sigma, rank, count in ((2, 4, 0.5, 1, 1), (2, 4, 0.5, 1, 2), (4, 9, 1.0, 2, 2), (4, 9, 1.0, 2, 3)):
        mha = float(compressed_losses(d, n, Fraction(sigma), rank, count).mha)
        gap = float(setting.signal_share(d, n, sigma) * share(rank, count))
        without, with_skip = sampled_on_compressed_tokens(d, n, sigma, rank, count)
        if not (agree(without, mha) and agree(with_skip, mha - gap)):
            return False
    return True


def known_rows_and_columns_leave(unknown: Callable[[int, int], int]) -> bool:
    """Told all of W* that (A x ; B y) can tell, a model still loses unknown + d sigma^2; 20,000 prompts, every rank."""
    rng, d, sigma = np.random.default_rng(29), 3, 0.5
    w, query, noise = (rng.standard_normal((SAMPLES, d, size)) for size in (d, 1, 1))
    for rank in range(d + 1):
        known = w.copy()
        known[:, :rank], known[:, :, rank:] = 0, 0
        losses = ((w @ query + sigma * noise - known @ query) ** 2).sum(axis=(1, 2))
        if not agree(losses, unknown(d, rank) + d * sigma**2):
            return False
    return True


def linear_bound_fails(layers: int) -> bool:
    """At a = d the best p of so many layers explains more than rho d^2, the bound of the paper's proof; exact."""
    return all(
        setting.zero_loss(d, n, sigma) - spectral.best_polynomial(d, n, sigma, layers).loss
        > d**2 * setting.signal_share(d, n, sigma)
        for d, n, sigma in TASKS
    )


def raw_values_win_nothing(version: tuple[Fraction, int]) -> bool:
    """Nothing compressed: k = 1..6 own steps reach the best polynomial of degree k + more; exact and by descent."""
    sigma, more = version
    for d, n, _ in TASKS:
        for k in range(1, 7):
            best = spectral.best_polynomial(d, n, sigma, k)
            reached = spectral.best_steps(d, n, float(sigma), k).loss
            wanted = float(spectral.best_polynomial(d, n, sigma, k + more).loss)
            if not spectral.is_real_rooted(best.residual) or abs(reached - wanted) > 1e-9 * regression.zero(d, 0):
                return False
    return True


def agree(losses: Array, expected: float) -> bool:
    """Within 4 standard errors."""
    return bool(abs(losses.mean() - expected) <= 4 * losses.std(ddof=1) / len(losses) ** 0.5)
