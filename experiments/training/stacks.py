"""Many small trainings as stacks: what `pool.train_all` trains one by one, with the same records.

Arms that differ in variant, seed, learning rate and initial weights stand in one stack, and those that differ in length
too share their beginning where their rates do (`icl.stacks.training`).  An arm that cannot stand in a stack is trained
alone.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from experiments.store.common import packed, unpacked
from experiments.store.desk import Desk
from experiments.store.folders import Json, RunFolder
from experiments.store.progress import warn
from experiments.store.provenance import provenance
from experiments.store.steps import StepLog, stoppable
from experiments.store.work import results
from experiments.training import probes
from experiments.training.arms import Arm, TextSource
from experiments.training.pool import train_all
from experiments.training.records import losses, of_probes, probed
from icl.recipe import Recipe
from theory.plans.accounting import total_parameters
from theory.plans.plan import Plan

LOGGED: Json = {"recipe": int, "shared": bool, "at": int, "losses": list, "held_out": list | None}
MOST = 160  # trainings in a stack: what is lost where one is killed, and what two workers can share


@dataclass(frozen=True)
class Stack:
    """Trainings of equal shape.  members: each at every one of the lengths; recipes: the lengths, the shortest first,
    whose rate gives way to a member's own."""

    members: tuple[Arm, ...]
    recipes: tuple[Recipe, ...]

    def arm(self, member: Arm, recipe: Recipe) -> Arm:
        return replace(member, recipe=replace(recipe, learning_rate=member.recipe.learning_rate))


def train_stacked(arms: Sequence[Arm], run: RunFolder, label: str) -> dict[Arm, Json]:
    """Return the records of all arms that are finished, or get finished before the slot's deadline, in order."""
    device = run.slot.device
    keys = {arm: arm.key(device) for arm in arms}
    alone = [arm for arm in keys if not _stacks(arm)]
    there = finished(run)
    # One of each key: variants may be the same plan on a shape.
    todo = {key: arm for arm, key in keys.items() if key not in there and arm not in alone}
    items = {_name(stack, device): stack for stack in stacks(list(todo.values()))}
    results("stack", items, _trained, run=run, label=label, size=_size, partial=True)
    records = finished(run)
    trained = train_all(alone, run, label) if alone else {}
    trained |= {arm: records[key] for arm, key in keys.items() if key in records}
    return {arm: trained[arm] for arm in keys if arm in trained}


def stacks(arms: Sequence[Arm]) -> list[Stack]:
    """Group arms into stacks: those of one shape, which are trained to the same lengths, MOST at a time."""
    lengths: dict[Arm, list[Recipe]] = defaultdict(list)
    for arm in arms:
        unsized = replace(arm.recipe, steps=1, warmup=0.0, log_every=1)
        lengths[replace(arm, recipe=unsized)].append(arm.recipe)
    shapes: dict[tuple[Any, ...], list[Arm]] = defaultdict(list)
    for arm, recipes in lengths.items():
        of_any_rate = sorted((replace(recipe, learning_rate=1.0) for recipe in recipes), key=lambda r: r.steps)
        sharing = [of_any_rate] if _share(of_any_rate) else [[recipe] for recipe in of_any_rate]
        for some in sharing:
            common = _common(arm.plan), type(arm), arm.probes
            shapes[arm.architecture, arm.source, arm.std, tuple(some), *common].append(arm)
    return [
        Stack(tuple(members[i : i + MOST]), shape[3])
        for shape, members in shapes.items()
        for i in range(0, len(members), MOST)
    ]


def _share(recipes: Sequence[Recipe]) -> bool:
    from icl.stacks.training import stretches
    from theory.errors import BadInput

    try:
        stretches(recipes)
    except BadInput:
        return False
    return True


def _common(plan: Plan) -> tuple[object, ...]:
    from icl.stacks.decoder import common

    return common(plan)


def _stacks(arm: Arm) -> bool:
    from icl.stacks.decoder import misfit
    from icl.stacks.training import MEANINGLESS, StackTask

    plain = all(getattr(arm.recipe, field) == value for field, value in MEANINGLESS.items())
    ours = not isinstance(arm.source, TextSource) and not arm.start and not arm.initial
    return ours and plain and misfit(arm.architecture, arm.plan) is None and isinstance(arm.task(), StackTask)


def _name(stack: Stack, device: str) -> str:
    keys = [stack.arm(member, recipe).key(device) for member in stack.members for recipe in stack.recipes]
    return hashlib.sha256(" ".join(keys).encode()).hexdigest()[:16]


def _size(stack: Stack) -> float:
    from icl.stacks.training import stretches

    return sum(stretch.last - stretch.first for stretch in stretches(stack.recipes)) * len(stack.members)


def finished(run: RunFolder) -> dict[str, Json]:
    """Return the records of a run by key, as `pool.train_all` gives them, whether trained alone or beside others."""
    records = training_records(run)
    return {one["key"]: {name: x for name, x in one.items() if name not in ("kind", "key")} for one in records}


def training_records(run: RunFolder) -> list[Json]:
    """Return the records of all trainings of a run: of those that stood in stacks, then of those trained alone."""
    lines = run.lines_of({"stack": {"common": dict, "records": list}, "run": {"key": str}})
    stacked = [record for line in lines["stack"] for record in unpacked(line["common"], line["records"])]
    return [*stacked, *lines["run"]]


def _trained(stack: Stack, desk: Desk) -> Json:
    from icl.stacks.training import StackTask, train

    began, members, device = time.monotonic(), stack.members, desk.slot.device
    task = members[0].task()
    assert isinstance(task, StackTask)
    models = [arm.model(device) for arm in members]
    at_start = [probed(arm, model, task, device=device) for arm, model in zip(members, models, strict=True)]
    log = StepLog(RunFolder(desk.folder), "step", 1, **LOGGED)
    note = f"{len(members)} decoders, width {members[0].architecture.d_model}: step"
    steps = train(
        models,
        task,
        stack.recipes,
        seeds=[arm.seed for arm in members],
        rates=[arm.recipe.learning_rate for arm in members],
        folder=desk.folder / "training",
        warn=warn,
        on_step=lambda done: desk.show(done * len(members), f"{note} {done}"),
        name=_name(stack, device),
        probe=(lambda i, model: probed(members[i], model, task, device=device)) if members[0].probes else None,
    )
    with stoppable(steps):
        for logged in steps:
            ends = logged.held_out and [x if isinstance(x, str) else asdict(x) for x in logged.held_out]
            if ends and logged.probed:
                both = zip(ends, logged.probed, strict=True)
                ends = [end if isinstance(end, str) else {**end, "probed": seen} for end, seen in both]
            numbers = [loss if math.isfinite(loss) else None for loss in logged.losses]
            where = {"recipe": logged.recipe, "shared": logged.shared, "at": logged.step}
            log.add(logged.done, **where, losses=numbers, held_out=ends)
            desk.report(logged.done * len(members), f"{note} {logged.step}")
    seconds = round((time.monotonic() - began) / (len(members) * len(stack.recipes)), 2)
    about = {"seconds": seconds, **provenance(device, __name__, *map(probes.module, members[0].probes))}
    trainings = [(i, place) for place in range(len(stack.recipes)) for i in range(len(members))]
    common, records = packed(
        [
            {**_record(stack, i, place, lines=log.lines, device=device, at_start=at_start[i]), **about}
            for i, place in trainings
        ]
    )
    return {"common": common, "records": records}


def _record(stack: Stack, i: int, place: int, lines: Sequence[Json], device: str, at_start: Json) -> Json:
    """Return the record of member i's training by the recipe at `place`, as `records.train_arm` has it.

    Its seconds are its share.
    """
    arm = stack.arm(stack.members[i], stack.recipes[place])
    own = [line for line in lines if line["recipe"] == place or (line["shared"] and line["recipe"] < place)]
    end = next(line["held_out"] for line in reversed(own) if line["held_out"])[i]
    diverged = end if isinstance(end, str) else None
    curve = [{"step": line["at"], "loss": line["losses"][i], "held_out": None} for line in own]
    held_out = None if diverged else dict(end)
    at_end = held_out.pop("probed", {}) if held_out else dict.fromkeys(at_start)
    curve[-1]["held_out"] = held_out
    return {
        "key": arm.key(device),
        "arm": arm.to_json(),
        "name": arm.name,
        "seed": arm.seed,
        "parameters": total_parameters(arm.architecture, arm.plan),
        "diverged": diverged,
        **losses(arm, curve, diverged),
        "tokens": arm.recipe.steps * arm.recipe.batch * arm.task().tokens,
        "tokens_per_second": None,
        "mfu": None,
        **of_probes(at_start, at_end),
    }
