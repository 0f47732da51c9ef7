"""Checks behind the ledger's entries on plans.  Each takes a version of the claim: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import sympy

from experiments.claims.exact import exact_loss
from theory.accounting import cache, total_parameters
from theory.minimise import minimise
from theory.moments import PromptMoments
from theory.names import model, resolve
from theory.plan import Shape
from theory.population import PopulationLoss, Weights
from theory.skipv1 import zero_loss
from theory.toy import Head, toy_heads
from theory.value_maps import optimum

NAMED = ("vanilla", "resformer", "svformer", "cla", "cla-v", "skipv0", "cross-layer", "skipkv1", "identity-mapping")
TASKS = [(1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 4, Fraction(2, 3)), (4, 2, Fraction(1))]


def minimiser_finds_value_maps(factor: float) -> bool:
    """Ends on the closed forms of `NAMED`, and not below, at d = 4 and ranks 1 and 3."""
    d, n, sigma = 4, 10, 0.4
    for name in NAMED:
        chosen = resolve(name, Shape(2, 2))
        loss = PopulationLoss(PromptMoments(d, n, sigma), toy_heads(chosen))
        for rank in (1, 3):
            said = optimum(chosen, d, n, sigma, rank).explained * factor
            found = zero_loss(d, n, sigma) - minimise(loss, rank, starts=4).value
            signal = zero_loss(d, n, sigma)
            if not -1e-4 * signal <= found - said <= 1e-9 * signal or (factor == 1 and said < 0):
                return False
    return True


def _eyes(d: int, a: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """I (d, d), its first a rows, and no rows of B, in fractions."""
    eye = np.eye(d, dtype=int).astype(object) + Fraction(0)
    return eye, eye[:a], np.zeros((d - a, d), dtype=object) + Fraction(0)


def one_resformer_head_attains(cancel: Callable[[int], Fraction]) -> bool:
    """A = (I_a 0), B = 0, one K; the raw half reads out lambda I, the copied half -lambda times `cancel` on row i."""
    heads = (Head(1, 0, key="k"), Head(0, 1, key="k"))
    for d, n, sigma in TASKS:
        lam = Fraction(1) / (n + d + 1 + sigma**2)
        for a in range(d + 1):
            eye, top, bottom = _eyes(d, a)
            copied = np.diag([-lam * cancel(i < a) for i in range(d)])
            weights = Weights(top, bottom, np.stack([copied, lam * eye]), eye[None, :, :a])
            said = d**2 + d * sigma**2 - n * lam * a * d
            if exact_loss(heads, d, n, sigma).value(weights) != said:
                return False
    return True


def svformer_excess(power: int) -> bool:
    """A = beta (I_a 0), W = lambda / beta^2 I: the excess is lambda^2 a n (n + d + 1) / beta^power."""
    beta = Fraction(5, 2)
    for d, n, sigma in TASKS:
        lam = Fraction(1) / (n + d + 1 + sigma**2)
        for a in range(d + 1):
            eye, top, bottom = _eyes(d, a)
            weights = Weights(beta * top, bottom, lam / beta**2 * eye[None], eye[None, :, :a])
            said = d**2 + d * sigma**2 - n * lam * a * d + lam**2 * a * n * (n + d + 1) / beta**power
            if exact_loss((Head(0, 1),), d, n, sigma).value(weights) != said:
                return False
    return True


def table_2_bytes(version: tuple[str, int, int]) -> bool:
    """SkipV1Former's LLaMA-350M caches so many bytes a token with this head kind at these bytes a number."""
    kind, size, said = version
    return cache(*model("llama-350m", f"skipv1+{kind}")).total * size == said


def table_2_saving(version: tuple[str, float]) -> bool:
    """SkipV1Former saves this share of the cache, to the digits given."""
    kind, said = version
    made, plan = model("llama-350m", f"skipv1+{kind}")
    full = cache(made, resolve("vanilla", made.shape)).total
    return round(1 - cache(made, plan).total / full, 3) == said


def dva_parameters(version: tuple[str, str, int]) -> bool:
    preset, variant, said = version
    return total_parameters(*model(preset, variant)) == said


def dva_by_hand(matrices: int) -> bool:
    """Model b of Table 1 from its parts: two embeddings, positions, twelve layers of d x d matrices and a norm."""
    d, vocab, layers, context = 768, 50_257, 12, 256
    return 2 * vocab * d + context * d + layers * (matrices * d * d + 2 * d) + 2 * d == 112_800_768


def _neutreno(j: Callable[[int], sympy.Matrix], tokens: int, first: sympy.Matrix, own: sympy.Matrix) -> sympy.Matrix:
    weights = sympy.Matrix(tokens, tokens, lambda i, k: sympy.Symbol(f"a{i}{k}") if k <= i else 0)
    lam = sympy.Symbol("lambda")
    return (weights - lam * j(tokens)) * own + lam * first - weights * own


def neutreno_vanishes_on_equal_values(j: Callable[[int], sympy.Matrix]) -> bool:
    """What Eqn. (8) adds is a multiple of V_1 - V_n, as its text says: nothing where the two are equal."""
    for tokens in (1, 2, 4):
        values = sympy.Matrix(tokens, 2, lambda i, k: sympy.Symbol(f"v{i}{k}"))
        if not _neutreno(j, tokens, values, values).expand().is_zero_matrix:
            return False
    return True


def neutreno_is_causal(j: Callable[[int], sympy.Matrix]) -> bool:
    """A token's output does not depend on later tokens' values."""
    for tokens in (2, 3):
        own, first = (sympy.Matrix(tokens, 1, lambda i, _, s=s: sympy.Symbol(f"{s}{i}")) for s in "vw")
        out = _neutreno(j, tokens, first, own).expand()
        if any(out[i].has(own[k], first[k]) for i in range(tokens) for k in range(i + 1, tokens)):
            return False
    return True
