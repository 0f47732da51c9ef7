"""The papers' figures as data: what is printed agrees with itself, and every variant has a plan."""

import math
from statistics import fmean

import pytest

from experiments.across.printed import report, reported
from experiments.skipv1.printed import ACCURACIES, CODE, SKIPV1
from experiments.training.printed import REPEATED, paired_half_width
from experiments.verdicts.intervals import t_interval
from theory.plans.names import resolve
from theory.plans.plan import Shape


@pytest.mark.long
def test_every_variant_has_a_plan():
    for r in reported():
        for name in (r.variant, r.against):
            assert resolve(name, Shape(12, 12))


def test_numbers_and_signs_agree():
    for r in reported():
        assert r.sign in (-1, 0, 1)
        assert r.place
        assert (r.value is None) == (r.reference is None)
        if r.value is not None:
            assert r.nats == pytest.approx(r.value - r.reference)
            assert 1 < r.value < 4, "nats a token"
        if r.nats is None:
            assert r.half_width == 0
        else:
            assert r.half_width > 0
            assert r.sign == math.copysign(1, r.nats) * (r.nats != 0)


def test_nothing_is_told_twice():
    keys = [(r.variant, r.against, r.paper, r.place, r.size) for r in reported()]
    assert len(set(keys)) == len(keys)


def test_perplexities_of_the_same_table_are_these_losses():
    """SkipV1Former, Fig. 5a, prints both: (baseline, SkipV1Former)."""
    printed = {
        "LLaMA-60M": (34.78, 33.25),
        "LLaMA-130M": (25.25, 24.34),
        "LLaMA-350M": (18.75, 17.90),
        "LLaMA-1B": (15.23, 15.04),
        "LLaMA-3B": (14.35, 14.18),
    }
    for size, pair in printed.items():
        r = report("skipv1", "section 6.2", size)
        for loss, perplexity in zip((r.reference, r.value), pair, strict=True):
            assert math.exp(loss) == pytest.approx(perplexity, rel=1e-3)


def test_the_noise_of_a_paired_difference():
    """Three differences of -0.012, -0.010 and -0.012; the first seed is the table's of all sizes."""
    interval = t_interval([value - reference for reference, value in REPEATED])
    assert paired_half_width() == pytest.approx(interval.half_width * len(REPEATED) ** 0.5)
    r = report("skipv1", "section 6.2", "LLaMA-1B")
    assert (r.reference, r.value) == REPEATED[0]
    assert r.differs
    assert not report("denseformer", "paper, ablation", "436M").differs


def test_a_comparison_has_to_be_named_to_the_end():
    with pytest.raises(ValueError, match="unpack"):
        report("skipv1", "section", "")


def test_what_the_authors_code_does_instead_stands_beside_their_losses_and_no_others():
    noted = {(r.variant, r.against): r.note for r in reported() if r.note}
    assert set(noted) == {("skipv1", "yoco-v"), ("skipv1", "cla-v")}
    assert "layer L/2 + 1" in noted["skipv1", "yoco-v"]
    assert "as in SVFormer" in noted["skipv1", "cla-v"]
    assert {r.paper for r in reported() if r.note} == {SKIPV1}  # ResFormer has sharing of its own


def test_notes_are_of_variants_whose_figures_stand_here():
    assert set(CODE) <= set(ACCURACIES)


# SkipV1Former, Tables 8 to 11: HellaSwag, ARC-C, ARC-E, PIQA, Winogrande, Obqa, Sciq, at the four sizes.
TASKS = {
    "vanilla": (
        (27.2, 17.5, 40.9, 60.1, 51.0, 14.6, 67.7),
        (27.6, 18.9, 42.1, 61.4, 50.4, 13.8, 69.2),
        (28.6, 21.0, 42.2, 61.5, 51.3, 16.6, 71.6),
        (29.5, 19.9, 46.9, 62.8, 51.1, 16.6, 72.4),
    ),
    "skipv1": (
        (27.3, 18.0, 40.9, 60.1, 51.5, 15.0, 67.6),
        (28.0, 17.7, 43.7, 60.1, 49.0, 14.8, 72.2),
        (29.1, 18.9, 43.6, 62.6, 52.5, 15.8, 73.5),
        (29.6, 18.5, 46.1, 62.7, 51.4, 17.6, 73.9),
    ),
    "resformer": (
        (27.3, 18.2, 42.9, 60.2, 50.5, 14.2, 67.2),
        (27.9, 18.6, 42.0, 61.8, 51.2, 16.4, 69.6),
        (28.8, 19.8, 42.5, 62.2, 50.9, 14.8, 71.8),
        (30.1, 19.3, 47.1, 63.7, 52.2, 17.0, 73.4),
    ),
    "denseformer": (
        (27.3, 18.6, 40.7, 59.7, 51.1, 15.8, 65.3),
        (27.6, 18.5, 41.2, 60.6, 51.3, 16.2, 66.8),
        (28.7, 19.7, 44.4, 61.3, 51.5, 16.4, 70.7),
        (29.4, 20.6, 44.2, 62.2, 49.8, 15.8, 72.7),
    ),
    "yoco-v": (
        (27.2, 17.6, 39.4, 59.6, 52.0, 14.4, 66.2),
        (27.6, 18.3, 41.4, 60.3, 51.5, 16.0, 69.3),
        (28.5, 18.8, 42.4, 61.4, 51.0, 15.4, 68.6),
        (29.2, 19.7, 45.0, 62.2, 50.5, 15.0, 71.5),
    ),
    "cla-v": (
        (27.2, 19.1, 39.9, 59.4, 49.3, 14.4, 67.0),
        (27.5, 17.7, 40.7, 60.2, 50.7, 15.2, 66.9),
        (28.5, 19.4, 41.7, 61.3, 51.0, 15.8, 69.3),
        (28.8, 19.0, 43.2, 62.1, 51.5, 15.8, 72.1),
    ),
}


def test_accuracies_are_the_means_of_the_printed_tasks():
    """To the last digit printed: both the tasks and their mean are rounded to a tenth."""
    assert TASKS.keys() == ACCURACIES.keys()
    for name, sizes in TASKS.items():
        for printed, tasks in zip(ACCURACIES[name], sizes, strict=True):
            assert printed == pytest.approx(fmean(tasks), abs=0.1), name
