"""What was measured against what theory says: at the start, and of the deep toy."""

from __future__ import annotations

from experiments.attnres.toy.outcomes import outcomes
from experiments.attnres.toy.points import DEEP, MAGNITUDE, RULES, TOKENS, WEIGHTS, start
from experiments.store.folders import Json
from experiments.verdicts.checks import Check, Judgement
from experiments.verdicts.intervals import t_interval


def verdicts(prediction: Json, measurement: Json) -> list[Judgement]:
    return [*_starts(prediction, measurement), *_deep(prediction, measurement), *outcomes(prediction, measurement)]


def _starts(prediction: Json, measurement: Json) -> list[Check]:
    """The last read's mean square over the closed form."""
    found: list[Check] = []
    for at, square in prediction["start"].items():
        kind, rule, depth, token = at.split("/")
        interval = t_interval([x / square for x in measurement["squares"][at]], len(prediction["start"]))
        others = {prediction["start"][start(kind, other, int(depth), token)] for other in RULES} - {square}
        found.append(
            Check(
                id=f"start/{at}",
                group=f"{RULES[rule]}, {WEIGHTS[kind]}: mean square of the last read over the closed form",
                claim=MAGNITUDE,
                statement=f"after {depth} layers of {WEIGHTS[kind]}, {RULES[rule]}, the last read of {TOKENS[token]} "
                "is as large as said",
                predicted=1.0,
                measured=interval.mean,
                stderr=interval.stderr,
                tolerance=interval.half_width,
                controls=tuple(sorted(other / square for other in others)),  # other rules' closed forms
                quantity="mean square over the closed form",
            )
        )
    return found


def _deep(prediction: Json, measurement: Json) -> list[Check]:
    """Losses of the constructed weights, and what the depth weights gain."""
    found: list[Check] = []
    family = 3 * len(prediction["deep"])
    for at, exact in prediction["deep"].items():
        setting, layers = at.split("/")
        by_seed = measurement["answers"][at]
        for what, words in (("depth", "weights over depth"), ("residual", "steps of a residual stream")):
            interval = t_interval([losses[what] for losses in by_seed], family)
            found.append(
                Check(
                    id=f"loss/{what}/{at}",
                    group=f"deep toy: loss of the best {words}",
                    claim=DEEP,
                    statement=f"at {setting} the best {words} of {layers} layers lose what theory says",
                    predicted=exact[what],
                    measured=interval.mean,
                    stderr=interval.stderr,
                    tolerance=interval.half_width,
                    controls=(exact["one layer"],),  # as if more layers were worth nothing
                    quantity="squared error of y",
                )
            )
        interval = t_interval([losses["residual"] - losses["depth"] for losses in by_seed], family)
        found.append(
            Check(
                id=f"gain/{at}",
                group="deep toy: what weights over depth gain over a residual stream",
                claim=DEEP,
                statement=f"at {setting} the best weights over depth of {layers} layers lose less than any residual "
                "stream, by as much as theory says",
                predicted=exact["gain"],
                measured=interval.mean,
                stderr=interval.stderr,
                tolerance=interval.half_width,
                controls=(0.0,),  # they reach nothing else
                quantity="squared error of y, difference",
            )
        )
    return found
