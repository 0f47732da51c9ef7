"""Printed numbers of the paper of Dynamic Value Attention: losses, times, counts."""

from __future__ import annotations

SECONDS = {"a": 15 * 60 + 47, "b": 9 * 60 + 51}  # section 5, five epochs
PARAMETERS = {"a": 162_419_712, "b": 112_800_768}  # Table 1
TOKENS = 854_094  # section 4
CONTEXT, TRAINED_SHARE = 256, 0.9
TABLE_2 = {
    # step: training and validation loss of model a, then of model b
    0: (9.884, 9.865, 10.621, 10.741),
    100: (6.055, 6.394, 6.023, 6.309),
    200: (5.842, 6.019, 5.468, 5.957),
    300: (5.592, 5.866, 5.423, 5.852),
    400: (5.405, 5.804, 5.287, 5.730),
    500: (5.342, 5.686, 5.194, 5.654),
    600: (5.404, 5.682, 5.051, 5.599),
    700: (5.491, 5.548, 5.121, 5.555),
    800: (5.020, 5.526, 4.819, 5.471),
    900: (5.011, 5.432, 4.788, 5.456),
    1000: (5.448, 5.404, 4.788, 5.359),
    1100: (5.130, 5.433, 4.575, 5.358),
    1200: (5.076, 5.453, 4.819, 5.375),
    1300: (5.171, 5.365, 4.849, 5.344),
    1400: (4.594, 5.339, 4.785, 5.320),
    1500: (4.909, 5.298, 4.572, 5.274),
}


def curve(model: str, part: str) -> list[float]:
    """Return the column of a model, a or b, and a part, training or validation."""
    place = 2 * ("ab".index(model)) + ("training", "validation").index(part)
    return [row[place] for row in TABLE_2.values()]
