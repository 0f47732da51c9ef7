"""A digest of the source that something runs: what its modules import, without comments and docstrings.

So a comment, another experiment or a stranger's paper changes no digest, and a resumed run or a remembered verdict is
one of the very same code.  Only source that belongs to a project counts: ours, and the package that asks.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOTS = ("theory", "icl", "experiments")
# What some modules load by name from every paper's room of ours.
LOADED = {
    "theory.plans.registry": ("theory.{}.variants", "theory.{}.presets"),
    "experiments.across.printed": ("experiments.{}.printed",),
}

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def source_digest(*modules: str) -> str:
    """Return a digest of these modules and all that they import, anywhere in files, from our packages and their own."""
    digest = hashlib.sha256()
    for module in closure(modules):
        digest.update(f"{module}\0{_code(module)}\0".encode())
    return digest.hexdigest()[:12]


def closure(modules: Iterable[str]) -> list[str]:
    """Return the modules and what they import, in alphabetical order."""
    roots = frozenset((*ROOTS, *(module.partition(".")[0] for module in modules)))
    waiting, names = list(modules), set()
    while waiting:
        module = waiting.pop()
        if module in names or path_of(module) is None:
            continue
        names.add(module)
        waiting += [name for name in _imports(module) if name.partition(".")[0] in roots]
        waiting += loaded(module)
    return sorted(names)


def loaded(module: str) -> list[str]:
    """Return what a module loads by name: modules of every paper's room of ours, there or not."""
    return [name.format(room) for name in LOADED.get(module, ()) for room in _papers()]


@cache
def _papers() -> list[str]:
    """Return the names of our papers' rooms, found without importing any."""
    package = path_of("theory")
    return sorted(file.parent.name for file in package.parent.glob("*/paper.py")) if package else []


def is_package(module: str) -> bool:
    path = path_of(module)
    return path is not None and path.name == "__init__.py"


@cache
def path_of(module: str) -> Path | None:
    """Return a module's file, found without importing it; None for other names, such as a function's dotted name."""
    root, *parts = module.split(".")
    spec = find_spec(root)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    places = [Path(folder, *parts) for folder in folders]
    files = [file for place in places for file in (place / "__init__.py", place.with_name(f"{place.name}.py"))]
    return next((file for file in files if file.is_file()), None)


@cache
def tree_of(module: str) -> ast.Module:
    """Return a module's source without comments and docstrings."""
    path = path_of(module)
    assert path is not None
    tree = ast.parse(path.read_bytes())
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, DOCUMENTED) and _has_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        waiting += _statements(node)
    return tree


def _statements(node: ast.AST) -> list[ast.AST]:
    """Return the statements right below a statement; no expression holds any."""
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, BLOCKS)]


def _has_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


@cache
def _code(module: str) -> str:
    return hashlib.sha256(ast.dump(tree_of(module)).encode()).hexdigest()


@cache
def _imports(module: str) -> frozenset[str]:
    """Return dotted names that it imports, packages above them included; nothing that only type checkers import."""
    names = {name for statement in _run(tree_of(module)) for name in _named(statement, module)}
    return frozenset(above for name in (*names, module) for above in prefixes(name))


def _run(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in _statements(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in (
            getattr(child.test, "id", ""),
            getattr(child.test, "attr", ""),
        ):
            for other in child.orelse:
                yield from _run(other)
        else:
            yield from _run(child)


def _named(statement: ast.Import | ast.ImportFrom, module: str) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    base = imported_from(statement, module)
    yield base
    yield from (f"{base}.{alias.name}" for alias in statement.names)


def imported_from(statement: ast.ImportFrom, module: str) -> str:
    """Return the dotted name of what a statement of a module imports from, relative or not."""
    if not statement.level:
        return statement.module or ""
    package = module if is_package(module) else module.rpartition(".")[0]
    parents = package.split(".")[: len(package.split(".")) - statement.level + 1]
    return ".".join([*parents, *filter(None, [statement.module])])


def prefixes(name: str) -> Iterator[str]:
    """Yield a dotted name's packages, from the outermost, and the name itself."""
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))
