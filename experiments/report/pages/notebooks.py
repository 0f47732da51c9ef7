"""The notebooks as pages: their text, code and output, and the file to open in Jupyter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from experiments.report.material import Material
from experiments.report.pages import parts
from experiments.report.prose import escaped, fenced

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
ORDER = ("gap", "variant", "identity", "checkpoint", "toy_and_trained")
INDEX = "notebooks/index.md"


def pages(material: Material) -> parts.Pages:  # noqa: ARG001 - as every kind of page
    opened = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in notebooks().items()}
    listed = "\n".join(
        f"- {parts.link(_title(notebook), f'/notebooks/{name}.md')}" for name, notebook in opened.items()
    )
    contents = "```{toctree}\n:hidden:\n:titlesonly:\n\n" + "\n".join(opened) + "\n```"
    about = "Each takes seconds to a minute, and its numbers are there to be changed. Open the files in Jupyter."
    index = "\n\n".join(["# Notebooks", about, listed, contents]) + "\n"
    return {INDEX: index} | {f"notebooks/{name}.md": _page(name, notebook) for name, notebook in opened.items()}


def files(material: Material) -> dict[str, Path]:  # noqa: ARG001
    """Return the notebooks' files by their place among the sources."""
    return {f"source/{path.name}": path for path in notebooks().values()}


def notebooks() -> dict[str, Path]:
    """Return the files by name, in the order in which they are read; those that are not there are left out."""
    return {name: path for name in ORDER if (path := FOLDER / f"{name}.ipynb").is_file()}


def _title(notebook: dict[str, Any]) -> str:
    return "".join(notebook["cells"][0]["source"]).partition("\n")[0].removeprefix("# ")


def _page(name: str, notebook: dict[str, Any]) -> str:
    title, *rest = _cells(notebook)
    heading, _, below = title.partition("\n\n")
    offered = f"{{download}}`{name}.ipynb </source/{name}.ipynb>`"
    return "\n\n".join([heading, *filter(None, [below]), offered, *rest]) + "\n"


def _cells(notebook: dict[str, Any]) -> Iterator[str]:
    """Yield the cells' text, and the code with what it printed; `jupyter execute --inplace` has stored that."""
    about = ""
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            about = text
            yield text
            continue
        yield fenced(text, "python")
        for kind, outputs in groupby(cell["outputs"], key=lambda output: output["output_type"]):
            if kind == "stream":
                yield fenced("".join(line for output in outputs for line in output["text"]))
            else:
                yield from (_shown(output["data"], about) for output in outputs)


def _shown(data: dict[str, Any], about: str) -> str:
    """Return what a cell shows as Markdown; a picture is described by the text above its cell."""
    if "image/png" in data:
        return f"![{escaped(about)}](data:image/png;base64,{''.join(data['image/png']).strip()})"
    return fenced("".join(data["text/plain"]))
