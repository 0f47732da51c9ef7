"""Committed results, and what experiments make of a prediction and a measurement."""

import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "results"


def committed(name):
    """The prediction and the measurement of a committed result."""
    return tuple(json.loads((RESULTS / name / f"{what}.json").read_text()) for what in ("prediction", "measurement"))


def as_stored(content):
    """Content as it is read back from a file that may hold no NaN."""
    return json.loads(json.dumps(content, allow_nan=False))


def verdicts(experiment, prediction, measurement):
    """Every check's verdict by its id."""
    return {check.id: check.verdict for check in experiment.compare(prediction, measurement)}


def failing(experiment, prediction, measurement):
    """Ids of the checks that fail."""
    return {name for name, verdict in verdicts(experiment, prediction, measurement).items() if verdict == "fail"}
