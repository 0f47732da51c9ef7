"""Assumption 1, appendix A.1: what the first layer copies, by Eqn. (2), and what fits into d numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import sympy

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.setting import W0_ZERO
from theory.prompts.isserlis import PromptEngine
from theory.prompts.moments import Array
from theory.skipv1.paper import PAPER
from theory.toy.exact import rational
from theory.toy.population import Weights
from theory.toy.tokens import Prompt, context, draw, draw_weights, whole

if TYPE_CHECKING:
    from torch import Tensor


def first_layer(e: Tensor, *, positions: bool = False) -> Tensor:
    """Return the output of two heads of Eqn. (2) with fixed random weights; `positions`: a head more that looks a token
    back.

    Proof that it cannot copy.  The output is H E with one matrix for all tokens, H = sum_h V_h E P E^T K_h, and H is
    quadratic in E; so the output is cubic in the prompt, where Assumption 1 is linear in it.  For a given prompt with d
    independent x's, H x_t = x_t for all t makes H = I, and then H y_t = y_t.
    """
    import torch

    from icl.prompts import Generator
    from icl.toys.literal import linear_attention

    w = Generator(12).normal((7, e.shape[-2], e.shape[-2]), torch.float64)
    out = linear_attention(e, e, w[0], w_k=w[1], w_v=w[2]) + linear_attention(e, e, w[3], w_k=w[4], w_v=w[5])
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
    """Return E + C times each token's predecessor: a residual and a head that looks one token back."""
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


def free_query_rank(version: tuple[bool, Callable[[int, int], int]]) -> bool:
    """The rank of the map from S_yx to P with any d x d matrices M^h, in ordinary heads (False) or skip heads (True).

    Of the proof in `theory.skipv1.gap` only (4) mentions M^h: an ordinary head still sees S_yx through B S_yx A^T
    alone, a skip head through S_yx A^T, whatever M^h is.  Both lower bounds stand, and the weights of (5) and (6) are
    among the new ones.
    """
    raw, rank_of = version
    rng = np.random.default_rng(31)
    for d in (1, 2, 3):
        for a in range(d + 1):
            w = draw_weights(rng, a, d)
            top, bottom = w.a + 9 * np.eye(a, d, dtype=int), w.b + 9 * np.eye(d - a, d, dtype=int)
            u_x, u_y = np.concatenate([top, 0 * bottom]), np.concatenate([0 * top, bottom])
            if _map_rank(u_x, u_y, raw, rng) != rank_of(a, d):
                return False
    return True


def _map_rank(u_x: Array, u_y: Array, raw: bool, rng: np.random.Generator) -> int:
    """Return the rank of S_yx -> odd part of P for u = u_x x + u_y y, free M^h, heads enough; raw: the values are y."""
    d = u_x.shape[1]
    heads = [(whole(rng, d, d), whole(rng, d, d)) for _ in range(d * d + 1)]
    rows = []
    for i in range(d):
        for j in range(d):
            s = np.zeros((d, d), dtype=object)
            s[i, j] = 1
            part = s @ u_x.T if raw else u_x @ s.T @ u_y.T + u_y @ s @ u_x.T
            rows.append(np.concatenate([(w @ part @ m).ravel() for w, m in heads]))
    return int(sympy.Matrix(rows).rank())


ASSUMPTION1_QUERY = Claim(
    "skipv1.assumption1-query",
    PAPER.name,
    place="appendix A.1, Assumption 1, last token, against the remark that only the y_i copy",
    statement="Copying changes the y_i alone, and turns x_{n+1} into (A x_{n+1} ; 0).",
    assumes="W0 = 0 for what is said of the losses",
    verdict="corrected",
    correction="These two exclude each other: x_{n+1} stands where x_1, ..., x_n stand, which stay.  If it stays "
    "too, M^h is any matrix and N_3 can have rank 2 at d = 2, a = 1, so that the proof's rank argument fails; but "
    "the map from S_yx to P keeps its rank, a (d - a) or a d, so that neither bound of theory.skipv1.gap changes.",
    proof=free_query_rank,
    uses=("skipv1.mha-infimum", "skipv1.skipv1-minimum"),
)


@ASSUMPTION1_QUERY.check(
    "the rank of N_3 is at most a; exact, whole numbers",
    states="compressed",
    control="raw",
    wrong="a query that stays x_{n+1}",
    kind="exact",
)
def n3_rank_is_at_most_a(query: str) -> bool:
    """The rank of the part of P that is odd in Y, for MHA, with the query (A x ; 0) or with x itself."""
    rng = np.random.default_rng(30)
    for a, d in ((1, 2), (1, 3), (2, 4)):
        w, p = draw_weights(rng, a, d), draw(rng, d, d)
        end = w.a if query == "compressed" else np.eye(d, dtype=object)
        keys = w.k if query == "compressed" else whole(rng, 2, d, d)
        whole_query = Weights(w.a, w.b, w.w, keys @ end)
        if sympy.Matrix(_odd_part(p, whole_query)).rank() > a:
            return False
    return True


def _odd_part(p: Prompt, w: Weights) -> Array:
    """Return twice the odd part of sum_h W^h G M^h, with M^h in place of the keys: (d, d)."""
    plus, minus = p.labels(w.a, w.b), p.labels(w.a, -w.b)
    total: Array = sum(w.w[h] @ (plus @ plus.T - minus @ minus.T) @ w.k[h] for h in range(len(w.w)))
    return total


ASSUMPTION1_QUERY.check(
    "MHA with any M^h: the map from S_yx to P has rank a (d - a); exact, d = 1..3",
    states=(False, lambda a, d: a * (d - a)),
    control=(False, lambda a, d: a * d),
    wrong="a d",
    kind="exact",
)(free_query_rank)
ASSUMPTION1_QUERY.check(
    "SkipV1Former with any M^h: rank a d; exact, d = 1..3",
    states=(True, lambda a, d: a * d),
    control=(True, lambda a, d: d * d),
    wrong="d^2",
    kind="exact",
)(free_query_rank)


def general_copy_supremum(n: int, v: float, root: float, cross: float) -> float:
    """The supremum at d = 1 of what u = alpha x + beta y lets MHA explain: n^2 / (v + (root + cross) / 2).

    root is sqrt(E X^2 E Y^2) and cross is E XY, with X = S_xx and Y = S_yy; v is the variance of S_yx.

    Any d.  With u = A' x + B' y, both d x d, the odd part of sum_t u_t u_t^T is A' S_xy B'^T + its transpose: a
    symmetric matrix, d (d + 1) / 2 numbers.  So T has at most that rank, and (3) of `theory.skipv1.gap` gives MHA at
    most rho d (d + 1) / 2.

    d = 1.  All heads together read mu G, G = (1 + alpha^2) X + beta^2 Y + 2 alpha beta S_yx.  The best mu explains
        E[G W*]^2 / E[G^2] = n^2 / (v + E(p X + q Y)^2 / 4),    p = (1 + alpha^2) / (alpha beta), q = beta / alpha,
    where p q = 1 + alpha^-2 > 1 is all that binds p and q.  E(p X + q Y)^2 = p^2 E X^2 + q^2 E Y^2 + 2 p q E XY is at
    least 2 p q (sqrt(E X^2 E Y^2) + E XY), with equality for one p / q; so the supremum, not attained, is
        n^2 / (v + (sqrt(E X^2 E Y^2) + E XY) / 2) < n^2 / v = rho.                                                 QED
    """
    return n**2 / (v + (root + cross) / 2)


ASSUMPTION1_BLOCKS = Claim(
    "skipv1.assumption1-blocks",
    PAPER.ours,
    place="bears on Assumption 1, appendix A.1: of d numbers, a are spent on x_t and d - a on y_t",
    statement="If the copy may be any linear u = A' x + B' y, both d x d, MHA explains at most rho d (d + 1) / 2, "
    "so that the gap to SkipV1Former's optimum is still at least rho d (d - 1) / 2.  That is more than blocks "
    "allow: at d = 1, where they explain nothing, the supremum is n^2 / (v + (sqrt(E X^2 E Y^2) + E XY) / 2) < "
    "rho, X = S_xx, Y = S_yy, v = n/lambda.",
    assumes=W0_ZERO.replace("Assumption 1", "x_t stays in its token"),
    verdict="verified",
    proof=general_copy_supremum,
    uses=("skipv1.mha-infimum", "skipv1.skipv1-minimum"),
)


@ASSUMPTION1_BLOCKS.check(
    "the map from S_yx to P has rank d (d + 1) / 2 at most, and exactly that for u = x + y; exact, d = 1..3",
    states=lambda d: d * (d + 1) // 2,
    control=lambda d: d**2 // 4,
    wrong="floor(d^2/4), the most that blocks allow",
    kind="exact",
)
def general_copy_rank(rank_of: Callable[[int], int]) -> bool:
    """u = A' x + B' y with any A' and B'; the identity twice has full rank."""
    rng = np.random.default_rng(32)
    for d in (1, 2, 3):
        eye = np.eye(d, dtype=object)
        ranks = [_map_rank(whole(rng, d, d), whole(rng, d, d), False, rng) for _ in range(3)]
        if max(ranks) > rank_of(d) or _map_rank(eye, eye, False, rng) != rank_of(d):
            return False
    return True


@ASSUMPTION1_BLOCKS.check(
    "d = n = 1, sigma = 0, by pairing: below 1/(3 + (sqrt(27) + 3)/2) = 0.141, and within 1 % of it",
    states=lambda root: general_copy_supremum(1, 3, root, 3),
    control=lambda root: 1 / 3,
    wrong="rho, as if nothing were lost",
    kind="exact",
)
def general_copy_explains(supremum: Callable[[float], float]) -> bool:
    """d = n = 1, sigma = 0: what u = alpha x + beta y lets MHA explain is below the supremum, and within 1 % of it.

    By pairing, at alpha = 10 and betas around the best one; 1 + alpha^-2 sets the 1 %.
    """
    engine = PromptEngine(1)
    values = [(engine.n, 1), (engine.sigma, 0), (engine.w0[0][0], 0)]

    def mean(*kinds: str) -> Fraction:
        return rational(engine.expect(*((kind, 0, 0) for kind in kinds)), values)

    shares, alpha = [], 10
    for beta in (Fraction(k, 10) for k in range(20, 150, 5)):
        terms: dict[str, Fraction] = {"xx": Fraction(1 + alpha**2), "yy": beta**2, "yx": 2 * alpha * beta}
        hit = sum(c * mean(kind, "w") for kind, c in terms.items())
        power = sum(c * e * mean(f, g) for f, c in terms.items() for g, e in terms.items())
        shares.append(float(hit**2 / power))
    bound = supremum(float(mean("xx", "xx") * mean("yy", "yy")) ** 0.5)
    return 0.99 * bound <= max(shares) < bound
