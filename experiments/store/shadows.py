"""Other packages of our names, which Python finds first where the folder of a script or the working folder holds them.

`icl` looks for `theory` itself.  A package of a user's that is called `experiments` cannot be seen from here: Python
then runs nothing of ours.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("icl", "theory")
PARENT = Path(__file__).parents[2]


def shadowed() -> str | None:
    """Return one line on a package that stands where one of ours is looked for; None if all are ours."""
    for name in PACKAGES:
        spec = find_spec(name)
        places = (
            [] if spec is None else [Path(place) for place in spec.submodule_search_locations or [spec.origin or ""]]
        )
        if spec is not None and not any(place.exists() and place.samefile(PARENT / name) for place in places):
            return f"{places[0]} hides Crosslayer's package {name}: rename it, or work in another folder"
    return None
