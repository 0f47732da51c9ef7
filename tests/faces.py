"""What holds of every package's face: names that are imported when first used, and that type checkers see."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path


def check_face(package):
    """Every name is there and is what type checkers are told; an unknown one is an AttributeError."""
    module = import_module(package)
    assert module.__all__ == sorted(module._HOMES, key=lambda name: (name[0].islower(), name))
    typed = {}
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == package:
            typed |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    for name, home in module._HOMES.items():
        there, _, other = home.partition(":")
        assert typed.pop(name) == (there, other or name)
        assert getattr(module, name) is getattr(import_module(there), other or name)
        assert name in dir(module)
    for name in getattr(module, "_PACKAGES", ()):
        assert getattr(module, name) is import_module(f"{package}.{name}")
        assert name in dir(module)
    assert not typed
    shown = {name for name in dir(module) if not name.startswith("__")}
    assert shown == {*module.__all__, *getattr(module, "_PACKAGES", ())}  # and nothing that happens to be loaded
    assert not hasattr(module, "nothing_of_that_name")
    assert (Path(module.__file__).parent / "py.typed").is_file()


def imported_by(statement):
    """The modules that a fresh interpreter has after a statement."""
    command = [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return set(found.stdout.split())
