"""Claims on shifts: inputs, lengths and noise that differ between training and test."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.setting import W0_ZERO
from theory.plans.heads import MHA, SKIPV1, TOYS, Head
from theory.prompts import shifts
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.shifts import learned_step, loss_elsewhere, on_average, share_elsewhere, share_of
from theory.skipv1 import transfer
from theory.skipv1.paper import PAPER
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss
from theory.toy.width import most_entries_at_width

ERRORS = 4  # standard errors
PROMPTS = 40_000

SHIFTS = Claim(
    "toy.shifts",
    PAPER.ours,
    place="theory/prompts/shifts.py; bears on SkipV1Former, appendix A.1",
    statement="A toy's optimum, trained on isotropic inputs and tested elsewhere, has a loss in closed form: for other "
    "lengths, noise, covariances, W0, and inputs with independent entries or on a sphere.  Under isotropic inputs and "
    "W0 = 0 it explains (entries / d^2) (2 n mu - n mu^2 (n + d + 1 + kappa + sigma^2)) of the test's signal, so that "
    "the order of plans stays as it was while that is positive; with mu as trained on n pairs, and nothing else "
    "changed, prompts of more than 2 n + d + 1 + sigma^2 pairs make all of them do harm.",
    assumes="trained at W0 = 0; P = Q S_yx M, which optima attain or approach; the sphere counts as kappa = -2",
    verdict="verified",
    proof=shifts,
    uses=("moments.general", "toy.worth"),
)

TESTS = (  # n, sigma, kurtosis of the test
    (4, Fraction(1, 2), Fraction(0)),
    (9, Fraction(1, 2), Fraction(0)),
    (2, Fraction(2), Fraction(0)),
    (4, Fraction(1, 2), Fraction(3)),
    (7, Fraction(0), Fraction(-6, 5)),
    (60, Fraction(1, 2), Fraction(0)),
)


def _share(d: int, n: int, sigma: Any, step: Any, kurtosis: Any) -> Any:
    """Return the stated share as a multiple of all entries."""
    return 2 * n * step - n * step**2 * (n + d + 1 + kurtosis + sigma**2)


@SHIFTS.check(
    "the closed form is the general loss of explicit projections, in rational arithmetic; d = 1 to 3, five tests",
    states=_share,
    control=lambda d, n, sigma, step, kurtosis: _share(d, n, sigma, step=step, kurtosis=0),
    wrong="the kurtosis forgotten",
    kind="exact",
)
def closed_form_is_the_general_one(share: Callable[..., Any]) -> bool:
    """Include inputs on the sphere as a kurtosis of -2; at the step of training the share is rho, the toy's own."""
    for d in (1, 2, 3):
        step = learned_step(d, 4, Fraction(1, 2))
        for n, sigma, kurtosis in TESTS:
            for outputs, inputs in {(d, d), (d, 1), (1, d), (max(1, d - 1), 1)}:
                rows, columns = _projection(d, outputs), _projection(d, inputs) * step
                part = Fraction(outputs * inputs, d * d)
                independent = _exact(d, n, sigma, kurtosis=np.full(d, kurtosis, dtype=object))
                normal = _exact(d, n, sigma)
                found = (
                    share_of(independent, loss_elsewhere(independent, rows, columns)),
                    share_elsewhere(d, n, sigma, step, entries=outputs * inputs, kurtosis=kurtosis),
                )
                if set(found) != {part * share(d, n, sigma, step, kurtosis)}:
                    return False
                on_sphere = share_of(normal, loss_elsewhere(normal, rows, columns, sphere=True))
                if on_sphere != part * _share(d, n, sigma, step=step, kurtosis=-2):
                    return False
        if share_elsewhere(d, 4, Fraction(1, 2), step) != 4 * step or step != 1 / (d + 5 + Fraction(1, 4)):
            return False
    return True


def _exact(d: int, n: int, sigma: Fraction, **law: Any) -> PromptMoments:
    return PromptMoments(d, n, sigma, np.full((d, d), Fraction(0), dtype=object), **law)


def _projection(d: int, rank: int) -> Array:
    """Return the projection on the first `rank` of d coordinates, in fractions."""
    return np.diag([Fraction(int(i < rank)) for i in range(d)]).astype(object)


@SHIFTS.check(
    "longer prompts: beyond which length a trained step does harm, d = 1 to 4; with means over the prompt, none",
    states=lambda d, n, sigma: 2 * n + d + 1 + sigma**2,
    control=lambda d, n, sigma: 2 * n,
    wrong="twice the length, as if d and sigma were nothing",
    kind="exact",
)
def longest_useful(length: Callable[[int, int, Fraction], Fraction]) -> bool:
    sigma = Fraction(1, 2)
    for d in (1, 2, 4):
        for n in (3, 8):
            step, last = learned_step(d, n, sigma), length(d, n, sigma)
            shares = {k: share_elsewhere(d, k, sigma, step) for k in range(1, 6 * (n + d))}
            if any((share < 0) != (k > last) for k, share in shares.items()):
                return False
            means = [share_elsewhere(d, k, sigma, learned_step(d, n, sigma, test_n=k)) for k in range(n, 8 * n)]
            if means != [_share(d, k, sigma, step=step * n / k, kurtosis=0) for k in range(n, 8 * n)]:
                return False
            if means != sorted(means) or means[0] != shares[n] or means[-1] <= means[0]:
                return False
    return True


@SHIFTS.check(
    "covariance, W0, length and noise all changed, and the sphere: sampled prompts, within 4 standard errors",
    states=1.0,
    control=1.1,
    wrong="a step larger by a tenth",
    kind="sampled",
)
def sampled_elsewhere(factor: float) -> bool:
    """Sample at d = 3 a plan that sees two outputs and one input, turned at random."""
    rng = np.random.default_rng(11)
    d, n, sigma = 3, 7, 0.6
    root = np.diag([1.6, 1.0, 0.3])
    w0 = rng.standard_normal((d, d))
    rows, columns = (_turned(rng, d, rank) for rank in (2, 1))
    step = learned_step(d, 4, 0.3)
    moments = PromptMoments(d, n, sigma, w0, covariance=root @ root)
    for sphere in (False, True):
        x = rng.standard_normal((PROMPTS, d, n))
        x = x * (d**0.5 / np.linalg.norm(x, axis=1, keepdims=True)) if sphere else x
        x = root @ x
        w = w0 + rng.standard_normal((PROMPTS, d, d))
        y = w @ x + sigma * rng.standard_normal(x.shape)
        p = step * rows @ (y @ x.mT) @ columns
        losses = (((p - w) @ root) ** 2).sum(axis=(1, 2)) + d * sigma**2
        known = loss_elsewhere(moments, rows, columns * step * factor, sphere=sphere)
        if abs(losses.mean() - known) > ERRORS * losses.std() / PROMPTS**0.5:
            return False
    return True


def _turned(rng: np.random.Generator, d: int, rank: int) -> Array:
    basis = np.linalg.qr(rng.standard_normal((d, rank)))[0]
    return np.asarray(basis @ basis.T)


@SHIFTS.check(
    "the mean over uniform orientations: 4,000 of them, within 4 standard errors; two tasks, d = 2 and 3",
    states=True,
    control=False,
    wrong="projections that are the multiple of the identity with their trace",
    kind="sampled",
)
def oriented_at_random(projections: bool) -> bool:
    rng = np.random.default_rng(5)
    for d, outputs, inputs in ((2, 1, 1), (3, 2, 1)):
        spread = np.diag(np.linspace(2.0, 0.2, d))
        moments = PromptMoments(d, 6, 0.5, rng.standard_normal((d, d)), covariance=spread)
        step = 0.12
        if projections:
            known = on_average(moments, step, outputs, inputs)
        else:
            known = loss_elsewhere(moments, np.eye(d) * outputs / d, step * np.eye(d) * inputs / d)
        turned = [
            loss_elsewhere(moments, _turned(rng, d, outputs), step * _turned(rng, d, inputs)) for _ in range(4_000)
        ]
        if abs(np.mean(turned) - known) > ERRORS * np.std(turned) / len(turned) ** 0.5:
            return False
    eye = _exact(3, 5, Fraction(1, 3))
    step = learned_step(3, 5, Fraction(1, 3))
    same = loss_elsewhere(eye, _projection(3, 2), step * _projection(3, 1))
    return bool(on_average(eye, step, 2, 1) == same and on_average(eye, step, 2, 1, sphere=True) != same)


COVARIANCE = Claim(
    "toy.covariance-at-width",
    PAPER.ours,
    place="theory/skipv1/transfer.py; extends theory/toy/width.py beyond isotropic inputs",
    statement="At a covariance of x and width m >= d the toys of plans that reach back explain d (f_1 + ... + f_d), "
    "vanilla's the best b (f_1 + ... + f_a) over a + b = m, a and b at most d, with f_j a mode's as in "
    "skipv1.general-covariance, by P = Q S_yx M with M in closed form.  "
    "Vanilla explains at least as large a part of what they do as under isotropic inputs.",
    assumes=W0_ZERO.replace("N(0, I), x ~ N(0, I)", "N(0, psi I x Gamma), x ~ N(0, Sigma)"),
    verdict="verified",
    proof=transfer,
    uses=("skipv1.general-covariance", "toy.width"),
)

SPECTRA = ((1.0, 1.0, 1.0), (4.0, 1.0, 1.0), (1.0, 0.5, 1 / 3))  # isotropic, spiked, power law


def _task(spectrum: tuple[float, ...], n: int = 5, sigma: float = 0.4) -> PromptMoments:
    """Return a turned task, so that nothing is diagonal, with a prior of columns that does not commute."""
    rng = np.random.default_rng(8)
    d = len(spectrum)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    covariance = (turn * spectrum) @ turn.T
    factor = np.eye(d) + 0.2 * rng.standard_normal((d, d))
    columns = np.eye(d) if len(set(spectrum)) == 1 else factor @ factor.T
    return PromptMoments(
        d, n, sigma, covariance=(covariance + covariance.T) / 2, prior_columns=(columns + columns.T) / 2
    )


@COVARIANCE.check(
    "P with the M stated has that loss, in exact moments, for both kinds of plan at every width from d to 2d + 1",
    states=1.0,
    control=1.05,
    wrong="M larger by a twentieth",
)
def stated_map_explains(factor: float) -> bool:
    for spectrum in SPECTRA:
        moments, d = _task(spectrum), len(spectrum)
        for heads in (MHA, SKIPV1):
            for width in range(d, 2 * d + 2):
                division = transfer.best_division(moments, heads, width)
                if division is None or sum(division) > max(width, 2 * d * (heads == SKIPV1)):
                    return False
                rows = np.diag([1.0] * division[0] + [0.0] * (d - division[0]))
                columns = factor * transfer.trained_columns(moments, division[1])
                explained = moments.zero_loss - loss_elsewhere(moments, rows, columns)
                if abs(explained - (transfer.explained_at_width(moments, heads, width) or 0.0)) > 1e-9:
                    return False
    return True


@COVARIANCE.check(
    "at m = d, no descent on the exact loss of the toys explains more, and some as much, but for 1 %; d = 3",
    states=1.0,
    control=0.9,
    wrong="a tenth less",
    kind="descent",
)
def descents_agree(factor: float) -> bool:
    moments = _task(SPECTRA[1])
    for heads in (MHA, SKIPV1):
        known = factor * (transfer.explained_at_width(moments, heads, 3) or 0.0)
        loss = PopulationLoss(moments, heads)
        ends = [float(loss.zero_loss) - minimise(loss, rank, starts=3).value for rank in (1, 2, 3)]
        if not -0.01 * known < max(ends) - known < 1e-6 * known:
            return False
    return True


@COVARIANCE.check(
    "isotropic inputs give the theorem's numbers at every width, other spectra no smaller part of what reaches back",
    states=MHA,
    control=SKIPV1,
    wrong="heads that reach back in the place of vanilla's",
)
def isotropic_is_the_widest_gap(heads: tuple[Head, ...]) -> bool:
    d = 3
    raw_keys = (Head(1, 0, key_copied=0, key_raw=1),)
    for spectrum in SPECTRA:
        moments = _task(spectrum)
        for width in range(d, 2 * d + 2):
            mha, skip = (transfer.explained_at_width(moments, h, width) or 0.0 for h in (heads, SKIPV1))
            entries = most_entries_at_width(TOYS["mha"], d, width) or 0
            beyond = mha / skip - entries / d**2
            if beyond < -1e-12 or (spectrum == SPECTRA[0] and beyond > 1e-12):
                return False
            if transfer.explained_at_width(moments, (Head(0, 1, 0, 1),), width) != 0:
                return False
            if transfer.best_division(moments, (Head(0, 1, 0, 1),), width) != (0, 0):
                return False
            if transfer.explained_at_width(moments, raw_keys, width) is not None:
                return False
    return True
