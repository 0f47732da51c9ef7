"""The two-layer toy's optimum for every value map, against exact minimisation, and its order beside the papers'.

Seed claims: the orderings of variants in ResFormer, sections 3.5 and 4.2 to 4.8, and SkipV1Former, section 6 and
appendices B and C.  The toy is that of SkipV1Former's appendix A, which explains the gain of SkipV1Former; here it is
asked for every other variant that it can speak of (`theory.toy.value_maps`, `theory.toy.raw_keys`), before it is held
against what the papers print of full-size models (`experiments.across.printed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from experiments.across.orderings.points import (
    HEAD_RATIO,
    ORDERINGS,
    PAPERS_HEADS,
    PAPERS_WIDTH,
    RAW_KEYS,
    TIE,
    VALUE_MAPS,
    Config,
    mixtures,
    plans,
    toys,
)
from experiments.across.printed import reported
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.printed import ACCURACIES, note_of
from experiments.store.folders import Json
from experiments.toys.checks import ALTERED
from experiments.toys.runs import Minimisation, Point, minimisations, minimise_all
from experiments.verdicts.checks import Judgement
from theory.plans.heads import Heads, toy_heads
from theory.plans.plan import Plan
from theory.plans.setting import Setting
from theory.prompts.setting import signal_share, zero_loss
from theory.toy.value_maps import closed_form, explained_entry_bounds, needs_free_weights
from theory.toy.width import most_entries_at_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.store.folders import RunFolder


_DETECTS = f"{ALTERED:.0%} of the explained signal; 0.005 nats a token of a paper's loss, of three paired seeds"
_SHORT, _LONG, _NOISY = Setting(3, 4, 0.3), Setting(3, 24, 0.0), Setting(3, 8, 1.0)
PROFILES = {
    "smoke": Profile(
        config=Config(
            every_rank=(Setting(2, 6, 0.3),),
            shown=Setting(2, 6, 0.3),
            mixed_size=Setting(2, 6, 0.3),
            starts=4,
            joint_starts=4,
        ),
        seeds=2,
        seconds=12,
        detects=_DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            every_rank=(_SHORT, _LONG, _NOISY), shown=Setting(4, 16, 0.3), mixed_size=_SHORT, starts=6, joint_starts=20
        ),
        seeds=2,
        seconds=50,
        detects=_DETECTS,
    ),
    "full": Profile(
        config=Config(
            every_rank=(Setting(2, 6, 0.3), _SHORT, _LONG, _NOISY),
            shown=Setting(4, 16, 0.3),
            mixed_size=Setting(4, 16, 0.3),
            starts=12,
            joint_starts=60,
        ),
        seeds=4,
        seconds=1500,
        detects=_DETECTS,
    ),
}


class ToyOrderings:
    name = "toy-orderings"
    title = "The toy's optimum for every value map, and its order beside the papers'"
    caption = (
        "(a) The most that the toy explains with every variant, as a share of rho d²; crosses are exact minima "
        "found numerically, orange strokes hold at the papers' width and number of heads. Hatched: approached, and "
        "not attained; grey: not known whether attained. (b) Losses less vanilla's that papers print; bars are what"
        " chance may add to one pair of runs, 95 %, taken from the three pairs that one paper repeats. (c) What the"
        " papers say in words, and whether the toy's order agrees; open circles are ties of the toy, which decide "
        "nothing. Rows stand by what the toy explains."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (VALUE_MAPS, RAW_KEYS, HEAD_RATIO, ORDERINGS)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        architectures, toy_of = toys(config.heads)
        shown = config.shown
        return {
            "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; minima over A, B, K and W; that whoever explains "
            "more in context is the better language model",
            "source": "theory.toy.value_maps, theory.toy.raw_keys, theory.toy.width",
            "rule": "the papers' loss of the variant less that of the other lies, with its interval, on the side of "
            "zero on which the toy's does; toys that differ by less than a hundredth of the signal are a tie, which "
            "decides nothing",
            "shown": asdict(shown) | {"key": shown.key, "heads": config.heads},
            "toy_of": toy_of,
            "variants": {name: _of_variant(plan, config) for name, plan in plans(config.heads).items()},
            "exact": {p.key: _of_point(p, architectures[p.toy]) for p in _points(config, architectures)},
            "mixtures": {p.key: _of_point(p, m, HEAD_RATIO) for p, m in _mixed_points(config)},
            "order": {
                "width": PAPERS_WIDTH,
                "heads": PAPERS_HEADS,
                "tie": TIE,
                "shares": {name: _share(toy_heads(plan)) for name, plan in plans(PAPERS_HEADS).items()},
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        architectures = toys(config.heads)[0]
        joint = [p for p in _shown_points(config, architectures) if needs_free_weights(architectures[p.toy])]
        rest = [point for point in _points(config, architectures) if point not in joint]
        starts = config.starts * seeds
        exact = [
            *minimisations(joint, config.joint_starts * seeds, architectures),
            *minimisations(rest, starts, architectures),
        ]
        mixed = [Minimisation(point, heads, starts) for point, heads in _mixed_points(config)]
        minima = minimise_all([*exact, *mixed], run)
        return {
            "exact": {item.point.key: minima[item.point.key] for item in exact},
            "mixtures": {item.point.key: minima[item.point.key] for item in mixed},
            "papers": [asdict(r) for r in reported()],
            "accuracies": {name: list(values) for name, values in ACCURACIES.items()},
            "notes": {name: note_of(name) for name in ACCURACIES},
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        from experiments.across.orderings.verdicts import exact_checks, expectations, order_expectations

        return [
            *exact_checks(prediction, measurement),
            *expectations(prediction, measurement),
            *order_expectations(prediction, measurement),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.across.orderings.figure import draw

        return draw(prediction, measurement)


def _points(config: Config, architectures: Iterable[str]) -> list[Point]:
    every = [
        Point(size, toy, rank) for size in config.every_rank for toy in architectures for rank in range(size.d + 1)
    ]
    return list(dict.fromkeys([*_shown_points(config, architectures), *every]))


def _shown_points(config: Config, architectures: Iterable[str]) -> list[Point]:
    """At d/2 and d, where the closed forms of all but large numbers of raw keys are largest."""
    d = config.shown.d
    return [Point(config.shown, toy, rank) for toy in architectures for rank in sorted({d // 2, d})]


def _mixed_points(config: Config) -> list[tuple[Point, Heads]]:
    size = config.mixed_size
    mixed = mixtures(config.mixed).items()
    return [(Point(size, name, rank), heads) for name, heads in mixed for rank in range(1, size.d + 1)]


def _of_point(point: Point, heads: Heads, claim: str | None = None) -> Json:
    """What the theorems leave possible, in entries of W*, with what one is worth."""
    least, most = explained_entry_bounds(heads, point.size.d, point.rank)
    task = point.size.floats
    return {
        "toy": point.toy,
        "size": point.size.key,
        "rank": point.rank,
        "least": least,
        "most": most,
        "rho": signal_share(*task),
        "zero_loss": zero_loss(*task),
        "claim": claim or (RAW_KEYS if needs_free_weights(heads) else VALUE_MAPS),
    }


def _of_variant(plan: Plan, config: Config) -> Json:
    """Entries of W* at the figure's size: at every rank (least, most), and at the best one, at three widths.

    beside: whether there are terms beside the attention, which are proved to change nothing and are not minimised over.
    """
    size, heads = config.shown, toy_heads(plan)
    ranks = [explained_entry_bounds(heads, size.d, rank) for rank in range(size.d + 1)]
    best = max(range(size.d + 1), key=lambda rank: ranks[rank])
    optimum = closed_form(plan, *size.floats, best)
    widths = {"d": size.d, "3d/2": size.d + size.d // 2, "2d": 2 * size.d}
    return {
        "ranks": ranks,
        "best_rank": best,
        "best": ranks[best][1],
        "attained": None if optimum is None else optimum.attained,
        "widths": {name: most_entries_at_width(heads, size.d, width) for name, width in widths.items()},
        "beside": any(head.beside.terms for head in plan.table[1]),
    }


def _share(heads: Heads) -> float | None:
    entries = most_entries_at_width(heads, PAPERS_WIDTH, PAPERS_WIDTH)
    return None if entries is None else entries / PAPERS_WIDTH**2


EXPERIMENT: Experiment = ToyOrderings()
