"""The page that computes: its formulas and tables are those of `theory`, in Python and as JavaScript runs them."""

import json
import random
import re
import shutil
import subprocess
from fractions import Fraction

import pytest
import sympy

from experiments.report.explore import costs, formulas, pictures, widths
from experiments.report.pages import explore
from theory.plans.names import resolve
from theory.plans.plan import Shape
from theory.skipv1.gap import loss_gap
from theory.toy.worth import plan_entries, worth_at_width

NODE = shutil.which("node")
FEW = ("vanilla", "skipv1", "skipv0", "resformer", "svformer", "shared-keys", "cla", "cross-layer", "attnres", "dva")
TASKS = [
    (1, 1, 0, 1),
    (3, 8, Fraction(3, 10), 2),
    (7, 12, Fraction(2, 5), 0),
    (32, 200, 3, 17),
    (6, 2, Fraction(1, 4), 6),
]
with_node = pytest.mark.skipif(NODE is None, reason="no node on this machine")


def in_javascript(code, names=FEW):
    """The result of an expression, after the page's script."""
    script = f"{explore.script(names)}\nconst math = compute(FORMULAS, DATA);\n"
    done = subprocess.run(
        [NODE, "-"], input=f"{script}console.log(JSON.stringify({code}));", capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("task", TASKS)
def test_formulas_are_those_of_the_theorem(task):
    forms = formulas.expressions()
    at = {symbol: sympy.Rational(x) for symbol, x in zip(formulas.ARGUMENTS, task, strict=True)}
    expected = vars(loss_gap(task[0], task[1], Fraction(task[2]), task[3]))
    for name, number in expected.items():
        assert forms[name].subs(at) == sympy.Rational(number), name
    d, _, sigma, _ = task
    assert forms["zero"].subs(at) == d**2 + d * sympy.Rational(sigma) ** 2
    assert forms.keys() == {*expected, "zero"}


def test_what_is_no_single_expression_is_refused():
    with pytest.raises(ValueError, match="loss_gap returns no single expression"):
        formulas.expression(loss_gap)


@with_node
@pytest.mark.long
def test_javascript_gives_the_gap():
    tasks = [[float(x) for x in task] for task in TASKS]
    for task, numbers in zip(
        TASKS, in_javascript(f"{json.dumps(tasks)}.map((task) => math.gap(...task))"), strict=True
    ):
        expected = vars(loss_gap(task[0], task[1], float(task[2]), task[3]))
        assert {name: numbers[name] for name in expected} == pytest.approx(expected, rel=1e-13, abs=1e-12)


@with_node
def test_javascript_gives_the_worth():
    groups = widths.worth_table(FEW)
    assert {name for group in groups for name in group["names"]} == set(FEW) - {"attnres", "dva"}
    places = [
        (i, d, width) for i in range(len(groups)) for d in (1, 3, 12) for width in (d, 2 * d - 1, 3 * d) if width >= d
    ]
    results = in_javascript(f"{json.dumps(places)}.map((place) => math.worth(...place))")
    for (i, d, width), numbers in zip(places, results, strict=True):
        for name in groups[i]["names"]:
            plan = resolve(name, widths.SHAPE)
            assert numbers["entries"] == list(plan_entries(plan, d, width)), (name, d, width)
            assert numbers["worth"] == pytest.approx(list(worth_at_width(plan, d, width)), abs=10.0**-widths.DIGITS)


def test_every_named_plan_keeps_its_group():
    for group in widths.worth_table(FEW):
        assert len({tuple(map(str, group["rows"][3])) for _ in group["names"]}) == 1
    (full,) = [group for group in widths.worth_table(FEW) if "skipv1" in group["names"]]
    assert {"resformer", "svformer"} <= set(full["names"])
    assert "vanilla" not in full["names"]


SOME = random.Random(0)
SHAPES = [
    [4 * SOME.randint(1, 5), 4 * SOME.randint(1, 4), 16 * SOME.randint(1, 4), *(SOME.randint(1, 999) for _ in "fvt")]
    for _ in range(4)
]


@with_node
@pytest.mark.long
def test_javascript_gives_the_costs():
    results = in_javascript(
        f"{json.dumps(SHAPES)}.map((sizes) => Object.keys(DATA.costs).map((name) => [name, math.costs(name, sizes)]))"
    )
    for sizes, numbers in zip(SHAPES, results, strict=True):
        assert {name for name, _ in numbers} == set(FEW)
        for name, each in numbers:
            assert each == costs.counts(name, sizes), (name, sizes)


def test_counts_that_are_no_polynomials_are_left_out():
    assert costs.polynomials("denseformer-sparse") == {}
    fitted = costs.polynomials("vanilla")
    wrong = [(c + 1, *powers) for c, *powers in fitted["parameters"]]
    assert costs.value(fitted["parameters"], SHAPES[0]) == costs.counts("vanilla", SHAPES[0])["parameters"]
    assert costs.value(wrong, SHAPES[0]) != costs.counts("vanilla", SHAPES[0])["parameters"]


@with_node
def test_javascript_reads_the_plans():
    read = "Object.entries(of).map(([shape, [text]]) => [shape, math.plan(text)])"
    results = in_javascript(f"Object.entries(DATA.pictures).map(([name, of]) => [name, {read}])")
    assert {name for name, _ in results} == set(FEW)
    for name, shapes in results:
        assert len(shapes) == len(pictures.SHAPES)
        for shape, table in shapes:
            plan = resolve(name, Shape(*map(int, shape.split("x"))))
            for layer, row in enumerate(table, 1):
                for head, lists in enumerate(row, 1):
                    expected = [
                        [
                            (term.source.layer, term.source.head, term.source.kind == "e", term.source.shift)
                            for term in mix.terms
                        ]
                        for mix in plan.head(layer, head).values
                    ]
                    read = [[(t["layer"], t["head"], t["table"], t["shift"]) for t in terms] for terms in lists]
                    assert read == expected, (name, shape, layer, head)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vanilla", "/\n/"),
        ("skipv1", "/\n/1.2"),
        ("resformer", "/\n0.5:2.1&0.5:1.1/0.5:2.2&0.5:1.2"),
        ("skipv0", "/\n/x"),
        ("cross-layer", "/\n2.1|1.1/2.2|1.2"),
    ],
)
def test_plans_as_text(name, text):
    assert pictures.written(resolve(name, Shape(2, 2))) == text


def test_the_page_needs_nothing_else(monkeypatch):
    monkeypatch.setattr(explore, "_registered", lambda: FEW)
    page = explore._page(type("Few", (), {"names": type("Names", (), {"entries": {}})})())
    assert not re.findall(r"""src=|@import|https?://(?!www\.w3\.org/2000/svg)""", page)
    for control in re.findall(r'<(?:input type="range"|select) id="([\w-]+)"', page):
        assert f'<label for="{control}">' in page
    assert page.count('aria-live="polite"') == 4
    wanted = set(re.findall(r'(?:byId|number|rows|fill|plot)\(\s*"([\w-]+)"', page))
    assert wanted
    assert wanted <= set(re.findall(r'id="([\w-]+)"', page))
