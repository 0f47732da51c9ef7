"""The pool of trainings: each is trained once, whichever question asks for it, and found wherever its line lies.

Lines lie in OUT/campaign/metrics.jsonl, and in what is committed of the campaign; a line holds one trunk's trainings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from experiments.campaign.setting import Corpus
from experiments.experiment.execution import committed_results
from experiments.store.folders import METRICS, Json, RunFolder, Slot, UserError
from experiments.training.arms import Arm
from experiments.training.stacks import finished
from experiments.training.text import prepared
from experiments.training.trunks import train_sharing

FOLDER = "campaign"


class Pool:
    """The trainings that are finished, and the folder to which more are added.

    Args:
        out: the folder that was given to `run`; the pool lies in its folder `campaign`.
        slot: the machine time that may be used, and the text, if trainings are to be added.
    """

    def __init__(self, out: Path, slot: Slot | None = None) -> None:
        self.run = RunFolder(out / FOLDER, slot)

    def finished(self, arms: Iterable[Arm]) -> dict[Arm, Json]:
        """Return the records of those of the arms that are trained."""
        keys = {arm: arm.key(self.run.slot.device) for arm in arms}
        records = self._records()
        return {arm: records[key] for arm, key in keys.items() if key in records}

    def train(self, missing: Sequence[Arm], label: str) -> dict[Arm, Json]:
        """Train what `finished` lacks; return the records of those that end before the slot's deadline."""
        return train_sharing(missing, self.run, label, keeping=True)

    def _records(self) -> Mapping[str, Json]:
        here = {self.run.path.resolve(), (committed_results() / FOLDER).resolve()}
        return {
            key: record
            for path in sorted(here)
            if (path / METRICS).exists()
            for key, record in finished(RunFolder(path)).items()
        }


def text_folder(corpus: Corpus, given: str | None) -> str:
    """Return the folder of the campaign's text.  Raises UserError, which says how to prepare it, if it is not there."""
    from icl.data.shards import open_data

    if given is None:
        raise UserError(f"trainings are missing, and need --data FOLDER: {corpus.name}")
    folder = prepared(given, corpus.vocab)
    if (digest := open_data(folder).manifest.digest) != corpus.digest:
        other = f"{folder} holds other text ({digest[:8]}) than the campaign's ({corpus.digest[:8]})"
        raise UserError(f"{other}: {corpus.name}")
    return str(folder)
