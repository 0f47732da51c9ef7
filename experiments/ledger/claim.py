"""The ledger's form: a claim, the checks that establish it beside it, and what it rests on.

A check is a predicate over *versions* of a claim: it must hold for the version we state and must not hold for a
deliberately wrong one, the negative control.  Where the paper is wrong, the control is what the paper prints.

    GAP = Claim("skipv1.gap", PAPER.name, place="Theorem 2", statement="...", assumes="...", verdict="corrected",
                correction="...", proof=gap.loss_gap, uses=("skipv1.mha-infimum", "skipv1.skipv1-minimum"))

    @GAP.check("the closed forms differ by rho a^2", states=2, control=1, wrong="a in place of its square")
    def gap_grows_with_rank(power: int) -> Conditions: ...

A check returns one condition, or yields several, of which at least one has to be there and all have to hold.  One that
computes a number returns it; the decorator says what it must be and what it must not be: `Claim.number`.  What touches
no mathematics, such as the mean of a printed table, takes one such row each: `Claim.row`.

    @TIME.number("softmaxes of 1 to 12 heads", lambda heads: heads, control=lambda heads: 1, wrong="one for all")
    def softmaxes() -> Mapping[int, int]: ...  # by the law's argument

    TIME.row("saving in percent", 37.6, lambda: round(100 * (1 - B / A), 1), control=37.5, wrong="rounded down")

A claim is found by standing in a module of a paper's `claims` folder; no list names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import wraps
from inspect import isgeneratorfunction
from numbers import Number, Rational
from types import ModuleType
from typing import Any, Literal, TypeAlias, TypeVar

Status = Literal["verified", "corrected", "refuted", "inconclusive", "open"]
Kind = Literal["exact", "float64", "descent", "sampled"]
IN_WORDS: dict[Kind, str] = {
    "exact": "in exact arithmetic",
    "float64": "in float64, to a stated tolerance",
    "descent": "by descents on an exact loss, which show what was found and prove nothing",
    "sampled": "by sampling, to standard errors",
}
ARROW = " -> "
Conditions: TypeAlias = Iterator[object]  # what a check yields, judged as true or false
Version = TypeVar("Version")
Judge = TypeVar("Judge", bound=Callable[[Any], Any])
Computed = TypeVar("Computed", bound=Callable[[], Any])


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
        """Return whether this place is where an alteration of the function's source, given by its name, changes it."""
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
        self,
        what: str,
        *,
        states: Version,
        control: Version,
        wrong: str,
        kind: Kind = "float64",
        others: Mapping[str, Version] | None = None,
    ) -> Callable[[Judge], Judge]:
        """Decorator: the function judges a version of this claim.  One function may serve several claims or lines.

        Args:
            what: is judged.
            states: the version that must pass.
            control: the wrong version that must be rejected; `wrong` says what is wrong with it.
            kind: as in `Evidence`.
            others: further controls, by what is wrong with them, each a line of its own.
        """

        def register(judge: Judge) -> Judge:
            holds = _all_of(judge) if isgeneratorfunction(judge) else judge
            for why, version in {wrong: control, **(others or {})}.items():
                self.evidence.append(Evidence(what, holds, states, version, why, kind))
            return judge

        return register

    def number(
        self,
        what: str,
        expected: Any,
        *,
        control: Any,
        wrong: str,
        within: float = 0.0,
        relative: float = 0.0,
        kind: Kind | None = None,
        others: Mapping[str, Any] | None = None,
    ) -> Callable[[Computed], Computed]:
        """Decorator: the function computes a number of this claim, from nothing; the ledger compares (`agrees`).

        Args:
            what: is computed.
            expected: the number; or a law, of whose arguments the function gives the numbers.
            control: a wrong number, or law, which has to be rejected; `wrong` says what is wrong with it.
            within: the largest distance, in units of the number.
            relative: a share of the expected number, by which it may be further.
            kind: as in `Evidence`; default: exact if nothing may differ and nothing expected is a float, else float64.
            others: further controls, by what is wrong with them, each a line of its own.
        """
        loose = within or relative or _has_floats(expected)

        def register(compute: Computed) -> Computed:
            @wraps(compute)
            def holds(version: Any) -> bool:
                return agrees(compute(), version, within=within, relative=relative)

            self.check(
                what,
                states=expected,
                control=control,
                wrong=wrong,
                kind=kind or ("float64" if loose else "exact"),
                others=others,
            )(holds)
            return compute

        return register

    def row(
        self, what: str, expected: Any, compute: Callable[[], Any], *, control: Any, wrong: str, **how: Any
    ) -> None:
        """Add a check that is an expression over what is printed: `number` in one line."""
        self.number(what, expected, control=control, wrong=wrong, **how)(compute)


def _all_of(judge: Callable[[Any], Conditions]) -> Callable[[Any], bool]:
    """Return the check that holds if there are conditions, and all do."""

    @wraps(judge)
    def holds(version: Any) -> bool:
        conditions = judge(version)
        return bool(next(conditions, False)) and all(conditions)

    return holds


def agrees(number: Any, expected: Any, *, within: float = 0.0, relative: float = 0.0) -> bool:
    """Return whether numbers are those expected, each to `within` plus a share of the expected one.

    Args:
        number: one; an array; several in a sequence; several by name, or for a law by its arguments, in a mapping or
            as pairs.
        expected: of the same form, by some of the names; or a law, a function of the arguments, of which there has to
            be a case.
        within: the largest distance; 0 and no `relative`: they have to be equal.
        relative: the share.
    """
    if callable(expected):
        any_case = False
        for at, value in number.items() if isinstance(number, Mapping) else number:
            law = expected(*(at if isinstance(at, tuple) else (at,)))
            if not agrees(value, law, within=within, relative=relative):
                return False
            any_case = True
        return any_case
    if isinstance(expected, Mapping):
        by_name = number if isinstance(number, Mapping) else dict(number)
        return all(agrees(by_name[key], expected[key], within=within, relative=relative) for key in expected)
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        same = len(number) == len(expected)
        return same and all(
            agrees(one, other, within=within, relative=relative) for one, other in zip(number, expected, strict=True)
        )
    if getattr(number, "shape", ()) != getattr(expected, "shape", ()):
        return False
    loose = within or relative
    near = abs(number - expected) <= within + relative * abs(expected) if loose else number == expected
    return bool(near.all() if hasattr(near, "all") else near)


def _has_floats(expected: Any) -> bool:
    """Return whether a float is among these numbers; of a law it is not seen."""
    if isinstance(expected, Mapping):
        return any(map(_has_floats, expected.values()))
    if isinstance(expected, Sequence | Set) and not isinstance(expected, str):
        return any(map(_has_floats, expected))
    return hasattr(expected, "dtype") or (isinstance(expected, Number) and not isinstance(expected, Rational))


@dataclass(frozen=True)
class Outcome:
    """The outcome of one check.  ok: the stated version held and the control was rejected; error: what it raised."""

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
