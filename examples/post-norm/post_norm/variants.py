"""x <- gain * norm(x + f(x)): a norm between sublayers is no sum of streams, so this depth rule is a class."""

from dataclasses import dataclass
from typing import Any

from post_norm.paper import PAPER
from theory.plans.depth import Depth
from theory.plans.plan import Plan, Shape, plan
from theory.plans.variants import variant


@dataclass(frozen=True)
class PostNorm(Depth):
    """The counts and words of the rule, and the PyTorch module that computes it."""

    eps: float = 1e-5
    coefficients = "gate"

    def words(self) -> str:
        return "a stream that is normed after every sublayer"

    def parameters(self, d: int, layers: int, per_layer: int) -> int:
        return d * layers * per_layer

    def starts(self) -> dict[str, float]:
        return {"gain": 1.0}

    def saved(self, d: int, layers: int, per_layer: int) -> int:
        return 2 * d * layers * per_layer

    def module(self, config: Any, plan: Any) -> Any:
        from post_norm.module import PostNormDepth

        return PostNormDepth(self.eps, config.sublayers(plan), config.d_model)


@variant(PAPER, "section 3.1", "the stream is normed after every sublayer")
def post_norm(shape: Shape, eps: float = 1e-5) -> Plan:
    return plan(shape, depth=PostNorm(eps))
