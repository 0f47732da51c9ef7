"""The provenance of a result: device, library versions, commit, and a digest of the source that made it."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from experiments.store.folders import Json
from experiments.store.sources import source_digest

VERSIONS_OF = ("torch", "numpy", "scipy", "sympy", "matplotlib")
ROOT = Path(__file__).resolve().parents[2]


def provenance(device: str, *modules: str) -> Json:
    """Return where a result came from: device, library versions, commit, and a digest of the source of `modules`."""
    return {
        "device": device_name(device),
        "versions": versions(),
        "commit": commit(),
        "source": source_digest(*modules),
    }


def device_name(device: str) -> str:
    """Return the device as a result calls it."""
    if device.startswith("cuda"):
        import torch

        return f"{device}: {torch.cuda.get_device_name(device)}"
    return f"cpu: {platform.machine()}, {os.cpu_count()} cores"


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the libraries that numbers may depend on."""
    return {"python": platform.python_version(), **{p: _version(p) for p in VERSIONS_OF}}


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def commit() -> str | None:
    """Return the checked-out commit, with `+changes` if the tree differs from it other than in results.

    It is None outside a checkout.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return None
        changes = git("status", "--porcelain", "-uno", "--", ".", ":!results")
        return git("rev-parse", "HEAD") + ("+changes" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return None
