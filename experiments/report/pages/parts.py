"""Common parts of several kinds of pages: verdicts, tables, figures, downloads, provenance."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from experiments.experiment.execution import committed_results
from experiments.experiment.protocol import figures
from experiments.ledger.claim import Claim
from experiments.ledger.verify import Verification
from experiments.report.material import Material, Run, picture
from experiments.report.prose import code, escaped, in_cell
from experiments.store.folders import in_a_path
from experiments.verdicts import words

Pages = dict[str, str]
ORPHAN = "---\norphan: true\n---\n\n"
WIDE = "---\nhide-toc: true\n---\n\n"
RIGHT = "r"
SHOWN = {"undecided": "not decided", "unpredicted": "no prediction"}  # words of verdicts that pages spell otherwise
LONG = 400  # words of a table that is shown before it is asked for
MOST_WORDS = 1500  # of a page before what is folded
PICTURE = re.compile(r"!\[([^\[\]]+)\]\(([^)\s]+)\)")


def verdict(word: str) -> str:
    """Return a verdict as a word that carries its colour."""
    kind = word if word.isalpha() else "unknown"
    return f"[{escaped(SHOWN.get(word, word))}]{{.verdict .{kind}}}"


def link(text: str, page: str) -> str:
    """Return a link to a page; text: Markdown."""
    return f"[{text}]({page})"


def entry(material: Material, name: str) -> str:
    """Return a ledger entry: its id, linked, and its verdict."""
    return f"{material.names.named(name)} {verdict(material.ledger[name].verdict)}"


def experiment_page(name: str) -> str:
    return f"/experiments/{in_a_path(name)}.md"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "", kind: str = "") -> str:
    """Return a table; head and rows: Markdown of the cells; align: l or r for each column; kind: class names."""
    align = align.ljust(len(head), "l")
    lines = [
        "| " + " | ".join(head) + " |",
        "|" + "|".join("---:" if side == RIGHT else "---" for side in align) + "|",
        *("| " + " | ".join(map(in_cell, row)) + " |" for row in rows),
    ]
    return f":::{{container}} sheet {kind}\n\n" + "\n".join(lines) + "\n\n:::"


def folded(summary: str, markdown: str) -> str:
    """Return Markdown that is shown when its summary, a line of text, is opened."""
    opening = f"```{{raw}} html\n<details><summary>{escape(summary)}</summary>\n```"
    return f"{opening}\n\n{markdown}\n\n```{{raw}} html\n</details>\n```"


def folded_if_long(summary: str, markdown: str, most: int = LONG) -> str:
    """Return Markdown itself, or folded where it has more than so many words."""
    return folded(summary, markdown) if len(markdown.split()) > most else markdown


def folded_after_first(markdown: str, most: int) -> str:
    """Return Markdown itself, or, where it has more than so many words, its first paragraph and the rest folded."""
    if len(visible_words(markdown)) <= most:
        return markdown
    first, _, rest = markdown.strip("\n").partition("\n\n")
    if not rest or not re.match(r"[\w*`\[]", first) or re.match(r"\d+\. |[*-] |`{3}", first):
        first, rest = "", markdown.strip("\n")
    below = folded(f"Read on ({len(visible_words(rest))} words)", rest)
    return "\n\n".join(block for block in (first, below) if block) + "\n"


def visible_words(markdown: str) -> list[str]:
    """Return the words of Markdown that are read before anything is opened: a formula is one, a picture none."""
    text = re.sub(r"\A---\n.*?\n---\n", "", markdown, flags=re.DOTALL)
    text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    text = re.sub(r"^(`{3,})\{(?:raw|toctree|index)\}.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\$[^$]+\$", "x", text)
    text = re.sub(r"\]\([^)]*\)|\{[.\w\s-]+\}", "]", text)
    return [word for word in text.split() if re.search(r"\w", word)]


def definition(items: Mapping[str, str]) -> str:
    """Return terms with their descriptions, both Markdown; those with nothing to say are left out."""
    return "\n".join(f"{term}\n: {text}\n" for term, text in items.items() if text)


def shown_path(path: Path) -> str:
    """Return a file's path, relative to the working directory if it is below, else its name."""
    here = Path.cwd()
    path = path.absolute()
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name


def drawn(run: Run) -> dict[str, str]:
    """Return names and captions of a run's figures that exist."""
    return {name: caption for name, caption in figures(run.experiment).items() if run.folder.has(f"{name}.png")}


def figure(run: Run, name: str = "figure", *, root: str | None = None) -> str:
    """Return one of a run's figures, with its caption, and its description for those who do not see it.

    root: the way from the page to the site's own folder, "" or "../", for a link to the experiment; None: no link.
    """
    page = experiment_page(run.experiment.name).lstrip("/").removesuffix(".md") + ".html"
    options = [f":alt: {_alternative(run, name)}", *([f":target: {root}{page}"] if root is not None else [])]
    caption = f"{escaped(figures(run.experiment).get(name) or run.title)} "
    path = stored(picture(run.folder / f"{name}.png"))
    return "\n".join([f"::::{{figure}} /{path}", *options, "", f"{caption}[{origin(run)}]{{.origin}}", "::::"])


def _alternative(run: Run, name: str) -> str:
    """Return a figure's alternative text in quotation marks, as an option of a directive.

    It says what is seen where the findings do, of committed results; else which figure it is.
    """
    own = run.experiment.name == run.saved["experiment"]
    seen = _described().get(f"{run.experiment.name}/{name}.png", "") if own else ""
    return json.dumps(seen or " ".join(f"Figure of {run.saved['experiment']}: {run.title}".split()), ensure_ascii=False)


@cache
def _described() -> Mapping[str, str]:
    """Return what is seen in figures of committed results, by their place in the folder of these."""
    findings = committed_results() / "FINDINGS.md"
    text = findings.read_text(encoding="utf-8") if findings.is_file() else ""
    return {place: " ".join(seen.split()) for seen, place in PICTURE.findall(text)}


def origin(run: Run) -> str:
    """Return in a few words of Markdown whether a run is the reader's own or a committed one."""
    saved = run.saved
    seeds = f"{len(saved['seeds'])} seeds" if saved["seeds"] else "nothing random"
    whose = "committed result" if run.committed else "run below `--out`"
    return f"{whose[0].upper()}{whose[1:]}, profile {escaped(saved['profile'])}, {seeds}."


def stored(path: Path) -> str:
    """Return the place of a run's file among the sources: runs/<its folders>/<its name>."""
    parts = [in_a_path(part) for part in Path(os.path.abspath(path)).parts[-4:]]
    return "/".join(["runs", *parts])


def provenance(saved: Mapping[str, Any]) -> str:
    """Return a run's device, versions, commit and source, as Markdown."""
    versions = saved["versions"] if isinstance(saved["versions"], list) else [saved["versions"]]
    packages = [", ".join(f"{escaped(str(k))} {escaped(str(v))}" for k, v in each.items()) for each in versions]
    commits = saved["commit"] if isinstance(saved["commit"], list) else [saved["commit"]]
    sources = saved["source"] if isinstance(saved["source"], list) else [saved["source"]]
    devices = saved["device"] if isinstance(saved["device"], list) else [saved["device"]]
    return definition(
        {
            "Device": "; ".join(escaped(str(device)) for device in devices),
            "Versions": "; ".join(packages),
            "Commit": ", ".join(code(str(commit)[:12]) if commit else "unknown" for commit in commits),
            "Digest of the source": ", ".join(code(str(source)) for source in sources),
        }
    )


def outcome(v: Verification | None, number: int) -> str:
    """Return the outcome of an entry's check when it was last run, as Markdown."""
    if v is None or not v.outcomes:
        return "[not checked here]{.verdict .unknown}"
    result = v.outcomes[number]
    if result.ok:
        return "[holds]{.verdict .pass} control rejected"
    why = result.error or ("does not hold" if not result.holds else "does not reject its control")
    return f"[{escaped(why)}]{{.verdict .fail}}"


def standing(v: Verification | None, claim: Claim) -> str:
    """Return whether an entry stands, as Markdown; "" where it does."""
    if not claim.evidence:
        return "[it has no checks]{.verdict .fail}"
    if v is None or v.unknown:
        why = v.unknown if v else "not verified here"
        return f"[not checked]{{.verdict .unknown}} {escaped(why)}; {code(f'crosslayer verify {claim.id}')} checks it."
    if v.fallen:
        return f"[evidence fails]{{.verdict .fail}} it rests on {', '.join(map(code, v.fallen))}, which has fallen."
    return "" if v.stands else "[evidence fails]{.verdict .fail}"


def judged(checks: Sequence[Any]) -> str:
    """Return the worst of some checks and how many there are, as Markdown."""
    from experiments.verdicts.checks import worst

    count = f" {len(checks)} check{'s' if len(checks) != 1 else ''}"
    return f"{verdict(worst(checks))}{count}" if checks else "nothing was compared"


def group_verdict(checks: Sequence[Any]) -> str:
    verdict_text = words.verdict_of_group(checks)
    first = checks[0].verdict
    return verdict(first) + (f" {escaped(verdict_text.partition(', ')[2])}" if ", " in verdict_text else "")
