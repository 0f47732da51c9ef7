"""Measurements of `attnres-toy` that nobody made: what theory says, with some noise, and trained toys as wanted."""

from experiments import catalogue
from experiments.attnres.toy.toys import NETWORKS, TWIN, cell

EXPERIMENT = catalogue.experiment("attnres-toy")
SMOKE = EXPERIMENT.profiles["smoke"].config
SEEDS = 8  # of trained toys
NOISE = (-0.02, 0.01, 0.015, -0.01, 0.02, -0.015)  # of six seeds, mean 0


def measured(prediction):
    """Squares and losses within 2 % of theory; reads that do not grow with norms, and as a power 8 without."""
    trained = {
        cell(name, depth): [_sizes(name, depth, seed) for seed in range(SEEDS)]
        for name in (*NETWORKS, TWIN)
        for depth in prediction["trained_depths"]
    }
    deeper = {
        cell(name, prediction["deeper"]): [[4.0, 5.0] if name in NETWORKS and NETWORKS[name].normed else None] * SEEDS
        for name in (*NETWORKS, TWIN)
    }
    return {
        "squares": {at: [square * (1 + x) for x in NOISE] for at, square in prediction["start"].items()},
        "plain": {str(depth): [1.0] * 6 for depth in prediction["depths"]},
        "answers": {
            at: [{what: exact[what] + exact["gain"] * x for what in ("depth", "residual")} for x in NOISE]
            for at, exact in prediction["deep"].items()
        },
        "trained": trained | deeper,
    }


def _sizes(name, depth, seed):
    """As they come, and wide.  The twin differs by noise alone."""
    if name in NETWORKS and NETWORKS[name].normed:
        return [4.0 + seed / 10, 5.0 + seed / 10]
    noise = (1, -1)[(seed + (name == TWIN)) % 2]
    return [4.0 + noise / 10, 100 * float(depth) ** (8 + noise)]
