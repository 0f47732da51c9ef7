"""Checks behind the ledger's entries on plans.  Each takes a version of the claim: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import sympy

from experiments.toys.checks import ROUNDING
from theory.plans.accounting import cache, total_parameters
from theory.plans.heads import Head, toy_heads
from theory.plans.names import model, resolve
from theory.plans.plan import Shape
from theory.prompts.moments import Array, PromptMoments
from theory.prompts.setting import zero_loss
from theory.skipv1.gap_weights import mha_approaching
from theory.toy.exact import RATIONAL_TASKS, closed_form, exact_loss
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights
from theory.toy.value_maps import optimum

NAMED = ("vanilla", "resformer", "svformer", "cla", "cla-v", "skipv0", "cross-layer", "skipkv1")


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
            if not -1e-4 * signal <= found - said <= ROUNDING * signal or (factor == 1 and said < 0):
                return False
    return True


def _eyes(d: int, a: int) -> tuple[Array, Array, Array]:
    """I (d, d), its first a rows, and no rows of B, in fractions."""
    eye = np.eye(d, dtype=int).astype(object) + Fraction(0)
    return eye, eye[:a], np.zeros((d - a, d), dtype=object) + Fraction(0)


def one_resformer_head_attains(cancel: Callable[[bool], Fraction]) -> bool:
    """A = (I_a 0), B = 0, one K; the raw half reads out lambda I, the copied half -lambda times `cancel` on row i."""
    heads = (Head(1, 0, key="k"), Head(0, 1, key="k"))
    for d, n, sigma in RATIONAL_TASKS:
        lam = Fraction(1) / (n + d + 1 + sigma**2)
        for a in range(d + 1):
            eye, top, bottom = _eyes(d, a)
            copied = np.diag([-lam * cancel(i < a) for i in range(d)])
            weights = Weights(top, bottom, np.stack([copied, lam * eye]), eye[None, :, :a])
            if exact_loss(heads, d, n, sigma).value(weights) != closed_form(d, n, sigma, a * d):
                return False
    return True


def svformer_excess(power: int) -> bool:
    """A = beta (I_a 0), W = lambda / beta^2 I: the excess is lambda^2 a n (n + d + 1) / beta^power."""
    beta = Fraction(5, 2)
    for d, n, sigma in RATIONAL_TASKS:
        lam = Fraction(1) / (n + d + 1 + sigma**2)
        for a in range(d + 1):
            eye, top, bottom = _eyes(d, a)
            weights = Weights(beta * top, bottom, lam / beta**2 * eye[None], eye[None, :, :a])
            said = closed_form(d, n, sigma, a * d) + lam**2 * a * n * (n + d + 1) / beta**power
            if exact_loss((Head(0, 1),), d, n, sigma).value(weights) != said:
                return False
    return True


def table_2_bytes(version: tuple[str, int, int]) -> bool:
    """LLaMA-350M's cache at two bytes a number, as vanilla and as SkipV1Former, with a head kind (empty: ungrouped)."""
    kind, before, after = version
    sizes = [cache(*model("llama-350m", name + kind)).total * 2 for name in ("vanilla", "skipv1")]
    return sizes == [before, after]


def table_2_by_hand(version: tuple[int, int, int, int]) -> bool:
    """24 layers at two bytes: keys everywhere, all values in layer 1, half of them in the 23 others."""
    key, value, before, after = version
    return (24 * (key + value) * 2, (24 * key + value + 23 * value // 2) * 2) == (before, after)


def beside_changes_nothing(c: int) -> bool:
    """With a large C made from W beside MHA: never below its infimum; W / c with c K comes within 1e-5 of it.

    E||P + C - W*||^2 = E||P - W*||^2 + ||C||^2 + 2 <C, E P>, all in exact numbers.
    """
    rng = np.random.default_rng(3)
    for d, n, sigma in RATIONAL_TASKS[1:]:
        loss = exact_loss((Head(1, 0),), d, n, sigma)
        for a in range(1, d):
            said = closed_form(d, n, sigma, a * (d - a))
            near = mha_approaching(d, n, sigma, a, Fraction(1000))
            weights = Weights(near.a, near.b, near.w[:1] / c, near.k[:1] * c)
            beside = weights.w[0] @ (1000 * rng.integers(1, 3, (d, d)).astype(object) + Fraction(0))
            total = loss.value(weights) + np.sum(beside**2) + 2 * np.sum(beside * _mean_map(weights, d, n, sigma))
            if not 0 <= total - said <= Fraction(1, 10**5):
                return False
    return True


def _mean_map(weights: Weights, d: int, n: int, sigma: Fraction) -> Array:
    """E P for one ordinary head at W0 = 0: E[x x^T] = I, E[y y^T] = (d + sigma^2) I, E[x y^T] = 0."""
    gram = n * np.eye(d, dtype=int).astype(object)
    gram[: weights.rank, : weights.rank] += n * weights.a @ weights.a.T
    gram[weights.rank :, weights.rank :] += n * (d + sigma**2) * weights.b @ weights.b.T
    return weights.w[0] @ gram @ weights.k[0] @ weights.a


def svformer_attains_nowhere(antisymmetric: bool) -> bool:
    """The proof's linear system has no solution, for any number of heads; exact, d = 1..3, all ranks, random A.

    Unknown is tau_{ijkl} for each i and l, antisymmetric in j, k; asked is sum_{k <= a} tau_jk A_km = delta_ij Pi'_ml.
    """
    rng = np.random.default_rng(5)
    for d in (1, 2, 3):
        for a in range(1, d + 1):
            top = sympy.Matrix(rng.integers(-3, 4, (a, d)).tolist()) + 7 * sympy.eye(d)[:a, :]
            projection = top.T * (top * top.T).inv() * top
            if all(_solvable(top, projection, i, column, antisymmetric) for i in range(d) for column in range(d)):
                return False
    return True


def _solvable(top: sympy.Matrix, projection: sympy.Matrix, i: int, column: int, antisymmetric: bool) -> bool:
    a, d = top.shape
    free = sympy.Matrix(d, d, lambda j, k: sympy.Symbol(f"t{j}{k}"))
    tau = free - free.T if antisymmetric else free
    asked = sympy.Matrix(d, d, lambda j, m: projection[m, column] if j == i else 0)
    return bool(sympy.linsolve(list(tau[:, :a] * top - asked), list(free)))


def dva_parameters(version: tuple[str, str, int]) -> bool:
    preset, variant, said = version
    return total_parameters(*model(preset, variant)) == said


def dva_by_hand(version: tuple[int, int, int, int]) -> bool:
    """Table 1 from its parts: two embeddings, positions, twelve layers of d x d matrices, biases, norms; a norm."""
    matrices, biases, norms, said = version
    d, vocab, layers, context = 768, 50_257, 12, 256
    layer = matrices * d * d + biases * d + norms * 2 * d
    return 2 * vocab * d + context * d + layers * layer + 2 * d == said


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
