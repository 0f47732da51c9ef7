"""The meeting place of theory and testbed: experiments, the claims ledger, the site and the command line.

    experiments.run("skipv1-gap", "smoke")                      predict, measure, compare and draw
    experiments.train("llama-2m", "resformer", steps=200)       one model; `icl.load(....folder)` reads it back
    experiments.all_experiments(), experiments.claims()         what there is, by name
    experiments.verify("skipv1.gap")                            run its checks, and those of what it rests on
    experiments.write_report(Path("runs"))                      the site, from finished runs and committed results

Each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.catalogue import all_experiments, claims
    from experiments.commands.single import Trained, train
    from experiments.experiment.execution import Finished
    from experiments.experiment.protocol import Experiment, Profile
    from experiments.ledger.claim import Claim
    from experiments.ledger.verify import Verification
    from experiments.report import write_report
    from experiments.runs import run, verify
    from experiments.store.folders import Unfinished, UserError
    from experiments.training.text import prepare as prepare_text

__all__ = [
    "Claim",
    "Experiment",
    "Finished",
    "Profile",
    "Trained",
    "Unfinished",
    "UserError",
    "Verification",
    "all_experiments",
    "claims",
    "prepare_text",
    "run",
    "train",
    "verify",
    "write_report",
]

_HOMES = {
    "Claim": "experiments.ledger.claim",
    "Experiment": "experiments.experiment.protocol",
    "Finished": "experiments.experiment.execution",
    "Profile": "experiments.experiment.protocol",
    "Trained": "experiments.commands.single",
    "Unfinished": "experiments.store.folders",
    "UserError": "experiments.store.folders",
    "Verification": "experiments.ledger.verify",
    "all_experiments": "experiments.catalogue",
    "claims": "experiments.catalogue",
    "prepare_text": "experiments.training.text:prepare",
    "run": "experiments.runs",
    "train": "experiments.commands.single",
    "verify": "experiments.runs",
    "write_report": "experiments.report",
}

if not TYPE_CHECKING:  # a type checker reads the imports above, and a name that is not there is an error

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if message := import_module("experiments.store.shadows").shadowed():
            raise ImportError(message)
        home, _, there = _HOMES[name].partition(":")
        return getattr(import_module(home), there or name)


def __dir__() -> list[str]:
    """List the public names, whether or not they are loaded yet."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
