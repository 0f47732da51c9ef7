"""The assumed-copy toy with as many heads as it can use: exact, and convex in all that the heads do.

With enough heads of each kind P = F(G_1, G_2, ...) A for any linear F (`theory.skipv1_w0`), so for given A and B the
best loss is a linear regression of the entries of W* on those of the G's: no descent, no local minima.  The second
moments are those of `theory.moments`.  Only A and B are left to minimise over, d^2 numbers.

With q an orthonormal basis of the row space of A (a x d), g the vector of all entries of the G's, Gamma = E[g g^T] and
C = E[vec(W* q^T) g^T],

    min over F of the loss = E||W*||^2 + d sigma^2 - tr(C Gamma^+ C^T).

In A and B it has local minima, and infima at infinity.  Around W0 = c I MHA's is at A = alpha (I 0), alpha -> infinity
(`skipv1_w0.mha_compressions`), which Gaussian starts miss; so every other descent starts near 3 (I 0).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from scipy.optimize import minimize

from theory.moments import Array, PromptMoments
from theory.sizes import at_least, check_sizes
from theory.toy import Head

CUT = 1e-11  # of Gamma's largest eigenvalue: entries of the G's repeat each other, and what is below is rounding


class EnoughHeads:
    """The exact loss of the toy with enough heads of each of `kinds`, as a function of A and B alone."""

    def __init__(self, moments: PromptMoments, kinds: Collection[Head]) -> None:
        if any(kind.key_raw or kind.key_copied != 1 for kind in kinds) or not kinds:
            raise ValueError("heads whose keys are the first layer's output, one or more kinds")
        self.moments, self.kinds = moments, tuple(kinds)
        d, both = moments.d, 2 * moments.d
        entries = np.eye(both * both).reshape(-1, both, both)
        power = moments.sandwich(entries).reshape(both, both, both, both)  # [p, q, i, j] = E S_ip S_qj
        self._power = power.transpose(2, 0, 1, 3).reshape(both**2, both**2)
        target = moments.target_left(np.eye(d * both).reshape(-1, d, both)).reshape(d, both, d, both)
        self._target = target.transpose(2, 0, 1, 3).reshape(d, d, both**2)  # [k, l, (p, q)] = E W*_kl S_pq

    def value(self, a: Array, b: Array) -> float:
        """The lowest loss at A: (rank, d) of full rank and B: (d - rank, d), over all that the heads can do."""
        reads = self._reads(a, b)
        gamma = reads @ self._power @ reads.T
        basis = np.linalg.qr(a.T)[0]
        cross = np.einsum("klp,la->kap", self._target, basis).reshape(-1, reads.shape[1]) @ reads.T
        spectrum, vectors = np.linalg.eigh((gamma + gamma.T) / 2)
        kept = spectrum > CUT * spectrum[-1]
        explained = ((cross @ vectors[:, kept]) ** 2 / spectrum[kept]).sum()
        return float(self.moments.prior_power + self.moments.d * self.moments.sigma**2 - explained)

    def minimise(
        self, rank: int, *, starts: int = 4, seed: int = 0, after_start: Callable[[int], None] | None = None
    ) -> list[float]:
        """What `starts` descents in A and B end on, the lowest first.  Raises InvalidSize."""
        d = self.moments.d
        check_sizes(d, self.moments.n, self.moments.sigma, rank)
        at_least("starts", starts, 1)
        if rank == 0:
            return [float(self.moments.prior_power + d * self.moments.sigma**2)]
        rng, ends = np.random.default_rng([seed, rank]), []
        for start in range(starts):
            found = minimize(
                lambda flat: self.value(flat[: rank * d].reshape(rank, d), flat[rank * d :].reshape(d - rank, d)),
                _start(d, rank, rng, aligned=start % 2 == 1),
                method="L-BFGS-B",
                options={"maxiter": 500, "maxfun": 10**6},
            )
            ends.append(float(found.fun))
            if after_start is not None:
                after_start(start + 1)
        return sorted(ends)

    def _reads(self, a: Array, b: Array) -> Array:
        """All entries of all G's as linear maps of vec(S): (kinds * d^2, 4 d^2)."""
        d = self.moments.d
        i_x, i_y = np.eye(d, 2 * d), np.eye(d, 2 * d, d)
        compress = np.concatenate([a @ i_x, b @ i_y])
        return np.concatenate(
            [
                (
                    (kind.copied + kind.raw) * np.einsum("ip,jq->ijpq", i_x, i_x)
                    + np.einsum("ip,jq->ijpq", kind.copied * compress + kind.raw * i_y, compress)
                ).reshape(d * d, -1)
                for kind in self.kinds
            ]
        )


def _start(d: int, rank: int, rng: np.random.Generator, *, aligned: bool) -> Array:
    """A above B, flat: Gaussian, or with A near 3 (I 0) and B a third of the size."""
    both = rng.standard_normal((d, d))
    if aligned:
        both[:rank] = 3 * np.eye(d)[:rank] + both[:rank] / 10
        both[rank:] /= 3
    return both.ravel()
