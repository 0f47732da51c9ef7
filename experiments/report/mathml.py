"""Sphinx sets formulas as MathML, which browsers show and read out without a script: docutils' converter does it."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from typing import Any

FENCES = re.compile("<mo>([⌊⌋⌈⌉‖|⟨⟩])</mo>")  # in a line of text they stay as high as the text


@cache
def mathml(latex: str, *, block: bool = False) -> str:
    """Return a formula as MathML; what cannot be converted is shown as it is written."""
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml

    try:
        markup: str = tex2mathml(latex, as_block=block)
    except (MathError, SyntaxError, ValueError, LookupError, AttributeError, TypeError):
        return f"<code>{escape(latex)}</code>"
    set_out = "".join(line.strip() for line in markup.splitlines())
    return set_out if block else FENCES.sub(r'<mo stretchy="false">\1</mo>', set_out)


def _visit(block: bool) -> Any:
    from docutils import nodes

    def visit(self: Any, node: Any) -> None:
        self.body.append(mathml(node.astext(), block=block))
        raise nodes.SkipNode

    return visit


def setup(app: Any) -> dict[str, bool]:
    """Set this module up as a Sphinx extension."""
    app.add_html_math_renderer("mathml", (_visit(False), None), (_visit(True), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
