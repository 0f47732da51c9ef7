"""Mathematics in plain text: what is a formula, docstrings as derivations, closed forms as the code computes them."""

import inspect
import re
from fractions import Fraction

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from experiments import catalogue
from experiments.report import closed_forms, derivations
from experiments.report.prose import Names, escaped, plain
from experiments.report.reading import spans, whole
from experiments.report.sphinx_extension import mathml
from experiments.report.symbols import BREAK
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


LONG_WORD = r"[a-z]{4,}"  # no formula may have taken it


@pytest.mark.parametrize("proof", PROOFS.values(), ids=lambda proof: f"{getattr(proof, '__name__', proof)}")
def test_no_word_of_a_proof_is_lost(proof):
    text = inspect.getdoc(proof) or ""
    page = derivations.markdown(text, Names())
    there = set(re.findall(LONG_WORD, page))
    read_as = {"infinity": "infty", "epsilon": "varepsilon", "grad": "nabla", "ceil": "lceil", "floor": "lfloor"}
    missing = {word for word in re.findall(LONG_WORD, text) if word not in there and read_as.get(word, "") not in page}
    assert not missing


def value(module, name, **at):
    """Of a closed form's formula, with what it calls put in."""
    formula = closed_forms._symbolic(closed_forms._returned(getattr(module, name)))
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


# What is read as a formula.

READ = {  # what stands between ⟦ ⟧ is a formula
    "the gap is rho a^2 at equal rank": r"the gap is ⟦\rho a^{2}⟧ at equal rank",
    "explains a d where MHA has a (d - a)": "explains ⟦a d⟧ where MHA has ⟦a (d - a)⟧",
    "W* ~ N(W0, I), x a d x n matrix": r"⟦W^{*} \sim N(W_{0} ,\, I)⟧, ⟦x⟧ a ⟦d \times n⟧ matrix",
    "a head, a toy and A heads": "a head, a toy and ⟦A⟧ heads",
    "A head reads rank a of it": r"A head reads ⟦\operatorname{rank}\, a⟧ of it",
    "E||P - W*||_F^2": r"⟦E {\Vert P - W^{*}\Vert }_{F}^{2}⟧",
    "1/sqrt 2 = 0.71": r"⟦1 / \sqrt{2} = 0.71⟧",
    "sum_{i <= j} s_i^2": r"⟦\sum_{i \le j} s_{i}^{2}⟧",
    "layer 1's values, Eqns. (3) to (5), 2,048 tokens, 82M": "layer 1's values, Eqns. (3) to (5), 2,048 tokens, 82M",
    "theory/toy/width.py and skipv1.gap_weights": "theory/toy/width.py and skipv1.gap_weights",
    "Theorem 1 (e) and appendix A": "Theorem 1 (e) and appendix A",
    "two-layer x-axis": "two-layer ⟦x⟧-axis",
    "V_n's rows": "⟦V_{n}⟧'s rows",
    "<W_Q x, u> = 3": r"⟦\langle W_{Q} x ,\, u\rangle = 3⟧",
    "floor(d^2/4) >= 3/4 rho d^2": r"⟦\lfloor d^{2} / 4 \rfloor \ge 3 / 4 \rho d^{2}⟧",
    "(A x_t ; B y_t)": r"⟦(A x_{t} \,;\; B y_{t})⟧",
    "1.25x more, in 1e-4 of it": "1.25x more, in 1e-4 of it",
}


def marked(text):
    parts = (f"⟦{span.latex.replace(BREAK, '')}⟧" if span.latex else span.text for span in spans(text))
    return re.sub(r"  +", " ", "".join(parts)).replace(" ⟧", "⟧")


@pytest.mark.parametrize("text", READ)
def test_what_is_read(text):
    assert marked(text) == re.sub(r"  +", " ", READ[text])


def ledger_texts():
    for claim in catalogue.claims().values():
        yield from (claim.statement, claim.correction, claim.assumes, claim.place)
        for evidence in claim.evidence:
            yield from (evidence.what, evidence.wrong)


def test_nothing_of_the_ledger_is_lost_and_every_formula_can_be_set():
    found = 0
    for text in ledger_texts():
        read = spans(text)
        assert "".join(span.text for span in read) == text
        for span in (span for span in read if span.latex):
            found += 1
            latex = span.latex.replace(BREAK, "")
            assert mathml(latex).startswith("<math"), latex
            letters = re.sub(r"\\[A-Za-z]+|[^A-Za-z]", "", latex)
            assert set(letters) <= set(span.text), (span.text, latex)
    assert found > 1000


@given(st.text(alphabet="abdnx W0123456789+-*/^_=<>()[]{}|,;:.'~ \n`$\\#é", max_size=60))
def test_any_text_is_kept(text):
    assert "".join(span.text for span in spans(text)) == text
    whole(text)
    Names().prose(text)


@given(st.text(max_size=80).map(lambda text: " ".join(text.split())))
def test_what_is_escaped_is_shown_as_it_is(text):
    """By another reader of Markdown, tables on."""
    if any(not character.isprintable() for character in text):
        return
    page = MarkdownIt("commonmark").enable("table").render(f"| h |\n|---|\n| x {escaped(text)} |\n")
    cell = re.search(r"<td>x ?(.*?)</td>", page, re.DOTALL)[1]
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        cell = cell.replace(entity, sign)
    assert cell == text
    page = MarkdownIt("commonmark").render(escaped(text))
    assert page.startswith("<p>") or not text


def test_code_in_help_is_code():
    assert words(plain("see `crosslayer list`, *now*")) == "see `crosslayer list`, *now*"
    assert plain("an odd ` mark") == r"an odd \` mark"


def test_entries_are_linked_where_they_are_named():
    names = Names({"skipv1.gap": "/claims/skipv1.gap.md"}, {"ladder": "/experiments/ladder.md"})
    assert words(names.prose("by skipv1.gap.")) == "by [`skipv1.gap`](/claims/skipv1.gap.md)."
    assert words(names.prose("`ladder`, not a ladder")) == "[`ladder`](/experiments/ladder.md), not a ladder"
    assert names.prose("theory.skipv1.gap is a module") == r"theory.skipv1.gap is a module"
