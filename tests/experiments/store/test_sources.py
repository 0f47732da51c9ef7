"""What a digest of source covers: everything that is imported, and nothing else."""

import importlib
import sys

import pytest

from experiments.store import sources


@pytest.fixture
def package(tmp_path, monkeypatch):
    """write(name, text) puts a module into a package that is on the path; every digest is taken afresh."""
    folder = tmp_path / "made_up"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made_up", raising=False)

    def write(name, text):
        (folder / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        for remembered in (sources._path, sources._tree, sources._code, sources._imports):
            remembered.cache_clear()

    return write


def digest():
    return sources.source_digest("made_up.one")


ONE = '"""One."""\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made_up import typed\n' + (
    "def f():\n    '''What f is.'''\n    from made_up.two import g\n    return g()\n"
)


def test_comments_docstrings_and_what_is_not_imported_do_not_count(package):
    package("one", ONE)
    package("two", "def g():\n    return 1\n")
    package("typed", "x = 1\n")
    package("stranger", "x = 1\n")
    before = digest()
    package("one", "# A comment.\n\n" + ONE.replace("One.", "Another one.").replace("What f is", "What f was"))
    package("typed", "x = 2\n")
    package("stranger", "x = 2\n")
    assert digest() == before


@pytest.mark.parametrize("changed", ["one", "two"])
def test_code_counts_wherever_it_is_imported(package, changed):
    texts = {"one": ONE, "two": "def g():\n    return 1\n"}
    for name, text in texts.items():
        package(name, text)
    before = digest()
    package(changed, texts[changed] + "x = 0\n")
    assert digest() != before


def test_relative_imports_and_packages_above(package):
    package("one", "from . import two\nfrom .three import x\n")
    package("two", "")
    package("three", "x = 1\n")
    assert sources.closure(["made_up.one"]) == ["made_up", "made_up.one", "made_up.three", "made_up.two"]


def test_an_experiment_covers_what_variants_mean_but_no_other_experiment():
    found = sources.closure(["experiments.across.orderings.experiment"])
    named = {"theory.skipv1.variants", "theory.resformer.variants", "experiments.attnres.printed"}
    assert {*named, "theory.toy.value_maps"} <= set(found)
    strangers = ("experiments.skipv1.gap", "experiments.skipv1.claims", "experiments.across.ladder")
    assert not {name for name in found if name.startswith(strangers)}
    assert "experiments.cli.parser" not in found
