"""What theory says of the toys that are looked at."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from experiments.attnres.toy.points import AVERAGE, NETWORKS, RULES, TOKENS, WEIGHTS, Config, Network, answer, start
from experiments.store.folders import Json
from theory.attnres.bounds import read_bounds
from theory.attnres.coefficients import average_matrix, start_matrix
from theory.attnres.toy import descent_reads, mean_squares, random_reads
from theory.attnres.unnormed import unnormed_outputs
from theory.errors import BadInput
from theory.plans.names import resolve
from theory.plans.presets import toy
from theory.plans.setting import Setting
from theory.prompts import spectral

CUBIC = 3  # linear attention reads queries, keys and values
STARTS = 6  # of descents for a point of a curve: at d of 3 and 5 they find what four times as many do


def predicted(config: Config) -> Json:
    """start: the last read's mean squares; curves: these at every number of layers; bounded: networks whose reads
    have a bound that no depth exceeds; deep: losses of the deep toy; gains: what depth weights gain there, by noise."""
    start_of = {
        start(kind, rule, depth, token): _last(config, kind, rule, depth)[token]
        for kind, rule, depth in config.starts()
        for token in TOKENS
    }
    curve = range(1, config.deepest + 1)
    many = 2 * config.deeper, 4 * config.deeper
    largest = {name: [_largest(config, network, depth) for depth in many] for name, network in NETWORKS.items()}
    return {
        "depths": list(config.depths),
        "random_depths": list(config.random_depths),
        "deepest": config.deepest,
        "trained_depths": list(config.trained_depths),
        "deeper": config.deeper,
        "start": start_of,
        "curves": {
            f"{kind}/{rule}": [_last(config, kind, rule, depth)["context"] for depth in curve]
            for kind in WEIGHTS
            for rule in RULES
        },
        "bounded": [name for name, (few, more) in largest.items() if more is not None and few == more],
        "deep": {answer(setting, k): _deep(setting, k) for setting in config.deep for k in config.layers},
        "noises": list(config.noises),
        "gains": {
            f"{d}/{n}/{k}": [_share(d, n, sigma, k) for sigma in config.noises]
            for d, n in dict.fromkeys((setting.d, setting.n) for setting in config.deep)
            for k in config.layers
        },
    }


@lru_cache(maxsize=1024)
def _moments(setting: Setting, kind: str, rule: str, depth: int, size: Fraction) -> tuple[float, float]:
    sizes = toy(2 * setting.d, setting.n, heads=1, layers=depth)
    means = [[Fraction(1, n + 1)] * (n + 1) for n in range(1, depth + 1)]
    matrix = average_matrix(means, 1) if rule == AVERAGE else start_matrix(sizes, resolve(rule, sizes.shape))
    reads = (descent_reads if kind == "descent" else random_reads)(matrix, [size] * depth)
    found = mean_squares(setting, reads[-1])
    return float(found.context), float(found.query)


def _last(config: Config, kind: str, rule: str, depth: int) -> dict[str, float]:
    """Of the last read, by token."""
    task = config.task
    exact = Setting(task.d, task.n, Fraction(task.sigma))
    size = Fraction(config.step if kind == "descent" else config.deviation)
    return dict(zip(TOKENS, _moments(exact, kind, rule, depth, size), strict=True))


def _largest(config: Config, network: Network, depth: int) -> float | None:
    """The bound on all reads, of embeddings of norm 2: with norms before sublayers, if no output is larger either;
    without, if no sublayer enlarges the cube of what it reads.  None: larger than floating-point numbers, or averages,
    whose weights are learned."""
    sizes = config.trained(network, depth)
    plan = resolve(network.variant, sizes.shape)
    outputs = [2.0] * depth
    try:
        if not network.normed:
            outputs = unnormed_outputs(sizes, plan, 2.0, [1.0] * depth, power=CUBIC)
        return max(read_bounds(sizes, plan, 2.0, outputs))
    except BadInput:
        return None


def _deep(setting: Setting, layers: int) -> Json:
    """Losses: of the best depth weights, of the best residual stream, and of one layer."""
    d, n, sigma = setting.d, setting.n, Fraction(setting.sigma)
    best = spectral.best_polynomial(d, n, sigma, layers).loss
    residual = spectral.best_steps(d, n, float(sigma), layers).loss
    return {
        "d": d,
        "n": n,
        "sigma": setting.sigma,
        "layers": layers,
        "depth": float(best),
        "residual": residual,
        "gain": residual - float(best),
        "one layer": float(spectral.best_polynomial(d, n, sigma, 1).loss),
        "noise": float(d * sigma**2),
    }


def _share(d: int, n: int, sigma: float, layers: int) -> float:
    """What depth weights gain, over what the best residual stream loses above the noise; exactly nothing for noise up
    to the threshold."""
    if sigma <= spectral.noise_threshold(d, n, layers):
        return 0.0
    best = spectral.best_loss(d, n, sigma, layers)
    steps = spectral.best_steps(d, n, sigma, layers, starts=STARTS).loss
    return (steps - best) / (steps - d * sigma**2)
