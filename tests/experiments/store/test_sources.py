"""Digests of source cover what is imported and nothing else; names are remembered until a file of source changes."""

import importlib
import sys

import pytest

from experiments.store import names, sources
from experiments.store.names import Lazy, remembered


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
        for function in (sources.path_of, sources.tree_of, sources._code, sources._imports):
            function.cache_clear()

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


# Names; what is asked for by name is loaded alone.


def test_values_are_made_when_they_are_asked_for():
    made = []
    lazy = Lazy({name: lambda name=name: made.append(name) or name.upper() for name in "abc"}, dict.fromkeys("abc", 0))
    assert (list(lazy), len(lazy), "b" in lazy, "d" in lazy, made) == (["a", "b", "c"], 3, True, False, [])
    assert (lazy["b"], lazy["b"], made) == ("B", "B", ["b"])
    lazy["d"] = "own"
    del lazy["a"]
    assert dict(lazy) == {"b": "B", "c": "C", "d": "own"}
    with pytest.raises(KeyError):
        lazy["a"]


def test_names_are_found_again_when_a_file_has_changed_or_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def find():
        calls.append(1)
        return {"a": len(calls)}

    assert [remembered("things", find) for _ in range(2)] == [{"a": 1}] * 2
    monkeypatch.setattr(names, "_files", lambda: "others")
    assert [remembered("things", find) for _ in range(2)] == [{"a": 2}] * 2
    (path,) = tmp_path.rglob("things.json")
    path.write_text(path.read_text().replace('"a": 2', '"a": 7'))
    assert [remembered("things", find) for _ in range(2)] == [{"a": 3}] * 2


def test_an_edit_a_new_and_a_lost_file_change_the_digest(tmp_path, monkeypatch):
    package = tmp_path / "madeup"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(names, "ROOTS", ("madeup",))
    digest = names._files.__wrapped__
    digests = [digest()]
    for change in (
        lambda: (package / "one.py").write_text("x = 1"),
        lambda: (package / "one.py").write_text("x = 12"),
        lambda: (package / "one.py").unlink(),
    ):
        change()
        digests.append(digest())
    assert len(set(digests)) == 3
    assert digests[0] == digests[3]
