"""The pages of what was found, and the results that they tell: for the tests that hold one against the other."""

import json
from pathlib import Path

from experiments import catalogue

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "results/FINDINGS.md").read_text()
FINDINGS = " ".join(PAGE.split())  # in one line
CLAIMS = (ROOT / "theory/resformer/CLAIMS.md").read_text()
ARMS = {"svformer": "SVFormer", "skipv1": "SkipV1Former", "resformer": "ResFormer"}


def stored(path):
    return json.loads((ROOT / "results" / path).read_text())


def both_of(run):
    """Return the prediction and the measurement of a committed run."""
    return [stored(f"{run}/{name}.json") for name in ("prediction", "measurement")]


def compared(name):
    """Return the checks of a committed run by its experiment as it is now."""
    return catalogue.experiment(name.partition("/")[0]).compare(*both_of(name))


def signed(mean, half_width, digits=2):
    """Return a difference with the half-width of its interval, as the pages write them."""
    return f"{mean:+.{digits}f} ± {half_width:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def between(found):
    """Return an interval of something that has no baseline, as the pages write it."""
    return signed(found.mean, found.half_width).removeprefix("+").replace("\N{MINUS SIGN}0.00", "0.00")
