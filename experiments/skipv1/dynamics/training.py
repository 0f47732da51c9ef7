"""Toys trained by plain gradient descent on fresh prompts, and the exact gradient flow from the same starts.

Balanced starts have plateaus whose heights and times are predicted.  Gaussian ones, by the dozen, end in some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.work import results
from experiments.toys.runs import population_weights
from experiments.toys.training import train_stack
from theory.plans.heads import ORDINARY, SKIP, Heads
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from icl.toys.stacked import Gaussian, Given, StackedToys
    from icl.toys.training import Method
    from theory.skipv1.dynamics import HeadKind
    from theory.toy.population import PopulationLoss

ACCURACY = 1e-5  # of the exact flow from Gaussian starts, whose plateaus are far apart
LIMIT = 10  # times as long as training: when the exact flow is taken to be at its end


def kinds_of(toy: str, heads: int) -> Heads:
    """Return MHA's heads, or SkipV1Former's, half of which are skip heads."""
    return (ORDINARY,) * heads if toy == "mha" else (ORDINARY,) * (heads // 2) + (SKIP,) * (heads // 2)


def rows(toy: str, d: int, rank: int) -> int:
    """Return how many entries of W* a direction of A is worth: d, or, for MHA, what B keeps of y."""
    return d if toy == "skipv1" else d - rank


@dataclass(frozen=True, kw_only=True)
class Staircase:
    """Two heads, one in balance (`theory.skipv1.dynamics`, Theorem 4) and one with Gaussian keys and no readout.

    Attributes:
        scales: The diagonal of the balanced head's keys.
        others: How large the other head's keys are, over the largest of these.
        past: How long it is trained, in units of the last predicted step.
        learning_rate: That of plain gradient descent, constant.
        batch: Prompts a step.
        log_every: Steps a point of the curve.
    """

    size: Setting
    toy: str
    scales: tuple[float, ...]
    others: float = 0.5
    past: float = 1.35
    learning_rate: float = 0.01
    batch: int = 64
    log_every: int = 15

    @property
    def key(self) -> str:
        return f"{self.size.key}/{self.toy}/a{self.rank}"

    @property
    def rank(self) -> int:
        return len(self.scales)

    @property
    def kinds(self) -> Heads:
        return kinds_of(self.toy, 2)

    @property
    def balanced(self) -> HeadKind:
        return "skip" if self.toy == "skipv1" else "ordinary"

    @property
    def steps(self) -> int:
        """The steps of a whole number of points of the curve."""
        from theory.skipv1.dynamics import step_times

        last = step_times(*self.size.floats, self.scales, self.balanced)[-1]
        return max(1, round(self.past * last / (self.learning_rate * self.log_every))) * self.log_every

    @property
    def times(self) -> list[float]:
        """The middles of the windows that a point of the curve averages over."""
        window = self.learning_rate * self.log_every
        return [(i + 0.5) * window for i in range(self.steps // self.log_every)]

    @property
    def start(self) -> Given:
        """The start of every seed: seeds differ in their prompts alone."""
        import numpy as np

        from icl.toys.stacked import Given
        from theory.skipv1.dynamics import balanced_start

        d, rank = self.size.d, self.rank
        parts = balanced_start(d, self.scales, self.balanced)
        noise = np.random.default_rng(0).standard_normal((d, rank)) / d**0.5
        other, idle = self.others * max(self.scales) * noise, np.zeros((d, d))
        w, k = (idle, parts["v"]), (other, parts["k"])
        if self.balanced == "ordinary":
            w, k = w[::-1], k[::-1]
        return Given.of({"a": parts["a"], "b": parts["b"], "w": w, "k": k})


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Gaussian starts of one toy.

    Attributes:
        keys: How many times larger the keys start than the compression.
    """

    toy: str
    rank: int
    heads: int
    keys: float

    @property
    def key(self) -> str:
        return f"{self.toy}/a{self.rank}/h{self.heads}/keys{self.keys:g}"

    @property
    def kinds(self) -> Heads:
        return kinds_of(self.toy, self.heads)

    @property
    def start(self) -> Gaussian:
        from icl.toys.stacked import Gaussian

        return Gaussian(keys=self.keys)

    @property
    def bounded(self) -> bool:
        """True where Theorem 3 bounds the rank at which a start may end."""
        return self.toy == "skipv1" and self.heads == 2


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Arms trained by plain gradient descent whose rate falls to zero.

    Attributes:
        flows: Starts of each arm with two heads from which the exact gradient flow is followed as well.
        starts: Starts of each arm, to a seed.
        time: Steps times the learning rate.
        batch: Prompts a step.
        adam_steps: Steps of the arms that are trained by Adam too, at the same rate.
    """

    size: Setting
    arms: tuple[Arm, ...]
    flows: int
    starts: int = 2
    time: float = 15.0
    learning_rate: float = 0.02
    batch: int = 32
    adam_steps: int = 1500

    def steps(self, method: Method) -> int:
        """Return the steps of gradient descent, whose rates sum up to a third of the first a step, or of Adam."""
        return round(3 * self.time / self.learning_rate) if method == "descent" else self.adam_steps

    @property
    def by_adam(self) -> list[Arm]:
        """Arms that are trained by Adam too: two heads, the highest rank of each toy."""
        two = [arm for arm in self.arms if arm.heads == 2]
        return [arm for arm in two if arm.rank == max(other.rank for other in two if other.toy == arm.toy)]


def train_staircases(staircases: Sequence[Staircase], seeds: int, run: RunFolder) -> Json:
    """Return of every staircase the losses at its times, one list of seeds a time."""
    items, label = {stairs.key: stairs for stairs in staircases}, "training from balance"
    work = partial(_train_staircase, seeds=seeds)
    trained = results("staircase", items, work, run=run, label=label, size=lambda stairs: stairs.steps)
    return {key: stairs["losses"] for key, stairs in trained.items()}


def train_shares(shares: Shares, seeds: int, run: RunFolder) -> Json:
    """Return of every arm the signal explained by its trained toys, exactly, one number a start.

    Of those with two heads also what the exact gradient flow from the first starts explains, after the same time and,
    where Theorem 3 bounds the rank of the limit, after LIMIT times that, with the bounds; and of the highest rank what
    toys trained by Adam explain.
    """
    starts = shares.starts * seeds
    stacks: dict[str, tuple[Method, list[Arm]]] = {}
    methods: tuple[Method, ...] = ("descent", "adam")
    for arm in shares.arms:
        for method in methods[: 2 if arm in shares.by_adam else 1]:
            stacks.setdefault(f"{arm.toy}/h{arm.heads}/{method}", (method, []))[1].append(arm)
    trained = results(
        "share",
        stacks,
        partial(_train_arms, shares=shares, starts=starts),
        run=run,
        label="training from Gaussian starts",
        size=lambda stack: shares.steps(stack[0]),
    )
    count = min(starts, shares.flows)
    flows = {arm.key: arm for arm in shares.arms if arm.heads == 2}
    work = partial(_follow, shares=shares, count=count)
    flowed = results("flow", flows, work, run=run, label="exact gradient flows", size=lambda _: count)
    ends: Json = {arm.key: dict(flowed.get(arm.key, {})) for arm in shares.arms}
    for stack in trained.values():
        for key, explained in stack["explained"].items():
            ends[key][stack["method"]] = explained
    return ends


def exact_path(stairs: Staircase) -> list[float]:
    """Return the exact losses along the gradient flow from the start of a staircase, at its times."""
    from theory.toy.flow import gradient_flow

    start = population_weights(_toys(stairs.size, [stairs], 1), 0)
    return [float(x) for x in gradient_flow(_loss(stairs.size, stairs), start, stairs.times).losses]


def _train_staircase(stairs: Staircase, desk: Desk, *, seeds: int) -> Json:
    from icl.toys.training import toy_recipe

    constant: Json = {"warmup": 0.0, "floor": 1.0, "clip": 0.0}
    recipe = toy_recipe(stairs.steps, stairs.batch, stairs.learning_rate, log_every=stairs.log_every, **constant)
    return {"losses": train_stack(_toys(stairs.size, [stairs], seeds), recipe, desk, method="descent")}


def _train_arms(stack: tuple[Method, list[Arm]], desk: Desk, *, shares: Shares, starts: int) -> Json:
    from icl.toys.training import toy_recipe

    method, arms = stack
    toys = _toys(shares.size, arms, starts)
    recipe = toy_recipe(shares.steps(method), shares.batch, shares.learning_rate, warmup=0.0)
    train_stack(toys, recipe, desk, method=method)
    explained: Json = {}
    for i, arm in enumerate(arms):
        loss = _loss(shares.size, arm)
        weights = [population_weights(toys, i * starts + start) for start in range(starts)]
        explained[arm.key] = [loss.zero_loss - loss.value(end) for end in weights]
    return {"method": method, "explained": explained}


def _follow(arm: Arm, desk: Desk, *, shares: Shares, count: int) -> Json:
    from theory.skipv1.dynamics import rank_bounds
    from theory.toy.flow import gradient_flow

    toys, loss = _toys(shares.size, [arm], count), _loss(shares.size, arm)
    ends: Json = {"flow": [], "limit": [], "bounds": []}
    for i in range(count):
        start = population_weights(toys, i)
        if arm.bounded:
            ends["bounds"].append(rank_bounds(start.k[1][: arm.rank], start.a))
        times = [shares.time, LIMIT * shares.time][: 2 if arm.bounded else 1]
        losses = gradient_flow(loss, start, times, accuracy=ACCURACY).losses
        for name, value in zip(("flow", "limit"), losses, strict=False):
            ends[name].append(loss.zero_loss - float(value))
        desk.report(i + 1, arm.key)
    return ends


def _toys(size: Setting, arms: Sequence[Staircase | Arm], seeds: int) -> StackedToys:
    """Return all seeds of one arm after those of the one before."""
    from icl.prompts import RegressionTask
    from icl.toys.stacked import StackedToys, ToySpec

    task, starts = RegressionTask(*size.floats), [(arm, arm.start) for arm in arms]
    return StackedToys(
        [ToySpec(task, a.kinds, a.rank, seed=seed, init=start) for a, start in starts for seed in range(seeds)]
    )


def _loss(size: Setting, arm: Staircase | Arm) -> PopulationLoss:
    from theory.prompts.moments import PromptMoments
    from theory.toy.population import PopulationLoss

    return PopulationLoss(PromptMoments(*size.floats), arm.kinds)
