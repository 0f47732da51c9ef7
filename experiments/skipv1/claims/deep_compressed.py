"""Claims on deeper toys: what becomes of Theorem 2 where tokens are compressed, and where they are not."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from experiments.ledger.claim import Claim
from experiments.skipv1.claims.deep import TASKS
from experiments.skipv1.claims.deep_losses import SAMPLES, agree, eliminated_loss
from theory.prompts import setting, spectral
from theory.prompts.isserlis import PromptEngine
from theory.skipv1 import compressed as deep_compressed
from theory.skipv1.compressed import compressed_losses
from theory.skipv1.paper import PAPER
from theory.toy.stack import Array, AttentionHead, Value, run

DEEPER = Claim(
    "skipv1.a2-deeper",
    PAPER.name,
    place="appendix A.2: if each layer of a deeper Transformer performs a gradient step, the analysis carries over "
    "with the same proof technique",
    statement="The loss gap of Theorem 2 holds for deeper models, by the same proof.",
    assumes="W* ~ N(0, I), x ~ N(0, I), Gaussian noise; gradient steps as in deep.own-values",
    verdict="corrected",
    correction="The proof does not carry over: it needs P to be a fixed linear map of S_yx, and its bound fails "
    "from two steps on.  The conclusion does while tokens stay compressed: no model of any depth or kind that sees "
    "(A x ; B y) alone explains more than a (d - a) entries of W*, and after any number of steps SkipV1Former is "
    "at least rho a^2 ahead at equal rank.  But with a residual stream of width 2d nothing needs compression, and "
    "there, among models of gradient steps, raw values beside own ones win nothing (or little: deep.mixed-values), "
    "and raw values alone lose all layers but one.",
    proof=deep_compressed,
    uses=(
        "deep.own-values",
        "deep.raw-values-one-step",
        "deep.mixed-values",
        "deep.best-polynomial",
        "skipv1.mha-infimum",
    ),
)


@DEEPER.check(
    "Lemma 4's proportionality fails for what a second step reads, S_yx S_xx: its ratio, by pairing, d = 1",
    states=4,
    control=2,
    wrong="1/lambda = n + 2 + sigma^2, as the proof would need",
    kind="exact",
)
def second_step_correlates(shift: int) -> bool:
    """d = 1: E[S_yx S_xx S_yx] = (n + shift + sigma^2) E[S_yx S_xx W_D], by pairing; W_D = E[W* | D].

    Lemma 4 for what a second step reads, S_yx S_xx, would need 1/lambda = n + 2 + sigma^2 here.
    """
    engine = PromptEngine(1)
    at = [(engine.w0[0][0], 0)]
    yx, xx = ("yx", 0, 0), ("xx", 0, 0)
    hit = engine.expect(yx, xx, ("w", 0, 0)).evaluate(at)
    n, sigma = hit.ring.gens[:2]
    return bool(hit * (n + shift + sigma**2) == engine.expect(yx, xx, yx).evaluate(at))


@DEEPER.check(
    "the proof's bound, rho for each number seen, is exceeded by the best polynomial of two layers; exact",
    states=2,
    control=1,
    wrong="one layer, where the proof holds",
    kind="exact",
)
def linear_bound_fails(layers: int) -> bool:
    """At a = d the best p of so many layers explains more than rho d^2, the bound of the paper's proof; exact."""
    return all(
        setting.zero_loss(d, n, sigma) - spectral.best_polynomial(d, n, sigma, layers).loss
        > d**2 * setting.signal_share(d, n, sigma)
        for d, n, sigma in TASKS
    )


@DEEPER.check(
    "attention on compressed tokens, one to three steps, 20,000 prompts: MHA's loss, and a gap of rho a^2",
    states=lambda a, k: Fraction(a * a),
    control=lambda a, k: Fraction(a * a * k),
    wrong="a gap that grows with the number of steps",
    kind="sampled",
)
def compressed_steps_lose(share: Callable[[int, int], Fraction]) -> bool:
    """Sampled losses of one to three steps on compressed tokens; SkipV1Former's lie rho times share(a, k) below."""
    for d, n, sigma, rank, count in ((2, 4, 0.5, 1, 1), (2, 4, 0.5, 1, 2), (4, 9, 1.0, 2, 2), (4, 9, 1.0, 2, 3)):
        losses, variance = compressed_losses(d, n, Fraction(sigma), rank, count), Fraction(sigma) ** 2
        one_output = eliminated_loss(rank, n, variance + d - rank, count)
        mha, gap = float(losses.mha), float(n / (n + d + 1 + sigma**2) * share(rank, count))
        if losses.mha != (d - rank) * one_output + rank * (d + variance):
            return False
        if losses.mha - losses.skipv1 != n / (n + d + 1 + variance) * share(rank, count):
            return False
        without, with_skip = sampled_on_compressed_tokens(d, n, sigma, rank, count)
        if not (agree(without, mha) and agree(with_skip, mha - gap)):
            return False
    return True


def sampled_on_compressed_tokens(d: int, n: int, sigma: float, rank: int, count: int) -> tuple[Array, Array]:
    """Losses of MHA and of SkipV1Former, token by token over `SAMPLES` prompts.

    Own steps of the best polynomial on (A x ; B y), as matrices where its roots are complex (d - rank even); and in
    SkipV1Former's last layer a skip head that writes what raw y says into A x's place.
    """
    rng = np.random.default_rng([d, n, rank, count])
    w = rng.standard_normal((SAMPLES, d, d))
    x, y = rng.standard_normal((SAMPLES, n + 1, d)), sigma * rng.standard_normal((SAMPLES, n + 1, d))
    y = y + x @ w.mT
    tokens = np.concatenate([x[..., :rank], y[..., rank:]], axis=-1)
    tokens[:, -1, rank:] = 0
    upper, lower = (np.diag(flags).astype(float) for flags in (np.arange(d) < rank, np.arange(d) >= rank))
    layers = [
        [AttentionHead((Value(layer, lower),), -step, upper, upper)]
        for layer, step in enumerate(_steps(d, n, sigma, rank, count), 1)
    ]
    skip = AttentionHead((Value(0, upper),), upper / (n + d + 1 + sigma**2), upper, upper)
    layers[-1].append(skip)
    streams = run(tokens, layers, raw=y)
    label, last, change = y[:, -1], streams[-1][:, -1], (streams[-1] - streams[-2])[:, -1]
    visible = ((label + last) ** 2)[:, rank:].sum(axis=1)
    return visible + (label**2)[:, :rank].sum(axis=1), visible + ((label - change) ** 2)[:, :rank].sum(axis=1)


def _steps(d: int, n: int, sigma: float, rank: int, count: int) -> list[Array]:
    """B_ll on the last d - rank numbers of a token: (d, d) each."""
    residual = spectral.best_polynomial(rank, n, float(np.sqrt(sigma**2 + d - rank)), count).residual
    inverse = [1 / z for z in np.roots([float(c) for c in reversed(residual)])]
    flat, turn = np.zeros((d, d)), np.zeros((d, d))
    flat[rank:, rank:] = np.eye(d - rank)
    for i in range(rank, d - 1, 2):
        turn[i, i + 1], turn[i + 1, i] = -1, 1
    return [z.real * flat + z.imag * turn for z in inverse]


@DEEPER.check(
    "told all of W* that (A x ; B y) can tell, a model loses d^2 - a (d - a) + d sigma^2, 20,000 prompts",
    states=lambda d, a: d * d - a * (d - a),
    control=lambda d, a: d * d - a * d,
    wrong="as if raw labels were seen",
    kind="sampled",
)
def known_rows_and_columns_leave(unknown: Callable[[int, int], int]) -> bool:
    """Told all of W* that (A x ; B y) can tell, a model still loses unknown + d sigma^2; 20,000 prompts, every rank."""
    rng, d, sigma = np.random.default_rng(29), 3, 0.5
    w, query, noise = (rng.standard_normal((SAMPLES, d, size)) for size in (d, 1, 1))
    for rank in range(d + 1):
        known = w.copy()
        known[:, :rank], known[:, :, rank:] = 0, 0
        losses = ((w @ query + sigma * noise - known @ query) ** 2).sum(axis=(1, 2))
        floor = deep_compressed.any_depth_floor(d, Fraction(sigma), rank)
        if floor != unknown(d, rank) + d * Fraction(sigma) ** 2 or not agree(losses, float(floor)):
            return False
    return True


@DEEPER.check(
    "a regression on 96 random features of all that is seen, 20,000 prompts and as many others: below what the bound "
    "allows, n = 16",
    states="compressed",
    control="raw",
    wrong="with raw labels, by which the same regression passes it",
    kind="sampled",
)
def nothing_learned_passes_bound(labels: str) -> bool:
    """d = 2, a = 1: what a regression of y_{n+1} on features of (A x ; B y), all x_t and A x_{n+1} explains on fresh
    prompts is at most a (d - a) = 1; products with A x_{n+1} of second moments and of random functions of tokens."""
    rng, d, n, sigma, size = np.random.default_rng(30), 2, 16, 0.2, 2 * SAMPLES
    w, x = rng.standard_normal((size, d, d)), rng.standard_normal((size, n + 1, d))
    y = x @ w.mT + sigma * rng.standard_normal((size, n + 1, d))
    seen = np.concatenate([x[:, :-1], y[:, :-1, (1 if labels == "compressed" else 0) :]], axis=-1)
    moments = (seen.mT @ seen / n).reshape(size, -1)
    bent = np.tanh(seen @ rng.standard_normal((seen.shape[-1], 12))).mean(axis=1)
    told = np.concatenate(
        [np.ones((size, 1)), moments, bent, np.tanh(moments @ rng.standard_normal((moments.shape[1], 12)))], axis=1
    )
    query = x[:, -1] if labels == "raw" else x[:, -1, :1]
    features = np.einsum("bi,bj->bij", told, query).reshape(size, -1)
    fit = np.linalg.lstsq(features[:SAMPLES], y[:SAMPLES, -1], rcond=None)[0]
    target = y[SAMPLES:, -1]
    gained = (target**2).sum(axis=1) - ((target - features[SAMPLES:] @ fit) ** 2).sum(axis=1)
    return bool(0.7 < gained.mean() < 1 + 4 * gained.std() / SAMPLES**0.5)


@DEEPER.check(
    "nothing compressed and no noise: one to six own steps reach the best polynomial",
    states=(Fraction(0), 0),
    control=(Fraction(0), 1),
    wrong="as if raw values were worth a layer",
    kind="float64",
)
def raw_values_win_nothing(version: tuple[Fraction, int]) -> bool:
    """Nothing compressed: k = 1..6 own steps reach the best polynomial of degree k + more; exact and by descent."""
    sigma, more = version
    for d, n, _ in TASKS:
        for k in range(1, 7):
            best = spectral.best_polynomial(d, n, sigma, k)
            loss = spectral.best_steps(d, n, float(sigma), k).loss
            expected = float(spectral.best_polynomial(d, n, sigma, k + more).loss)
            if not spectral.is_real_rooted(best.residual) or abs(loss - expected) > 1e-9 * d * d:
                return False
    return True
