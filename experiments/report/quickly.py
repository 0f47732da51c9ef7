"""Speed-ups of the build: what every page would compute again is kept, and garbage is collected seldom."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

SELDOM = (500_000, 20, 100)


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


def setup(app: Any) -> dict[str, bool]:
    """Set this module up as a Sphinx extension."""
    from sphinx.search.en import SearchEnglish

    class English(SearchEnglish):
        """English, every word of which is stemmed once."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__(options)
            self.stem = lru_cache(maxsize=None)(super().stem)  # type: ignore[method-assign]

    app.add_search_language(English)
    app.connect("html-page-context", _keep_navigation, priority=400)  # before the theme asks for it
    return {"parallel_read_safe": True, "parallel_write_safe": True}


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
