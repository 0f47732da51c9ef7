"""Crosslayer's mathematics: what must be true, and by how much.  numpy, scipy and sympy; never torch.

    theory.loss_gap(d=3, n=8, sigma=0.3, rank=2)                closed forms of SkipV1Former's Theorem 2
    theory.predict("resformer", d=3, n=8, sigma=0.3)            the lowest loss that a plan's toy can reach
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
    from theory.skipv1.gap import loss_gap
    from theory.toy.minimise import minimise
    from theory.toy.population import PopulationLoss
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
    "theory.errors": ("BadInput",),
    "theory.plans.names": ("model", "resolve"),
    "theory.plans.plan": ("Learned", "Plan", "Shape", "k", "plan", "q", "v"),
    "theory.prompts.moments": ("PromptMoments",),
    "theory.skipv1.gap": ("loss_gap",),
    "theory.toy.minimise": ("minimise",),
    "theory.toy.population": ("PopulationLoss",),
    "theory.toy.value_maps": ("Optimum",),
}


def predict(plan: Plan | str, *, d: int, n: int, sigma: float, rank: int | None = None, heads: int = 2) -> Optimum:
    """The lowest loss that the assumed-copy toy of a two-layer plan can reach, in squared units of y.

    plan        or its name, resolved at `heads` heads a layer
    d, n, sigma width of x and y, context pairs, standard deviation of the noise
    rank        a of the compression; by default d // 2, at which MHA explains most

    A closed form, or, where there is none, exact minimisation, which takes seconds to a minute.  Raises BadInput for a
    name or sizes without meaning, NotCovered if the toy says nothing of the plan.
    """
    from theory.plans.names import resolve
    from theory.plans.plan import Shape
    from theory.skipv1.gap import best_mha_rank
    from theory.toy.value_maps import optimum

    chosen = resolve(plan, Shape(2, heads)) if isinstance(plan, str) else plan
    return optimum(chosen, d, n, sigma, best_mha_rank(d) if rank is None else rank)


if not TYPE_CHECKING:  # a type checker reads the imports above, and a name that is not there is an error

    def __getattr__(name):
        for home, names in _HOMES.items():
            if name in names:
                return getattr(import_module(home), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
