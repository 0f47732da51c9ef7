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
    """What was predicted, and what was measured."""
    return [stored(f"{run}/{name}.json") for name in ("prediction", "measurement")]


def compared(name):
    """What a committed run says of its experiment's predictions."""
    return catalogue.experiment(name.partition("/")[0]).compare(*both_of(name))


def signed(number):
    """A number of two digits as the pages write it."""
    return f"{number:+.2f}".replace("-", "\N{MINUS SIGN}")


def between(found):
    """A mean and the half-width of its interval as the pages write them."""
    return f"{found.mean:.2f} ± {found.half_width:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")
