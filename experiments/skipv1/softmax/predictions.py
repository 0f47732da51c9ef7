"""What theory says before anything is trained, in shares of E ||W*||^2 = d^2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.skipv1.softmax.points import (
    BUILT,
    FINAL_SAMPLES,
    KINDS,
    LOGITS,
    SIGMA,
    Config,
    construction,
    moments_over_logits,
)
from experiments.store.folders import Json
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from theory.skipv1.softmax_moments import Moments

GAP_WIDTHS, GAP_CONTEXTS = (1, 2, 3, 4, 8), tuple(2**i for i in range(11))


def predictions(config: Config) -> Json:
    return {
        "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; the query hidden from itself in the second layer",
        "source": "theory.skipv1.softmax, softmax_bound, softmax_moments and compressed; units of E ||W*||^2 = d^2",
        "sizes": {size.key: {**_bounds(size), "constructions": _constructions(size)} for size in config.sizes},
        "curves": {str(d): [_row(Setting(d, n, SIGMA)) for n in contexts] for d, contexts in config.curves},
        "logits": {size.key: _over_logits(size) for size in config.logits},
        "gaps": {str(d): [_gap(d, n) for n in GAP_CONTEXTS] for d in GAP_WIDTHS},
    }


def _bounds(size: Setting) -> Json:
    """Of linear skip heads, of any compressed model and of any model at all."""
    from theory.prompts.regression import ridge
    from theory.skipv1.compressed import best_model_loss

    task, entries, zero = size.floats, size.d**2, float(size.zero_loss)
    compressed, bayes = best_model_loss(*task, size.d // 2), ridge(*task)
    return {
        "d": size.d,
        "n": size.n,
        "sigma": float(size.sigma),
        "linear": float(size.signal_share),
        "compressed": (zero - compressed.value) / entries,
        "compressed_stderr": compressed.stderr / entries,
        "bayes": (zero - bayes.value) / entries,
        "bayes_stderr": bayes.stderr / entries,
    }


def _constructions(size: Setting) -> Json:
    from theory.skipv1.softmax_moments import sampled_loss

    found = {}
    for kind in BUILT:
        built, heads = construction(size, kind), KINDS[kind]["skipv1"]
        loss = sampled_loss(*size.floats, size.d, heads, built.logit_scale, built.step, FINAL_SAMPLES, seed=1)
        found[kind] = {
            "logit_scale": built.logit_scale,
            "explained": (float(size.zero_loss) - loss.value) / size.d**2,
            "explained_stderr": loss.stderr / size.d**2,
        }
    return found


def _row(size: Setting) -> Json:
    return {**_bounds(size), **{kind: construction(size, kind).share for kind in BUILT}}


def _over_logits(size: Setting) -> Json:
    """What is explained, and what is proved to be where the bound holds, over the logits' scale, by kind."""
    from theory.skipv1.softmax_bound import LARGEST_LOGITS, certified

    task, share = (*size.floats, size.d), size.d**2

    def row(kind: str, scale: float, moments: Moments) -> Json:
        heads = KINDS[kind]["skipv1"]
        proved = certified(*task, scale).explained(size.d, heads) / share if scale < LARGEST_LOGITS else None
        return {"logit_scale": scale, "explained": moments.explained(size.d, heads) / share, "proved": proved}

    over = list(zip(LOGITS, moments_over_logits(size), strict=True))
    return {**_bounds(size), "kinds": {kind: [row(kind, *pair) for pair in over] for kind in BUILT}}


def _gap(d: int, n: int) -> Json:
    from theory.skipv1.softmax import gap_of_optima

    return {"n": n, "gap": float(gap_of_optima(d, n, SIGMA)) / d**2}
