"""Every figure has a caption that names each of its panels, and no others."""

import re

import pytest

from experiments import catalogue
from experiments.experiment.execution import latest_runs
from experiments.experiment.protocol import figures
from tests.experiments.test_results import RESULTS

MOST_WORDS = 60
SHORTEST = 80  # characters: less says nothing of panels, markers and intervals


@pytest.mark.parametrize("name", catalogue.names())
def test_a_caption_names_the_panels_of_the_committed_figure(name):
    for run in latest_runs(RESULTS, [name]):
        for figure, caption in figures(catalogue.experiment(name)).items():
            drawn = set(re.findall(r"\(([a-h])\) ", (run / f"{figure}.svg").read_text()))
            assert set(re.findall(r"\(([a-h])\)", caption)) == drawn
            assert len(drawn) <= 4


@pytest.mark.parametrize("name", catalogue.names())
def test_a_caption_says_what_its_intervals_are(name):
    for caption in figures(catalogue.experiment(name)).values():
        assert len(caption) > SHORTEST
        assert re.search(r"95 %|[Nn]o sampling|exact minima|all turns", caption)


@pytest.mark.parametrize("name", ["scale-uptrain", "text-values", "text-depth", "text-dynamic-values", "text-design"])
def test_a_caption_that_says_what_is_left_out_is_short(name):
    for caption in figures(catalogue.experiment(name)).values():
        assert "learning rate" in caption or "rate; at another" in caption
        assert len(caption.split()) <= MOST_WORDS
