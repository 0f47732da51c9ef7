"""The setting of multi-query associative recall: how many pairs, keys and values, and what a token holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from theory.errors import BadInput, at_least

Form = Literal["interleaved", "paired"]


@dataclass(frozen=True, kw_only=True)
class RecallSetting:
    """The setting from which sequences are drawn.  The keys of a sequence are distinct, and so are its values.

    Args:
        pairs: Pairs per sequence, n.
        keys: Keys to draw from.
        values: Values to draw from.
        form: `interleaved`, a token for each key and each value; or `paired`, one token for both.

    Raises:
        BadInput: for fewer keys or values than pairs.
    """

    pairs: int
    keys: int
    values: int
    form: Form = "interleaved"

    def __post_init__(self) -> None:
        at_least("pairs", self.pairs, 1)
        for name in ("keys", "values"):
            if (count := getattr(self, name)) < self.pairs:
                raise BadInput(f"{name} must be at least as many as pairs, {self.pairs}, got {count}")
        if self.form not in get_args(Form):
            raise BadInput(f"the form of recall is interleaved or paired, got {self.form!r}")

    @property
    def told(self) -> int:
        """The number of tokens of all pairs."""
        return self.pairs * (2 if self.form == "interleaved" else 1)

    @property
    def tokens(self) -> int:
        """The number of tokens of a sequence, queries included."""
        return self.told + self.pairs

    @property
    def width(self) -> int:
        """The number of coordinates of a token: one for each key, then one for each value."""
        return self.keys + self.values

    @property
    def blind(self) -> float:
        """The loss, in nats per query, of a guess that knows nothing of the sequence."""
        return math.log(self.values)

    @property
    def unmatched(self) -> float:
        """The loss, in nats per query, of a guess that knows the sequence's values but not their keys: ln n."""
        return math.log(self.pairs)
