"""Whether SkipV1Former's first layer can copy, as Assumption 1 (appendix A.1) and appendix A.2 say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from theory.prompts.moments import Array
from theory.skipv1.paper import PAPER
from theory.toy.tokens import context, draw, whole

if TYPE_CHECKING:
    from torch import Tensor


def first_layer(e: Tensor, *, positions: bool = False) -> Tensor:
    """Two heads of Eqn. (2) with fixed random weights; with `positions`, a head more that looks one token back.

    Proof that it cannot copy.  The output is H E with one matrix for all tokens, H = sum_h V_h E P E^T K_h, and H is
    quadratic in E; so the output is cubic in the prompt, where Assumption 1 is linear in it.  For a given prompt with d
    independent x's, H x_t = x_t for all t makes H = I, and then H y_t = y_t.
    """
    import torch

    from icl.prompts import Generator
    from icl.toys.literal import linear_attention

    w = Generator(12).normal((7, e.shape[-2], e.shape[-2]), torch.float64)
    out = linear_attention(e, e, w[0], w[1], w[2]) + linear_attention(e, e, w[3], w[4], w[5])
    return out + w[6] @ torch.roll(e, 1, dims=-1) if positions else out


ASSUMPTION1 = Claim(
    "skipv1.assumption1",
    PAPER.name,
    place="appendix A.1, Eqn. (2) and Assumption 1",
    statement="The first layer can copy: keep x_t in its token while y_t's token becomes (A x_t ; B y_t).",
    assumes="the first layer is Eqn. (2): linear attention without positions, residual or normalisation",
    verdict="refuted",
    correction="Eqn. (2) multiplies every token by one d x d matrix, which is quadratic in the prompt.  So its "
    "output is cubic in the prompt, where Assumption 1 is linear; and for a given prompt with d independent x's, "
    "keeping them makes the matrix the identity, which leaves every y as it is.",
    proof=first_layer,
)


def _tokens() -> Tensor:
    import torch

    from icl.prompts import Generator

    return Generator(13).normal((1, 3, 9), torch.float64)


@ASSUMPTION1.check(
    "doubling the prompt multiplies the layer's output by eight",
    states=3,
    control=1,
    wrong="by two, as Assumption 1 needs",
    kind="float64",
)
def first_layer_has_degree(degree: int) -> bool:
    """Doubling the prompt multiplies the output by 2^degree, to the bit."""
    e = _tokens()
    return bool((first_layer(2 * e) == 2**degree * first_layer(e)).all())


@ASSUMPTION1.check(
    "the layer's output is one matrix times its input, at random weights",
    states="no positions",
    control="positions",
    wrong="a layer with a head that looks one token back",
    kind="float64",
)
def first_layer_is_one_matrix(kind: str) -> bool:
    """Does the matrix that the first d tokens of the output demand explain the others?"""
    import torch

    e = _tokens()
    out = first_layer(e, positions=kind == "positions")
    matrix = torch.linalg.solve(e[..., :3], out[..., :3], left=False)
    error = torch.linalg.norm(matrix @ e - out)
    return bool(error <= 1e4 * torch.finfo(torch.float64).eps * torch.linalg.norm(out))


def look_back(e: Array, matrix: Array) -> Array:
    """E + C times each token's predecessor: a residual and a head that looks one token back.

    y_t's predecessor is x_t, so its token becomes y_t + C x_t; and x_t's is y_{t-1}, so that x_t does not stay.
    """
    return e + np.concatenate([0 * e[:, :1], (matrix @ e)[:, :-1]], axis=1)


A2_COPYING = Claim(
    "skipv1.a2-copying",
    PAPER.name,
    place="appendix A.2, third paragraph: linear copying at the first layer's output, with residual connections",
    statement="Assumption 1's linear copying is what the first layer of deep Transformers with residual "
    "connections does.",
    assumes="an observation on trained networks, by others: not judged",
    verdict="inconclusive",
    correction="A residual connection alone does not make Eqn. (2) copy: each token is still multiplied by one "
    "matrix (skipv1.assumption1).  A residual and a head that looks one token back make y_t + C x_t, linear in "
    "the prompt, but of the form of skipv1.assumption1-blocks, with y_t whole, and not of Assumption 1's blocks; "
    "and x_t becomes x_t + C y_{t-1}.",
    proof=look_back,
    uses=("skipv1.assumption1", "skipv1.assumption1-blocks"),
)


@A2_COPYING.check(
    "E + TF_1(E) is one matrix times E, without positions; whole numbers, exact",
    states="no positions",
    control="positions",
    wrong="with a head that looks one token back",
    kind="exact",
)
def residual_layer_is_one_matrix(kind: str) -> bool:
    """Does the matrix that the first d tokens of E + TF_1(E) demand explain the others?  Whole numbers, exact."""
    rng, d = np.random.default_rng(83), 2
    for _ in range(3):
        p, w_k, w_v = draw(rng, d, 3), whole(rng, d, d), whole(rng, d, d)
        e = p.tokens
        e[:, :d] = e[:, :d] + 9 * np.eye(d, dtype=int)
        out = e + w_v @ e @ context(e) @ (e.T @ w_k @ e) if kind == "no positions" else look_back(e, w_v)
        matrix = sympy.Matrix(out[:, :d]) * sympy.Matrix(e[:, :d]).inv()
        if matrix * sympy.Matrix(e) != sympy.Matrix(out):
            return False
    return True


@A2_COPYING.check(
    "what a residual and a look-back head make of the tokens; whole numbers, exact",
    states="mixed",
    control="kept",
    wrong="x_t kept, as in Assumption 1",
    kind="exact",
)
def look_back_makes(inputs: str) -> bool:
    """It turns y_t's token into y_t + C x_t, and x_t's into x_t + C y_{t-1} or, as Assumption 1 has it, x_t; exact."""
    rng = np.random.default_rng(84)
    for d, n in ((2, 2), (3, 4), (3, 3)):
        p, c = draw(rng, d, n), whole(rng, d, d)
        out = look_back(p.tokens, c)
        before = np.concatenate([0 * p.y[:, :1], p.y[:, :-1]], axis=1)
        x = p.x + c @ before if inputs == "mixed" else p.x
        if (out[:, 1::2] != p.y + c @ p.x).any() or (out[:, 0:-1:2] != x).any():
            return False
    return True
