"""Run folders and the runner: everything is written to a temporary name and renamed, and what is done is not redone.

DIR/NAME/<run id>/ holds config.json, prediction.json, metrics.jsonl, measurement.json, summary.json, figure.svg and
figure.png.  The run id names the profile and a digest of its configuration and of the source code, so a run is resumed
only by the code that began it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.protocol import Check, Experiment, Json, Profile, worst

PACKAGES = ("theory", "icl", "experiments")
VERSIONS_OF = ("torch", "numpy", "scipy", "sympy", "matplotlib")


class UserError(Exception):
    """Something a user can put right.  The message is one line."""


class RunFolder:
    """One run's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / ".writable").touch()
            (path / ".writable").unlink()
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror}") from error

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def write(self, name: str, content: Json) -> None:
        write_atomically(self / name, json.dumps(content, indent=1) + "\n")

    def read(self, name: str) -> Any:
        return json.loads((self / name).read_text())

    def has(self, name: str) -> bool:
        return (self / name).exists()

    def metrics(self) -> Iterator[Json]:
        """The lines of metrics.jsonl; a last line torn by a kill is left out."""
        if self.has("metrics.jsonl"):
            for line in (self / "metrics.jsonl").read_text().splitlines():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:
                    return

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


def execute(experiment: Experiment, profile_name: str, seeds: int | None, out: Path) -> tuple[RunFolder, list[Check]]:
    """Carry one experiment through.  A finished run is read back, an unfinished one goes on where it stopped."""
    profile = experiment.profiles.get(profile_name)
    if profile is None:
        known = ", ".join(experiment.profiles)
        raise UserError(f"{experiment.name} has no profile {profile_name!r}; it has {known}")
    seeds = profile.seeds if seeds is None else seeds
    if seeds < 2:
        raise UserError(f"--seeds must be at least 2, for an interval; got {seeds}")
    config = {"experiment": experiment.name, "profile": profile_name, "seeds": seeds, "config": asdict(profile.config)}
    run = RunFolder(out / experiment.name / f"{profile_name}-{_digest(config)}")
    return run, _carry_through(experiment, profile, seeds, config, run)


def _carry_through(experiment: Experiment, profile: Profile, seeds: int, config: Json, run: RunFolder) -> list[Check]:
    started, resumed = time.monotonic(), run.has("config.json")
    if not resumed:
        run.write("config.json", config)
    if not run.has("prediction.json"):
        run.write("prediction.json", experiment.predict(profile.config))
    prediction = run.read("prediction.json")
    if not run.has("measurement.json"):
        run.write("measurement.json", experiment.measure(profile.config, seeds, run))
    measurement = run.read("measurement.json")
    checks = experiment.compare(prediction, measurement)
    if not run.has("summary.json"):
        _draw(experiment, prediction, measurement, run)
        summary = {
            **config,
            "title": experiment.title,
            "verdict": worst(checks),
            "detects": profile.detects,
            "seeds": list(range(seeds)),
            **provenance(),
            "seconds": round(time.monotonic() - started, 1),
            "resumed": resumed,
            "checks": [check.to_json() for check in checks],
        }
        run.write("summary.json", summary)
    return checks


def _draw(experiment: Experiment, prediction: Json, measurement: Json, run: RunFolder) -> None:
    from experiments.style import save

    save(experiment.draw(prediction, measurement), run.path)


def provenance() -> Json:
    """device, library versions, commit: what a result has to say of where it came from."""
    return {
        "device": f"cpu: {platform.machine()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in VERSIONS_OF}},
        "commit": commit(),
        "source": source_digest(),
    }


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
    text = json.dumps({**config, "source": source_digest(), "python": sys.version_info[:2]}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def latest_runs(out: Path) -> list[RunFolder]:
    """The newest finished run of every experiment below `out`, by experiment name."""
    newest: dict[str, Path] = {}
    for summary in out.glob("*/*/summary.json"):
        name = summary.parent.parent.name
        if name not in newest or summary.stat().st_mtime > newest[name].stat().st_mtime:
            newest[name] = summary
    return [RunFolder(newest[name].parent) for name in sorted(newest)]
