"""Costs of the named variants, as polynomials in the sizes of a LLaMA-like decoder.

`theory.plans.accounting` counts a plan of given sizes.  For a variant the counts are polynomials in the number of
layers L, of heads H, a head's width w, the feed-forward's width f, the vocabulary v and the context t, as long as L is
a multiple of 4 and H of 2 (`STEPS`).  Their coefficients follow exactly, in rational numbers, from the counts at
`FITTED` sizes; a variant is left out where the polynomials miss a count at `HELD_OUT` sizes, as with rules whose blocks
are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from math import prod

from theory.plans.accounting import cache as cached_numbers
from theory.plans.accounting import depth_memory, flops, total_parameters
from theory.plans.architecture import Architecture
from theory.plans.names import BadName, checked, resolve
from theory.plans.plan import Plan, Shape
from theory.plans.presets import llama

SIZES = ("L", "H", "w", "f", "v", "t")
STEPS = 4, 2  # of layers and of heads
OUTER = tuple(product(range(3), range(3)))  # powers of L and H
INNER = ((0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1))  # of w, f, v and t
FITTED = (
    tuple(product((4, 8, 12), (2, 4, 6))),
    ((16, 8, 10, 20), (32, 8, 10, 20), (48, 8, 10, 20), (16, 9, 10, 20), (16, 8, 11, 20), (16, 8, 10, 21)),
)
HELD_OUT = ((16, 2, 64, 50, 70, 90), (4, 8, 16, 5, 7, 33), (20, 4, 32, 100, 11, 3))

Monomial = tuple[float, ...]  # a coefficient, then the powers of `SIZES`
COUNTS: Mapping[str, Callable[[Architecture, Plan], int]] = {
    "parameters": total_parameters,
    "cache": lambda config, plan: cached_numbers(config, plan).total,
    "flops": lambda config, plan: flops(config, plan, config.context),
    "depth": depth_memory,
}


def decoder(layers: int, heads: int, width: int, *, d_ff: int, vocab: int, context: int) -> Architecture:
    """Return the decoder whose costs are shown: `width` is a head's, and the model's is heads times width."""
    return llama(d_model=heads * width, n_heads=heads, n_layers=layers, d_ff=d_ff, vocab=vocab, context=context)


def counts(name: str, sizes: Sequence[int]) -> dict[str, int]:
    """Return the counts of a variant at `SIZES`.  Raises BadName where it has no plan of that shape."""
    layers, heads, width, d_ff, vocab, context = sizes
    config = decoder(layers, heads, width, d_ff=d_ff, vocab=vocab, context=context)
    plan = checked(_plan(name, config.shape), config)
    return {quantity: count(config, plan) for quantity, count in COUNTS.items()}


@lru_cache(maxsize=32)
def _plan(name: str, shape: Shape) -> Plan:
    return resolve(name, shape)


def value(polynomial: Iterable[Monomial], sizes: Sequence[int]) -> float:
    """Return the value of a polynomial."""
    return sum(c * prod(size**power for size, power in zip(sizes, powers, strict=True)) for c, *powers in polynomial)


def costs(names: Iterable[str]) -> dict[str, dict[str, list[Monomial]]]:
    """Return by variant the polynomial of each of the `COUNTS`, for variants that have one."""
    fits = ((name, polynomials(name)) for name in names)
    return {name: fitted for name, fitted in fits if fitted}


def polynomials(name: str) -> dict[str, list[Monomial]]:
    """Return the polynomials of a variant, or nothing where its counts are none."""
    outer, inner = FITTED
    try:
        measured = {(o, i): counts(name, (*o, *i)) for o in outer for i in inner}
        fitted = {quantity: _fit({at: seen[quantity] for at, seen in measured.items()}) for quantity in COUNTS}
        held_out = [(sizes, counts(name, sizes)) for sizes in HELD_OUT]
    except BadName:
        return {}
    exact = all(value(fitted[q], sizes) == seen[q] for sizes, seen in held_out for q in COUNTS)
    return fitted if exact else {}


def _fit(seen: Mapping[tuple[Sequence[int], Sequence[int]], int]) -> list[Monomial]:
    """Return the polynomial through counts at all pairs of `FITTED` sizes."""
    outer, inner = FITTED
    from_outer, from_inner = _inverse(outer, OUTER), _inverse(inner, INNER)
    per_outer = {o: [sum(r * seen[o, i] for r, i in zip(row, inner, strict=True)) for row in from_inner] for o in outer}
    monomials: list[Monomial] = []
    for number, powers in enumerate(INNER):
        for row, (layers, heads) in zip(from_outer, OUTER, strict=True):
            coefficient = sum(r * per_outer[o][number] for r, o in zip(row, outer, strict=True))
            if coefficient:
                monomials.append((float(coefficient), layers, heads, *powers))
    return monomials


@cache
def _inverse(points: Sequence[Sequence[int]], powers: Sequence[Sequence[int]]) -> list[list[Fraction]]:
    """Return the matrix that takes values at the points to coefficients of the monomials, one row per monomial."""
    import sympy

    values = [[prod(x**p for x, p in zip(point, each, strict=True)) for each in powers] for point in points]
    inverse = sympy.Matrix(values).inv()
    return [[Fraction(int(x.p), int(x.q)) for x in inverse.row(i)] for i in range(len(powers))]
