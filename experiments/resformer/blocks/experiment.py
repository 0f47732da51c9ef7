"""Cross-layer attention (Eqn. (2)) against the block form that ResFormer puts in its place (Eqns. (3) and (4)).

Three questions, each with a theorem.  How far are the two apart in the linear toy, as a function of how far the keys of
the two layers are apart (`theory.resformer.in_context`)?  Which of the two explains more of an in-context task, once
trained (same place)?  How far can a softmax row move when the earlier layer's scores do (`theory.resformer.blocks`)?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.blocks.points import (
    BETTER,
    BLOCK,
    CROSS,
    DISTANCE,
    IN_THE_MEAN,
    SHARP,
    TOYS,
    WAYS,
    Config,
    distance_key,
    moved_keys,
    own_keys,
    points,
)
from experiments.store.folders import Json
from experiments.toys.checks import ALTERED
from experiments.toys.runs import minimisations, minimise_all
from experiments.toys.training import Training
from experiments.verdicts.checks import Check
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

_SMALL, _LONG = Setting(3, 8, 0.3), Setting(4, 16, 0.0)
_DETECTS = f"{ALTERED:.0%} of the explained signal and of the sharp bound, 10% of a squared distance"
PROFILES = {
    "smoke": Profile(
        config=Config(
            keys=(Setting(2, 4, 0.3),),
            distances=(0.5, 1.0),
            prompts=32_768,
            trained=Setting(2, 6, 0.3),
            training=Training(steps=1200, held_out=32_768),
            starts=4,
            eps=(0.1, 1.0, 4.0),
            rows=1000,
        ),
        seeds=8,
        seconds=12,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            keys=(_SMALL, _LONG),
            distances=(0.5, 1.0),
            prompts=32_768,
            trained=_SMALL,
            training=Training(steps=2000, held_out=32_768),
            starts=4,
        ),
        seeds=8,
        seconds=25,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            keys=(_SMALL, _LONG, Setting(8, 64, 0.5)),
            distances=(0.125, 0.25, 0.5, 1.0, 2.0),
            prompts=524_288,
            trained=Setting(4, 16, 0.0),
            training=Training(steps=20_000, held_out=524_288),
            starts=12,
            climbs=32,
            climbing=20_000,
            rows=40_000,
        ),
        seeds=10,
        seconds=1200,
        detects=_DETECTS,
    ),
}
CURVE = 81  # points of the softmax's bound


class ResFormerBlocks:
    name = "resformer-blocks"
    title = "Cross-layer attention against its block form: keys apart, toys trained, scores moved (ResFormer, Eqn. 3)"
    caption = (
        "(a) How far cross-layer attention is from its block form as the layers' keys move apart in several ways: "
        "lines are closed forms, markers sampled. (b) What either explains of the signal over the rank a: lines are"
        " closed forms, crosses exact minima, hollow markers toys trained; plus signs, moved aside, are the block "
        "form put in after training with (2), one a seed. (c) How much softmax weights move at most if no score "
        "moves by more than epsilon: lines bound it, markers are the worst found, the grey band 95 % of rows under "
        "random moves. (d) The same for normal moves of all scores: the blue band holds 95 % of rows, and two "
        "bounds lie above. Intervals in (a), (b): 95 % over seeds, mostly smaller than the marker."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (DISTANCE, BETTER, SHARP, IN_THE_MEAN)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "keys: W0 = 0, normal inputs, linear attention; toys: also Assumption 1 and minima over A, B, K "
            "and W; softmax: one earlier layer or seven, scores that move by eps at most",
            "source": "theory.resformer.in_context, theory.resformer.blocks",
            "shown": config.shown.key,
            "keys": _distances(config),
            "toys": _explained(config),
            "softmax": _shares(config),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.resformer.blocks.linear import measured_all
        from experiments.resformer.blocks.softmax import climbed, normal_moves, random_rows

        return {
            **measured_all(config, seeds, run),
            "exact": minimise_all(minimisations(points(config), config.starts, TOYS), run),
            "climbed": {
                str(layers): climbed(config.eps, layers, config.climbs, config.climbing) for layers in config.layers
            },
            "random": {str(layers): random_rows(config.eps, layers, config.rows) for layers in config.layers},
            "normal": normal_moves(config.spreads, config.rows),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Check]:
        from experiments.resformer.blocks.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.resformer.blocks.figure import draw

        return draw(prediction, measurement)


def _distances(config: Config) -> Json:
    """The squared distance as a share of the block form's own mean square; a form of the second degree in the keys."""
    import numpy as np

    from theory.resformer.in_context import block_distance

    found = {}
    for size in config.keys:
        readout, own = np.eye(size.d), own_keys(size)
        form = block_distance(*size.floats, readout, own.x, own.y, own.of_x)
        for way in WAYS:
            for distance in config.distances:
                keys = moved_keys(size, way, distance)
                off = block_distance(*size.floats, readout, keys.x, keys.y, keys.of_x)
                key = distance_key(size.key, way, distance)
                found[key] = {"size": size.key, "way": way, "distance": distance, "share": float(off / form)}
    return found


def _explained(config: Config) -> Json:
    """What the theorem says both plans explain at every rank; of ResFormer what its one head does."""
    from theory.toy.value_maps import explained_entries

    size = config.trained
    ranks = [
        {toy: size.signal_share * (explained_entries(TOYS[toy], size.d, rank) or 0) for toy in (CROSS, BLOCK)}
        for rank in range(size.d + 1)
    ]
    return {
        "size": size.key,
        "d": size.d,
        "n": size.n,
        "sigma": size.sigma,
        "zero_loss": size.zero_loss,
        "rho": size.signal_share,
        "ranks": ranks,
    }


def _shares(config: Config) -> Json:
    """kappa_w over eps, for each number of layers; tanh(eps / 2), its limit; and Pinsker's bound of normal moves."""
    from statistics import NormalDist

    import numpy as np

    from theory.resformer.blocks import block_form_share, mean_bound

    most = max(config.eps)
    fine = [most * (i / (CURVE - 1)) for i in range(CURVE)]
    # A row of so many tokens that the moves' shares are the normal distribution's.
    normal = np.array([NormalDist().inv_cdf((i + 0.5) / 4000) for i in range(4000)])
    weights, still = np.full((1, 8000), 1 / 8000), np.zeros(4000)
    return {
        "eps": list(config.eps),
        "bounds": {str(layers): [block_form_share(x, 1 / layers) for x in config.eps] for layers in config.layers},
        "fine": fine,
        "curves": {str(layers): [block_form_share(x, 1 / layers) for x in fine] for layers in config.layers},
        "all_move": [float(np.tanh(x / 2)) for x in fine],
        "spreads": list(config.spreads),
        "endless": [float(mean_bound(weights, np.append(still, s * normal)[None])[0]) for s in config.spreads],
    }


EXPERIMENT: Experiment = ResFormerBlocks()
