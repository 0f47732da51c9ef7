"""What figures share: one look a variant, marks that hide nothing, and a caption that names each panel and no other."""

import math
import re

import pytest
from matplotlib.figure import Figure

from experiments import catalogue
from experiments.drawing import style
from experiments.experiment.execution import latest_runs
from experiments.experiment.protocol import figures
from experiments.verdicts.intervals import Interval
from tests.experiments.committed import RESULTS
from theory.attnres import paper as attnres


def test_an_option_has_its_own_look_or_its_variants():
    assert style.look("attnres-block:size=4") == style.look("attnres-block:size=2") != style.look("attnres-block")
    assert style.look("attnres-block:blocks=8") == style.look("attnres-block")


def test_what_has_no_look_has_its_papers_colour():
    assert style.look("attnres-sigmoid") == {"color": attnres.PAPER.colour, "linestyle": "-", "marker": "*"}


def test_no_two_variants_look_alike():
    assert len({(look["marker"], look["linestyle"]) for look in style.VARIANTS.values()}) == len(style.VARIANTS)


def test_intervals_of_logarithms_stay_above_zero():
    axis = Figure().subplots()
    assert style.geometric(axis, [1.0], [Interval(0.0, 1.0, 3.0)], marker="o") == [1.0]
    (container,) = axis.containers
    _, _, (bar,) = container.lines
    low, high = bar.get_segments()[0][:, 1]
    assert low == pytest.approx(math.exp(-3))
    assert high == pytest.approx(math.exp(3))


def test_seeds_stand_beside_their_mean():
    axis = Figure().subplots()
    style.seeds(axis, 1.0, [0.2, 0.9], "black")
    (dots,) = axis.lines
    assert list(dots.get_ydata()) == [0.2, 0.9]
    assert dots.get_transform().transform((1, 0))[0] > axis.transData.transform((1, 0))[0]


def test_drawings_name_more_fonts_than_one(tmp_path):
    """Of formulas, too: where the first is missing, a browser has others without serifs."""
    with style.drawing():
        fig, (axis,) = style.figure(1)
        axis.set_title("$10^{12}$ words")
        style.save(fig, tmp_path)
    fonts = re.findall(r"font-family: ([^;\"]*)", (tmp_path / "figure.svg").read_text())
    assert fonts
    assert all(font.endswith("sans-serif") for font in fonts)


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
def test_a_caption_is_short_and_says_what_its_intervals_are(name):
    for caption in figures(catalogue.experiment(name)).values():
        assert len(caption) > SHORTEST
        assert len(caption.split()) <= MOST_WORDS
        assert re.search(r"95 %|[Nn]o sampling|exact minima|all turns", caption)


@pytest.mark.parametrize("name", ["scale-uptrain", "text-values", "text-depth", "text-dynamic-values", "text-design"])
def test_a_caption_says_what_is_left_out(name):
    for caption in figures(catalogue.experiment(name)).values():
        assert "learning rate" in caption or "rate; at another" in caption
