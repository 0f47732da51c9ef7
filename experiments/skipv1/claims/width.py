"""Claims on worth in width: how wide tokens must be for MHA to do as well, with scores of positions or content."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.setting import W0_ZERO
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import PromptMoments
from theory.prompts.setting import signal_share
from theory.skipv1.paper import PAPER
from theory.toy import content_scores, generic_tokens, least_width, width
from theory.toy.content_scores import (
    GAMMA,
    additive_weights,
    best_kappa,
    explained_by_contents,
    positions_ceiling,
)
from theory.toy.least_width import explained_by_hiding, hiding_weights, least_width_bound
from theory.toy.positions import TwoLayers
from theory.toy.token_pairs import best_entries, most_entries

PROMPTS = 100_000
N, SIGMA = 4, 0.3  # of the sampled task

WIDTH = Claim(
    "toy.width",
    PAPER.ours,
    place="theory/toy/width.py; bears on SkipV1Former, sections 4 and 5",
    statement="If tokens hold m >= d numbers, of the form of Assumption 1, MHA's toy explains rho floor(m/2) ceil(m/2) "
    "of the signal, and all of rho d^2 from m = 2d on: what SkipV1Former wins there is nothing.  (A first layer that "
    "is free needs less: toy.least-width.)",
    assumes=W0_ZERO + "; u_t = (A x_t ; B y_t) with a + b = m rows; the best division of m",
    verdict="verified",
    proof=width,
    uses=("toy.value-maps",),
)


@WIDTH.check(
    "P's odd part depends on B S_yx A^T: min(a, d) min(b, d) numbers; rank of that map, all a, b <= 5",
    states=lambda a, b, d: min(a, d) * min(b, d),
    control=lambda a, b, d: min(a, d) * max(d - a, 0),
    wrong="min(a, d) (d - a), as if B had d - a rows at every width",
    kind="exact",
)
def odd_part_has_rank(rank: Callable[[int, int, int], int]) -> bool:
    """The linear map S -> B S A^T, for A (a x d) and B (b x d) of random whole numbers."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        for a in range(6):
            for b in range(6):
                left, right = rng.integers(1, 1000, (b, d)), rng.integers(1, 1000, (a, d))
                kronecker = np.kron(left, right).astype(float)
                matrix_rank = int(np.linalg.matrix_rank(kronecker)) if kronecker.size else 0
                if matrix_rank != rank(a, b, d):
                    return False
    return True


@WIDTH.check(
    "explicit weights of one head explain that much, within 4 standard errors over 100,000 prompts",
    states=0,
    control=1,
    wrong="one entry of W* more",
    kind="sampled",
)
def construction_explains(more: int) -> bool:
    """MHA's one head at several widths explains rho min(a, d) min(b, d), and not `more` entries of W* than that."""
    return all(width_construction(d, a, b, more) for d, a, b in ((3, 2, 2), (2, 2, 1), (3, 3, 3), (2, 1, 3)))


def width_construction(d: int, a: int, b: int, more: int = 0) -> bool:
    """One head on tokens of a + b numbers explains rho (min(a, d) min(b, d) + more), within 4 standard errors."""
    mean, error = _sampled_gain(d, a, b)
    return abs(mean - signal_share(d, N, SIGMA) * (min(a, d) * min(b, d) + more)) < 4 * error


@cache
def _sampled_gain(d: int, a: int, b: int) -> tuple[float, float]:
    """Return by how much one head beats predicting zero on sampled prompts, and its standard error.

    Tokens of a + b numbers; raw x_t, u_t = (A x_t ; beta B y_t), one head that reads B's rows at A's keys.
    """
    n, sigma, beta = N, SIGMA, 1e4
    rng = np.random.default_rng(0)
    x = rng.standard_normal((PROMPTS, d, n))
    w = rng.standard_normal((PROMPTS, d, d))
    y = w @ x + sigma * rng.standard_normal((PROMPTS, d, n))
    s_yx, s_xx, s_yy = y @ x.mT, x @ x.mT, y @ y.mT
    m, rank, rows = a + b, min(a, d), min(b, d)
    read_in = np.eye(m, d)
    keys = np.eye(m) * (np.arange(m) < rank)
    copy_x, copy_y = keys @ read_in, np.zeros((m, d))
    copy_y[a : a + rows] = beta * np.eye(rows, d)
    readout = copy_y.T / (beta**2 * (n + d + 1 + sigma**2))
    s_uu = copy_x @ s_xx @ copy_x.T + copy_y @ s_yy @ copy_y.T
    s_uu += copy_y @ s_yx @ copy_x.T + copy_x @ s_yx.mT @ copy_y.T
    p = readout @ (read_in @ s_xx @ read_in.T + s_uu) @ keys @ copy_x
    gained = (w**2).sum((1, 2)) - ((p - w) ** 2).sum((1, 2))
    return float(gained.mean()), float(gained.std() / PROMPTS**0.5)


SETTING = "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; layer 1's scores are of positions alone"

LEAST_WIDTH = Claim(
    "toy.least-width",
    PAPER.ours,
    place="theory/toy/least_width.py; bears on SkipV1Former, sections 4 and 5",
    statement="Without Assumption 1, if layer 1's scores depend on positions alone, MHA of width 2d - 1, d >= 2, comes "
    "as near as one likes to all that SkipV1Former explains at width d, with four heads in layer 1 and two (d = 2), "
    "three (even d) or six (odd d) in layer 2.  With any heads it does not below the least m with m (m+1) / 2 >= d^2 + "
    "ceil(m / (2n)), which is 2d - 1 for d = 2, and for d = 3 at n = 1; and not below 2d if each pair is written into "
    "one token.",
    assumes=SETTING,
    verdict="verified",
    proof=least_width,
    uses=("toy.positions-bound", "toy.width"),
    unjudged={least_width.hidden_tokens: "beyond d = 6 their number, and not their size"},
)


@LEAST_WIDTH.check(
    "the weights, both layers multiplied out, explain the closed form in exact moments; d = 2 to 6, eps = 1/4, 1/64",
    states=explained_by_hiding,
    control=lambda d, n, sigma, eps, hidden: signal_share(d, n, sigma) * (d**2 - hidden * (hidden - 1)),
    wrong="their limit, as if eps were zero",
    kind="exact",
)
def weights_explain(explained: Callable[..., Any]) -> bool:
    """Compare exact moments; the weights have four heads in layer 1, two, three or six in layer 2, and width 2d - h."""
    n, sigma = 5, Fraction(1, 3)
    for d, hidden, heads in ((2, 1, 2), (3, 1, 6), (4, 1, 3), (4, 2, 2), (5, 1, 6), (6, 2, 3)):
        for eps in (Fraction(1, 4), Fraction(1, 64)):
            weights = hiding_weights(d, n, float(sigma), eps=float(eps), hidden=hidden)
            if (len(weights.value), len(weights.readout), len(weights.read_in)) != (4, heads, 2 * d - hidden):
                return False
            if weights.bias.shape != (4, 2 * n + 1, 2 * n + 1):
                return False
            if hidden == 1 and least_width.sufficient_width(d) != len(weights.read_in):
                return False
            found = _explained(weights, n, float(sigma))
            if not abs(found - float(explained(d, n, sigma, eps, hidden))) < 1e-9 * d**2:
                return False
    return True


def _explained(weights: TwoLayers, n: int, sigma: float) -> float:
    """Return E [2 <P, W*> - |P|^2], for weights that treat all pairs alike and whose last token sees itself alone."""
    d = weights.read_in.shape[1]
    first = np.einsum("hwv,vi->hwi", weights.value, weights.read_in)
    tokens = [  # what one pair puts into either of its tokens, (m, 2d)
        np.concatenate([np.einsum("h,hwi->wi", weights.bias[:, key, token], first) for key in (0, 1)], axis=1)
        for token in (0, 1)
    ]
    query = np.einsum("h,hwi->wi", weights.bias[:, -1, -1], first)
    moments = PromptMoments(d, n, sigma)
    terms = [
        (out @ token, token.T @ match @ query)  # P is the sum of left S right
        for out, match in zip(weights.readout, weights.key_query, strict=True)
        for token in tokens
    ]
    meets = sum(np.trace(right.T @ moments.target_right(left.T)) for left, right in terms)
    power = sum(np.trace(l2.T @ l1 @ moments.sandwich(r1 @ r2.T)) for l1, r1 in terms for l2, r2 in terms)
    return float(2 * meets - power)


@LEAST_WIDTH.check(
    "d = 1, 2 at n = 1, 8 and d = 3 at n = 1: descents stay away from d^2 one number below, and reach it there",
    states=least_width_bound,
    control=lambda d, n: 2 * d,
    wrong="a doubled width",
    kind="descent",
)
def least_width_is(width: Callable[[int, int], int]) -> bool:
    """Check where the bound is attained: 2d - 1, or 2 for d = 1.  One number below, the same descents fail."""
    for d, n in ((1, 1), (1, 8), (2, 1), (2, 8), (3, 1)):
        least = width(d, n)
        if least != least_width.sufficient_width(d) or not _most(d, n, least - 1) < d**2 - 0.5:
            return False
        if not d**2 * 0.999 < _most(d, n, least) < d**2 + 1e-9:
            return False
    return True


@LEAST_WIDTH.check(
    "the width that suffices is that of the tokens with one entry hidden, d = 2 to 12",
    states=0,
    control=1,
    wrong="one number less from d = 4 on",
    kind="exact",
)
def weights_have_the_sufficient_width(less: int) -> bool:
    return all(
        least_width.sufficient_width(d) - less * (d >= 4) == least_width.hidden_tokens(d, 0.25).shape[1] == 2 * d - 1
        for d in range(2, 13)
    )


@LEAST_WIDTH.check(
    "d = m = 2 and d = 3, m = 4: descents find no more than m (m+1) / 2 - 1/2",
    states=Fraction(1, 2),
    control=1,
    wrong="a whole number less, which is exceeded at d = m = 2",
    kind="descent",
)
def half_an_entry_is_lost(lost: Any) -> bool:
    """Step (2): of the sum of squares in the span of G's entries at least half is even."""
    return all(_most(d, n, m) <= m * (m + 1) / 2 - lost for d, n, m in ((1, 8, 1), (2, 8, 2), (3, 1, 4)))


@LEAST_WIDTH.check(
    "d = 2, width 3: with one token a pair descents find less than 3 of 4 entries, and all of them at width 4",
    states=1,
    control=2,
    wrong="two tokens a pair",
    kind="descent",
)
def one_token_needs_a_doubled_width(kinds: int) -> bool:
    """Part (E), and that descents find what one token holds at width 2d."""
    return _most(2, 8, 3, kinds) < 3 and _most(2, 8, 4, kinds) > 4 - 1e-6


@cache
def _most(d: int, n: int, width: int, kinds: int = 2) -> float:
    """Return the entries that descents from a few starts find, at sigma = 0.1."""
    return most_entries(d, n, 0.1, width, starts=2 if d > 2 else 3, steps=250, kinds=kinds)[0] if width else 0.0


GENERIC_WIDTH = Claim(
    "toy.generic-width",
    PAPER.ours,
    place="theory/toy/generic_tokens.py, on appendix A.1, Assumption 1",
    statement="Up to d = 16 MHA comes as near as one likes to all that SkipV1Former explains at the least width m with "
    "m (m + 1) / 2 >= d (3 d + 1) / 2, about sqrt(3) d, which from d = 7 on is less than 2d - 1; its tokens hold x and "
    "a little of y in no particular way.",
    assumes="layer 1's scores are of positions; two tokens a pair; m d heads in layer 2; weights without bound",
    verdict="verified",
    proof=generic_tokens,
    uses=("toy.positions-bound",),
    unjudged={
        generic_tokens.whole_tokens: "tokens to try: any others are as good",
        generic_tokens.small_y: "the size of eta, of which only that it is small matters",
    },
)


@GENERIC_WIDTH.check(
    "the images of S_xx and of S_yx are independent at that width for whole-number tokens, d = 1 to 16; exact ranks",
    states=0,
    control=1,
    wrong="a width less by one",
    kind="exact",
)
def generic_images_are_independent(less: int) -> bool:
    """Compare ranks modulo a prime, which never exceed the rank; the width is by counting images, from d on."""
    for d in (1, 2, 3, 6, 7, 16):
        images = d * d + d * (d + 1) // 2
        width = next(m for m in range(d, 2 * d + 1) if m * (m + 1) // 2 >= images)
        if generic_tokens.generic_width(d) != width:
            return False
        if not generic_tokens.independent_tokens(generic_tokens.whole_tokens(d, width - less)):
            return False
    return True


@GENERIC_WIDTH.check(
    "what the best linear map of their second moments explains, d = 3 and 4: all of d^2 but for a multiple of eta^2",
    states=1e-4,
    control=1.0,
    wrong="at eta = 1 too",
)
def generic_tokens_explain(eta: float) -> bool:
    for d in (3, 4):
        tokens = generic_tokens.whole_tokens(d, generic_tokens.generic_width(d)) / 99
        missing = [d**2 - best_entries(d, 4, 0.5, generic_tokens.small_y(tokens, scale * eta)) for scale in (1.0, 0.5)]
        if not (missing[0] < 0.02 and abs(missing[0] / missing[1] - 4) < 0.1):
            return False
    return True


Share = Callable[[int], Fraction]

CONTENT_SCORES = Claim(
    "toy.content-scores",
    PAPER.ours,
    place="theory/toy/content_scores.py; bears on SkipV1Former, section 4 and appendix A.1",
    statement="The bounds on a trained first layer need its hypothesis that layer 1's scores depend on positions "
    "alone.  With scores of contents at d = m = 1 and sigma = 0, one ordinary head explains 0.197, 0.282 and 0.352 of "
    "W* at n = 1, 2 and 4, where MHA's bound rho/2 is 0.167, 0.25 and 0.333.  One skip head then explains "
    "n (n+6) / ((n+2) (n+4)), more than rho, for every n.",
    assumes="W* ~ N(0, 1), x ~ N(0, 1), d = m = 1, no noise; linear attention; the query's scores of contents act on "
    "x tokens alone.  Scores that act on all tokens, with a bias of the positions, exceed rho/2 at n = 1 and 2",
    verdict="verified",
    proof=content_scores,
    unjudged={additive_weights: "weights with a common factor explain the same"},
)


def _explained_by_pairing(n: int, kappa: Fraction, gamma: Fraction | None) -> Fraction:
    """Return (E w P)^2 / E P^2, P = (S_xx + 2 gamma S_yx + gamma^2 S_yy) (1 - kappa S_xx) or S_yx (1 - kappa S_xx)."""
    engine = PromptEngine(1)
    linear = {"yx": Fraction(1)} if gamma is None else {"xx": Fraction(1), "yx": 2 * gamma, "yy": gamma**2}
    terms: list[tuple[tuple[str, ...], Fraction]] = [((name,), value) for name, value in linear.items()]
    terms += [((name, "xx"), -kappa * value) for name, value in linear.items()]

    def mean(*names: str) -> Fraction:
        found = engine.expect(*((name, 0, 0) for name in names))
        return Fraction(int(found.as_expr().subs({"n": n, "sigma": 0, "w_00": 0})))

    meets = sum((value * mean(*names, "w") for names, value in terms), Fraction(0))
    power = sum((a * b * mean(*one, *two) for (one, a), (two, b) in product(terms, terms)), Fraction(0))
    return meets**2 / power


@CONTENT_SCORES.check(
    "what either head explains, by pairing: the closed forms at n = 1, 2, 4 and 7, and the best size of the scores",
    states=explained_by_contents,
    control=lambda n, kappa, gamma: explained_by_contents(n, Fraction(0), gamma),
    wrong="as if scores of contents changed nothing",
    kind="exact",
)
def closed_forms(explained: Callable[[int, Fraction, Fraction | None], Fraction]) -> bool:
    """Compare with pairing, and check that `best_kappa` is better than sizes of the scores 0.1 % below and above it."""
    factors = (Fraction(999, 1000), Fraction(1), Fraction(1001, 1000))
    for n, gamma in product((1, 2, 4, 7), (GAMMA, None)):
        best = best_kappa(n)
        found = [_explained_by_pairing(n, best * factor, gamma) for factor in factors]
        if found != [explained(n, best * factor, gamma) for factor in factors]:
            return False
        if max(found) != found[1]:
            return False
    return True


@CONTENT_SCORES.check(
    "n = 1 to 12, exact moments by pairing: an ordinary head exceeds rho/2 just for n up to 6, a skip head rho for all",
    states=6,
    control=12,
    wrong="for every n",
    kind="exact",
)
def ceilings_fall(longest: int) -> bool:
    for n in range(1, 13):
        rho = Fraction(n, n + 2)
        kappa = Fraction(1, 2 * (n + 4))
        ordinary, skip = (_explained_by_pairing(n, kappa, gamma) for gamma in (GAMMA, None))
        if (ordinary > rho / 2) != (n <= longest) or not skip > rho or positions_ceiling(n) != rho / 2:
            return False
    return True


@CONTENT_SCORES.check(
    "token by token, Gauss quadrature over a prompt's numbers: scores on all tokens alike exceed rho/2 at n = 1, 2",
    states=lambda weights: weights,
    control=lambda weights: weights._replace(match=Fraction(0)),
    wrong="the same weights without scores of contents, which stay below",
)
def additive_scores_exceed(chosen: Callable[[content_scores.Additive], content_scores.Additive]) -> bool:
    """Check also that they explain 0.1754 and 0.2519, to four digits."""
    known = {1: 0.1754, 2: 0.2519}
    found = {n: _explained_token_by_token(chosen(additive_weights(n)), n) for n in known}
    return all(found[n] > n / (2 * (n + 2)) and abs(found[n] - known[n]) < 5e-5 for n in known)


def _explained_token_by_token(weights: content_scores.Additive, n: int) -> float:
    """Return what is explained at the best readout; all tokens see the context, and the query itself too."""
    nodes, masses = np.polynomial.hermite_e.hermegauss(10)  # P^2 has degree 16 in each number at most
    grid = np.array(list(product(nodes, repeat=n + 2)))
    mass = np.array([prod(some) for some in product(masses / masses.sum(), repeat=n + 2)])
    x, w, query = grid[:, :n], grid[:, n:-1], grid[:, -1:]
    y = w * x
    x_of_x, y_of_x, x_of_y, y_of_y, itself, match = map(float, weights)
    square = (x**2 + y**2).sum(axis=1, keepdims=True)
    of_x = x_of_x * x + y_of_x * y + match * x * square
    of_y = x_of_y * x + y_of_y * y + match * y * square
    last = itself * query + match * query * (square + query**2)
    answer = ((of_x**2 + of_y**2).sum(axis=1, keepdims=True) * last)[:, 0]
    target = (w * query)[:, 0]
    return float((mass @ (answer * target)) ** 2 / (mass @ answer**2))
