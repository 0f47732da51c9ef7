"""A digest of the definitions that can be reached from some: what they name, and what that names, across our modules.

It is finer than `experiments.store.sources`, where a change anywhere in a module is one of all that import it.  What is
reached is found in the source alone, so nothing is imported; where that cannot tell, more is taken than is needed:

    a module that is used as a value, or named in a string          all of it
    a decorator on an object of the module, as `@CLAIM.check(...)`  reached from that object
    any other decorator of ours, and statements that bind nothing   reached with the module
    functions beside one, with its very signature                   reached from it, as they may be tried in its place
    modules that are loaded by name (`sources.LOADED`)              all of them, from the module that loads them

Methods are not told apart: a class is one definition.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from experiments.store.sources import ROOTS, imported_from, loaded, path_of, prefixes, tree_of

Node = tuple[str, str]  # a module and a name at its top; "" for the statements that bind none, ALL for everything
EFFECTS, ALL = "", "*"
DOTTED = re.compile(rf"(?:{'|'.join(ROOTS)})(?:\.\w+)+")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
OURS = set(ROOTS)  # packages whose source counts; those that ask join them
COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


@dataclass
class Module:
    """The statements and names at the top of a module.

    bound    statements by the names that they bind
    effects  statements that bind no name, and definitions that a decorator of ours may enter somewhere
    imports  by the name that is bound: the module, and the name in it or ALL for the module itself
    entered  definitions by the object of this module that decorates them
    """

    name: str
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)
    effects: list[ast.stmt] = field(default_factory=list)
    imports: dict[str, Node] = field(default_factory=dict)
    entered: dict[str, list[str]] = field(default_factory=dict)


def definition_digest(roots: Iterable[Node], *, whole: Iterable[str] = ()) -> str:
    """Return the digest of all that these definitions reach.

    Args:
        roots: modules and names at their tops.
        whole: modules of which every definition counts.
    """
    digest = hashlib.sha256()
    for node in sorted(reached([*roots, *((name, ALL) for name in whole)])):
        digest.update(f"{node[0]}\0{node[1]}\0{_code(node)}\0".encode())
    return digest.hexdigest()[:12]


def reached(roots: Collection[Node]) -> set[Node]:
    """Return the definitions that these reach, themselves included."""
    if new := {module.partition(".")[0] for module, _ in roots} - OURS:
        OURS.update(new)
        for remembered in REMEMBERED:
            remembered.cache_clear()
    waiting, nodes = list(roots), set[Node]()
    while waiting:
        node = waiting.pop()
        if node not in nodes and _is_ours(node[0]):
            nodes.add(node)
            waiting += _references(node)
    return nodes


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in OURS and path_of(module) is not None


@cache
def _code(node: Node) -> str:
    return hashlib.sha256("\0".join(map(ast.dump, _statements(node))).encode()).hexdigest()


def _statements(node: Node) -> list[ast.stmt]:
    module, name = _module(node[0]), node[1]
    return module.effects if name == EFFECTS else module.bound.get(name, [])


@cache
def _references(node: Node) -> frozenset[Node]:
    module, name = _module(node[0]), node[1]
    references = {(package, EFFECTS) for package in prefixes(module.name)}
    if name == ALL:
        return frozenset({*references, *((module.name, each) for each in (*module.bound, *module.imports))})
    references |= {(other, ALL) for other in loaded(module.name)}
    references |= {(module.name, each) for each in module.entered.get(name, ())}
    if target := module.imports.get(name):
        references |= set(_target(*target))
    for statement in _statements(node):
        references |= set(_named(module, statement))
        if isinstance(statement, FUNCTIONS):
            references |= {(module.name, other) for other in _alike(module.name).get(_signature(statement), ())}
    return frozenset(references)


def _named(module: Module, statement: ast.stmt) -> Iterator[Node]:
    """Yield what a statement names: globals of its module, what it imports, modules in strings."""
    imports = dict(module.imports)
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _imported(node, module.name)
    behind = {  # names of modules of which an attribute alone is used
        id(node.value): (_module_named(*imports[node.value.id]), node.attr)
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and _is_import(imports, node.value.id)
    }
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            if id(node) in behind:
                yield from _target(*behind[id(node)])
            elif node.id in imports:
                yield from _target(*imports[node.id])
            elif node.id in module.bound:
                yield module.name, node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for name in DOTTED.findall(node.value):
                yield from ((part, ALL) for part in (name, name.rpartition(".")[0]) if "." in part and _is_ours(part))
        elif isinstance(node, ast.ImportFrom):
            yield from (each for target in _imported(node, module.name).values() for each in _target(*target))


def _is_import(imports: dict[str, Node], name: str) -> bool:
    target = imports.get(name)
    return target is not None and (target[1] == ALL or _is_ours(".".join(target)))


def _module_named(module: str, name: str) -> str:
    return module if name == ALL else f"{module}.{name}"


def _target(module: str, name: str) -> Iterator[Node]:
    """Yield the definition that a name of a module stands for; all of a module, where it is one."""
    if name == ALL:
        yield module, ALL
    elif _is_ours(f"{module}.{name}"):
        yield f"{module}.{name}", ALL
    elif _is_ours(module):
        yield module, name
        if name not in _module(module).bound and name not in _module(module).imports:  # by its `__getattr__`
            yield module, ALL


@cache
def _alike(module: str) -> dict[str, list[str]]:
    """Return the functions at a module's top that have arguments and results of the same names and types."""
    by_signature: dict[str, list[str]] = {}
    for name, statements in _module(module).bound.items():
        for statement in statements:
            if isinstance(statement, FUNCTIONS) and statement.returns is not None and statement.args.args:
                by_signature.setdefault(_signature(statement), []).append(name)
    return {signature: names for signature, names in by_signature.items() if len(names) > 1}


def _signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return f"{ast.dump(function.args)} -> {ast.dump(function.returns) if function.returns else None}"


@cache
def _module(name: str) -> Module:
    module = Module(name)
    for statement in tree_of(name).body:
        _enter(module, statement)
    for name, statements in module.bound.items():
        for statement in statements:
            for decorator in getattr(statement, "decorator_list", ()):
                _enter_decorated(module, name, statement, decorator=decorator)
    return module


def _enter(module: Module, statement: ast.stmt) -> None:
    match statement:
        case ast.Import() | ast.ImportFrom():
            module.imports |= _imported(statement, module.name)
            if ALL in module.imports:
                module.effects.append(statement)
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            for each in statement.orelse:
                _enter(module, each)
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Name(id="TYPE_CHECKING"))):
            for each in statement.body:
                _enter(module, each)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            module.bound.setdefault(statement.name, []).append(statement)
        case ast.Assign() | ast.AnnAssign() if names := [*_stored(statement)]:
            for name in names:
                module.bound.setdefault(name, []).append(statement)
        case ast.Pass():
            return
        case _:
            module.effects.append(statement)
            if isinstance(statement, COMPOUND):
                for part in ast.walk(statement):
                    if isinstance(part, ast.Import | ast.ImportFrom):
                        module.imports |= _imported(part, module.name)
                    for name in _bound_in(part):
                        module.bound.setdefault(name, []).append(statement)


def _stored(statement: ast.AST) -> Iterator[str]:
    yield from (n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _bound_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def _enter_decorated(module: Module, name: str, statement: ast.stmt, decorator: ast.expr) -> None:
    root: ast.expr = decorator
    while isinstance(root, ast.Call | ast.Attribute):
        root = root.func if isinstance(root, ast.Call) else root.value
    if not isinstance(root, ast.Name):
        module.effects.append(statement)
    elif root.id in module.imports:
        if _is_ours(module.imports[root.id][0]):
            module.effects.append(statement)
    elif root.id in module.bound:
        module.entered.setdefault(root.id, []).append(name)


def _imported(statement: ast.Import | ast.ImportFrom, module: str) -> dict[str, Node]:
    if isinstance(statement, ast.Import):
        return {
            (a.asname or a.name.partition(".")[0]): (a.name if a.asname else a.name.partition(".")[0], ALL)
            for a in statement.names
        }
    base = imported_from(statement, module)
    return {(a.asname or a.name): (base, a.name) for a in statement.names}


REMEMBERED = (_code, _references, _alike, _module)
