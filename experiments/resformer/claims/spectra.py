"""Claims on value spectra before training."""

from __future__ import annotations

import numpy as np

from experiments.ledger.claim import Claim
from theory.prompts.moments import Array
from theory.resformer import measures, spectra
from theory.resformer.paper import PAPER

AT_START = Claim(
    "resformer.values-at-start",
    PAPER.ours,
    place="theory/resformer/spectra.py, on Eqn. (12) and Fig. 12",
    statement="Before training, the eigenvalues of the values that heads attend over add up in the mean to "
    "s^2 p tr K / l, and with a value residual to own^2 + first^2 of that: half of it in ResFormer.  Their squares add "
    "up to s^4 p ((p + 1) tr K^2 + (tr K)^2) / l^2.",
    assumes="projections with independent normal entries of deviation s; K the Gram matrix of the tokens, of equal "
    "lengths in both layers; for the squares tokens that depend on neither projection, as layer n's do on layer 1's in "
    "a decoder",
    verdict="verified",
    proof=spectra,
)


def _directions(rng: np.random.Generator, tokens: int, width: int) -> Array:
    x = rng.standard_normal((tokens, width))
    return np.asarray(x * width**0.5 / np.linalg.norm(x, axis=1, keepdims=True))


@AT_START.check(
    "means of 20,000 draws of both projections, weights 1 and 0, 1/2 and 1/2, 0.3 and 0.9: within 2 %",
    states=1.0,
    control=1.1,
    wrong="10 % more",
    kind="sampled",
)
def sums_are_in_the_mean(factor: float) -> bool:
    rng, (tokens, width, values), std = np.random.default_rng(1), (5, 3, 4), 0.3
    first, later = _directions(rng, tokens, width), _directions(rng, tokens, width)
    for own, residual in ((1.0, 0.0), (0.5, 0.5), (0.3, 0.9)):
        drawn = std * rng.standard_normal((2, 20_000, values, width))
        v = own * later @ drawn[0].mT + residual * first @ drawn[1].mT
        c = v.mT @ v / tokens
        gram = own**2 * later @ later.T + residual**2 * first @ first.T
        total, squares = np.trace(c, axis1=1, axis2=2).mean(), (c * c).sum(axis=(1, 2)).mean()
        share = spectra.residual_share(own, residual) * spectra.expected_sum(later @ later.T, values, std)
        for found, said in (
            (total, spectra.expected_sum(gram, values, std)),
            (total, share),
            (squares, spectra.expected_square_sum(gram, values, std)),
        ):
            if abs(found / (factor * said) - 1) > 0.02:
                return False
    return True


@AT_START.check(
    "one number, whole: K = (4), one value a token; tokens in random directions, and behind a norm, by 4,000 draws",
    states=1.0,
    control=1.1,
    wrong="10 % more",
    kind="sampled",
)
def known_cases(factor: float) -> bool:
    """w^2 x^2 with w normal has the mean 4 and, squared, 3 * 16."""
    gram = np.array([[4.0]])
    if abs(spectra.expected_sum(gram, 1, 1.0) - 4 * factor) > 1e-12:
        return False
    if abs(spectra.expected_square_sum(gram, 1, 1.0) - 48 * factor) > 1e-12:
        return False
    rng = np.random.default_rng(2)
    x = np.stack([_directions(rng, 5, 3) for _ in range(4000)])
    grams, said = x @ x.mT, factor * spectra.expected_gram(5, 3, 3.0)
    if abs((grams**2).sum(axis=(1, 2)).mean() / (said**2).sum() - 1) > 0.02:
        return False
    if abs(np.trace(grams, axis1=1, axis2=2).mean() / np.trace(said) - 1) > 0.02:
        return False
    m = (0.1 * rng.standard_normal((4000, 7))) ** 2
    normed = m / (m.mean(axis=1, keepdims=True) + 0.004)
    return abs(normed.sum(axis=1).mean() / (factor * spectra.normed_square(7, 0.1, 0.004)) - 1) < 0.02


LIMIT = Claim(
    "resformer.values-at-start-limit",
    PAPER.ours,
    place="theory/resformer/spectra.py, Theorem 2",
    statement="Of many different tokens the eigenvalues follow the free product of two Marchenko-Pastur laws, whose "
    "largest is 27/4 of the mean for as many tokens as width and values.",
    assumes="large sizes; tokens in independent uniform directions",
    verdict="verified",
    proof=spectra,
    uses=("resformer.eqn12-index",),
)


@LIMIT.check(
    "400 tokens, and 300 of width 200: every place within 6 % of the mean on average, the largest within 6 %; and the "
    "law's mean, 1",
    states=True,
    control=False,
    wrong="Marchenko and Pastur's own law, of tokens that are at right angles",
    kind="sampled",
)
def random_values_follow(both: bool) -> bool:
    for seed, (tokens, width, values) in enumerate(((400, 400, 400), (300, 200, 300))):
        rng = np.random.default_rng(seed)
        v = _directions(rng, tokens, width) @ rng.standard_normal((values, width)).T
        found = measures.value_spectrum(v)[:width] / values
        many = tokens if both else 10**9
        said = spectra.quantiles(many, width, values)
        if abs(said.mean() - 1) > 0.005 or abs(found.mean() - 1) > 0.02:
            return False
        if np.abs(found - said).mean() > 0.06 or abs(found[0] / spectra.largest(many, width, values) - 1) > 0.06:
            return False
    return True


def fuss_catalan(x: Array) -> Array:
    """The density of the law of two equal sizes, from its closed form."""
    root = 27 + 3 * np.sqrt(81 - 12 * x)
    share = (2 ** (1 / 3) * root ** (2 / 3) - 6 * x ** (1 / 3)) / (x ** (2 / 3) * root ** (1 / 3))
    return np.asarray(2 ** (1 / 3) * np.sqrt(3) / (12 * np.pi) * share)


@LIMIT.check(
    "equal sizes: the end of the spectrum, and the density against its closed form; the end where tokens do not matter",
    states=27 / 4,
    control=4.0,
    wrong="Marchenko and Pastur's own end, for equal sizes",
    kind="float64",
)
def the_end_and_the_density_are_known(end: float) -> bool:
    x = np.array([0.1, 1.0, 3.0, 6.0])
    return bool(
        abs(spectra.largest(7, 7, 7) - end) < 1e-9
        and abs(spectra.largest(10**9, 7, 7) - 4) < 1e-3
        and np.allclose(spectra.density(x, 7, 7, 7), fuss_catalan(x), rtol=1e-9)
        and spectra.density(np.array([1.01 * end]), 7, 7, 7)[0] < 1e-6
    )
