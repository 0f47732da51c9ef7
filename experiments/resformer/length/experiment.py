"""When SVFormer falls behind vanilla: against context length, learning rate, warm-up, depth (sections 4.6, 4.7).

The paper's critical point is the step at which SVFormer's smoothed training loss passes vanilla's for good.  Here both
see the same batches from the same initial weights wherever shapes agree, and every seed has a critical point of its
own, "never ahead" and "not by the end" included.  A step has the same number of tokens at every length, so steps and
tokens tell the same; the schedule ends with the training at every length and rate.

What longer contexts change besides: fewer sequences a step, and losses that are means over more positions with more to
look back on.  So the difference is also taken at the first positions alone, which every length has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.resformer.length.points import (
    AXES,
    CAUSE,
    CRITICAL,
    ENDS,
    LAYERS,
    LEARNING_RATE,
    LENGTH,
    POSITIONS,
    RATE,
    SIZES,
    SVFORMER,
    WARMUP,
    Case,
    Config,
)
from experiments.resformer.length.profiles import PROFILES
from experiments.store.folders import Json
from experiments.training.arms import Arm
from experiments.training.campaign import BASELINE, TWIN, of_runs, rounds
from experiments.training.tuning import Tuning
from experiments.verdicts.checks import Judgement
from theory.plans.architecture import Tokens
from theory.plans.identity import canonical

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder

ARMS = {BASELINE: BASELINE, SVFORMER: SVFORMER, TWIN: BASELINE}
SAID: dict[str, Json] = {  # signs: of the critical point, and of the final difference, with a larger value; 0: similar
    LENGTH: {"critical": 1.0, "late": -1.0, "place": "section 4.6, Fig. 14"},
    LEARNING_RATE: {"critical": -1.0, "late": 1.0, "place": "section 4.7, Fig. 15a"},
    WARMUP: {"place": "section 4.7, Fig. 15b: comparatively small"},
    LAYERS: {"late": 0.0, "place": "section 4.7, Fig. 15c: similar from 82M to 468M, not at 2M"},
}
TOY = (4, 0.3)  # d, sigma at which the toy is asked


class SVFormerLength:
    name = "svformer-length"
    title = "When SVFormer falls behind vanilla: length, learning rate, warm-up and depth (ResFormer, Figs. 14, 15)"
    caption = (
        "(a), (b) SVFormer's training loss less vanilla's over steps, smoothed, by context length T and by peak "
        "learning rate; markers on the zero line are where a seed's curve crosses it for good, its critical point. "
        "(c) Critical points over doublings of either, moved apart: hollow markers are seeds, lines join lower "
        "medians; beyond the thin lines stand seeds that SVFormer does not fall behind in by the end, or is never "
        "ahead in. (d) Final differences, at the right on the first positions alone. The grey twin has vanilla's "
        "plan and other initial weights: what it differs by is no effect. Bands and intervals: 95 % over paired "
        "seeds. Lines in (c), (d) are for the eye."
    )
    kind: Kind = "scale"
    claims: tuple[str, ...] = (CRITICAL, RATE, CAUSE, ENDS, SIZES)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        return {
            "assumes": "of the paper: that the directions which it finds at contexts of 512 to 64,000 tokens and 20B "
            "tokens of training hold here; of the toy: all that it assumes, and that its optimum is reached",
            "source": "ResFormer, sections 4.6 and 4.7, Figs. 14 and 15; theory.toy.value_maps at two layers",
            "statistic": "training loss less vanilla's on the same batches, by seed: its mean over the first and the "
            "last steps, what a doubling of an axis's value adds to the latter, and the step from which the "
            "smoothed difference lies above zero until the end",
            "censored": "never ahead counts as before the first point, not surpassed by the end as after the last, "
            "several changes of sign as anywhere from the first to the last; what is not told apart is tied",
            "rule": "an effect: the family-wise 95 % interval over seeds lies on the predicted side of zero, and that "
            "of vanilla's twin with other initial weights does not; an order: beyond what 95 % of the "
            "permutations of each seed's critical points give, family-wise, and the twin's not",
            "tuning": Tuning().described() + ", as in the paper; its rates are an axis",
            "window": config.window,
            "tokens": config.tokens,
            "early": -1.0,
            "late": 1.0,
            "similar": 0.02,
            "octaves": 0.5,
            "axes": {
                axis: {
                    **SAID[axis],
                    "values": [float(value) for value in config.values[axis]],
                    "cases": [case.key for case in config.along(axis)],
                    "recipes": [canonical(config.trained(case)[1]) for case in config.along(axis)],
                }
                for axis in AXES
            },
            "toy": _toy(config.lengths),
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        from experiments.training.text import text

        read = text(run.slot.data or config.data, config.vocab)

        def arm(case: Case, name: str, seed: int) -> Arm:
            sizes, recipe = config.trained(case)
            return Arm(
                architecture=replace(sizes, stem=Tokens(read.vocab)),
                variant=ARMS[name],
                source=replace(read.source, held_out_windows=config.held_out_tokens // case.length),
                recipe=recipe,
                seed=seed,
                twin=name == TWIN,
                probes=(POSITIONS,),
            )

        places = [(case, name) for case in config.cases for name in ARMS]
        by_seed = rounds(lambda seed: {at: arm(*at, seed) for at in places}, seeds, run, self.name)
        records = [record for r in by_seed for record in r.values()]
        return {
            "seeds": len(by_seed),
            "cases": {case.key: _of_case([{a: r[case, a] for a in ARMS} for r in by_seed]) for case in config.cases},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": read.name,
            "provenance": of_runs(records),
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.resformer.length.verdicts import verdicts

        return list(verdicts(prediction, measurement))

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.resformer.length.figure import draw

        return draw(prediction, measurement)


def _toy(lengths: Sequence[int]) -> Json:
    """SVFormer's lowest loss less vanilla's, in units of the signal's d^2, each at the rank that is best for it.

    With d^2 + d sigma^2 - rho a d at a = d and d^2 + d sigma^2 - rho a (d - a) at a = d / 2 it is -3/4 rho, where rho =
    n / (n + d + 1 + sigma^2) rises with the number n of pairs, half the length: ahead at all lengths, more at longer
    ones.
    """
    from experiments.training.comparing import TOY as SHAPE
    from theory.plans.names import resolve
    from theory.toy.width import explained_share_at_width

    d, sigma = TOY

    def difference(n: int) -> float:
        base, ours = (explained_share_at_width(resolve(name, SHAPE), d, n, sigma, d) for name in (BASELINE, SVFORMER))
        assert base is not None  # both have a closed form at every size
        assert ours is not None
        return base - ours

    pairs = [max(1, length // 2) for length in lengths]
    differences = [difference(n) for n in pairs]
    late = -1.0 if all(x < 0 for x in differences) else 1.0
    return {"d": d, "sigma": sigma, "pairs": pairs, "difference": differences, "late": late}


def _of_case(rounds: Sequence[Mapping[str, Json]]) -> Json:
    """Of every seed: loss curves at the same steps, final held-out loss, and that by position; None if it diverged."""
    whole = [r for of_seed in rounds for r in of_seed.values() if not r["diverged"]]
    steps = [int(step) for step, _ in whole[0]["curve"]] if whole else []

    def curve(record: Json) -> list[float] | None:
        """None too where a log has a gap."""
        if record["diverged"] or [int(step) for step, _ in record["curve"]] != steps:
            return None
        return [round(loss, 5) for _, loss in record["curve"]]

    return {
        "steps": steps,
        "curves": {name: [curve(of_seed[name]) for of_seed in rounds] for name in ARMS},
        "loss": {name: [of_seed[name]["loss"] for of_seed in rounds] for name in ARMS},
        "positions": {name: [of_seed[name]["probes"][POSITIONS]["end"] for of_seed in rounds] for name in ARMS},
        "parameters": {name: rounds[0][name]["parameters"] for name in ARMS},
    }


EXPERIMENT: Experiment = SVFormerLength()
