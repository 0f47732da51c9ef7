"""The site: results and the library's documentation, as pages that need no network.

`material` gathers what there is, the modules of `pages` write Markdown, `build` has Sphinx make pages of it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import catalogue
from experiments.store.folders import UserError

if TYPE_CHECKING:
    from experiments.ledger.verify import Verification
    from experiments.report.material import Material
    from experiments.report.pages.parts import Pages

SITE = "site"


def write_report(
    out: Path, verified: Sequence[Verification] | None = None, commands: argparse.ArgumentParser | None = None
) -> Path:
    """Write out/site/index.html and all pages below it, in one step; returns that path.

    out: the folder whose newest finished run of every experiment is shown, on variants of a user's own too; where it
    has none, the committed one of the checkout's folder `results`. verified: outcomes of the ledger's entries; by
    default those that are remembered, and where nothing is, pages say so.  commands: the command line, which is
    documented then.  Raises UserError if no experiment is finished, a file of one is damaged, or the site cannot be
    written.
    """
    from experiments.ledger.verify import recollections
    from experiments.report.build import build
    from experiments.report.material import check_finished, gathered
    from experiments.report.sphinx_extension import seldom_collecting

    place = out / SITE
    check_finished(out)
    _check_writable(place)
    with seldom_collecting():
        ledger = catalogue.claims()
        material = gathered(out, recollections(ledger.values(), ledger) if verified is None else verified)
        build(sources(material, commands), files(material), place)
    return place / "index.html"


def _check_writable(place: Path) -> None:
    """Raise UserError where a folder cannot be made, before much work is done for it."""
    nearest = next(folder for folder in Path(os.path.abspath(place)).parents if os.path.lexists(folder))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise UserError(f"cannot write {place}")


def sources(material: Material, commands: argparse.ArgumentParser | None = None) -> Pages:
    """Return all pages as Markdown, by their path."""
    from experiments.report.pages import (
        claims,
        documents,
        errata,
        experiments,
        explore,
        ledger,
        library,
        notebooks,
        papers,
        variants,
    )
    from experiments.report.pages import commands as command_line

    pages: Pages = {}
    for kind in (papers, claims, ledger, errata, experiments, variants, explore, notebooks, library, documents):
        pages |= kind.pages(material)
    return pages | command_line.pages(commands)


def files(material: Material) -> dict[str, Path]:
    """Return the files that pages show or offer, by their place among the sources: files of runs, and of the source."""
    from experiments.report.pages import documents, notebooks
    from experiments.report.pages.parts import stored

    of_runs = {stored(path): path for runs in material.runs.values() for run in runs for path in run.files()}
    return documents.files(material) | notebooks.files(material) | of_runs
