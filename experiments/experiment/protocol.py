"""The one shape of an experiment: predict, measure, compare, draw.

    predict   a number or curve from `theory`, with its assumptions; stored before anything is measured
    measure   what happens, from `icl` or by exact minimisation; never sees the prediction; resumes where it was killed
    compare   checks, each of which must also reject its negative controls, else it is `inconclusive`; and, of full-size
              runs, expectations, which may be contradicted without anything being broken
    draw      the figure

Predictions and measurements are plain JSON, so comparing and drawing can be repeated from a run's folder alone.
`execution.execute` carries an experiment through, and `catalogue` finds them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from experiments.store.folders import Json, RunFolder, UserError
from experiments.verdicts.checks import Judgement
from theory.plans.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Kind = Literal["theory", "scale"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The size in which an experiment is run.

    config       a frozen dataclass, saved with the result
    seeds        how many; they are 0 .. seeds-1.  0: nothing is random, and --seeds has no effect
    seconds      expected time on two cores
    detects      the smallest effect that the profile can detect, in words; None: none at all.  It shows that
                 everything runs: what theory forbids fails there too, but what was only expected gets no verdict
    grows        its folder keeps one name and gathers finished trainings over several sittings, on other machines and
                 by later versions of the source too; figure and verdicts are recomputed each time
    device       where its trainings run unless told otherwise: cpu or cuda
    on_gpu       trainings at a time on a GPU: several where one cannot fill it
    """

    config: Any
    seeds: int
    seconds: int
    detects: str | None
    grows: bool = False
    device: str = "cpu"
    on_gpu: int = 1

    @property
    def decides(self) -> str:
        """A phrase to stand after "it": the effect that it detects, or that it decides nothing."""
        return f"detects {self.detects}" if self.detects else "shows that it runs; decides nothing"


@runtime_checkable
class Experiment(Protocol):
    """An experiment, which its module exports as EXPERIMENT.

    Torch, scipy and matplotlib are imported inside functions.

    kind     theory: on toys; scale: on full-size models
    caption  what the figure shows, panel by panel, and what its intervals are, to be read without anything beside it
    claims   ids of the ledger entries that it bears on; its checks name no others
    """

    name: str
    title: str
    caption: str
    kind: Kind
    claims: tuple[str, ...]
    profiles: Mapping[str, Profile]

    def predict(self, config: Any) -> Json: ...

    def measure(self, config: Any, seeds: int, run: RunFolder) -> Json: ...

    def compare(self, prediction: Json, measurement: Json) -> Sequence[Judgement]: ...

    def draw(self, prediction: Json, measurement: Json) -> Figure: ...


@runtime_checkable
class Tabled(Experiment, Protocol):
    """An experiment with a table of its own, which `run`, `compare` and the site show in place of the usual ones.

    legend  what its words mean
    """

    legend: Mapping[str, str]

    def table(self, prediction: Json, measurement: Json) -> list[tuple[str, ...]]:
        """Return the names of the columns, then the cells of every row."""


@runtime_checkable
class Retiring(Experiment, Protocol):
    """An experiment with profiles that are no more.

    retired  by name, what became of their question and where what they found stands
    """

    retired: Mapping[str, str]


@runtime_checkable
class Continued(Experiment, Protocol):
    """An experiment whose questions do not fit one figure.

    further  names of further figures, which are saved beside `figure` under these, with their captions
    """

    further: Mapping[str, str]

    def draw_further(self, name: str, prediction: Json, measurement: Json) -> Figure: ...


@runtime_checkable
class Sized(Experiment, Protocol):
    """An experiment on regression prompts whose sizes are free."""

    def at_size(self, config: Any, size: Setting) -> Any:
        """Return the configuration with this size in place of its own."""
        ...


@runtime_checkable
class Pooled(Experiment, Protocol):
    """An experiment that shares its trainings with others, and says how long they take once it has looked for them.

    order  its place among them
    """

    order: int


def at_size(experiment: Experiment, profile: str, size: Setting | None) -> Experiment:
    """Return the experiment, of one profile, at a size of the user's; its results are in a folder of their own.

    Raises:
        UserError: where its sizes are not free, or d is more than exact minima are found for.
    """
    if size is None or profile not in experiment.profiles:
        return experiment
    from theory.toy.value_maps import LARGEST_MINIMISED

    if not isinstance(experiment, Sized):
        raise UserError(f"--size: the sizes of {experiment.name} are not free")
    if size.d > LARGEST_MINIMISED:
        raise UserError(f"--size: exact minima take d <= {LARGEST_MINIMISED}, got {size.d}")
    before, sized = experiment.profiles[profile], copy(experiment)
    sized.name = f"{experiment.name}+{size.key}"
    sized.title = f"{experiment.title}: d = {size.d}, n = {size.n}, sigma = {float(size.sigma):g}"
    sized.profiles = {profile: replace(before, config=experiment.at_size(before.config, size))}
    return sized


def figures(experiment: Experiment) -> dict[str, str]:
    """Return the names of an experiment's figures, without suffix, and their captions; the first is `figure`."""
    further = experiment.further if isinstance(experiment, Continued) else {}
    return {"figure": experiment.caption, **further}


def figure_files(experiment: Experiment) -> list[str]:
    """Return the names of the figures' files in a run's folder."""
    return [f"{name}.{suffix}" for name in figures(experiment) for suffix in ("svg", "png")]
