"""Hyper-connections, static and dynamic, and their manifold-constrained form, as plans.

Every sublayer f reads a sum of n streams H_1 .. H_n, mixes them, and writes to all of them:
    h = sum_i a_i H_i,    H_j <- sum_i R_ij H_i + b_j f(h).
"""

from __future__ import annotations

from theory.errors import BadInput, at_least
from theory.hyper.paper import PAPER
from theory.plans.mix import Learned
from theory.plans.plan import Plan, Shape, plan
from theory.plans.streams import OUTPUT, Gate, Gates, Group, Step, Streams, Sum
from theory.plans.variants import variant

MOST_STREAMS = 64  # every sublayer has weights for the square of their number
MOST_ROUNDS = 1000
FACTOR = 0.01  # first value of the factors of what tokens compute, in both papers


@variant(PAPER, "section 2, static", "every sublayer reads, mixes and writes n streams with learned weights")
def hyper_connections_static(shape: Shape, streams: int = 4) -> Plan:
    _check("streams", streams, MOST_STREAMS)
    every = range(1, streams + 1)

    def step(k: int) -> Step:
        """Return sublayer k, from 0: it starts by reading stream k mod n, keeping all and writing to all."""
        read = tuple((Learned(f"read_{k}_{i}", float(i - 1 == k % streams)), i) for i in every)
        mixed = {j: tuple((Learned(f"mix_{k}_{i}_{j}", float(i == j)), i) for i in every) for j in every}
        return Step((read,), tuple((j, (*mixed[j], (Learned(f"write_{k}_{j}", 1.0), OUTPUT))) for j in every))

    return plan(shape, depth=_summed([step(k) for k in range(2 * shape.layers)], streams))


@variant(
    PAPER, "section 2, dynamic", "every sublayer reads, mixes and writes n streams with weights of every token's own"
)
def hyper_connections(shape: Shape, streams: int = 4) -> Plan:
    """Give each weight a learned part, and s tanh(<w, norm(H_i)>) of the stream H_i that it multiplies or writes to.

    The norm is RMSNorm without a gain, which the map w after it would take up.
    """
    _check("streams", streams, MOST_STREAMS)
    every, one = range(streams), streams + 2  # gates of one stream: to read it, to mix it into each, to write to it

    def step(k: int) -> Step:
        keeps = [(float(i == k % streams), *(float(i == j) for j in every)) for i in every]
        mixing = Group(
            streams + 1, "tanh", scale=Learned(f"mixing_{k}", FACTOR), base=tuple(x for row in keeps for x in row)
        )
        writing = Group(1, "tanh", scale=Learned(f"writing_{k}", FACTOR), base=(1.0,) * streams)
        gates = Gates(tuple(i + 1 for i in every), (mixing, writing), one_by_one=True)
        read = tuple((Gate(one * i), i + 1) for i in every)
        writes = tuple(
            (j + 1, (*((Gate(one * i + 1 + j), i + 1) for i in every), (Gate(one * j + streams + 1), OUTPUT)))
            for j in every
        )
        return Step((read,), writes, gates)

    return plan(shape, depth=_summed([step(k) for k in range(2 * shape.layers)], streams))


@variant(PAPER, "mHC, arXiv 2512.24880", "n streams, which a doubly stochastic matrix of every token's own mixes")
def mhc(shape: Shape, streams: int = 4, rounds: int = 20, diagonal: float = 8.0) -> Plan:
    """Make a = sigmoid(.), b = 2 sigmoid(.) and R = Sinkhorn(.), each of g x phi + c, x all streams normed together.

    The paper leaves open how the maps phi and the offsets c start.  Here phi is random, for else the streams stay
    alike, and c is zero but on R's diagonal, where it is `diagonal`: a stream keeps nearly all of itself.  So the
    network starts as a PreNorm one, up to the factors g, which start at 0.01.
    """
    _check("streams", streams, MOST_STREAMS)
    _check("rounds", rounds, MOST_ROUNDS)
    every = range(streams)
    offsets = tuple(diagonal * (i == j) for i in every for j in every)

    def step(k: int) -> Step:
        none = (0.0,) * streams
        groups = (
            Group(streams, "sigmoid", gain=Learned(f"reading_{k}", FACTOR), bias=none),
            Group(streams, "sigmoid", gain=Learned(f"writing_{k}", FACTOR), bias=none, scale=2.0),
            Group(streams**2, "sinkhorn", gain=Learned(f"mixing_{k}", FACTOR), bias=offsets, rounds=rounds),
        )
        mixed = {j: tuple((Gate(streams * (2 + j) + i), i + 1) for i in every) for j in every}
        return Step(
            (tuple((Gate(i), i + 1) for i in every),),
            tuple((j + 1, (*mixed[j], (Gate(streams + j), OUTPUT))) for j in every),
            Gates(tuple(i + 1 for i in every), groups, random=True),
        )

    return plan(shape, depth=_summed([step(k) for k in range(2 * shape.layers)], streams))


def _check(name: str, value: int, most: int) -> None:
    at_least(name, value, 1)
    if value > most:
        raise BadInput(f"{name} must be at most {most}, got {value}")


def _summed(steps: list[Step], streams: int) -> Streams:
    """Return streams that start as the embedding and whose sum feeds the head."""
    total: Sum = tuple((1.0, i) for i in range(1, streams + 1))
    return Streams((*steps, Step((total,))), copies=streams)
