"""Messages are the same on a slow machine as on a fast one."""

import math

import pytest

from experiments.store import progress


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """Progress off a terminal is a line every few seconds, of which a fast machine prints none."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)
