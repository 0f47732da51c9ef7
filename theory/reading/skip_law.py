"""One law for value skips in the toy: a gap is the useful signal that cannot be read linearly from what layers see.

1. Any reader (`added_explained`).  Beside reads z let a linear reader of y have z' too.  With
K = E[y z'^T] - C M^+ E[z z'^T] and N the Schur complement of z' given z, its least squared error falls by
    tr(K N^+ K^T),
the part of y that what z' adds to z explains.  It is 0 if z' is a linear function of z, and 0 just if the residual of y
on z is uncorrelated with the residual of z' on z.  So the R^2 of z' on z decides it only where it is 1: values of layer
1 that a later stream has lost (R^2 = 0.58, say) gain nothing where they are of no use there.
    Proof.  z and z' span what z and z' - E[z' z^T] M^+ z do, which are uncorrelated; apply `refit` to each.        QED

2. The toy (`statistic_moments`, `explained_by`).  Setting of `theory.skipv1.general`: W0 = 0, normal inputs of any
covariance, a separable prior.  Let there be L layers of attention after the copying one, whose heads, N in all, add to
the prediction alone, so that every layer finds the tokens as the stream keeps them: u_t = (A_l x_t ; B_l y_t) in layer
l, a_l and b_l rows, at most m together, which can only lose with depth: rows of A_{l+1}, B_{l+1} are combinations of
those of A_l, B_l.  A head of value width r puts out at most r numbers.  By the sign flip the loss is that of the
prediction's odd part, and more; and the odd part is a linear function of T vec(S_yx), T the stack over heads of
    R B_l S_yx A_l^T  (ordinary),     R S_yx A_l^T  (skip: values of layer 1),     R with at most r rows.
Hence, with C and M the moments of vec(W* Sigma^{1/2}) and vec(S_yx),
    explained  <=  e(T) = tr[C T^T (T M T^T)^+ T C^T],
and the difference of e for two sets of heads, one of which sees what the other does, is by 1 the mean square of the
part of the best estimate of W* that is read by the one and not by the other.  Every number here is of such a
difference: nothing else of an architecture enters.

3. In modes (`skip_law`).  With f_ij the useful signal of output mode i and input mode j, both in decreasing order
(`theory.skipv1.general`: explained), s skip heads and tokens divided into a + b = m,
    explained  <=  max over a <= min(m, d) of  sum_{i <= o, j <= a} f_ij,     o = min(d, min(b, r (N - s)) + r s),
and weights come as near as one likes if r = 1, or sigma = 0, or Psi is a multiple of I, or one head puts out all d
(r >= d) and there are enough of them.  Depth enters by the number of heads alone.
    Proof.  Ordinary heads read at most min(b, r (N - s)) outputs, skip heads r s more, all of them through rows of A_1:
T lies in B' (x) A_1 with B' of o rows, and step (6) of `theory.skipv1.general` bounds e of that.  Conversely, let heads
have A = A_1, B = B_1 along the strongest modes and each put out r modes of its own.  The weights that modes need are
m_ij = g_j / ((n + 1) g_j + t + sigma^2 / psi_i); a head has one key for its r outputs, which suffices if r = 1 or m_ij
does not depend on i.  Its even part fades as tokens grow, as in step (8) there.                                    QED

4. How many skip heads (`least_skip_heads`).  The sum grows with s for every a.  If all f_ij are positive, m >= d and
r N >= d, it is all that is useful just from
    s* = ceil((2 d - m) / r) skip heads on, for d <= m <= 2 d; 0 from m = 2 d on.
Where heads of one layer put out d numbers together (H r = d) that is a share (2 - m/d) / L of the L H heads, if r
divides: all heads of one layer at m = d, half of them at m = 3 d / 2, none at m = 2 d; and it falls as 1 / L.  Any
larger share explains as much, and caches less.
    Proof.  All of it needs a = d, so b = m - d, and o = d: min(b, r (N - s)) + r s >= d just if b + r s >= d, as
r N >= d.                                                                                                           QED

Special cases.  At m = d and r >= d: s = 0 is MHA and s >= 1 is SkipV1Former, `theory.skipv1.gap` and
`theory.skipv1.general` at the best rank, with f_ij = rho_j also `theory.skipv1.non_gaussian`; at m > d
`theory.toy.width` and `theory.skipv1.transfer`.

Where it does not hold.  (i) Around W0 != 0 the even part has to be built, and few heads cannot (`theory.skipv1.w0`).
(ii) A first layer that is trained can write pairs into both tokens, so that what a layer sees is more than B S_yx A^T:
two heads then explain rho (d^2 / 4 + d / 2), where 3 says rho d^2 / 4 (`theory.toy.positions`).  (iii) Heads that write
to the context's tokens make later layers see other statistics: layer 1's values alone then make one gradient step,
however many layers there are, so that a share of 1 is not the best (`theory.toy.deep`).  (iv) Lookups by softmax, as in
recall, are no linear reads (`theory.toy.pairing`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from theory.errors import BadInput, at_least
from theory.prompts.moments import PromptMoments
from theory.reading.refit import Array, Moments, least_error


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Layers of attention after the copying one, as far as the law counts them.

    Attributes:
        width: m, numbers that a token holds of its pair.
        heads: N, heads in all layers together.
        head_width: r, numbers that a head puts out.
        skip: s, how many of the heads read layer 1's values.
    """

    width: int
    heads: int
    head_width: int
    skip: int

    def __post_init__(self) -> None:
        for name in ("width", "heads", "head_width"):
            at_least(name, getattr(self, name), 1)
        at_least("skip", self.skip, 0)
        if self.skip > self.heads:
            raise BadInput(f"of {self.heads} heads {self.skip} cannot read layer 1")


def added_explained(of: Moments, seen: int) -> float:
    """Return by how much the least squared error falls when the reads after the first `seen` are added to these.

    Args:
        of: Moments of y and all reads, (z, z') side by side.
        seen: How many of the reads are z.
    """
    first = Moments(of.power, of.cross[:, :seen], of.reads[:seen, :seen])
    return least_error(first) - least_error(of)


def statistic_moments(task: PromptMoments) -> Moments:
    """Return the moments of vec(W* Sigma^{1/2}) and vec(S_yx), rows one after another, (d^2, d^2) each.

    Raises BadInput unless W0 = 0 and x is normal.
    """
    if task.w0.any() or task.kurtosis is not None:
        raise BadInput("the law is about W0 = 0 and normal inputs")
    sigma, psi, gamma = (m.astype(float) for m in (task.covariance, task.prior_rows, task.prior_columns))
    values, vectors = np.linalg.eigh(sigma)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    n, late = float(task.n), float((gamma * sigma).sum())
    sandwich = n * (n + 1) * sigma @ gamma @ sigma + n * late * sigma
    noise = n * float(task.sigma) ** 2 * np.kron(np.eye(task.d), sigma)
    return Moments(
        power=float(psi.trace()) * late,
        cross=n * np.kron(psi, root @ gamma @ sigma),
        reads=np.kron(psi, sandwich) + noise,
    )


def explained_by(of: Moments, seen: Array) -> float:
    """Return e(T), what the best linear function of T z explains of y, for T = seen, (numbers seen, reads)."""
    through = Moments(of.power, of.cross @ seen.T, seen @ of.reads @ seen.T)
    return float(of.power) - least_error(through)


def outputs_reached(d: int, inputs: int, stack: Stack) -> int:
    """Return o, the output modes that heads reach where tokens hold `inputs` numbers of x."""
    ordinary = min(stack.width - inputs, stack.head_width * (stack.heads - stack.skip))
    return min(d, ordinary + stack.head_width * stack.skip)


def skip_law(useful: Array, stack: Stack) -> float:
    """Return the most that a stack explains, in squared units of y, at the best division of its tokens.

    Args:
        useful: f, (d, d), output modes first, both decreasing.
        stack: The layers.
    """
    d = len(useful)
    sums = [useful[: outputs_reached(d, inputs, stack), :inputs].sum() for inputs in range(min(stack.width, d) + 1)]
    return float(max(sums))


def least_skip_heads(d: int, stack: Stack) -> int:
    """Return s*, the least number of skip heads with which all that is useful is explained; `skip` is not read.

    Raises BadInput where no number is enough: tokens below d numbers, or heads that put out less than d.
    """
    if stack.width < d or stack.head_width * stack.heads < d:
        raise BadInput("no number of skip heads explains all: tokens or heads are too narrow")
    return -(-max(0, 2 * d - stack.width) // stack.head_width)
