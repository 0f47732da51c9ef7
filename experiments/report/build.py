"""Building the site: sources in a temporary folder, Sphinx over them, and the result renamed into its place."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.store.folders import UserError

MOST_PROCESSES = 4  # each holds all pages, half a gigabyte
STATIC = Path(__file__).parent / "static"
SETTINGS: Mapping[str, Any] = {
    "project": "Crosslayer",
    "extensions": ["myst_parser", "experiments.report.sphinx_extension"],
    "html_math_renderer": "mathml",
    "myst_enable_extensions": ["attrs_inline", "colon_fence", "deflist", "dollarmath"],
    "myst_heading_anchors": 3,
    "html_theme": "furo",
    "html_favicon": str(STATIC / "icon.svg"),
    "html_title": "Crosslayer",
    "html_css_files": ["site.css"],
    "html_js_files": ["site.js"],
    "html_static_path": [str(STATIC)],
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "html_use_index": False,
    "html_theme_options": {"navigation_with_keys": True},
    "exclude_patterns": ["runs", "source"],
    "toc_object_entries": False,
    "pygments_style": "default",
    "smartquotes": False,
    "language": "en",
    "show_warning_types": True,
}


def build(pages: Mapping[str, str], files: Mapping[str, Path], place: Path) -> list[str]:
    """Write the site to `place`, in one step: what was there stays until the new one is whole.

    pages: Markdown by its path among the sources; files: by theirs, what pages show or offer.  Returns Sphinx's
    warnings, of which there should be none.  Raises UserError where `place` cannot be written.
    """
    with _work_beside(place) as work:
        sources = work / "sources"
        _write(sources, pages, files)
        messages = _sphinx(sources, work)
        _put(work / "html", place)
    return messages


@contextmanager
def _work_beside(place: Path) -> Any:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=".site-", dir=place.parent)
    except OSError as error:
        raise UserError(f"cannot write {place}: {error.strerror}") from error
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(sources: Path, pages: Mapping[str, str], files: Mapping[str, Path]) -> None:
    for name, text in pages.items():
        path = sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, origin in files.items():
        path = sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.symlink_to(origin.absolute())
        except OSError:
            shutil.copyfile(origin, path)


def _sphinx(sources: Path, work: Path) -> list[str]:
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    heard = io.StringIO()
    with patch_docutils(), docutils_namespace(), warnings.catch_warnings():
        for kind in (DeprecationWarning, PendingDeprecationWarning):  # of what these libraries ask of each other
            warnings.simplefilter("ignore", kind)
        app = Sphinx(
            sources,
            confdir=None,
            outdir=work / "html",
            doctreedir=work / "doctrees",
            buildername="html",
            confoverrides=dict(SETTINGS),
            status=None,
            warning=heard,
            parallel=min(os.cpu_count() or 1, MOST_PROCESSES),
        )
        app.build()
    return [line for line in heard.getvalue().splitlines() if line.strip()]


def _put(built: Path, place: Path) -> None:
    """Rename what was built to its place, and then remove what was there."""
    for left in (".buildinfo", "objects.inv"):
        (built / left).unlink(missing_ok=True)
    _open_to_all(built)
    old = built.parent / "old"
    try:
        if place.exists():
            os.rename(place, old)
        os.rename(built, place)
    except OSError as error:
        raise UserError(f"cannot write {place}: {error.strerror}") from error


def _open_to_all(folder: Path) -> None:
    """Give the folder itself the umask's permissions: `mkdtemp` makes what holds it private, not what is moved out."""
    mask = os.umask(0)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)
