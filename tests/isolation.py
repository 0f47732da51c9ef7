"""Tests see nothing of their user: an empty working folder, a cache of their own, and no variable that changes results.

The first process of a run sets the environment, which its workers inherit, so that all share one cache.
"""

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

OF_LAUNCHERS = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
OF_TERMINALS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE")
OF_PYTHON = ("PYTHONPATH", "PYTHONWARNINGS", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONOPTIMIZE", "PYTHONSTARTUP")
OF_LIBRARIES = ("MPLBACKEND", "MATPLOTLIBRC", "RAY_ADDRESS", "HF_HOME", "HF_HUB_OFFLINE", "TORCH_LOGS", "SSL_CERT_FILE")
REMOVED = (*OF_LAUNCHERS, *OF_TERMINALS, *OF_PYTHON, *OF_LIBRARIES)
MARK = "CROSSLAYER_TESTS"  # where this run's folders lie


def isolate() -> None:
    """Set this process's environment, before any of the packages is imported."""
    first = MARK not in os.environ or not Path(os.environ[MARK]).is_dir()
    if first:
        os.environ[MARK] = tempfile.mkdtemp(prefix="crosslayer-tests-")
        atexit.register(shutil.rmtree, os.environ[MARK], ignore_errors=True)
    for name in REMOVED:
        os.environ.pop(name, None)
    place = Path(os.environ[MARK])
    for name in ("cache", "home"):
        (place / name).mkdir(exist_ok=True)
    os.environ |= {"XDG_CACHE_HOME": str(place / "cache"), "HOME": str(place / "home")}


def examples_folder(root: Path) -> Path:
    """Return where Hypothesis keeps what failed: the checkout `root`, or this run's folder if that is read-only."""
    kept = root / ".hypothesis"
    nearest = kept if kept.is_dir() else root
    return kept if os.access(nearest, os.W_OK) else Path(os.environ[MARK]) / "hypothesis"


def copied(source: Path, target: Path) -> Path:
    """Copy a file or folder so that the copy can be written to, as the checkout may be read-only."""
    if source.is_file():
        return Path(shutil.copyfile(source, target / source.name if target.is_dir() else target))
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder in (target, *target.rglob("*/")):
        folder.chmod(0o755)
    return target


def empty_folder() -> None:
    """Go to a folder of this process's own, in which there is nothing."""
    folder = Path(os.environ[MARK]) / f"work-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    os.chdir(folder)


@contextlib.contextmanager
def elsewhere(name: str) -> Iterator[None]:
    """Work in another empty folder; raise AssertionError if the fixture `name` has left something there.

    The folder stays: processes that the fixture has started may work in it.
    """
    before = Path.cwd()
    folder = Path(tempfile.mkdtemp(prefix="fixture-", dir=os.environ[MARK]))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
    left = sorted(path.name for path in folder.iterdir())
    assert not left, f"the fixture {name} writes {', '.join(left)} into the working folder: give it a folder of its own"
