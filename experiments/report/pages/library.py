"""The Python API: what the three packages offer, with signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from experiments.report import derivations
from experiments.report.material import Material
from experiments.report.pages import parts
from experiments.report.prose import Names, code, escaped

PACKAGES = {
    "theory": "What must be true",
    "icl": "What happens",
    "icl.probes": "What happens inside a model",
    "experiments": "Where both meet",
}

LONG = 80  # words of a docstring that are shown whole


def pages(material: Material) -> parts.Pages:
    packages = {f"api/{name}.md": _package(name, about, material.names) for name, about in PACKAGES.items()}
    listed = "\n".join(PACKAGES)
    return {
        "api/index.md": (
            "# Python\n\nPackages with a face of a few names each, which are imported when they are first used; "
            "what stands deeper may change.\n\n```{toctree}\n:titlesonly:\n\n" + listed + "\n```\n"
        ),
        **packages,
    }


def _package(name: str, about: str, names: Names) -> str:
    module = import_module(name)
    blocks = [f"# {name}: {about[0].lower()}{about[1:]}", derivations.markdown(inspect.getdoc(module) or "", names)]
    for public in module.__all__:
        blocks += _entry(module, public, names)
    return "\n\n".join(blocks) + "\n"


def _entry(module: ModuleType, name: str, names: Names) -> Iterator[str]:
    thing = getattr(module, name)
    yield f"## {escaped(name)}"
    yield f"`````{{py:{_kind(thing)}}} {module.__name__}.{name}{_signature(thing)}\n"
    yield parts.folded_after_first(derivations.markdown(inspect.getdoc(thing) or "", names), LONG)
    if inspect.isclass(thing) and (methods := "\n\n".join(_methods(thing, names))):
        yield parts.folded_if_long("Its methods and properties", methods, LONG)
    yield "`````"
    home = getattr(thing, "__module__", "")
    if home:
        yield f"From {code(home)}."


def _kind(thing: Any) -> str:
    if inspect.isclass(thing):
        return "exception" if issubclass(thing, BaseException) else "class"
    return "function" if callable(thing) else "data"


def _signature(thing: Any) -> str:
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return ""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values() if not p.name.startswith("_")]
    return " ".join(str(signature.replace(parameters=_valid(parameters), return_annotation=signature.empty)).split())


def _valid(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return parameters whose defaults are short and as they are written, else `...`."""
    shown = []
    for parameter in parameters:
        default = parameter.default
        text = repr(default)
        plain = default is parameter.empty or (len(text) <= 40 and "<" not in text and "\n" not in text)
        shown.append(parameter if plain else parameter.replace(default=...))
    return shown


def _methods(thing: type, names: Names) -> Iterator[str]:
    """Yield public methods and properties that the class itself defines and documents."""
    for name, member in vars(thing).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        documented = inspect.isfunction(function) and function.__doc__
        if not name.startswith("_") and documented:
            what = "property" if isinstance(member, property) else "method"
            signature = (
                "" if what == "property" else _signature(function).replace("(self, ", "(").replace("(self)", "()")
            )
            text = derivations.markdown(inspect.getdoc(function) or "", names)
            yield f"````{{py:{what}}} {name}{signature}\n\n{text}\n````"
