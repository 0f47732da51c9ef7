"""The notebooks: short cells that run from top to bottom, stored with what they show."""

import ast
import json
import linecache
import re
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
        shown.append("" if value is None or text.endswith(";") else repr(value))
    return shown


def test_there_are_five_and_they_are_short():
    assert set(NOTEBOOKS) == {"checkpoint", "gap", "identity", "toy_and_trained", "variant"}
    for name, notebook in NOTEBOOKS.items():
        assert len(notebook["cells"]) <= MOST_CELLS, name
        assert source(notebook["cells"][0]).startswith("# "), name
        assert all(len(text.splitlines()) <= MOST_LINES for text in code_of(notebook)), name


def test_all_cells_have_run_in_order():
    """`jupyter execute --inplace` stores what they show, which the site's pages show too."""
    for name, notebook in NOTEBOOKS.items():
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), name
        assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"]), name


def stored(notebook):
    """What cells show, as it is stored, in the order of `ran` and without what they print."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    results = [[one for one in cell["outputs"] if one["output_type"] == "execute_result"] for cell in cells]
    return ["".join("".join(one["data"]["text/plain"]) for one in some) for some in results]


def assert_alike(shown, saved):
    """The same words; numbers to a few per cent, as training adds up rounding."""
    words, numbers = (re.compile(x) for x in (r"[A-Za-z_]+", r"-?\d+\.?\d*(?:e-?\d+)?"))
    assert words.findall(shown) == words.findall(saved)
    read = [[float(x) for x in numbers.findall(text)] for text in (shown, saved)]
    assert read[0] == pytest.approx(read[1], rel=0.05, abs=0.05)


@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.long
def test_it_runs_and_shows_what_is_stored(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CROSSLAYER_CHECKPOINT", raising=False)
    matplotlib.use("Agg")
    shown = ran(NOTEBOOKS[name], name)
    assert max(map(len, shown)) <= LONGEST_REPR
    assert any(shown) or capsys.readouterr().out
    for text, saved in zip(shown, stored(NOTEBOOKS[name]), strict=True):
        assert_alike(text, saved)


def test_another_number_or_word_is_seen():
    assert_alike("Gap(mha=1.001, plan=None)", "Gap(mha=1.0,\n plan=None)")
    for other in ("Gap(mha=2.0, plan=None)", "Gap(loss=1.0, plan=None)", "Gap(mha=1.0)"):
        with pytest.raises(AssertionError):
            assert_alike("Gap(mha=1.0, plan=None)", other)


def test_a_cell_that_fails_is_seen():
    cells = [{"cell_type": "code", "source": ["a = 1\n", "a"]}, {"cell_type": "code", "source": ["assert a == 2"]}]
    assert ran({"cells": cells[:1]}, "good") == ["1"]
    with pytest.raises(AssertionError):
        ran({"cells": cells}, "bad")
