"""What docstrings, messages and claims name is there: modules, what stands in them, files.  Nothing is imported."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("theory", "icl", "experiments")
DOTTED = re.compile(rf"(?<![\w./])(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
FILES = re.compile(rf"(?<![\w./])(?:{'|'.join((*PACKAGES, 'tests'))})/[\w./-]*\w")
INHERITED = "*"  # stands for the members of a class's bases, which are not looked up
QUOTED = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Module:
    """A file: the names at its top, with the members of those that are classes."""

    path: Path
    names: dict[str, set[str] | None]


@cache
def modules() -> dict[str, Module]:
    """Every module of the packages by its dotted name, packages included."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(path, dict(_top(ast.parse(path.read_text()).body)))
    return found


def _top(body: list[ast.stmt]) -> Iterator[tuple[str, set[str] | None]]:
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield name, set(_members(node))
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, None
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from ((n.id, None) for n in ast.walk(target) if isinstance(n, ast.Name))
                if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
                    yield from ((item, None) for item in ast.literal_eval(value))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name.partition(".")[0], None) for alias in names)
            case ast.If(body=inner) | ast.With(body=inner):
                yield from _top(inner)


def _members(node: ast.ClassDef) -> Iterator[str]:
    yield from (name for name, _ in _top(node.body))
    yield from [INHERITED] * len(node.bases)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
            yield inner.attr


def exists(dotted: str) -> bool:
    """Whether a module, a name in it, or a member of a class in it is called that."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        module = modules().get(".".join(parts[:cut]))
        if module is not None:
            return _in_module(module, parts[cut:])
    return False


def _in_module(module: Module, rest: list[str]) -> bool:
    if not rest:
        return True
    if rest[0] not in module.names:
        return False
    members = module.names[rest[0]] or set()
    return len(rest) == 1 or rest[1] in members or INHERITED in members


def quoted_exists(text: str, path: Path) -> bool:
    """Whether what stands in backticks in a file is called that: code of its own, a module, or a name in one."""
    name = re.match(r"[A-Za-z_][\w.]*", text)
    if name is None or not re.fullmatch(r"[\w.]+(\(.*\))?", text):
        return True  # an expression, an option, a claim's id
    if text.endswith(".py"):
        return any(module.path.name == text for module in modules().values())
    first, *rest = name.group().split(".")
    if first in PACKAGES:
        return exists(name.group())
    if not rest:
        return first in _all_identifiers()
    if name.group() in _all_strings():
        return True
    homes = [module for dotted, module in modules().items() if dotted.rpartition(".")[2] == first]
    classes = [module for module in modules().values() if module.names.get(first)]
    if any(_in_module(m, rest) for m in homes) or any(_in_module(m, [first, *rest]) for m in classes):
        return True
    return first in variables(path) or not (homes or classes or find_spec(first) is None)


@cache
def variables(path: Path) -> frozenset[str]:
    """Arguments and variables of a file's functions."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {n.id for n in nodes if isinstance(n, ast.Name)} | {n.arg for n in nodes if isinstance(n, ast.arg)}
    return frozenset(names.difference(*(m.names for m in modules().values() if m.path == path)))


@cache
def identifiers(path: Path) -> frozenset[str]:
    """Every name in a file's code."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return frozenset(token.string for token in tokens if token.type == tokenize.NAME)


@cache
def _all_identifiers() -> frozenset[str]:
    """Of all files: names in code, keys, and names of modules and packages."""
    parts = (part for name in modules() for part in name.split("."))
    return frozenset().union(*(identifiers(m.path) for m in modules().values()), _all_strings(), parts)


@cache
def _all_strings() -> frozenset[str]:
    """Every string in the packages that could be a name."""
    trees = (ast.parse(module.path.read_text()) for module in modules().values())
    strings = (n.value for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return frozenset(s for s in strings if isinstance(s, str) and re.fullmatch(r"[\w.]+", s))


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield text


def of_package(package: str) -> list[Path]:
    return [module.path for name, module in modules().items() if name.partition(".")[0] == package]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.long
def test_dotted_names_are_there(package):
    """In code, comments, docstrings and other strings."""
    missing = [(str(p), n) for p in of_package(package) for n in DOTTED.findall(p.read_text()) if not exists(n)]
    assert not missing


@pytest.mark.parametrize("package", PACKAGES)
def test_paths_are_there(package):
    """A part of a path in capitals stands for any name, as in theory/PAPER/paper.py."""
    missing = [
        (str(path), name)
        for path in of_package(package)
        for name in FILES.findall(path.read_text())
        if not any(ROOT.glob("/".join("*" if part.isupper() else part for part in name.split("/"))))
    ]
    assert not missing


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.long
def test_names_in_backticks_are_there(package):
    missing = [
        (str(path), name)
        for path in of_package(package)
        for text in docstrings(path)
        for name in QUOTED.findall(text)
        if not quoted_exists(name, path)
    ]
    assert not missing


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("theory.toy.width", True),
        ("theory.loss_gap", True),
        ("theory.toy.positions.TwoLayers.bias", True),
        ("theory.prompts.moments.PromptMoments.zero_loss", True),
        ("theory.width", False),
        ("theory.skipv1_w0", False),
        ("theory.toy.width.no_such_name", False),
        ("theory.toy.positions.TwoLayers.no_such_field", False),
    ],
)
@pytest.mark.long
def test_what_is_not_there_is_noticed(name, there):
    assert exists(name) is there
    assert quoted_exists(name, ROOT / "theory" / "toy" / "exact.py") is there
    short = name.removeprefix("theory.").removeprefix("toy.").removeprefix("prompts.")
    assert "." not in short or quoted_exists(short, ROOT / "theory" / "toy" / "exact.py") is there


FRAGMENT = re.compile(r"(Of|By|As|What|How|Whether|Those|Where|Whose|Which|With|That|Than|Per|Like)\b")


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_begin_with_what_stands_alone(package):
    fragments = [
        (str(p), text.splitlines()[0]) for p in of_package(package) for text in docstrings(p) if FRAGMENT.match(text)
    ]
    assert not fragments


def test_a_fragment_is_noticed():
    first = (
        "Of a head.",
        "As `wait`, alone.",
        "Whether it fits.",
        "Asymptotic size.",
        "Return the loss.",
        "In-context regression.",
    )
    assert [bool(FRAGMENT.match(text)) for text in first] == [True] * 3 + [False] * 3
