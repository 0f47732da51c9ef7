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
KNOWN = ("sqrt", "exp", "log", "tanh", "cos", "sin", "floor", "ceiling")
ALLOWED = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.operator, ast.unaryop, ast.Load)


@dataclass(frozen=True)
class ClosedForm:
    """A function: its name, what it returns as LaTeX, and the first sentence of its docstring."""

    name: str
    latex: str
    says: str


def closed_forms(module: ModuleType) -> list[ClosedForm]:
    """Of the public functions of a module that return one expression in their arguments."""
    return [form for name, function in vars(module).items() if (form := _form(module, name, function))]


def _form(module: ModuleType, name: str, function: Any) -> ClosedForm | None:
    if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
        return None
    expression = _returned(function)
    if expression is None or not isinstance(expression, ast.BinOp):
        return None
    try:
        latex = _latex(expression)
    except (ValueError, TypeError, SyntaxError, AttributeError):
        return None
    says = (inspect.getdoc(function) or "").partition("\n\n")[0]
    return ClosedForm(name, latex, says)


def _returned(function: Any) -> ast.expr | None:
    """The one expression that a function returns, checks of its arguments aside."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, SyntaxError, ValueError):
        return None
    body = [line for line in getattr(tree, "body", []) if not isinstance(line, ast.Expr)]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        return None
    value = body[0].value
    return value if all(isinstance(node, ALLOWED) for node in ast.walk(value)) else None


def _latex(expression: ast.expr) -> str:
    import sympy

    formula = _symbolic(expression)
    words = {
        symbol: rf"\mathrm{{{symbol.name.replace('_', '-')}}}\,"
        for symbol in formula.free_symbols
        if _is_word(symbol.name)
    }
    found: str = sympy.latex(formula, order="none", symbol_names=words)
    return found


def _is_word(name: str) -> bool:
    """Whether a name is set upright: neither one letter, with or without a subscript, nor Greek."""
    from sympy.printing.latex import greek_letters_set

    return len(name.partition("_")[0]) > 1 and name not in {*greek_letters_set, "varepsilon"}


def _symbolic(node: ast.expr) -> Any:
    """The expression in sympy's terms, in the order in which it is written."""
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
    if name.startswith("_") or hasattr(builtins, name):
        raise ValueError(name)
    return sympy.Function(name.replace("_", "-"))(*arguments)


def _operation(operator: ast.operator, left: Any, right: Any) -> Any:
    import sympy

    match operator:
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
