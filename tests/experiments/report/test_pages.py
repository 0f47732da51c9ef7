"""Pages of the whole ledger and all committed results, as sources: their words, links, and pictures of premises."""

import argparse
import contextlib
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import experiments
import icl
import theory
from experiments import catalogue
from experiments.cli.parser import parser
from experiments.experiment import execution
from experiments.ledger.claim import Claim
from experiments.ledger.verify import recollections
from experiments.report import files, sources
from experiments.report.graph import BOX, Node, drawn
from experiments.report.material import claim_page, gathered, picture
from experiments.report.pages import commands, documents, errata, papers
from experiments.report.pages import experiments as pages_of_experiments
from experiments.report.pages.ledger import first_sentence
from experiments.report.pages.parts import MOST_WORDS, folded, folded_after_first, visible_words
from experiments.report.prose import Names
from experiments.store.folders import RunFolder, UserError
from tests.experiments.report.words import words
from tests.isolation import copied
from theory.plans.papers import rooms
from theory.plans.variants import VARIANTS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def where_the_committed_results_lie(nothing_lies_around, monkeypatch):  # noqa: ARG001
    """Pages name and read them by their places in the repository."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def material():
    with contextlib.chdir(ROOT):
        ledger = catalogue.claims()
        yield gathered(ROOT / "no-runs", recollections(ledger.values(), ledger))


@pytest.fixture(scope="module")
def pages(material):
    with contextlib.chdir(ROOT):
        return sources(material, parser())


@pytest.mark.long
def test_there_is_a_page_of_everything(pages):
    assert {claim_page(name).lstrip("/") for name in catalogue.claims()} <= set(pages)
    assert {f"experiments/{name}.md" for name in catalogue.names()} <= set(pages)
    assert {f"variants/{name}.md" for name in VARIANTS} <= set(pages)
    for room in rooms():
        assert {f"papers/{room.name}.md", f"errata/{room.name}.md", f"errata/errata-{room.name}.txt"} <= set(pages)
    for package in (theory, icl, experiments):
        listed = re.findall(rf"\{{py:\w+\}} {package.__name__}\.(\w+)", pages[f"api/{package.__name__}.md"])
        assert sorted(listed) == sorted(package.__all__)
    typed = {name for name, _ in commands._commands(parser())}
    assert {"crosslayer report", "crosslayer data prepare"} <= typed
    assert {line.removeprefix("## ") for line in pages["commands.md"].splitlines() if line.startswith("## ")} == typed


def test_links_lead_to_pages_and_files(pages, material):
    there = {f"/{name}" for name in pages} | {f"/{name}" for name in files(material)}
    for name, text in pages.items():
        for target in re.findall(r"\]\((/[^)#]*)\)", text) + re.findall(r"[ `<](/runs/[^>\s]+)", text):
            assert target in there, (name, target)
    assert "crosslayer report" in commands.pages(None)["commands.md"]
    figures = [line for text in pages.values() for line in text.splitlines() if line.startswith("::::{figure}")]
    assert len(figures) == sum(text.count('\n:alt: "') for text in pages.values()) > 60


def test_a_claim_s_page_says_all_that_there_is(pages):
    page = words(pages["claims/skipv1.gap.md"])
    claim = catalogue.claim("skipv1.gap")
    for part in (
        "[corrected] [SkipV1Former](/papers/skipv1.md)",
        "SkipV1Former's optimal loss is lower than MHA's by a constant.",
        "## What is true",
        "theory/skipv1/gap.py",
        "**Theorem.** With",
        "| `mha_explained` | $\\rho a \\left(d - a\\right)$ |",
        "[`skipv1.mha-infimum`](/claims/skipv1.mha-infimum.md) [verified]",
        "[`skipv1-gap`](/experiments/skipv1-gap.md)",
        "/skipv1-gap/figure.svg",
        "crosslayer claim skipv1.gap",
        "section 4, Theorem 1; appendix A.1",
    ):
        assert part in page, part
    for evidence in claim.evidence:
        assert words(Names().prose(evidence.wrong)) in page
    for other in catalogue.claims().values():
        if "skipv1.gap" in other.uses:
            assert f"(/claims/{other.id}.md)" in page


def test_an_experiment_s_page_says_what_was_predicted_and_what_came_out(pages):
    page = words(pages["experiments/scale-uptrain.md"])
    prediction = RunFolder(ROOT / "results" / "scale-uptrain").read("prediction.json")
    for key in ("assumes", "statistic", "rule", "tuning"):
        assert words(Names().prose(prediction[key]))[:60] in page, key
    for part in (
        "stored before anything was measured",
        "Committed result, profile cpu",
        "measurement.json",
        "| `cpu` |",
    ):
        assert part in page


@pytest.mark.long
def test_an_experiment_without_a_run_says_so(material):
    unrun = pages_of_experiments.pages(replace(material, runs={name: [] for name in material.runs}))
    assert "No run of it is finished" in unrun["experiments/scale-uptrain.md"]


@pytest.mark.long
def test_the_files_of_a_run_are_read_once(material, monkeypatch):
    read, run = [], replace(material.runs["scale-uptrain"][0])
    of_a_folder = RunFolder.read
    monkeypatch.setattr(RunFolder, "read", lambda folder, name: (read.append(name), of_a_folder(folder, name))[1])
    shown = pages_of_experiments.pages(replace(material, runs={"scale-uptrain": [run]}))
    assert run.verdict in words(shown["experiments/scale-uptrain.md"])
    assert sorted(read) == ["measurement.json", "prediction.json"]


def test_a_variant_s_page(pages):
    page = words(pages["variants/skipv1.md"])
    for part in ("layers 2-6: heads 1-3 own, heads 4-6 layer 1", "-22.9%", "3.035 more than vanilla", 'class="from-1"'):
        assert part in page


def test_documents_of_the_repository_lead_to_pages_and_files(pages):
    assert "[`skipv1.mha-unattained`](/claims/skipv1.mha-unattained.md)" in pages["papers/skipv1-theorem.md"]
    assert "(/papers/skipv1-theorem.md)" in pages["papers/skipv1.md"]
    findings = "".join(page for name, page in pages.items() if name.startswith("findings/"))
    assert "(/experiments/skipv1-w0.md)" in findings
    assert "(/papers/resformer-claims.md#what-training-decides)" in findings
    assert "{download}`proof </source/theory/skipv1/bias.py>`" in findings
    assert "(/guide/layouts.md)" in pages["guide/models.md"]
    for name in documents.GUIDE:
        assert f"guide/{name}.md" in pages
        assert f"\nguide/{name}\n" in pages["index.md"]
    assert "\nidentity\nvariant\n" in pages["tutorials/index.md"]
    assert not re.findall(r"\]\((?!/|https://|#)[^)]*\)", "".join(pages[f"guide/{n}.md"] for n in documents.GUIDE))


def test_without_a_repository_the_guide_is_there(material, monkeypatch, tmp_path):
    text = Path("experiments/report/text")
    copied(ROOT / text, tmp_path / text)
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    monkeypatch.setattr(documents, "TEXT", tmp_path / text)
    made = documents.pages(material)
    assert "findings.md" not in made
    assert "findings" not in papers.pages(material)["index.md"]
    assert not re.findall(r"/source/|\]\((?!/|https://|#)[^)]*\)", made["guide/rooms.md"] + made["guide/models.md"])
    assert documents.files(material) == {}


def test_a_paper_s_page_begins_with_what_was_found(pages, material):
    """And the front page has its sentences, of the project's own papers first."""
    own = [room for room in material.rooms[:-1] if not room.paper.further]
    assert len(own) == 4
    for room in own:
        page, finding = pages[f"papers/{room.slug}.md"], documents.finding(material, room)
        assert 20 < len(finding.sentences.split()) < 90
        assert re.match(r"\*\*.*\b(helps|loss)\b.*\.\*\* ", " ".join(finding.sentences.split())), (
            "the answer comes first"
        )
        assert "| what | result | where | how sure |" in finding.table
        assert page.index(finding.sentences) < page.index(finding.table) < page.index("## In five lines")
        assert " ".join(finding.sentences.split()) in pages["index.md"]
    assert documents.finding(material, material.rooms[-1]) is None
    named = re.findall(r"^- \*\*\[([^]]+)\]", pages["index.md"], re.MULTILINE)
    assert set(named[:4]) == {room.name for room in own}


FILTERED = {"claims/index.md"}  # a table of which a script shows the first rows


def test_no_page_shows_too_many_words_before_a_fold(pages):
    shown = {name: len(visible_words(page)) for name, page in pages.items() if name.endswith(".md")}
    assert len(shown) > 300
    assert {name for name, count in shown.items() if count > MOST_WORDS} == FILTERED
    assert max(shown.values()) > 5 * MOST_WORDS
    for name in ("experiments/ladder.md", "errata/skipv1.md", "contributing.md", "papers/skipv1-theorem.md"):
        assert "<summary>" in pages[name], name
        assert len(pages[name].split()) > 2 * MOST_WORDS, name


def test_words_before_a_fold_are_counted():
    page = "# One two\n\n$a + b$ [three](/four.md) [five]{.verdict .open}\n\n"
    assert len(visible_words(page)) == 5
    assert len(visible_words(page + folded("six", "seven eight"))) == 5
    assert folded_after_first("One two.\n\nThree four.", most=4) == "One two.\n\nThree four."
    short = folded_after_first("One two.\n\nThree four.", most=3)
    assert len(visible_words(short)) == 2
    assert short.index("One two.") < short.index("<details>") < short.index("Three four.")
    assert folded_after_first("- One two.\n- Three\n\nFour", most=3).startswith("```{raw} html\n<details>")


def test_every_question_of_the_findings_has_a_page(pages):
    """And links to a part of the findings lead there."""
    headings = re.findall(r"^## (.*)", (ROOT / documents.FINDINGS).read_text(), re.MULTILINE)
    apart = headings[documents.FIRST_PARTS :]
    assert len(apart) > 10
    for heading in apart:
        page = documents.finding_page(heading)
        assert pages[page].startswith(f"# {heading}\n")
        assert f"(/{page})" in pages["findings.md"]
    assert f"(/{documents.finding_page('What does it cost to convert a trained model?')})" in pages["guide/models.md"]
    text = "".join(page for name, page in pages.items() if name.startswith(("findings", "papers/")))
    assert not re.findall(r"\]\(#", "".join(page for name, page in pages.items() if name.startswith("findings")))
    assert f"(/{documents.finding_page('Earlier results on text')})" in text


def test_figures_of_committed_results_say_what_is_seen(pages):
    assert ':alt: "The loss gap of SkipV1Former against rank-a compression' in pages["experiments/skipv1-gap.md"]


def test_errata_are_in_the_order_of_the_text(material):
    for room in material.rooms[:-1]:
        found = errata.errata(material, room)
        assert found == sorted(found, key=lambda claim: errata.position(claim.place))
        assert {c.verdict for c in found} <= {"corrected", "refuted"}
        assert all(c.paper == room.paper.name for c in found)
    places = ["abstract and section 3.5", "introduction, Fig. 1", "section 3.2, Eqn. (4)", "section 3.10"]
    places += ["sections 4.1 and 2", "appendix A.1, Lemma 1", "appendix B.2", "the last page"]
    assert sorted({*places}, key=errata.position) == places
    letter = errata.pages(material)["errata/errata-skipv1.txt"]
    assert "Holds: At W0 = 0 the gap is rho a^2 at equal rank" in letter
    assert max(map(len, letter.splitlines()[3:])) <= errata.WIDTH


def test_every_paper_has_an_answer_that_rests_on_entries(material):
    """Its numbers are those of the entries that it names."""
    for room in material.rooms[:-1]:
        if (answer := papers.answer(room)) is None:
            assert room.paper.further
            continue
        assert len(answer.lines) == 5
        assert answer.figure in [one.name for one in material.experiments_of(room)]
        assert len(answer.notation) >= 5
        for line in answer.lines:
            claims = [catalogue.claim(name) for name in line.entries]
            assert claims
            said = " ".join(text for c in claims for text in (c.statement, c.correction, c.assumes, c.place))
            for number in re.findall(r"\d+(?:\.\d+)?(?: %|/\d+)?", line.says):
                assert number in said or number in ("0", "1", "2"), (line, number)


def test_own_runs_come_before_committed_ones(smoke):
    _, folder = smoke
    found = gathered(folder.parent.parent, [])
    assert [run.committed for run in found.runs["skipv1-gap"]] == [False]
    assert found.runs["skipv1-gap"][0].folder.path == folder
    assert all(run.committed for name, runs in found.runs.items() if name != "skipv1-gap" for run in runs)


def test_of_a_figure_the_drawing_is_shown_unless_it_is_large(smoke, monkeypatch):
    _, folder = smoke
    drawing, png = folder / "figure.svg", folder / "figure.png"
    whole = drawing.read_bytes()
    assert picture(png) == drawing
    with monkeypatch.context() as small:
        small.setattr("experiments.report.material.LARGEST", len(whole) - 1)
        assert picture(png) == png
    try:
        drawing.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(UserError, match=r"figure\.svg is damaged"):
            gathered(drawing.parents[2], [])
        drawing.unlink()
        assert picture(png) == png
        gathered(drawing.parents[2], [])
    finally:
        drawing.write_bytes(whole)


def test_without_a_run_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "ROOT", tmp_path)  # as of an installed package, which has no committed results
    with pytest.raises(UserError, match="crosslayer run --all"):
        gathered(tmp_path / "runs", [])


HOSTILE = (
    "</p><script>alert(1)</script> [x](javascript:alert(1)) `` ```{raw} html\n| a | {eval-rst} $x$ ::: # <img src=none>"
)


@pytest.mark.long
def test_other_people_s_text_is_text(material, monkeypatch):
    claim = Claim("made.hostile", HOSTILE, HOSTILE, HOSTILE, HOSTILE, "corrected", HOSTILE)
    claim.check(HOSTILE, states=1, control=2, wrong=HOSTILE)(lambda version: version == 1)
    claim.module = catalogue.claim("skipv1.gap").module
    monkeypatch.setattr(catalogue, "indexes", list)
    monkeypatch.setattr("experiments.report.pages.library.pages", lambda _: {})
    monkeypatch.setattr("experiments.report.pages.variants.pages", lambda _: {})
    few = replace(material, ledger={"made.hostile": claim}, verified={})
    with contextlib.chdir(ROOT):
        made = sources(few, argparse.ArgumentParser("crosslayer", description=HOSTILE))
    live = re.compile(r"(?<!\\)<script>|(?<![\\`])\]\(javascript|^```\{raw\} html\n\|", re.MULTILINE)
    own = {"explore.md"}  # a script of ours
    assert not [name for name, text in made.items() if name.endswith(".md") and live.search(text) and name not in own]
    assert "alert" not in made["explore.md"]
    assert "made.hostile" in made["claims/index.md"]


def test_first_sentences():
    assert first_sentence("One is 1.  Two is 2.") == "One is 1."
    assert first_sentence("a " * 200).endswith("…")


WIDEST = 1200  # what a page has room for on a screen of 1600 pixels


def node(name, *uses):
    return Node(uses, "verified", f"{name}.html", f"{name}, verified", name)


def boxes(svg):
    """By name: left, top and height of each."""
    found = re.findall(r'data-name="([^"]+)".*?<rect x="(\d+)" y="(\d+)" width="\d+" height="(\d+)"', svg)
    return {name: tuple(map(int, numbers)) for name, *numbers in found}


def ends(svg):
    """By premise and what uses it: where the line begins and ends."""
    found = re.findall(r'<path d="M(\S+) (\S+)C.*?(\d+) (\d+)" data-from="([^"]+)" data-to="([^"]+)"', svg)
    return {(premise, name): tuple(map(int, numbers)) for *numbers, premise, name in found}


def check(svg, uses):
    places, lines = boxes(svg), ends(svg)
    assert lines.keys() == {(premise, name) for name, premises in uses.items() for premise in premises}
    for (premise, name), (x0, y0, x1, y1) in lines.items():
        (left, top, high), (right, below, deep) = places[premise], places[name]
        assert left + BOX == x0 < x1 == right
        assert top <= y0 <= top + high
        assert below <= y1 <= below + deep


def test_lines_join_boxes_and_boxes_stand_apart():
    uses = {"a": (), "b": ("a",), "c": ("b", "a"), "d": ("a",), "e": ("c", "d", "a"), "other": (), "one": ("other",)}
    svg = drawn({name: node(name, *premises) for name, premises in uses.items()}, "all")
    check(svg, uses)
    assert svg.count("<svg") == 2
    assert svg.index('data-name="e"') < svg.index('data-name="one"')


@pytest.fixture(scope="module")
def pictures():
    """Of the rooms of the ledger, with their entries' premises."""
    found = {}
    for package in {claim.module.partition(".claims")[0] for claim in catalogue.claims().values()}:
        own = [c for c in catalogue.claims().values() if c.module.startswith(f"{package}.claims") and c.uses]
        uses = {name: () for claim in own for name in claim.uses} | {claim.id: claim.uses for claim in own}
        found[package] = uses, drawn({name: node(name, *premises) for name, premises in uses.items()}, package)
    return found


def test_the_ledger_fits_a_page(pictures):
    assert len(pictures) > 4
    for uses, svg in pictures.values():
        check(svg, uses)
        for part in svg.split("<svg")[1:]:
            assert int(re.search(r' width="(\d+)"', part)[1]) <= WIDEST
            stand = sorted(boxes(part).values())
            for (x, top, high), (other, below, _) in pairwise(stand):
                assert x != other or top + high < below


def test_names_are_text():
    hostile = 'a<b>"&'
    svg = drawn({hostile: node(hostile), "x": node("x", hostile)}, hostile)
    assert "<b>" not in svg
    assert "a&lt;b&gt;" in svg
