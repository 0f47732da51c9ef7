"""What a measurement of the axes says: shares and gaps on every test, places between ridge and a pool's posterior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan

from experiments.across.axes.points import ITSELF, key
from experiments.across.gaps import KEPT
from experiments.across.ladder.reading import SetIn, gained, marks, reached, set_in
from experiments.across.results import Read, explained
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE, TWIN
from experiments.verdicts.intervals import Interval, t_interval


@dataclass(frozen=True)
class Where:
    """A test of models of one rung, law and width."""

    rung: str
    trained: str
    width: int
    test: str = ITSELF

    @property
    def words(self) -> str:
        on = "" if self.test == ITSELF else f" on {self.test}"
        return f"rung {self.rung}, width {self.width}, {self.trained}{on}"


class Results(Read):
    """Shares are of the test's E ||W* x||^2; NaN where a training diverged."""

    def places(self) -> Iterator[Where]:
        for rung in self.prediction["rungs"]:
            for trained, about in self.prediction["trained"].items():
                for width in about["widths"] if rung in about["rungs"] else ():
                    yield from (Where(rung, trained, width, test) for test in about["tests"])

    def about(self, at: Where) -> Json:
        """The prediction for a test."""
        found: Json = self.prediction["trained"][at.trained]["tests"][at.test]
        return found

    def shares(self, at: Where, variant: str) -> list[float]:
        losses = self.measurement["losses"][key(at.rung, at.trained, variant, at.width)][at.test]
        return self._shares(at, losses)

    def _shares(self, at: Where, losses: list[float | None]) -> list[float]:
        about, power = self.about(at), self.measurement["power"][at.trained][at.test]
        return explained(losses, zero=about["zero_loss"], signal=about["signal"], power=power)

    def share(self, at: Where, variant: str) -> Interval:
        return t_interval(self.shares(at, variant), self.family)

    def gap(self, at: Where, variant: str) -> Interval:
        """To vanilla."""
        both = (self.shares(at, v) for v in (variant, BASELINE))
        return t_interval([a - b for a, b in zip(*both, strict=True)], self.family)

    def toy(self, at: Where, variant: str) -> float | None:
        """The share that the toy explains; vanilla's is its twin's."""
        by_variant = self.about(at)["toy"][at.rung]
        found: float | None = by_variant.get(BASELINE if variant == TWIN else variant, {}).get(str(at.width))
        return found

    def toy_gap(self, at: Where, variant: str) -> float | None:
        mine, vanilla = self.toy(at, variant), self.toy(at, BASELINE)
        return None if mine is None or vanilla is None else mine - vanilla

    def between(self, at: Where, variant: str) -> Interval:
        """On a pool, the place of a model's loss between ridge's, 0, and that of the pool's posterior mean, 1."""
        about = self.about(at)
        room = about["bayes"] - about["ridge"]
        if not room > 0:
            return Interval(nan, nan, nan)
        return t_interval([(x - about["ridge"]) / room for x in self.shares(at, variant)], self.family)

    def learns(self, at: Where) -> bool:
        """Whether some model explains something of what it was trained on, so that there is anything to compare."""
        home = replace(at, test=ITSELF)
        return any(self.share(home, v).mean > KEPT for v in (BASELINE, *self.variants))

    def sets_in(self, at: Where, variant: str) -> SetIn | None:
        """On what was trained on, by the ladder's rule; a training that diverged does not.  None where no toy sets a
        measure."""
        home = replace(at, test=ITSELF)
        toy = self.toy(home, BASELINE)
        if toy is None:
            return None
        tried = self._shares(home, self.tried(key(at.rung, at.trained, variant, at.width)))
        return set_in(tried or self.shares(home, variant), toy)

    def converged(self, at: Where, variant: str) -> bool:
        return key(at.rung, at.trained, variant, at.width) in self._converged

    @cached_property
    def _converged(self) -> set[str]:
        found = set()
        for name, by_length in self.measurement["by_length"].items():
            rung, trained, named = name.split("/", 2)  # a variant of a user's own may have a folder in its name
            width = named.rpartition("/")[2]
            lengths = sorted(map(int, by_length))[-2:]
            at = Where(rung, trained, int(width))
            ends = [self._shares(at, by_length[str(n)]) for n in lengths]
            if len(ends) == 2 and reached(gained(*ends)):
                found.add(name)
        return found

    def note(self, at: Where, variant: str) -> str:
        untuned = key(at.rung, at.trained, variant, at.width) in self.untuned
        return marks(untuned=untuned, converged=self.converged(at, variant))
