"""Run folders and the runner: everything is written to a temporary name and renamed, and what is done is not redone.

DIR/NAME/<run id>/ holds config.json, prediction.json, metrics.jsonl, measurement.json, summary.json, figure.svg and
figure.png.  The run id names the profile and a digest of its configuration, of the source code and of library
versions, so a run is resumed only by what began it.  training-*.safetensors and metrics.jsonl are what it resumes from.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.protocol import Experiment, Json, Judgement, Profile, worst

PACKAGES = ("theory", "icl", "experiments")
FIGURES = ("figure.svg", "figure.png")
VERSIONS_OF = ("torch", "numpy", "scipy", "sympy", "matplotlib")


class UserError(Exception):
    """Something a user can put right.  The message is one line."""


class Unfinished(Exception):
    """Time is up before there is anything to compare.  The message is one line: what is done, and of how much."""


@dataclass(frozen=True)
class Slot:
    """The machine time that a run may use.

    device     cpu or cuda
    jobs       trainings at a time; 0: as many as there are cores, or as the profile says on a GPU
    deadline   `time.time()` by which to stop, or None
    data       a folder of prepared text, in place of the experiments' own
    """

    device: str = "cpu"
    jobs: int = 0
    deadline: float | None = None
    data: str | None = None

    @property
    def seconds_left(self) -> float:
        return float("inf") if self.deadline is None else self.deadline - time.time()


class RunFolder:
    """One run's files, and the time it may take.  Reading a file that is damaged raises UserError."""

    def __init__(self, path: Path, slot: Slot | None = None) -> None:
        self.path, self.slot = path, slot or Slot()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder, and keep other processes out of it.  Raises UserError if that cannot be done."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self / ".lock").open("a")
        except OSError as error:
            raise UserError(f"cannot write to {self.path}: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UserError(f"another process is working in {self.path}") from error
            yield

    def write(self, name: str, content: Json) -> None:
        write_atomically(self / name, json.dumps(content, indent=1, allow_nan=False) + "\n")

    def read(self, name: str) -> Any:
        try:
            return json.loads((self / name).read_text())
        except (OSError, ValueError) as error:
            raise UserError(f"{self / name} is damaged; delete it and run again") from error

    def has(self, name: str) -> bool:
        return (self / name).exists()

    def metrics(self) -> list[Json]:
        """The lines of metrics.jsonl, but for a last one that a kill has torn."""
        if not self.has("metrics.jsonl"):
            return []
        *whole, _torn = (self / "metrics.jsonl").read_text(errors="replace").split("\n")
        try:
            lines = [json.loads(line) for line in whole]
            if not all(isinstance(line, dict) and "kind" in line for line in lines):
                raise ValueError("not a metric")
        except ValueError as error:
            raise UserError(f"{self / 'metrics.jsonl'} is damaged; delete it and run again") from error
        return lines

    def keep_metrics(self, lines: list[Json]) -> None:
        """Replace metrics.jsonl, which also drops a torn last line."""
        write_atomically(self / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def log(self, line: Json) -> None:
        with (self / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def write_atomically(path: Path, content: str | bytes) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    temporary.replace(path)


MOST_SEEDS = 1000


@dataclass(frozen=True)
class Job:
    """One experiment at one profile, checked and ready to run."""

    experiment: Experiment
    profile: Profile
    config: Json
    run: RunFolder


def prepare(experiment: Experiment, profile_name: str, seeds: int | None, out: Path, slot: Slot | None = None) -> Job:
    """Check what was asked for.  Raises UserError for an unknown profile or an impossible number of seeds."""
    profile = experiment.profiles.get(profile_name)
    if profile is None:
        known = ", ".join(experiment.profiles)
        raise UserError(f"{experiment.name} has no profile {profile_name!r}; it has {known}")
    seeds = seeds if seeds is not None and profile.seeds else profile.seeds
    if profile.seeds and not 2 <= seeds <= MOST_SEEDS:
        raise UserError(f"--seeds must be from 2, for an interval, to {MOST_SEEDS}; got {seeds}")
    config = {"experiment": experiment.name, "profile": profile_name, "seeds": seeds, "config": asdict(profile.config)}
    name = profile_name if profile.grows else f"{profile_name}-{_digest(config)}"
    slot = slot or Slot()
    if slot.device.startswith("cuda"):
        slot = replace(slot, jobs=slot.jobs or profile.on_gpu)
    return Job(experiment, profile, config, RunFolder(out / experiment.name / name, slot))


def execute(job: Job) -> Sequence[Judgement]:
    """Carry one experiment through.  A finished run is read back, an unfinished one goes on where it stopped.

    Where the profile grows, what was made from its trainings is made anew.  Raises Unfinished if time is up.
    """
    with job.run.locked():
        if job.profile.grows:
            for name in ("config.json", "prediction.json", "measurement.json", "summary.json", *FIGURES):
                (job.run / name).unlink(missing_ok=True)
        return _carry_through(job)


def _carry_through(job: Job) -> Sequence[Judgement]:
    experiment, profile, run, seeds = job.experiment, job.profile, job.run, job.config["seeds"]
    started, resumed = time.monotonic(), run.has("config.json")
    if not resumed:
        run.write("config.json", job.config)
    if not run.has("prediction.json"):
        run.write("prediction.json", experiment.predict(profile.config))
    prediction = run.read("prediction.json")
    if not run.has("measurement.json"):
        run.write("measurement.json", experiment.measure(profile.config, seeds, run))
    measurement = run.read("measurement.json")
    checks = experiment.compare(prediction, measurement)
    if not all(run.has(name) for name in FIGURES):
        _draw(experiment, prediction, measurement, run)
    if not run.has("summary.json"):
        seeds = measurement.get("seeds", seeds)  # fewer, where time was up
        summary = {
            **job.config,
            "title": experiment.title,
            "verdict": worst(checks),
            "detects": profile.detects,
            "seeds": list(range(seeds)),
            **provenance(run.slot.device),
            **measurement.get("provenance", {}),
            "seconds": round(time.monotonic() - started, 1),
            "resumed": resumed,
            "checks": [check.to_json() for check in checks],
        }
        run.write("summary.json", summary)
    return checks


def _draw(experiment: Experiment, prediction: Json, measurement: Json, run: RunFolder) -> None:
    from experiments.style import drawing, save

    with drawing():
        save(experiment.draw(prediction, measurement), run.path)


def provenance(device: str = "cpu") -> Json:
    """device, library versions, commit: what a result has to say of where it came from."""
    return {
        "device": device_name(device),
        "versions": versions(),
        "commit": commit(),
        "source": source_digest(),
    }


def device_name(device: str) -> str:
    """The device as a result calls it."""
    if device.startswith("cuda"):
        import torch

        return f"{device}: {torch.cuda.get_device_name(device)}"
    return f"cpu: {platform.machine()}, {os.cpu_count()} cores"


def versions() -> dict[str, str | None]:
    """Of Python and the libraries that numbers may depend on."""
    return {"python": platform.python_version(), **{p: _version(p) for p in VERSIONS_OF}}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def commit() -> str | None:
    """The checked-out commit, with `+changes` if the tree differs from it; None outside a checkout."""
    root = Path(__file__).resolve().parent.parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root:
            return None
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


@cache
def source_digest() -> str:
    """A digest of the Python source of the three packages."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _digest(config: Json) -> str:
    about = {**config, "source": source_digest(), "versions": versions()}
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:10]


def latest_runs(
    out: Path, names: Iterable[str], profiles: Sequence[str] = ("gpu", "full", "cpu", "smoke", "gpu-tiny")
) -> list[RunFolder]:
    """Of each named experiment below `out`, the newest finished run of the largest profile that has one."""
    found = []
    for name in names:
        summaries = [path for profile in profiles for path in _finished(out / name, profile)]
        summaries += (out / name).glob("summary.json")  # a result that was put by, without its run's name
        if summaries:
            found.append(RunFolder(summaries[0].parent))
    return found


def _finished(folder: Path, profile: str) -> list[Path]:
    """Newest first."""
    found = [*folder.glob(f"{profile}-*/summary.json"), *folder.glob(f"{profile}/summary.json")]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
