"""The site in a browser, from files: it opens, filters, follows every link, and needs neither network nor script.

It is a small one: the claims and experiments of one paper, a claim of other people's making, a few variants.
"""

import contextlib
import functools
import html
import http.server
import re
import shutil
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from experiments import catalogue
from experiments.cli.parser import parser
from experiments.dva import index as dva
from experiments.ledger.claim import Claim
from experiments.ledger.verify import premises, recollections
from experiments.report import files, sources, write_report
from experiments.report.build import build
from experiments.report.material import Run, gathered
from experiments.report.pages.parts import figure, stored
from experiments.store.folders import RunFolder
from tests.experiments.report.test_pages import HOSTILE
from theory.plans.variants import VARIANTS

ROOT = Path(__file__).resolve().parents[3]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WIDTHS = (390, 800, 1600)
FEW = ("vanilla", "resformer", "neutreno", "cross-layer", "dva", "attnres-block")
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the site, and Sphinx's warnings."""
    out = tmp_path_factory.mktemp("site")
    ledger = catalogue.claims()
    names = [name for name, claim in ledger.items() if claim.module.startswith("experiments.dva.")]
    names += [other for name in names for other in premises(ledger[name], ledger)]
    hostile = Claim("made.hostile", "ResFormer", HOSTILE, HOSTILE, HOSTILE, "refuted", HOSTILE, uses=("dva.revised",))
    hostile.check(HOSTILE, states=1, control=2, wrong=HOSTILE)(lambda version: version == 1)
    hostile.module = "experiments.resformer.claims.made"
    few = {name: ledger[name] for name in ledger if name in names} | {"made.hostile": hostile}
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(ROOT):
        every = gathered(out / "runs", recollections(few.values(), few))
        experiments = {name: one for name, one in every.experiments.items() if "dva" in name}
        runs = {name: every.runs[name] for name in experiments if name in every.runs}
        for kind in ("variants", "papers", "explore"):
            patch.setattr(f"experiments.report.pages.{kind}.VARIANTS", {name: VARIANTS[name] for name in FEW})
        patch.setattr("experiments.report.material.VARIANTS", {name: VARIANTS[name] for name in FEW})
        patch.setattr(catalogue, "indexes", lambda: [dva.INDEX])
        made = replace(every, ledger=few, experiments=experiments, runs=runs)
        warnings = build(sources(made, parser()), files(made), out / "site")
    return out / "site", warnings


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def address(site, name):
    return (site[0] / name).as_uri()


@pytest.mark.long
def test_nothing_is_missing_in_its_sources(site):
    folder, warnings = site
    assert not warnings
    assert {"index.html", "graph.html", "notation.html", "verdicts.html", "search.html", "searchindex.js"} <= {
        path.name for path in folder.iterdir()
    }
    assert not list(folder.parent.glob(".site-*"))


def test_nothing_comes_from_a_network(site):
    """No script, style, picture or font; links of papers lead out, and that is all."""
    for path in [*site[0].rglob("*.html"), *site[0].rglob("*.css")]:
        text = path.read_text()
        loaded = re.findall(r"""(?:src=|url\(|@import\s|<link[^>]+href=)["'(]?\s*(?:https?:)?//[^"')\s]+""", text)
        assert not loaded, (path, loaded)


@in_a_browser
@pytest.mark.long
def test_every_link_leads_somewhere_and_every_page_is_whole(site, page):
    """From the front page: no error, nothing asked of a network, one heading of the first rank, pictures described,
    and nothing wider than the screen."""
    problems, seen, left = [], set(), [address(site, "index.html")]
    page.on(
        "console", lambda said: problems.append((page.url, said.text)) if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: problems.append((page.url, str(error))))
    page.on("requestfailed", lambda request: problems.append((page.url, request.url)))
    page.on("request", lambda request: problems.append(request.url) if request.url.startswith("http") else None)
    page.on("dialog", lambda dialog: (problems.append(("a dialog", page.url)), dialog.dismiss()))
    wanted = {}
    while left:
        here = left.pop()
        seen.add(here)
        page.goto(here)
        page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                problems.append((here, "is wider than", width))
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        about = page.evaluate(
            """() => ({
                h1: document.querySelectorAll('article h1').length,
                lang: document.documentElement.lang,
                bare: [...document.images].filter(image => !image.alt && !image.closest('[aria-hidden]')).length,
                broken: [...document.images].filter(image => image.complete && !image.naturalWidth).length,
                links: [...document.querySelectorAll('a')].map(a => a.href.baseVal === undefined ? a.href
                    : new URL(a.href.baseVal, location).href),
                ids: [...document.querySelectorAll('[id]')].map(element => element.id),
                unranked: document.querySelectorAll('[role=heading]:not([aria-level])').length,
                landmarks: [...document.querySelectorAll('aside, nav, [role=region], [role=search]')]
                    .map(place => place.tagName + (place.getAttribute('aria-label') || '')),
                levels: [...document.querySelectorAll('article :is(h1, h2, h3, h4, h5, h6)')].map(h => +h.tagName[1]),
                unlabelled: [...document.querySelectorAll('article :is(input, select)')]
                    .filter(control => !control.labels.length).map(control => control.id),
                unreached: [...document.querySelectorAll('article *')].filter(element =>
                    ['auto', 'scroll'].includes(getComputedStyle(element).overflowX) && element.tabIndex < 0 &&
                    element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 &&
                    !element.querySelector('a, button, input, select, [tabindex]'))
                    .map(element => element.outerHTML.slice(0, 80)),
            })"""
        )
        if any(after > before + 1 for before, after in pairwise(about["levels"])):
            problems.append((here, "skips a level of headings", about["levels"]))
        if len(set(about["landmarks"])) < len(about["landmarks"]):
            problems.append((here, "landmarks of one name", about["landmarks"]))
        if about["unranked"]:
            problems.append((here, "has headings without a rank", about["unranked"]))
        problems += [(here, "cannot be scrolled by keyboard", element) for element in about["unreached"]]
        problems += [(here, "has no label", control) for control in about["unlabelled"]]
        if (about["h1"], about["lang"], about["bare"], about["broken"]) != (1, "en", 0, 0):
            problems.append((here, {key: about[key] for key in ("h1", "lang", "bare", "broken")}))
        wanted.setdefault(here, set())
        wanted[here] |= {"", *about["ids"]}
        for link in about["links"]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                continue
            assert parts.scheme == "file", (here, link)
            path = unquote(parts.path)
            assert Path(path).is_file(), (here, link)
            target = Path(path).as_uri()
            if path.endswith(".html") and target not in seen and target not in left:
                left.append(target)
            if parts.fragment and target in wanted and unquote(parts.fragment) not in wanted[target]:
                problems.append((here, "leads to no", link))
    assert not problems, problems[:10]
    names = {path.relative_to(site[0]).as_posix() for path in site[0].rglob("*.html")}
    reached = {Path(unquote(urlsplit(url).path)).relative_to(site[0]).as_posix() for url in seen}
    assert names - reached <= {"search.html", "genindex.html", "py-modindex.html"}


@in_a_browser
def test_other_people_s_text_is_shown_and_not_run(site, page):
    page.goto(address(site, "claims/made.hostile.html"))
    text = " ".join(page.inner_text("article").split())
    for part in ("<script>alert(1)</script>", "(javascript:alert(1))", "{raw} html", "{eval-rst}", "<img src=none>"):
        assert text.count(part) >= 5, part
    assert page.evaluate("document.querySelectorAll('article script, article img').length") == 0


@in_a_browser
@pytest.mark.long
def test_claims_are_filtered(site, page):
    page.goto(address(site, "claims/index.html"))
    rows = page.locator("article tbody tr")
    every = rows.count()
    form = page.get_by_role("search", name="Filter the table")
    form.get_by_label("verdict").select_option("refuted")
    shown = [row.inner_text() for row in rows.all() if row.is_visible()]
    assert 0 < len(shown) < every
    assert all("refuted" in text for text in shown)
    assert page.locator(".filters output").inner_text() == f"{len(shown)} of {every}"
    form.get_by_label("verdict").select_option("")
    form.get_by_label("on", exact=True).select_option("Dynamic Value Attention")
    form.get_by_label("place or words").fill("section 5 table 2")
    shown = [row.inner_text() for row in rows.all() if row.is_visible()]
    assert shown
    assert all("Table 2" in text and "Dynamic" in text for text in shown)
    page.goto(address(site, "claims/index.html") + "?verdict=refuted")
    assert page.locator(".filters output").inner_text().startswith("1 of")


@in_a_browser
@pytest.mark.long
def test_of_many_claims_the_first_are_shown(site, page):
    """Until all are asked for; a filter looks at all of them, and sorting shows the first in the new order."""
    copy = address(site, "claims/index.html")
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => { const body = document.querySelector('article tbody');"
        "const rows = [...body.rows]; while (body.rows.length < 90) body.append(rows[body.rows.length % rows.length]"
        ".cloneNode(true)); body.rows[85].cells[2].textContent = 'zzz the last'; }, {once: true, capture: true});"
    )
    page.goto(copy)
    rows = page.locator("article tbody tr:visible")
    assert rows.count() == 40
    assert page.locator(".filters output").inner_text() == "90 of 90"
    page.get_by_label("place or words").fill("zzz")
    assert rows.count() == 1
    page.get_by_label("place or words").fill("")
    page.get_by_role("button", name="place").click()
    page.get_by_role("button", name="place").click()
    assert rows.count() == 40
    assert "zzz" in rows.first.inner_text()
    page.get_by_role("button", name="Show all 90").click()
    assert rows.count() == 90
    assert page.locator("button.more").is_hidden()


@in_a_browser
def test_drawings_keep_their_size_on_a_phone(site, page):
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(address(site, "experiments/dva-example.html"))
    drawing = page.locator(".drawing").first
    page.wait_for_function("document.querySelector('.drawing img').getBoundingClientRect().width > 500")
    assert drawing.evaluate("place => place.scrollWidth > place.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@in_a_browser
@pytest.mark.long
def test_claims_are_sorted(site, page):
    page.goto(address(site, "claims/index.html"))
    names = page.locator("article tbody tr td:first-child")
    for sort in ("ascending", "descending"):
        page.get_by_role("button", name="entry").click()
        assert page.locator("article thead th").first.get_attribute("aria-sort") == sort
        assert names.all_inner_texts() == sorted(names.all_inner_texts(), reverse=sort == "descending")
    page.get_by_role("button", name="verdict").press("Enter")
    assert page.locator("article [aria-sort]").all_inner_texts() == ["verdict"]
    verdicts = page.locator("article tbody tr td:nth-child(4)").all_inner_texts()
    assert verdicts == sorted(verdicts)
    assert len(set(verdicts)) > 1


@in_a_browser
@pytest.mark.long
def test_explore_is_used_by_keyboard(site, page):
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(address(site, "explore.html"))
    for section, control in (("gap", "gap-n"), ("worth", "worth-width"), ("cost", "cost-context")):
        says = page.locator(f"#{section}-says")
        before = says.inner_text()
        assert not re.search("NaN|undefined|Infinity", before)
        page.locator(f"#{control}").press("ArrowRight")
        assert says.inner_text() != before
        assert page.locator(f"#{control}-value").inner_text() == page.locator(f"#{control}").input_value()
    page.get_by_label("variant").last.select_option("cross-layer")
    picture = page.locator("#plan-picture")
    picture.press("ArrowUp")
    assert page.locator("#plan-says").inner_text() == (
        "Layer 3, head 4 attends over values: layer 3, head 4; and, side by side, layer 2, head 4."
    )
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft"):
        picture.press(key)
    assert page.locator("#plan-says").inner_text() == "Layer 1, head 3 attends over values: layer 1, head 3."
    assert page.locator("#plan-picture .here").count() == 1
    page.locator("#gap-d").fill("3")
    assert page.locator("#gap-rank").get_attribute("max") == "3"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@in_a_browser
def test_tables_stay_tables_on_a_wide_screen(site, page):
    page.set_viewport_size({"width": 1280, "height": 800})
    for name in ("claims/index.html", "experiments/dva-example.html", "papers/dva.html"):
        page.goto(address(site, name))
        assert page.locator("article table").count() > 0
        assert page.locator("table.stacked").count() == 0


@in_a_browser
def test_without_script_all_is_there(site, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address(site, "claims/index.html"))
    assert page.locator("form.filters").count() == 0
    assert all(row.is_visible() for row in page.locator("article tbody tr").all())
    page.goto(address(site, "claims/dva.revised.html"))
    assert page.locator("article math").count() > 20
    context.close()


@in_a_browser
def test_it_is_searched_from_a_file(site, page):
    page.goto(address(site, "search.html") + "?q=feed-forward")
    page.wait_for_selector("ul.search li")
    assert page.locator("ul.search a", has_text="dva.no-feed-forward").count() >= 1
    page.goto(address(site, "search.html") + "?q=value+residual")
    page.wait_for_selector("ul.search li")
    assert page.locator("ul.search li a").first.get_attribute("href").startswith("papers/resformer.html")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Says nothing of what it is asked."""

    def log_message(self, *_):
        pass


@in_a_browser
def test_data_are_downloaded(site, page):
    """From a server; from a file a browser shows them."""
    handler = functools.partial(Quiet, directory=site[0])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}/experiments/dva-example.html")
        with page.expect_download() as download:
            page.get_by_role("link", name="measurement.json").click()
        content = Path(download.value.path()).read_bytes()
        server.shutdown()
    assert download.value.suggested_filename == "measurement.json"
    assert content == (ROOT / "results/dva-example/measurement.json").read_bytes()


@in_a_browser
def test_the_graph_is_reached_by_keyboard(site, page):
    page.goto(address(site, "graph.html"))
    box = page.locator(".graph a.node:not(.elsewhere)[data-name='dva.revised']")
    assert "dva.revised, corrected" in box.get_attribute("aria-label")
    box.focus()
    lit = page.locator(".graph path.lit")
    assert lit.count() >= 1
    assert all("dva.revised" in (edge.get_attribute("data-from"), edge.get_attribute("data-to")) for edge in lit.all())
    page.keyboard.press("Enter")
    page.wait_for_url("**/claims/dva.revised.html")


CONTRAST = """() => {
    const light = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255)
            .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return [...document.querySelectorAll('.verdict')].map((word) => {
        const style = getComputedStyle(word);
        const pair = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
        return [word.textContent, (pair[0] + 0.05) / (pair[1] + 0.05)];
    });
}"""


@in_a_browser
def test_verdicts_can_be_read_in_light_and_dark(site, browser):
    grounds = set()
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(address(site, "verdicts.html"))
        found = page.evaluate(CONTRAST)
        assert len(found) >= 11
        assert all(contrast >= 4.5 for _, contrast in found), found
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert len(grounds) == 2


@in_a_browser
def test_it_can_be_printed(site, page):
    page.goto(address(site, "claims/dva.revised.html"))
    page.emulate_media(media="print")
    assert not page.locator(".sidebar-drawer").is_visible()
    assert page.locator("article h1").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_what_a_figure_is_called_is_text(tmp_path):
    """Titles name variants of a user's own."""
    folder = RunFolder(ROOT / "results" / "dva-example")
    title = 'a "title": with \\ # <b> ::: {x} | and `more` \' of it'
    saved = {**folder.read("summary.json"), "title": title, "experiment": "dva-example+mine"}
    run = Run(folder, catalogue.experiment("dva-example"), saved, committed=True)
    kept = {stored(path): path for path in run.files()}
    assert build({"index.md": f"# One\n\n{figure(run)}\n"}, kept, tmp_path / "site") == []
    page = (tmp_path / "site" / "index.html").read_text()
    (alt,) = re.findall(r'<img alt="([^"]*)"', page)
    assert html.unescape(alt) == f"Figure of dva-example+mine: {title}"
    assert "<b>" not in page


def test_an_old_site_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    place = tmp_path / "runs" / "site"
    build({"index.md": "# One\n"}, {}, place)
    before = (place / "index.html").read_text()
    with monkeypatch.context() as broken:
        broken.setattr("experiments.report.build._sphinx", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build({"index.md": "# Two\n"}, {}, place)
    assert (place / "index.html").read_text() == before
    assert [path.name for path in place.parent.iterdir()] == ["site"]
    assert build({"index.md": "# Two\n\n[x](/nowhere.md)\n"}, {}, place) != []
    assert "Two" in (place / "index.html").read_text()
    assert [path.name for path in place.parent.iterdir()] == ["site"]
    assert write_report.__module__ == "experiments.report"
