"""Training dynamics: an optimum that exists is not one that training reaches.

From small weights the loss falls in steps.  `theory.skipv1.landscape` says how high its plateaus are and which of them
are traps, `theory.skipv1.dynamics` when each is left and which starts end in a trap.  Here toys are trained by plain
gradient descent on fresh prompts, for which time is steps times the learning rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.dynamics.points import Arm, Config, Shares, Staircase
from experiments.skipv1.dynamics.predictions import predicted_shares, predicted_staircase
from experiments.skipv1.dynamics.training import train_shares, train_staircases
from experiments.store.folders import Json, RunFolder
from experiments.verdicts.checks import Judgement
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _arms(ranks: Mapping[str, Sequence[int]], keys: Sequence[float], counts: Sequence[int]) -> tuple[Arm, ...]:
    """Every toy and rank with two heads over `keys`, and its highest rank over the numbers of heads."""
    two = [Arm(toy=toy, rank=a, heads=2, keys=r) for toy, some in ranks.items() for a in some for r in keys]
    more = [Arm(toy=toy, rank=max(some), heads=h, keys=1.0) for toy, some in ranks.items() for h in counts]
    return tuple(dict.fromkeys([*two, *more]))


_DETECTS = "5 % of the time of a step, 15 % of its height; a difference of 0.25 between two shares of starts"
PROFILES = {
    "smoke": Profile(
        config=Config(
            staircases=(Staircase(size=Setting(2, 12, 0.3), toy="skipv1", scales=(0.2, 0.1), past=2.0),),
            shares=Shares(
                size=Setting(2, 12, 0.3), arms=_arms({"skipv1": (2,)}, (0.125, 8.0), ()), flows=4, time=10.0, batch=16
            ),
        ),
        seeds=8,
        seconds=30,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            staircases=(
                Staircase(size=Setting(4, 20, 0.3), toy="skipv1", scales=(0.1, 0.05, 0.03, 0.02)),
                Staircase(size=Setting(4, 20, 0.3), toy="mha", scales=(0.24, 0.1)),
            ),
            shares=Shares(
                size=Setting(3, 20, 0.3),
                arms=_arms({"skipv1": (2, 3), "mha": (2,)}, (0.25, 1.0, 4.0), (2, 4, 8)),
                flows=4,
            ),
        ),
        seeds=8,
        seconds=65,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            staircases=(
                Staircase(size=Setting(6, 30, 0.3), toy="skipv1", scales=(0.1, 0.05, 0.03, 0.02, 0.015, 0.012)),
                Staircase(size=Setting(6, 30, 0.3), toy="mha", scales=(0.2, 0.08, 0.05)),
            ),
            shares=Shares(
                size=Setting(4, 20, 0.3),
                arms=_arms({"skipv1": (2, 3, 4), "mha": (2, 3)}, (0.25, 0.5, 1.0, 2.0, 4.0), (2, 4, 8, 16)),
                flows=32,
                time=60.0,
                learning_rate=0.01,
                batch=64,
            ),
        ),
        seeds=32,
        seconds=7200,
        detects=_DETECTS,
    ),
}


class SkipV1Dynamics:
    name = "skipv1-dynamics"
    title = "Training dynamics: plateaus, steps, and how many starts reach the optimum"
    caption = (
        "(a), (b) Loss over the time of gradient descent from small balanced weights: the band is a 95 % t interval"
        " over seeds, the solid line the exact gradient flow, the dotted stairs are heights and times that theory "
        "gives in closed form. (c) The share of random starts from which training reaches the optimum, over the "
        "size of the keys at the start, moved apart, by gradient descent and, filled, by Adam; between theory's two"
        " lines of a rank a lies what one skip head reaches. (d) The same by number of heads, each architecture at "
        "its best rank, keys as large as the compression. Intervals in (c), (d): 95 % of a share, Wilson's."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = ("skipv1.critical-points", "skipv1.staircase", "skipv1.reachability")
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; gradient flow.  Heights and times: of the signal "
            "of one head in balance; path: of the exact loss, from the very start that is trained",
            "source": "theory.skipv1.landscape, Theorem 1; theory.skipv1.dynamics, Theorems 3 and 4; theory.toy.flow",
            "staircases": {stairs.key: predicted_staircase(stairs) for stairs in config.staircases},
            "shares": predicted_shares(config.shares),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        return {
            "staircases": train_staircases(config, seeds, run),
            "shares": train_shares(config.shares, config.shares.starts * seeds, run),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.skipv1.dynamics.verdicts import verdicts

        return verdicts(prediction, measurement)

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.skipv1.dynamics.figure import draw

        return draw(prediction, measurement)


EXPERIMENT: Experiment = SkipV1Dynamics()
