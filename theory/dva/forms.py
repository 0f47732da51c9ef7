"""The revised form of dynamic values beside the initial one, which it replaces: neither makes what the other makes.

Notation of `theory.dva.heads` and `theory.dva.collapse`: for a query's token x and softmax weights s a head gives
    revised    sum_j s_j (V x_j + (Q x) * (K x_j))
    initial    sum_j s_j <Q x, V x_j> K x_j.
A token that sees itself alone gets V x + (Q x) * (K x) of the first and <Q x, V x> K x of the second (`alone_initial`).

Theorem.  If tokens are free and a head of the one form and a head of the other give every token alone the same, both
give it 0.
    Proof.  The first is a polynomial of x with terms of degree 1 and 2, the second of degree 3.  They are equal for all
x only if the terms of each degree are.                                                                       QED
On tokens of one length r, where -x is there with x, the parts even and odd in x have to be equal: so the initial form
makes no revised head whose (Q x) * (K x) is not 0.  In the other direction degrees may mix: <Q x, V x> is r^2 c where
Q^T V = c I, and the initial form then gives the linear map c r^2 K x.

The paper calls the revised form the same idea in a simpler shape, and powerful.  It is another function: for one query
what it gives to a key's token is linear in that (`theory.dva.collapse.of_one_query`), and of the initial form
quadratic.  What either can do that ordinary heads cannot is in `theory.dva.heads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]


def alone_initial(value: Array, query: Array, key: Array, x: Array) -> Array:
    """Return the output (w,) of a head of the initial form for a token (d,) that sees itself alone; matrices (w, d)."""
    return (query @ x) @ (value @ x) * (key @ x)
