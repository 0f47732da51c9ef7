"""The pseudo-code's sources against those of the plans, and its slips against softmaxes written out."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.attnres import pseudo_code as code
from theory.attnres.two_phase import attend
from theory.plans.accounting import depth_reads
from theory.plans.architecture import Architecture, Vectors
from theory.plans.names import resolve

sizes = st.integers(1, 6)


def of_plan(layers, size):
    config = Architecture(d_model=2, n_layers=layers, n_heads=1, d_ff=1, context=1, stem=Vectors(2), positions="none")
    reads = depth_reads(config, resolve(f"attnres-block:size={size}", config.shape))
    return [[Counter(source) for source in sources] for sources in reads]


@given(sizes, sizes)
def test_it_is_block_attnres_where_layers_count_from_0_and_the_list_is_empty(layers, half):
    reads, stream = code.pseudo_code(layers, 2 * half)
    *expected, last = of_plan(layers, 2 * half)
    assert reads == expected
    assert stream == last[-1]
    assert (len(last) == 2) == (layers <= half)  # else the stream lacks whole blocks, and always the embedding


@given(sizes, sizes)
def test_odd_sizes_are_those_below(layers, half):
    assert code.pseudo_code(layers, 2 * half + 1) == code.pseudo_code(layers, 2 * half)
    assert code.pseudo_code(layers, 2 * half + 1)[0] != of_plan(layers, 2 * half + 1)[:-1] or layers <= half


def test_one_sublayer_a_block_divides_by_zero():
    with pytest.raises(ZeroDivisionError):
        code.pseudo_code(2, 1)


@given(sizes, sizes, st.integers(0, 1))
def test_a_list_that_holds_the_embedding_counts_it_twice(layers, half, first):
    reads, _ = code.pseudo_code(layers, 2 * half, first=first, holds_embedding=True)
    assert all(sum((s for s in sources), Counter())[0] == 2 for sources in reads)
    assert all(
        output == 0 or times == 1 for sources in reads for output, times in sum((s for s in sources), Counter()).items()
    )
    if first == 0:
        correct = of_plan(layers, 2 * half)
        for sources, right in zip(reads[1:], correct[1:], strict=False):
            assert code.start_weights(sources)[0] == Fraction(2, len(right) + 1)
            assert code.start_weights(right)[0] == Fraction(1, len(right))
            assert code.start_weights(sources)[0] == code.doubled_share(code.start_weights(right)[0])


@given(sizes, st.integers(2, 6))
def test_counted_from_1_the_first_block_is_short_and_has_the_embedding_in_it(layers, half):
    reads, _ = code.pseudo_code(layers, 2 * half, first=1)
    first_block = Counter(range(min(2 * half - 1, 2 * layers)))
    assert reads[min(2 * half - 1, 2 * layers - 1)][0] == first_block
    assert reads != of_plan(layers, 2 * half)[:-1]


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 99))
def test_shares_of_a_source_counted_twice_and_of_one_of_zeros(count, d, seed):
    rng = np.random.default_rng(seed)
    sources, query = rng.standard_normal((count, d)), rng.standard_normal(d)
    logits = sources / np.sqrt((sources**2).mean(1, keepdims=True)) @ query
    share = np.exp(logits[0]) / np.exp(logits).sum()
    others = (attend(query, sources).mean - share * sources[0]) / (1 - share) if count > 1 else 0
    twice = float(code.doubled_share(share))
    expected = twice * sources[0] + (1 - twice) * others
    assert np.allclose(attend(query, np.concatenate([sources[:1], sources])).mean, expected, atol=1e-9)
    empty = attend(query, np.concatenate([sources, np.zeros((1, d))]), 1e-12).mean
    assert np.allclose(empty, (1 - code.zero_share(logits)) * attend(query, sources, 1e-12).mean, atol=1e-6)
