"""Execution of an experiment: predict, measure, compare, draw; finished steps are not repeated.

DIR/NAME/<run id>/ holds config.json, prediction.json, metrics.jsonl, measurement.json, summary.json, figure.svg and
figure.png, and an experiment's further figures.  The run id names the profile and a digest of its configuration, of the
source that the experiment imports and of library versions, so a run is resumed only by what began it.  unfinished-*/
and metrics.jsonl are what it resumes from.  The last value of every JSON file and line, sha256, is a digest of the
others, which is checked on reading.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from experiments.experiment.protocol import Continued, Experiment, Profile, Retiring, Tabled, figure_files
from experiments.store.folders import Json, RunFolder, Slot, UserError
from experiments.store.processes import one_thread
from experiments.store.progress import warn
from experiments.store.provenance import provenance, versions
from experiments.store.sources import source_digest
from experiments.verdicts.checks import Judgement, judgement, undecided, worst
from theory.plans.identity import canonical
from theory.plans.suggestions import hint

ROOT = Path(os.path.abspath(__file__)).parents[2]  # of the checkout; of an installed package, where packages are
MOST_SEEDS = 1000
SUMMARY = {
    **dict.fromkeys(("experiment", "profile", "title", "verdict"), str),
    "detects": str | None,
    "config": dict,
    "seeds": list,
    "device": str | list,
    "versions": dict | list,
    "commit": str | list | None,
    "source": str | list,
    "seconds": int | float,
    "resumed": bool,
    "checks": list,
}


@dataclass(frozen=True)
class Finished:
    """A finished run: the folder with its figure and numbers, and its checks."""

    folder: Path
    checks: tuple[Judgement, ...]

    def __repr__(self) -> str:
        count = f"{len(self.checks)} check{'s' if len(self.checks) != 1 else ''}"
        return f"<Finished: {self.verdict}, {count}, in {str(self.folder)!r}>"

    @property
    def verdict(self) -> str:
        """The worst verdict of its checks; inconclusive without any, undecided where the profile decides nothing."""
        return worst(self.checks)


@dataclass(frozen=True)
class Job:
    """One experiment at one profile, checked and ready to run."""

    experiment: Experiment
    profile: Profile
    config: Json
    run: RunFolder


def prepare(experiment: Experiment, profile_name: str, seeds: int | None, out: Path, slot: Slot | None = None) -> Job:
    """Check a request and return its job.

    Raises:
        UserError: for an unknown or retired profile, or a bad number of seeds.
    """
    profile = experiment.profiles.get(profile_name)
    if isinstance(experiment, Retiring) and profile_name in experiment.retired:
        raise UserError(f"profile {profile_name} of {experiment.name} is retired: {experiment.retired[profile_name]}")
    if profile is None:
        known = f"it has {', '.join(experiment.profiles)}"
        near = hint(profile_name, experiment.profiles, known)
        raise UserError(f"{experiment.name} has no profile {profile_name!r}; {near}")
    seeds = seeds if seeds is not None and profile.seeds else profile.seeds
    if profile.seeds and not 2 <= seeds <= MOST_SEEDS:
        raise UserError(f"--seeds must be from 2, for an interval, to {MOST_SEEDS}; got {seeds}")
    about = {"experiment": experiment.name, "profile": profile_name, "seeds": seeds}
    config = {**about, "config": asdict(profile.config)}
    folder, counting = out / experiment.name, {**about, "config": canonical(profile.config)}
    name = profile_name
    if not profile.grows:
        name = f"{profile_name}-{_digest(counting, source_digest(_module(experiment)))}"
    slot = slot or Slot()
    if slot.device.startswith("cuda"):
        slot = replace(slot, jobs=slot.jobs or profile.on_gpu)
    return Job(experiment, profile, config, run=RunFolder(folder / name, slot))


def execute(job: Job) -> Sequence[Judgement]:
    """Execute one experiment.  A finished run is read back, an unfinished one is resumed.

    Where the profile grows, what follows from its trainings is computed again; a prediction that is still the same
    keeps the time at which it was written, and what was found before stays until there is something new.  Raises
    Unfinished if time is up.
    """
    with job.run.locked(), one_thread():  # the same bits here and in a process of its own
        if job.profile.grows and not _still_predicted(job):
            _forget(job, ["prediction.json"])
        return _carry_through(job)


def _forget(job: Job, names: Sequence[str] = ()) -> None:
    """Delete what follows from a measurement, and other files."""
    for name in ("config.json", "measurement.json", "summary.json", *figure_files(job.experiment), *names):
        (job.run / name).unlink(missing_ok=True)


def _still_predicted(job: Job) -> bool:
    """Return whether a stored prediction is what the experiment predicts now."""
    if not job.run.has("prediction.json"):
        return False
    try:
        stored = job.run.read("prediction.json")
    except UserError:
        return False
    return bool(stored == json.loads(json.dumps(job.experiment.predict(job.profile.config))))


def _carry_through(job: Job) -> Sequence[Judgement]:
    experiment, profile, run, seeds = job.experiment, job.profile, job.run, job.config["seeds"]
    started, resumed = time.monotonic(), run.has("config.json") and not profile.grows
    if not run.has("config.json"):
        run.write("config.json", job.config)
    if not run.has("prediction.json"):
        run.write("prediction.json", experiment.predict(profile.config))
    prediction = run.read("prediction.json")
    if profile.grows or not run.has("measurement.json"):
        measurement = experiment.measure(profile.config, seeds, run)
        if profile.grows:
            _forget(job)
            run.write("config.json", job.config)
        run.write("measurement.json", measurement)
    measurement = run.read("measurement.json")
    checks = _compared(experiment, profile, prediction, measurement=measurement)
    if not all(run.has(name) for name in figure_files(experiment)):
        _draw(experiment, prediction, measurement, run=run)
    if not run.has("summary.json"):
        seeds = measurement.get("seeds") or seeds  # fewer, where time was up
        summary = {
            **job.config,
            "title": experiment.title,
            "verdict": worst(checks),
            "detects": profile.detects,
            "seeds": list(range(seeds)),
            **provenance(run.slot.device, _module(experiment)),
            **measurement.get("provenance", {}),
            "seconds": round(time.monotonic() - started, 1),
            "resumed": resumed,
            "predicted": run.written("prediction.json"),
            "checks": [check.to_json() for check in checks],
        }
        run.write("summary.json", summary)
    return checks


def _compared(experiment: Experiment, profile: Profile, prediction: Json, measurement: Json) -> list[Judgement]:
    """Return all judgements of a measurement.

    Raises:
        UserError: for a check on a claim that neither the experiment names nor a paper's expectation in the prediction.
    """
    checks = list(experiment.compare(prediction, measurement))
    claims = (*experiment.claims, *prediction.get("claims", ()))
    for check in checks:
        if check.claim not in claims and check.verdict != "unpredicted":
            named = ", ".join(claims) or "none"
            raise UserError(f"{experiment.name}: check {check.id!r} is on {check.claim!r}, but its claims are {named}")
    return checks if profile.detects is not None else [undecided(check) for check in checks]


def conclusions(experiment: Experiment, saved: Json, prediction: Json, measurement: Json) -> list[Judgement]:
    """Return a finished run's checks by the present rules, or those in its summary, `saved`, where these do not fit."""
    try:
        return _compared(experiment, experiment.profiles[saved["profile"]], prediction, measurement=measurement)
    except (LookupError, TypeError, ValueError, AttributeError):  # another version of the experiment left it
        return [judgement(content) for content in saved["checks"]]


def table(experiment: Experiment, prediction: Json, measurement: Json) -> list[tuple[str, ...]] | None:
    """Return the table of a finished run, if its experiment has one; None where its numbers do not fit it now."""
    if not isinstance(experiment, Tabled):
        return None
    try:
        return experiment.table(prediction, measurement)
    except (LookupError, TypeError, ValueError, AttributeError):  # another version of the experiment left it
        return None


def legend(experiment: Experiment) -> Mapping[str, str]:
    """Return what the words of an experiment's table mean; nothing for one without a table."""
    return experiment.legend if isinstance(experiment, Tabled) else {}


def summary(run: RunFolder) -> Json:
    """Return the summary of a finished run.  Raises UserError if it is damaged."""
    content = run.read("summary.json", SUMMARY)
    try:
        for check in content["checks"]:
            judgement(check)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{run / 'summary.json'} is damaged; delete it and run again") from error
    return content


def _draw(experiment: Experiment, prediction: Json, measurement: Json, run: RunFolder) -> None:
    """Draw the figures; without matplotlib, as on a rented machine, they are left to the next run elsewhere."""
    if find_spec("matplotlib") is None:
        warn(f"{experiment.name}: no figure, as matplotlib is not there; the same command draws it where it is")
        return
    from experiments.drawing.style import drawing, save

    with drawing():
        save(experiment.draw(prediction, measurement), run.path)
        if isinstance(experiment, Continued):
            for name in experiment.further:
                save(experiment.draw_further(name, prediction, measurement), run.path, name)


def _digest(about: Json, source: str) -> str:
    full = {**about, "source": source, "versions": versions()}
    return hashlib.sha256(json.dumps(full, sort_keys=True).encode()).hexdigest()[:10]


def _module(experiment: Experiment) -> str:
    return type(experiment).__module__


def committed_results() -> Path:
    """Return the folder of the checkout's results, wherever a command starts; without a checkout it does not exist."""
    results, here = ROOT / "results", Path.cwd()
    return results.relative_to(here) if results.is_relative_to(here) else results


def latest_runs(
    out: Path,
    names: Iterable[str],
    profiles: Sequence[str] = ("gpu", "long", "smollm", "full", "cpu", "smoke", "gpu-tiny"),
) -> list[RunFolder]:
    """Return, for each named experiment below `out`, the newest finished run of the largest profile that has one."""
    runs = []
    for name in names:
        summaries = [path for profile in profiles for path in _finished(out / name, profile)]
        summaries += (out / name).glob("summary.json")  # a result that was saved without its run's name
        if summaries:
            runs.append(RunFolder(summaries[0].parent))
    return runs


def _finished(folder: Path, profile: str) -> list[Path]:
    """Return summaries of finished runs, newest first."""
    summaries = [*folder.glob(f"{profile}-*/summary.json"), *folder.glob(f"{profile}/summary.json")]
    return sorted(summaries, key=lambda path: path.stat().st_mtime, reverse=True)
