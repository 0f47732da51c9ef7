"""The closed forms of SkipV1Former's theorem as JavaScript, read from the functions of `theory` that compute them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.report.closed_forms import expression
from theory.plans.setting import Setting
from theory.skipv1 import gap

ARGUMENTS = ("d", "n", "sigma", "a")


def expressions() -> dict[str, Any]:
    """Return the numbers of `theory.skipv1.gap.loss_gap`, and the loss of predicting zero, as sympy expressions.

    Their symbols are `ARGUMENTS`, where a is the rank.
    """
    import sympy

    d, rank = sympy.symbols("d a")
    known: dict[Any, Any] = {}
    for name, symbol in (("signal", "signal"), ("signal_share", "rho"), ("zero_loss", "L_0")):
        known[sympy.Symbol(symbol)] = expression(getattr(Setting, name).fget).subs(known).doit()
    mha, skipv1 = (expression(each).subs(known).doit() for each in (gap.mha_explained, gap.skipv1_explained))
    zero = known[sympy.Symbol("L_0")]
    best_mha, best_skipv1 = mha.subs(rank, gap.best_mha_rank(d)), skipv1.subs(rank, d)
    numbers = gap.gaps(zero, mha=mha, skipv1=skipv1, best_mha=best_mha, best_skipv1=best_skipv1)
    return {**vars(numbers), "zero": zero, "rho": known[sympy.Symbol("rho")]}


def javascript(forms: Mapping[str, Any] | None = None) -> str:
    """Return an object of functions of `ARGUMENTS`, one for each expression, as JavaScript."""
    from sympy import jscode

    forms = expressions() if forms is None else forms
    lines = [f"  {name}: ({', '.join(ARGUMENTS)}) => {jscode(form)}," for name, form in forms.items()]
    return "\n".join(["{", *lines, "}"])
