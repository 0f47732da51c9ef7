"""The command `campaign`: how far the pool of text trainings is, and going on with it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import catalogue
from experiments.cli.commands import OUT, Commands, positive, whole_from
from experiments.cli.tables import print_rows, print_unfinished, terminal

if TYPE_CHECKING:
    from experiments.campaign.question import Question
    from experiments.campaign.standing import Standing
    from experiments.store.folders import Slot

COLUMNS = ("question", "trained", "left", "hours left, one core")


def add_to(commands: Commands) -> None:
    """Add the command `campaign`."""
    command = commands.add(
        "campaign",
        campaign,
        "show how far the pool of text trainings is and what each question can say, and go on with it",
        "crosslayer campaign --minutes 60 --data data/rfc --out runs",
        resumes=True,
    )
    command.add_argument("--minutes", type=positive, help="train for so long (default: train nothing, only show)")
    command.add_argument("--data", help="the folder of the campaign's prepared text, to train on")
    command.add_argument("--out", type=Path, default=OUT, help="where run folders and the pool go (default: runs)")
    command.add_argument("--jobs", type=whole_from(1), default=1, help="trainings at a time (default: 1)")
    command.add_argument("--device", default="cpu", help="cpu (the default), cuda or auto")


def campaign(options: argparse.Namespace) -> int:
    from experiments.campaign.question import Question
    from experiments.campaign.standing import PROFILE, as_json, require_text, standings
    from experiments.training.device import slot_for

    experiments = [catalogue.experiment(name) for name in catalogue.names("scale")]
    questions = [experiment for experiment in experiments if isinstance(experiment, Question)]
    questions.sort(key=lambda question: question.order)
    about = {"jobs": options.jobs, "minutes": options.minutes, "data": options.data}
    slot = slot_for(questions, PROFILE, options.device, **about)
    if options.minutes is not None:
        require_text(questions, options.out, slot)
        _go_on(questions, options.out, slot)
    listed = standings(questions, options.out, slot)
    if options.json:
        print(json.dumps([as_json(one) for one in listed], indent=1))
    else:
        _print(listed)
    return 0


def _go_on(questions: Sequence[Question], out: Path, slot: Slot) -> None:
    """Train what is missing, question by question, until time is up; those behind read what others have trained."""
    from experiments.campaign.standing import PROFILE
    from experiments.experiment.execution import execute, prepare
    from experiments.store.folders import Unfinished

    stopped = False
    for question in questions:
        try:
            execute(prepare(question, PROFILE, None, out=out, slot=slot))
        except Unfinished as stop:
            if not stopped:
                print_unfinished(stop)
            stopped = True


def _print(listed: Sequence[Standing]) -> None:
    from experiments.verdicts.checks import by_group
    from experiments.verdicts.words import sentence

    rows = [(one.question.name, str(one.trained), str(one.left), f"{one.seconds / 3600:.1f}") for one in listed]
    print_rows(terminal(), "", COLUMNS, rows=rows)
    print("left: trainings that no question above asks for")
    for one in listed:
        print(f"\n{one.question.name}: {one.question.title}")
        if one.checks is None:
            print(f"  nothing can be said yet: all seeds of {one.question.compared} are needed")
        for members in by_group(one.checks or ()).values():
            print(f"  {sentence(members[0])}{f'; the worst of {len(members)}' * (len(members) > 1)}")
