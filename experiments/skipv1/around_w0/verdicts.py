"""The checks around W0."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.skipv1.around_w0.points import ALTERED, TOYS, best, by_rank
from experiments.store.folders import Json
from experiments.toys.checks import SIGNAL, ClosedForm, exact_check
from experiments.verdicts.checks import Check

LOSS = "loss, squared units of y"
ROUNDING = 1e-9  # of the zero loss


SLACK = 0.005  # of what is explained: where a descent with enough heads may stop


DESCENT = 1e-3  # of the zero loss: how far MHA's descents may stay from an infimum at infinity


LARGE = 16  # of c^2 / d: from here on W0 decides where few heads end


def few_checks(row: Json, exact: Json) -> Iterator[Check]:
    """Of few heads; what concerns W0 only where it outweighs W* - W0, elsewhere the floors say nothing."""
    place, d, zero = row["place"], row["d"], row["zero"]
    if row["d2"] is not None:
        yield Check(
            id=f"d2/{place}",
            group="two heads at d = 2",
            claim="skipv1.w0-d2",
            statement="SkipV1Former's exact minimum is at most Theorem 5's bound",
            predicted=row["d2"],
            measured=best(exact, place, "skipv1", 2),
            stderr=0.0,
            tolerance=ROUNDING * zero,
            controls=(row["d2"] - row["c"] ** 2,),
            relation="at most",
            slack=ROUNDING * zero,
            quantity=LOSS,
        )
    if row["c"] ** 2 < LARGE * d or 3 * row["heads"] // 2 > d - (d % 2 == 0):  # Lemma 1 or, for odd d, 3
        return
    mha, skip = (by_rank(exact, place, toy, d)[d] for toy in TOYS)
    yield at_least_check(
        f"floor/{place}",
        "SkipV1Former's floor at a = d, few heads, W0 = c I",
        "the exact minimum stays above what Lemma 1 leaves to so many products",
        (row["skipv1_floor"], row["skipv1_floor_one_less"]),
        skip,
        zero,
        LOSS,
    )
    if 2 * row["heads"] <= d:
        yield at_least_check(
            f"mha-floor/{place}",
            "MHA's floor at a = d, few heads, W0 = c I",
            "the exact minimum stays above what Lemma 1 leaves to so many products",
            (row["mha_floor"], row["mha_floor_one_less"]),
            mha,
            zero,
            LOSS,
        )
    if row["mha_reached"] is not None:
        yield at_least_check(
            f"loses/{place}",
            "SkipV1Former loses to MHA at a = d by what is proved, W0 = c I",
            "its exact minimum less MHA's is at least its floor less what MHA is proved to reach",
            (row["skipv1_floor"] - row["mha_reached"], row["skipv1_floor_one_less"] - row["mha_reached"]),
            skip - mha,
            zero,
            "SkipV1Former's loss less MHA's, squared units of y",
        )


def at_least_check(
    name: str, group: str, statement: str, floors: tuple[float, float], found: float, zero_loss: float, quantity: str
) -> Check:
    """No less than the first floor; the second, of one product less, is what it has to go below."""
    return Check(
        id=name,
        group=group,
        claim="skipv1.w0",
        statement=statement,
        predicted=floors[0],
        measured=found,
        stderr=0.0,
        tolerance=ROUNDING * zero_loss,
        controls=floors[1:],
        relation="at least",
        slack=ROUNDING * zero_loss,
        quantity=quantity,
    )


def biased_checks(row: Json, exact: Json) -> Iterator[Check]:
    """Of two heads and a term C x, at one rank: both minima, in terms of what they explain beyond W0."""
    place, a, zero = row["place"], row["rank"], row["zero"]
    statement = "the exact minimum explains as much as at W0 = 0, and not more"
    for toy, name in (("mha", "MHA"), ("skipv1", "SkipV1Former")):
        closed = ClosedForm("skipv1.bias", zero - row[toy], row["one_number"])
        explained = zero - by_rank(exact, place, toy, a)[a]
        group = f"{name} with two heads and a term C x"
        yield exact_check(f"biased/{place}/{toy}/a{a}", group, statement, closed, explained, zero)


def many_checks(row: Json, exact: Json) -> Iterator[Check]:
    """Of enough heads, at one rank; the gap only where a descent that stops early cannot hide what MHA explains."""
    place, a, zero = row["place"], row["rank"], row["zero"]
    mha, skip = (by_rank(exact, place, toy, a)[a] for toy in TOYS)
    explained = zero - row["skipv1"]
    if row["skipv1"] == row["skipv1_floor"]:
        yield Check(
            id=f"enough/{place}/a{a}",
            group="SkipV1Former with enough heads",
            claim="skipv1.w0-floors",
            statement="the exact minimum explains what Theorem 2 says, and not more",
            predicted=explained,
            measured=zero - skip,
            stderr=0.0,
            tolerance=SLACK * explained,
            controls=((1 - ALTERED) * explained, (1 + ALTERED) * explained),
            above=ROUNDING * zero,
            slack=SLACK * explained,
            quantity=SIGNAL,
        )
    if a < row["d"] and DESCENT * row["zero"] > row["gap_if_mha_explained_nothing"] - row["gap"]:
        return
    yield Check(
        id=f"gap/{place}/a{a}",
        group="gap at equal rank, enough heads",
        claim="skipv1.w0-enough-heads",
        statement="the exact minima differ by at least rho a^2",
        predicted=row["gap"],
        measured=mha - skip,
        stderr=0.0,
        tolerance=SLACK * row["gap"],
        controls=(row["gap_if_mha_explained_nothing"],),
        relation="at least",
        slack=SLACK * row["gap"],
        quantity="MHA's loss less SkipV1Former's, squared units of y",
    )
