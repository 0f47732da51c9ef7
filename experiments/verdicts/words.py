"""Checks and expectations in words: the question, the outcome, and whether a slack had to help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from experiments.verdicts.checks import Expectation, Judgement, Verdict

SIGNS = {"equal": "=", "at most": "<=", "at least": ">="}
SLACK_ALONE = "By slack alone: the interval excludes what is predicted, and only the slack, fixed beforehand, holds it."


def predicted(check: Judgement) -> str:
    """Return a prediction with its relation: "= 0.25", "<= 3.9", "> 0" for a sign alone, "no sign" where that is open.

    It is "nothing" where nobody predicted anything.

    "nothing" where nobody predicted anything.
    """
    if not isinstance(check, Expectation):
        return f"{SIGNS[check.relation]} {check.predicted:.4g}"
    if check.rule == "unpredicted":
        return "nothing"
    if check.rule == "beyond":
        return f"{'>' if check.predicted > 0 else '<'} {math.copysign(check.slack, check.predicted):.4g}"
    if check.rule != "sign":
        return f"{'>=' if check.rule == 'not less' else '='} {check.predicted:.4g}"
    return "no sign" if check.predicted == 0 else f"{'>' if check.predicted > 0 else '<'} 0"


def slack(check: Judgement) -> str:
    """Return the slack that was fixed beforehand; "" where the interval decides alone."""
    if not check.slack:
        return ""
    one_sided = not isinstance(check, Expectation) and check.above is not None and check.above < check.slack
    return f"{check.slack:.2g}{' below' if one_sided else ''}"


def measured(check: Judgement) -> str:
    """Return a measurement with the half-width of its interval, where it has one."""
    if not math.isfinite(check.measured):
        return "none"
    return f"{check.measured:.4g}" + (f" +- {check.half_width:.2g}" if check.half_width else "")


def verdict(word: Verdict) -> str:
    return {"undecided": "not decided by this profile", "unpredicted": "no prediction"}.get(word, word)


def verdict_of_group(checks: Sequence[Judgement]) -> str:
    """Return the worst verdict, which stands first, and how many checks only the slack holds."""
    only = sum(check.by_slack_alone for check in checks)
    count = f" {only} of {len(checks)}" if len(checks) > 1 else ""
    return verdict(checks[0].verdict) + (f",{count} by slack alone" if only else "")


def sentence(check: Judgement) -> str:
    """Return the statement of a check and its outcome."""
    within = f"within the slack of {check.slack:.2g}, though the interval excludes it"
    remark = f" ({within})" if check.by_slack_alone else ""
    quantity = f" [{check.quantity}]" if check.quantity else ""
    if check.verdict == "unpredicted":
        return f"{check.statement}: {verdict(check.verdict)}; measured {measured(check)}{quantity}"
    values = f"predicted {predicted(check)}, measured {measured(check)}{quantity}"
    return f"{check.statement}: {verdict(check.verdict)}{remark}; {values}"


def because(check: Expectation) -> str:
    """Return why an expectation has its verdict: where its interval lies, or what its control does."""
    if check.verdict == "unpredicted":
        return "nothing is predicted"
    if not check.decided:
        return "too few models, or too small"
    if not math.isfinite(check.measured + check.half_width):
        return "not known of every seed"
    if not check.controls:
        return "nothing to compare it with"
    interval = f"{check.measured - check.half_width:+.3f} to {check.measured + check.half_width:+.3f}"
    beyond = f"beyond {math.copysign(check.slack, check.predicted):+g}"
    region = beyond if check.rule == "beyond" else f"within {check.slack:g} of {check.predicted:g}"
    if check.verdict != "inconclusive":
        return f"{'all' if check.verdict == 'agrees' else 'none'} of {interval} lies {region}"
    alone = replace(check, controls=((math.nan, math.nan),)).verdict
    return "the control agrees, too" if alone != "inconclusive" else f"{interval} lies partly {region}"
