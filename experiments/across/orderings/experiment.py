"""Ask for the two-layer toy's optimum with every value map, exactly minimised, and hold its order beside the papers'.

Seed claims: the orderings of variants in ResFormer, sections 3.5 and 4.2 to 4.8, and SkipV1Former, section 6 and
appendices B and C.  The toy is that of SkipV1Former's appendix A, which explains the gain of SkipV1Former; here it is
computed for every other variant that it can speak of (`theory.toy.value_maps`, `theory.toy.raw_keys`), before it is
held against what the papers print of full-size models (`experiments.across.printed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from experiments.across.orderings.papers import ORDERINGS, expectation, expectations, order_expectations
from experiments.across.printed import reported
from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.skipv1.printed import ACCURACIES, note_of
from experiments.store.folders import Json, RunFolder
from experiments.toys.checks import ALTERED, EXACT_SLACK, ROUNDING, SIGNAL, ClosedForm, exact_check
from experiments.toys.runs import Minimisation, Point, minimisations, minimise_all
from experiments.training.campaign import BASELINE
from experiments.training.printed import Reported
from experiments.verdicts.checks import Check, Judgement
from theory.errors import BadInput
from theory.plans.heads import ORDINARY, SKIP, Heads, shares, toy_heads
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.plans.setting import Setting
from theory.plans.variants import VARIANTS, of_the_papers
from theory.prompts.setting import signal_share, zero_loss
from theory.toy.value_maps import closed_form, explained_entry_bounds, needs_free_weights
from theory.toy.width import most_entries_at_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VALUE_MAPS, RAW_KEYS, HEAD_RATIO = "toy.value-maps", "toy.raw-keys", "toy.head-ratio"
PAPERS_WIDTH, PAPERS_HEADS = 768, 12  # LLaMA-130M and GPT2-125M; the order is the same at every width of the papers
TIE = 0.01  # of the signal: a smaller difference between two toys is none
NAMES = tuple(dict.fromkeys([*of_the_papers(), *(name for r in reported() for name in (r.variant, r.against))]))


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes at which toys are minimised.

    Attributes:
        every_rank: Sizes at which every toy is minimised at every rank.
        shown: The figure's size, at d/2 and d only.
        mixed_size: The size of the mixtures.
        starts: Descents of a seed, of which the lowest counts.
        joint_starts: The same for the figure's toys whose heads have to work together, where one in forty may find
            the best.
        heads: Of every plan.
        mixed: Of the mixtures of ordinary and skip heads.
    """

    every_rank: tuple[Setting, ...]
    shown: Setting
    mixed_size: Setting
    starts: int
    joint_starts: int
    heads: int = 2
    mixed: int = 4


DETECTS = f"{ALTERED:.0%} of the explained signal; 0.005 nats per token of a paper's loss, of three paired seeds"
SHORT, LONG, NOISY = Setting(3, 4, 0.3), Setting(3, 24, 0.0), Setting(3, 8, 1.0)
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
        detects=DETECTS,
    ),
    "cpu": Profile(
        config=Config(
            every_rank=(SHORT, LONG, NOISY), shown=Setting(4, 16, 0.3), mixed_size=SHORT, starts=6, joint_starts=20
        ),
        seeds=2,
        seconds=50,
        detects=DETECTS,
    ),
    "full": Profile(
        config=Config(
            every_rank=(Setting(2, 6, 0.3), SHORT, LONG, NOISY),
            shown=Setting(4, 16, 0.3),
            mixed_size=Setting(4, 16, 0.3),
            starts=12,
            joint_starts=60,
        ),
        seeds=4,
        seconds=1500,
        detects=DETECTS,
    ),
}


class ToyOrderings:
    name = "toy-orderings"
    title = "The toy's optimum for every value map, and its order beside the papers'"
    caption = (
        "The toy orders most pairs of variants as the papers do. (a) The most that it explains, as a share of rho d²: "
        "bars, theory; crosses, exact minima; hatched, approached only. (b) Printed losses minus vanilla's; bars: 95 "
        "% of chance in a pair of runs. (c) The papers' words, and whether the toy agrees; open circles: ties."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (VALUE_MAPS, RAW_KEYS, HEAD_RATIO, ORDERINGS)
    profiles: Mapping[str, Profile] = PROFILES

    def at_size(self, config: Config, size: Setting) -> Config:
        return replace(config, every_rank=(size,), shown=size, mixed_size=size)

    def predict(self, config: Config) -> Json:
        architectures, toy_of = toys(config.heads)
        shown = config.shown
        return {
            "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; minima over A, B, K and W; that whoever explains "
            "more in context is the better language model",
            "source": "theory.toy.value_maps, theory.toy.raw_keys, theory.toy.width",
            "rule": "the papers' loss of the variant minus that of the other lies, with its interval, on the side of "
            "zero on which the toy's does; toys that differ by less than a hundredth of the signal are a tie, which "
            "decides nothing",
            "shown": asdict(shown) | {"key": shown.key, "heads": config.heads},
            "toy_of": toy_of,
            "variants": {name: variant_optimum(plan, config) for name, plan in plans(config.heads).items()},
            "exact": {p.key: point_bounds(p, architectures[p.toy]) for p in minimised_points(config, architectures)},
            "mixtures": {p.key: point_bounds(p, m, HEAD_RATIO) for p, m in mixed_points(config)},
            "order": {
                "width": PAPERS_WIDTH,
                "heads": PAPERS_HEADS,
                "tie": TIE,
                "shares": {name: paper_share(toy_heads(plan)) for name, plan in plans(PAPERS_HEADS).items()},
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        architectures = toys(config.heads)[0]
        joint = [p for p in shown_points(config, architectures) if needs_free_weights(architectures[p.toy])]
        rest = [point for point in minimised_points(config, architectures) if point not in joint]
        exact = [
            *minimisations(joint, config.joint_starts * seeds, architectures),
            *minimisations(rest, config.starts * seeds, architectures),
        ]
        mixed = [Minimisation(point, heads, config.starts * seeds) for point, heads in mixed_points(config)]
        minima = minimise_all([*exact, *mixed], run)
        return {
            "exact": {item.point.key: minima[item.point.key] for item in exact},
            "mixtures": {item.point.key: minima[item.point.key] for item in mixed},
            "papers": [asdict(r) for r in reported()],
            "accuracies": {name: list(values) for name, values in ACCURACIES.items()},
            "notes": {name: note_of(name) for name in ACCURACIES},
        }

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        return [
            *exact_checks(prediction, measurement),
            *expectations(prediction, measurement),
            *order_expectations(prediction, measurement),
        ]

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        from experiments.drawing.canvas import canvas

        reports = [Reported(**r) for r in measurement["papers"]]
        rows = figure_rows(prediction, reports)
        fig = canvas(11.5, 1.7 + 0.25 * len(rows))
        toy, loss, words = fig.subplots(1, 3, sharey=True, width_ratios=(1.0, 1.0, 0.75))
        draw_toy(toy, prediction, measurement, rows=rows)
        draw_losses(loss, reports, rows)
        draw_words(words, prediction, reports, rows=rows)
        toy.set_yticks(range(len(rows)), [row_label(name) for name in rows], fontsize=7.5)
        toy.set_ylim(len(rows) - 0.4, -0.6)
        for letter, axis in zip("abc", (toy, loss, words), strict=True):
            axis.set_title(f"({letter}) {axis.get_title(loc='left')}", loc="left")
            style.legend_below(axis, columns=1)
        return fig


def plans(heads: int) -> dict[str, Plan]:
    """Return the named variants that the toy covers, at two layers of so many heads."""
    by_name = {}
    for name in NAMES:
        try:
            plan = resolve(name, Shape(2, heads))
            toy_heads(plan)
        except BadInput:
            continue
        by_name[name] = plan
    return by_name


def toys(heads: int) -> tuple[dict[str, Heads], dict[str, str]]:
    """Return the toys that differ, each by the first variant that it stands for, and the toy of every variant."""
    distinct: dict[tuple[object, ...], str] = {}
    architectures: dict[str, Heads] = {}
    toy_of: dict[str, str] = {}
    for name, plan in plans(heads).items():
        reduced = tuple(sorted(toy_heads(plan), key=lambda h: (str(h.key), h.raw, h.key_raw)))
        signature = (
            tuple((h.copied, h.raw, h.key_copied, h.key_raw) for h in reduced),
            *(tuple(shares(reduced, label)[1]) for label in ("readout", "key")),
        )
        toy_of[name] = distinct.setdefault(signature, name)
        architectures.setdefault(toy_of[name], reduced)
    return architectures, toy_of


def mixtures(heads: int) -> dict[str, Heads]:
    """Return mixtures from ordinary heads alone to skip heads alone."""
    return {f"{h} of {heads} skip": (ORDINARY,) * (heads - h) + (SKIP,) * h for h in range(heads + 1)}


def minimised_points(config: Config, architectures: Iterable[str]) -> list[Point]:
    """Return the points at which toys are minimised, the figure's first."""
    every = [
        Point(size, toy, rank) for size in config.every_rank for toy in architectures for rank in range(size.d + 1)
    ]
    return list(dict.fromkeys([*shown_points(config, architectures), *every]))


def shown_points(config: Config, architectures: Iterable[str]) -> list[Point]:
    """Return the points at d/2 and d, where the closed forms of all but large numbers of raw keys are largest."""
    d = config.shown.d
    return [Point(config.shown, toy, rank) for toy in architectures for rank in sorted({d // 2, d})]


def mixed_points(config: Config) -> list[tuple[Point, Heads]]:
    """Return the points of the mixtures, with their heads."""
    size, mixed = config.mixed_size, mixtures(config.mixed)
    return [(Point(size, name, rank), heads) for name, heads in mixed.items() for rank in range(1, size.d + 1)]


def point_bounds(point: Point, heads: Heads, claim: str | None = None) -> Json:
    """Return what the theorems leave possible, in entries of W*, with what one is worth."""
    least, most = explained_entry_bounds(heads, point.size.d, point.rank)
    return {
        "toy": point.toy,
        "size": point.size.key,
        "rank": point.rank,
        "least": least,
        "most": most,
        "rho": signal_share(*point.size.floats),
        "zero_loss": zero_loss(*point.size.floats),
        "claim": claim or (RAW_KEYS if needs_free_weights(heads) else VALUE_MAPS),
    }


def variant_optimum(plan: Plan, config: Config) -> Json:
    """Return entries of W* at the figure's size: at every rank (least, most), and at the best one, at three widths.

    Under `beside` stands whether there are terms beside the attention; these are proved to change nothing and are not
    minimised over.
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


def paper_share(heads: Heads) -> float | None:
    """Return the share of the signal that the toy explains at the papers' width."""
    entries = most_entries_at_width(heads, PAPERS_WIDTH, PAPERS_WIDTH)
    return None if entries is None else entries / PAPERS_WIDTH**2


def exact_checks(prediction: Json, measurement: Json) -> Iterator[Check]:
    """Yield every toy at every size and rank; another toy's closed form at the same place is one more control."""
    statement = "the exact minimum explains what the closed form says, and not more"
    places = [(kind, key) for kind in ("exact", "mixtures") for key in prediction[kind]]
    for kind, key in places:
        point = prediction[kind][key]
        name, group = f"{kind}/{key}", f"{'exact minimum' if kind == 'exact' else 'mixture'}, {point['toy']}"
        explained, rho = measurement[kind][key]["explained"], point["rho"]
        low, high = point["least"] * rho, point["most"] * rho
        if low == high:
            closed = ClosedForm(point["claim"], high, rho)
            check = exact_check(
                name, group, statement, closed_form=closed, explained=explained, zero_loss=point["zero_loss"]
            )
            here = [p for p in prediction["exact"].values() if (p["size"], p["rank"]) == (point["size"], point["rank"])]
            others = {p["most"] for p in here} - {point["most"]}
            nearest = sorted(others, key=lambda entries: abs(entries - point["most"]))[:1]
            yield replace(check, controls=(*check.controls, *(rho * entries for entries in nearest)))
            continue
        slack = high - low + EXACT_SLACK * high
        yield Check.exact(
            id=name,
            group=f"{group}, one entry open",
            claim=point["claim"],
            statement="the exact minimum explains no less and no more than the theorem leaves possible",
            predicted=high,
            measured=explained,
            controls=(low - rho, high + (high - low) + rho),  # an entry less than the least, and more than the most
            above=ROUNDING * point["zero_loss"],
            slack=slack,
            quantity=SIGNAL,
        )


FILL = {True: ("#2f7fb8", ""), False: ("#a9cbe3", "////"), None: ("#d9d9d9", "")}
ATTAINED = {True: "attained", False: "approached, not attained", None: "attained or not: not known"}
MARKERS = (("o", -0.15), ("s", 0.0), ("^", 0.2))  # and how far below its row
VERDICTS = {
    "agrees": ("o", "#1d6b34", "#1d6b34"),
    "contradicts": ("X", "#b3261e", "#b3261e"),
    "inconclusive": ("o", "#777777", "white"),
}
WORDS = {"agrees": "the toy agrees", "contradicts": "the toy contradicts", "inconclusive": "a tie of the toy"}


def figure_rows(prediction: Json, reports: Sequence[Reported]) -> list[str]:
    """Return vanilla and covered variants of which a text says something, by what the toy explains, then as listed."""
    shares = prediction["order"]["shares"]
    named = dict.fromkeys([BASELINE, *(name for r in reports for name in (r.variant, r.against) if r.sign)])
    covered = [name for name in named if shares.get(name) is not None and not name.endswith("weight=1")]
    listed = [*VARIANTS]
    return sorted(covered, key=lambda name: (-best_share(prediction, name), listed.index(name.split(":")[0]), name))


def best_share(prediction: Json, name: str) -> float:
    """Return the share explained at the figure's size, or at the papers' for what needs more heads than it has."""
    if name in prediction["variants"]:
        return prediction["variants"][name]["best"] / prediction["shown"]["d"] ** 2
    return prediction["order"]["shares"][name]


def row_label(name: str) -> str:
    """Return what the variant changes, and its name in bold."""
    known, _, options = name.partition(":")
    changes = "the vanilla Transformer" if known == BASELINE else VARIANTS[known].changes
    changes = changes.replace("V_1", "$V_1$").replace("V_n", "$V_n$")
    if options:
        share = {"ratio=0.25": "a quarter", "ratio=0.75": "three quarters"}[options]
        changes = changes.replace("half", share)
    bold = known.replace("-", "\u2011")  # a hyphen that mathtext does not take for a minus
    return f"{changes}   $\\bf{{{bold}}}$"


def draw_toy(axis: Axes, prediction: Json, measurement: Json, rows: Sequence[str]) -> None:
    """Draw what the toy explains with every variant, at the figure's size and at the papers'."""
    shown, variants, toy_of = prediction["shown"], prediction["variants"], prediction["toy_of"]
    for kind, (color, hatch) in FILL.items():
        places = [i for i, name in enumerate(rows) if variants.get(name, {}).get("attained", True) is kind]
        widths = [best_share(prediction, rows[i]) for i in places]
        look: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": "#4a4a4a", "linewidth": 0.5}
        axis.barh(places, widths, 0.62, label=ATTAINED[kind], **look)
    exact: dict[str, float] = {}
    for key, point in prediction["exact"].items():
        if point["size"] == shown["key"]:
            share = measurement["exact"][key]["explained"] / (point["rho"] * shown["d"] ** 2)
            exact[point["toy"]] = max(share, exact.get(point["toy"], 0.0))
    minimised = {i: name for i, name in enumerate(rows) if name in variants and not variants[name]["beside"]}
    crosses = [exact[toy_of[name]] for name in minimised.values()]
    axis.plot(crosses, list(minimised), "x", color="black", markersize=6, zorder=4, label="exact minimisation")
    limits = [prediction["order"]["shares"][name] for name in rows]
    label = f"at the papers' width, {prediction['order']['heads']} heads"
    stroke: dict[str, Any] = {"color": "#d98a2b", "markersize": 11, "markeredgewidth": 2.2, "zorder": 3}
    axis.plot(limits, range(len(rows)), "|", label=label, **stroke)
    axis.set_axisbelow(True)
    axis.set_xlim(-0.02, 1.06)
    axis.set_xlabel(r"share of $\rho d^2$ explained")
    axis.set_title(f"The toy, $d={shown['d']}$, {shown['heads']} heads")


def draw_losses(axis: Axes, reports: Sequence[Reported], rows: Sequence[str]) -> None:
    """Draw every printed difference to vanilla, with what chance may add to it."""
    axis.axvline(0, color="#1a1a1a", linewidth=1, linestyle="--")
    place = {name: i for i, name in enumerate(rows)}
    printed = [r for r in reports if r.nats is not None and r.against == BASELINE and r.variant in place]
    for (marker, below), paper in zip(MARKERS, dict.fromkeys(r.paper for r in printed), strict=True):
        own = [r for r in printed if r.paper == paper]
        axis.errorbar(
            [r.nats or 0.0 for r in own],
            [place[r.variant] + below for r in own],
            xerr=[r.half_width for r in own],
            fmt=marker,
            color="#2b2b2b",
            markerfacecolor="white",
            markersize=4.5,
            elinewidth=0.6,
            capsize=1.5,
            label=paper.split(" (")[0],
        )
    axis.set_xlabel("loss minus vanilla's (nats per token)")
    axis.set_title("What the papers print")


def draw_words(axis: Axes, prediction: Json, reports: Sequence[Reported], rows: Sequence[str]) -> None:
    """Write what texts say of plots, and mark whether the toy's order has that sign."""
    judged: dict[tuple[str, str], list[str]] = {}
    for r in reports:
        if judgement := expectation(prediction, r):
            judged.setdefault((r.variant, r.against), []).append(judgement.verdict)
    for i, name in enumerate(rows):
        spoken = [r for r in reports if name in (r.variant, r.against) and r.sign and (r.variant, r.against) in judged]
        direct = [r for r in spoken if r.variant == name and r.against == BASELINE]
        chosen = direct or spoken
        if name == BASELINE or not chosen:
            continue
        verdicts = {v for r in chosen for v in judged[r.variant, r.against]}
        marker, color, face = VERDICTS[next(v for v in ("contradicts", "agrees", "inconclusive") if v in verdicts)]
        axis.plot(0.04, i, marker, color=color, markerfacecolor=face, markersize=6)
        axis.text(0.1, i, phrase(name, chosen), va="center", fontsize=7.5)
    for kind, (marker, color, face) in VERDICTS.items():
        axis.plot([], [], marker, color=color, markerfacecolor=face, label=WORDS[kind])
    axis.set_xlim(0, 1)
    axis.set_xticks([])
    axis.grid(False)
    for side in ("bottom", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", left=False)
    axis.set_title("What they say, and the toy")


def phrase(name: str, chosen: Sequence[Reported]) -> str:
    """Return whether it is better or worse: than vanilla, or than others where there is nothing on vanilla."""
    if chosen[0].against == BASELINE and chosen[0].variant == name:
        return "better than vanilla" if chosen[0].sign < 0 else "not better than vanilla"
    phrases = []
    for r in chosen:
        better = (r.sign < 0) == (r.variant == name)
        phrases.append(f"{'better' if better else 'worse'} than {r.against if r.variant == name else r.variant}")
    return ", ".join(dict.fromkeys(phrases))


EXPERIMENT: Experiment = ToyOrderings()
