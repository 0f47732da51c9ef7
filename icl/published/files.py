"""Folders of safetensors: the files that hold the weights, the check that they hold just those, and their content."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from icl.models.saved import CONFIG, WEIGHTS
from theory.errors import BadInput

INDEX = f"{WEIGHTS}.index.json"
PLAIN = {"F64", "F32", "F16", "BF16"}  # as safetensors names them: numbers that stand for themselves
Called = Callable[[str], str | None]  # a tensor's name in the layout; None for what is passed over


def weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a folder's weights, in order.  Raises BadInput if some are missing."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    path = folder / INDEX
    if not path.is_file():
        raise BadInput(f"{folder} holds no {WEIGHTS} and no {INDEX}; weights of other kinds are not read")
    try:
        names = sorted({str(name) for name in json.loads(path.read_bytes())["weight_map"].values()})
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} is damaged ({type(error).__name__}: {error})") from error
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise BadInput(f"{path} names {name[:80]!r}, which is not there")
    if not names:
        raise BadInput(f"{path} names no files")
    return [folder / name for name in names]


def check_tensors(
    files: list[Path], shapes: Mapping[str, tuple[int, ...]], called: Called, *, optional: Collection[str]
) -> None:
    """Raise BadInput unless the files hold tensors of just these names and shapes, each once."""
    there: dict[str, Path] = {}
    for path in files:
        with _opened(path) as file:
            for own in file.keys():  # noqa: SIM118 - not a mapping
                if (name := called(own)) is None:
                    continue
                if name in there:
                    raise BadInput(f"{path} and {there[name]} both hold {name}")
                there[name] = path
                tensor = file.get_slice(own)
                shape, dtype = tuple(tensor.get_shape()), tensor.get_dtype()
                if name not in shapes:
                    raise BadInput(f"{path} holds {name}, which is not of the model that {CONFIG} describes")
                if shape != shapes[name]:
                    raise BadInput(f"{path}: {name} is {shape} where {shapes[name]} belongs")
                if dtype not in PLAIN:
                    raise BadInput(f"{path}: {name} is of type {dtype}; those that can be read are {sorted(PLAIN)}")
    if missing := shapes.keys() - there.keys() - set(optional):
        raise BadInput(f"{files[0].parent} holds no tensor {min(missing)}")


def count_tensors(files: list[Path]) -> int:
    """Return the number of tensors in all files together."""
    count = 0
    for path in files:
        with _opened(path) as file:
            count += len(file.keys())
    return count


def tensors(path: Path, called: Called) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a file, one at a time, under their names in the layout."""
    with _opened(path) as file:
        for own in file.keys():  # noqa: SIM118 - not a mapping
            if (name := called(own)) is not None:
                yield name, file.get_tensor(own)


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise BadInput(f"{path} is damaged ({error})") from error
