"""The pool of trainings: each is trained once, whichever question asks for it, and found wherever its line lies.

Lines lie in OUT/campaign/metrics.jsonl, and in what is committed of the campaign; a line holds one trunk's trainings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from experiments.campaign.setting import Corpus
from experiments.experiment.execution import committed_results
from experiments.store.folders import METRICS, Json, RunFolder, Slot, UserError
from experiments.store.progress import warn
from experiments.training.arms import Arm
from experiments.training.stacks import finished
from experiments.training.text import prepared
from experiments.training.trunks import Trunk, train_sharing, trunks
from theory.plans.accounting import flops

FOLDER = "campaign"
SECONDS_PER_FLOP = 1e-10  # of a training step on one core, until something is trained here
STEP = 3.0  # a step's work, in forward passes
APART = 1.5  # times as many operations, from which on the time of operations is told from that of calling them
BESIDES = 1.2  # the time of a training over that of its steps: evaluations and probes
LONG = 600.0  # seconds, from which on it is said beforehand how long trainings take


class Pool:
    """The trainings that are finished, and the folder to which more are added.

    Args:
        out: the folder that was given to `run`; the pool lies in its folder `campaign`.
        slot: the machine time that may be used, and the text, if trainings are to be added.
    """

    def __init__(self, out: Path, slot: Slot | None = None) -> None:
        self.run = RunFolder(out / FOLDER, slot)
        self._read: Mapping[str, Json] | None = None  # the records, once read; None again after training

    def finished(self, arms: Iterable[Arm]) -> dict[Arm, Json]:
        """Return the records of those of the arms that are trained."""
        keys = {arm: arm.key(self.run.slot.device) for arm in arms}
        records = self._read = self._records() if self._read is None else self._read
        return {arm: records[key] for arm, key in keys.items() if key in records}

    def train(self, missing: Sequence[Arm], label: str, there: Mapping[Arm, Json]) -> dict[Arm, Json]:
        """Train what `finished` lacks; return the records of those that end before the slot's deadline.

        The time that it takes is printed before, if it is long.

        Args:
            missing: what is trained.
            label: what asks for it.
            there: records of what is finished, which tell how fast it goes.
        """
        self._read = None
        left = trunks(missing)
        seconds = sum(map(prices(there), left))
        if seconds > LONG and self.run.slot.seconds_left > 0:
            warn(f"{label}: {len(left)} trainings to go, about {seconds / 3600:.1f} hours of one core")
        return train_sharing(missing, self.run, label, keeping=True)

    def _records(self) -> Mapping[str, Json]:
        here = {self.run.path.resolve(), (committed_results() / FOLDER).resolve()}
        return {
            key: record
            for path in sorted(here)
            if (path / METRICS).exists()
            for key, record in finished(RunFolder(path)).items()
        }


def prices(records: Mapping[Arm, Json]) -> Callable[[Trunk], float]:
    """Return how many seconds of one core a trunk and its branches take, by what has been trained.

    A token takes a time for its floating-point operations and one for calling them, which in small models is most of
    it.  The two are told apart once sizes have been trained that differ enough; until then all goes with operations.
    """
    from scipy.optimize import nnls

    by_flops = defaultdict[float, list[float]](list)
    for arm, record in records.items():
        if speed := record["tokens_per_second"]:
            by_flops[_flops(arm)].append(1 / speed)
    took = {count: median(per_token) for count, per_token in by_flops.items()}
    if took and max(took) > APART * min(took):
        (call, operation), _ = nnls([[1.0, count] for count in took], list(took.values()))
    else:
        call, operation = 0.0, median([per_token / count for count, per_token in took.items()] or [SECONDS_PER_FLOP])

    def seconds(trunk: Trunk) -> float:
        arm = trunk.arms[-1]
        return float(BESIDES * trunk.steps() * arm.recipe.batch * arm.context * (call + operation * _flops(arm)))

    return seconds


def _flops(arm: Arm) -> float:
    """Return the floating-point operations of a training step, per token."""
    return STEP * flops(arm.architecture, arm.plan, (arm.context + 1) // 2)


def text_folder(corpus: Corpus, given: str | None) -> str:
    """Return the folder of the campaign's text.  Raises UserError, which says how to prepare it, if it is not there."""
    from icl.data.shards import open_data

    if given is None:
        raise without_text(corpus)
    folder = prepared(given, corpus.vocab)
    if (digest := open_data(folder).manifest.digest) != corpus.digest:
        other = f"{folder} holds other text ({digest[:8]}) than the campaign's ({corpus.digest[:8]})"
        raise UserError(f"{other}: {corpus.name}")
    return str(folder)


def without_text(corpus: Corpus) -> UserError:
    """Return the error of somebody who has given no text, where trainings are missing."""
    return UserError(f"trainings are missing, and need --data FOLDER: {corpus.name}")
