"""The extension of Sphinx that the site is built with: formulas as MathML, and a faster build.

Browsers show and read out MathML without a script; docutils' converter makes it.  What every page would compute again
is remembered, and garbage is collected seldom.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from html import escape
from pathlib import PurePosixPath
from typing import Any

SELDOM = (500_000, 20, 100)
FENCES = re.compile("<mo>([⌊⌋⌈⌉‖|⟨⟩])</mo>")  # in a line of text they stay as high as the text


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect garbage seldom inside.

    Trees of documents are large and stay, and looking through them takes a fifth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@cache
def mathml(latex: str, *, block: bool = False) -> str:
    """Return a formula as MathML; what cannot be converted is shown as it is written."""
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml

    try:
        markup: str = tex2mathml(latex, as_block=block)
    except (MathError, SyntaxError, ValueError, LookupError, AttributeError, TypeError):
        return f"<code>{escape(latex)}</code>"
    set_out = "".join(line.strip() for line in markup.splitlines())
    return set_out if block else FENCES.sub(r'<mo stretchy="false">\1</mo>', set_out)


def _visit(block: bool) -> Any:
    from docutils import nodes

    def visit(self: Any, node: Any) -> None:
        self.body.append(mathml(node.astext(), block=block))
        raise nodes.SkipNode

    return visit


def setup(app: Any) -> dict[str, bool]:
    """Set this module up as a Sphinx extension."""
    from sphinx.search.en import SearchEnglish

    class English(SearchEnglish):
        """English, every word of which is stemmed once."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__(options)
            self.stem = lru_cache(maxsize=None)(super().stem)  # type: ignore[method-assign]

    app.add_html_math_renderer("mathml", (_visit(False), None), (_visit(True), None))
    app.add_search_language(English)
    app.connect("html-page-context", _keep_navigation, priority=400)  # before the theme asks for it
    app.connect("html-page-context", _rank_captions, priority=600)  # after it has
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _rank_captions(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:  # noqa: ARG001
    """Give the captions of the navigation, which are headings, a rank for those who hear the page."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading">', 'role="heading" aria-level="2">')


def _keep_navigation(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:  # noqa: ARG001
    """Share the navigation among pages that it does not name, if they lie in one folder: links and all are the same."""
    if page not in app.env.all_docs or "orphan" not in app.env.metadata[page]:
        return
    trees: dict[Any, str] = app.env.temp_data.setdefault("crosslayer-navigation", {})
    render: Callable[..., str] = context["toctree"]

    def toctree(**options: Any) -> str:
        key = (str(PurePosixPath(page).parent), *sorted(options.items()))
        if key not in trees:
            trees[key] = render(**options)
        return trees[key]

    context["toctree"] = toctree
