"""`dva-example`: what is predicted of tables, what layers are trained on, and verdicts that fall."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments.dva.example import CPU, EXPERIMENT, LAYERS, decoder, even, fit, pairs
from experiments.verdicts.checks import worst
from theory.dva.meanings import width_needed


@given(st.integers(1, 6), st.integers(1, 6))
def test_at_the_width_that_a_table_needs_gates_and_dynamic_values_lose_nothing(m, n):
    width = even(width_needed(m, n))
    assert LAYERS["dynamic"].least_error((m, n), width) == LAYERS["gate"].least_error((m, n), width) == 0
    assert LAYERS["one"].least_error((m, n), width) >= LAYERS["two"].least_error((m, n), width)


def test_the_paper_s_example_needs_no_second_head_and_larger_tables_do():
    assert LAYERS["one"].least_error((1, 2), 2) == LAYERS["one"].least_error((2, 2), 2) == 0
    assert LAYERS["one"].least_error((3, 3), 6) == pytest.approx(1 / 9)
    assert LAYERS["two"].least_error((3, 3), 6) == 0
    assert LAYERS["one"].least_error((5, 5), 20) == pytest.approx(11 / 25)


@pytest.mark.parametrize("layer", LAYERS)
def test_outputs_span_no_more_than_is_predicted(layer):
    """Of untrained layers, at any width: the rank of what nouns get, over all pairs."""
    for table, width in (((3, 3), 2), ((3, 3), 6), ((5, 4), 8), ((5, 4), 16)):
        model = decoder(layer, table, width, 0)
        inputs, meanings = pairs(table)
        with torch.no_grad():
            out = model(inputs)[:, 1].numpy()
        assert len(meanings) == table[0] * table[1]
        assert np.linalg.matrix_rank(out, tol=1e-9 * np.linalg.norm(out)) == LAYERS[layer].tells_apart(table, width)


def test_no_training_ends_below_the_bound():
    assert fit("one", (3, 3), 6, seed=3, steps=100) >= 1 / 9 - 1e-9


def test_a_meaning_more_or_fewer_is_noticed():
    prediction = EXPERIMENT.predict(CPU)
    as_predicted = {name: [least + 0.5, least + 0.001] for name, least in prediction["least"].items()}
    assert worst(EXPERIMENT.compare(prediction, {"errors": as_predicted})) == "pass"
    for off in (0.04, -1e-6):
        for name, least in prediction["least"].items():
            other = as_predicted | {name: [least + off]}
            assert worst(EXPERIMENT.compare(prediction, {"errors": other})) == "fail"
