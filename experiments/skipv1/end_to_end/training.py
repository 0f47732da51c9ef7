"""The toys that are trained end to end, and theory's weights in the same toys.

One stack is trained for every width of a sweep.  Learning rates were searched on seeds 100 to 103, among 0.01, 0.03 and
0.1 at d = 2 and 0.005, 0.01, 0.02 and 0.03 at d = 3: those at which the fewest toys of both architectures stopped on
plateaus, as a gain of 0.5 left fewer there than one of 1.  Some still do from a random start; so with nothing assumed
each toy is trained at two rates, and the one counts whose mean training loss over the last LAST_STEPS steps is lower.
The rule is one for both architectures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Literal, get_args

from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from experiments.toys.training import held_out_batches, held_out_signal, train_stack
from theory.plans.heads import MHA, ORDINARY, TOYS, Heads
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from icl.toys.end_to_end import EndToEndSpec, EndToEndToys
    from theory.prompts.moments import Array
    from theory.toy.positions import TwoLayers

StartName = Literal["random", "copying"]
Scores = Literal["both", "positions", "printed"]
Variant = tuple[str, str]  # what layer 1's scores see, and the start
HEADS = (2, 4, 8)  # in each layer
LAST_STEPS = 500
MEASURED = ("explained", "learning_rates", "copying", "copying_at_start")
EPS = 1 / 8  # of the MHA weights of width 2d - 1
BETA = 4  # of the MHA weights under Assumption 1
STREAMS = 8  # of prompts, for the weights that theory writes down


def many_heads(heads: int) -> str:
    """Return how results name MHA with so many heads in each layer."""
    return "mha" if heads == 2 else f"mha-{heads}"


@dataclass(frozen=True)
class Arms:
    """Toys at some widths: both architectures with two heads in each layer, MHA alone with more.

    Attributes:
        scores: What layer 1's scores see (`icl.toys.end_to_end.Scores`).
    """

    widths: tuple[int, ...]
    scores: Scores = "both"
    start: StartName = "random"
    heads: int = 2

    @property
    def toys(self) -> dict[str, Heads]:
        return TOYS if self.heads == 2 else {many_heads(self.heads): (ORDINARY,) * self.heads}


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All arms of one task.

    Attributes:
        learning_rates: All are tried from the random start with nothing assumed, else the first of them is taken.
    """

    size: Setting
    arms: tuple[Arms, ...]
    steps: int
    learning_rates: tuple[float, ...]

    @property
    def widths(self) -> list[int]:
        return sorted({width for arms in self.arms for width in arms.widths})


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sweeps to train, and the number of prompts for testing.

    Attributes:
        held_out: Prompts of every seed, for the explained share.
        copying_prompts: Prompts of every seed, for the copying.
        construction_prompts: Prompts of all streams together, for the weights that theory writes down.
    """

    sweeps: tuple[Sweep, ...]
    held_out: int = 65_536
    copying_prompts: int = 2_048
    construction_prompts: int = 131_072


@dataclass(frozen=True)
class Trained:
    """The arms of one size in a result.

    Attributes:
        size: Its key.
        numbers: What is predicted of it.
        explained: Explained shares of all arms of all sizes, one number per seed.
    """

    size: str
    numbers: Json
    explained: Json

    def key(self, variant: Variant, toy: str, width: int) -> str:
        return arm_key(self.size, *variant, toy, width)

    def shares(self, variant: Variant, toy: str, width: int) -> list[float]:
        """Return an arm's explained shares, one number per seed."""
        shares: list[float] = self.explained[self.key(variant, toy, width)]
        return shares

    def widths(self, variant: Variant) -> list[int]:
        """Return the widths at which a variant was trained."""
        return [
            width for width in map(int, self.numbers["widths"]) if self.key(variant, "mha", width) in self.explained
        ]

    @property
    def variants(self) -> list[Variant]:
        return [variant for variant in product(get_args(Scores), get_args(StartName)) if self.widths(variant)]

    def heads(self, variant: Variant, width: int) -> list[int]:
        """Return with how many heads MHA was trained at a width."""
        return [heads for heads in HEADS if self.key(variant, many_heads(heads), width) in self.explained]


def arm_key(size: str, scores: str, start: str, toy: str, width: int) -> str:
    """Return how results name an arm, of whose size they have the key."""
    return f"{size}/{scores}/{start}/{toy}/m{width}"


def train_arms(config: Config, seeds: int, run: RunFolder) -> Json:
    """Train all arms; by what is MEASURED and by arm, one item a seed.

    That is the explained share, the learning rate, and the copying after training and before it.
    """
    stacks = {  # what takes longest first, so that none is left to run alone at the end
        f"{sweep.size.key}/m{width}" + (f"/h{heads}" if heads != 2 else ""): (sweep, width, heads)
        for sweep in reversed(config.sweeps)
        for width in reversed(sweep.widths)
        for heads in reversed(HEADS)
        if any(arms.heads == heads and width in arms.widths for arms in sweep.arms)
    }
    trained = results(
        "trained",
        stacks,
        partial(_train, config=config, seeds=seeds),
        run=run,
        label="training end to end",
        size=lambda stack: stack[0].steps + held_out_batches(config.held_out),
    )
    return {name: {arm: x for stack in trained.values() for arm, x in stack[name].items()} for name in MEASURED}


def _train(stack: tuple[Sweep, int, int], desk: Desk, *, config: Config, seeds: int) -> Json:
    import torch

    from icl.toys.end_to_end import EndToEndToys
    from icl.toys.training import toy_recipe

    sweep, width, heads = stack
    trainees = [t for t in trainees_of(sweep, seeds) if (t.spec.width, len(t.spec.heads)) == (width, heads)]
    toys = EndToEndToys([trainee.spec for trainee in trainees])
    before = _copying(toys, config.copying_prompts)
    rates = torch.zeros(toys.shape, dtype=toys.dtype)
    for i, trainee in enumerate(trainees):
        rates[toys.locate[i]] = trainee.learning_rate
    recipe = toy_recipe(sweep.steps)
    losses = train_stack(toys, recipe, desk, learning_rates=rates)
    last = losses[-LAST_STEPS // recipe.log_every :]
    counting = lowest(trainees, [fmean(toy) for toy in zip(*last, strict=True)])
    explained = held_out_signal(toys, config.held_out, desk, after=recipe.steps)
    by_toy: dict[str, Sequence[float] | Sequence[Json]] = {
        "explained": [x / sweep.size.d**2 for x in explained],
        "learning_rates": [trainee.learning_rate for trainee in trainees],
        "copying": _copying(toys, config.copying_prompts),
        "copying_at_start": before,
    }
    by_arm = {
        name: {arm: [values[i] for i in members] for arm, members in counting.items()}
        for name, values in by_toy.items()
    }
    return {"losses": losses, **by_arm}


@dataclass(frozen=True)
class Trainee:
    """One toy at one learning rate."""

    arm: str
    learning_rate: float
    spec: EndToEndSpec


def trainees_of(sweep: Sweep, seeds: int) -> Iterator[Trainee]:
    """Yield every toy to be trained, an arm's seeds together, and together what differs in its learning rate alone."""
    from icl.prompts import RegressionTask
    from icl.toys.end_to_end import Copying, EndToEndSpec, Random

    size = sweep.size
    task = RegressionTask(*size.floats)
    for arms in sweep.arms:
        several = arms.scores == "both" and arms.start == "random"
        for width in arms.widths:
            for toy, heads in arms.toys.items():
                rank = min(width // 2, size.d) if heads == MHA else size.d
                start = Random() if arms.start == "random" else Copying(rank)
                key = arm_key(size.key, arms.scores, arms.start, toy=toy, width=width)
                for seed in range(seeds):
                    spec = EndToEndSpec(task, heads, width, seed=seed, start=start, scores=arms.scores)
                    for rate in sweep.learning_rates if several else sweep.learning_rates[:1]:
                        yield Trainee(key, rate, spec)


def lowest(trainees: Sequence[Trainee], losses: Sequence[float]) -> dict[str, list[int]]:
    """Return by arm the trainees that count, one per seed.

    Of those that differ in their learning rate alone, that is the one with the lowest loss; NaN is the highest.
    """
    best: dict[EndToEndSpec, int] = {}
    for i, trainee in enumerate(trainees):
        here = best.setdefault(trainee.spec, i)
        if losses[i] < losses[here] or math.isnan(losses[here]):
            best[trainee.spec] = i
    counting: dict[str, list[int]] = {}
    for i in best.values():
        counting.setdefault(trainees[i].arm, []).append(i)
    return counting


def _copying(toys: EndToEndToys, prompts: int) -> list[Json]:
    from icl.probes.copying import copying

    shares = copying(toys, prompts)
    parts = {name: getattr(shares, name) for name in ("x_kept", "x_in_y", "y_in_y", "gram")}
    return [{name: float(x[toys.locate[i]]) for name, x in parts.items()} for i in range(len(toys.specs))]


@dataclass(frozen=True, eq=False)
class Construction:
    """Weights that theory writes down, of a toy of some width, and what theory says that they explain, exactly.

    Attributes:
        weights: In the layout of `EndToEndToys.load`.
    """

    name: str
    toy: str
    width: int
    predicted: float
    weights: dict[str, Array]

    @property
    def heads(self) -> int:
        """The number of heads in each layer."""
        return len(self.weights["readout"])

    @property
    def kinds(self) -> Heads:
        return TOYS[self.toy] if self.heads == 2 else (ORDINARY,) * self.heads


def constructions(size: Setting, widths: Sequence[int]) -> Iterator[Construction]:
    """Yield the weights that theory knows at a size.

    The optima under Assumption 1 at every rank; MHA that copies and keeps no x; MHA that rotates, for even d; MHA of
    width 2d - 1 that hides an entry of x.
    """
    import numpy as np

    from icl.prompts import RegressionTask
    from icl.toys.end_to_end import copying_layer
    from theory.prompts import setting
    from theory.prompts.moments import PromptMoments
    from theory.skipv1.gap_weights import mha_weights, skipv1_weights
    from theory.toy import least_width, positions
    from theory.toy.population import PopulationLoss

    task, d = size.floats, size.d
    for toy, heads in TOYS.items():
        beta = 0 if toy == "skipv1" else BETA
        for rank in range(1, d + (toy == "skipv1")):
            best = skipv1_weights(*task, rank) if toy == "skipv1" else mha_weights(*task, rank, BETA)
            loss = PopulationLoss(PromptMoments(*task), heads)
            first = copying_layer(RegressionTask(*task), d, rank, beta=beta)
            key_query = np.pad(best.k, ((0, 0), (0, 0), (0, d - best.k.shape[-1])))
            layers = {
                **{name: x.numpy() for name, x in first.items()},
                "key_query": key_query,
                "readout": best.w * size.n,
            }
            explained = loss.zero_loss - loss.value(best)
            yield Construction(f"assumption 1, {toy}, rank {rank}", toy, d, predicted=explained, weights=layers)

    def mha(name: str, width: int, explained: float, weights: TwoLayers) -> Construction:
        """Return weights for the toy, whose second layer divides its sums by n, and whose layers have equal heads."""
        layers = {**vars(weights), "readout": weights.readout * size.n}
        read_in, heads = layers.pop("read_in"), max(len(weights.value), len(weights.readout))
        padded = {name: np.pad(x, ((0, heads - len(x)), (0, 0), (0, 0))) for name, x in layers.items()}
        return Construction(
            f"{name}, mha, m = {width}", "mha", width, predicted=explained, weights={"read_in": read_in, **padded}
        )

    for width in (m for m in widths if m <= 2 * d):
        explained = setting.signal_share(*task) * (width // 2) * (width - width // 2)
        yield mha("copying, no x kept", width, explained, positions.copying_weights(*task, width))
    if d % 2 == 0:
        yield mha("rotating", d, positions.explained_by_rotating(*task), positions.rotating_weights(*task))
    if (width := least_width.sufficient_width(d)) in widths:
        explained = float(least_width.explained_by_hiding(*task, EPS))
        yield mha("hiding", width, explained, least_width.hiding_weights(*task, EPS))


def put_in_constructions(config: Config, run: RunFolder) -> Json:
    """Return by size and construction what it explains on sampled prompts, with its standard error.

    Beside that stands what it explains if its first layer looks one token too far back.
    """
    from icl.toys.stack import EVAL_BATCH

    batches = max(2, config.construction_prompts // (STREAMS * EVAL_BATCH))
    stacks = {
        f"{sweep.size.key}/m{width}/h{heads}": (sweep, width, heads)
        for sweep in config.sweeps
        for width, heads in sorted({(c.width, c.heads) for c in constructions(sweep.size, sweep.widths)})
    }
    label, work = "weights that theory writes down", partial(_put_in, batches=batches)
    measured = results("construction", stacks, work, run=run, label=label, size=lambda _: batches)
    by_size: Json = {sweep.size.key: {} for sweep in config.sweeps}
    for key, shares in measured.items():
        by_size[stacks[key][0].size.key] |= shares
    return by_size


def _put_in(stack: tuple[Sweep, int, int], desk: Desk, *, batches: int) -> Json:
    import torch

    from icl.prompts import RegressionTask
    from icl.toys.end_to_end import EndToEndSpec, EndToEndToys
    from icl.toys.stack import EVAL_BATCH, explained_signal

    sweep, width, heads = stack
    size = sweep.size
    task = RegressionTask(*size.floats)
    built = [c for c in constructions(size, sweep.widths) if (c.width, c.heads) == (width, heads)]
    every = [(c, shifted, seed) for c in built for shifted in (False, True) for seed in range(STREAMS)]
    specs = [EndToEndSpec(task, c.kinds, width, seed=seed, scores="positions") for c, _, seed in every]
    toys = EndToEndToys(specs, dtype=torch.float64)
    for i, (construction, shifted, _) in enumerate(every):
        weights = {name: torch.as_tensor(x) for name, x in construction.weights.items()}
        if shifted:
            context = weights["bias"][:, :-1].roll(1, dims=1)
            weights["bias"] = torch.cat([context, weights["bias"][:, -1:]], dim=1)
        toys.load(i, weights)
    values = []
    for batch in range(batches):
        values.append(explained_signal(toys, EVAL_BATCH, start=batch) / size.d**2)
        desk.report(batch + 1, f"{size.key}, m = {width}")
    by_toy = torch.stack([torch.stack([v[toys.locate[i]] for v in values]) for i in range(len(specs))])
    by_kind = by_toy.view(len(built), 2, -1)
    mean, stderr = by_kind.mean(-1), by_kind.std(-1) / by_kind.shape[-1] ** 0.5
    return {
        c.name: {"explained": float(mean[i, 0]), "stderr": float(stderr[i, 0]), "shifted": float(mean[i, 1])}
        for i, c in enumerate(built)
    }
