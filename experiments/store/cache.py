"""The cache: files that are kept for later and can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """Return the user's folder for them: below $XDG_CACHE_HOME, an absolute path, or else ~/.cache."""
    asked = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (asked if asked.is_absolute() else Path.home() / ".cache") / "crosslayer"
