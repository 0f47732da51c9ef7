"""One training of a full-size model, as data.

An arm's key is a digest of everything that decides its numbers, the text it reads and the training routine's version
included, but for the source code and the library versions: those stand in the record.  So a finished training is a
result that keeps its place when it is carried to another machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from experiments.store.folders import Json, UserError
from experiments.training.probes import MAGNITUDE
from icl.recipe import Recipe
from theory.plans.architecture import Architecture
from theory.plans.identity import canonical, text
from theory.plans.law import PLAIN, Law
from theory.plans.names import resolve
from theory.plans.plan import Plan, Shape
from theory.plans.recall import RecallSetting

if TYPE_CHECKING:
    from icl.models.decoder import Decoder
    from icl.prompts import RegressionTask
    from icl.training.objectives import PromptTask, Recall, Task

TWINS = 1_000_000  # beyond every seed that a user may ask for
LATER = (
    "depth_decay",
    "optimiser",
)  # of a recipe, unknown to records of before; left out where they make no difference


@dataclass(frozen=True)
class TextSource:
    """Prepared text.

    digest   of its manifest, so that an arm is tied to the data and not to where they lie
    opened   every sequence begins with the tokenizer's end of text, in its first token's place
    train_tokens  of the training text, from its start on, that are read epoch after epoch; 0: all
    context  tokens of a sequence; 0: the model's context
    """

    folder: str
    digest: str
    held_out_windows: int = 64
    opened: bool = False
    train_tokens: int = 0
    context: int = 0

    kind: ClassVar = "text"


@dataclass(frozen=True)
class PromptSource:
    """A source of in-context regression: `icl.prompts.RegressionTask`.

    scored   the answers that count, in training and on held-out prompts: all, or the last, after n pairs
    law      of inputs and tasks
    """

    d: int
    n: int
    sigma: float
    held_out_prompts: int = 4096
    scored: Literal["all", "last"] = "all"
    law: Law = PLAIN

    kind: ClassVar = "regression"

    @property
    def held_out_at_a_time(self) -> int:
        return min(512, self.held_out_prompts)

    @property
    def regression(self) -> RegressionTask:
        from icl.prompts import RegressionTask

        return RegressionTask(self.d, self.n, self.sigma, law=self.law)

    def power(self) -> float:
        """The mean of ||y_{n+1}||^2 over the held-out prompts: what predicting zero costs there."""
        squares = [batch.targets[:, -1].square().sum(-1).mean() for batch in prompt_task(self).held_out()]
        return float(sum(squares) / len(squares))

    def to_json(self) -> Json:
        """Return its entry in a record: where the law is plain, as it was before there were laws."""
        fields: Json = canonical(self)
        return fields

    @classmethod
    def from_json(cls, content: Json) -> PromptSource:
        """Return the source that `to_json` has written.  Raises TypeError and BadInput for anything else."""
        return cls(**{**content, "law": Law(**content.get("law", {}))})


@dataclass(frozen=True, kw_only=True)
class RecallSource(RecallSetting):
    """Associative recall: `icl.recall.RecallTask`."""

    held_out_prompts: int = 1024

    kind: ClassVar = "recall"

    @property
    def held_out_at_a_time(self) -> int:
        return min(256, self.held_out_prompts)


Source = TextSource | PromptSource | RecallSource
START = 0.02  # the papers' deviation of initial matrices


@dataclass(frozen=True)
class Start:
    """A finished training, at whose end another starts: its key, and its steps."""

    key: str
    steps: int


@dataclass(frozen=True)
class Initial:
    """The weights of another model, with which a training begins; under another plan than theirs, as converted to it.

    folder   where that model lies, with its plan
    weights  which they are, wherever they lie: their digest, or the key of the training that ends with them
    how      of the ways of `icl.conversion`, from vanilla's plan to the arm's; None where their plan is the arm's
    """

    folder: str
    weights: str
    how: str | None = None

    def model(self, architecture: Architecture, plan: Plan, device: str) -> Decoder:
        """Return the model at these sizes, up to the context, and under this plan.

        Raises:
            UserError: or BadInput, if that cannot be.
        """
        from icl.conversion import convert
        from icl.models.context import of_context
        from icl.models.saved import WEIGHTS, load

        if not (Path(self.folder) / WEIGHTS).is_file():
            raise UserError(f"{self.folder}, with whose weights {self.weights} a training begins, is gone")
        model = of_context(load(self.folder), architecture.context)
        if model.config != architecture:
            raise UserError(f"{self.folder} holds a model of other sizes than it did; name it again")
        if model.plan == plan:
            return model.to(device)
        if self.how is None:
            raise UserError(f"{self.folder} holds a model of another plan than it did; name it again")
        return convert(model, plan, self.how).to(device)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A model under a variant, trained on a source by a recipe.

    variant by name, or as a plan
    seed    of the data's order, and of the initial weights
    std     deviation of the initial matrices
    twin    other initial weights on the same data, as many as there are numbers: arms between which there is no
            difference to find
    probes  by name (`experiments.training.probes`): what is measured of the model at the start and at the end
    label   what the variant is called where it is shown; by default its name, if it has one
    start   weights, optimiser and step are those at another's end; by default initial weights, and step 0
    initial  weights that are there to begin with, to which seed, std and twin then make no difference
    """

    architecture: Architecture
    variant: str | Plan
    source: Source
    recipe: Recipe
    seed: int
    std: float = START
    twin: int = False
    probes: tuple[str, ...] = ()
    label: str = ""
    start: Start | None = None
    initial: Initial | None = None

    @property
    def name(self) -> str:
        variant = self.variant if isinstance(self.variant, str) else f"plan-{_digest(text(self.variant))[:6]}"
        return f"{self.label or variant}{'-twin' if self.twin else ''}{int(self.twin) if self.twin > 1 else ''}"

    @property
    def plan(self) -> Plan:
        return _plan(self.variant, self.architecture.shape) if isinstance(self.variant, str) else self.variant

    def key(self, device: str) -> str:
        """Return what tells this training, on a kind of device, from all others."""
        from icl.training.loop import ROUTINE

        named, shape = self.variant, self.architecture.shape
        plan = _in_words(named, shape) if isinstance(named, str) else text(named)  # what a name stands for may change
        beside = {"plan": plan, "routine": ROUTINE, "device": device.split(":")[0]}
        known = tuple(beside.values())
        if known not in self._keys:
            about = {**self._fields(canonical), **beside}
            for part in ("source", "initial"):
                about.get(part, {}).pop("folder", None)
            self._keys[known] = _digest(json.dumps(about, sort_keys=True))[:16]
        return self._keys[known]

    @cached_property
    def _keys(self) -> dict[tuple[object, ...], str]:
        """The keys that have been worked out, by what else they hang on."""
        return {}

    def to_json(self) -> Json:
        """Return its entry in a record."""
        fields = self._fields(asdict)
        if isinstance(self.source, PromptSource):  # finished trainings are compared with what would be recorded now
            fields["source"] = self.source.to_json()
        elif isinstance(self.source, TextSource):
            for later in ("train_tokens", "context"):  # likewise
                if not fields["source"][later]:
                    del fields["source"][later]
        for name in LATER:
            if getattr(self.recipe, name) == getattr(Recipe, name):
                del fields["recipe"][name]
        if self.initial is None:
            del fields["initial"]
        elif self.initial.how is None:
            del fields["initial"]["how"]
        if not isinstance(self.variant, str):
            return {**fields, "variant": self.name, "plan": text(self.plan)}
        return {**fields, "label": self.label} if self.label not in ("", self.variant) else fields

    def _fields(self, to_json: Callable[[Arm], Json]) -> Json:
        """Return the fields but the label, as keys and records have always had them: `probe` is that of magnitudes."""
        others = tuple(name for name in dict.fromkeys(self.probes) if name != MAGNITUDE)
        named = self.variant if isinstance(self.variant, str) else ""
        fields = to_json(replace(self, variant=named, probes=others, label=""))
        fields = {name: value for name, value in fields.items() if name not in ("label", "probes")}
        return {**fields, "probe": MAGNITUDE in self.probes, **({"probes": others} if others else {})}

    def model(self, device: str) -> Decoder:
        from icl.models.decoder import Decoder

        if self.initial is not None:
            return self.initial.model(self.architecture, self.plan, device)
        initial = self.seed + TWINS * self.twin
        scaled = self.recipe.scale_outputs
        return Decoder(self.architecture, self.plan, seed=initial, std=self.std, scale_outputs=scaled, device=device)

    @property
    def context(self) -> int:
        """The tokens of a sequence that it reads."""
        return (self.source.context if isinstance(self.source, TextSource) else 0) or self.architecture.context

    def task(self, rank: int = 0, count: int = 1) -> Task:
        """Return the task that it reads; of `count` processes that read together, each checks its part of the text."""
        return task_of(self.source, self.context, rank, count=count)


def task_of(source: Source, context: int, rank: int = 0, count: int = 1) -> Task:
    """Return the task that a model of this context is trained and evaluated on.

    Raises:
        UserError: for text that has changed.
    """
    from icl.data.shards import open_data
    from icl.training.objectives import TextTask

    if isinstance(source, PromptSource):
        return prompt_task(source)
    if isinstance(source, RecallSource):
        return recall_task(source)
    data = open_data(Path(source.folder), rank, count)
    if data.manifest.digest != source.digest:
        raise UserError(f"{source.folder} holds other text than it did; name it again")
    return TextTask(data, context, source.held_out_windows, opened=source.opened, train_tokens=source.train_tokens)


def prompt_task(source: PromptSource) -> PromptTask:
    from icl.training.objectives import PromptTask

    return PromptTask(source.regression, source.held_out_prompts, source.held_out_at_a_time, scored=source.scored)


def recall_task(source: RecallSource) -> Recall:
    from icl.recall import RecallTask
    from icl.training.objectives import Recall

    task = RecallTask(pairs=source.pairs, keys=source.keys, values=source.values, form=source.form)
    return Recall(task, source.held_out_prompts, source.held_out_at_a_time)


def source_from_json(content: Json) -> Source:
    """Return the source that a record holds.  Raises TypeError and BadInput for anything else."""
    if "pairs" in content:
        return RecallSource(**content)
    return PromptSource.from_json(content) if "d" in content else TextSource(**content)


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


# Thousands of arms have few variants and shapes between them.
_plan = lru_cache(maxsize=1024)(resolve)


@lru_cache(maxsize=1024)
def _in_words(variant: str, shape: Shape) -> str:
    return text(_plan(variant, shape))
