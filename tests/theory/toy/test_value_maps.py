"""The toy's optimum for every value map: the closed forms against exact minimisation, and what has none."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.across.claims.value_maps import NAMED
from theory.errors import InvalidSize
from theory.plans.heads import MHA, SKIPV1, Head, NotCovered, shares, toy_heads
from theory.plans.mix import Learned, k, v
from theory.plans.plan import Shape, plan
from theory.plans.streams import Streams
from theory.plans.variants import VARIANTS, vanilla
from theory.prompts.moments import PromptMoments
from theory.prompts.setting import signal_share
from theory.resformer.variants import neutreno
from theory.skipv1.gap import loss_gap
from theory.toy.minimise import minimise
from theory.toy.population import PopulationLoss, Weights
from theory.toy.value_maps import explained_entries, explained_entry_bounds, optimum

D, N, SIGMA = 3, 8, 0.3
BEYOND = (
    "attnres",
    "dva",
    "denseformer",
    "value-embeddings",
    "gated-value",
    "shifted-values",
    "lime",
)  # which binds heads
COVERED = [
    name
    for name, variant in VARIANTS.items()
    if not name.startswith(BEYOND) and not isinstance(variant.make(Shape(2, 2)).depth, Streams)
]


def lists(values, keys):
    """Layer 2's one head over these lists."""
    return plan(
        Shape(2, 1),
        values=lambda n, h: values if n == 2 else v(1, 1),
        keys=lambda n, h: keys if n == 2 else k(1, 1),
    )


def two_layers(name: str, heads: int = 2):
    return VARIANTS[name].make(Shape(2, heads))


# One name a toy, of those that the ledger (toy.value-maps) does not minimise.
MINIMISED = ["resformer-all", "shared-keys", "skipv1", "skipv1-pooling", "skipv1-resformer", "skipv1-yoco"]


def toy(name: str):
    """The heads of a plan's toy, the matrices that they share numbered: many names have one toy."""
    heads = toy_heads(two_layers(name))
    readouts, keys = (shares(heads, label)[1] for label in ("readout", "key"))
    return tuple(replace(head, readout=w, key=k) for head, w, k in zip(heads, readouts, keys, strict=True))


def test_every_plan_s_toy_is_minimised():
    """Here or by the ledger: a new kind of toy needs a name above."""
    assert {toy(name) for name in COVERED} == {toy(name) for name in (*MINIMISED, "residual-keys", *NAMED)}


@pytest.mark.parametrize("name", [*MINIMISED, pytest.param("residual-keys", marks=pytest.mark.slow)])
def test_closed_forms_are_what_minimisation_finds(name):
    """At rank 2 of 3, where the three closed forms differ: from above, and to 1e-4 of the signal.

    Weights that approach residual keys' grow in several ways at once, which takes more starts and leaves more to gain.
    """
    best = optimum(two_layers(name), D, N, SIGMA, 2)
    assert best.method == "closed form"
    loss = PopulationLoss(PromptMoments(D, N, SIGMA), toy_heads(two_layers(name)))
    starts, short = (20, 1e-3) if name == "residual-keys" else (6, 1e-4)
    assert -1e-9 <= minimise(loss, 2, starts=starts).value - best.loss <= short * D**2


@pytest.mark.long
def test_what_has_no_closed_form_says_so():
    one_head = two_layers("residual-keys", 1)
    best = optimum(one_head, D, N, SIGMA, 2)
    assert best.method == "exact minimisation"
    assert best.starts == 12
    assert 1 <= best.agreeing <= 12
    least, most = explained_entry_bounds(toy_heads(one_head), D, 2)
    rho = signal_share(D, N, SIGMA)
    assert 0.999 * rho * least <= best.explained <= rho * most


def test_reduction_keeps_what_a_head_s_values_and_keys_share():
    mixed = toy_heads(plan(Shape(2, 1), values=lambda n, h: v(1, h) + v(n, h)))
    assert {(head.copied, head.raw) for head in mixed} == {(1, 0), (0, 1)}
    assert len({head.key for head in mixed}) == 1
    assert len({head.readout for head in mixed}) == 2
    keys = toy_heads(two_layers("residual-keys", 1))
    assert len({head.readout for head in keys}) == 1
    assert len({head.key for head in keys}) == 2
    assert explained_entries(MHA, 5, 2) == 6
    assert explained_entries(SKIPV1, 5, 2) == 10


def test_shared_matrices_are_one_matrix():
    """A head with a raw and a copied value is two heads whose K is one: the loss says so, and so does its gradient."""
    rng = np.random.default_rng(0)
    tied = (Head(1, 0, key="k"), Head(0, 1, key="k"))
    loss, free = (PopulationLoss(PromptMoments(D, N, SIGMA), heads) for heads in (tied, SKIPV1))
    a, b = rng.standard_normal((2, D)), rng.standard_normal((1, D))
    w, k = rng.standard_normal((2, D, D)), rng.standard_normal((1, D, 2))
    value, gradient = loss.value_and_gradient(Weights(a, b, w, k))
    apart, slopes = free.value_and_gradient(Weights(a, b, w, np.concatenate([k, k])))
    assert value == pytest.approx(apart, rel=1e-12)
    np.testing.assert_allclose(gradient.k[0], slopes.k.sum(0), rtol=1e-10)
    np.testing.assert_allclose(gradient.a, slopes.a, rtol=1e-10)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (vanilla(Shape(3, 2)), "two layers"),
        (VARIANTS["denseformer"].make(Shape(2, 2)), "no depth rule"),
        (VARIANTS["hyper-connections"].make(Shape(2, 2)), "no depth rule"),
        (VARIANTS["dva"].make(Shape(2, 2)), "do not depend on the query"),
        (plan(Shape(2, 2), keys=lambda n, h: k(1, 1) + k(1, 2)), "share several projections"),
        (replace(VARIANTS["skipv1"].make(Shape(2, 2)), output_projection=False), "need an output projection"),
        (lists((v(2, 1) + v(1, 1), v(2, 1) + 2 * v(1, 1)), (k(2, 1), k(1, 1))), "lists whose weights bind"),
        (lists((Learned("m", 1.0) * v(2, 1), v(2, 1)), (k(2, 1), k(2, 1))), "several lists with learned weights"),
    ],
)
def test_plans_beyond_the_toy_are_refused(case, why):
    with pytest.raises(NotCovered, match=why):
        optimum(case, D, N, SIGMA, 1)


def test_what_minimisation_cannot_do_is_refused():
    from theory.plans.combine import combine

    one_head = two_layers("residual-keys", 1)
    with pytest.raises(InvalidSize, match="d <= 10"):
        optimum(one_head, 17, N, SIGMA, 16)
    with pytest.raises(NotCovered, match="beside"):
        optimum(combine(one_head, neutreno(Shape(2, 1))), D, N, SIGMA, 2)
    with pytest.raises(NotCovered, match="query from layer 1"):
        optimum(combine(one_head, two_layers("shared-queries", 1)), D, N, SIGMA, 2)


def test_weights_that_cancel_over_the_lists_leave_nothing():
    """[v ; -v] over [k ; k] is no attention at all, and what is left of a sum is what does not cancel."""
    nothing = lists((v(2, 1), -1 * v(2, 1)), (k(2, 1), k(2, 1)))
    assert toy_heads(nothing) == ()
    assert optimum(nothing, D, N, SIGMA, 1).explained == 0
    copied = lists((v(2, 1) + v(1, 1), v(2, 1) - v(1, 1)), (k(2, 1), k(2, 1)))
    assert optimum(copied, D, N, SIGMA, 2).loss == pytest.approx(loss_gap(D, N, SIGMA, 2).mha)


def test_a_head_s_values_and_keys_are_told_apart_by_their_source():
    """Two values of one kind have two readouts: with raw keys, each is worth something of its own."""
    two = plan(
        Shape(2, 2),
        values=lambda n, h: (v(2, 1), v(2, 2)) if n == 2 and h == 1 else (() if n == 2 else v(n, h)),
        keys=lambda n, h: (k(1, 1), k(1, 2)) if n == 2 else k(n, h),
    )
    heads = toy_heads(two)
    assert len({head.readout for head in heads}) == len({head.key for head in heads}) == len(heads) == 2
    rho = signal_share(2, 4, 0.3)
    assert optimum(two, 2, 4, 0.3, 1).explained == pytest.approx(2 * rho, rel=1e-4)


def test_a_raw_value_with_a_copied_key_is_enough_whatever_else_there_is():
    """Raw keys beside it change nothing: A S_xy is the transpose of what the raw value reads already."""
    mixed = plan(Shape(2, 1), values=lambda n, h: v(n, h) + v(1, h), keys=lambda n, h: k(n, h) + k(1, h))
    best = optimum(mixed, D, N, SIGMA, 2)
    assert (best.method, best.attained) == ("closed form", True)
    lowest = minimise(PopulationLoss(PromptMoments(D, N, SIGMA), toy_heads(mixed)), 2, starts=8).value
    assert -1e-9 <= lowest - best.loss <= 1e-3 * D**2
