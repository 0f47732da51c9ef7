"""Claims on what variants are worth in width where layer 1 is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any, Literal

import numpy as np

from experiments.across.claims.residual_stream import ANY_SQUARE, SETTING
from experiments.ledger.claim import Claim
from experiments.toys.unjudged import OF_VALUE_MAPS
from theory.plans.depth import DepthAttention
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.plans.variants import VARIANTS
from theory.prompts.moments import Array
from theory.skipv1.paper import PAPER
from theory.toy import mixed_tokens, trained_layer
from theory.toy.trained_layer import First, entry_bounds, share_bounds, worth_bounds

N, SIGMA = 8, 0.1
ONE_ORDINARY = ("skipv0", "skipkv1")  # of two heads of layer 2

TRAINED = Claim(
    "toy.trained-layer",
    PAPER.ours,
    place="theory/toy/trained_layer.py; bears on SkipV1Former, sections 4 and 5",
    statement="If layer 1 is trained and its scores are of positions alone, SkipV1Former, ResFormer and SVFormer "
    "explain rho d^2 at every width from d on, with or without a residual stream, and at m = d vanilla rho d (d+1) / 2 "
    "at most: at d = 2 these are worth between 1.5 and 2 times their width of vanilla, at d = 3 between 4/3 and 2.  In "
    "a causal layer H heads with keys of layer 1 alone explain rho min(H, d^2), no more.",
    assumes=SETTING + "; layer 1's scores are of positions alone; layer 2 hides the query from itself",
    verdict="verified",
    proof=trained_layer,
    uses=(
        "toy.positions-bound",
        "toy.rotating-mha",
        "toy.least-width",
        "toy.generic-width",
        "toy.residual-stream",
        "toy.worth",
    ),
    unjudged={
        **OF_VALUE_MAPS,
        **ANY_SQUARE,
        **dict.fromkeys((VARIANTS[v].make for v in ONE_ORDINARY), "either has one ordinary head of two"),
    },
)


@TRAINED.check(
    "worth of the three at m = d: from 3/2 and 4/3 at d = 2 and 3, to 2, or to (2d - 1) / d if two tokens may hold a "
    "pair and heads are enough",
    states=(3 / 2, 4 / 3),
    control=(2.0, 2.0),
    wrong="the assumed copy's 2",
    kind="float64",
)
def worth_is_between(least: tuple[float, float]) -> bool:
    """With a residual stream and without, causal or not, heads counted or not; 1 from 2d on, and 1 for vanilla."""
    vanilla = resolve("vanilla", Shape(2, 2))
    for plan in (resolve(name, Shape(2, 2)) for name in ("skipv1", "resformer", "svformer")):
        for first, causal, counted in product(("positions", "residual", "copy-residual"), (False, True), (False, True)):
            both = not causal and not counted and first != "copy-residual"
            how: dict[str, Any] = {"first": first, "causal": causal, "counted": counted}
            for d, lowest in zip((2, 3), least, strict=True):
                found = worth_bounds(plan, vanilla, d, N, SIGMA, d, **how)
                if not np.allclose(found, (lowest, (2 * d - 1) / d if both else 2), rtol=1e-12):
                    return False
                ones = [(plan, 2 * d), (plan, 2 * d + 1), (vanilla, d)]
                if any(worth_bounds(p, vanilla, d, N, SIGMA, m, **how) != (1, 1) for p, m in ones):
                    return False
    return True


@TRAINED.check(
    "vanilla: every lower bound is one of the constructions', no upper one is below it; d = 1 to 4, all widths",
    states=Fraction(1, 2),
    control=0,
    wrong="the half entry kept, which forms of the tokens lose without a constant",
    kind="float64",
)
def vanilla_is_between(half: Any) -> bool:
    """Forms of m numbers, m (m+1) / 2, less the half without a residual stream; the shares are rho / d^2 times that.

    Not causal and with enough heads, at m = 2d - 1 all but nothing is explained (d > 1), and rotating at d = 2 gives 2.
    """
    for d in (1, 2, 3, 4):
        rho = N / (N + d + 1 + SIGMA**2)
        for width in range(d, 2 * d + 2):
            forms = width * (width + 1) // 2
            known: dict[First, Any] = {"positions": min(d**2, forms - half), "residual": min(d**2, forms)}
            for first, most in known.items():
                counted, enough = (
                    entry_bounds(_vanilla(), d, N, SIGMA, width, first, causal=False, counted=c) for c in (True, False)
                )
                shares = share_bounds(_vanilla(), d, N, SIGMA, width, first, causal=False)
                if not np.allclose(shares, np.array(enough, float) * rho / d**2, rtol=1e-12):
                    return False
                if not (counted.most == enough.most == most and counted.least <= enough.least <= most):
                    return False
                if _least_known(d, width, first, counted=True) - counted.least > 1e-9:
                    return False
                if abs(_least_known(d, width, first, counted=False) - enough.least) > 1e-9:
                    return False
    return True


def _vanilla() -> Plan:
    return resolve("vanilla", Shape(2, 2))


def _depth(query: Literal["learned", "static"]) -> Plan:
    return replace(_vanilla(), depth=DepthAttention(query=query))


def _least_known(d: int, width: int, first: str, *, counted: bool) -> float:
    """The most of what is written down elsewhere: copying, rotating, mixing and hiding."""
    constant, found = first == "residual", [min(width * width // 4, d * d)]
    found += [d * d // 4 + d // 2] if d % 2 == 0 else []
    ways = [mixed_tokens.best_of_one_head, *(() if counted else (mixed_tokens.mixed_entries,))]
    found += [mixed(d, N, SIGMA, w, constant=constant) for w in range(d, min(width, 2 * d - 1) + 1) for mixed in ways]
    if not counted and d > 1:
        found += [d * d - h * (h - 1) for h in range(1, d // 2 + 1) if width >= 2 * d - h and (h == 1 or d % 2 == 0)]
    return float(max(found))


@TRAINED.check(
    "causal, the lower bounds that write a pair into two tokens count n - 1 pairs, at n = 1 none; d = 2",
    states=lambda n: Fraction(n - 1) / (n - 1 + 3) * (n + 3) / n,
    control=lambda n: 1,
    wrong="all n pairs",
    kind="float64",
)
def last_pair_has_one_token(kept: Callable[[int], Any]) -> bool:
    """sigma = 0, two heads, m = 2: rotating is the best of what is written down at n = 8, and copying at n = 1."""
    rotating = entry_bounds(_vanilla(), 2, 8, 0.0, 2, counted=True).least
    single = entry_bounds(_vanilla(), 2, 1, 0.0, 2, counted=True).least
    mixed = mixed_tokens.best_of_one_head(2, 1, 0.0, 2)
    return abs(rotating - 2 * kept(8)) < 1e-12 and abs(single - max(1, mixed, 2 * kept(1))) < 1e-12


@TRAINED.check(
    "SkipV0 and SkipKV1Former of two heads have one ordinary one in layer 2: mixing or copying, not rotating; d = 2",
    states=0.0,
    control=0.1,
    wrong="a tenth of an entry more",
    kind="float64",
)
def one_head_of_layer_2(more: float) -> bool:
    """One head's entries at the best of a grid of sizes and factors: no more than the search finds."""
    betas, squares = np.linspace(0.3, 1, 71), mixed_tokens.best_square(2, N, SIGMA) * np.linspace(0.5, 2, 61)
    grid = (mixed_tokens.of_one_head(2, N, SIGMA, 2, b, square=s) for b, s in product(betas, squares))
    mixing = max(1.0, *map(float, grid)) + more
    return all(
        abs(entry_bounds(resolve(name, Shape(2, 2)), 2, N, SIGMA, 2, causal=c, counted=True).least - mixing) < 1e-3
        for name, c in product(ONE_ORDINARY, (True, False))
    )


@TRAINED.check(
    "keys of layer 1 alone, one to ten heads, causal or not: singular values of the realigned identity; d = 2 and 3",
    states=lambda heads, all_entries: min(heads, all_entries),
    control=lambda heads, all_entries: all_entries,
    wrong="all of d^2, as where x_t's token may see y_t",
    kind="exact",
)
def causal_keys_of_layer_1(entries: Callable[[int, int], int]) -> bool:
    """By Eckart and Young: of the realigned identity, d^2 equal singular values, H products keep H."""
    for d in (2, 3):
        values = np.linalg.svd(_realigned_identity(d), compute_uv=False)
        for heads in (1, 2, 4, 9, 10):
            plan = resolve("shared-keys", Shape(2, heads))
            kept = float((values[:heads] ** 2).sum())
            if abs(kept - entries(heads, d * d)) > 1e-9 or entry_bounds(plan, d, N, SIGMA, d) != (kept, kept):
                return False
            if entry_bounds(plan, d, N, SIGMA, d, causal=False) != (d * d, d * d):
                return False
    return True


def _realigned_identity(d: int) -> Array:
    """Z -> Z as sum of L Z^T R: rows (i, l), columns (k, j) of delta_ik delta_jl."""
    eye = np.eye(d)
    return np.einsum("ik,jl->ilkj", eye, eye).reshape(d * d, d * d)


@TRAINED.check(
    "attention over depth: bounded by the posterior mean's share, or as a residual stream where its weights are static",
    states=True,
    control=False,
    wrong="weights that depend on the token bounded like a residual stream",
    kind="float64",
)
def depth_weights_unbind(unbound: bool) -> bool:
    """Ridge's share is sampled here afresh, d = 2: a mean of sigma^2 / (s + sigma^2), to 4 standard errors."""
    stream = share_bounds(_vanilla(), 2, N, 0.5, 2, "residual")
    learned, static = (share_bounds(_depth(q), 2, N, 0.5, 2, "residual") for q in ("learned", "static"))
    x = np.random.default_rng(4).standard_normal((40_000, 2, N))
    left = (0.25 / (np.linalg.eigvalsh(x @ x.mT) + 0.25)).mean(axis=1)
    bayes = 1 - float(left.mean())
    free = abs(learned.most - bayes) < 4 * float(left.std()) / 200 + 1e-3
    return static == stream and learned.least == stream.least and free == unbound
