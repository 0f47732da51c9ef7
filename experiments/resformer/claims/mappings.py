"""Claims on what else the paper puts into its frame: the identity mapping (Eqn. 6) and DenseFormer (Eqn. 9)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import sympy

from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUES
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.resformer.paper import PAPER

Weights = dict[int, Fraction]  # by layer of the values


def weights_on_tokens(plan: Plan, layer: int) -> tuple[Weights, Weights]:
    """What a head's output weighs of each layer: values that are attended to, and values of the token itself."""
    head = plan.head(layer, 1)
    attended, beside = (
        {t.source.layer: Fraction(t.start).limit_denominator(100) for t in mix.terms}
        for mix in (head.values[0], head.beside)
    )
    return attended, beside


def shared(number: int, layers: int) -> Weights:
    """The same of each of the first layers, `number` in all."""
    return {n: Fraction(number, layers) for n in range(1, layers + 1)}


EQN_6 = Claim(
    "resformer.eqn6-mapping",
    PAPER.name,
    place="section 4.3, on Eqn. (6), and Eqn. (6) itself",
    statement="Eqn. (6) maps historical values by a matrix of ones; it is a naive form of the same mapping.",
    assumes="the plans of the two equations, one head",
    verdict="corrected",
    correction="By the identity, as section 3.2 says: a token gets its own earlier values.  The weights of Eqn. (6) "
    "sum to two in each row, those of Eqns. (2) to (5) to one, so that the comparison of Fig. 8 changes the scale of "
    "what is added as well as its mapping.",
    proof=weights_on_tokens,
    unjudged=OF_VALUES,
)


@EQN_6.check(
    "the weights in a row: of what is attended to, and beside it, in the plans of Eqns. (6) and (5), layers 2 to 4",
    states=Fraction(1),
    control=Fraction(1, 2),
    wrong="weights that sum to one in both",
    kind="exact",
)
def rows_sum(each: Fraction) -> bool:
    """Eqn. (6): `each` of layer n attended to and as much of the token's own earlier values; Eqn. (5): 1/n of all."""
    for n in (2, 3, 4):
        naive, mean = (
            weights_on_tokens(resolve(name, Shape(4, 1)), n) for name in ("identity-mapping", "resformer-all")
        )
        if naive != ({n: each}, {m: each * share for m, share in shared(1, n - 1).items()}) or mean != (
            shared(1, n),
            {},
        ):
            return False
    return True


@EQN_6.check(
    "Eqn. (6) with the mapping in question, on two tokens: a token's output has no part of the other's earlier values",
    states=sympy.eye,
    control=sympy.ones,
    wrong="a matrix of ones, as section 4.3 says",
    kind="exact",
)
def own_values_only(mapping: Callable[[int], sympy.Matrix]) -> bool:
    """The plan reads beside its attention what the formula with this mapping reads: the same token alone."""
    earlier = sympy.Matrix(sympy.symbols("v:2"))
    read = mapping(2) * earlier
    return all(read[i].free_symbols == {earlier[i]} for i in range(2))


def dense_former(layers: int) -> list[sympy.Expr]:
    """Y_1, ..., Y_L of depth-weighted averaging without projections and feed-forward: in X_0 and u_n = A_n V_n."""
    start = sympy.Symbol("x0")
    outputs, states = [start], [start]
    for n in range(1, layers + 1):
        outputs.append(states[-1] + sympy.Symbol(f"u{n}"))
        states.append(sympy.expand(sum(sympy.Symbol(f"a{n}{i}") * x for i, x in enumerate(outputs))))
    return states[1:]


EQN_9 = Claim(
    "resformer.eqn9-denseformer",
    PAPER.name,
    place="section 3.4, Eqn. (9)",
    statement="Without projections and feed-forward DenseFormer is U_n = sum_i alpha_i A_i V_i.",
    assumes="layers with residual connections, then a weighted sum of all layers' outputs, as DenseFormer has them",
    verdict="corrected",
    correction="The embedding is among the terms, and every layer has weights of its own, so that A_i V_i has another "
    "weight at each n; they are learned, no hyper-parameters.  Right is that A_i maps V_i.",
    proof=dense_former,
)


@EQN_9.check(
    "three layers written out: whether the embedding is there and the weights of A_1 V_1 change with the layer",
    states=(True, True),
    control=(False, False),
    wrong="neither, as printed",
    kind="exact",
)
def written_out(version: tuple[bool, bool]) -> bool:
    states = dense_former(3)
    start, first = sympy.Symbol("x0"), sympy.Symbol("u1")
    embedding = all(state.coeff(start) != 0 for state in states)
    return (embedding, len({state.coeff(first) for state in states}) == 3) == version


@EQN_9.check(
    "two layers by hand: the second state is a22 u2 + (a21 + a22 a11) u1 + ... of the embedding",
    states=lambda a: a(2, 1) + a(2, 2) * a(1, 1),
    control=lambda a: a(1, 1),
    wrong="the weight that the first layer's state gives it, as one alpha_1 for all layers would",
    kind="exact",
)
def second_state_by_hand(weight: Callable[[Callable[[int, int], sympy.Expr]], sympy.Expr]) -> bool:
    state = dense_former(2)[1]
    first, second = sympy.symbols("u1 u2")
    found = state.coeff(first), state.coeff(second)
    return sympy.expand(found[0] - weight(_symbol)) == 0 and found[1] == _symbol(2, 2)


def _symbol(layer: int, of: int) -> sympy.Expr:
    return sympy.Symbol(f"a{layer}{of}")
