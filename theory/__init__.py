"""Crosslayer's mathematics: what must be true, and by how much.  numpy, scipy and sympy; never torch.

    theory.loss_gap(d=3, n=8, sigma=0.3, rank=2)                closed forms of SkipV1Former's Theorem 2
    theory.predict("resformer", d=3, n=8, sigma=0.3)            the lowest loss that a plan's toy can reach
    theory.loss_bounds(theory.PromptMoments(4, 2, 0.1, w0), heads=2)     the same around W0, for other inputs: bounds
    theory.PopulationLoss(theory.PromptMoments(3, 8, 0.3), heads)   the toy's exact loss; `minimise` descends it
    theory.plan, q, k, v, Learned                               what a variant is made of (`theory.plans.plan`)
    theory.resolve, model                                       variants and models of the papers, by name

What stands here is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theory.errors import BadInput
    from theory.plans.names import model, resolve
    from theory.plans.plan import Learned, Plan, Shape, k, plan, q, v
    from theory.prompts.moments import PromptMoments
    from theory.skipv1.bounds import loss_bounds
    from theory.skipv1.gap import loss_gap
    from theory.toy.minimise import minimise
    from theory.toy.population import PopulationLoss
    from theory.toy.predict import predict
    from theory.toy.value_maps import Optimum

__all__ = [
    "BadInput",
    "Learned",
    "Optimum",
    "Plan",
    "PopulationLoss",
    "PromptMoments",
    "Shape",
    "k",
    "loss_bounds",
    "loss_gap",
    "minimise",
    "model",
    "plan",
    "predict",
    "q",
    "resolve",
    "v",
]

_HOMES = {
    "BadInput": "theory.errors",
    "Learned": "theory.plans.plan",
    "Optimum": "theory.toy.value_maps",
    "Plan": "theory.plans.plan",
    "PopulationLoss": "theory.toy.population",
    "PromptMoments": "theory.prompts.moments",
    "Shape": "theory.plans.plan",
    "k": "theory.plans.plan",
    "loss_bounds": "theory.skipv1.bounds",
    "loss_gap": "theory.skipv1.gap",
    "minimise": "theory.toy.minimise",
    "model": "theory.plans.names",
    "plan": "theory.plans.plan",
    "predict": "theory.toy.predict",
    "q": "theory.plans.plan",
    "resolve": "theory.plans.names",
    "v": "theory.plans.plan",
}


if not TYPE_CHECKING:  # a type checker reads the imports above, and a name that is not there is an error

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, without what happens to be loaded."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
