"""The notebooks: short cells that run from top to bottom, stored without what they printed."""

import ast
import json
import linecache
from pathlib import Path

import matplotlib
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "notebooks"
NOTEBOOKS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.ipynb"))}
MOST_CELLS, MOST_LINES, LONGEST_REPR = 20, 20, 700


def source(cell):
    return "".join(cell["source"])


def code_of(notebook):
    return [source(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def ran(notebook, name):
    """Run the code cells in one namespace, as a kernel does.  Returns what the last expression of each cell shows."""
    space, shown = {"__name__": "__main__"}, []
    for number, text in enumerate(code_of(notebook)):
        file = f"<{name}, cell {number}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # for `inspect.getsource`
        tree = ast.parse(text, file)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), space)
        value = None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), space)
        shown.append("" if value is None else repr(value))
    return shown


def test_there_are_five_and_they_are_short():
    assert set(NOTEBOOKS) == {"checkpoint", "gap", "identity", "toy_and_trained", "variant"}
    for name, notebook in NOTEBOOKS.items():
        assert len(notebook["cells"]) <= MOST_CELLS, name
        assert source(notebook["cells"][0]).startswith("# "), name
        assert all(len(text.splitlines()) <= MOST_LINES for text in code_of(notebook)), name


def test_nothing_that_was_printed_is_stored():
    for name, notebook in NOTEBOOKS.items():
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == [], name
                assert cell["execution_count"] is None, name


@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.long
def test_it_runs(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CROSSLAYER_CHECKPOINT", raising=False)
    matplotlib.use("Agg")
    shown = ran(NOTEBOOKS[name], name)
    assert max(map(len, shown)) <= LONGEST_REPR
    assert any(shown) or capsys.readouterr().out


def test_a_cell_that_fails_is_seen():
    cells = [{"cell_type": "code", "source": ["a = 1\n", "a"]}, {"cell_type": "code", "source": ["assert a == 2"]}]
    assert ran({"cells": cells[:1]}, "good") == ["1"]
    with pytest.raises(AssertionError):
        ran({"cells": cells}, "bad")
