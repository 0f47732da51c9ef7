"""The toy with a trained first layer: a residual stream, scores of positions, rotary positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import exp, log
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize

from experiments.ledger.claim import Claim, at
from experiments.toys.unjudged import OF_VALUE_MAPS, ONE_OF_SEVERAL
from theory.plans.architecture import Architecture, Vectors
from theory.plans.depth import DepthAttention
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.plans.variants import VARIANTS
from theory.prompts.moments import Array, PromptMoments
from theory.resformer.variants import denseformer
from theory.skipv1.paper import PAPER
from theory.toy import mixed_tokens, parity, trained_layer
from theory.toy.token_pairs import best_entries
from theory.toy.trained_layer import First, entry_bounds, share_bounds, worth_bounds

TASKS = ((1, 1, Fraction(0)), (2, 3, Fraction(1, 2)), (3, 4, Fraction(2, 3)))
SETTING = "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; linear attention, heads as wide as tokens"

ANY_SQUARE = {mixed_tokens.best_square: "a size to try: any other explains what the same forms say of it"}

ENDS = "the ends of a search for eta^2, between which the best lies"
_ENDS = ("middle - log(10)", "middle + log(10)", "log(10)")

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
    unjudged={
        **ANY_SQUARE,
        **{at(mixed_tokens.best_of_one_head, place): ENDS for place in _ENDS},
        at(mixed_tokens.best_of_one_head, "{'xatol': 1e-09}"): "how near a search ends",
    },
)


def _explained(d: int, n: int, sigma: Fraction, width: int, root: int, *, constant: bool) -> Any:
    """Return E[2 <P, W*> - |P|^2] in exact moments, for `mixed_head` on `mixed_tokens` at eta = 1/3 and beta = 1/2."""
    tokens = mixed_tokens.mixed_tokens(d, width, Fraction(1, 3), root)
    assert tokens.shape == (2, width, 2 * d)
    readout, keys = mixed_tokens.mixed_head(d, n, sigma, width=width, eta=Fraction(1, 3), beta=Fraction(1, 2))
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
        d, n, sigma, width=width, beta=beta, **(how | {"constant": not how["constant"]})
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
                    if _explained(d, n, sigma, width=width, root=root, constant=constant) != rho * of:
                        return False
    return True


@RESIDUAL.check(
    "enough heads: the best linear map of the tokens' second moments explains as much at m = d, and no less up to 2d",
    states=0.0,
    control=0.05,
    wrong="a twentieth of an entry more",
)
def enough_heads_explain(more: float) -> bool:
    """Check `best_entries`, which knows second moments alone, at the default eta and at twice its square."""
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
    "one head at the best beta and eta: a simplex search in both finds as much, d = 2 to 4 at four widths, three taus",
    states=1.0,
    control=1.01,
    wrong="a hundredth more",
    kind="descent",
)
def best_of_one_head_is_best(factor: float) -> bool:
    for d, n, width, tau, constant in (
        (2, 8, 2, 0, False),
        (3, 5, 4, 0, True),
        (4, 6, 5, 4, False),
        (3, 40, 3, 1, True),
    ):
        how: dict[str, Any] = {"tau": tau, "constant": constant}

        def missing(x: Array, *, size: tuple[int, int, int] = (d, n, width), how: dict[str, Any] = how) -> float:
            d, n, width = size
            return -float(mixed_tokens.of_one_head(d, n, 0.3, width=width, beta=exp(x[0]), square=exp(x[1]), **how))

        start = [-0.5, log(mixed_tokens.best_square(d, n, 0.3, tau))]
        options = {"xatol": 1e-8, "fatol": 1e-12}
        found = -float(minimize(missing, start, method="Nelder-Mead", options=options).fun)
        if abs(mixed_tokens.best_of_one_head(d, n, 0.3, width, **how) / (factor * found) - 1) > 1e-7:
            return False
    return True


@RESIDUAL.check(
    "long prompts: with a constant, one head and m = d, d (d+1) / 2 entries but for a part that falls like n^-1/2",
    states=lambda d: d * (d + 1) / 2,
    control=lambda d: d * d // 4,
    wrong="the assumed copy's floor(d^2 / 4)",
)
def long_prompts_give(entries: Callable[[int], float]) -> bool:
    """Check n = 10^6 and 10^8: the missing part falls tenfold and is then below 1 %; enough heads lie between.

    Both without an assumed copy, and beside one, where x's tokens are cleared.
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
        mixed_tokens.best_of_one_head: ONE_OF_SEVERAL,
    },
)


@TRAINED.check(
    "worth of the three at m = d: from 3/2 and 4/3 at d = 2 and 3, to 2, or to (2d - 1) / d if two tokens may hold a "
    "pair and heads are enough",
    states=(3 / 2, 4 / 3),
    control=(2.0, 2.0),
    wrong="the assumed copy's 2",
)
def worth_is_between(least: tuple[float, float]) -> bool:
    """Check the bounds with and without a residual stream and causality, heads counted or not.

    They are 1 from width 2d on, and 1 for vanilla.
    """
    vanilla = resolve("vanilla", Shape(2, 2))
    for plan in (resolve(name, Shape(2, 2)) for name in ("skipv1", "resformer", "svformer")):
        for first, causal, counted in product(("positions", "residual", "copy-residual"), (False, True), (False, True)):
            both = not causal and not counted and first != "copy-residual"
            how: dict[str, Any] = {"first": first, "causal": causal, "counted": counted}
            for d, lowest in zip((2, 3), least, strict=True):
                found = worth_bounds(plan, vanilla, d, n=N, sigma=SIGMA, width=d, **how)
                if not np.allclose(found, (lowest, (2 * d - 1) / d if both else 2), rtol=1e-12):
                    return False
                ones = [(plan, 2 * d), (plan, 2 * d + 1), (vanilla, d)]
                if any(worth_bounds(p, vanilla, d, n=N, sigma=SIGMA, width=m, **how) != (1, 1) for p, m in ones):
                    return False
    return True


@TRAINED.check(
    "vanilla: every lower bound is one of the constructions', no upper one is below it; d = 1 to 4, all widths",
    states=Fraction(1, 2),
    control=0,
    wrong="the half entry kept, which forms of the tokens lose without a constant",
)
def vanilla_is_between(half: Any) -> bool:
    """Compare forms of m numbers: m (m+1) / 2, minus the half without a residual stream; shares: rho / d^2 times."""
    for d in (1, 2, 3, 4):
        rho = N / (N + d + 1 + SIGMA**2)
        for width in range(d, 2 * d + 2):
            forms = width * (width + 1) // 2
            known: dict[First, Any] = {"positions": min(d**2, forms - half), "residual": min(d**2, forms)}
            for first, most in known.items():
                counted, enough = (
                    entry_bounds(_vanilla(), d, N, sigma=SIGMA, width=width, first=first, causal=False, counted=c)
                    for c in (True, False)
                )
                shares = share_bounds(_vanilla(), d, N, sigma=SIGMA, width=width, first=first, causal=False)
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
    """Return the most entries that any known construction explains: copying, rotating, mixing or hiding."""
    constant, found = first == "residual", [min(width * width // 4, d * d)]
    found += [d * d // 4 + d // 2] if d % 2 == 0 else []
    ways = [mixed_tokens.best_of_one_head, *(() if counted else (mixed_tokens.mixed_entries,))]
    found += [mixed(d, N, SIGMA, w, constant=constant) for w in range(d, min(width, 2 * d - 1) + 1) for mixed in ways]
    if not counted and d > 1:
        found += [d * d - h * (h - 1) for h in range(1, d // 2 + 1) if width >= 2 * d - h and (h == 1 or d % 2 == 0)]
    return float(max(found))


@TRAINED.check(
    "raw values with raw keys beside an ordinary head, as SkipKV1Former's: no more than its forms, d = 2 and 3",
    states=lambda d, width: min(d**2, width * (width + 1) // 2),
    control=lambda d, width: d**2,
    wrong="all d^2, as if the raw ones explained something",
    kind="exact",
)
def raw_heads_add_nothing(most: Callable[[int, int], int]) -> bool:
    plan = resolve("skipkv1", Shape(2, 2))
    first_layers: tuple[First, ...] = ("positions", "residual")
    return all(
        entry_bounds(plan, d, N, sigma=SIGMA, width=width, first=first).most == most(d, width)
        for d, first in product((2, 3), first_layers)
        for width in range(d, 2 * d + 1)
    )


@TRAINED.check(
    "causal, the lower bounds that write a pair into two tokens count n - 1 pairs, at n = 1 none; d = 2",
    states=lambda n: Fraction(n - 1) / (n - 1 + 3) * (n + 3) / n,
    control=lambda n: 1,
    wrong="all n pairs",
)
def last_pair_has_one_token(kept: Callable[[int], Any]) -> bool:
    """Check at sigma = 0, two heads and m = 2: rotating is the best known at n = 8, and copying at n = 1."""
    rotating = entry_bounds(_vanilla(), 2, 8, sigma=0.0, width=2, counted=True).least
    single = entry_bounds(_vanilla(), 2, 1, sigma=0.0, width=2, counted=True).least
    mixed = mixed_tokens.best_of_one_head(2, 1, 0.0, 2)
    return abs(rotating - 2 * kept(8)) < 1e-12 and abs(single - max(1, mixed, 2 * kept(1))) < 1e-12


@TRAINED.check(
    "SkipV0 and SkipKV1Former of two heads have one ordinary one in layer 2: mixing or copying, not rotating; d = 2; "
    "at width 2d copying by layer 1's two heads explains all d^2",
    states=0.0,
    control=0.1,
    wrong="a tenth of an entry more",
)
def one_head_of_layer_2(more: float) -> bool:
    """Compare one head's entries at the best of a grid of sizes and factors: no more than the search finds."""
    betas, squares = np.linspace(0.3, 1, 71), mixed_tokens.best_square(2, N, SIGMA) * np.linspace(0.5, 2, 61)
    grid = (mixed_tokens.of_one_head(2, N, SIGMA, width=2, beta=b, square=s) for b, s in product(betas, squares))
    mixing = max(1.0, *map(float, grid)) + more
    for name, causal in product(ONE_ORDINARY, (True, False)):
        plan = resolve(name, Shape(2, 2))
        narrow, wide = (entry_bounds(plan, 2, N, sigma=SIGMA, width=m, causal=causal, counted=True) for m in (2, 4))
        if abs(narrow.least - mixing) >= 1e-3 or abs(wide.least - 4 - more) >= 1e-9:
            return False
    return True


@TRAINED.check(
    "keys of layer 1 alone, one to ten heads, causal or not: singular values of the realigned identity; d = 2 and 3",
    states=lambda heads, all_entries: min(heads, all_entries),
    control=lambda heads, all_entries: all_entries,
    wrong="all of d^2, as where x_t's token may see y_t",
    kind="exact",
)
def causal_keys_of_layer_1(entries: Callable[[int, int], int]) -> bool:
    """Check by Eckart and Young: the realigned identity has d^2 equal singular values, and H products keep H."""
    for d in (2, 3):
        values = np.linalg.svd(_realigned_identity(d), compute_uv=False)
        for heads in (1, 2, 4, 9, 10):
            plan = resolve("shared-keys", Shape(2, heads))
            kept = float((values[:heads] ** 2).sum())
            bounds = entry_bounds(plan, d, N, sigma=SIGMA, width=d)
            if abs(kept - entries(heads, d * d)) > 1e-9 or bounds != (kept, kept):
                return False
            if entry_bounds(plan, d, N, sigma=SIGMA, width=d, causal=False) != (d * d, d * d):
                return False
    return True


def _realigned_identity(d: int) -> Array:
    """Return the map Z -> Z as a sum of L Z^T R: rows (i, l), columns (k, j) of delta_ik delta_jl."""
    eye = np.eye(d)
    return np.einsum("ik,jl->ilkj", eye, eye).reshape(d * d, d * d)


@TRAINED.check(
    "attention over depth: bounded by the posterior mean's share, or as a residual stream where its weights are static",
    states=True,
    control=False,
    wrong="weights that depend on the token bounded like a residual stream",
)
def depth_weights_unbind(unbound: bool) -> bool:
    """Sample ridge's share independently at d = 2: the mean of sigma^2 / (s + sigma^2), to 4 standard errors."""
    stream = share_bounds(_vanilla(), 2, N, sigma=0.5, width=2, first="residual")
    learned, static = (
        share_bounds(_depth(q), 2, N, sigma=0.5, width=2, first="residual") for q in ("learned", "static")
    )
    x = np.random.default_rng(4).standard_normal((40_000, 2, N))
    left = (0.25 / (np.linalg.eigvalsh(x @ x.mT) + 0.25)).mean(axis=1)
    bayes = 1 - float(left.mean())
    free = abs(learned.most - bayes) < 4 * float(left.std()) / 200 + 1e-3
    return static == stream and learned.least == stream.least and free == unbound


PARITY = Claim(
    "toy.rotary",
    PAPER.ours,
    place="theory/toy/parity.py; bears on SkipV1Former, appendix A.1, whose toy has linear scores and no positions",
    statement="With linear scores, rotary positions or none, and nothing constant in a token or a score, no decoder "
    "without feed-forward, of any width, depth and number of heads, explains anything of in-context regression that "
    "reads x and y as tokens of their own: its answer does not see the sign of y.",
    assumes="W* and the noise, given x, as likely as their negatives together; no feed-forward, no biases, no assumed "
    "copy, no dynamic values, no weights over depth that look at outputs; RMSNorm, LayerNorm or none",
    verdict="verified",
    proof=parity,
    unjudged={
        denseformer: "true of every plan whose heads read a token's own entries",
        Architecture.has_feed_forward: "a decoder is built by what it says",
    },
)

_PLAIN = Architecture(
    d_model=6, n_layers=2, n_heads=2, d_ff=0, context=7, stem=Vectors(3), head_dim=4, norm="rms", score="linear"
)
_DEPARTURES: tuple[dict[str, Any], ...] = (
    {},
    {"positions": "none"},
    {"norm": "layer"},
    {"norm": "none", "n_layers": 3},
    {"positions": "bias"},
    {"positions": "learned"},
    {"score": "softmax"},
    {"d_ff": 5},
    {"qkv_bias": True},
    {"norm": "layer", "bias": True},
)


def turned(config: Architecture, plan: Plan, seed: int = 0) -> float:
    """Return how far an answer moves when all y change sign, relative to its size; all parameters are random."""
    import torch

    from icl.models.decoder import Decoder

    assert isinstance(config.stem, Vectors)
    generator = torch.Generator().manual_seed(seed)
    model = Decoder(config, plan).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    inputs = torch.randn(4, config.context, config.stem.width, generator=generator, dtype=torch.float64)
    signs = torch.tensor([(-1.0) ** t for t in range(config.context)], dtype=torch.float64)[:, None]
    plain, other = (model(x)[:, -1].detach() for x in (inputs, signs * inputs))
    return float((plain - other).norm() / plain.norm())


@PARITY.check(
    "decoders with random weights, 6 plans, 10 departures from the plainest: those of which it speaks see no sign, "
    "the others do",
    states=parity.keeps_signs,
    control=lambda config, plan: parity.keeps_signs(replace(config, score="linear"), plan),
    wrong="a softmax too",
)
def decoders_see_no_sign(speaks: Callable[[Architecture, Plan], bool]) -> bool:
    for departure in _DEPARTURES:
        config = replace(_PLAIN, **departure)
        plans = [resolve(name, config.shape) for name in ("vanilla", "skipv1", "denseformer")]
        plans += [replace(plans[0], depth=depth) for depth in (DepthAttention(), DepthAttention(query="static"))]
        plans += [replace(plans[0], feed_forward=False)]
        for plan in plans:
            if speaks(config, plan) != (turned(config, plan) < 1e-9):
                return False
    return True


@PARITY.check(
    "two layers with a residual stream, rational weights and rotations, d = 1 and 2, n = 1 to 3: over both signs the "
    "loss is that of zero and the answer's power, exactly",
    states=Fraction(0),
    control=Fraction(1, 2),
    wrong="half a point added to the score of a token and the one before it",
    kind="exact",
)
def both_signs_together(bias: Fraction) -> bool:
    draw = np.random.default_rng(0)

    def rational(*shape: int) -> Any:
        return np.vectorize(lambda x: Fraction(int(x), 7))(draw.integers(-7, 8, shape))

    for d, n in product((1, 2), (1, 2, 3)):
        read_in, head, layers = rational(2, d), rational(d, 2), rational(2, 3, 2, 2)
        x, w, noise = rational(2 * n + 1, d), rational(d, d), rational(n + 1, d)
        y = x[::2] @ w.T + noise
        tokens = x.copy()
        power = excess = 0
        for sign in (1, -1):
            tokens[::2], tokens[1::2] = x[::2], sign * y[:-1]
            found = head @ _last(layers, tokens @ read_in.T, bias)
            missed = sign * y[-1] - found
            power += found @ found
            excess += missed @ missed - y[-1] @ y[-1]
        if excess != power:
            return False
    return True


def _last(layers: Any, states: Any, bias: Fraction) -> Any:
    """Return the last state after layers of one head in a residual stream.

    Scores are linear, with queries turned by one angle per token.
    """
    turn = np.array([[Fraction(3, 5), Fraction(-4, 5)], [Fraction(4, 5), Fraction(3, 5)]], dtype=object)
    for query, key, value in layers:
        new = states.copy()
        for t, state in enumerate(states):
            turned = query @ state
            for i in range(t, -1, -1):
                score = turned @ key @ states[i] + (bias if i == t - 1 else 0)
                new[t] = new[t] + score * (value @ states[i])
                turned = turn.T @ turned
        states = new
    return states[-1]
