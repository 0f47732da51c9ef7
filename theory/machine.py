"""The memory of this machine.  Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def memory() -> int:
    """Return the bytes of memory that this process may use: the machine's, or a lower limit of a control group."""
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *_group_limits()])


def _group_limits() -> Iterator[int]:
    """Yield the memory limits, in bytes, of the control groups that hold this process, for both versions on Linux."""
    try:
        own = OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in own:
        _, kinds, place = line.split(":", 2)
        root, name = (CGROUPS / "memory", "memory.limit_in_bytes") if "memory" in kinds else (CGROUPS, "memory.max")
        if kinds and "memory" not in kinds:
            continue
        folder = root / place.strip("/")
        for group in (folder, *folder.parents):
            if group.is_relative_to(root):
                try:
                    yield int((group / name).read_text(encoding="utf-8"))
                except (OSError, ValueError):  # the group is not to be seen here, or has no limit: "max"
                    continue
