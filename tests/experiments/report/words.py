"""The site as words, for tests of what it says: its sources, without Sphinx and without the pages that cost seconds."""

import re

from experiments.report.pages import library, variants

QUICK = (library, variants)


def as_words(monkeypatch, without=QUICK):
    """From here on the site is one file, index.html, with the sources of all pages but for those kinds of them."""

    def written(pages, files, place):
        place.mkdir(parents=True, exist_ok=True)
        assert all(path.is_file() for path in files.values())
        (place / "index.html").write_text("\n".join(pages.values()))
        return []

    monkeypatch.setattr("experiments.report.build.build", written)
    for kind in without:
        monkeypatch.setattr(kind, "pages", lambda _: {})


def words(markdown):
    """What a reader sees of Markdown, on one line: without escapes and class names."""
    shown = re.sub(r"\]\{[.\w\s-]+\}", "]", markdown.replace("\u2060", ""))
    return " ".join(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", shown).split())
