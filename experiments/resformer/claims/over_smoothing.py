"""Claims on what concentration has to do with over-smoothing and with length: appendix A.1 and Figs. 18 and 20."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from experiments.ledger.claim import Claim
from experiments.resformer.claims.concentration import concentration
from theory.prompts.moments import Array
from theory.resformer import measures, smoothing
from theory.resformer.paper import PAPER


def mean_variation(attention: Array) -> float:
    """The mean total variation of two rows of attention, the two drawn at random.

    It is at most 2 (1 - a_max), a_max the largest importance: a row is at 1 - A_ij from attention to token j alone,
    which in the mean over rows is 1 - a_j, and two rows are no further apart than the sum of that.
    """
    return float(np.abs(attention[:, None] - attention[None]).sum(axis=-1).mean() / 2)


SIMILARITY = Claim(
    "resformer.concentration-and-similarity",
    PAPER.name,
    place="appendix A.1, on Fig. 18",
    statement="Attention concentration tends to make tokens alike; that similarity over depth is an M where entropy is "
    "a W suggests that concentration leads to over-smoothing.",
    assumes="one layer of attention and nothing else; concentration by Eqn. (11) as corrected",
    verdict="corrected",
    correction="It is enough, as two rows of attention differ by at most 2 (1 - a_max) in the mean, but it "
    "is not needed: with the largest entropy there is, log l, attention to oneself leaves tokens as they are and "
    "attention spread evenly makes them all one.  What counts is how far rows differ "
    "(resformer.smoothing-any-layers); two curves that mirror each other show no cause.",
    proof=mean_variation,
    uses=("resformer.eqn11-sum", "resformer.eqn13"),
)


@SIMILARITY.check(
    "entropy less the largest, Dobrushin's coefficient and similarity of the output, 5 orthogonal tokens",
    states={"oneself": (0.0, 1.0, 0.0), "evenly": (0.0, 0.0, 1.0), "one token": (-np.log(5), 0.0, 1.0)},
    control={"oneself": (0.0, 1.0, 0.0), "evenly": (0.0, 1.0, 0.0), "one token": (-np.log(5), 0.0, 1.0)},
    wrong="one similarity for one entropy",
    kind="float64",
)
def entropy_does_not_tell(found: Mapping[str, tuple[float, float, float]]) -> bool:
    one = np.zeros((5, 5))
    one[:, 2] = 1
    cases = {"oneself": np.eye(5), "evenly": np.full((5, 5), 1 / 5), "one token": one}
    for name, (entropy, variation, similarity) in found.items():
        a = cases[name]
        told = concentration(a) - np.log(5), smoothing.dobrushin(a), measures.token_similarity(a @ np.eye(5))
        if np.abs(np.subtract(told, (entropy, variation, similarity))).max() > 1e-12:
            return False
    return True


@SIMILARITY.check(
    "rows of 200 random attentions differ in the mean by at most 2 (1 - a_max); nearly attained by one row in 40 that "
    "attends elsewhere",
    states=2.0,
    control=1.9,
    wrong="5 % tighter",
    kind="float64",
)
def concentrated_rows_are_alike(factor: float) -> bool:
    rng = np.random.default_rng(3)
    odd_one = np.zeros((40, 40))
    odd_one[:, 0], odd_one[-1] = 1, np.eye(40)[1]
    spread = [rng.dirichlet(np.full(6, size), 6) for size in (0.05, 0.3, 2.0, 20.0) for _ in range(50)]
    bounds = [(mean_variation(a), factor * (1 - measures.token_importance(a).max())) for a in (*spread, odd_one)]
    return all(found <= bound + 1e-12 for found, bound in bounds) and bounds[-1][0] > 0.97 * bounds[-1][1]


LENGTH = Claim(
    "resformer.concentration-length",
    PAPER.name,
    place="appendix A.2, Fig. 20",
    statement="ResFormer mitigates attention concentration the more, the shorter the sequences are.",
    assumes="trained decoders; entropies in nats",
    verdict="open",
    correction="Trained models decide it; no question asks it yet.  Entropies at two lengths have two ceilings: if "
    "the first token takes a share p whatever the length and the rest is spread evenly, entropy grows by (1 - p) log "
    "2 a doubling, so that a difference of two models' grows with the length while neither's concentration changes.  "
    "Compared must be shares, or entropies below that of attention spread evenly.",
    proof=measures,
    uses=("resformer.entropy-of-uniform",),
)


@LENGTH.check(
    "what entropy gains as 256 tokens become 512, the first with a share of 0, 0.2 and 0.8, to 0.01 nats",
    states=lambda share: (1 - share) * np.log(2),
    control=lambda share: np.log(2),
    wrong="log 2, whatever the share",
    kind="float64",
)
def entropy_of_a_fixed_share(gain: Callable[[float], float]) -> bool:
    """Of what tokens receive from n queries in all, which adds up to n."""
    for share in (0.0, 0.2, 0.8):
        short, long = (measures.entropy(n * np.r_[share, np.full(n - 1, (1 - share) / (n - 1))]) for n in (256, 512))
        if abs(long - short - gain(share)) > 1e-2:
            return False
    return True


@LENGTH.check(
    "the same share of sinks, 0.8 and 0.3: the difference of two models' entropies at 64, 512 and 4,096 tokens",
    states=1,
    control=-1,
    wrong="it falls with the length",
    kind="float64",
)
def differences_grow_with_length(sign: int) -> bool:
    differences = []
    for tokens in (64, 512, 4096):
        even = measures.uniform_causal_importance(tokens)
        if abs(even.sum() - 1) > 1e-12:
            return False
        first = np.eye(1, tokens)[0]
        sunk, spread = (measures.entropy(share * first + (1 - share) * even) for share in (0.8, 0.3))
        differences.append(spread - sunk)
    return bool(np.all(sign * np.diff(differences) > 0))
