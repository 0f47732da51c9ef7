"""Docstrings as derivations, and closed forms as the code computes them."""

import inspect
import re
from fractions import Fraction

import pytest
import sympy

from experiments import catalogue
from experiments.report import closed_forms, derivations
from experiments.report.prose import Names
from tests.experiments.report.words import words
from theory.attnres import mixing
from theory.prompts import moments
from theory.resformer import drains, smoothing
from theory.skipv1 import gap, gap_weights, w0
from theory.toy import least_width

PROOFS = {id(c.proof): c.proof for c in catalogue.claims().values() if c.proof is not None}
SHOWN = """What is shown.

Setting.  Let a be at most d, and
    ordinary head      G = S + S^T
    skip head          G = S, which
                       is less

so that
        rho a^2 >= 0.

Proof.
(1) Parity.  It holds
    for every S.
(2) Rank.  See `gap`.                                       QED

Open
----
- how much more
"""


def test_blocks():
    page = words(derivations.markdown(SHOWN, Names()))
    for part in (
        "**Setting.** Let",
        "| ordinary head | $G = S + S^{\\top }$ |",
        "| skip head | $G = S$, which is less |",
        "$$\\rho a^{2} \\ge 0.$$",
        "- [(1)] Parity. It holds for every $S$.",
        "- [(2)] Rank. See `gap`. ∎",
        "**Open**",
        "- how much more",
    ):
        assert part in page, (part, page)


def letters(text):
    """Words of prose: those of two letters or more that no formula may have taken."""
    return re.findall(r"[a-z]{4,}", text)


@pytest.mark.parametrize("proof", PROOFS.values(), ids=lambda proof: f"{getattr(proof, '__name__', proof)}")
def test_no_word_of_a_proof_is_lost(proof):
    text = inspect.getdoc(proof) or ""
    page = derivations.markdown(text, Names())
    there = set(letters(page))
    read_as = {"infinity": "infty", "epsilon": "varepsilon", "grad": "nabla", "ceil": "lceil", "floor": "lfloor"}
    missing = {word for word in letters(text) if word not in there and read_as.get(word, "") not in page}
    assert not missing


def value(module, name, **at):
    """Of a closed form's formula, with what it calls put in."""
    (function,) = (vars(module)[n] for n in vars(module) if n == name)
    formula = closed_forms._symbolic(closed_forms._returned(function))
    letters = {"rank": "a"}
    put = {sympy.Symbol(letters.get(key, key)): sympy.Rational(x) for key, x in at.items()}
    put[sympy.Symbol("rho")] = sympy.Rational(gap.signal_share(at["d"], at["n"], at["sigma"]))
    return formula.subs(put).doit()


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        (gap, "mha_explained", ("d", "n", "sigma", "rank")),
        (gap, "skipv1_explained", ("d", "n", "sigma", "rank")),
        (moments, "signal_variance", ("d", "n", "sigma")),
        (w0, "small_power", ("d", "n", "sigma")),
        (w0, "spread", ("d", "n", "sigma")),
        (w0, "two_heads_loss", ("d", "n", "sigma", "power")),
        (least_width, "sufficient_width", ("d",)),
        (drains, "least_attended", ("own_length", "first_length", "own", "first")),
        (gap_weights, "mha_excess", ("d", "n", "sigma", "rank", "beta")),
    ],
)
def test_a_formula_is_what_the_function_returns(module, name, arguments):
    assert name in {form.name for form in closed_forms.closed_forms(module)}
    at = {"d": 5, "n": 7, "sigma": Fraction(1, 2), "rank": 2, "power": 3, "beta": Fraction(1, 3)}
    at |= {"own_length": 2, "first_length": 3, "own": Fraction(1, 4), "first": Fraction(1, 5)}
    expected = getattr(module, name)(**{key: at[key] for key in arguments})
    assert value(module, name, **at) == sympy.Rational(expected)


def test_only_arithmetic_is_shown():
    names = {form.name for form in closed_forms.closed_forms(gap)}
    assert "paper_bound" not in names
    assert "loss_gap" not in names
    assert closed_forms.closed_forms(mixing.semiseparable_rank) == []  # the largest of what a call returns


def test_a_function_alone_is_shown():
    (form,) = closed_forms.closed_forms(smoothing.neutreno_limit)
    assert form.latex.startswith(r"\frac{\mathrm{weight}")
    assert closed_forms.closed_forms(gap.LossGap) == []
