"""Crosslayer's testbed: tasks, models and training in PyTorch.  What happens, measured.

    icl.build("llama-2m", "skipv1+attnres-block", seed=0)       a decoder under a variant of the papers, or your own
    icl.load("runs/train/...")                                  a trained one, from the folder of `crosslayer train`
    icl.load_published("Llama-3-8B")                            weights of LLaMA's, GPT-2's and other published kinds
    icl.convert(model, "skipv1", "mean")                        a trained model under another plan, to be trained on
    icl.refitted(model, "skipv1", tokens)                       the same, and what reads the converted heads refitted
    icl.generate(model, [[1, 2, 3]], 20)                        tokens that follow prompts, from what the plan keeps
    icl.train(model, icl.PromptTask(task), recipe, seed)        trains it in place
    icl.probes.observed(model, tokens, attention=look)          what a function makes of every layer's attention
    icl.RegressionTask(d=3, n=8, sigma=0.3)                     in-context regression: `sample` draws prompts
    icl.StackedToys, icl.EndToEndToys                           many toys as one model; `train_toys`, `explained_signal`

What stands here is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import icl.probes  # noqa: F401 - type checkers see that it is there
    from icl.conversion import convert
    from icl.models.build import build
    from icl.models.decoder import Decoder
    from icl.models.sampling import Sampling, generate
    from icl.models.saved import load
    from icl.prompts import Generator, RegressionTask
    from icl.published.reading import load as load_published
    from icl.recipe import Recipe
    from icl.refitting import refitted
    from icl.toys.end_to_end import EndToEndSpec, EndToEndToys
    from icl.toys.stack import explained_signal
    from icl.toys.stacked import StackedToys, ToySpec
    from icl.toys.training import toy_recipe
    from icl.toys.training import train as train_toys
    from icl.training.loop import train
    from icl.training.objectives import PromptTask, TextTask

__all__ = [
    "Decoder",
    "EndToEndSpec",
    "EndToEndToys",
    "Generator",
    "PromptTask",
    "Recipe",
    "RegressionTask",
    "Sampling",
    "StackedToys",
    "TextTask",
    "ToySpec",
    "build",
    "convert",
    "explained_signal",
    "generate",
    "load",
    "load_published",
    "refitted",
    "toy_recipe",
    "train",
    "train_toys",
]

_HOMES = {
    "Decoder": "icl.models.decoder",
    "EndToEndSpec": "icl.toys.end_to_end",
    "EndToEndToys": "icl.toys.end_to_end",
    "Generator": "icl.prompts",
    "PromptTask": "icl.training.objectives",
    "Recipe": "icl.recipe",
    "RegressionTask": "icl.prompts",
    "StackedToys": "icl.toys.stacked",
    "TextTask": "icl.training.objectives",
    "ToySpec": "icl.toys.stacked",
    "Sampling": "icl.models.sampling",
    "build": "icl.models.build",
    "convert": "icl.conversion",
    "explained_signal": "icl.toys.stack",
    "generate": "icl.models.sampling",
    "load": "icl.models.saved",
    "load_published": "icl.published.reading:load",
    "refitted": "icl.refitting",
    "toy_recipe": "icl.toys.training",
    "train": "icl.training.loop",
    "train_toys": "icl.toys.training:train",
}
_PACKAGES = ("probes",)  # that are there without an import of their own


def _check_theory() -> None:
    """Raise ImportError if another package `theory` is found first, as where a script's folder holds one."""
    spec, ours = find_spec("theory"), Path(__file__).parents[1] / "theory"
    places = [] if spec is None else [*(spec.submodule_search_locations or []), spec.origin or ""]
    if places and not any(Path(place) == ours or (Path(place).is_dir() and ours.samefile(place)) for place in places):
        raise ImportError(f"{places[0]} hides Crosslayer's package theory: rename it, or work in another folder")


_check_theory()

if not TYPE_CHECKING:  # a type checker reads the imports above, and a name that is not there is an error

    def __getattr__(name):
        if name in _PACKAGES:
            return import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home, _, there = _HOMES[name].partition(":")
        return getattr(import_module(home), there or name)


def __dir__() -> list[str]:
    """Return the public names, without what happens to be loaded."""
    return sorted([*__all__, *_PACKAGES, *(name for name in globals() if name.startswith("__"))])
