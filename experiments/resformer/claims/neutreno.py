"""Claims on NeuTRENO as ResFormer writes it."""

from __future__ import annotations

from collections.abc import Callable

import sympy

from experiments.ledger.claim import Claim
from theory.resformer.paper import PAPER


def neutreno_term(
    j: Callable[[int], sympy.Matrix], tokens: int, first: sympy.Matrix, own: sympy.Matrix
) -> sympy.Matrix:
    """What Eqn. (8) adds to A_n V_n: lambda (V_1 - J V_n), a row a token, symbolic.

    Section 3.4 has it a multiple of V_1 - V_n.  It vanishes wherever V_1 = V_n if and only if J V = V for every V, so
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
    """What Eqn. (8) adds is a multiple of V_1 - V_n, as its text says: nothing where the two are equal."""
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
