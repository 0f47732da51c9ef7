"""Do softmax skip heads explain more than any model of squeezed tokens can?

`theory.skipv1.softmax`: no function of the tokens (A x ; B y) explains more than r floor(d^2/4) of W*, whatever its
architecture, and softmax skip heads at finite weights more than rho d^2.  Here such heads are given theory's weights,
and are trained beside ordinary softmax heads, both from near them.  A Transformer of two layers with feed-forward and
residual stream is trained on squeezed pairs and on raw ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.experiment.protocol import Experiment, Kind, Profile
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from experiments.toys.checks import SHARE, at_most_check
from experiments.toys.training import held_out_batches, held_out_signal, train_stack
from experiments.verdicts.checks import Check, Expectation, Judgement
from experiments.verdicts.intervals import Interval, t_interval
from theory.plans.heads import ORDINARY, SKIP, Heads
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from icl.toys.stack import Stack
    from theory.skipv1.softmax_moments import Moments

CLAIM = "skipv1.any-architecture"
SIGMA = 0.3
TRANSFORMER = "transformer"
KINDS: dict[str, dict[str, Heads]] = {
    "two heads": {"mha": (ORDINARY, ORDINARY), "skipv1": (ORDINARY, SKIP)},
    "three heads": {"mha": (ORDINARY, ORDINARY, ORDINARY), "skipv1": (ORDINARY, SKIP, SKIP)},
    TRANSFORMER: {"mha": (ORDINARY,), "skipv1": (SKIP,)},
}
BUILT = ("two heads", "three heads")  # those that theory knows weights for
LOGITS = tuple(0.02 * 1.4**i for i in range(16))
SAMPLES = 4_000  # of queries and contexts, to choose logits by
FINAL_SAMPLES = 40_000
STREAMS = 8  # of prompts, for theory's weights
GAP_WIDTHS, GAP_CONTEXTS = (1, 2, 3, 4, 8), tuple(2**i for i in range(11))
ALTERED = 0.1  # the negative controls of theory's weights
LOWERED = 4  # likewise, of a bound
STANDARD_ERRORS = 4


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Compressed models and those with raw values, of some kinds, trained on one task."""

    size: Setting
    kinds: tuple[str, ...]
    steps: int
    learning_rate: float


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sweeps to train, and the tasks for which theory predicts.

    Attributes:
        curves: For each d, the prompts' lengths of a curve.
        logits: The tasks whose loss is shown over the logits.
        held_out: Prompts of every seed.
        construction_prompts: Prompts of all streams together.
    """

    sweeps: tuple[Sweep, ...]
    curves: tuple[tuple[int, tuple[int, ...]], ...]
    logits: tuple[Setting, ...]
    held_out: int
    construction_prompts: int

    @property
    def sizes(self) -> tuple[Setting, ...]:
        return tuple(dict.fromkeys(sweep.size for sweep in self.sweeps))


_SHORT, _MIDDLE, _LONG, _THREE = (Setting(d, n, SIGMA) for d, n in ((2, 2), (2, 8), (2, 16), (3, 12)))


def _heads(steps: int, *sizes: Setting) -> tuple[Sweep, ...]:
    """Return sweeps of softmax heads; of rates 0.01 to 0.1, on seeds 100 to 103, those from 0.03 on differ little."""
    return tuple(Sweep(size=size, kinds=BUILT, steps=steps, learning_rate=0.03) for size in sizes)


def _transformers(steps: int, *sizes: Setting) -> tuple[Sweep, ...]:
    """Return sweeps of Transformers; their rate was chosen from 0.003 and 0.01 on the same seeds."""
    return tuple(Sweep(size=size, kinds=(TRANSFORMER,), steps=steps, learning_rate=0.01) for size in sizes)


_SMOKE = Config(
    sweeps=_heads(700, _MIDDLE),
    curves=((2, (2, 8)),),
    logits=(_SHORT,),
    held_out=8_192,
    construction_prompts=32_768,
)
_CPU = Config(
    sweeps=(*_transformers(800, _MIDDLE), *_heads(800, _LONG, _THREE, _MIDDLE, _SHORT)),
    curves=((2, (1, 2, 4, 8, 16, 32)), (3, (1, 2, 4, 12, 32))),
    logits=(_SHORT, _MIDDLE),
    held_out=16_384,
    construction_prompts=65_536,
)
_FULL = replace(
    _CPU,
    sweeps=(*_transformers(6000, _MIDDLE, _THREE), *_heads(6000, _LONG, _THREE, _MIDDLE, _SHORT)),
    held_out=131_072,
    construction_prompts=1_048_576,
)
_DETECTS = "a compressed model that leaves less than it must by 5 % of the signal"
PROFILES = {
    "smoke": Profile(config=_SMOKE, seeds=4, seconds=20, detects=_DETECTS),
    "cpu": Profile(config=_CPU, seeds=6, seconds=50, detects=_DETECTS),
    "full": Profile(config=_FULL, seeds=10, seconds=1800, detects=_DETECTS),
}


class SkipV1Softmax:
    name = "skipv1-softmax"
    title = "Softmax skip heads against any model of squeezed tokens"
    caption = (
        "Two softmax skip heads explain more than any model of squeezed tokens can. (a), (b) Share explained over the "
        "number of pairs, at two widths: theory's weights (blue), bounds (grey), trained (hollow, dots are seeds). "
        "(c) Theory's weights as their logits shrink; triangles are proved. (d) The least gap between the optima; "
        "thin line: three quarters. 95 % over seeds."
    )
    kind: Kind = "theory"
    claims: tuple[str, ...] = (CLAIM,)
    profiles: Mapping[str, Profile] = PROFILES

    def predict(self, config: Config) -> Json:
        from theory.skipv1.softmax import gap_of_optima

        curves = {str(d): [Setting(d, n, SIGMA) for n in contexts] for d, contexts in config.curves}
        return {
            "assumes": "W0 = 0; x and noise Gaussian; Assumption 1; the query hidden from itself in the second layer",
            "source": "theory.skipv1.softmax, softmax_bound, softmax_moments and compressed; units of E ||W*||^2 = d^2",
            "sizes": {size.key: {**_bounds(size), "constructions": _constructions(size)} for size in config.sizes},
            "curves": {
                d: [{**_bounds(size), **{kind: _construction(size, kind).share for kind in BUILT}} for size in sizes]
                for d, sizes in curves.items()
            },
            "logits": {size.key: _over_logits(size) for size in config.logits},
            "gaps": {
                str(d): [{"n": n, "gap": float(gap_of_optima(d, n, SIGMA)) / d**2} for n in GAP_CONTEXTS]
                for d in GAP_WIDTHS
            },
        }

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        """Train arms, and put theory's weights into toys; the shares of W* that both explain on held-out prompts."""
        from icl.toys.stack import EVAL_BATCH

        stacks = {f"{sweep.size.key}/{kind}": (sweep, kind) for sweep in config.sweeps for kind in sweep.kinds}
        trained = results(
            "trained",
            stacks,
            partial(_train, seeds=seeds, held_out=config.held_out),
            run=run,
            label="training with softmax heads",
            size=lambda stack: stack[0].steps + held_out_batches(config.held_out),
        )
        batches = max(2, config.construction_prompts // (STREAMS * EVAL_BATCH))
        constructions = results(
            "construction",
            {f"{size.key}/{kind}": (size, kind) for size in config.sizes for kind in BUILT},
            partial(_put_in, batches=batches),
            run=run,
            label="weights that theory writes down",
            size=lambda _: batches,
        )
        explained = {key: shares for stack in trained.values() for key, shares in stack["explained"].items()}
        return {"explained": explained, "constructions": constructions}

    def compare(self, prediction: Json, measurement: Json) -> list[Judgement]:
        judgements: list[Judgement] = []
        arms = measurement["explained"]
        compressed = sum(arm_key(size, kind, "mha") in arms for size in prediction["sizes"] for kind in KINDS)
        for size, numbers in prediction["sizes"].items():
            judgements += _compare_constructions(size, numbers, measurement["constructions"])
            for kind in KINDS:
                if arm_key(size, kind, "mha") in arms:
                    judgements += _compare_trained(size, kind, numbers, arms=arms, compressed=compressed)
        return judgements

    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Draw four panels at most: over n for each d, over the logits, and the gap that is proved."""
        widths = list(prediction["curves"])
        panels = len(widths) + 2
        fig, axes = style.figure(2, rows=(panels + 1) // 2, width=4.4, height=4.2)
        for axis, d in zip(axes, widths, strict=False):
            _draw_over_n(axis, d, prediction, explained=measurement["explained"])
        _draw_over_logits(axes[panels - 2], list(prediction["logits"].values()))
        _draw_gaps(axes[panels - 1], prediction["gaps"])
        for axis in axes[panels:]:
            axis.remove()
        style.finish(axes[:panels])
        return fig


def arm_key(size: str, kind: str, toy: str) -> str:
    """Return how results name an arm, of whose size they have the key."""
    return f"{size}/{kind}/{toy}"


def _bounds(size: Setting) -> Json:
    """Return what linear skip heads, any compressed model and any model at all explain, in shares of the signal."""
    from theory.prompts.regression import ridge
    from theory.skipv1.compressed import best_model_loss

    task, entries, zero = size.floats, size.d**2, float(size.zero_loss)
    compressed, bayes = best_model_loss(*task, size.d // 2), ridge(*task)
    return {
        "d": size.d,
        "n": size.n,
        "sigma": float(size.sigma),
        "linear": float(size.signal_share),
        "compressed": (zero - compressed.value) / entries,
        "compressed_stderr": compressed.stderr / entries,
        "bayes": (zero - bayes.value) / entries,
        "bayes_stderr": bayes.stderr / entries,
    }


@dataclass(frozen=True)
class Construction:
    """Weights of `theory.skipv1.softmax` at full rank, and the share of W* that they explain."""

    logit_scale: float
    step: float
    share: float


@cache
def _construction(size: Setting, kind: str) -> Construction:
    """Return theory's weights with the best of LOGITS, by sampled moments; the share is that sample's."""
    heads, moments = KINDS[kind]["skipv1"], _moments_over_logits(size)
    scale, best = max(zip(LOGITS, moments, strict=True), key=lambda pair: pair[1].explained(size.d, heads))
    return Construction(scale, best.step(heads), best.explained(size.d, heads) / size.d**2)


@cache
def _moments_over_logits(size: Setting) -> tuple[Moments, ...]:
    """Return the moments at full rank for each of LOGITS, from the same sample."""
    from theory.skipv1.softmax_moments import sampled

    return tuple(sampled(*size.floats, size.d, scale, SAMPLES) for scale in LOGITS)


def _constructions(size: Setting) -> Json:
    from theory.skipv1.softmax_moments import sampled_loss

    rows = {}
    for kind in BUILT:
        best, heads = _construction(size, kind), KINDS[kind]["skipv1"]
        loss = sampled_loss(*size.floats, size.d, heads, best.logit_scale, best.step, FINAL_SAMPLES, seed=1)
        rows[kind] = {
            "logit_scale": best.logit_scale,
            "explained": (float(size.zero_loss) - loss.value) / size.d**2,
            "explained_stderr": loss.stderr / size.d**2,
        }
    return rows


def _over_logits(size: Setting) -> Json:
    """Return by kind, over the logits' scale, what is explained and, where the bound holds, what is proved to be."""
    from theory.skipv1.softmax_bound import LARGEST_LOGITS, certified

    task, share = (*size.floats, size.d), size.d**2

    def row(kind: str, scale: float, moments: Moments) -> Json:
        heads = KINDS[kind]["skipv1"]
        proved = certified(*task, scale).explained(size.d, heads) / share if scale < LARGEST_LOGITS else None
        return {"logit_scale": scale, "explained": moments.explained(size.d, heads) / share, "proved": proved}

    pairs = list(zip(LOGITS, _moments_over_logits(size), strict=True))
    return {**_bounds(size), "kinds": {kind: [row(kind, *pair) for pair in pairs] for kind in BUILT}}


def _train(stack: tuple[Sweep, str], desk: Desk, *, seeds: int, held_out: int) -> Json:
    """Train both arms of a kind; the share that each explains on held-out prompts, one number per seed."""
    from icl.toys.training import toy_recipe

    (sweep, kind), size = stack, stack[0].size
    toys = _toys(size, kind, seeds)
    losses = train_stack(toys, toy_recipe(sweep.steps, learning_rate=sweep.learning_rate), desk)
    shares = [signal / size.d**2 for signal in held_out_signal(toys, held_out, desk, after=sweep.steps)]
    arms = {arm_key(size.key, kind, toy): shares[i * seeds : (i + 1) * seeds] for i, toy in enumerate(KINDS[kind])}
    return {"losses": losses, "explained": arms}


def _toys(size: Setting, kind: str, seeds: int) -> Stack[Any, Any]:
    """Return both arms of a kind, all seeds of one after the other, each at its best rank.

    Softmax heads start near theory's weights: orthogonal A and B, one key of the opposite sign.  From a Gaussian start
    some of both architectures stop on plateaus with whole directions lost.  Transformers start from Gaussian weights.
    """
    from icl.prompts import RegressionTask
    from icl.toys.softmax import SoftmaxToys
    from icl.toys.stacked import Opposed, ToySpec
    from icl.toys.transformer import TransformerSpec, TransformerToys

    task, start, ranks = RegressionTask(*size.floats), Opposed(embedding=1.0), {"mha": size.d // 2, "skipv1": size.d}
    arms = [(heads, ranks[toy], seed) for toy, heads in KINDS[kind].items() for seed in range(seeds)]
    if kind == TRANSFORMER:
        return TransformerToys([TransformerSpec(task, *arm) for arm in arms])
    return SoftmaxToys([ToySpec(task, *arm, start) for arm in arms])


def _put_in(built: tuple[Setting, str], desk: Desk, *, batches: int) -> Json:
    """Return the share that theory's weights explain on sampled prompts, with its standard error."""
    import torch

    from icl.prompts import RegressionTask
    from icl.toys.softmax import SoftmaxToys
    from icl.toys.stack import EVAL_BATCH, explained_signal
    from icl.toys.stacked import Given, ToySpec
    from theory.skipv1.softmax import softmax_weights

    (size, kind), d = built, built[0].d
    task, heads, best = RegressionTask(*size.floats), KINDS[kind]["skipv1"], _construction(size, kind)
    start = Given.of(vars(softmax_weights(d, size.n, d, heads=heads, logit_scale=best.logit_scale, step=best.step)))
    toys = SoftmaxToys([ToySpec(task, heads, d, seed=seed, init=start) for seed in range(STREAMS)], dtype=torch.float64)
    values = []
    for batch in range(batches):
        values.append(explained_signal(toys, EVAL_BATCH, start=batch).flatten() / d**2)
        desk.report(batch + 1, f"{size.key}, {kind}")
    shares = torch.stack(values).flatten()
    return {"explained": float(shares.mean()), "stderr": float(shares.std() / len(shares) ** 0.5)}


def _compare_constructions(size: str, numbers: Json, measured: Json) -> Iterator[Check]:
    """Yield that theory's weights explain what it says, and three heads no less than linear ones can."""
    for kind in BUILT:
        predicted, result = numbers["constructions"][kind], measured[f"{size}/{kind}"]
        stderr = math.hypot(result["stderr"], predicted["explained_stderr"])
        yield Check.sampled(
            Interval(result["explained"], stderr, STANDARD_ERRORS * stderr),
            id=f"construction/{size}/{kind}",
            group=f"weights that theory writes down, {kind}",
            claim=CLAIM,
            statement="put into the softmax toy, token by token, they explain what theory says",
            predicted=predicted["explained"],
            controls=((1 - ALTERED) * predicted["explained"], (1 + ALTERED) * predicted["explained"]),
            quantity=SHARE,
        )
    result = measured[f"{size}/three heads"]
    yield Check.sampled(
        Interval(result["explained"], result["stderr"], STANDARD_ERRORS * result["stderr"]),
        id=f"beyond linear/{size}",
        group="softmax skip heads against linear ones",
        claim=CLAIM,
        statement="three softmax heads with theory's weights explain no less than linear heads can, which is rho",
        predicted=numbers["linear"],
        controls=(numbers["bayes"] + ALTERED,),
        relation="at least",
        quantity=SHARE,
    )


def _compare_trained(size: str, kind: str, numbers: Json, *, arms: Json, compressed: int) -> Iterator[Judgement]:
    """Yield that neither arm exceeds its bound, and the expectation that raw values exceed the squeezed ones' bound.

    Args:
        compressed: How many compressed models were trained, for intervals that hold for all of them at once.
    """
    mha, skip = (arms[arm_key(size, kind, toy)] for toy in ("mha", "skipv1"))
    bound = numbers["compressed"]
    for name, group, statement, values, limit in (
        ("floor", "compressed models", "a trained compressed model leaves no less than any such model must", mha,
         "compressed"),
        ("bayes", "models with raw values", "a trained model with raw values leaves no less than the posterior mean",
         skip, "bayes"),
    ):  # fmt: skip
        interval = t_interval(values, compressed).widened(numbers[f"{limit}_stderr"], STANDARD_ERRORS)
        share = numbers[limit]
        about = {"group": f"{group}, {kind}", "claim": CLAIM, "statement": statement}
        yield at_most_check(f"{name}/{size}/{kind}", share=share, interval=interval, wrong=share / LOWERED, **about)
    known = numbers["constructions"].get(kind, {}).get("explained", numbers["bayes"])
    if known > bound:  # elsewhere theory does not say that there are better weights
        above, below = (t_interval([x - bound for x in values], compressed) for values in (skip, mha))
        yield Expectation.sampled(
            above,
            below,
            id=f"beyond/{size}/{kind}",
            group=f"beyond any compressed model, {kind}",
            claim=CLAIM,
            statement="trained with raw values, it explains more than any compressed model can",
            rule="sign",
            predicted=known - bound,
            quantity="share of the signal explained, difference",
        )


LINES: dict[str, dict[str, Any]] = {
    "two heads": {"color": style.SKIPV1["color"], "linestyle": "-."},
    "three heads": dict(style.SKIPV1),
}
MARKERS = {"two heads": "o", "three heads": "^", TRANSFORMER: "D"}
ABREAST = {"two heads": 0.93, "three heads": 1.07, TRANSFORMER: 1.0}  # of the place on the axis
LABELS = {"two heads": "1 + 1 heads, theory's weights", "three heads": "1 + 2 heads, theory's weights"}
TOKENS = {"mha": "squeezed", "skipv1": "raw"}
LINEAR: dict[str, Any] = {"color": "#8a8a8a", "linestyle": "-", "linewidth": 1.0, "label": r"linear skip heads: $\rho$"}
PROVED: dict[str, Any] = {"linestyle": "none", "marker": "v", "markersize": 3.5, "color": "#4d4d4d"}


def _draw_over_n(axis: Axes, d: str, prediction: Json, explained: Json) -> None:
    curve = prediction["curves"][d]
    n = [row["n"] for row in curve]
    axis.plot(n, [row["bayes"] for row in curve], label="posterior mean, raw", **style.BOUND)
    axis.plot(n, [row["linear"] for row in curve], **LINEAR)
    for kind in BUILT:
        axis.plot(n, [row[kind] for row in curve], label=LABELS[kind], **LINES[kind])
    floor = [row["compressed"] for row in curve]
    axis.plot(n, floor, label="squeezed tokens, at most", **style.MHA)
    axis.fill_between(n, 0, floor, color="#ececec", zorder=0)
    contexts = {key: size["n"] for key, size in prediction["sizes"].items() if str(size["d"]) == d}
    for kind in KINDS:
        for toy, (name, look, _) in style.TOYS.items():
            pairs = [(m, explained.get(arm_key(key, kind, toy))) for key, m in contexts.items()]
            trained = {m * ABREAST[kind]: values for m, values in pairs if values}
            if not trained:
                continue
            label = f"{name}, {len(KINDS[kind][toy])} heads" if kind in BUILT else f"Transformer, {TOKENS[toy]}"
            intervals = [t_interval(values) for values in trained.values()]
            marks: Json = {"marker": MARKERS[kind], "color": look["color"], "label": f"{label}, 95 %"}
            style.bars(axis, list(trained), intervals, **marks)
            for place, values in trained.items():
                style.seeds(axis, place, values, color=look["color"])
    axis.set_xscale("log", base=2)
    axis.set_ylim(-0.03, 1.08)
    axis.set_xlabel("context length $n$ (pairs)")
    axis.set_ylabel(f"{SHARE} (of $d^2$)")
    axis.set_title(f"Explained, $d={d}$, $\\sigma={curve[0]['sigma']:g}$")


def _draw_over_logits(axis: Axes, tasks: list[Json]) -> None:
    """Draw a pair of curves a task, the first one thin; triangles are what `theory.skipv1.softmax_bound` proves."""
    for numbers, width in zip(tasks, (0.9, 2.0), strict=False):
        axis.axhline(numbers["linear"], **{**LINEAR, "linewidth": width / 2, "label": None})
        axis.axhline(numbers["compressed"], **{**style.MHA, "linewidth": width})
        for kind, rows in numbers["kinds"].items():
            scales = [row["logit_scale"] for row in rows]
            axis.plot(scales, [row["explained"] for row in rows], **{**LINES[kind], "linewidth": width})
            proved = [(row["logit_scale"], row["proved"]) for row in rows if row["proved"] is not None]
            axis.plot(*zip(*proved, strict=True), **PROVED)
    for kind in BUILT:
        axis.plot([], [], label=LABELS[kind], **LINES[kind])
    axis.plot([], [], label="proved", **PROVED)
    axis.plot([], [], **LINEAR)
    axis.plot([], [], label="squeezed tokens, at most", **style.MHA)
    axis.set_xscale("log")
    axis.set_ylim(-0.03, 1.08)
    axis.set_xlabel(r"scale $\varepsilon$ of the logits")
    axis.set_ylabel(f"{SHARE} (of $d^2$)")
    lengths = ", ".join(f"$n={numbers['n']}$" for numbers in tasks)
    axis.set_title(f"Over the logits, $d=2$, {lengths}{' (thick)' if len(tasks) > 1 else ''}")


def _draw_gaps(axis: Axes, gaps: Json) -> None:
    looks = ("-", "--", "-.", ":", (0, (1, 3)))
    for line, marker, (d, rows) in zip(looks, style.MARKERS, gaps.items(), strict=False):
        look: Json = {"linestyle": line, "marker": marker, "markersize": 3.5, "color": style.SKIPV1["color"]}
        axis.plot([row["n"] for row in rows], [row["gap"] for row in rows], label=f"$d={d}$", **look)
    axis.axhline(0.75, color="#999999", linewidth=0.8)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xscale("log", base=2)
    axis.set_ylim(0, 1.04)
    axis.set_xlabel("context length $n$ (pairs)")
    axis.set_ylabel("gap of the optima (of $d^2$)")
    axis.set_title("Gap to any architecture, at the least")


EXPERIMENT: Experiment = SkipV1Softmax()
