"""Exact Gaussian moments by pairing (Isserlis, Wick): the ground truth for every closed form in `theory`.

Two engines, both exact, neither knowing a formula of `theory.prompts.moments`:

`PromptEngine(d)` takes entries, for a given small d, and is symbolic in n, sigma and every entry of W0, and with
`general=True` in every entry of the covariances of x and W* as well:
    >>> e = PromptEngine(1)
    >>> e.expect(("xx", 0, 0), ("xx", 0, 0))
    n**2 + 2*n
    >>> e = PromptEngine(1, general=True)
    >>> e.expect(("yx", 0, 0), ("w", 0, 0))
    n*w_00**2*s_00 + n*s_00*p_00*g_00

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
    """Return all perfect matchings of range(size): (size - 1)!! of them, none if size is odd."""
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
    x and D are standard normal or, in a general engine, Cov(x_i, x_j) = `covariance`_ij = s_ij and
    Cov(D_ij, D_kl) = `prior_rows`_ik `prior_columns`_jl = p_ik g_jl.
    The cost grows with the number of pairings, (2m - 1)!! for m factors S, and with d^(number of y's).
    """

    def __init__(self, d: int, *, general: bool = False) -> None:
        self.d, self.general = d, general
        self._cells = [(i, j) for i in range(d) for j in range(d)]
        upper = [(i, j) for i, j in self._cells if i <= j] if general else []
        names = ["n", "sigma", *(f"{name}_{i}{j}" for name in "wd" for i, j in self._cells)]
        self.ring, *gens = ring(names + [f"{name}_{i}{j}" for name in "spg" for i, j in upper], ZZ)
        self.n, self.sigma = gens[:2]
        self._d0, self._d1 = 2 + d * d, 2 + 2 * d * d
        self.w0, noise = self._square(gens[2 : self._d0]), self._square(gens[self._d0 : self._d1])
        starts = (self._d1 + which * len(upper) for which in range(3))
        matrices = [self._symmetric(gens[start : start + len(upper)]) for start in starts]
        self.covariance, self.prior_rows, self.prior_columns = matrices
        self._letters = {
            "w": [[self.w0[i][j] + noise[i][j] for j in range(d)] for i in range(d)],
            "d": noise,
        }
        self._given_w: dict[tuple[tuple[str, int], tuple[str, int]], PolyElement] = {}
        self._of_d: dict[tuple[int, ...], Any] = {}

    def _square(self, entries: Sequence[PolyElement]) -> list[list[PolyElement]]:
        return [list(entries[i * self.d : (i + 1) * self.d]) for i in range(self.d)]

    def _symmetric(self, upper: Sequence[PolyElement]) -> list[list[PolyElement]]:
        """Return the matrix with this upper triangle, given row by row; the identity if nothing is given."""
        at = dict(zip([(i, j) for i, j in self._cells if i <= j], upper, strict=False))
        return self._square([at[min(i, j), max(i, j)] if at else self.ring(int(i == j)) for i, j in self._cells])

    def expect(self, *factors: Factor) -> PolyElement:
        """Return E of the product of the named entries, over x, noise and W*."""
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
        """Return the covariance of two entries of one z = (x ; y), given W*."""
        if (a, b) not in self._given_w:
            w, one, zero = self._letters["w"], self.ring.one, self.ring.zero
            rows = [w[i] if kind == "y" else [one if k == i else zero for k in range(self.d)] for kind, i in (a, b)]
            value = sum((rows[0][k] * self.covariance[k][m] * rows[1][m] for k, m in self._cells), zero)
            if a == b and a[0] == "y":
                value += self.sigma**2
            self._given_w[a, b] = value
        return self._given_w[a, b]

    def _over_w(self, polynomial: PolyElement) -> PolyElement:
        """Return E over D, monomial by monomial."""
        by_powers: dict[tuple[int, ...], dict[tuple[int, ...], Any]] = {}
        for exponents, coefficient in polynomial.terms():
            powers = exponents[self._d0 : self._d1]
            if sum(powers) % 2 == 0:
                key = exponents[: self._d0] + (0,) * len(powers) + exponents[self._d1 :]
                by_powers.setdefault(powers, {})[key] = coefficient
        parts = (self._moment(powers) * self.ring.from_dict(terms) for powers, terms in by_powers.items())
        return sum(parts, self.ring.zero)

    def _moment(self, powers: tuple[int, ...]) -> Any:
        """Return E prod D_ij^k.

        It is prod (k - 1)!! if all D_ij are independent, else a sum over the pairings of all factors.
        """
        if not self.general:
            return prod(len(pairings(k)) for k in powers if k)
        if powers not in self._of_d:
            cells = [cell for cell, k in zip(self._cells, powers, strict=True) for _ in range(k)]
            total = self.ring.zero
            for pairing in pairings(len(cells)):
                couples = [(*cells[p], *cells[q]) for p, q in pairing]
                total += prod([self.prior_rows[i][k] * self.prior_columns[j][m] for i, j, k, m in couples])
            self._of_d[powers] = total
        return self._of_d[powers]


_SHAPES = {"X": ("d", "n"), "D": ("d", "d"), "N": ("d", "n")}


def gaussian_trace(*words: str) -> Expr:
    """Return E of a product of traces, e.g. gaussian_trace("X X' D'", "D"), as a polynomial in d and n.

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
    """Yield the pairings that couple equal letters only."""
    groups = [[i for i, x in enumerate(letters) if x == name] for name in sorted(set(letters))]
    for choice in product(*(pairings(len(group)) for group in groups)):
        yield [(group[p], group[q]) for group, pairing in zip(groups, choice, strict=True) for p, q in pairing]
