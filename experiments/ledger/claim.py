"""The ledger's form: a claim, the checks that establish it beside it, and what it rests on.

A check is a predicate over *versions* of a claim: it must hold for the version we state and must not hold for a
deliberately wrong one, the negative control.  Where the paper is wrong, the control is what the paper prints.

    GAP = Claim("skipv1.gap", PAPER.name, place="Theorem 2", statement="...", assumes="...", verdict="corrected",
                correction="...", proof=gap.loss_gap, uses=("skipv1.mha-infimum", "skipv1.skipv1-minimum"))

    @GAP.check("the closed forms differ by rho a^2", states=2, control=1, wrong="a in place of its square")
    def gap_grows_with_rank(power: int) -> bool: ...

A claim is found by standing in a module of a paper's `claims` folder; no list names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, TypeVar

Status = Literal["verified", "corrected", "refuted", "inconclusive", "open"]
Kind = Literal["exact", "float64", "descent", "sampled"]
IN_WORDS: dict[Kind, str] = {
    "exact": "in exact arithmetic",
    "float64": "in float64, to a stated tolerance",
    "descent": "by descents on an exact loss, which show what was found and prove nothing",
    "sampled": "by sampling, to standard errors",
}
ARROW = " -> "
Version = TypeVar("Version")


@dataclass(frozen=True)
class Evidence:
    """One check.

    holds    the predicate, a function of a version of the claim (a formula, a constant, a construction)
    states   the version that must pass
    control  the wrong version that must be rejected; `wrong` says in words what is wrong with it
    kind     how the stated version is judged; `IN_WORDS` says what that means
    """

    what: str
    holds: Callable[[Any], bool]
    states: Any
    control: Any
    wrong: str
    kind: Kind = "float64"


@dataclass(frozen=True)
class Place:
    """An expression in a function's source; `at` makes one."""

    function: Callable[..., Any]
    expression: str

    def meets(self, alteration: str) -> bool:
        """Whether an alteration of the function's source, by its name, is here."""
        what = alteration.partition(": ")[2]
        return self.expression in (what, what.partition(ARROW)[0])


def at(function: Callable[..., Any], expression: str) -> Place:
    """Return the place that `crosslayer verify --mutate --source` names.

    Args:
        function: of `theory`.
        expression: "a + b" for every alteration of that expression, "a + b -> a - b" for this one.
    """
    return Place(function, expression)


@dataclass(eq=False)
class Claim:
    """One entry of the ledger.

    paper        whose claim it is
    place        where it stands: section, equation, table cell
    statement    what is claimed, in our words
    assumes      under which conditions
    verdict      verified, corrected, refuted, inconclusive or open
    correction   what is true instead, or why it is not decided
    proof        the function or module whose docstring proves it, or what is true instead of it; None: its checks do
    uses         ids of the claims that it rests on; it falls with each of them
    unjudged     functions of `theory` that its checks call and whose values it rightly does not judge, or places in
                 their source (`at`), each with the reason: what `mutation` may alter unnoticed
    module       where it stands; set by whoever finds it
    """

    id: str
    paper: str
    place: str
    statement: str
    assumes: str
    verdict: Status
    correction: str = ""
    proof: Callable[..., Any] | type | ModuleType | None = None
    uses: tuple[str, ...] = ()
    unjudged: Mapping[Any, str] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list, init=False)
    module: str = field(default="", init=False)

    def __repr__(self) -> str:
        return f"<Claim {self.id}: {self.verdict}>"

    def check(
        self, what: str, *, states: Version, control: Version, wrong: str, kind: Kind = "float64"
    ) -> Callable[[Callable[[Version], bool]], Callable[[Version], bool]]:
        """Decorator: the function judges a version of this claim.  One function may serve several claims or lines."""

        def register(holds: Callable[[Version], bool]) -> Callable[[Version], bool]:
            self.evidence.append(Evidence(what, holds, states, control, wrong, kind))
            return holds

        return register


@dataclass(frozen=True)
class Outcome:
    """What became of one check.  ok: the stated version held and the control was rejected; error: what it raised."""

    what: str
    kind: Kind
    holds: bool
    control_rejected: bool
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.holds and self.control_rejected


def outcomes(claim: Claim) -> tuple[Outcome, ...]:
    """Run every check of an entry."""
    return tuple(outcome(evidence) for evidence in claim.evidence)


def outcome(evidence: Evidence) -> Outcome:
    """Run a check on what is stated and on its control.  One that raises does not hold."""
    try:
        holds, rejected = bool(evidence.holds(evidence.states)), not evidence.holds(evidence.control)
    except Exception as error:
        return Outcome(evidence.what, evidence.kind, False, False, f"{type(error).__name__}: {error}")
    return Outcome(evidence.what, evidence.kind, holds, rejected)
