"""Messages are the same on a slow machine as on a fast one, and figures that nobody looks at are drawn quickly."""

import math

import pytest

from experiments.store import progress


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """Progress off a terminal is a line every few seconds, of which a fast machine prints none."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)


@pytest.fixture(autouse=True)
def figures_are_rough(request):
    """But for tests that want them as a user has them, by the fixture `fine_figures`."""
    if "fine_figures" not in request.fixturenames:
        request.getfixturevalue("rough_figures")


@pytest.fixture
def fine_figures():
    """Lay figures out as a user has them, in full size."""
