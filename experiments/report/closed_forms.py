"""Closed forms as the code computes them: the returned expression of short functions, read by sympy and set as LaTeX.

They are read from the source, not run, so that page and code cannot differ.  A call of another function stays a call.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from dataclasses import dataclass
from types import ModuleType
from typing import Any

LETTERS = {"rank": "a", "eps": "varepsilon"}
WRITTEN = {"signal_share": "rho", "zero_loss": "L_0"}  # at d, n and sigma
SHOWN = {"abs": "Abs", "max": "Max", "min": "Min"}
SAME = ("float", "Fraction")
LONGEST = 20  # operations of a formula that says more than its code
KNOWN = ("sqrt", "exp", "log", "tanh", "cos", "sin", "floor", "ceiling")
ALLOWED = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.operator, ast.unaryop, ast.Load)


@dataclass(frozen=True)
class ClosedForm:
    """A function: its name, what it returns as LaTeX, and the first sentence of its docstring."""

    name: str
    latex: str
    says: str


def closed_forms(thing: Any) -> list[ClosedForm]:
    """Return the closed forms of a module's public functions, or of one function.

    They are of those functions that return one expression in their arguments.
    """
    own = {name: each for name, each in vars(thing).items() if _is_of(each, thing)} if inspect.ismodule(thing) else {}
    functions = own or ({thing.__name__: thing} if inspect.isfunction(thing) else {})
    return [form for name, function in functions.items() if (form := _form(name, function))]


def _is_of(thing: Any, module: ModuleType) -> bool:
    return inspect.isfunction(thing) and thing.__module__ == module.__name__ and not thing.__name__.startswith("_")


def _form(name: str, function: Any) -> ClosedForm | None:
    expression = _returned(function)
    if expression is None:
        return None
    try:
        latex = _latex(expression)
    except (ValueError, TypeError, SyntaxError, AttributeError):
        return None
    says = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return ClosedForm(name, latex, says)


def _returned(function: Any) -> ast.expr | None:
    """Return the one expression that a function returns, with local names replaced by what they stand for.

    Checks of its arguments are left out.  The result is None for a function that does more, or only calls another.
    """
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, ValueError):
        return None
    lines = [line for line in getattr(tree, "body", []) if not (isinstance(line, ast.Expr) or _checks(line))]
    if not lines or not isinstance(last := lines[-1], ast.Return) or last.value is None:
        return None
    named: dict[str, ast.expr] = {}
    for line in lines[:-1]:
        if not isinstance(line, ast.Assign) or len(line.targets) != 1:
            return None
        names, values = _parts(line.targets[0]), _parts(line.value)
        if len(names) != len(values) or not all(isinstance(name, ast.Name) for name in names):
            return None
        put = [_Put(named).visit(value) for value in values]
        named |= {name.id: value for name, value in zip(names, put, strict=True) if isinstance(name, ast.Name)}
    value: ast.expr = _Put(named).visit(last.value)
    computes = isinstance(value, ast.BinOp) or (isinstance(value, ast.Call) and ast.unparse(value.func) in SHOWN)
    nodes = list(ast.walk(value))
    short = sum(isinstance(node, ast.BinOp) for node in nodes) <= LONGEST
    return value if computes and short and all(isinstance(node, ALLOWED) for node in nodes) else None


def _checks(line: ast.stmt) -> bool:
    return isinstance(line, ast.If) and not line.orelse and all(isinstance(each, ast.Raise) for each in line.body)


def _parts(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


class _Put(ast.NodeTransformer):
    """A transformer that replaces names by their expressions, and leaves out what only changes a number's type."""

    def __init__(self, named: dict[str, ast.expr]) -> None:
        self.named = named

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.named.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) in SAME and len(node.args) == 1:
            return self.visit(node.args[0])
        return self.generic_visit(node)


def expression(function: Any) -> Any:
    """Return what a function computes as a sympy expression in the names of its arguments.

    Calls with a letter of their own in formulas are symbols; see `WRITTEN`.  Raises ValueError for a function that does
    not return one expression.
    """
    returned = _returned(function)
    if returned is None:
        raise ValueError(f"{function.__name__} returns no single expression")
    return _symbolic(returned)


def _latex(expression: ast.expr) -> str:
    import sympy

    formula = _symbolic(expression)
    words = {
        symbol: rf"\mathrm{{{symbol.name.replace('_', '-')}}}\,"
        for symbol in formula.free_symbols
        if _is_word(symbol.name)
    }
    latex: str = sympy.latex(formula, order="none", symbol_names=words)
    return latex


def _is_word(name: str) -> bool:
    """Return whether a name is set upright: neither one letter, with or without a subscript, nor Greek."""
    from sympy.printing.latex import greek_letters_set

    return len(name.partition("_")[0]) > 1 and name not in {*greek_letters_set, "varepsilon"}


def _symbolic(node: ast.expr) -> Any:
    """Return the expression in sympy's terms, in the order in which it is written."""
    import sympy

    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return sympy.sympify(node.value)
    if isinstance(node, ast.Name | ast.Attribute):
        return sympy.Symbol(_letter(node))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return sympy.Mul(-1, _symbolic(node.operand), evaluate=False)
    if isinstance(node, ast.Call) and not node.keywords:
        return _called(_letter(node.func), [_symbolic(argument) for argument in node.args])
    if isinstance(node, ast.BinOp):
        return _operation(node.op, _symbolic(node.left), _symbolic(node.right))
    raise ValueError(node)


def _called(name: str, arguments: list[Any]) -> Any:
    import sympy

    if name in WRITTEN and [str(argument) for argument in arguments] == ["d", "n", "sigma"]:
        return sympy.Symbol(WRITTEN[name])
    if name in KNOWN:
        return getattr(sympy, name)(*arguments, evaluate=False)
    if name in SHOWN and (name == "abs" or len(arguments) > 1):
        return getattr(sympy, SHOWN[name])(*arguments, evaluate=False)
    if name == "Fraction" and len(arguments) == 2:
        return _operation(ast.Div(), *arguments)
    if name == "expm1":
        return sympy.Add(sympy.exp(*arguments, evaluate=False), -1, evaluate=False)
    if name.startswith("_") or hasattr(builtins, name):
        raise ValueError(name)
    return sympy.Function(name.replace("_", "-"))(*arguments)


def _operation(operator: ast.operator, left: Any, right: Any) -> Any:
    import sympy

    match operator:
        case ast.Mult() if 0 in (left, right):  # of a type that is kept
            return sympy.Integer(0)
        case ast.Add() if right == 0:
            return left
        case ast.Add():
            return sympy.Add(*_terms(left), right, evaluate=False)
        case ast.Sub():
            return sympy.Add(*_terms(left), sympy.Mul(-1, right, evaluate=False), evaluate=False)
        case ast.Mult():
            return sympy.Mul(left, right, evaluate=False)
        case ast.Div():
            below = sympy.Pow(right, -1, evaluate=False)
            return below if left == 1 else sympy.Mul(left, below, evaluate=False)
        case ast.FloorDiv():
            return sympy.floor(sympy.Mul(left, sympy.Pow(right, -1, evaluate=False), evaluate=False), evaluate=False)
        case ast.Pow():
            return sympy.Pow(left, right, evaluate=False)
    raise ValueError(operator)


def _terms(value: Any) -> tuple[Any, ...]:
    return tuple(value.args) if value.is_Add else (value,)


def _letter(node: ast.expr) -> str:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if not name:
        raise ValueError(node)
    return LETTERS.get(name, name)
