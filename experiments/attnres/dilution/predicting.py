"""What theory says of shares at the start, and of the sources that they are bounded by."""

from __future__ import annotations

from dataclasses import replace

from experiments.attnres.dilution.points import ATTENTION, FULL, Config, cell
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from theory.attnres.coefficients import start_matrix
from theory.attnres.zero_query import equivalent_eps, norm_change
from theory.plans.accounting import depth_reads
from theory.plans.names import resolve

USUAL_EPS = 1e-5  # LLaMA's


def predicted(config: Config) -> Json:
    """law, start   by read: the newest output's share of PreNorm's coefficients, and of others' at zero queries
    members         by read after the first: outputs in the newest one's source, under depth attention
    same            cells of which the model is another cell's
    eps_moves, usual_eps_moves   by how much its eps shrinks what Full's last norm puts out at the start, at the
                    embedding's mean square: at the eps of the profile, and at LLaMA's
    """
    law: Json = {}
    start: Json = {}
    members: Json = {}
    same: Json = {}
    moves: dict[str, Json] = {"eps_moves": {}, "usual_eps_moves": {}}
    for depth in config.depths:
        sizes, rules = config.at(depth), config.rules(depth)
        law[str(depth)] = newest(config, BASELINE, depth)
        for rule in ATTENTION if not config.own else ():
            if rule not in rules:
                same[cell(rule, depth)] = cell(FULL, depth)
                continue
            start[cell(rule, depth)] = newest(config, rule, depth)
            plan = resolve(rule, sizes.shape)
            members[cell(rule, depth)] = [len(sources[-1]) for sources in depth_reads(sizes, plan)[1:]]
        for name, eps in (("eps_moves", sizes.norm_eps), ("usual_eps_moves", USUAL_EPS)):
            other = equivalent_eps(replace(sizes, norm_eps=eps), resolve(FULL, sizes.shape))[-1]
            moves[name][str(depth)] = norm_change(config.std**2, eps, other)
    return {"depths": list(config.depths), "law": law, "start": start, "members": members, "same": same, **moves}


def newest(config: Config, rule: str, depth: int) -> list[float]:
    """By read, the newest output's share of the coefficients at initial weights."""
    sizes = config.at(depth)
    return [float(row[-1] / sum(row)) for row in start_matrix(sizes, resolve(rule, sizes.shape))]
