"""`import theory`: the names that it offers, and `predict`."""

import pytest

import theory
from tests.faces import check_face, imported_by
from theory.plans.heads import NotCovered, toy_heads
from theory.skipv1.gap import best_mha_rank, mha_explained
from theory.toy.value_maps import closed_form

HEAVY = {"numpy", "scipy", "sympy", "torch", "matplotlib"}


def test_face():
    check_face("theory")


@pytest.mark.parametrize("package", ["theory", "icl", "experiments"])
def test_importing_a_face_is_instant(package):
    names = imported_by(f"import {package}")
    assert package in names
    assert not HEAVY & names


@pytest.mark.parametrize("d", [2, 3, 5])
def test_predict_by_name_and_by_plan(d):
    task = {"d": d, "n": 8, "sigma": 0.3}
    own = theory.plan(theory.Shape(2, 2), values=lambda n, h: 0.5 * theory.v(n, h) + 0.5 * theory.v(1, h))
    expected = closed_form(own, d, 8, 0.3, 1)
    assert theory.predict("resformer", rank=1, **task) == theory.predict(own, rank=1, **task) == expected
    best = theory.predict("vanilla", **task)
    assert best.explained == mha_explained(d, 8, 0.3, best_mha_rank(d))
    assert best.loss == theory.loss_gap(d, 8, 0.3, d // 2).mha
    assert all(best.loss <= theory.predict("vanilla", rank=rank, **task).loss for rank in range(d + 1))


def late(shape):
    """Vanilla in two layers."""
    return theory.plan(shape, values=lambda n, h: theory.v(n, h) + theory.v(1, h) if n > 2 else theory.v(n, h))


def test_predict_says_what_two_layers_do_not_contain():
    task = {"d": 2, "n": 3, "sigma": 0.1}
    found = theory.predict(late, **task)
    assert found == theory.predict("vanilla", **task)
    assert found.beyond_two_layers == theory.predict("skipv2", **task).beyond_two_layers == ("values from layer 3 on",)
    assert theory.predict("skipv1", **task).beyond_two_layers == ()
    assert theory.predict(late(theory.Shape(2, 2)), **task).beyond_two_layers is None


def test_predict_says_what_it_cannot_say():
    with pytest.raises(NotCovered, match="depth rule"):
        theory.predict("attnres", d=2, n=3, sigma=0.1)
    for arguments in ({"plan": "resformers"}, {"plan": "resformer", "rank": 3}, {"plan": "resformer", "sigma": -1.0}):
        with pytest.raises(theory.BadInput):
            theory.predict(**{"d": 2, "n": 3, "sigma": 0.1, **arguments})


def test_what_the_toy_s_exact_loss_reaches_is_what_is_predicted():
    heads = theory.plan(theory.Shape(2, 2), values=lambda n, h: theory.v(1 if h == 2 else n, h))
    loss = theory.PopulationLoss(theory.PromptMoments(2, 4, 0.5), toy_heads(heads))
    certificate = theory.minimise(loss, 1, starts=2)
    assert certificate.value == pytest.approx(theory.predict(heads, d=2, n=4, sigma=0.5, rank=1).loss, rel=1e-6)
