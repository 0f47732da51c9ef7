"""Losses on regression prompts in words, the same for `train` and `evaluate`."""

from __future__ import annotations


def prompt_losses(mean: str, last: str, *, answers: int, pairs: int) -> list[str]:
    """Return the lines on a held-out loss, one of which can be compared with `crosslayer predict`.

    Args:
        mean: The loss, a mean over the answers that count.
        last: The loss of the last answer, after all pairs.
        answers: How many answers of a prompt count.
        pairs: n, the number of pairs in a prompt.
    """
    after = f"after n = {pairs:,} pair{'' if pairs == 1 else 's'}"
    if answers == 1:
        return [f"held-out loss {last} squared units of y, {after}, the one answer that counts"]
    return [
        f"held-out loss {mean} squared units of y, the mean over the answers after 0 to {pairs:,} pairs",
        f"held-out loss {last} {after}, which is what `crosslayer predict` is about",
    ]
