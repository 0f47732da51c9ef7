"""Claims on value embeddings: a table of values by token against layer 1's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.skipv1.paper import PAPER
from theory.toy import value_embeddings
from theory.toy.value_embeddings import covered, least_missed, missed, nearest

if TYPE_CHECKING:
    from theory.toy.value_embeddings import Array

CLOSE = 1e-9

TABLES = Claim(
    "toy.value-embeddings",
    PAPER.ours,
    place="theory/toy/value_embeddings.py; bears on value embeddings as modded-nanogpt and nanochat have them, and on "
    "skips to layer 1's values (SkipV1Former, ResFormer, SVFormer)",
    statement="Layer 1's values are a table by token in two factors, the embedding and the value map.  Every table "
    "is one of them if and only if the tokens' embeddings are linearly independent, which takes a vocabulary no "
    "larger than the width; then a skip to layer 1's values and a value embedding are the same.  Beyond that V_1's "
    "are rank(E) m of the N m dimensions of all tables.  If the embedding served the values alone, exactly the tables "
    "of a rank of at most d would be in reach, so one table of m <= d columns is, and the tables of several layers "
    "together are not.",
    assumes="no positions added to the embedding, and no norm before layer 1's values, or the normed embedding",
    verdict="verified",
    proof=value_embeddings,
)


@TABLES.check(
    "decoders on random tokens: layer 1's values are the table of embedding times value map, whatever stands before",
    states=("none", "rope"),
    control=("learned",),
    wrong="with positions that are added to the embedding",
)
def values_are_a_table(positions: tuple[Literal["none", "rope", "learned"], ...]) -> Conditions:
    import torch

    from icl.models.decoder import Decoder

    for kind in positions:
        config = Architecture(
            d_model=8, n_layers=2, n_heads=2, d_ff=8, context=5, stem=Tokens(11), norm="none", positions=kind
        )
        model = Decoder(config, resolve("vanilla", config.shape), std=0.5).double()
        values = model.layers[0].get_submodule("attention.projections.value")
        seen: list[Array] = []
        handle = values.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out.numpy()))
        tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 11, (4, 5)))
        with torch.no_grad():
            model(tokens)
        handle.remove()
        embedding = model.get_parameter("stem.embedding.weight").detach().numpy()
        table = embedding @ values.get_parameter("weight").detach().numpy().T
        by_token = seen[0]
        yield np.allclose(by_token, table[tokens.numpy()], rtol=CLOSE, atol=1e-12)
        yield missed(embedding, table) <= CLOSE
        yield np.allclose(embedding @ nearest(embedding, table), table, rtol=0, atol=CLOSE)


@TABLES.check(
    "random tables, widths 1 to 12 and as many tokens as the width: all are layer 1's values",
    states=lambda d: d,
    control=lambda d: d + 1,
    wrong="one token more than the width",
    others={"ten times as many": lambda d: 10 * d},
)
def all_tables_are_values(tokens: Callable[[int], int]) -> Conditions:
    rng = np.random.default_rng(0)
    for d, m in ((1, 2), (3, 3), (12, 4)):
        n = tokens(d)
        table = rng.standard_normal((n, m))
        for embedding in (rng.standard_normal((n, d)), np.eye(n)[:, :d]):
            yield missed(embedding, table) <= CLOSE
            yield np.allclose(embedding @ nearest(embedding, table), table, rtol=0, atol=1e-6)
            yield covered(embedding, m) == n * m


@TABLES.check(
    "a given embedding: the nearest values by normal equations on a basis of it, and the dimension by a Kronecker "
    "product",
    states=lambda n, d, rank: rank,
    control=lambda n, d, rank: d,
    wrong="the width in place of the embedding's rank",
)
def distance_of_a_table(dimension: Callable[[int, int, int], int]) -> Conditions:
    rng = np.random.default_rng(1)
    for n, d, rank, m in ((7, 3, 2, 2), (11, 6, 4, 1), (5, 5, 3, 3)):
        basis = rng.standard_normal((n, rank))
        embedding, table = basis @ rng.standard_normal((rank, d)), rng.standard_normal((n, m))
        left = table - basis @ np.linalg.solve(basis.T @ basis, basis.T @ table)
        yield abs(missed(embedding, table) - (left**2).sum()) <= CLOSE
        yield np.linalg.matrix_rank(np.kron(embedding, np.eye(m))) == covered(embedding, m)
        yield covered(embedding, m) == dimension(n, d, rank) * m


@TABLES.check(
    "what tables of independent entries are missed by on average, over a basis of all tables: in units of m",
    states=lambda n, rank: n - rank,
    control=lambda n, rank: 0,
    wrong="nothing: layer 1's values reach all tables",
)
def missed_on_average(units: Callable[[int, int], int]) -> Conditions:
    """Sum over tables of one entry of 1, by which the mean over independent entries of variance 1 is the same."""
    rng = np.random.default_rng(2)
    for n, d, m in ((4, 2, 2), (9, 3, 1), (6, 5, 2)):
        embedding = rng.standard_normal((n, d))
        singles = np.eye(n * m).reshape(n * m, n, m)
        total = sum(missed(embedding, table) for table in singles)
        yield abs(total - units(n, d) * m) <= CLOSE


@TABLES.check(
    "a free embedding of width 3: the least distance by alternating least squares, of one table of 3 columns and of "
    "the tables of two layers",
    states=True,
    control=False,
    wrong="two tables are in reach as one is",
    kind="descent",
)
def free_embedding(more: bool) -> Conditions:
    d, rng = 3, np.random.default_rng(3)
    one, two = rng.standard_normal((8, d)), rng.standard_normal((8, 2 * d))
    for table, reached in ((one, True), (two, not more)):
        embedding = rng.standard_normal((8, d))
        for _ in range(400):
            maps = nearest(embedding, table)
            embedding = nearest(maps.T, table.T).T
        yield abs(missed(embedding, table) - least_missed(table, d)) <= 1e-6
        yield (least_missed(table, d) <= CLOSE) == reached
        yield missed(rng.standard_normal((8, d)), table) >= least_missed(table, d)
