"""Claims on NeuTRENO as ResFormer writes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUES
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.resformer import smoothing
from theory.resformer.paper import PAPER


def neutreno_term(
    j: Callable[[int], sympy.Matrix], tokens: int, first: sympy.Matrix, own: sympy.Matrix
) -> sympy.Matrix:
    """What Eqn. (8) adds to A_n V_n: lambda (V_1 - J V_n), a row a token, symbolic.

    Section 2.1 has it a multiple of V_1 - V_n.  It vanishes wherever V_1 = V_n if and only if J V = V for every V, so
    J = I.  With ones every row of J V_n is the sum of all rows of V_n, later ones too, whatever the attention's mask.

    j: the size of J -> J; first and own, V_1 and V_n: (tokens, width) -> the same shape
    """
    weights = sympy.Matrix(tokens, tokens, lambda i, k: sympy.Symbol(f"a{i}{k}") if k <= i else 0)
    lam = sympy.Symbol("lambda")
    return (weights - lam * j(tokens)) * own + lam * first - weights * own


NEUTRENO_EQN_8 = Claim(
    "resformer.neutreno-eqn8",
    PAPER.name,
    place="section 3.4, Eqn. (8)",
    statement="NeuTRENO is U_n = (A_n - lambda J) V_n + lambda V_1 with J a matrix of ones.",
    assumes="causal attention",
    verdict="corrected",
    correction="J is the identity: lambda (V_1 - V_n) is added token by token.  With ones, every token would lose "
    "the sum of all tokens' values, later ones too.",
    proof=neutreno_term,
)


@NEUTRENO_EQN_8.check(
    "what is added vanishes where V_n = V_1",
    states=sympy.eye,
    control=sympy.ones,
    wrong="J of ones, as printed",
    kind="exact",
)
def neutreno_vanishes_on_equal_values(j: Callable[[int], sympy.Matrix]) -> bool:
    """What is added is a multiple of V_1 - V_n, as section 2.1 says: nothing where the two are equal."""
    for tokens in (1, 2, 4):
        values = sympy.Matrix(tokens, 2, lambda i, k: sympy.Symbol(f"v{i}{k}"))
        if not neutreno_term(j, tokens, values, values).expand().is_zero_matrix:
            return False
    return True


@NEUTRENO_EQN_8.check(
    "no token's output depends on later tokens",
    states=sympy.eye,
    control=sympy.ones,
    wrong="J of ones, as printed",
    kind="exact",
)
def neutreno_is_causal(j: Callable[[int], sympy.Matrix]) -> bool:
    """A token's output does not depend on later tokens' values."""
    for tokens in (2, 3):
        own, first = (sympy.Matrix(tokens, 1, lambda i, _, s=s: sympy.Symbol(f"{s}{i}")) for s in "vw")
        out = neutreno_term(j, tokens, first, own).expand()
        if any(out[i].has(own[k], first[k]) for i in range(tokens) for k in range(i + 1, tokens)):
            return False
    return True


FIG_21 = Claim(
    "resformer.neutreno-lambda",
    PAPER.name,
    place="section 3.4, after Eqn. (8), and appendix A.3, Fig. 21",
    statement="NeuTRENO is sensitive to lambda, its loss lowest at 0.4; the term in V_n may harm the learning of the "
    "attention.",
    assumes="the training of section 4.1.1, one run each",
    verdict="open",
    correction="Training decides it, and none here varies lambda.  What holds without, for attention alone: lambda = 0 "
    "is vanilla; any other keeps lambda / (1 + lambda) of what attention tells nothing of, 0.29 at 0.4 and 0.375 at "
    "0.6, and takes A_n's diagonal below zero where a token's attention to itself is below lambda.",
    proof=smoothing.neutreno_limit,
    uses=("resformer.neutreno-eqn8", "resformer.neutreno-depth"),
    unjudged={**OF_VALUES},
)


@FIG_21.check(
    "what 60 layers leave of eigenvalue 0 at lambda = 0.2, 0.4 and 0.6, by the plans' filters and in closed form",
    states=lambda weight: weight / (1 + weight),
    control=lambda weight: weight,
    wrong="lambda itself",
    kind="float64",
)
def what_is_kept_of_nothing(share: Callable[[float], float]) -> bool:
    for weight in (0.2, 0.4, 0.6):
        deep = smoothing.depth_filters(resolve(f"neutreno:weight={weight}", Shape(60, 1)))[-1](0.0)
        if max(abs(found - share(weight)) for found in (deep, smoothing.neutreno_limit(0.0, weight))) > 1e-9:
            return False
    return True


@FIG_21.check(
    "the weight of V_1, and the least that a token's own value has in Eqn. (8), where it attends to itself with 0.1; "
    "by the plan",
    states=(0.4, 0.1 - 0.4),
    control=(0.4, 0.1),
    wrong="none below zero",
    kind="float64",
)
def diagonal_below_zero(weights: tuple[float, float]) -> bool:
    head = resolve("neutreno", Shape(3, 1)).head(3, 1)
    beside = {t.source.layer: t.start for t in head.beside.terms}
    own = 0.1 * sum(t.start for t in head.values[0].terms) + beside[3]
    return bool(np.allclose((beside[1], own), weights, rtol=0, atol=1e-15))
