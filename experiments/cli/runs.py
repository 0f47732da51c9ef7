"""The commands that run, check and report.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import catalogue
from experiments.cli.commands import OUT, Commands, positive, whole_from
from experiments.cli.tables import (
    print_checks,
    print_power,
    print_sentences,
    print_side_by_side,
    print_table,
    print_unfinished,
    print_untuned,
    sizes_trained,
)
from experiments.store.folders import UserError

if TYPE_CHECKING:
    from experiments.experiment.execution import Job
    from experiments.experiment.protocol import Experiment

SAID = ("assumes", "statistic", "rule", "tuning")  # by the prediction of an experiment that trains variants
ALWAYS = ("assumes", "rule")  # by the others, too
LONG = 120  # seconds of a run whose length is said first


def add_to(commands: Commands) -> None:
    """Add the commands `run`, `compare` and `report`."""
    command = commands.add(
        "run",
        run,
        "predict, measure, compare and draw",
        "crosslayer run skipv1-gap --profile smoke --out runs",
        resumes=True,
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="experiments, see `crosslayer list`")
    command.add_argument("--all", action="store_true", help="every experiment")
    command.add_argument(
        "--profile", default="cpu", help="smoke, cpu (the default), full, long or gpu: see `crosslayer list`"
    )
    command.add_argument(
        "--seeds", type=whole_from(1), help="how many seeds, 0 .. K-1 (default: the profile's)", metavar="K"
    )
    command.add_argument("--out", type=Path, default=OUT, help="where run folders go (default: runs)")
    command.add_argument("--only", choices=("theory", "scale"), help="of --all: the toys', or the full-size models'")
    command.add_argument(
        "--device", default="auto", help="of full-size models: auto (a GPU for profile gpu), cpu or cuda"
    )
    command.add_argument(
        "--jobs", type=whole_from(0), default=0, help="trainings at a time (default: one per core, or what a GPU takes)"
    )
    command.add_argument(
        "--minutes", type=positive, help="stop then; the same command resumes with the trainings that are left"
    )
    command.add_argument(
        "--on",
        default="here",
        metavar="WHERE",
        help="here (the default), or ray: a cluster, RAY_ADDRESS's or a local one",
    )
    command.add_argument(
        "--data", help="a folder of prepared text: for questions to the campaign its own, else any in place of stdlib"
    )
    command.add_argument(
        "--variant",
        action="append",
        default=[],
        help="of full-size models: this against vanilla, as for `describe`, FILE.py:name too; may be repeated",
    )
    command.add_argument(
        "--size", help="of toys whose sizes are free: at d=7,n=12,sigma=0.4, say, in place of the profile's sizes"
    )

    command = commands.add(
        "compare",
        compare,
        "show the toy's and the papers' predictions beside finished full-size runs; and models side by side",
        "crosslayer compare scale-decode --out runs",
    )
    command.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="experiments (default: all of full size); or folders of models, trained, imported or published, and "
        "presets, which are shown side by side: what they cost, and held-out losses on the same text",
    )
    command.set_defaults(commands=commands.whole)  # which the site documents
    command.add_argument("--out", type=Path, default=OUT, help="the folder that was given to `run`")
    command.add_argument("--variant", action="append", default=[], help="as it was given to `run`; may be repeated")

    command = commands.add(
        "report",
        report,
        "build the site: all claims, experiments and variants, errata, and the documentation",
        "crosslayer report --out runs",
        shows_json=False,
    )
    command.set_defaults(commands=commands.whole)  # which the site documents
    command.add_argument("--out", type=Path, default=OUT, help="the folder that was given to `run`")
    command.add_argument(
        "--verify",
        action="store_true",
        help="first run what is not remembered of the claims ledger; exit status 1 if an entry does not stand",
    )


def _but_for_questions(experiments: Sequence[Experiment], profile: str, data: str | None) -> list[Experiment]:
    """Return the experiments that can be run without the campaign's text, where that is not given; name the others."""
    from experiments.campaign.question import Question
    from experiments.store.progress import warn

    def needs_text(experiment: Experiment) -> bool:
        return isinstance(experiment, Question) and bool(experiment.profiles[profile].config.setting.corpus.digest)

    left_out = [] if data else [experiment.name for experiment in experiments if needs_text(experiment)]
    if left_out:
        named = ", ".join(left_out)
        warn(f"left out, as they may need the campaign's text (give --data FOLDER, or name them alone): {named}")
    return [experiment for experiment in experiments if experiment.name not in left_out]


def announce(jobs: Sequence[Job]) -> None:
    """Say how long what is not finished takes, if that is long, and what of it goes on.

    Experiments that share their trainings say it themselves.
    """
    from experiments.experiment.protocol import Pooled
    from experiments.store.progress import warn

    ahead = [job for job in jobs if not isinstance(job.experiment, Pooled)]
    left = [job for job in ahead if not job.run.has("summary.json") and not job.run.slot.device.startswith("cuda")]
    seconds = sum(job.profile.seconds for job in left)
    if seconds < LONG:
        return
    begun = [job.experiment.name for job in left if job.run.has("metrics.jsonl")]
    what = left[0].experiment.name if len(left) == 1 else f"{len(left)} experiments"
    goes_on = f"; goes on from what is finished of {', '.join(begun)}" if begun else ""
    warn(f"{what}: about {max(1, round(seconds / 60))} min from the beginning on two idle cores{goes_on}")


def run(options: argparse.Namespace) -> int:
    if options.all == bool(options.names):
        raise UserError("name experiments, or give --all, but not both")
    if options.only and not options.all:
        raise UserError("--only chooses from --all")
    if options.all and options.size is not None:
        raise UserError("--size is of experiments that are named; the sizes of some are not free")
    from experiments.experiment.execution import legend, prepare, table
    from experiments.experiment.protocol import at_size
    from experiments.experiment.together import executed
    from experiments.store.folders import Unfinished
    from experiments.training.device import slot_for
    from experiments.verdicts.checks import worst

    names = catalogue.names(options.only) if options.all else options.names
    experiments = [catalogue.experiment(name) for name in dict.fromkeys(names)]
    if options.variant:
        from experiments.training.comparing import comparing

        experiments = [comparing(experiment, options.profile, options.variant) for experiment in experiments]
    if options.size is not None:
        from experiments.commands.names import setting

        size = setting(options.size)
        experiments = [at_size(experiment, options.profile, size) for experiment in experiments]
    if options.all:  # of all experiments, those that have the profile
        experiments = [e for e in experiments if options.profile in e.profiles]
        if not experiments:
            raise UserError(f"no experiment has a profile {options.profile!r}")
        experiments = _but_for_questions(experiments, options.profile, options.data)
    for experiment in experiments:
        catalogue.check_claims(experiment)
    slot = slot_for(
        experiments,
        options.profile,
        options.device,
        jobs=options.jobs,
        minutes=options.minutes,
        data=options.data,
        on=options.on,
    )
    jobs = [prepare(e, options.profile, options.seeds, out=options.out, slot=slot) for e in experiments]
    announce(jobs)
    results, failed = [], False
    for job, outcome in executed(jobs):
        if isinstance(outcome, Unfinished):
            print_unfinished(outcome)
            continue
        failed |= worst(outcome) == "fail"
        checks = [check.to_json() for check in outcome]
        about = {"experiment": job.experiment.name, "folder": str(job.run.path)}
        results.append({**about, "verdict": worst(outcome), "checks": checks})
        if not options.json:
            measurement = job.run.read("measurement.json")
            if rows := table(job.experiment, job.run.read("prediction.json"), measurement):
                print_table(job.experiment.title, rows, legend(job.experiment))
            else:
                print_checks(job.experiment.title, outcome)
            print_power({"config": job.config["config"], "detects": job.profile.detects}, outcome)
            print_untuned(measurement)
            print(f"figure and numbers: {job.run.path}\n")
    if options.json:
        print(json.dumps(results, indent=1))
    return int(failed)


def compare(options: argparse.Namespace) -> int:
    from experiments.commands.side_by_side import side_by_side
    from experiments.experiment.execution import committed_results, conclusions, latest_runs, legend, summary, table
    from experiments.training.comparing import Comparing, known_as, named
    from experiments.verdicts.checks import worst
    from experiments.verdicts.words import verdict
    from theory.plans.presets import PRESETS
    from theory.plans.suggestions import hint

    known = catalogue.names("scale")
    models = [name for name in options.names if name not in known]
    if unknown := [name for name in models if not (Path(name).is_dir() or name in PRESETS)]:
        near = hint(unknown[0], [*known, *PRESETS], f"there are {', '.join(known)}; nor a model")
        raise UserError(f"{unknown[0]!r} is no full-size experiment; {near}")
    shown = side_by_side(models) if models else None
    if shown is not None and len(models) == len(options.names):
        if options.variant:
            raise UserError("--variant is for experiments; models say themselves what they are")
        if options.json:
            print(json.dumps(shown, indent=1))
        else:
            print_side_by_side(shown)
        return 0
    listed = [name for name in options.names if name in known] or known
    names = [named(name, options.variant) if options.variant else name for name in listed]
    runs = latest_runs(options.out, names)
    if not runs:
        there = bool(latest_runs(committed_results(), names))
        near = f"--out {committed_results()} has committed ones" if there else "see `crosslayer run --help`"
        raise UserError(f"no finished full-size experiment below {options.out}; {near}")
    entries = []
    for run in runs:
        saved = summary(run)
        experiment = catalogue.experiment(known_as(saved["experiment"]))
        said = SAID if saved["seeds"] and isinstance(experiment, Comparing) else ALWAYS
        prediction = run.read("prediction.json", dict.fromkeys(said, str))
        measurement = run.read("measurement.json")
        checks = conclusions(experiment, saved, prediction, measurement=measurement)
        about: dict[str, Any] = {"verdict": worst(checks), "checks": [check.to_json() for check in checks]}
        rows = table(experiment, prediction, measurement)
        if rows:
            about["table"] = rows
        entries.append({**saved, **about, "prediction": prediction, "folder": str(run.path)})
        if not options.json:
            seeds = len(saved["seeds"])
            overall = verdict(worst(checks))
            print(f"{saved['experiment']}, profile {saved['profile']}, {seeds} seeds: {overall}")
            if sizes := sizes_trained(saved["config"]):
                print(f"  {'trained ' if saved['seeds'] else ''}models: {sizes}")
            if rows:
                print_table("", rows, legend(experiment))
            else:
                print_sentences(checks)
            for key in (key for key in SAID if key in prediction):
                print(f"  {key}: {prediction[key]}")
            print_power(saved, checks)
            print_untuned(measurement)
            print(f"figure and numbers: {run.path}\n")
    if options.json:
        print(json.dumps({"experiments": entries, **shown} if shown else entries, indent=1))
    elif shown:
        print_side_by_side(shown)
    return 0


def report(options: argparse.Namespace) -> int:
    from experiments import runs
    from experiments.experiment.execution import committed_results
    from experiments.report import write_report
    from experiments.report.material import check_finished, none_finished, own_experiments

    check_finished(options.out)
    verified = runs.verify() if options.verify else None
    print(f"site: {write_report(options.out, verified, options.commands)}")
    if not own_experiments(options.out):
        print(f"{none_finished(options.out)}: shown are the committed results of {committed_results()}")
    return int(not all(v.stands for v in verified or ()))
