"""Exact Gaussian moments by pairing (Isserlis, Wick): the ground truth for every closed form in `theory`.

Two engines, both exact, neither knowing a formula of `theory.moments`:

`PromptEngine(d)` takes entries, for a given small d, and is symbolic in n, sigma and every entry of W0:
    >>> e = PromptEngine(1)
    >>> e.expect(("xx", 0, 0), ("xx", 0, 0))
    n**2 + 2*n

`gaussian_trace(*words)` takes products of traces of words in independent Gaussian matrices, and is symbolic in every
dimension:
    >>> gaussian_trace("X X' X X'")
    d**2*n + d*n**2 + d*n

How they count.  For a sum over n independent samples, E prod_i S_{a_i b_i} with S_ab = sum_t z_{t,a} z_{t,b} is a sum
over pairings pi of the 2m factors of prod_{(p,q) in pi} Sigma_{pq} times n to the number of cycles that pi closes with
the fixed pairs (a_i, b_i): each cycle is one free sum over samples.  For words, identifying the row and the column
indices of every paired couple of letters leaves classes of indices, and each class is one free sum over its dimension.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

from sympy import ZZ, Expr, prod, symbols
from sympy.polys.rings import PolyElement, ring

Pairing = tuple[tuple[int, int], ...]
Factor = tuple[str, int, int]


@cache
def pairings(size: int) -> tuple[Pairing, ...]:
    """All perfect matchings of range(size): (size - 1)!! of them, none if size is odd."""
    return tuple(_pairings(tuple(range(size)))) if size % 2 == 0 else ()


def _pairings(items: tuple[int, ...]) -> Iterator[Pairing]:
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for i, partner in enumerate(rest):
        for tail in _pairings(rest[:i] + rest[i + 1 :]):
            yield ((first, partner), *tail)


class _Classes:
    """Union-find over range(size)."""

    def __init__(self, size: int) -> None:
        self.parent = list(range(size))

    def find(self, i: int) -> int:
        while self.parent[i] != i:
            i = self.parent[i]
        return i

    def join(self, i: int, j: int) -> None:
        self.parent[self.find(i)] = self.find(j)

    def roots(self) -> set[int]:
        return {self.find(i) for i in range(len(self.parent))}


class PromptEngine:
    """Exact expectations of products of entries of S_xx, S_yx, S_xy, S_yy, W* and D = W* - W0 for a given d.

    `expect(("yx", i, j), ("w", i, j))` is E[(S_yx)_ij W*_ij] as a polynomial in n, sigma and w_ij (the entries of W0).
    The cost grows with the number of pairings, (2m - 1)!! for m factors S, and with d^(number of y's).
    """

    def __init__(self, d: int) -> None:
        self.d = d
        cells = [(i, j) for i in range(d) for j in range(d)]
        names = ["n", "sigma", *(f"w_{i}{j}" for i, j in cells), *(f"d_{i}{j}" for i, j in cells)]
        self.ring, *gens = ring(names, ZZ)
        self.n, self.sigma = gens[:2]
        self.w0 = [[gens[2 + i * d + j] for j in range(d)] for i in range(d)]
        self._d0 = 2 + d * d
        noise = [[gens[self._d0 + i * d + j] for j in range(d)] for i in range(d)]
        self._letters = {
            "w": [[self.w0[i][j] + noise[i][j] for j in range(d)] for i in range(d)],
            "d": noise,
        }
        self._covariance: dict[tuple[tuple[str, int], tuple[str, int]], PolyElement] = {}

    def expect(self, *factors: Factor) -> PolyElement:
        """E of the product of the named entries, over x, noise and W*."""
        slots: list[tuple[str, int]] = []
        given_w = self.ring.one
        for kind, i, j in factors:
            if kind in self._letters:
                given_w *= self._letters[kind][i][j]
            else:
                slots += [(kind[0], i), (kind[1], j)]
        context = self.ring.zero
        for pairing in pairings(len(slots)):
            samples = _Classes(len(slots))
            term = self.ring.one
            for p in range(0, len(slots), 2):
                samples.join(p, p + 1)
            for p, q in pairing:
                samples.join(p, q)
                term *= self._cov(slots[p], slots[q])
            context += self.n ** len(samples.roots()) * term
        return self._over_w(given_w * context)

    def _cov(self, a: tuple[str, int], b: tuple[str, int]) -> PolyElement:
        """Covariance of two entries of one z = (x ; y), given W*."""
        if (a, b) not in self._covariance:
            w, one, zero = self._letters["w"], self.ring.one, self.ring.zero
            rows = [w[i] if kind == "y" else [one if k == i else zero for k in range(self.d)] for kind, i in (a, b)]
            value = sum((rows[0][k] * rows[1][k] for k in range(self.d)), zero)
            if a == b and a[0] == "y":
                value += self.sigma**2
            self._covariance[a, b] = value
        return self._covariance[a, b]

    def _over_w(self, polynomial: PolyElement) -> PolyElement:
        """E over D: a monomial prod D_ij^k becomes the number of its pairings, prod (k - 1)!!."""
        total: dict[tuple[int, ...], Any] = {}
        for exponents, coefficient in polynomial.terms():
            powers = exponents[self._d0 :]
            if any(k % 2 for k in powers):
                continue
            key = exponents[: self._d0] + (0,) * len(powers)
            total[key] = total.get(key, 0) + coefficient * prod(len(pairings(k)) for k in powers if k)
        return self.ring.from_dict(total)


_SHAPES = {"X": ("d", "n"), "D": ("d", "d"), "N": ("d", "n")}


def gaussian_trace(*words: str) -> Expr:
    """E of a product of traces, e.g. gaussian_trace("X X' D'", "D"), as a polynomial in d and n.

    Letters are independent Gaussian matrices with standard normal entries: X (d x n, the inputs), D (d x d, W* at
    W0 = 0) and N (d x n, the noise over sigma); a prime is the transpose.  Raises ValueError for a word whose shapes
    do not chain.
    """
    letters: list[str] = []
    slots: list[tuple[int, int]] = []  # (row slot, column slot) of each letter, transposes undone
    dims: list[str] = []
    joins: list[tuple[int, int]] = []
    for word in words:
        ends: list[tuple[int, int]] = []
        for symbol in word.split():
            name, transposed = symbol[0], symbol.endswith("'")
            row = len(dims)
            dims += _SHAPES[name]
            slots.append((row, row + 1))
            letters.append(name)
            ends.append((row + 1, row) if transposed else (row, row + 1))
        for (_, right), (left, _) in zip(ends, ends[1:] + ends[:1], strict=True):
            if dims[right] != dims[left]:
                raise ValueError(f"the shapes in {word!r} do not chain")
            joins.append((right, left))
    d, n = symbols("d n")
    total: Counter[tuple[int, int]] = Counter()
    for couples in _letter_pairings(letters):
        indices = _Classes(len(dims))
        for i, j in joins:
            indices.join(i, j)
        for p, q in couples:
            indices.join(slots[p][0], slots[q][0])
            indices.join(slots[p][1], slots[q][1])
        free = [dims[r] for r in indices.roots()]
        total[free.count("d"), free.count("n")] += 1
    return sum((count * d**i * n**j for (i, j), count in total.items()), start=d * 0)


def _letter_pairings(letters: Sequence[str]) -> Iterator[list[tuple[int, int]]]:
    """Pairings that couple equal letters only."""
    groups = [[i for i, x in enumerate(letters) if x == name] for name in sorted(set(letters))]
    for choice in product(*(pairings(len(group)) for group in groups)):
        yield [(group[p], group[q]) for group, pairing in zip(groups, choice, strict=True) for p, q in pairing]
