"""Empty figures, which a notebook shows as pictures."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class Canvas(Figure):
    """A figure without pyplot: a notebook shows it where it ends a cell, whatever the backend."""

    def _repr_png_(self) -> bytes:
        png = BytesIO()
        self.savefig(png, format="png", bbox_inches="tight")
        return png.getvalue()


def canvas(width: float, height: float) -> Canvas:
    """Return an empty figure whose parts do not overlap; width, height: in inches."""
    return Canvas(figsize=(width, height), layout="constrained")
