"""Distances of conversion: against sums over coefficients, written out term by term and averaged over all choices."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from theory.errors import BadInput
from theory.skipv1.conversion import DISTANCES, distance


def term(a, h, b, weight=1):
    return Counter({(a, h, b): Fraction(weight)})


def total(terms):
    found = Counter()
    for one in terms:
        for key, weight in one.items():
            found[key] += weight
    return found


def converted(how, heads, kept):
    """What the layer puts out, for every choice that may be made, all equally likely."""
    group = heads // kept
    reads_first = [term(h, h, ("first", h)) for h in range(kept, heads)]
    neighbours = [range(group * j, group * (j + 1)) for j in range(kept)]
    chosen = list(combinations(range(heads), kept))
    match how:
        case "first":
            return [total([*(term(j, j, j) for j in range(kept)), *reads_first])]
        case "mean":
            own = [term(j, j, b, Fraction(1, group)) for j in range(kept) for b in neighbours[j]]
            return [total([*own, *reads_first])]
        case "apart":
            own = [term(j, j, b, Fraction(1, group)) for j in range(kept) for b in range(j, heads, kept)]
            return [total([*own, *reads_first])]
        case "mean-vo":
            pairs = [(j, a, b) for j in range(kept) for a in neighbours[j] for b in neighbours[j]]
            return [total(term(a, j, b, Fraction(1, group**2)) for j, a, b in pairs)]
        case "top-v":
            return [total([*(term(j, j, some[j]) for j in range(kept)), *reads_first]) for some in chosen]
        case "top-vo":
            return [
                total(term(outputs[j], j, some[j]) for j in range(kept)) for some, outputs in product(chosen, chosen)
            ]
        case _:
            return [total(term(a, a, a) for a in some) for some in chosen]


def mean_square(terms, overlap, first):
    found = Fraction(0)
    for (a, h, b), weight in terms.items():
        for (c, k, e), other in terms.items():
            if (a, b) == (c, e):
                found += weight * other * (1 if h == k else overlap) * (first if isinstance(b, tuple) else 1)
    return found


@given(
    how=st.sampled_from(DISTANCES),
    kept=st.integers(1, 3),
    group=st.integers(1, 3),
    overlap=st.fractions(0, 1, max_denominator=4),
    first=st.fractions(0, 3, max_denominator=4),
)
def test_distances_are_those_of_the_terms(how, kept, group, overlap, first):
    heads = kept * group
    assume(heads < 7)  # all choices are written out
    whole = total(term(a, a, a) for a in range(heads))
    apart = []
    for made in converted(how, heads, kept):
        made.subtract(whole)
        apart.append(mean_square(made, overlap, first))
    assert distance(how, heads, kept, overlap, first) == sum(apart) / len(apart) / heads


def test_smaller_values_of_layer_1_bring_the_paper_s_way_before_top_vo():
    for first, nearer in ((Fraction(1), "top-vo"), (Fraction(0), "mean")):
        found = {how: distance(how, 12, 6, Fraction(1), first) for how in ("mean", "top-vo")}
        assert min(found, key=found.__getitem__) == nearer


def test_nothing_is_added_where_all_is_kept():
    assert all(distance(how, 3, 3) == 0 for how in DISTANCES)


def test_bad_input():
    for wrong in ({"heads": 4, "kept": 3}, {"heads": 4, "kept": 0}, {"heads": 0, "kept": 1}):
        with pytest.raises(BadInput):
            distance("mean", **wrong)
    with pytest.raises(BadInput, match="svd"):
        distance("svd", 4, 2)
    with pytest.raises(BadInput, match="overlap"):
        distance("mean", 4, 2, Fraction(2))
    with pytest.raises(BadInput, match="mean square"):
        distance("mean", 4, 2, Fraction(1), Fraction(-1))
