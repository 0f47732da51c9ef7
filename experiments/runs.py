"""Running experiments and verifying claims by name, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import catalogue

if TYPE_CHECKING:
    from experiments.experiment.execution import Finished
    from experiments.ledger.fates import Mutation
    from experiments.ledger.verify import Verification
    from theory.plans.setting import Setting


def run(
    name: str,
    profile: str = "cpu",
    *,
    out: Path | str = "runs",
    seeds: int | None = None,
    device: str = "cpu",
    jobs: int = 0,
    minutes: float | None = None,
    data: str | None = None,
    variants: Sequence[str] = (),
    size: Setting | None = None,
    on: str = "here",
) -> Finished:
    """Carry an experiment through, or resume it, in a folder below `out`.

    seeds    how many; by default the profile's
    device   of full-size models: cpu, cuda, or auto (a GPU where the profile wants one)
    jobs     trainings at a time; 0: one per core, or what a GPU takes
    minutes  stop then; the same call resumes with the trainings that are left
    data     a folder of prepared text, in place of the standard library's source
    on       here, or ray: a cluster (`experiments.store.cluster`)
    variants to compare with vanilla in place of the experiment's own, FILE.py:function among them, in a folder of their
             own
    size     of toys whose sizes are free, in place of the profile's; in a folder of its own, too

    Work is shared out to processes of their own: a script calls this under `if __name__ == "__main__"`.  Raises
    UserError for what is not there or makes no sense, Unfinished if time is up.
    """
    from experiments.experiment.execution import Finished, execute, prepare
    from experiments.experiment.protocol import at_size
    from experiments.training.device import slot_for

    experiment = catalogue.experiment(name)
    catalogue.check_claims(experiment)
    if variants:
        from experiments.training.comparing import comparing

        experiment = comparing(experiment, profile, variants)
    experiment = at_size(experiment, profile, size)
    slot = slot_for([experiment], profile, device, jobs=jobs, minutes=minutes, data=data, on=on)
    job = prepare(experiment, profile, seeds, out=Path(out), slot=slot)
    return Finished(job.run.path, tuple(execute(job)))


def verify(*ids: str, afresh: bool = False) -> list[Verification]:
    """Run the checks of these ledger entries, by default of all, and of what they rest on.

    What stood, and imports nothing that has changed since, is remembered unless `afresh`.  Raises UserError for an id
    that is not there.
    """
    from experiments.ledger.verify import verifications

    ledger = catalogue.claims()
    return verifications([catalogue.claim(name) for name in ids or ledger], ledger, afresh=afresh)


def mutate(
    *ids: str,
    afresh: bool = False,
    source: bool = False,
    keep: Path | None = None,
    minutes: float | None = None,
) -> list[Mutation]:
    """Alter, one at a time, what these ledger entries' checks call in `theory`, by default of all.

    afresh: what is remembered, too.
    source: places in the source of the modules that prove the entries, not results of what their checks call.
    keep: a folder into which all is put that is known of entries that nothing survives without a reason, also if it
        does not come to its end.
    minutes: after which it stops; None: it goes on to its end.

    Raises Unfinished if time is up; UserError for an id that is not there, or an entry that does not stand as it is.
    """
    from time import time

    from experiments.experiment.execution import committed_results
    from experiments.ledger.fates import keep_fates
    from experiments.ledger.mutation import mutations
    from experiments.store.folders import Slot
    from experiments.toys.exempt import UNJUDGED

    ledger = catalogue.claims()
    claims, known = [catalogue.claim(name) for name in ids or ledger], committed_results() / "ledger"
    slot = Slot() if minutes is None else Slot(deadline=time() + 60 * minutes)
    try:
        return mutations(claims, ledger, UNJUDGED, afresh=afresh, source=source, known=known, slot=slot)
    finally:
        if keep is not None:
            keep_fates(list(ledger.values()), ledger, UNJUDGED, kept=keep, source=source)
