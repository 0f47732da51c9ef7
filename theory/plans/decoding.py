"""The memory traffic of decoding: the numbers that a step reads, beside those that the cache keeps.

A step of decoding does little arithmetic and reads much memory: every weight, and for every earlier token what the
layers attend over.  Where memory decides the time, the times of two plans are in the ratio of what they read.  We
assume that a layer reads each cached projection once, however many of its heads attend over it, as a kernel with enough
room does.

Theorem.  All layers together read at least the numbers cached per token (`theory.plans.accounting.cache`), and more by
as much as is read in more than one layer.  SkipV1Former on L layers of H heads of width w caches (L - 1) H w / 2
numbers per token fewer than MHA, and reads 2 L H w of them, as MHA does.
Proof.  The cache counts each projection that some layer attends over once; reading counts it once per layer, so one
read in k layers counts k times.  Every layer of SkipV1Former reads H keys of its own, and H values: in layer 1 its own,
in others H / 2 of its own and H / 2 of layer 1's.  These are cached once, and no layer past the first caches its other
half: L H + H + (L - 1) H / 2, against the 2 L H of MHA.                                                            QED

So reaching back to layer 1 saves memory and no traffic.  Where the cache decides the time of a step, SkipV1Former is as
fast as MHA and no faster, but more sequences fit.  The time that it saves is half of the value projections' work.
"""

from __future__ import annotations

from operator import mul

from theory.plans.accounting import parameters, projections, total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.mix import Source
from theory.plans.plan import Plan, lifetimes


def reads(config: Architecture, plan: Plan) -> int:
    """Return the numbers that a step of decoding reads per earlier token, all layers together.

    They include the rows of tables, which are looked up again for every earlier token.
    """
    return sum(_reads_by_layer(config, plan))


def _reads_by_layer(config: Architecture, plan: Plan) -> list[int]:
    attending = config.attending(plan)
    kept = {life.source for life in lifetimes(attending) if life.cached}
    latent = config.latent
    key, value = (config.width,) * 2 if latent is None else (0, latent.width // config.n_heads)
    found = []
    for n in range(1, config.n_layers + 1):
        sources: set[Source] = set()
        for h in attending.live(n):
            head = attending.head(n, h)
            sources |= {read for mix in (*head.keys, *head.values) for term in mix.terms for read in term.read} & kept
        of_keys = [source for source in sources if source.kind == "k"]
        of_gates = sum(source.kind == "g" for source in sources)  # one number each
        count = key * len(of_keys) + value * (len(sources) - len(of_keys) - of_gates) + of_gates
        if latent is not None:  # rotary keys are a layer's, not a head's
            count += latent.rope * len({source.layer for source in of_keys})
        found.append(count + config.width * len(attending.live(n)) * plan.gates[1])
    return found


def numbers_of_a_step(config: Architecture, plan: Plan, batch: int, tokens: int) -> int:
    """Return all numbers that one step of decoding reads.

    These are the weights and, per sequence, what its layers attend over.  An embedding that is not tied to the head
    counts one row per sequence, and so does every table.

    Args:
        config: The architecture.
        plan: The variant.
        batch: Sequences, each of which decodes one token.
        tokens: Earlier tokens of each sequence; a layer's window reads its last ones at most.
    """
    stem = config.stem
    untied = isinstance(stem, Tokens) and not stem.tied
    looked_up = parameters(config, plan)["tables"] + (parameters(config, plan)["embedding"] if untied else 0)
    row = sum(p.table for p in projections(config, plan)) + (config.d_model if untied else 0)
    seen = [min(tokens, config.window_of(n) or tokens) for n in range(1, config.n_layers + 1)]
    earlier = sum(map(mul, seen, _reads_by_layer(config, plan)))
    return total_parameters(config, plan) - looked_up + batch * (row + earlier)
