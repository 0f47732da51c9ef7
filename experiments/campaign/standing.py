"""The campaign's standing: what every question has, what it lacks, and how long that takes here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.campaign.pool import Pool, prices, without_text
from experiments.campaign.question import Question
from experiments.experiment.execution import committed_results, conclusions, latest_runs, summary
from experiments.store.folders import Json, Slot
from experiments.training.arms import Arm
from experiments.training.trunks import trunks
from experiments.verdicts.checks import Judgement

PROFILE = "cpu"


@dataclass(frozen=True)
class Standing:
    """One question.

    Args:
        trained: trainings that are finished; those of several lengths from one trunk count once.
        left: likewise, that are not, and that no question before it asks for.
        seconds: what these take on one core.
        checks: what can be said now; None before all seeds of a group are complete.
    """

    question: Question
    trained: int
    left: int
    seconds: float
    checks: Sequence[Judgement] | None


def standings(questions: Sequence[Question], out: Path, slot: Slot) -> list[Standing]:
    """Return how far every question is, by its own profile's seeds; a training that two share is left but once."""
    pool, seen, rows = Pool(out, slot), set[str](), []
    needed = [_arms(question, pool) for question in questions]
    records = pool.finished(arm for arms in needed for arm in arms)
    price = prices(records)
    for question, arms in zip(questions, needed, strict=True):
        left = {trunk.name(slot.device): trunk for trunk in trunks([arm for arm in arms if arm not in records])}
        own = [price(trunk) for name, trunk in left.items() if name not in seen]
        seen |= left.keys()
        trained = len(trunks([arm for arm in arms if arm in records]))
        rows.append(Standing(question, trained, len(own), seconds=sum(own), checks=_checks(question, out)))
    return rows


def require_text(questions: Sequence[Question], out: Path, slot: Slot) -> None:
    """Raise UserError, where no text is given, if a training is missing that it is needed for."""
    if slot.data is not None:
        return
    pool = Pool(out, slot)
    for question in questions:
        arms = _arms(question, pool)
        if pool.finished(arms).keys() < {*arms}:
            raise without_text(question.profiles[PROFILE].config.setting.corpus)


def _arms(question: Question, pool: Pool) -> list[Arm]:
    profile = question.profiles[PROFILE]
    return question.every(profile.config, profile.seeds, pool)


def _checks(question: Question, out: Path) -> Sequence[Judgement] | None:
    """Return what can be said by the runs below `out`, or else by what is committed."""
    committed = committed_results()
    runs = [run for place in (out, committed) if place for run in latest_runs(place, [question.name], (PROFILE,))]
    for run in runs:
        prediction, measurement = run.read("prediction.json"), run.read("measurement.json")
        return conclusions(question, summary(run), prediction, measurement=measurement)
    return None


def as_json(standing: Standing) -> Json:
    """Return one question's standing as `crosslayer campaign --json` prints it."""
    return {
        "question": standing.question.name,
        "title": standing.question.title,
        "trained": standing.trained,
        "left": standing.left,
        "hours_left": round(standing.seconds / 3600, 1),
        "checks": None if standing.checks is None else [check.to_json() for check in standing.checks],
    }
