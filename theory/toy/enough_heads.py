"""The assumed-copy toy with as many heads as it can use: exact, and convex in all that the heads do.

With enough heads of each kind P = F(G_1, G_2, ...) A for any linear F (`theory.skipv1.w0`), so for given A and B the
best loss is a linear regression of W* on the entries of the G's: no local minima in the heads.  The second moments are
those of `theory.prompts.moments`.  Only A and B are left to descend in, d^2 numbers.

With g the vector of all entries of the G's, g = R vec(S) (S the 2d x 2d second moment of the prompt, R a function of A
and B), and F: d x a x |g|, written F g: d x a,

    L(F, A, B) = E||(F g) A||^2 - 2 E<(F g) A, W*> + E||W*||^2 + d sigma^2,

least at F g = (best linear estimate of W* from g) A^T (A A^T)^{-1}.  At that F the derivative of L in F vanishes, so
the gradient in A and B is that of L at fixed F.

In A and B it has local minima, and infima at infinity.  Around W0 = c I MHA's is at A = alpha (I 0), alpha -> infinity
(`theory.skipv1.w0.mha_compressions`), which Gaussian starts miss; so every other descent starts near 3 (I 0).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from scipy.optimize import minimize

from theory.errors import BadInput, at_least, check_memory, check_sizes
from theory.plans.heads import Head
from theory.prompts.moments import Array, PromptMoments
from theory.toy.population import correlations

CUT = 1e-13  # of the largest eigenvalue of g's correlations: entries repeat each other, and what is below is rounding


class EnoughHeads:
    """The exact loss of the toy with enough heads of each of `kinds`, as a function of A and B alone."""

    def __init__(self, moments: PromptMoments, kinds: Collection[Head]) -> None:
        if not kinds:
            raise ValueError("one or more kinds of heads")
        if not np.array_equal(moments.covariance, np.eye(moments.d)):
            raise BadInput("enough heads are worked out for inputs of identity covariance only")
        check_memory(f"enough heads at d = {moments.d}", 5 * (2 * moments.d) ** 4)
        self.moments, self.kinds = moments, tuple(kinds)
        d, both = moments.d, 2 * moments.d
        self._i_x, self._i_y = np.eye(d, both), np.eye(d, both, d)
        self._of_x = np.einsum("ip,jq->ijpq", self._i_x, self._i_x)
        entries = np.eye(both * both).reshape(-1, both, both)
        power = moments.sandwich(entries).reshape(both, both, both, both)  # [p, q, i, j] = E S_ip S_qj
        self._power = power.transpose(2, 0, 1, 3).reshape(both**2, both**2)
        target = moments.target_left(np.eye(d * both).reshape(-1, d, both)).reshape(d, both, d, both)
        self._target = target.transpose(2, 0, 1, 3).reshape(d * d, both**2)  # [(k, l), (p, q)] = E W*_kl S_pq

    @property
    def zero_loss(self) -> float:
        """The task's loss of predicting zero."""
        return float(self.moments.zero_loss)

    def value(self, a: Array, b: Array) -> float:
        """Return the lowest loss at A: (rank, d) of full rank and B: (d - rank, d), over all that the heads can do."""
        return self.value_and_gradient(a, b)[0]

    def value_and_gradient(self, a: Array, b: Array) -> tuple[float, Array, Array]:
        """Return `value` and its gradient in A and B."""
        d, rank = self.moments.d, len(a)
        compress = np.concatenate([a @ self._i_x, b @ self._i_y])
        reads = self._reads(compress)
        with_s, cross = reads @ self._power, self._target @ reads.T
        estimate = (cross @ _inverse(with_s @ reads.T)).reshape(d, d, -1)
        f = np.einsum("klg,lm->kmg", estimate, np.linalg.pinv(a))  # F
        fa = np.einsum("kmg,ml->klg", f, a).reshape(d * d, -1)
        fa_seen = fa @ with_s
        rest = fa_seen - self._target  # E[((F g) A - W*) vec(S)^T]
        value = ((fa_seen - 2 * self._target) * (fa @ reads)).sum() + self.zero_loss
        by_a = 2 * np.einsum("kmg,klg->ml", f, (rest @ reads.T).reshape(d, d, -1))
        by_compress = self._to_compress(2 * fa.T @ rest, compress)
        return float(value), by_a + by_compress[:rank, :d], by_compress[rank:, d:]

    def minimise(
        self, rank: int, *, starts: int = 4, seed: int = 0, after_start: Callable[[int], None] | None = None
    ) -> list[float]:
        """Return the losses at which `starts` descents in A and B end, the lowest first.

        Raises:
            InvalidSize: for sizes without meaning, and for fewer than one start.
        """
        d = self.moments.d
        check_sizes(d, self.moments.n, self.moments.sigma, rank)
        at_least("starts", starts, 1)
        if rank == 0:
            return [self.zero_loss]
        rng, ends = np.random.default_rng([seed, rank]), []

        def objective(flat: Array) -> tuple[float, Array]:
            matrix = flat.reshape(d, d)
            value, by_a, by_b = self.value_and_gradient(matrix[:rank], matrix[rank:])
            return value, np.concatenate([by_a.ravel(), by_b.ravel()])

        options = {"maxiter": 2000, "maxfun": 10_000, "gtol": 1e-9, "ftol": 1e-14, "maxcor": 30}
        for start in range(starts):
            flat = _start(d, rank, rng, aligned=start % 2 == 1)
            result = minimize(objective, flat, jac=True, method="L-BFGS-B", options=options)
            ends.append(float(result.fun))
            if after_start is not None:
                after_start(start + 1)
        return sorted(ends)

    def _reads(self, compress: Array) -> Array:
        """Return R, which gives all entries of all G's as linear maps of vec(S): (kinds * d^2, 4 d^2)."""
        return np.concatenate(
            [
                (
                    (kind.copied + kind.raw) * (kind.key_copied + kind.key_raw) * self._of_x
                    + np.einsum("ip,jq->ijpq", *self._sides(kind, compress))
                ).reshape(self.moments.d**2, -1)
                for kind in self.kinds
            ]
        )

    def _sides(self, kind: Head, compress: Array) -> tuple[Array, Array]:
        """Return a kind's values and keys on the tokens of y, as maps of (x ; y): (d, 2d) each."""
        values = kind.copied * compress + kind.raw * self._i_y
        return values, kind.key_copied * compress + kind.key_raw * self._i_y

    def _to_compress(self, by_reads: Array, compress: Array) -> Array:
        """Return the derivative in U = diag(A, B), given the derivative in R."""
        d = self.moments.d
        total = np.zeros_like(compress)
        for kind, part in zip(self.kinds, by_reads.reshape(len(self.kinds), d, d, 2 * d, 2 * d), strict=True):
            values, keys = self._sides(kind, compress)
            total += kind.copied * np.einsum("ijpq,jq->ip", part, keys)
            total += kind.key_copied * np.einsum("ijpq,ip->jq", part, values)
        return total


def _start(d: int, rank: int, rng: np.random.Generator, *, aligned: bool) -> Array:
    """Return a start, A above B, flat: Gaussian, or with A near 3 (I 0) and B a third of the size."""
    both = rng.standard_normal((d, d))
    if aligned:
        both[:rank] = 3 * np.eye(d)[:rank] + both[:rank] / 10
        both[rank:] /= 3
    return both.ravel()


def _inverse(gamma: Array) -> Array:
    """Return the pseudo-inverse of a covariance, cut off in terms of correlations."""
    size, spectrum, vectors = correlations(gamma)
    large = spectrum > CUT * spectrum[-1]
    half = vectors[:, large] / np.sqrt(spectrum[large]) / size[:, None]
    return half @ half.T
