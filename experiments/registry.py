"""The names of all experiments.  To add one: write its file, export EXPERIMENT, and name it here."""

from __future__ import annotations

from importlib import import_module

from experiments.protocol import Experiment
from experiments.runs import UserError

MODULES = {
    "skipv1-gap": "experiments.skipv1_gap",
    "skipv1-limit": "experiments.skipv1_limit",
    "skipv1-w0": "experiments.skipv1_w0",
    "skipv1-end-to-end": "experiments.skipv1_end_to_end",
    "toy-orderings": "experiments.toy_orderings",
    "scale-icl": "experiments.scale_icl",
    "scale-magnitude": "experiments.scale_magnitude",
    "scale-loss": "experiments.scale_loss",
}


def of_kind(kind: str | None) -> list[str]:
    """Names of the experiments on toys (`theory`), on full-size models (`scale`), or of all (None)."""
    return [name for name in MODULES if kind is None or name.startswith("scale-") == (kind == "scale")]


def load(name: str) -> Experiment:
    """The experiment of that name.  Raises UserError for an unknown one."""
    if name not in MODULES:
        raise UserError(f"unknown experiment {name!r}; there are {', '.join(MODULES)}")
    experiment: Experiment = import_module(MODULES[name]).EXPERIMENT
    return experiment
