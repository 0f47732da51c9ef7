r"""The plateau of associative recall: the signal that first tells two layers which value belongs to which key.

Prompts are those of `theory.plans.recall`: n pairs, then query i at token t, for i = 1, ..., n.  Pairs, the order of
the queries and the symbols are drawn independently.  A decoder has two layers of causal softmax attention, a residual
stream, and no positions, norms or feed-forwards; z_v is the score of value v at a query.  Its **lead** is

    E [z_right - the mean of z_v over the n values of the prompt],

the mean over prompts.  At a plateau, where all values of a prompt are equally likely, n - 1 n-ths of a lead are what
the loss falls by, to first order.

C = sum_h O_1h V_1h is what layer 1 copies.  A token's own code x is *raw*, C x *copied*; what a plan takes from layer 1
is always raw.  In a head of layer 2, M(k, s) is the score of a query's key k for a symbol s, and N(v, s) the score of
value v that it reads from s.  A prompt enters by pairs of such products, whose contrasts count:

    tau(M) = mean of M(k, k) minus mean of M(k, k'),                        k' != k, both keys (or both values)
    chi(M, N) = mean of M(k, v) N(v, k), minus that with another k', minus that with another v', plus that with both
    J(x, y) = tau(M(key, x key)) tau(N(value, y value)) + chi(M(key, y value), N(value, x key)),    x, y: raw or copied

J(x, y) finds the key as x says and reads the value as y says; or it finds the value and reads the key, which is a table
of all keys and values.

**Theorem 1 (interleaved).**  Where the attention of both layers is uniform, the lead is zero, and its derivative by the
scores of layer 2 is, summed over its heads and over raw and copied queries,

    sum of  rho [A J(copied, raw) + B J(raw, copied) + C' J(copied, copied)]

    A  = (H_n - 1) / (2 n t) > 0                          *lookup*: a key's copy beside its raw value
    B  = - sum_q (q - 1) / (2q - 1) / (n^2 t) < 0         *elimination*: a raw key beside copies of the values before it
    C' = `blurred_share`                                  copies beside copies: means of what came so far

with H_n = 1 + 1/2 + ... + 1/n, rho = 1 for raw queries and (n - i) / ((n - 1) t) for copied ones.

*Proof.*  (0) A function of the queries so far and the set of the pairs' tokens leads by nothing: given both, each of
the n values is the right one equally often.  So does a function of the pairs alone, of which the query is independent.
With uniform attention in layer 2 the state is a sum of such functions.
(1) The derivative is (1/t) sum_j (s_j - mean s) r_j, s the scores and r the readings for a value v_l, which is
symmetric in s and r.  Let the query be raw, of pair q.  Symbols are drawn independently of places, so a product M(k_q,
.) N(v_l, .) has a mean that depends on which of its symbols are equal.  To lead it must depend on q and on l: so one
symbol is a key, which is k_q or is not, and one a value, which is v_l or is not.  Of M(k_q, k_a) N(v_l, v_b) the mean
is a constant, plus what leads by nothing, plus tau tau [a = q] [b = l]; of M(k_q, v_b) N(v_l, k_a) likewise with chi.
This is J.
(2) Its factor is (1/t) sum_j (e_j - mean e) f_j, where e says how much of k_q token j holds and f how much of v_l: raw,
[j = 2q - 1] and [j = 2l]; copied, [j >= 2q - 1]/j and [j >= 2l]/j.  The query's own token, t, adds what does not depend
on q; there every value is held equally.  Raw keys and raw values: no token holds both, and the means are constants.
    A: v_l has 1/2l if l >= q.  For q = l that is 1/2q; on average over l, sum_{l >= q} 1/(2 l n), and summed over q,
    sum_l l / (2 l n) = 1/2.  So n t A = H_n/2 - 1/2.  The mean of e counts for all l alike.
    B: at token 2q - 1 stand the values l < q, each with 1/(2q - 1), not v_q.  The mean of e does not depend on q.
    C': the sums as they are.
(3) A copied query is a mean over all tokens so far: of k_q twice, of the i - 1 keys that were asked for before twice,
of all others once, and of values, which say nothing of q.  Once each leads by nothing.  Of k_q once more: the lead of
(2), divided by t.  Of one of the i - 1 keys once more: it is any other key equally often, so the lead is -1/(n - 1)
times as large.  Together rho.  QED

**Theorem 2 (order).**  Let all matrices of both layers be epsilon times given ones.  Then on interleaved prompts the
lead is c epsilon^6 + O(epsilon^8), with c the terms of A and B for a raw query.  On paired prompts it is c epsilon^4 +
O(epsilon^6), with c = (n - 1)/(n t) times the sum of J(raw, raw) over the heads of *both* layers.

*Proof.*  A lead needs scores in layer 2 (epsilon^2), a reading of values (epsilon^2) and, as raw keys and raw values
lead by nothing to any order, a copy (epsilon^2).  Uneven attention in layer 1, the second order of the softmax and
copied queries are epsilon^2 more.  In the paired form token j holds k_j and v_j raw, so that e_j = [j = q] and f_j = [j
= l] in (2), for either layer.  QED

**What follows for value maps.**  The number of factors that have to grow is the same for vanilla, SVFormer,
SkipV1Former and ResFormer: six, and four in the paired form.  A head that reads layer 1's values reads no copy: its
terms are tau tau in A and chi in B.  One with layer 1's keys finds no copy: tau tau in B and chi in A.  For vanilla's
heads, and ResFormer's, all are there.  So a skip changes no order; it removes terms.

How long the terms take to grow, and which of them delays whom, is not proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from theory.errors import BadInput, at_least
from theory.plans.mix import Gated, Learned, Mix
from theory.plans.plan import STREAM, Plan
from theory.plans.recall import Form

Array = NDArray[np.float64]


def _checked(n: int, query: int) -> int:
    """Return t, the token of a query of interleaved prompts."""
    at_least("n", n, 2)
    at_least("query", query, 1)
    if query > n:
        raise BadInput(f"there are {n} queries, got number {query}")
    return 2 * n + query


def lookup_share(n: int, query: int) -> Fraction:
    """Return A, the weight of a copied key with a raw value, at query number `query` of n pairs.

    Raises:
        BadInput: for fewer than two pairs, or a query that does not exist.
    """
    t = _checked(n, query)
    return sum((Fraction(1, q) for q in range(2, n + 1)), Fraction(0)) / (2 * n * t)


def elimination_share(n: int, query: int) -> Fraction:
    """Return B, the negative weight of a raw key with a copied value.  Arguments as in `lookup_share`."""
    t = _checked(n, query)
    return -sum((Fraction(q - 1, 2 * q - 1) for q in range(2, n + 1)), Fraction(0)) / (n**2 * t)


def blurred_share(n: int, query: int) -> Fraction:
    """Return C', the weight of a copied key with a copied value.  Arguments as in `lookup_share`.

    Over tokens j: the covariance of scores, [j >= 2q - 1]/j, with readings of v_q beyond the mean reading.
    """
    t = _checked(n, query)
    total = Fraction(0)
    for q in range(1, n + 1):
        scores = [Fraction(j >= 2 * q - 1, j) for j in range(1, t + 1)]
        mean = sum(scores, Fraction(0)) / t
        for j, score in enumerate(scores, 1):
            ahead = (j >= 2 * q) - Fraction(min(j // 2, n), n)  # of v_q's share of token j, beyond the mean value's
            total += (score - mean) * ahead / j
    return total / (n * t)


def copied_query(n: int, query: int) -> Fraction:
    """Return rho_copied, the weight of a copied query relative to a raw one.  Arguments as in `lookup_share`."""
    t = _checked(n, query)
    return Fraction(n - query, (n - 1) * t)


def contrast(matrix: Array) -> float:
    """Return tau of a matrix between symbols of one kind, (count, count), count from 2."""
    return float(np.trace(_centred(matrix))) / (len(matrix) - 1)


def joint_contrast(found: Array, read: Array) -> float:
    """Return chi of scores of keys for values, (K, V), and of readings for values from keys, (V, K)."""
    keys, values = found.shape
    return float((_centred(found) * _centred(read).T).sum()) / ((keys - 1) * (values - 1))


def _centred(matrix: Array) -> Array:
    """Return a matrix minus the means of its rows and columns."""
    return np.asarray(matrix - matrix.mean(0) - matrix.mean(1, keepdims=True) + matrix.mean())


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of two layers.  Arrays are float64; maps are applied from the left, (out, in).

    Args:
        keys: Codes of keys, (K, d).
        values: Codes of values, (V, d).
        readout: Vectors by which values are scored, (V, d).
        query: Query maps of every layer and head, (2, H, width, d).
        key: Key maps, likewise.
        value: Value maps, likewise.
        output: Output maps, (2, H, d, width).
    """

    keys: Array
    values: Array
    readout: Array
    query: Array
    key: Array
    value: Array
    output: Array


def uniform_slope(plan: Plan, weights: Weights, n: int, query: int) -> float:
    """Return the derivative of the lead by the scores of layer 2, at uniform attention of both layers (Theorem 1).

    Args:
        plan: A plan of two layers.
        weights: Weights of any size; layer 1's queries do not matter.
        n: Pairs per interleaved prompt.
        query: Which query, from 1.

    Raises:
        BadInput: for sizes or plans that the theorem does not cover.
    """
    shares = {
        (1, 0): lookup_share(n, query),
        (0, 1): elimination_share(n, query),
        (1, 1): blurred_share(n, query),
    }
    rho = Fraction(1), copied_query(n, query)
    return sum(
        float(rho[copied] * share) * head.joint(copied, *holds)
        for head in _heads(plan, weights)
        for copied in (0, 1)
        for holds, share in shares.items()
    )


def leading_lead(plan: Plan, weights: Weights, n: int, query: int, form: Form = "interleaved") -> float:
    """Return c, the coefficient of the lead to leading order in the size of the weights (Theorem 2).

    Args:
        plan: A plan of two layers.
        weights: Weights that epsilon multiplies.
        n: Pairs per prompt.
        query: Which query, from 1.
        form: Form of the prompts; the lead is c epsilon^6 for interleaved ones and c epsilon^4 for paired ones.

    Raises:
        BadInput: for sizes or plans that the theorem does not cover.
    """
    lookup, elimination = float(lookup_share(n, query)), float(elimination_share(n, query))
    second = _heads(plan, weights)
    if form == "paired":
        raw = sum(head.joint(0, 0, 0) for head in [*_heads(plan, weights, layer=1), *second])
        return (n - 1) / (n * (n + query)) * raw
    return sum(lookup * head.joint(0, 1, 0) + elimination * head.joint(0, 0, 1) for head in second)


@dataclass(frozen=True, eq=False)
class _Head:
    """A head's maps of raw codes and of copied ones, in this order: (width, d) each, applied to the raw code."""

    query: tuple[Array, Array]
    key: tuple[Array, Array]
    value: tuple[Array, Array]
    output: Array
    weights: Weights

    def joint(self, query: int, keys: int, values: int) -> float:
        """Return J for the query, for keys and for values at tokens, each 0 if raw and 1 if copied."""
        weights = self.weights
        score = weights.keys @ self.query[query].T / len(self.output.T) ** 0.5
        by_key, by_value = score @ self.key[keys] @ weights.keys.T, score @ self.key[values] @ weights.values.T
        readout = weights.readout @ self.output
        of_values, of_keys = (
            readout @ self.value[values] @ weights.values.T,
            readout @ self.value[keys] @ weights.keys.T,
        )
        return contrast(by_key) * contrast(of_values) + joint_contrast(by_value, of_keys)


def _heads(plan: Plan, weights: Weights, layer: int = 2) -> list[_Head]:
    """Return every live head of a layer; nothing is copied before layer 1."""
    _covered(plan)
    d = weights.query.shape[-1]
    copy = np.zeros((d, d))
    if layer == 2:
        for h in plan.live(1):
            copy = copy + weights.output[0, h - 1] @ _read(plan.head(1, h).values[0], weights.value, 1, copy)[0]
    return [
        _Head(
            query=_read(plan.head(layer, h).query, weights.query, layer, copy),
            key=_read(plan.head(layer, h).keys[0], weights.key, layer, copy),
            value=_read(plan.head(layer, h).values[0], weights.value, layer, copy),
            output=weights.output[layer - 1, h - 1],
            weights=weights,
        )
        for h in plan.live(layer)
    ]


def _read(mix: Mix, maps: Array, layer: int, copy: Array) -> tuple[Array, Array]:
    """Return a mix's maps of a raw code and of a copied one: (width, d) each, both applied to the code."""
    raw, copied = np.zeros(maps.shape[2:]), np.zeros(maps.shape[2:])
    for term in mix.terms:
        part = term.start * maps[term.source.layer - 1, term.source.head - 1]
        raw = raw + part
        if term.source.layer == layer:
            copied = copied + part @ copy
    return raw, copied


def _covered(plan: Plan) -> None:
    if plan.shape.layers != 2 or plan.depth != STREAM or not plan.output_projection or plan.dynamic != "no":
        raise BadInput("the lead is proved for two layers with a residual stream and output projections")
    for n, h in plan.shape.cells():
        head = plan.head(n, h)
        mixes = (head.query, *head.keys, *head.values)
        learned = any(isinstance(term.weight, Learned | Gated) for mix in mixes for term in mix.terms)
        if len(head.values) > 1 or head.beside.terms or learned:
            raise BadInput("the lead is proved for one list of keys, fixed weights and nothing beside the attention")
        if any(term.source.kind == "e" or term.source.shift for mix in mixes for term in mix.terms):
            raise BadInput("the lead is proved for projections of the tokens themselves, not for tables or shifts")
