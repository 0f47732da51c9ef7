"""A paper that is not there: one variant, one claim, one experiment with its figure, as files by their names.

`ROOM` is what stands in the paper's room of `theory`, `BESIDE` what stands in its room of `experiments`; somebody
else's package holds both.
"""

ROOM = {
    "__init__": '"""Doubled values."""\n',
    "paper": """
from theory.plans.papers import Paper

PAPER = Paper("Doubled Values", "On doubling", 2031, "https://example.org/doubled", "#123456")
""",
    "variants": """
from PACKAGE.paper import PAPER
from theory.plans.plan import Plan, Shape, plan, v
from theory.plans.variants import variant


@variant(PAPER, "section 1", "every value counts twice")
def doubled_values(shape: Shape, weight: float = 2.0) -> Plan:
    return plan(shape, values=lambda n, h: weight * v(n, h))
""",
}
BESIDE = {
    "claims/__init__": '"""Claims."""\n',
    "claims/doubling": '''
"""Claims on doubling."""

from experiments.ledger.claim import Claim
from PACKAGE.paper import PAPER
from theory.plans.names import resolve
from theory.plans.plan import Shape


def first_weight(factor: float) -> bool:
    """Every value of the plan has the weight `factor`."""
    table = resolve("doubled-values", Shape(2, 2)).table
    return all(head.values[0].terms[0].weight == factor for layer in table for head in layer)


DOUBLING = Claim(
    "doubled.weight", PAPER.name, place="section 1", statement="Values count twice.", assumes="none",
    verdict="verified", proof=first_weight,
)
DOUBLING.check("every weight is two", states=2.0, control=1.0, wrong="one")(first_weight)


@DOUBLING.check("twice one is two", states=2, control=3, wrong="three")
def twice_one(product: int) -> bool:
    return product == 1 + 1
''',
    "doubling/__init__": '"""An experiment."""\n',
    "doubling/experiment": '''
"""Does doubling double?"""

from dataclasses import dataclass

from experiments.experiment.protocol import Profile
from experiments.verdicts.checks import Check


@dataclass(frozen=True)
class Config:
    numbers: int = 3


class Doubling:
    name = "doubled"
    title = "Does doubling double?"
    kind = "theory"
    claims = ("doubled.weight",)
    profiles = {"smoke": Profile(config=Config(), seeds=0, seconds=1, detects="one in two")}

    def predict(self, config):
        return {"assumes": "nothing", "sums": [2 * i for i in range(config.numbers)]}

    def measure(self, config, seeds, run):
        return {"sums": [i + i for i in range(config.numbers)]}

    def compare(self, prediction, measurement):
        pairs = zip(prediction["sums"], measurement["sums"], strict=True)
        return [
            Check(f"sum/{i}", "sums", "doubled.weight", "i + i is 2 i", said, seen, 0.0, 0.0, (said + 1,))
            for i, (said, seen) in enumerate(pairs)
        ]

    def draw(self, prediction, measurement):
        from experiments.drawing import style

        fig, axes = style.figure(1)
        axes[0].plot(prediction["sums"], measurement["sums"], "x", label="sums", **style.look("doubled-values"))
        style.finish(axes)
        return fig


EXPERIMENT = Doubling()
''',
}
