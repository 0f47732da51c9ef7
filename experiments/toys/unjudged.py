"""Reasons that several entries give for functions of `theory` whose values their checks rightly do not judge.

What no entry judges stands in `experiments.toys.exempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from theory.plans import architecture, heads, mix, plan

ONE_OF_SEVERAL = "a family of products beside others, of which the best is taken"
OVER_RANKS = "its least value over ranks is what enough heads approach, at that rank"
RANK = "a map whose rank counts, and not its size"
OF_VALUES: Mapping[Callable[..., Any], str] = {
    mix.q: "a claim on values: whose queries meet them makes no difference",
    mix.k: "a claim on values: whose keys meet them makes no difference",
}
OF_VALUES_IN_A_TABLE: Mapping[Callable[..., Any], str] = {
    **OF_VALUES,
    plan.Plan.head: "of plans that make sense: only whether they do is asked so, and values are read from the table",
}
OF_VALUE_MAPS: Mapping[Callable[..., Any], str] = {
    **OF_VALUES,
    heads.toy_heads: "whether a value is there counts, and not its weight",
    heads.is_bound: "whether bound weights attain an optimum, of which nothing is claimed",
}
NUMBER = "of the heads that are built, only how many counts"
NOT_CACHED = "nothing of a feed-forward is cached, nor of what is read over depth"
OF_CACHES: Mapping[Callable[..., Any], str] = {
    mix.q: "queries are not cached",
    plan.Plan.live: NUMBER,
    architecture.Architecture.sublayers: NOT_CACHED,
    architecture.Architecture.has_feed_forward: NOT_CACHED,
}
OF_COUNTS: Mapping[Callable[..., Any], str] = {plan.built: NUMBER, plan.Plan.live: NUMBER}
OF_PARAMETERS: Mapping[Callable[..., Any], str] = {
    **OF_COUNTS,
    architecture.Architecture.sublayers: "a residual stream has no parameters, however often it is read",
}
