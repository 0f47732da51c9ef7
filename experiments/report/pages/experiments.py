"""A page per experiment: what was predicted and by which rule, what came out, its figures, and its data."""

from __future__ import annotations

import math
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path

from experiments.experiment.execution import ROOT, legend
from experiments.experiment.protocol import Experiment
from experiments.report.material import Material, Run
from experiments.report.pages import parts
from experiments.report.prose import code, escaped, fenced, shown
from experiments.training import text
from experiments.training.tuning import by_reason
from experiments.verdicts import words
from experiments.verdicts.checks import Judgement, by_quantity, detected

SAID = {  # of a prediction, what is told in words
    "assumes": "Assumes",
    "source": "From",
    "statistic": "Statistic",
    "rule": "Rule",
    "tuning": "Learning rates",
}


def pages(material: Material) -> parts.Pages:
    built = {
        parts.experiment_page(name).lstrip("/"): parts.ORPHAN + "\n\n".join(_sections(material, one)) + "\n"
        for name, one in material.experiments.items()
    }
    return {parts.experiment_page("index").lstrip("/"): _table(material), **built}


def _table(material: Material) -> str:
    rows = []
    for name, one in material.experiments.items():
        runs = material.runs.get(name, ())
        room = next((r for r in material.rooms if r.holds(type(one).__module__)), material.rooms[-1])
        verdict = parts.verdict(runs[0].verdict) if runs else "none is finished"
        profile = (
            f"{escaped(runs[0].saved['profile'])}, {'committed' if runs[0].committed else 'below --out'}"
            if runs
            else ""
        )
        rows.append((material.names.named(name), escaped(room.name), escaped(one.title), verdict, profile))
    return parts.WIDE + "\n\n".join(
        [
            "# Experiments",
            "Each predicts, stores the prediction, measures without seeing it, compares by a rule that was written "
            "down before, and draws.  "
            f"{_origin(material)}  {parts.link('How to read a verdict', '/verdicts.md')}.",
            parts.table(("name", "on", "what it asks", "verdict", "shown run"), rows, kind="filterable wide"),
        ]
    )


def _origin(material: Material) -> str:
    every = [run for runs in material.runs.values() for run in runs]
    own = sum(not run.committed for run in every)
    return (
        f"{own} of the {len(every)} runs shown lie below {code(str(material.out))}, the others are committed results."
    )


def _sections(material: Material, one: Experiment) -> Iterator[str]:
    runs = material.runs.get(one.name, ())
    yield f"# {escaped(one.name)}"
    yield f"{parts.verdict(runs[0].verdict)} {escaped(one.title)}." if runs else f"{escaped(one.title)}."
    if not runs:
        yield "No run of it is finished, and none is committed.  This makes one:"
        yield fenced(f"crosslayer run {one.name} --profile cpu", "sh")
    for number, run in enumerate(runs):
        if number:
            name = run.saved["experiment"] if run.saved["experiment"] != one.name else f"Profile {run.saved['profile']}"
            yield f"## {escaped(name)}"
            yield f"{parts.verdict(run.verdict)} {escaped(run.title)}."
        yield from _run(material, run, "##" if not number else "###")
    yield "## What it bears on"
    yield "\n".join(f"- {parts.entry(material, name)}" for name in one.claims if name in material.ledger)
    yield "## What each profile can tell"
    rows = [
        (code(name), str(profile.seeds or "nothing random"), _time(profile.seconds), escaped(profile.decides))
        for name, profile in one.profiles.items()
    ]
    yield parts.table(("profile", "seeds", "about", "it"), rows, "lrrl")
    if runs:
        yield fenced(f"crosslayer run {one.name} --profile {runs[0].saved['profile']}", "sh")


def _time(seconds: int) -> str:
    return f"{seconds} s" if seconds < 90 else f"{math.ceil(seconds / 60)} min"


def _run(material: Material, run: Run, head: str) -> Iterator[str]:
    """Yield one run's part.  What is long is folded, and of runs after the first all but figures and verdicts."""
    most = parts.LONG if head == "##" else 0
    for name in parts.drawn(run):
        yield parts.figure(run, name)
    yield f"{head} What was predicted"
    prediction = run.prediction
    yield f"It was stored before anything was measured{_when(run)}, and the measurement never sees it."
    facts = {
        label: material.names.prose(prediction[key])
        for key, label in SAID.items()
        if isinstance(prediction.get(key), str)
    }
    yield parts.folded_if_long("Assumptions, statistic and rule, in full", parts.definition(facts), most)
    yield f"{head} What came out"
    yield f"This profile {escaped(run.decides)}.{_power(run)}"
    if not run.checks:
        yield "Nothing was compared, which is inconclusive."
    yield from _groups(material, run.checks, most)
    if run.checks:
        note = f" {escaped(words.SLACK_ALONE)}" if any(check.by_slack_alone for check in run.checks) else ""
        yield f"Each line shows the point that uses most of its tolerance.{note}"
        yield _all_checks(run.checks)
    if rows := run.evaluation.table:
        names, *others = [[escaped(cell) for cell in row] for row in rows]
        meanings = parts.definition(
            {escaped(word): escaped(meaning) for word, meaning in legend(run.experiment).items()}
        )
        markdown = "\n\n".join([parts.table(names, others, kind="wide"), meanings])
        yield parts.folded_if_long(f"The table: {len(others)} rows", markdown, most)
    for why, arms in by_reason(run.evaluation.untuned).items():
        yield f"Untuned, {escaped(why)}: {escaped('; '.join(arms))}."
    yield f"{head} Data, and where it comes from"
    yield "\n".join(f"- {{download}}`{path.name} </{parts.stored(path)}>`, {_size(path)}" for path in run.files())
    changed = " The source has changed since." if run.changed_since else ""
    resumed = " since it was resumed" if run.saved["resumed"] else ""
    yield f"{parts.origin(run)} It took {run.saved['seconds']:,} s{resumed}.{changed}"
    yield parts.provenance(run.saved)


def _power(run: Run) -> str:
    """Return what a run's seeds could detect by their spread, and how long it trained on text."""
    power = detected(run.checks) if run.saved["detects"] else None
    length = text.in_words(run.saved["config"])
    seen = f" Its seeds' spread could tell {escaped(power.words)} from nothing." if power else ""
    return seen + (f" It was trained on {escaped(length)}." if length else "")


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1000))} kB"


def _when(run: Run) -> str:
    """Return when a prediction was stored, as the run says; for one that does not, when it was committed."""
    if isinstance(moment := run.saved.get("predicted"), str):
        return f", on {escaped(moment)}"
    day = _committed_on(run.folder / "prediction.json")
    return f" (as it stands it was committed on {escaped(day)})" if day else ""


def _committed_on(path: Path) -> str:
    return _days_of_commits().get(os.path.relpath(path, ROOT), "")


@cache
def _days_of_commits() -> dict[str, str]:
    """Return the day on which each committed prediction last changed."""
    told_as = ["--format=%x00%cs", "--name-only", "--relative"]
    command = ["git", "-C", str(ROOT), "log", *told_as, "--", "results/*prediction.json"]
    try:
        log = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    days: dict[str, str] = {}
    for entry in log.split("\0")[1:]:
        day, *paths = entry.split()
        for path in paths:
            days.setdefault(path, day)
    return days


def _groups(material: Material, checks: Sequence[Judgement], most: int) -> Iterator[str]:
    """Yield a table for each quantity; folded where all have more than `most` words, with how many of each verdict."""
    head = ("predicted against measured", "entry", "points", "predicted", "slack", "measured", "verdict")
    tables = {}
    for quantity, groups in by_quantity(checks).items():
        rows = []
        for name, members in groups.items():
            numbers = (shown(tell(members[0])) for tell in (words.predicted, words.slack, words.measured))
            entry = material.names.named(members[0].claim) if members[0].claim else ""
            rows.append((escaped(name), entry, str(len(members)), *numbers, parts.group_verdict(members)))
        tables[quantity] = parts.table(head, rows, "llrrrrl", kind="wide numbers"), _counted(groups.values())
    long = sum(len(table.split()) for table, _ in tables.values()) > most
    for quantity, (table, counted) in tables.items():
        title = quantity[:1].upper() + quantity[1:]
        if long:
            yield parts.folded(f"{title or 'Compared'}: {counted}", table)
        else:
            yield from ([f"**{material.names.prose(title)}**"] if title else [])
            yield table


def _counted(groups: Iterable[Sequence[Judgement]]) -> str:
    """Return how many groups have each verdict, by their tightest checks."""
    counts = Counter(members[0].verdict for members in groups)
    return ", ".join(f"{count} {parts.SHOWN.get(verdict, verdict)}" for verdict, count in counts.most_common())


def _all_checks(checks: Sequence[Judgement]) -> str:
    """Return every point, in a part that is opened on request."""
    head = ("point", "what was asked", "predicted", "slack", "measured", "standard error", "verdict")
    rows = "".join(
        f"<tr><td><code>{escape(c.id)}</code></td><td>{escape(c.statement)}</td>"
        f'<td class="n">{escape(words.predicted(c))}</td><td class="n">{escape(words.slack(c))}</td>'
        f'<td class="n">{escape(words.measured(c))}</td><td class="n">{_short(c.stderr)}</td>'
        f'<td><span class="verdict {escape(c.verdict)}">{escape(words.verdict_of_group([c]))}</span></td></tr>'
        for c in checks
    )
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return (
        f"```{{raw}} html\n<details><summary>All {len(checks)} points</summary>"
        f'<div class="sheet wide"><table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></div>'
        "</details>\n```"
    )


def _short(value: float) -> str:
    return f"{value:.2g}" if math.isfinite(value) else "none"
