"""What is left of the embedding, for outputs orthogonal to the stream and c times as long.

A sum of both is sqrt(1 + c^2) times as long as the stream, and the norm divides by that: after L sublayers the
embedding counts (1 + c^2)^(-L/2).  In a residual stream, and behind its last norm, it counts (1 + c^2 L)^(-1/2).
"""


def remembered(size: float, sublayers: int) -> float:
    """Return the embedding's coefficient after L sublayers; size: c."""
    return float((1 + size**2) ** (-sublayers / 2))
