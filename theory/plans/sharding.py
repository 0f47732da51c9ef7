"""Memory and traffic of one process among several that train a model together, cut by sublayers (FSDP).

Each process has its share of weights, gradients and moments, and of the sequences.  A sublayer's weights are whole
while it is at work, and so is its gradient before it is summed; two sublayers overlap.  What sublayers share is whole
throughout.  Standard library only.
"""

from __future__ import annotations

from theory.plans.accounting import norm_parameters, pair_parameters, parameters, projections, total_parameters
from theory.plans.architecture import Architecture
from theory.plans.memory import activations, answered, reads_over_depth
from theory.plans.plan import Plan, lifetimes

WEIGHT = 4  # bytes of a number of weights, gradients and moments


def sublayer_parameters(config: Architecture, plan: Plan) -> list[int]:
    """Return the parameters of each sublayer: attention and feed-forward of layer 1, of layer 2, and so on.

    The order is that of `icl.models.decoder.Decoder.weight_groups`.
    """
    of_one, gain = parameters(config, plan), norm_parameters(config, config.sublayer_norm)
    attention = []
    for n, p in enumerate(projections(config, plan), 1):
        reads = p.reads_input or (n == 1 and config.copy_rank is not None)
        rows = config.d_model + config.qkv_bias
        count = rows * p.projected + gain * (reads or config.parallel)
        count += config.d_model * p.output_gate + p.source_gate_map
        count += pair_parameters(config) * bool(p.attended)
        count += (p.attended + config.bias) * config.d_model * bool(p.attended) * plan.output_projection
        count += config.qk_norm * config.width * (bool(p.query) + bool(p.key))
        if config.positions == "bias":
            count += p.attended // config.width * config.context**2
        attention.append(count + (of_one["copy"] if n == 1 else 0))
    if of_one["latent"]:
        there = [n for n, p in enumerate(projections(config, plan)) if p.attended]
        for n in there:
            attention[n] += of_one["latent"] // len(there)
    if tables := sum(p.table for p in projections(config, plan)):
        for n, p in enumerate(projections(config, plan)):
            attention[n] += p.table * (of_one["tables"] // tables)
    every = (of_one["scales"] + of_one["residual_maps"]) // config.sublayers(plan)
    if not config.has_feed_forward(plan):
        return [own + every for own in attention]
    feed_forward = of_one["feed_forward"] // config.n_layers
    if config.parallel:
        return [own + feed_forward + every for own in attention]
    return [count + every for own in attention for count in (own, feed_forward + gain)]


def recomputed(config: Architecture, plan: Plan, *, fused: bool = False) -> int:
    """Return the numbers per token that a step keeps where sublayers keep only their inputs (`theory.plans.memory`).

    They are these inputs, the outputs that later layers read, what the depth rule and the head keep, and what lies
    within one layer while its gradient is computed.
    """
    ends = answered(config) + reads_over_depth(config, plan)
    within = (activations(config, plan, fused=fused) - ends) // config.n_layers
    inputs = (config.sublayers(plan) + 1) * config.d_model
    later = sum(config.width for life in lifetimes(config.attending(plan)) if life.last > life.source.layer)
    return min(ends + within + inputs + later * config.group, activations(config, plan, fused=fused))


def state_bytes(config: Architecture, plan: Plan, processes: int) -> int:
    """Return the bytes of weights, gradients and moments in one of `processes`, with what it gathers for its work."""
    if processes == 1:
        return 4 * WEIGHT * total_parameters(config, plan)
    of_sublayers = sublayer_parameters(config, plan)
    shared = total_parameters(config, plan) - sum(of_sublayers)
    own = -(-4 * total_parameters(config, plan) // processes)
    return WEIGHT * (own + 2 * shared + 4 * max(of_sublayers, default=0))


def saving_bytes(config: Architecture, plan: Plan, processes: int) -> int:
    """Return the bytes of weights and moments that each process copies to write a checkpoint while training goes on."""
    return -(-3 * WEIGHT * total_parameters(config, plan) // processes)


def traffic(config: Architecture, plan: Plan, processes: int) -> int:
    """Return the bytes that each process sends in one part of a step, on a ring in float32.

    The weights are sent twice and the gradients once.
    """
    return 3 * WEIGHT * total_parameters(config, plan) * (processes - 1) // processes
