"""A digest of definitions changes with what can be reached, and with nothing else; what runs was reached."""

import importlib
import sys
from pathlib import Path

import pytest

import theory
from experiments import catalogue
from experiments.ledger.verify import evidence_digest, evidence_roots, outcomes
from experiments.store import definitions, sources
from experiments.store.definitions import ALL, definition_digest, reached

ONE = '''
from made_up import registry
from made_up.two import g, unused
from made_up.three import table as rows


def f():
    """What f is."""
    from made_up.four import h

    return g() + h() + rows["a"]


def lonely():
    return 2


CLAIM = registry.Claim()


@CLAIM.check("it is so")
def check():
    return f()


OTHER = registry.Claim()


@OTHER.check("that, too")
def other_check():
    return lonely()
'''
TEXTS = {
    "one": ONE,
    "two": "def g():\n    return LIMIT\n\ndef unused():\n    return 1\n\nLIMIT = 3\nLOOSE = 4\n",
    "three": "table = {}\nfor key in 'ab':\n    table[key] = key\n",
    "four": "import made_up.five as five\n\ndef h():\n    return five.least(2)\n",
    "five": "def least(n: int) -> int:\n    return n\n\ndef most(m: int) -> int:\n    return m\n\n"
    "def least_of(n: int) -> int:\n    return 1\n",
    "registry": "class Claim:\n    def check(self, what):\n        return lambda f: f\n\ndef enter(f):\n    return f\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """write(name, old, new) changes a module of a package on the path; every digest is computed again."""
    folder = tmp_path / "made_up"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name, text in TEXTS.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made_up", raising=False)

    def forget():
        importlib.invalidate_caches()
        for function in (sources.path_of, sources.tree_of, *definitions.REMEMBERED):
            function.cache_clear()

    def write(name, old, new):
        text = (folder / f"{name}.py").read_text()
        assert old in text
        (folder / f"{name}.py").write_text(text.replace(old, new))
        forget()

    forget()
    yield write
    forget()


def digest(*whole):
    return definition_digest([("made_up.one", "CLAIM")], whole=whole)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("one", "What f is", "What f was"),
        ("one", "return 2", "return 3"),
        ("one", "def lonely", "# A comment.\ndef lonely"),
        ("one", "import g, unused", "import LOOSE, g, unused"),
        ("one", "that, too", "that as well"),
        ("two", "return 1", "return 2"),
        ("two", "LOOSE = 4", "LOOSE = 5"),
        ("registry", "def enter(f):", "def entering(f):"),
    ],
)
def test_what_is_not_reached_does_not_count(package, module, old, new):
    before = digest()
    package(module, old, new)
    assert digest() == before


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("one", "g() + h()", "g() - h()"),
        ("one", "it is so", "it is not so"),
        ("one", "return f()", "return not f()"),
        ("one", "from made_up.two import g,", "from made_up.three import g,"),
        ("two", "LIMIT = 3", "LIMIT = 4"),
        ("three", "'ab'", "'abc'"),
        ("four", "five.least(2)", "five.most(2)"),
        ("five", "return n", "return n + 0"),
        ("five", "return 1", "return 2"),  # a function of the same signature may be tried in the place of `least`
        ("registry", "lambda f: f", "lambda f: None"),
    ],
)
def test_what_is_reached_counts(package, module, old, new):
    before = digest()
    package(module, old, new)
    assert digest() != before


def test_whole_modules_and_modules_as_values_count(package):
    before, whole = digest(), digest("made_up.two")
    package("two", "LOOSE = 4", "LOOSE = 5")
    assert digest() == before
    assert digest("made_up.two") != whole
    package("one", "return f()", "return f(registry)")
    before = digest()
    package("registry", "return f\n", "return None\n")
    assert digest() != before


def test_what_a_decorator_of_ours_enters_counts_with_its_module(package):
    before = digest()
    package("two", "def unused", "from made_up.registry import enter\n\n@enter\ndef unused")
    after = digest()
    assert after != before
    package("two", "return 1", "return 2")
    assert digest() != after


ROOT = f"{Path(theory.__file__).parents[1]}/"


def module_of(code):
    """The module of ours that code stands in; "" for others' code."""
    inside = code.co_filename.removeprefix(ROOT)
    named = inside.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return named if named.partition(".")[0] in sources.ROOTS else ""


def run_by(claim):
    """The functions and classes of ours that its checks run, but for what runs while a module is imported."""
    found = set()

    def note(frame, event, _):
        code = frame.f_code
        if event != "call" or code.co_qualname[0] == "<" or not module_of(code):
            return
        above = frame.f_back
        while above is not None:
            if above.f_code.co_name == "<module>" and module_of(above.f_code):
                return
            above = above.f_back
        found.add((module_of(code), code.co_qualname.partition(".")[0]))

    sys.setprofile(note)
    try:
        outcomes(claim)
    finally:
        sys.setprofile(None)
    return {node for node in found if not node[0].startswith("experiments.ledger.")}


SAMPLE = (
    "skipv1.eckart-young",
    "skipv1.table-2-cache",
    "resformer.neutreno-eqn8",
    "resformer.fig-13-cache",
    "dva.table-1",
    "attnres.semiseparable-rank",
    "toy.head-ratio",
)


@pytest.mark.parametrize(
    "name",
    [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in catalogue.claims()],
)
@pytest.mark.long
def test_what_an_entry_runs_was_reached(name):
    claim = catalogue.claims()[name]
    ran, found = run_by(claim), reached(evidence_roots(claim))
    assert ran
    assert {node for node in ran if node not in found and (node[0], ALL) not in found} == set()


def test_an_entry_does_not_hang_on_what_stands_beside_it():
    """As every plan did on the accounting, before definitions were told apart."""
    found = reached(evidence_roots(catalogue.claims()["skipv1.noise-outweighs"]))
    assert "theory.plans.accounting" not in {module for module, _ in found}
    assert evidence_digest(catalogue.claims()["skipv1.gap"]) != evidence_digest(catalogue.claims()["skipv1.limit"])
