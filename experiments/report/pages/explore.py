"""The page that computes in the browser: controls, and the script with its formulas and tables, all in one file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from experiments.report.explore import costs, formulas, pictures, widths
from experiments.report.material import Material
from experiments.report.pages import parts
from experiments.report.prose import code
from experiments.store.names import remembered
from theory.plans.variants import VARIANTS, ours

PAGE = "explore.md"
FOLDER = Path(formulas.__file__).parent
FENCE = "`" * 8  # longer than any in the script


def pages(material: Material) -> parts.Pages:
    return {PAGE: _page(material)}


def script(names: Iterable[str] | None = None) -> str:
    """Return the page's script: the functions of `explore.js`, and constants FORMULAS and DATA.

    names: the variants that can be chosen; by default all of this project's that are registered.
    """
    chosen = _registered() if names is None else tuple(names)
    return "\n".join(
        [
            (FOLDER / "explore.js").read_text(encoding="utf-8"),
            f"const FORMULAS = {_formulas()};",
            f"const DATA = {_data(chosen)};",
        ]
    )


@cache
def _formulas() -> str:
    return formulas.javascript()


@cache
def _data(names: tuple[str, ...]) -> str:
    """Return the tables as JSON.  All variants take some seconds, once for a state of the source."""

    def find() -> dict[str, Any]:
        return {
            "widest": widths.WIDEST,
            "worth": widths.worth_table(names),
            "costs": costs.costs(names),
            "pictures": pictures.pictures(names),
        }

    data = remembered("explore", find) if names == _registered() else find()
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")


def _registered() -> tuple[str, ...]:
    """Return the names of this project's variants."""
    return tuple(name for name in VARIANTS if name in ours())


def slider(name: str, label: str, low: float, high: float, *, value: float, step: float = 1) -> str:
    """Return a labelled slider that shows its value."""
    return (
        f'<label for="{name}">{escape(label)} <b id="{name}-value">{value}</b></label>'
        f'<input type="range" id="{name}" min="{low}" max="{high}" step="{step}" value="{value}">'
    )


def choice(name: str, label: str, options: dict[str, str] | None = None, chosen: str = "") -> str:
    """Return a labelled selection; the script fills in names of variants."""
    items = "".join(
        f'<option value="{value}"{" selected" * (value == chosen)}>{escape(text)}</option>'
        for value, text in (options or {}).items()
    )
    return f'<label for="{name}">{escape(label)}</label><select id="{name}">{items}</select>'


def form(name: str, legend: str, controls: Iterable[str], shown: str) -> str:
    """Return one section's controls and what they change, the sentence that says it first."""
    fields = "".join(f"<div>{control}</div>" for control in controls)
    return (
        f'<form class="explore" id="{name}"><fieldset><legend>{escape(legend)}</legend>{fields}</fieldset>'
        f'<output id="{name}-says" aria-live="polite"></output>{shown}</form>'
    )


def _drawing(name: str, words: str) -> str:
    return f'<svg id="{name}" viewBox="0 0 560 300" role="img" aria-label="{escape(words)}"></svg>'


def _key(*lines: tuple[str, str]) -> str:
    return "".join(
        ['<p class="key">', *(f'<span><i class="{kind}"></i>{escape(text)}</span> ' for kind, text in lines), "</p>"]
    )


def _numbers(name: str, caption: str) -> str:
    return f'<table id="{name}" aria-label="{escape(caption)}"><tbody></tbody></table>'


def gap_form() -> str:
    """Return the controls of the loss gap."""
    drawing = _drawing("gap-plot", "Lowest loss at every rank of MHA and of SkipV1Former; the table has the numbers")
    lines = ("mha", "MHA"), ("skipv1", "SkipV1Former"), ("zero", "predicting zero")
    controls = (
        slider("gap-d", "d, numbers of x and of y", 1, 32, value=8),
        slider("gap-n", "n, pairs in the context", 1, 256, value=32),
        slider("gap-sigma", "sigma, the noise", 0, 3, value=0.3, step=0.05),
        slider("gap-rank", "a, the rank", 0, 32, value=4),
    )
    shown = f'<div class="side">{drawing}<div>{_key(*lines)}{_numbers("gap-numbers", "Losses and gaps")}</div></div>'
    return form("gap", "The task and the rank", controls, shown)


def worth_form() -> str:
    """Return the controls of worth in width."""
    drawing = _drawing("worth-plot", "Worth in width of the chosen variant at every width; the table has the numbers")
    lines = ("skipv1", "the chosen variant"), ("mha", "vanilla")
    controls = (
        choice("worth-variant", "variant"),
        slider("worth-d", "d, numbers of x and of y", 1, widths.LARGEST, value=6),
        slider("worth-width", "m, the width of a token", 1, widths.WIDEST * widths.LARGEST, value=8),
    )
    alike = '<p>The toy gives the same numbers for: <span id="worth-alike"></span>.</p>'
    numbers = _numbers("worth-numbers", "Worth at this width")
    shown = f'<div class="side">{drawing}<div>{_key(*lines)}{numbers}{alike}</div></div>'
    return form("worth", "The task and the width", controls, shown)


def cost_form() -> str:
    """Return the controls of costs."""
    head = ("variant", "parameters", "", "cache of a context", "", "FLOPs of a token", "", "depth vectors")
    titles = "".join(f'<th scope="col">{title or "against vanilla"}</th>' for title in head)
    ratios = {"2": "2 d", "2.6666666666666665": "8/3 d", "4": "4 d"}
    controls = (
        choice("cost-variant", "variant"),
        slider("cost-layers", "layers", 4, 64, value=12, step=costs.STEPS[0]),
        slider("cost-heads", "heads of a layer", 2, 64, value=12, step=costs.STEPS[1]),
        slider("cost-width", "width of a head", 16, 256, value=64, step=16),
        choice("cost-inner", "width of the feed-forward", ratios, "2.6666666666666665"),
        slider("cost-vocab", "vocabulary", 1000, 256000, value=32000, step=1000),
        slider("cost-context", "context in tokens", 128, 131072, value=2048, step=128),
        choice("cost-bytes", "bytes of a cached number", {"1": "1", "2": "2", "4": "4"}, "2"),
    )
    shown = (
        '<div class="scroll" tabindex="0" role="region" aria-label="Costs of all variants">'
        f'<table id="cost-table"><thead><tr>{titles}</tr></thead><tbody></tbody></table></div>'
    )
    return form("cost", "The model", controls, shown)


def plan_form() -> str:
    """Return the controls of a plan's picture."""
    shapes = {f"{s.layers}x{s.heads}": f"{s.layers} layers of {s.heads} heads" for s in pictures.SHAPES}
    controls = (choice("plan-variant", "variant"), choice("plan-shape", "shape", shapes, "6x4"))
    words = "Heads by layer; arrow keys move, and the sentence above says what a head reads"
    drawing = f'<svg id="plan-picture" tabindex="0" role="application" aria-label="{words}"></svg>'
    lines = '<p>A row is a layer, the last on top; a column is a head.</p><ul id="plan-rules"></ul>'
    return form("plan", "The plan", controls, f'<div class="side">{drawing}<div>{lines}</div></div>')


def _page(material: Material) -> str:
    link, entries = parts.link, material.names.entries

    def section(title: str, text: str, markup: str) -> str:
        return f"## {title}\n\n{text}\n\n{FENCE}{{raw}} html\n{markup}\n{FENCE}"

    style = (FOLDER / "explore.css").read_text(encoding="utf-8")
    blocks = [
        "# Explore",
        "Move a slider, and this page computes with the same formulas as the code, in your browser and without a "
        "network. What it says is proved or counted, not measured.",
        f"{FENCE}{{raw}} html\n<style>\n{style}</style>\n"
        f"<noscript><p>This page needs JavaScript; <code>crosslayer predict</code> and "
        f"<code>crosslayer describe</code> give the same numbers.</p></noscript>\n{FENCE}",
        section(
            "How much does a skip head win on the toy?",
            "The lowest loss of two layers of linear attention on in-context regression, if layer 1 copies x into y's "
            "token and spends a of its d numbers on x. "
            f"{link('The theorem', entries.get('skipv1.gap', '/claims/index.md'))}; "
            f"{code('crosslayer predict skipv1')} prints the same.",
            gap_form(),
        ),
        section(
            "How much width is a variant worth?",
            "The factor by which vanilla's tokens have to grow to explain as much of the task, in the same toy with "
            f"two heads. {link('The theorem', entries.get('toy.worth', '/claims/index.md'))}.",
            worth_form(),
        ),
        section(
            "What does a variant cost?",
            "Parameters, cache and forward FLOPs of a LLaMA-like decoder, counted from the plan. The depth vectors are "
            "the vectors per token that a rule over depth keeps. Variants whose blocks are rounded are left out: "
            f"{link('the variants', '/variants/index.md')} have their costs.",
            cost_form(),
        ),
        section(
            "Which head reads which values?",
            "Choose a head by a click or with the arrow keys. Blue heads read values of another layer, pale ones their "
            "own too; + is a sum, | a concatenation, @ a table of tokens.",
            plan_form(),
        ),
        f"{FENCE}{{raw}} html\n<script>\n{script()}\nstart(compute(FORMULAS, DATA), DATA);\n</script>\n{FENCE}",
    ]
    return parts.WIDE + "\n\n".join(blocks) + "\n"
