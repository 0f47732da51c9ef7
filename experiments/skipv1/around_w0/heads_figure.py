"""The figure of `skipv1-w0` over heads, their shares and spectra of W0."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.drawing import style
from experiments.skipv1.around_w0.panels import DIFFERENCE, LOSS, difference, greys, panels, place_of, share, shown
from experiments.skipv1.around_w0.points import (
    C_HEADS,
    D_HEADS,
    ENOUGH,
    N_HEADS,
    best,
    by_rank,
)
from experiments.store.folders import Json


def draw(prediction: Json, measurement: Json) -> Figure:
    """What more heads, other shares of skip heads and other spectra of W0 change."""
    return panels((_over_heads, _over_skips, _over_spectra, _gaps), prediction, measurement)


def _over_heads(axis: Axes, prediction: Json, exact: Json) -> None:
    d, n, c = D_HEADS, N_HEADS, C_HEADS
    heads = sorted({row["heads"] for row in prediction["few"] if (row["d"], row["n"], row["c"]) == (d, n, c)})
    places = [*heads, ENOUGH]
    for toy, (name, look, marker) in style.TOYS.items():
        y = [share(best(exact, place_of("identity", c, d, n, h), toy, d), d, c) for h in places]
        axis.plot(range(len(places)), y, marker=marker, markerfacecolor="white", label=f"{name}, exact", **look)
    axis.set_xticks(range(len(places)), [*map(str, heads), "enough"])
    axis.margins(y=0.1)
    axis.set_ylim(0, None)
    axis.set_xlabel("heads (of SkipV1Former's, half are skip heads)")
    axis.set_ylabel(LOSS)
    axis.set_title(f"More heads, $d={d}$, $n={n}$, $W_0={c:g}\\,I$")


def _over_skips(axis: Axes, prediction: Json, exact: Json) -> None:
    mixed = prediction["mixed"]
    d, n, heads = mixed[0]["d"], mixed[0]["n"], len(mixed) - 1
    skips = [row["skips"] for row in mixed]
    axis.plot(
        skips,
        [share(row["floor"], d, C_HEADS) for row in mixed],
        label="proved at the least (Lemma 1)",
        **style.SKIPV1,
    )
    minima = [share(best(exact, row["place"], "skipv1", d), d, C_HEADS) for row in mixed]
    style.crosses(axis, skips, minima, "exact minimum")
    axis.set_xticks(skips)
    axis.set_ylim(0, None)
    axis.set_xlabel(f"skip heads, of {heads}")
    axis.set_ylabel(LOSS)
    axis.set_title(f"How many skip heads, $d={d}$, $n={n}$, $W_0={C_HEADS:g}\\,I$")


def _over_spectra(axis: Axes, prediction: Json, exact: Json) -> None:
    d, n = shown(prediction)
    many = [row for row in prediction["many"] if (row["d"], row["n"], row["c"]) == (d, n, C_HEADS)]
    names = list(dict.fromkeys(row["spectrum"] for row in many))
    for shift, heads, color, hatch in ((-0.19, 2, "#8a8a8a", ""), (0.19, ENOUGH, "#ffffff", "//")):
        gaps = [100 * difference(exact, place_of(name, C_HEADS, d, n, heads), d, C_HEADS) for name in names]
        bars = axis.bar(
            [i + shift for i in range(len(names))], gaps, width=0.36, color=color, edgecolor="black", hatch=hatch,
            linewidth=0.8, label="two heads" if heads else "enough heads",
        )  # fmt: skip
        axis.bar_label(bars, [f"{g:+.1f}" for g in gaps], fontsize=6.5, padding=2)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.margins(y=0.15)
    axis.set_xticks(range(len(names)), [name.replace("identity", "$c\\,I$") for name in names])
    axis.set_xlabel(r"$W_0$, always of norm $c\sqrt{d}$")
    axis.set_ylabel(f"{DIFFERENCE} (%)")
    axis.set_title(f"Other spectra, $d={d}$, $n={n}$, $c={C_HEADS:g}$")


def _gaps(axis: Axes, prediction: Json, exact: Json) -> None:
    d, n = shown(prediction)
    many = [row for row in prediction["many"] if (row["d"], row["n"]) == (d, n)]
    ranks = sorted({row["rank"] for row in many})
    axis.plot(ranks, [a**2 for a in ranks], color="black", label=r"proved at least (with $C\,x$: exactly), $a^2$")
    names = {row["place"]: row["spectrum"] for row in many if row["c"] == C_HEADS}
    for i, ((place, spectrum), marker) in enumerate(zip(names.items(), style.MARKERS, strict=False)):
        rho = next(row["gap"] for row in many if row["place"] == place and row["rank"] == 1)
        mha, skip = by_rank(exact, place, "mha", d), by_rank(exact, place, "skipv1", d)
        axis.plot(
            [a + 0.11 * (i - 1.5 + (i > 1)) for a in ranks],
            [(mha[a] - skip[a]) / rho for a in ranks],
            linestyle="none",
            marker=marker,
            markerfacecolor="white",
            color=greys()[i + 1],
            label=spectrum.replace("identity", "$c\\,I$"),
        )
    biased = [(row["rank"], row["place"], row["one_number"]) for row in prediction["biased"]]
    gaps = [
        (by_rank(exact, place, "mha", a)[a] - by_rank(exact, place, "skipv1", a)[a]) / rho for a, place, rho in biased
    ]
    style.crosses(axis, [a for a, *_ in biased], gaps, "two heads and a term $C\\,x$")
    axis.set_xticks(ranks)
    axis.set_xlabel("rank $a$ of the copy of $x$, the same for both")
    axis.set_ylabel(r"MHA less SkipV1Former / $\rho$")
    axis.set_title(f"Enough heads, or $C\\,x$: $d={d}$, $n={n}$, $c={C_HEADS:g}$")
