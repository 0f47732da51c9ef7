"""Functions whose source is altered: a constant, an operator, a comparison or a reduction inside it is another one.

What `alterations` does to results misses an error that only some inputs show: a term that is a fifth too large beside
larger ones, the least eigenvalue in place of the largest.  So each place of a function is altered on its own.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
PAIRS = (("max", "min"), ("argmax", "argmin"), ("maximum", "minimum"), ("any", "all"), ("floor", "ceil"))
REDUCTIONS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])} | {"sum": "max"}
PARTS = (ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp, ast.Tuple, ast.List, ast.Slice, ast.Starred, ast.keyword)
SHARE = 1.2  # of a number that is not whole, 0.0 is 1.0; a whole one is one more


@dataclass(frozen=True)
class Rewriting:
    """One place of a function's source, altered.

    name  the place's number in the function, which neither comments nor layout change; then "what stood there -> what
          stands there now", the smallest operation or call around the place, as `ast.unparse` writes it
    code  what the function then does
    """

    name: str
    code: CodeType

    def applied(self, function: FunctionType) -> FunctionType:
        """Return a function of the same signature and globals that runs the altered source."""
        altered = FunctionType(self.code, function.__globals__, function.__name__, function.__defaults__)
        altered.__kwdefaults__ = function.__kwdefaults__
        return altered


def rewritings(function: FunctionType) -> list[Rewriting]:
    """Return every alteration of one place in the function's body; none of a closure, or without its source."""
    if function.__code__.co_freevars:
        return []
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return []
    found = []
    for place in range(len(list(_places(_definition(source))))):
        tree = ast.parse(source)
        node = _definition(source, tree)
        around, change = list(_places(node))[place]
        before = ast.unparse(around)
        change()
        name = f"place {place + 1}: {before} -> {ast.unparse(around)}"
        node.decorator_list = []
        # Defaults and annotations are the original's: they are not evaluated again.
        node.args.defaults, node.returns = [ast.Constant(None) for _ in node.args.defaults], None
        node.args.kw_defaults = [default and ast.Constant(None) for default in node.args.kw_defaults]
        code = compile(ast.fix_missing_locations(tree), f"<{function.__qualname__}, {name}>", "exec", 0, True)
        (body,) = (c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == node.name)
        found.append(Rewriting(name, body))
    return found


def _definition(source: str, tree: ast.Module | None = None) -> ast.FunctionDef:
    node = (tree or ast.parse(source)).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise TypeError(f"no function's source: {source.splitlines()[0]}")
    return node


def _places(definition: ast.FunctionDef) -> Iterator[tuple[ast.expr, Callable[[], None]]]:
    """Yield the places in the body that can be altered: the expression around, what alters it."""
    skipped = {
        id(node) for raised in ast.walk(definition) if isinstance(raised, ast.Raise) for node in ast.walk(raised)
    }
    skipped |= {id(node) for text in ast.walk(definition) if isinstance(text, ast.JoinedStr) for node in ast.walk(text)}
    parents = {id(child): node for node in ast.walk(definition) for child in ast.iter_child_nodes(node)}
    for statement in definition.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr) and id(node) not in skipped:
                yield from ((_around(node, parents), change) for change in _changes(node))


def _around(node: ast.expr, parents: Mapping[int, ast.AST]) -> ast.expr:
    """Return the smallest expression around a place that shows what is computed there."""
    around: ast.AST = node
    while isinstance(around, PARTS) and isinstance(parent := parents[id(around)], ast.expr | ast.keyword):
        around = parent
    return around if isinstance(around, ast.expr) else node


def _changes(node: ast.AST) -> Iterator[Callable[[], None]]:
    match node:
        case ast.Constant(value=bool() | None):
            return
        case ast.Constant(value=int(number)):
            yield lambda: setattr(node, "value", number + 1)
        case ast.Constant(value=float(number)):
            yield lambda: setattr(node, "value", number * SHARE if number else 1.0)
        case ast.BinOp(op=operator) if instead := OPERATORS.get(type(operator)):
            yield lambda: setattr(node, "op", instead())
            if isinstance(operator, ast.Add | ast.Sub):  # the second term, a fifth larger
                yield lambda: _scale(node)
        case ast.Compare(ops=[operator]) if other := COMPARISONS.get(type(operator)):
            yield lambda: setattr(node, "ops", [other()])
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in REDUCTIONS:
            where = "id" if isinstance(node, ast.Name) else "attr"
            yield lambda: setattr(node, where, REDUCTIONS[name])


def _scale(node: ast.BinOp) -> None:
    share = ast.BinOp(ast.Constant(6), ast.Mult(), node.right)
    node.right = ast.BinOp(share, ast.Div(), ast.Constant(5))
