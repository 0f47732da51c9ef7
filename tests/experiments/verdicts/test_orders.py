"""Concordant pairs, and their exact distribution under permutation."""

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.verdicts.orders import Agreement, agreement, convolved, null_balances, tail, widest_by_chance

things = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.lists(st.sampled_from([(i, j) for i in range(n) for j in range(n) if i != j]), min_size=1, max_size=8),
    )
)


@given(things)
def test_the_distribution_is_that_of_all_permutations(case):
    """Brute force over the things that have pairs."""
    found, pairs = case
    named = sorted({i for pair in pairs for i in pair})
    levels = {str(i): level for i, level in enumerate(found)}
    of = [(str(a), str(b)) for a, b in pairs]
    dealt = [dict(zip(map(str, named), order, strict=True)) for order in permutations([found[i] for i in named])]
    counts = Counter(agreement(one, of).balance for one in dealt)
    expected = {balance: count / len(dealt) for balance, count in counts.items()}
    assert null_balances(levels, of) == pytest.approx(expected)


def test_agreement_counts():
    levels = {"a": 0, "b": 1, "c": 1}
    assert agreement(levels, [("a", "b"), ("c", "a"), ("b", "c"), ("a", "c")]) == Agreement(2, 1, 1)
    assert Agreement(2, 1, 1).share == pytest.approx(2 / 3)
    assert Agreement(0, 0, 3).share is None
    assert agreement({name: -level for name, level in levels.items()}, [("a", "b")]).balance == -1


def test_sums_and_tails():
    coin = {-1: 0.5, 1: 0.5}
    two = convolved([coin, coin])
    assert two == {-2: 0.25, 0: 0.5, 2: 0.25}
    assert tail(two, 0) == 0.75
    assert tail(two, 3) == 0
    assert convolved([]) == {0: 1.0}


@given(st.dictionaries(st.integers(-3, 3), st.integers(1, 5), min_size=1))
def test_beyond_what_chance_gives_lies_no_more_than_the_level(weights):
    one = {value: weight / sum(weights.values()) for value, weight in weights.items()}
    widest = widest_by_chance(one, 0.3)

    def beyond(w):
        return sum(p for value, p in one.items() if abs(value) > w)

    assert beyond(widest) <= 0.3 + 1e-12
    assert widest == 0 or beyond(widest - 1) > 0.3 - 1e-12
    assert widest_by_chance({-2: 0.25, 0: 0.5, 2: 0.25}, 0.05) == 2
    assert widest_by_chance({0: 1.0}, 0.05) == 0
