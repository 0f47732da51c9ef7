"""The papers' figures as data: what is printed agrees with itself, and every variant has a plan."""

import math

import pytest

from experiments.across.printed import ACCURACIES, BASELINE, CODE, REPEATED, SKIPV1, paired_half_width, report, reported
from experiments.verdicts.intervals import t_interval
from theory.plans.names import resolve
from theory.plans.plan import Shape


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


def test_accuracies():
    assert all(len(values) == len(ACCURACIES[BASELINE]) for values in ACCURACIES.values())
