"""Checks behind the ledger's entries on scale.  Each takes a version of the claim: see `ledger.Evidence`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from theory.attnres.bounds import read_bounds
from theory.plans.accounting import depth_reads
from theory.plans.names import resolve
from theory.plans.presets import llama
from theory.prompts.setting import signal_share

PROMPTS = 100_000


def odd_part_has_rank(rank: Callable[[int, int, int], int]) -> bool:
    """The linear map S -> B S A^T, for A (a x d) and B (b x d) of random whole numbers."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        for a in range(6):
            for b in range(6):
                left, right = rng.integers(1, 1000, (b, d)), rng.integers(1, 1000, (a, d))
                kronecker = np.kron(left, right).astype(float)
                found = int(np.linalg.matrix_rank(kronecker)) if kronecker.size else 0
                if found != rank(a, b, d):
                    return False
    return True


def construction_explains(more: int) -> bool:
    """MHA's one head at several widths explains rho min(a, d) min(b, d), and not `more` entries of W* than that."""
    return all(width_construction(d, a, b, more) for d, a, b in ((3, 2, 2), (2, 2, 1), (3, 3, 3), (2, 1, 3)))


def width_construction(d: int, a: int, b: int, more: int = 0) -> bool:
    """Tokens of a + b numbers; raw x_t, u_t = (A x_t ; beta B y_t), one head that reads B's rows at A's keys."""
    n, sigma, beta = 4, 0.3, 1e4
    rng = np.random.default_rng(0)
    x = rng.standard_normal((PROMPTS, d, n))
    w = rng.standard_normal((PROMPTS, d, d))
    y = w @ x + sigma * rng.standard_normal((PROMPTS, d, n))
    s_yx, s_xx, s_yy = y @ x.mT, x @ x.mT, y @ y.mT
    width, rank, rows = a + b, min(a, d), min(b, d)
    read_in = np.eye(width, d)
    keys = np.eye(width) * (np.arange(width) < rank)
    copy_x, copy_y = keys @ read_in, np.zeros((width, d))
    copy_y[a : a + rows] = beta * np.eye(rows, d)
    readout = copy_y.T / (beta**2 * (n + d + 1 + sigma**2))
    s_uu = copy_x @ s_xx @ copy_x.T + copy_y @ s_yy @ copy_y.T
    s_uu += copy_y @ s_yx @ copy_x.T + copy_x @ s_yx.mT @ copy_y.T
    p = readout @ (read_in @ s_xx @ read_in.T + s_uu) @ keys @ copy_x
    gained = (w**2).sum((1, 2)) - ((p - w) ** 2).sum((1, 2))
    said = signal_share(d, n, sigma) * (rank * rows + more)
    return bool(abs(gained.mean() - said) < 4 * gained.std() / PROMPTS**0.5)


def aligned_outputs_attain(largest: Mapping[str, Callable[[int], float]]) -> bool:
    """With outputs that are all one unit vector, and all weight on the largest source, a read attains its bound.

    largest: for each depth rule, that bound at a number of sublayers.
    """
    for name, said in largest.items():
        for layers in (2, 4, 8, 16):
            config = llama(16, 2, layers, 32, 64, 8)
            plan = resolve(name, config.shape)
            attained = max(len(source) for sources in depth_reads(config, plan) for source in sources)
            bound = max(read_bounds(config, plan, 1.0, [1.0] * (2 * layers)))
            if not attained == bound == said(2 * layers):
                return False
    return True


def decoders_stay_below(factor: float) -> bool:
    """Norms at every read but the first, the embedding, over `factor` times their bounds."""
    import torch

    from experiments.training.magnitude_probe import bounds
    from icl.models.decoder import Decoder
    from icl.probes.magnitude import magnitudes

    config = llama(16, 2, 4, 32, 64, 8)
    tokens = torch.arange(64).view(8, 8)
    for name in ("vanilla", "attnres", "attnres-block:blocks=2"):
        for std in (0.02, 0.3, 3.0):
            model = Decoder(config, resolve(name, config.shape), std=std).double()
            found = magnitudes(model, tokens, lambda answer: answer.square().mean())
            allowed = bounds(model, found.output_max[0])
            pairs = zip(found.read_max[1:], allowed[1:], strict=True)
            if any(norm > factor * bound * (1 + 1e-12) for norm, bound in pairs):
                return False
    return True
