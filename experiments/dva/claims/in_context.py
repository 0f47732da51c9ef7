"""Claims on dynamic values in the in-context toy."""

from __future__ import annotations

from itertools import product

import numpy as np

from experiments.ledger.claim import Claim
from theory.dva import in_context
from theory.dva.in_context import answer
from theory.dva.paper import PAPER

CLOSE = 1e-8

TOY = Claim(
    "dva.toy",
    PAPER.ours,
    place="theory/dva/in_context.py",
    statement="In the linear-attention toy the last layer's dynamic values are of no use, in either form: their terms "
    "are even in the query and only add to the loss.  In the initial form they are all that a head gives, so there "
    "it is worse than none.  Over an assumed copy of rank a dynamic values explain no more than ordinary heads, "
    "rho a (d - a), even with constants beside what queries, keys, values and gates read.",
    assumes="x as likely as -x; the query's token odd in x; the target's noise of mean 0 and independent; the last "
    "part: the revised form, W0 = 0",
    verdict="verified",
    proof=in_context,
    uses=("skipv1.mha-infimum",),
)


@TOY.check(
    "heads at random, both forms: the mean loss at x and -x, noise of either sign, is that without the gate, of the "
    "initial form without the head, and the gate's square",
    states=0.0,
    control=0.5,
    wrong="with something constant in the query's token",
)
def the_gate_adds_to_the_loss(constant: float) -> bool:
    rng = np.random.default_rng(11)
    for form in ("revised", "initial"):
        for d, width, tokens in ((1, 1, 1), (3, 4, 5), (2, 3, 7)):
            score, gate = rng.standard_normal((2, width, d))
            keys, values, gate_keys = rng.standard_normal((3, tokens, width))
            target, x, noise = rng.standard_normal((width, d)), rng.standard_normal(d), rng.standard_normal(width)
            losses, plain, squares = [], [], []
            for sign, of_noise in product((1, -1), (1, -1)):
                query = sign * x + constant
                whole = answer(form, query, score, keys, values, gate, gate_keys)
                odd = keys @ (score @ query) @ values
                bare = odd if form == "revised" else 0 * odd
                weights = keys @ (score @ query)
                gated = (gate @ query) * (weights @ gate_keys)
                if form == "initial":
                    gated = (weights * (values @ (gate @ query))) @ gate_keys
                if np.abs(whole - bare - gated).max() > CLOSE * (1 + np.abs(whole).max()):
                    return False
                wanted = target @ (sign * x) + of_noise * noise
                losses.append(float(((whole - wanted) ** 2).sum()))
                plain.append(float(((bare - wanted) ** 2).sum()))
                squares.append(float(((whole - bare) ** 2).sum()))
            if abs(sum(losses) - sum(plain) - sum(squares)) > CLOSE * sum(losses):
                return False
    return True


@TOY.check(
    "revised heads with constants everywhere: what is odd in x and in W* of their answers, as a linear map of "
    "B S_yx A^T times x",
    states="B S_yx A^T",
    control="A S_xx A^T",
    wrong="of the other second moments",
)
def constants_read_the_same_numbers(read: str) -> bool:
    """Fitted on half of the draws, held against the other half."""
    rng = np.random.default_rng(12)
    d, n = 3, 4
    for rank in (1, 2):
        a, b = rng.standard_normal((rank, d)), rng.standard_normal((d - rank, d))
        width, wide = 2, d + 1
        score, gate = rng.standard_normal((2, width, d + 1))
        matrices = rng.standard_normal((3, wide, width))
        features, wanted = [], []
        for _ in range(60):
            x, y, query = rng.standard_normal((d, n)), rng.standard_normal((d, n)), rng.standard_normal(d)
            moment = b @ y @ x.T @ a.T if read == "B S_yx A^T" else a @ x @ x.T @ a.T
            features.append(np.kron(moment.ravel(), query))
            # Every product of signs of (x, noise), of W* and the noise, and of the query; what helps has this parity.
            total = np.zeros(width)
            for of_x in (1, -1):
                for of_w in (1, -1):
                    for of_query in (1, -1):
                        u = np.concatenate([a @ x * of_x, b @ y * of_x * of_w, np.ones((1, n))]).T
                        keys, values, gate_keys = (u @ m for m in matrices)
                        token = np.append(of_query * query, 1.0)
                        found = answer("revised", token, score, keys, values, gate, gate_keys)
                        total = total + of_w * of_query * found / 8
            wanted.append(total)
        x_fit, y_fit = np.array(features), np.array(wanted)
        fit, *_ = np.linalg.lstsq(x_fit[:30], y_fit[:30], rcond=None)
        left = np.linalg.norm(x_fit[30:] @ fit - y_fit[30:]) / np.linalg.norm(y_fit[30:])
        if left > CLOSE:
            return False
    return True
