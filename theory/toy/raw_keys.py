"""Copied values with raw keys: the toy's optimum where layer 2's values meet layer 1's keys, at W0 = 0.

Setting and notation of `theory.skipv1.gap` and `theory.toy.value_maps`; A has a rows, B has b (d - a, or as
`theory.toy.width` has it, at most d), and no raw value meets a copied key.  Among the variants of ResFormer and
SkipV1Former these are shared keys, CLA's and YOCO's keys, residual keys, and, in two layers, SkipV1-YOCO.

Of the heads with copied values, let those that share their W or their K be one *reader*.  A reader has one W or one K
(no cycles, see `theory.plans.heads`), so its sum is that of one W with at most one copied and one raw key.  Let r
readers have a raw key.

Theorem.  The entries of W* that can be explained, in units of rho, are
    (i)   min(r, a d), never attained for a >= 1 without raw values,     if no reader has a copied key;
    (ii)  at most a b + min(r, a (d - b))                                if some reader has one.
(ii) is approached if b = 0, if some reader has a copied key alone, or if r > a - b.  Otherwise at least one entry less
is.

So a raw key makes every head worth one entry of d^2, where MHA's single head is worth a quarter of them.

Proof of the bounds.  A copied value with a raw key reads S_xx + sum u y^T, whose odd part is A S_xy.  With
L^h = W^h_1 A, W^h_1 the first a columns of W^h, and R^h what multiplies S_xy from the right (K^h A, or anything where
the query is raw),
    T(Z) = sum_h L^h Z^T R^h + T_1(Z),       T_1 a linear function of B Z A^T,
where T_1 and a part B^T K A of R^h are the copied keys'.  Write T(Z)_ij = sum t_{ijkl} Z_kl and realign it: take (i, l)
for the row and (k, j) for the column.  The first sum becomes sum_h vec(L^h) vec(R^h)^T, of rank at most r and with rows
in R^d (x) row(A), and the identity, delta_ik delta_jl, becomes the identity of size d^2.  Realigning keeps the norm, so
    (i)   ||T - lambda I||^2 >= lambda^2 (d^2 - min(r, a d))         by Eckart-Young: all singular values are equal.
    (ii)  On the matrices Z = sum over k in row(B)^perp, l in row(A) the map T_1 vanishes.  There the identity has rank
          a (d - b) and T's first sum min(r, a (d - b)) at most, b being the rank of B; where l is not in row(A), T is
          zero.  A smaller rank of A or B gives a smaller bound.
Parity and isotropy, steps (1) and (2) of `theory.skipv1.gap`, hold for any P.

Proof that they are approached (`raw_keys_weights`).
    (i)   A = beta (I_a 0), B = 0, and for each of min(r, a d) units V = e_i f_j^T, j <= a: W = (lambda / beta) V,
          R = V.  Then T = lambda times the projection on the V's and P_even = (lambda / beta) sum V S_xx V.
    (ii)  With a reader to spare, that one is MHA's head of `theory.skipv1.gap`, (6), and the others are as in (i),
          with V in row(B)^perp (x) row(A); all scales of A and B grow together.
          If r > a - b, no reader need be spared.  Let A = alpha (I_a 0), row i of B be beta e_i + e_{a+i} for i <= a
          (without the second where a + i > d) and beta times a unit orthogonal to these for i > a.  The first reader
          has W = (L / alpha, s B^+), L = lambda V / ||V||^2, R = V = p f_1^T with p in row(B)^perp, and a copied key
          whose first a rows are kappa I, kappa = lambda / (s alpha^2), and whose next ones are those of
          (1 + alpha^2) kappa / beta I.  Its odd part is L Z^T R + lambda Pi_B Z Pi_A, Pi_B and Pi_A the projections on
          the rows of B and A.  Its even part holds L S_xx (alpha^2 kappa Pi_A), which grows, and W S_xx J, J what the
          raw x_t contributes to keys, which cancels that but for L S_xx R / alpha and, if a > b, for
          (1 + alpha^2) kappa L S_xx f_m f_m^T with m = b + 1, ..., a.  So let one more reader for each m have
          V = p f_m^T and the copied key -kappa f_1 f_m^T: as f_1^T S_xx f_m is symmetric in 1 and m, it cancels that
          too.  What is left is of the order of 1 / alpha, alpha / beta and s: take alpha = 1 / s, beta = 1 / s^2 and
          s -> 0.

Proof that (i) is not attained.  P_even = 0 for all S_xx says that sigma_{ijkl} = sum_h W^h_ij R^h_kl is antisymmetric
in j, k.  Equality asks lambda pi_{im,kl} = sum_{j <= a} sigma_{ijkl} A_jm for an orthogonal projection pi of rank
q = min(r, a d).  Rotating x and y, A may be taken as (D 0), D diagonal: lambda pi_{im,kl} = D_m sigma_{imkl}, zero
where D_m = 0; call the other m live.
    For live i, pi_{ii,ii} ~ sigma_{iiii} = 0, so the whole row ii of pi is zero; for live i and m then
pi_{im,im} ~ sigma_{imim} = -sigma_{iimm} ~ pi_{ii,mm} = 0, and the row im is zero.  If q = a d, pi_{11,11} = 1: a
contradiction.  If q = r < a d, the R^h span the range of pi, so R^h_ml = 0 for live m and l; then sigma_{imkl} =
-sigma_{ikml} = 0 for all k, and pi = 0: a contradiction.                                                       QED

Open: case (ii) with 0 < b and r <= a - b.  Exact minimisation finds the lower bound for r = 1 and comes near the upper
one for r = 2, a = 3, b = 1.
"""

from __future__ import annotations

from theory.plans.heads import Heads, shares


def raw_key_bounds(heads: Heads, d: int, rank: int, rows: int | None = None) -> tuple[int, int] | None:
    """Return the least and the most entries of W* that the theorem leaves possible; None for heads it does not cover.

    Heads with raw values are taken to have raw keys.

    Args:
        heads: The heads of layer 2.
        d: Width of x and y.
        rank: Rows of A.
        rows: Rows of B: d - rank, unless tokens have another width than d.
    """
    readers = key_kinds(heads)
    if readers is None:
        return None
    rows = min(d, d - rank if rows is None else rows)
    reading = sum(RAW in kinds for kinds in readers)
    if rows == 0 or not any(COPIED in kinds for kinds in readers):
        return (min(reading, rank * d),) * 2
    both, rest = rank * rows, rank * (d - rows)
    most = both + min(reading, rest)
    approached = {COPIED} in readers or reading > rank - rows
    return (most if approached else most - 1), most


COPIED, RAW = False, True


def key_kinds(heads: Heads) -> list[set[bool]] | None:
    """Return which kinds of key each reader has: copied, raw or both.

    None if a reader has several W and several K, or if one K is applied to copied and raw tokens alike.
    """
    readouts, keys = shares(heads, "readout")[1], shares(heads, "key")[1]
    readers: list[list[int]] = []
    for i, head in enumerate(heads):
        if head.raw:
            continue
        if head.key_copied and head.key_raw:
            return None
        linked = [r for r in readers if any(readouts[i] == readouts[j] or keys[i] == keys[j] for j in r)]
        readers = [r for r in readers if r not in linked] + [[i, *(j for r in linked for j in r)]]
    if any(len({readouts[i] for i in r}) > 1 and len({keys[i] for i in r}) > 1 for r in readers):
        return None
    return [{bool(heads[i].key_raw) for i in r} for r in readers]
