"""Claims on what a residual stream beside an assumed copy changes for vanilla."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from experiments.ledger.claim import Claim
from theory.prompts.moments import PromptMoments
from theory.skipv1.paper import PAPER
from theory.toy import mixed_tokens
from theory.toy.token_pairs import best_entries

TASKS = ((1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 4, Fraction(2, 3)))
SETTING = "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; linear attention, heads as wide as tokens"

ANY_SQUARE = {mixed_tokens.best_square: "a size to try: any other explains what the same forms say of it"}

RESIDUAL = Claim(
    "toy.residual-stream",
    PAPER.ours,
    place="theory/toy/mixed_tokens.py; bears on SkipV1Former, appendix A.1, which has no residual stream",
    statement="A residual stream beside the assumed copy lets vanilla mix x and y in one number, and its bound "
    "rho floor(m/2) ceil(m/2) falls: at m = d, one head in each layer, it explains up to rho d (d+1) / 2 in the limit "
    "of long prompts, which bounds ordinary heads behind every first layer that sees positions alone.  What mixed "
    "tokens explain at least at d <= m < 2d has a closed form, with one head and with enough, for which it is exact at "
    "m = d.",
    assumes=SETTING + "; layer 2 hides the query from itself",
    verdict="verified",
    proof=mixed_tokens,
    uses=("toy.positions-bound",),
    unjudged=ANY_SQUARE,
)


def _explained(d: int, n: int, sigma: Fraction, width: int, root: int, *, constant: bool) -> Any:
    """Of `mixed_head` on `mixed_tokens` at eta = 1/3 and beta = 1/2, in exact moments: E[2 <P, W*> - |P|^2]."""
    tokens = mixed_tokens.mixed_tokens(d, width, Fraction(1, 3), root)
    readout, keys = mixed_tokens.mixed_head(d, n, sigma, width, Fraction(1, 3), Fraction(1, 2))
    moments = PromptMoments(d, n, sigma, np.full((d, d), Fraction(0), dtype=object), centred=constant)
    terms = [(readout @ token, token.T @ keys) for token in tokens]
    meets = sum(np.trace(right.T @ moments.target_right(left.T)) for left, right in terms)
    power = sum(np.trace(l2.T @ l1 @ moments.sandwich(r1 @ r2.T)) for l1, r1 in terms for l2, r2 in terms)
    return 2 * meets - power


@RESIDUAL.check(
    "one head, both tokens multiplied out, in exact moments: rational, d = 1 to 3, every width, with and without a "
    "constant, x's tokens cleared and not",
    states=mixed_tokens.of_one_head,
    control=lambda d, n, sigma, width, beta, **how: mixed_tokens.of_one_head(
        d, n, sigma, width, beta, **(how | {"constant": not how["constant"]})
    ),
    wrong="the mean of the even part counted where it is taken off, and not where it is there",
    kind="exact",
)
def one_head_explains(entries: Callable[..., Any]) -> bool:
    for d, n, sigma in TASKS:
        rho = Fraction(n) / (n + d + 1 + sigma**2)
        for width in range(d, 2 * d + 1):
            for root in (0, 2):
                for constant in (False, True):
                    of = entries(
                        d, n, sigma, width, Fraction(1, 2), square=Fraction(1, 9), tau=root**2, constant=constant
                    )
                    if _explained(d, n, sigma, width, root, constant=constant) != rho * of:
                        return False
    return True


@RESIDUAL.check(
    "enough heads: the best linear map of the tokens' second moments explains as much at m = d, and no less up to 2d",
    states=0.0,
    control=0.05,
    wrong="a twentieth of an entry more",
    kind="float64",
)
def enough_heads_explain(more: float) -> bool:
    """`best_entries` knows the second moments of the prompt alone; at eta of the default and at twice its square."""
    for d, n, sigma in ((1, 2, 0.5), (2, 8, 0.1), (3, 5, 0.7)):
        for width in range(d, 2 * d):
            for tau in (0, mixed_tokens.BESIDE_COPY):
                for scale in (1, 2):
                    square = mixed_tokens.best_square(d, n, sigma, tau) * scale
                    tokens = mixed_tokens.mixed_tokens(d, width, square**0.5, tau**0.5)
                    given = None if scale == 1 else square
                    short = (
                        best_entries(d, n, sigma, tokens)
                        - mixed_tokens.mixed_entries(d, n, sigma, width, square=given, tau=tau)
                        - more
                    )
                    if not (-1e-9 < short < (1e-9 if width == d else 0.6)):
                        return False
    return True


@RESIDUAL.check(
    "long prompts: with a constant, one head and m = d, d (d+1) / 2 entries but for a part that falls like n^-1/2",
    states=lambda d: d * (d + 1) / 2,
    control=lambda d: d * d // 4,
    wrong="the assumed copy's floor(d^2 / 4)",
    kind="float64",
)
def long_prompts_give(entries: Callable[[int], float]) -> bool:
    """At n = 10^6 and 10^8: what is missing falls tenfold, and is below 1 % then; enough heads lie between.

    Beside an assumed copy, and where x's tokens are cleared.
    """
    for d, tau in product((1, 2, 4), (0, mixed_tokens.BESIDE_COPY)):
        how: dict[str, Any] = {"tau": tau, "constant": True}
        missing = [entries(d) - mixed_tokens.best_of_one_head(d, n, 0.1, d, **how) for n in (10**6, 10**8)]
        few, enough = (f(d, 10**6, 0.1, d, **how) for f in (mixed_tokens.best_of_one_head, mixed_tokens.mixed_entries))
        if not (0 < missing[1] < 0.01 * entries(d) and abs(missing[0] / missing[1] - 10) < 0.1):
            return False
        if not few <= enough * (1 + 1e-3) < d * (d + 1) / 2 * (1 + 1e-3):
            return False
    return True
