"""The figures of `skipv1-w0`: with two heads each, and over heads, their shares and spectra of W0."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from experiments.drawing import style
from experiments.skipv1.around_w0.minima import (
    C_HEADS,
    D_HEADS,
    ENOUGH,
    N_HEADS,
    SIGMA,
    Prior,
    best,
    by_rank,
    place_of,
)
from experiments.store.folders import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOSS = r"loss less noise / $E\,\|W^*\|^2$"
DIFFERENCE = r"SkipV1Former less MHA / $E\,\|W^*\|^2$"
GREYS = ("#bdbdbd", "#8f8f8f", "#5f5f5f", "#303030", "#000000", "#000000")
EXACT: dict[str, Any] = {"linestyle": "none", "markerfacecolor": "white"}


def with_two_heads(prediction: Json, exact: Json) -> Figure:
    """Draw with two heads each, W0 = c I: over c, over c and n, over d, and by rank."""
    return _panels((_over_c, _map, _over_d, _by_rank), prediction, exact)


def over_heads(prediction: Json, exact: Json) -> Figure:
    """Draw what more heads, other shares of skip heads and other spectra of W0 change."""
    return _panels((_over_heads, _over_skips, _over_spectra, _gaps), prediction, exact)


def _panels(four: tuple[Callable[[Axes, Json, Json], None], ...], prediction: Json, exact: Json) -> Figure:
    fig, axes = style.figure(2, rows=2, width=4.2, height=4.3)
    for axis, panel in zip(axes, four, strict=True):
        panel(axis, prediction, exact)
    style.finish(axes)
    return fig


def _place(c: float, d: int, n: int, heads: int = 2, spectrum: Any = "identity") -> str:
    return place_of(Prior(spectrum, c), d, n, heads=heads)


def _scale(d: int, c: float) -> float:
    """Return E||W*||^2 = d^2 + ||W0||^2, the unit of all losses in the figures."""
    return d**2 + d * c**2


def _share(loss: float, d: int, c: float) -> float:
    return (loss - d * SIGMA**2) / _scale(d, c)


def _difference(exact: Json, place: str, d: int, c: float) -> float:
    return (best(exact, place, "skipv1", d=d) - best(exact, place, "mha", d=d)) / _scale(d, c)


def _shown(prediction: Json) -> tuple[int, int]:
    return prediction["curve"][0]["d"], prediction["curve"][0]["n"]


def _scales(prediction: Json) -> list[float]:
    """Return the c of the exact minima at the d and n of the curve."""
    d, n = _shown(prediction)
    return sorted({row["c"] for row in prediction["few"] if (row["d"], row["n"], row["heads"]) == (d, n, 2)})


def _over_c(axis: Axes, prediction: Json, exact: Json) -> None:
    curve, (d, n), scales = prediction["curve"], _shown(prediction), _scales(prediction)
    lines: dict[str, tuple[str, dict[str, Any]]] = {
        "mha_reached": ("MHA, explicit weights", style.MHA),
        "skipv1_floor": ("SkipV1Former, at the least, $a = d$", style.SKIPV1),
        "skipv1_reached": ("SkipV1Former, as in Theorem 3", style.BOUND),
        "enough_heads": ("SkipV1Former, enough heads", {"color": style.SKIPV1["color"], "linestyle": "-."}),
    }
    for name, (label, look) in lines.items():
        shares = [_share(row[name], d, row["c"]) for row in curve]
        axis.plot([row["c"] for row in curve], shares, label=label, **look)
    for toy, (name, look, marker) in style.TOYS.items():
        minima = [_share(best(exact, _place(c, d, n), toy, d=d), d, c) for c in scales]
        look = {**EXACT, "marker": marker, "color": look["color"]}
        axis.plot(scales, minima, zorder=4, label=f"{name}, exact minimum", **look)
    axis.set_xscale("symlog", linthresh=0.5, base=2)
    axis.set_xlabel(r"$c$, for $W_0=c\,I$")
    axis.set_ylabel(LOSS)
    axis.set_ylim(0, 1.05)
    axis.set_title(f"Two heads each, $d={d}$, $n={n}$")


def _map(axis: Axes, prediction: Json, exact: Json) -> None:
    d, _ = _shown(prediction)
    region = prediction["thresholds"]
    n = [row["n"] for row in region]
    few = [row for row in prediction["few"] if row["d"] == d and row["heads"] == 2 and row["c"] > 0]
    low, high = 0.6, 1.7 * max(row["c"] for row in few)
    wins = [row["wins_below"] for row in region]
    axis.fill_between(n, low, wins, color=style.SKIPV1["color"], alpha=0.25, linewidth=0, label="proved: SkipV1 wins")
    lost, above = zip(
        *((m, row["loses_above"]) for m, row in zip(n, region, strict=True) if row["loses_above"] is not None),
        strict=True,
    )
    hatched: dict[str, Any] = {"color": "#1a1a1a", "alpha": 0.18, "linewidth": 0, "hatch": "//"}
    axis.fill_between(lost, above, high, label="proved: SkipV1 loses", **hatched)
    gaps = [(row["n"], row["c"], _difference(exact, row["place"], d, c=row["c"])) for row in few]
    for wins_here, marker, label in ((True, "o", "SkipV1Former lower"), (False, "s", "MHA lower")):
        dots = [(m, c) for m, c, gap in gaps if (gap < 0) == wins_here]
        color = (style.SKIPV1 if wins_here else style.MHA)["color"]
        if dots:
            axis.plot(*zip(*dots, strict=True), linestyle="none", marker=marker, color=color, label=f"exact: {label}")
    white = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7}
    above_it: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "bbox": white}
    for m, c, gap in gaps:
        axis.annotate(f"{100 * gap:+.0f}", (m, c), fontsize=6.5, **above_it)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set_xlim(0.75, 1.35 * max(row["n"] for row in few))
    axis.set_ylim(low, high)
    axis.set_xlabel("context length $n$ (pairs)")
    axis.set_ylabel(r"$c$, for $W_0=c\,I$")
    axis.set_title(f"Who wins, two heads, $d={d}$ (difference, %)")


def _over_d(axis: Axes, prediction: Json, exact: Json) -> None:
    few = [row for row in prediction["few"] if row["heads"] == 2]
    large = max(row["c"] for row in few if row["d"] != _shown(prediction)[0])
    for line, color in zip(prediction["widths"], ("#1a1a1a", "#2f7fb8", "#d98a2b", "#7a4fa3"), strict=False):
        n = line[0]["n"]
        look: dict[str, Any] = {"color": color, "linestyle": "-" if n else "--", "marker": "." if n else None}
        ratios = [row["skipv1"] / row["mha"] for row in line]
        label = f"proved at least, $a=d$, n = {n or 'd²'}"
        axis.plot([row["d"] for row in line], ratios, markersize=3, label=label, **look)
        for d in sorted({row["d"] for row in few if row["n"] == n and row["c"] == large}):
            shares = [_share(best(exact, _place(large, d, n), toy, d=d), d, large) for toy in ("skipv1", "mha")]
            skip, mha = (share * _scale(d, large) - d**2 for share in shares)
            if min(skip, mha) > 0:
                axis.plot([d], [skip / mha], "x", color=color, markersize=8, zorder=4)
    style.crosses(axis, [], [], label="exact minima, all ranks")
    axis.axhline(1, color="#999999", linewidth=0.8)
    axis.set_xlabel("width $d$")
    axis.set_ylabel("what is lost of $W_0$: SkipV1Former / MHA")
    axis.set_title(r"Two heads, $W_0=c\,I$, large $c$")


def _by_rank(axis: Axes, prediction: Json, exact: Json) -> None:
    d, n = _shown(prediction)
    chosen = [c for c in _scales(prediction) if c]
    for c, marker, color in zip(chosen[:: max(1, len(chosen) // 4)], style.MARKERS, GREYS, strict=False):
        skip, mha = (by_rank(exact, _place(c, d, n), toy, d=d) for toy in ("skipv1", "mha"))
        gaps = {a: 100 * ((skip[a] - mha[a]) / _scale(d, c)) for a in sorted(skip)}
        axis.plot(list(gaps), list(gaps.values()), marker=marker, color=color, label=f"$c={c:g}$")
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set_xticks(range(1, d + 1))
    axis.set_xlabel("rank $a$ of the copy of $x$, the same for both")
    axis.set_ylabel(f"{DIFFERENCE} (%)")
    axis.set_title(f"At equal rank, two heads, $d={d}$, $n={n}$")


def _over_heads(axis: Axes, prediction: Json, exact: Json) -> None:
    d, n, c = D_HEADS, N_HEADS, C_HEADS
    counts = sorted({row["heads"] for row in prediction["few"] if (row["d"], row["n"], row["c"]) == (d, n, c)})
    places = [_place(c, d, n, heads=heads) for heads in (*counts, ENOUGH)]
    for toy, (name, look, marker) in style.TOYS.items():
        minima = [_share(best(exact, place, toy, d=d), d, c) for place in places]
        axis.plot(range(len(places)), minima, marker=marker, markerfacecolor="white", label=f"{name}, exact", **look)
    axis.set_xticks(range(len(places)), [*map(str, counts), "enough"])
    axis.margins(y=0.1)
    axis.set_ylim(0, None)
    axis.set_xlabel("heads (of SkipV1Former's, half are skip heads)")
    axis.set_ylabel(LOSS)
    axis.set_title(f"More heads, $d={d}$, $n={n}$, $W_0={c:g}\\,I$")


def _over_skips(axis: Axes, prediction: Json, exact: Json) -> None:
    mixed = prediction["mixed"]
    d, n, heads = mixed[0]["d"], mixed[0]["n"], len(mixed) - 1
    skips = [row["skips"] for row in mixed]
    floors = [_share(row["floor"], d, C_HEADS) for row in mixed]
    axis.plot(skips, floors, label="proved at the least (Lemma 1)", **style.SKIPV1)
    minima = [_share(best(exact, row["place"], "skipv1", d=d), d, C_HEADS) for row in mixed]
    style.crosses(axis, skips, minima, label="exact minimum")
    axis.set_xticks(skips)
    axis.set_ylim(0, None)
    axis.set_xlabel(f"skip heads, of {heads}")
    axis.set_ylabel(LOSS)
    axis.set_title(f"How many skip heads, $d={d}$, $n={n}$, $W_0={C_HEADS:g}\\,I$")


def _over_spectra(axis: Axes, prediction: Json, exact: Json) -> None:
    (d, n), c = _shown(prediction), C_HEADS
    many = [row for row in prediction["many"] if (row["d"], row["n"], row["c"]) == (d, n, c)]
    names = list(dict.fromkeys(row["spectrum"] for row in many))
    for shift, heads, color, hatch in ((-0.19, 2, "#8a8a8a", ""), (0.19, ENOUGH, "#ffffff", "//")):
        gaps = [100 * _difference(exact, _place(c, d, n, heads=heads, spectrum=name), d, c=c) for name in names]
        look: dict[str, Any] = {"color": color, "edgecolor": "black", "hatch": hatch, "linewidth": 0.8}
        label = "two heads" if heads else "enough heads"
        bars = axis.bar([i + shift for i in range(len(names))], gaps, width=0.36, label=label, **look)
        axis.bar_label(bars, [f"{gap:+.1f}" for gap in gaps], fontsize=6.5, padding=2)
    axis.axhline(0, color="black", linewidth=0.8)
    axis.margins(y=0.15)
    axis.set_xticks(range(len(names)), [_name_of(name) for name in names])
    axis.set_xlabel(r"$W_0$, always of norm $c\sqrt{d}$")
    axis.set_ylabel(f"{DIFFERENCE} (%)")
    axis.set_title(f"Other spectra, $d={d}$, $n={n}$, $c={c:g}$")


def _name_of(spectrum: str) -> str:
    return spectrum.replace("identity", "$c\\,I$")


def _gaps(axis: Axes, prediction: Json, exact: Json) -> None:
    d, n = _shown(prediction)
    many = [row for row in prediction["many"] if (row["d"], row["n"]) == (d, n)]
    ranks = sorted({row["rank"] for row in many})
    axis.plot(ranks, [a**2 for a in ranks], color="black", label=r"proved at least (with $C\,x$: exactly), $a^2$")
    names = {row["place"]: row["spectrum"] for row in many if row["c"] == C_HEADS}
    for i, ((place, spectrum), marker) in enumerate(zip(names.items(), style.MARKERS, strict=False)):
        rho = next(row["gap"] for row in many if row["place"] == place and row["rank"] == 1)
        mha, skip = (by_rank(exact, place, toy, d=d) for toy in ("mha", "skipv1"))
        beside = [a + 0.11 * (i - 1.5 + (i > 1)) for a in ranks]
        look = {**EXACT, "marker": marker, "color": GREYS[i + 1], "label": _name_of(spectrum)}
        axis.plot(beside, [(mha[a] - skip[a]) / rho for a in ranks], **look)
    biased = [(row["rank"], row["place"], row["one_number"]) for row in prediction["biased"]]
    minima = [[by_rank(exact, place, toy, d=a)[a] for toy in ("mha", "skipv1")] for a, place, _ in biased]
    gaps = [(mha - skip) / rho for (mha, skip), (*_, rho) in zip(minima, biased, strict=True)]
    style.crosses(axis, [a for a, *_ in biased], gaps, label="two heads and a term $C\\,x$")
    axis.set_xticks(ranks)
    axis.set_xlabel("rank $a$ of the copy of $x$, the same for both")
    axis.set_ylabel(r"MHA less SkipV1Former / $\rho$")
    axis.set_title(f"Enough heads, or $C\\,x$: $d={d}$, $n={n}$, $c={C_HEADS:g}$")
