"""What the room of dynamic value attention refuses, and a derivation's numbers; the ledger checks what it returns."""

import numpy as np
import pytest

from theory.dva import meanings
from theory.dva.collapse import collapsed, pair_numbers, pair_values
from theory.dva.cost import peak_numbers, products
from theory.dva.first_layer import bounds, explained_by_squares
from theory.dva.gate import query_of_ratio
from theory.dva.heads import patterns
from theory.dva.scores import factors
from theory.errors import BadInput
from theory.plans.setting import Setting

ONE, OTHER, THIRD = np.eye(3)
SAME = np.ones(3)
WIDE, NARROW = np.ones((2, 3)), np.ones((2, 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda: meanings.independent(0, 2, 1),
        lambda: meanings.independent(2, 2, -1),
        lambda: meanings.independent(2, 2, 1, width=0),
        lambda: meanings.independent_of_dynamic(2, 2, 0),
        lambda: meanings.heads_needed(2, 0),
        lambda: meanings.width_needed(2000, 2000),
        lambda: patterns([(np.array([1.0]), np.eye(1)), (np.ones(2), np.ones((1, 2)))]),
        lambda: pair_values("revised", WIDE, WIDE, NARROW),
        lambda: pair_values("revised", SAME, SAME, SAME),
        lambda: pair_values("other", WIDE, WIDE, WIDE),
        lambda: collapsed("other", NARROW, WIDE, WIDE, WIDE),
        lambda: pair_numbers("revised", 0, 3, naive=True),
        lambda: pair_numbers("revised", 3, 0, naive=False),
        lambda: products("transposed", "pairs", 2, 2),
        lambda: peak_numbers("revised", "pairs", 0, 2),
        lambda: bounds(0, 0),
        lambda: bounds(2, 3),
        lambda: bounds(2, -1),
        lambda: explained_by_squares(0, 0.5, 1),
        lambda: factors(np.eye(2), 0),
        lambda: factors(np.eye(2), -1),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()


@pytest.mark.parametrize(
    ("v", "k", "wanted", "says"),
    [
        (SAME, 2 * SAME, 3.0, "no gate makes the ratio 3"),
        (SAME, SAME * [1, 1, 0], 2.0, "no gate makes the ratio 2"),
        (THIRD, 0 * THIRD, 3.0, "both numbers are 0"),
    ],
)
def test_ratios_that_no_gate_makes(v, k, wanted, says):
    with pytest.raises(BadInput, match=says):
        query_of_ratio(v, k, ONE, OTHER, wanted)


def test_the_numbers_of_the_derivation():
    alphas = np.linspace(0.3, 0.5, 21)
    shares = [explained_by_squares(8, 0.5, alpha) for alpha in alphas]
    assert alphas[int(np.argmax(shares))] == pytest.approx(0.40, abs=0.006)
    assert max(shares) == pytest.approx(0.130, abs=5e-4)
    assert Setting(1, 8, 0.5).signal_share == pytest.approx(0.780, abs=5e-4)
    wins = {(d, rank) for d in range(1, 7) for rank in range(d + 1) if bounds(d, rank)[0] > rank * (d - rank)}
    assert wins == {(d, rank) for d in range(1, 7) for rank in range(d + 1) if d <= 3 or rank in (0, 1, d - 1, d)}
