"""Numbers of a derivation: a gate in the first layer of the in-context toy."""

import numpy as np
import pytest

from theory.dva.first_layer import bounds, explained_by_squares
from theory.plans.setting import Setting


def test_the_numbers_of_the_derivation():
    alphas = np.linspace(0.3, 0.5, 21)
    shares = [explained_by_squares(8, 0.5, alpha) for alpha in alphas]
    assert alphas[int(np.argmax(shares))] == pytest.approx(0.40, abs=0.006)
    assert max(shares) == pytest.approx(0.130, abs=5e-4)
    assert Setting(1, 8, 0.5).signal_share == pytest.approx(0.780, abs=5e-4)
    wins = {(d, rank) for d in range(1, 7) for rank in range(d + 1) if bounds(d, rank)[0] > rank * (d - rank)}
    assert wins == {(d, rank) for d in range(1, 7) for rank in range(d + 1) if d <= 3 or rank in (0, 1, d - 1, d)}
