"""A question to the campaign: the trainings that it needs, and their numbers, ready to be compared and drawn.

A question is one file: a subclass of `Question` with its groups of arms, what is predicted, under which rule it is
decided, and its figure.  It trains nothing itself; it asks the pool.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from experiments.campaign.pool import Pool, text_folder, without_text
from experiments.campaign.rates import OwnRates, Swept, at_width, each_swept, own_rates
from experiments.campaign.setting import VANILLA, Cell, Corpus, Setting
from experiments.experiment.protocol import Kind, Profile
from experiments.store.folders import Json, RunFolder, Slot, Unfinished
from experiments.store.progress import warn
from experiments.training.arms import START, Arm, TextSource
from experiments.training.campaign import of_runs
from experiments.training.comparing import OwnVariant
from experiments.training.trunks import trunks
from experiments.verdicts.checks import Judgement
from theory.plans.architecture import Architecture
from theory.plans.names import sized

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from icl.recipe import Recipe

TWIN, CONTROL = "twin", "second-twin"  # vanilla with other initial weights, on the same data
VANILLAS = {VANILLA: 0, TWIN: 1, CONTROL: 2}  # by name, which initial weights
BASELINE = (VANILLA, TWIN)  # of a difference: their mean
OWN = "own rates"
FEWEST = 2  # seeds, without which there is no spread
Rounds = Sequence[Mapping[str, Mapping[float, Arm]]]  # of every seed, by name of the arm, its trainings by length


@dataclass(frozen=True, kw_only=True)
class Group:
    """Paired trainings, which differ in their plan or their initial weights alone.

    Args:
        arms: names of variants, beside the three vanillas, which every group has.
        rate: the learning rate at its peak, of all of them; None: each has its own (`rates.own_rates`).
        std: deviation of initial matrices, see `setting.FAN_IN`.
        until: tokens per parameter of the longest training.
        part: what all of its models have beside their plans, as a variant's name says it, such as `qk-norm`.
        optimiser: of all of its trainings.
    """

    arms: tuple[str, ...]
    width: int
    rate: float | None
    std: float = START
    until: float = 20.0
    part: str = ""
    optimiser: Literal["adamw", "muon"] = "adamw"

    @property
    def name(self) -> str:
        """The group's name in results."""
        rate = OWN if self.rate is None else f"rate {self.rate:g}"
        weights = f"{self.std:g}" if self.std else "fan-in"
        return ", ".join([f"width {self.width}", rate, f"initial weights {weights}", *self.conditions])

    @property
    def conditions(self) -> list[str]:
        """The conditions that set it apart from other groups of a width, beside rates and initial weights."""
        return [*filter(None, [self.part]), *([self.optimiser] if self.optimiser != "adamw" else [])]

    def swept(self, arm: str) -> str:
        """Return what the sweep of an arm's own learning rate is called; vanillas share one."""
        return ", ".join([VANILLA if arm in VANILLAS else arm, *self.conditions])


@dataclass(frozen=True, kw_only=True)
class Config:
    """The trainings of a question.

    Args:
        own: a user's variants, in place of the groups' arms.
    """

    setting: Setting
    groups: tuple[Group, ...]
    own: tuple[OwnVariant, ...] = ()


class Question(ABC):
    """The common part of questions; a subclass adds `predict`, `compare` and `draw`, as any experiment has them.

    Attributes:
        order: Its place among the questions, in which they are trained.
        compared: What has to be trained at all seeds before anything is compared (`comparable`).
        models: By name of an arm, the fields of its `Cell`, where the name alone does not say them; `variant` may be a
            function that makes a plan for a shape, and `heads` is how many the model has.
    """

    name: str
    title: str
    caption: str
    kind: Kind = "scale"
    order: int = 9
    claims: tuple[str, ...]
    profiles: Mapping[str, Profile]
    compared: str = "all arms of a group"
    models: Mapping[str, Mapping[str, Any]] = {}

    @abstractmethod
    def predict(self, config: Config) -> Json:
        """Return the predictions, whose they are, and the rule that decides them; nothing is trained yet."""

    @abstractmethod
    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]:
        """Return what the trainings say of it."""

    @abstractmethod
    def draw(self, prediction: Json, measurement: Json) -> Figure:
        """Return the figure that answers the question."""

    def probed(self, probes: Json) -> Json:  # noqa: ARG002
        """Return what is kept of what the campaign's probe measured of one model; by default nothing."""
        return {}

    def comparable(self, groups: Mapping[str, Json]) -> bool:
        """Return whether something can be compared, by the groups of which all seeds are there."""
        return bool(groups)

    def architectures(self, config: Config) -> Sequence[Architecture]:
        """Return the architectures that are trained."""
        return [config.setting.sizes(width) for width in dict.fromkeys(group.width for group in config.groups)]

    def comparing(self, config: Config, own: tuple[OwnVariant, ...]) -> Config:
        """Return the configuration with a user's variants in place of its own."""
        groups = tuple(replace(group, arms=tuple(variant.name for variant in own)) for group in config.groups)
        return replace(config, groups=groups, own=own)

    def cell(self, config: Config, group: Group, arm: str, rate: float) -> Cell:
        """Return an arm of a group, at a learning rate."""
        about: dict[str, Any] = {"width": group.width, "rate": rate, "std": group.std, "until": group.until}
        about["optimiser"] = group.optimiser
        sizes = config.setting.sizes(group.width)
        if group.part:
            sizes, _ = sized(sizes, group.part)
            about["sizes"] = sizes
        if arm in VANILLAS:
            return Cell(variant=VANILLA, twin=VANILLAS[arm], **about)
        for own in config.own:
            if own.name == arm:
                changed, plan = own.on(sizes)
                known = [of for name, of in self.models.items() if of.get("variant", name) == own.name]
                about |= {key: x for of in known[:1] for key, x in of.items() if key == "depth_rate"}
                return Cell(variant=plan, label=arm, **{**about, "sizes": changed})
        changes = dict(self.models.get(arm, {}))
        if isinstance(named := changes.get("variant", arm), str):
            changed, rest = sized(sizes, named)
            if changed != sizes:
                sizes = changed
                changes |= {"variant": rest, "sizes": sizes, "label": arm}
        if heads := changes.pop("heads", 0):
            sizes = replace(sizes, n_heads=heads)
            changes["sizes"] = sizes
        if callable(make := changes.get("variant")):
            changes |= {"variant": make(sizes.shape), "label": arm}
        return Cell(**{"variant": arm, **about, **changes})

    def trainings(self, config: Config, seeds: int, rates: OwnRates | None = None) -> dict[str, Rounds]:
        """Return the trainings that are needed, by group.

        Args:
            config: which groups.
            seeds: of each.
            rates: the arms' own, as far as they are known; in place of others stands the middle one of the sweep.
        """
        sweep = config.setting.sweep
        middle = sweep.rates[len(sweep.rates) // 2]

        def rate(group: Group, arm: str) -> float:
            if group.rate is not None:
                return group.rate
            known = (rates or {}).get(group.swept(arm))
            return at_width(known.rate if known else middle, sweep.width, group.width)

        return {
            group.name: [
                {
                    name: config.setting.arms(self.cell(config, group, name, rate=rate(group, name)), seed)
                    for name in (*VANILLAS, *group.arms)
                }
                for seed in range(seeds)
            ]
            for group in config.groups
        }

    def sweeps(self, config: Config) -> dict[str, Swept]:
        """Return, by arm, the trainings from which its own learning rate is read, if a group asks for one."""
        sweep = config.setting.sweep
        asking = [group for group in config.groups if group.rate is None]
        return {
            group.swept(name): {
                rate: [
                    config.setting.arms(self.cell(config, small, name, rate=rate), seed) for seed in range(sweep.seeds)
                ]
                for rate in sweep.rates
            }
            for group in asking
            for small in [replace(group, width=sweep.width, std=START, until=sweep.until)]
            for name in (VANILLA, *group.arms)
        }

    def every(self, config: Config, seeds: int, pool: Pool) -> list[Arm]:
        """Return all trainings that are needed, each once, those that tell learning rates first."""
        sweeps = self.sweeps(config)
        swept = [arm for of_arm in sweeps.values() for arm in each_swept(of_arm)]
        rates = own_rates(sweeps, pool.finished(swept), config.setting.sweep)
        return list(dict.fromkeys([*swept, *each(self.trainings(config, seeds, rates))]))

    def _say_what_is_read_again(self, config: Config) -> None:
        """Say how often the text is read, if that is more than once."""
        if (times := epochs(config)) > 1:
            corpus = config.setting.corpus
            warn(f"{self.name}: {corpus.name} has {corpus.tokens:,} tokens, which are read up to {times:.1f} times")

    def measure(self, config: Config, seeds: int, run: RunFolder) -> Json:
        """Return losses, curves and probes of every group of which all seeds are there; of own variants two will do.

        An interval that is looked at as seeds come in errs more often than it says.  Without the text nothing is
        trained, and groups that are there already are measured.

        Raises Unfinished if there is none, and UserError where that is for want of the text.
        """
        setting, folder = with_text(config.setting, run.slot)
        config = replace(config, setting=setting)
        if folder is not None:
            self._say_what_is_read_again(config)
        pool, sweeps = Pool(run.path.parents[1], run.slot), self.sweeps(config)
        tried = [arm for swept in sweeps.values() for arm in each_swept(swept)]
        there = self._finished(tried, pool, setting.corpus, folder)
        rates = own_rates(sweeps, there, setting.sweep)
        if lost := [name for name in sweeps if name not in rates and there.keys() >= {*each_swept(sweeps[name])}]:
            warn(f"{self.name}: a training diverged at every learning rate tried, so that {', '.join(lost)} has none")
        known = [g for g in config.groups if g.rate is not None or {*map(g.swept, (VANILLA, *g.arms))} <= rates.keys()]
        needed = self.trainings(replace(config, groups=tuple(known)), seeds, rates)
        there |= self._finished(each(needed), pool, setting.corpus, folder)
        whole = self._whole(needed, there, few=bool(config.own))
        planned = self.trainings(config, seeds, rates)
        every = list(dict.fromkeys([*tried, *each(planned)]))
        if not self.comparable(whole):
            if folder is None:
                raise without_text(setting.corpus)
            seeds = FEWEST if config.own else min(map(len, planned.values()), default=FEWEST)
            total, left = (len(trunks(arms)) for arms in (every, [arm for arm in every if arm not in there]))
            finished = f"{self.name}: {total - left} of {total} trainings are finished"
            raise Unfinished(f"{finished}; a comparison needs {seeds} seeds of {self.compared}")
        if folder is None and there.keys() < {*every}:
            warn(f"{self.name}: what is finished is compared; {without_text(setting.corpus)}")
        records = [there[arm] for arm in every if arm in there]
        return {
            "seeds": max(of_group["seeds"] for of_group in whole.values()),
            "groups": whole,
            "left_out": [group.name for group in config.groups if group.name not in whole],
            "own_rates": {name: asdict(rate) for name, rate in rates.items()},
            "diverged": [record["diverged"] for record in records if record["diverged"]],
            "text": config.setting.corpus.name,
            "provenance": of_runs(records),
        }

    def _finished(self, every: Sequence[Arm], pool: Pool, corpus: Corpus, folder: str | None) -> dict[Arm, Json]:
        """Return the records of what is trained; where there is text, the pool first trains what is missing."""
        there = pool.finished(every)
        missing = [arm for arm in every if arm not in there]
        if missing and folder is not None:
            place = text_folder(corpus, folder)
            trained = pool.train([with_folder(arm, place) for arm in missing], self.name, there)
            there |= {with_folder(arm, ""): record for arm, record in trained.items()}
        return there

    def _whole(self, needed: Mapping[str, Rounds], there: Mapping[Arm, Json], *, few: bool) -> dict[str, Json]:
        """Return what is measured of the groups of which all seeds are there; of `few`, FEWEST of them will do."""
        whole = {}
        for name, rounds in needed.items():
            enough = FEWEST if few else max(FEWEST, len(rounds))
            if (measured := _measured(rounds, there, self.probed, enough)) is not None:
                whole[name] = measured
        return whole


def epochs(config: Config) -> float:
    """Return how often the longest training goes through the text."""
    longest = max((config.setting.tokens(group.width, group.until) for group in config.groups), default=0)
    return longest / max(1, config.setting.corpus.tokens)


def each(needed: Mapping[str, Rounds]) -> list[Arm]:
    """Return all trainings of `Question.trainings`: group by group, seed by seed."""
    of_seeds = (of_seed for rounds in needed.values() for of_seed in rounds)
    return [arm for of_seed in of_seeds for of_arm in of_seed.values() for arm in of_arm.values()]


def with_folder(arm: Arm, folder: str) -> Arm:
    """Return the same training, of text that lies there."""
    assert isinstance(arm.source, TextSource)
    return replace(arm, source=replace(arm.source, folder=folder))


def with_text(setting: Setting, slot: Slot) -> tuple[Setting, str | None]:
    """Return the setting with its text, and the folder of that text, if one is given.

    Of a corpus without a digest it is the text that is given, or the one of that name.
    """
    from experiments.training.text import text

    if setting.corpus.digest:
        return setting, slot.data
    read = text(slot.data or setting.corpus.name, setting.corpus.vocab, setting.held_out_windows)
    corpus = Corpus(read.name, read.source.digest, read.tokens, vocab=read.vocab)
    return replace(setting, corpus=corpus), read.source.folder


def _measured(rounds: Rounds, there: Mapping[Arm, Json], probed: Callable[[Json], Json], enough: int) -> Json | None:
    """Return what is measured of the seeds that are complete, from the first on; None if these are not enough."""
    whole = []
    for of_seed in rounds:
        if not all(arm in there for of_arm in of_seed.values() for arm in of_arm.values()):
            break
        whole.append({name: {at: there[arm] for at, arm in of_arm.items()} for name, of_arm in of_seed.items()})
    if len(whole) < enough:
        return None
    names, lengths = list(whole[0]), list(whole[0][VANILLA])
    last = rounds[0][VANILLA][lengths[-1]]
    of_step = last.recipe.batch * last.context
    parameters = {name: whole[0][name][lengths[0]]["parameters"] for name in names}
    return {
        "seeds": len(whole),
        "width": last.architecture.d_model,
        "context": last.context,
        "parameters": parameters,
        "rates": {name: rounds[0][name][lengths[-1]].recipe.learning_rate for name in names},
        "lengths": {str(at): rounds[0][VANILLA][at].recipe.steps * of_step / parameters[VANILLA] for at in lengths},
        "constant": last.recipe.begins_to_fall() * of_step / parameters[VANILLA],
        "curve": {
            "tokens_per_parameter": [
                step * of_step / parameters[VANILLA]
                for step in range(last.recipe.log_every, last.recipe.steps + 1, last.recipe.log_every)
            ],
            **{name: [_curve(of_seed[name][lengths[-1]], last.recipe) for of_seed in whole] for name in names},
        },
        "loss": {name: {str(at): [of_seed[name][at]["loss"] for of_seed in whole] for at in lengths} for name in names},
        "probed": {
            name: {str(at): [_probed(of_seed[name][at], probed) for of_seed in whole] for at in lengths}
            for name in names
        },
    }


def _curve(record: Json, recipe: Recipe) -> list[float] | None:
    """Return the training losses, one a line of the log; None where it diverged or a line is lost."""
    steps = range(recipe.log_every, recipe.steps + 1, recipe.log_every)
    if record["diverged"] or [step for step, _ in record["curve"]] != [*steps]:
        return None
    return [round(loss, 5) for _, loss in record["curve"]]


def _probed(record: Json, keep: Callable[[Json], Json]) -> Json | None:
    probed = next(iter(record.get("probes", {}).values()), None)  # the campaign has one
    return probed and probed["end"] and keep(probed["end"])
