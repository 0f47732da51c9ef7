"""Claims on layer 1's values as a function of the token, and on what maps of them leave of later values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from experiments.ledger.claim import Claim, Conditions
from theory.plans.architecture import Architecture, Tokens
from theory.plans.names import resolve
from theory.reading import token_values as token_values_theory
from theory.reading.refit import moments, refit
from theory.reading.token_values import (
    TokenValues,
    by_token,
    least_error,
    least_linear_error,
    linear_error,
    linear_loss,
    linear_map,
    map_error,
    offset_error,
    r_squared,
    raw_error,
    schur_complement,
    with_offset,
)
from theory.skipv1.paper import PAPER

if TYPE_CHECKING:
    from theory.reading.refit import Array

CLOSE = 1e-9
Positions = Literal["none", "rope", "learned"]

TOKEN_VALUES = Claim(
    "reading.token-values",
    PAPER.ours,
    place="theory/reading/token_values.py; bears on skips to layer 1's values and on conversion of checkpoints, "
    "section 5.1",
    statement="Under rotary positions, or none, layer 1's value is a function of the token, so no map of it, whatever "
    "its form, comes nearer to a later layer's value than the mean of that by token, E[v_l | token].  The best linear "
    "map leaves the Schur complement E[v_l v_l^T] - C M^+ C^T: the scatter of v_l within tokens, which no map "
    "reaches, and what a linear read misses of the table of means.  The latter vanishes just if that table is a linear "
    "function of layer 1's, as always where layer 1's values of the tokens are linearly independent.  For what "
    "attention reads the best table is another one than the means in general.",
    assumes="values are read before attention but for the last sentence; squared errors; a finite vocabulary",
    verdict="verified",
    proof=token_values_theory,
    uses=("toy.value-embeddings",),
)


def solved_error(outputs: Array, reads: Array, chance: Array | None = None) -> float:
    """Return the least mean squared error of a linear map, by a least-squares solver."""
    weights = np.full(len(reads), 1 / len(reads)) if chance is None else chance
    root = np.sqrt(weights)[:, None]
    found = np.linalg.lstsq(root * reads, root * outputs, rcond=None)[0]
    return float(weights @ ((outputs - reads @ found) ** 2).sum(1))


def all_values(positions: Positions) -> tuple[Array, list[Array]]:
    """Return a decoder's tokens at all positions of all sequences of three of seven tokens, and values by layer.

    Returns:
        Tokens, (positions,), and for layers 1, 2 and 3 the values of both heads, (positions, 4).
    """
    import torch

    from icl.models.decoder import Decoder

    config = Architecture(d_model=4, n_layers=3, n_heads=2, d_ff=6, context=3, stem=Tokens(7), positions=positions)
    model = Decoder(config, resolve("vanilla", config.shape), std=0.8).double()
    seen: list[Array] = []
    values = [layer.get_submodule("attention.projections.value") for layer in model.layers]
    handles = [v.register_forward_hook(lambda _, __, out: seen.append(out.numpy().reshape(-1, 4))) for v in values]
    tokens = torch.tensor(list(product(range(7), repeat=3)))
    with torch.no_grad():
        model(tokens)
    for handle in handles:
        handle.remove()
    return tokens.numpy().ravel(), seen


def features(values: Array) -> Array:
    """Return many functions of values: their products of up to three, and random waves."""
    rng = np.random.default_rng(0)
    waves = np.sin(values @ rng.standard_normal((values.shape[1], 40)) + rng.uniform(0, 6, 40))
    pairs = np.einsum("ni,nj->nij", values, values).reshape(len(values), -1)
    triples = np.einsum("ni,nj->nij", pairs, values).reshape(len(values), -1)
    return np.column_stack([np.ones(len(values)), values, pairs, triples, waves])


@TOKEN_VALUES.check(
    "decoders of three layers on all sequences of three of seven tokens: the last layer's values by token, by linear "
    "maps and by some hundred functions of the values of a layer; positions and that layer",
    states=(("none", 1), ("rope", 1)),
    control=(("learned", 1),),
    wrong="with positions that are added to the embedding",
    others={"values of layer 2, which has attention before it": (("rope", 2),)},
)
def no_map_beats_the_token(cases: Sequence[tuple[Positions, int]]) -> Conditions:
    for positions, layer in cases:
        tokens, values = all_values(positions)
        read, later = values[layer - 1], values[2]
        of, one_hot = by_token(tokens, read, later), np.eye(7)[tokens]
        yield abs(least_error(of) - solved_error(later, one_hot)) <= CLOSE
        yield solved_error(later, features(read)) >= least_error(of) - 1e-7
        yield abs(linear_error(of) - solved_error(later, read)) <= CLOSE
        yield least_error(of) < linear_error(of)
        errors = later - read @ linear_map(of).T
        yield np.allclose(schur_complement(of), errors.T @ errors / len(errors), rtol=0, atol=CLOSE)


def drawn(tokens: int, width: int, outputs: int, *, seed: int) -> tuple[TokenValues, Array, Array, Array, Array]:
    """Return random values by token, and the positions that they are made of.

    Returns:
        Values by token; tokens, (positions,); layer 1's values, (positions, width); the later ones, (positions,
        outputs); and probabilities, (positions,).
    """
    rng = np.random.default_rng(seed)
    index = np.concatenate([np.arange(tokens), rng.integers(0, tokens, 3 * tokens)])
    table, means = rng.standard_normal((tokens, width)), 1 + rng.standard_normal((tokens, outputs))
    later = means[index] + rng.standard_normal((len(index), outputs))
    chance = rng.uniform(0.5, 2, len(index))
    chance /= chance.sum()
    return by_token(index, table[index], later, chance), index, table[index], later, chance


SIZES = ((1, 1, 1), (5, 3, 2), (3, 4, 3), (12, 5, 4), (30, 7, 1))


@TOKEN_VALUES.check(
    "random vocabularies of 1 to 30 tokens: what the best linear map leaves, over the positions one by one, is the "
    "scatter within tokens and what it misses of the table; the latter is 0 just for so many tokens",
    states=lambda tokens, width: tokens <= width,
    control=lambda tokens, width: True,
    wrong="always: every table is read linearly",
    others={"never": lambda tokens, width: False},
)
def linear_reads_leave(vanishes: Callable[[int, int], bool]) -> Conditions:
    for tokens, width, outputs in SIZES:
        of, index, first, later, chance = drawn(tokens, width, outputs, seed=tokens)
        means = np.array([chance[index == t] @ later[index == t] / chance[index == t].sum() for t in range(tokens)])
        scatter = float(chance @ ((later - means[index]) ** 2).sum(1))
        missed = solved_error(means[index], first, chance)
        yield abs(least_error(of) - scatter) <= CLOSE
        yield abs(linear_loss(of) - missed) <= CLOSE
        yield abs(linear_error(of) - solved_error(later, first, chance)) <= CLOSE
        yield abs(linear_error(of) - scatter - missed) <= CLOSE
        errors = later - first @ linear_map(of).T
        yield np.allclose(schur_complement(of), (errors.T * chance) @ errors, rtol=0, atol=CLOSE)
        yield (linear_loss(of) <= CLOSE) == vanishes(tokens, width)
        any_map = np.random.default_rng(9).standard_normal((tokens, outputs))
        expected = float(chance @ ((later - any_map[index]) ** 2).sum(1))
        yield abs(map_error(of, any_map) - expected) <= CLOSE * expected
        yield abs(raw_error(by_token(index, any_map[index], later, chance)) - expected) <= CLOSE * expected
        equal = by_token(index, first, later)
        yield abs(linear_error(equal) - solved_error(later, first)) <= CLOSE


@TOKEN_VALUES.check(
    "tables of so many columns in layer 1's place: the least error of any, attained by one from a singular value "
    "decomposition, and not by random ones",
    states=lambda width: width,
    control=lambda width: width + 1,
    wrong="one column more",
)
def the_best_table_of_a_width(columns: Callable[[int], int]) -> Conditions:
    for tokens, width, outputs in ((7, 2, 5), (9, 1, 3), (20, 4, 6)):
        of, index, _, later, chance = drawn(tokens, width, outputs, seed=tokens)
        root = np.sqrt(of.chance)[:, None]
        left = np.linalg.svd(root * of.mean)[0]
        best = (left[:, :width] / root)[index]
        least = least_linear_error(of, columns(width))
        yield abs(solved_error(later, best, chance) - least) <= CLOSE
        yield solved_error(later, np.random.default_rng(0).standard_normal((tokens, width))[index], chance) > least


@TOKEN_VALUES.check(
    "R^2 and the error of a constant by a least-squares solver: what stands beside layer 1's values",
    states=1.0,
    control=0.0,
    wrong="nothing: a linear map without an offset",
)
def explained_share(beside: float) -> Conditions:
    for tokens, width, outputs in ((5, 3, 2), (12, 5, 4), (30, 7, 1)):
        of, _, first, later, chance = drawn(tokens, width, outputs, seed=tokens)
        with_column = np.column_stack([first, np.full(len(first), beside)])
        constant = float(chance @ ((later - chance @ later) ** 2).sum(1))
        error = solved_error(later, with_column, chance)
        yield abs(offset_error(of) - constant) <= CLOSE
        yield abs(linear_error(with_offset(of)) - error) <= CLOSE
        yield abs(r_squared(of) - 1 + error / constant) <= CLOSE


def of_means(of: TokenValues, reads: Array, counts: Array) -> Array:  # noqa: ARG001
    """Return the table of means by token, (k, N)."""
    return of.mean.T


def of_reads(of: TokenValues, reads: Array, counts: Array) -> Array:  # noqa: ARG001
    """Return the table refitted to what attention reads, (k, N)."""
    return refit(moments(reads, counts))


@TOKEN_VALUES.check(
    "what attention reads of two tokens, values +1 in the context (0, 0) and -1 in (0, 1): the table with the least "
    "error, which is 0; and where values scatter independently of the context, tables that agree",
    states=of_reads,
    control=of_means,
    wrong="the means by token",
)
def what_attention_reads(table: Callable[[TokenValues, Array, Array], Array]) -> Conditions:
    sequences, values = np.array([[0, 0], [0, 1]]), np.array([1.0, -1.0])
    later = np.repeat(values, 2)[:, None]
    of = by_token(sequences.ravel(), np.eye(2)[sequences.ravel()], later)
    counts = np.eye(2)[sequences].mean(1)
    found = table(of, values[:, None], counts)
    yield float(((values[:, None] - counts @ found.T) ** 2).sum()) <= CLOSE
    yield np.allclose(of.mean[:, 0], [1 / 3, -1], rtol=0, atol=CLOSE)

    rng = np.random.default_rng(3)
    means, miss = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    every = [(s, signs) for s in product(range(3), repeat=2) for signs in product((1.0, -1.0), repeat=2)]
    sequences = np.array([s for s, _ in every])
    later = means[sequences] + np.array([signs for _, signs in every])[..., None] * miss[sequences]
    pattern = rng.uniform(0, 1, (3, 3))[sequences[:, 0], sequences[:, 1]][:, None]  # of the first token, by sequence
    shares = np.concatenate([pattern, 1 - pattern], axis=1)
    counts = np.einsum("sj,sjn->sn", shares, np.eye(3)[sequences])
    reads = np.einsum("sj,sjk->sk", shares, later)
    of = by_token(sequences.ravel(), np.eye(3)[sequences.ravel()], later.reshape(-1, 2))
    yield all(np.allclose(way(of, reads, counts), means.T, rtol=0, atol=1e-8) for way in (of_means, table))
