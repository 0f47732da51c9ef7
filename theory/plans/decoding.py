"""What a decoded token costs in memory traffic: the numbers that it reads, beside those that are kept.

A step of decoding does little arithmetic with much memory: every weight, and of every token before, what its layers
attend over.  Where that decides the time, the time of a plan is to another's as what they read.  A layer is taken to
read each kept projection that one of its heads attends over once, however many of its heads do, as a kernel does that
has room for it.

Theorem.  What all layers read of a token is no less than what is kept of it (`theory.plans.accounting.cache`), and more
by as much as is read in more than one layer.  Of SkipV1Former on L layers of H heads of width w, (L - 1) H w / 2
numbers less are kept of a token than of MHA, and 2 L H w are read of it, as of MHA.
Proof.  What is kept is what some layer attends over, each once; what is read, the same with every layer's counted, so
that one read in k layers counts k times.  Every layer of SkipV1Former reads H keys of its own, and H values: in layer 1
its own, in others H / 2 of its own and H / 2 of layer 1's.  These are kept once, and no layer past the first keeps its
other half: L H + H + (L - 1) H / 2 for the 2 L H of MHA.                                                           QED

So reaching back to layer 1 saves room and no traffic: where the cache decides the time of a step, SkipV1Former is as
fast as MHA and no faster, but that more sequences fit.  What it saves in time is half of the value projections' work.
"""

from __future__ import annotations

from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture, Tokens
from theory.plans.mix import Source
from theory.plans.plan import Plan, lifetimes


def reads(config: Architecture, plan: Plan) -> int:
    """The numbers that a step of decoding reads of every token before it, all layers together."""
    attending = config.attending(plan)
    kept = {life.source for life in lifetimes(attending) if life.cached}
    latent = config.latent
    key, value = (config.width,) * 2 if latent is None else (0, latent.width // config.n_heads)
    count = 0
    for n in range(1, config.n_layers + 1):
        sources: set[Source] = set()
        for h in attending.live(n):
            head = attending.head(n, h)
            sources |= {term.source for mix in (*head.keys, *head.values) for term in mix.terms} & kept
        of_keys = [source for source in sources if source.kind == "k"]
        count += key * len(of_keys) + value * (len(sources) - len(of_keys))
        if latent is not None:  # rotary keys are a layer's, not a head's
            count += latent.rope * len({source.layer for source in of_keys})
        count += config.width * len(attending.live(n)) * plan.gates[1]
    return count


def numbers_of_a_step(config: Architecture, plan: Plan, batch: int, tokens: int) -> int:
    """All that a step reads for a token of each of `batch` sequences, with so many tokens before: weights, of an
    embedding that is not the head's too a row a sequence, and what layers attend over, of a window's tokens at most."""
    stem = config.stem
    table = stem.vocab * config.d_model if isinstance(stem, Tokens) and not stem.tied else 0
    rows = batch * config.d_model if table else 0
    seen = min(tokens, config.window or tokens)
    return total_parameters(config, plan) - table + rows + batch * seen * reads(config, plan)
