"""One head's signal, written out apart from `theory.skipv1`: its loss, gradient and flow, to hold theory against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from theory.prompts.moments import Array
from theory.skipv1.dynamics import HeadKind


@dataclass(frozen=True)
class Signal:
    """E||T(S_yx/n) - W*||^2 + d sigma^2 for P_odd = T(S_yx/n) = C S_yx A^T K A / n, C = V or V B, at W0 = 0.

    Weights are one vector: a (a, d), b (d-a, d), v (d, d) or (d, d-a), k (a, a).
    """

    kind: HeadKind
    d: int
    rank: int
    n: int
    sigma: float

    @property
    def task(self) -> tuple[int, int, float]:
        return self.d, self.n, self.sigma

    @property
    def zero_loss(self) -> float:
        return self.d**2 + self.d * self.sigma**2

    @property
    def rho(self) -> float:
        return self.n / (self.n + self.d + 1 + self.sigma**2)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        d, a = self.d, self.rank
        b, v = ((0, d), (d, d)) if self.kind == "skip" else ((d - a, d), (d, d - a))
        return {"a": (a, d), "b": b, "v": v, "k": (a, a)}

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def flat(self, weights: Mapping[str, Array]) -> Array:
        return np.concatenate([np.asarray(weights[name], dtype=float).ravel() for name in self.shapes])

    def parts(self, flat: Array) -> dict[str, Array]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        return {
            name: part.reshape(shape)
            for (name, shape), part in zip(self.shapes.items(), np.split(flat, ends), strict=True)
        }

    def loss(self, flat: Array) -> float:
        c, form = self._maps(self.parts(flat))
        squares = (c * c).sum() * (form * form).sum()
        return float(self.zero_loss - 2 * c.trace() * form.trace() + squares / self.rho)

    def gradient(self, flat: Array) -> Array:
        w = self.parts(flat)
        c, form = self._maps(w)
        eye = np.eye(self.d)
        by_c = -2 * form.trace() * eye + 2 * (form * form).sum() / self.rho * c
        by_form = -2 * c.trace() * eye + 2 * (c * c).sum() / self.rho * form
        skip = self.kind == "skip"
        return self.flat(
            {
                "a": w["k"] @ w["a"] @ by_form.T + w["k"].T @ w["a"] @ by_form,
                "b": w["b"] if skip else w["v"].T @ by_c,
                "v": by_c if skip else by_c @ w["b"].T,
                "k": w["a"] @ by_form @ w["a"].T,
            }
        )

    def flow(self, start: Array, times: Sequence[float], accuracy: float = 1e-8) -> Array:
        """Weights at these times, (times, size)."""
        path = solve_ivp(
            lambda _, flat: -self.gradient(flat),
            (0.0, float(times[-1])),
            start,
            method="LSODA",
            t_eval=list(times),
            rtol=accuracy,
            atol=accuracy / 1000,
        )
        return path.y.T

    def _maps(self, w: Mapping[str, Array]) -> tuple[Array, Array]:
        return w["v"] if self.kind == "skip" else w["v"] @ w["b"], w["a"].T @ w["k"] @ w["a"]
