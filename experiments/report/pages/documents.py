"""Pages that are read beside the source, too: the guide, tutorials, findings, and what stands in papers' rooms.

Their links are written as a repository's are, relative to the file that holds them.  Here they lead to pages, or else
to copies of the files.  The findings are one file there and several pages here: what can be acted on, and one page for
each question.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from experiments.report.material import Material, Room, picture
from experiments.report.pages import parts
from experiments.report.prose import code

TEXT = Path(os.path.abspath(__file__)).parents[1] / "text"
ROOT = Path(os.path.abspath(__file__)).parents[3]  # of the repository; of an installed package, where packages are
FINDINGS = "results/FINDINGS.md"
FOUND, CONTRIBUTING, TUTORIALS = "findings.md", "contributing.md", "tutorials/index.md"
GUIDE = ("start", "training", "models", "conversion", "variants", "scale", "rooms")  # in the order of the navigation
ELSEWHERE = {
    FINDINGS: FOUND,
    "CONTRIBUTING.md": CONTRIBUTING,
    "experiments/bench/SCALE.md": "guide/gpus.md",
    "icl/published/LAYOUTS.md": "guide/layouts.md",
    "icl/published/TRANSFORMERS.md": "guide/transformers.md",
    "tests/FAULTS.md": "guide/faults.md",
}
STAND_FOR = {"README.md": "index.md", "theory/plans/VARIANTS.md": "variants/index.md"}  # pages that say the same
FIGURE = re.compile(r"results/([a-z0-9-]+)/.*\.(?:png|svg)")
BLOCK = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
PART = re.compile(r"^## ", re.MULTILINE)
HEADED = re.compile(r"^(?=#{2,4} )", re.MULTILINE)
FIRST_PARTS = 2  # of the findings, on their first page
LONG_PART = 120  # words below a heading that are folded where the page has too many
SENTENCE = re.compile(r".*?\.(?:\*\*)?(?=\s|$)", re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
NAMED = re.compile(r"(?<!\[)`(?P<name>[a-z0-9]+\.[a-z0-9-]+)`(?!\])")


def documents(material: Material) -> dict[Path, str]:
    """Return the page of each file that exists: an installed package has the guide and the tutorials alone."""
    shown_as = {path: path.relative_to(TEXT).as_posix() for path in sorted(TEXT.rglob("*.md"))}
    shown_as |= {ROOT / name: page for name, page in ELSEWHERE.items() if (ROOT / name).is_file()}
    for room in material.rooms:
        shown_as |= of_room(room)
    return shown_as


def of_room(room: Room) -> dict[Path, str]:
    """Return the pages of the documents in a paper's room in `theory`, by file."""
    folder = ROOT / "theory" / room.slug
    return {path: f"papers/{room.slug}-{path.stem.lower()}.md" for path in sorted(folder.glob("*.md"))}


def title(path: Path) -> str:
    """Return Markdown of a document's first heading."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


@dataclass(frozen=True)
class Finding:
    """The beginning of a paper's part of the findings, as Markdown: its sentences, and its table or nothing."""

    sentences: str
    table: str


def finding(material: Material, room: Room) -> Finding | None:
    """Return what was found on a paper: of the part of the findings whose heading begins with its name, the beginning.

    Returns None where no part does, as in an installed package, which has no findings.
    """
    path = ROOT / FINDINGS
    if not path.is_file():
        return None
    document = _Document(path, material, documents(material), files={})
    for part in PART.split(path.read_text(encoding="utf-8"))[1:]:
        heading, _, text = part.partition("\n")
        if heading.casefold().startswith(room.name.casefold()):
            sentences, _, below = text.partition("<details>")[0].strip("\n").partition("\n\n")
            table = TABLE.search(below)
            shown = (document.linked(each) for each in (sentences, table[0] if table else ""))
            return Finding(*(each.strip("\n") for each in shown))
    return None


def pages(material: Material) -> parts.Pages:
    return _read(material).pages


def files(material: Material) -> dict[str, Path]:
    """Return the files that these pages show or lead to, by their place among the sources."""
    return _read(material).files


@dataclass
class _Read:
    pages: parts.Pages = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)


def _read(material: Material) -> _Read:
    known, read = documents(material), _Read()
    for path, page in known.items():
        document = _Document(path, material, known, files=read.files)
        if page == FOUND:
            read.pages |= _findings(document)
        else:
            read.pages[page] = (parts.ORPHAN if _alone(page) else "") + document.markdown()
    return read


def _findings(document: _Document) -> parts.Pages:
    """Return the first page of the findings, with a list of the others, and a page for each other part."""
    first, *sections = PART.split(document.path.read_text(encoding="utf-8"))
    shown = [f"{first}## " + "## ".join(sections[:FIRST_PARTS]).rstrip("\n"), "## A page for each question"]
    built, listed = {}, []
    for section in sections[FIRST_PARTS:]:
        heading, _, text = section.partition("\n")
        page = finding_page(heading)
        built[page] = document.set_out(f"# {heading}\n{text}")
        sentence = SENTENCE.match(text.strip())
        listed.append(f"- **[{heading}](/{page})** {document.linked(sentence[0] if sentence else '')}")
    names = "\n".join(page.removesuffix(".md") for page in built)
    toctree = f"```{{toctree}}\n:hidden:\n:titlesonly:\n\n{names}\n```"
    return {FOUND: "\n\n".join([document.set_out("\n\n".join(shown)), "\n".join(listed), toctree]) + "\n", **built}


def heading_anchor(heading: str) -> str:
    """Return the anchor of a heading, as repositories make it."""
    return re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-")


def finding_page(heading: str) -> str:
    """Return the page of a part of the findings."""
    return f"findings/{heading_anchor(heading)}.md"


def fold_long_parts(markdown: str) -> str:
    """Return a page as it is; if it has too many words, with long parts folded after their first paragraphs."""
    if len(parts.visible_words(markdown)) <= parts.MOST_WORDS:
        return markdown
    sections = _sections(markdown)
    return "".join([sections[0], *map(_shortened, sections[1:])])


def _sections(markdown: str) -> list[str]:
    """Return what stands before the first heading below the title, and each part with its heading, code left whole."""
    blocks = BLOCK.split(markdown)
    marked = "".join(block if number % 2 else HEADED.sub("\0", block) for number, block in enumerate(blocks))
    return marked.split("\0")


def _shortened(section: str) -> str:
    heading, _, text = section.partition("\n")
    return f"{heading}\n\n{parts.folded_after_first(text, LONG_PART)}\n"


def _alone(page: str) -> bool:
    """Return whether the navigation does not name a page, which others lead to."""
    folder, _, name = page.rpartition("/")
    return folder == "papers" or (folder == "guide" and name.removesuffix(".md") not in GUIDE)


@dataclass
class _Document:
    """A document and what its links may lead to.  files: which they led to."""

    path: Path
    material: Material
    known: dict[Path, str]
    files: dict[str, Path]

    def markdown(self) -> str:
        text = self.path.read_text(encoding="utf-8")
        shown = fold_long_parts(self.set_out(text))
        if self.known[self.path] == TUTORIALS:
            named = [match["target"].removesuffix(".md") for match in LINK.finditer(text)]
            shown += "\n```{toctree}\n:hidden:\n:titlesonly:\n\n" + "\n".join(named) + "\n```\n"
        return shown

    def set_out(self, text: str) -> str:
        """Return a text with its links and tables as on pages, and its code as it is."""
        return "".join(part if number % 2 else self.linked(part) for number, part in enumerate(BLOCK.split(text)))

    def linked(self, text: str) -> str:
        """Return a text with its tables set as sheets, its links and the entries that it names leading to pages."""
        text = TABLE.sub(lambda match: f":::{{container}} sheet wide\n\n{match[0]}\n:::\n", text)
        lines = LINK.sub(self._link, text).splitlines(keepends=True)
        return "".join(line if line.startswith("#") else NAMED.sub(self._entry, line) for line in lines)

    def _entry(self, match: re.Match[str]) -> str:
        page = self.material.names.entries.get(match["name"])
        return parts.link(match[0], page) if page else match[0]

    def _link(self, match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if "://" in target or (not target and self.known[self.path] != FOUND):
            return match[0]
        text = " ".join(match["text"].split())
        if not target:
            return parts.link(text, self._finding(anchor))
        file = Path(os.path.normpath(self.path.parent / target))
        name = Path(os.path.relpath(file, ROOT)).as_posix()
        page = self._page(file, name)
        if match["image"]:
            return self._picture(text, file, page)
        if page == FOUND and anchor:
            return parts.link(text, self._finding(anchor))
        if page:
            return parts.link(text, f"/{page}{anchor}")
        if not file.is_file():
            return code(name) if name.endswith(text.strip("`")) else f"{text} ({code(name)})"
        self.files[f"source/{name}"] = file
        return f"{{download}}`{text.replace('`', '')} </source/{name}>`"

    def _finding(self, anchor: str) -> str:
        """Return where an anchor of the findings leads: to a page of its own, or to a place on the first."""
        headings = re.findall(r"^## (.*)", (ROOT / FINDINGS).read_text(encoding="utf-8"), re.MULTILINE)
        later = {f"#{heading_anchor(heading)}": heading for heading in headings[FIRST_PARTS:]}
        return f"/{finding_page(later[anchor])}" if anchor in later else f"/{FOUND}{anchor}"

    def _page(self, file: Path, name: str) -> str | None:
        """Return the page to which a link leads: for a figure its experiment's."""
        figure = FIGURE.fullmatch(name)
        if figure and figure[1] in self.material.experiments:
            return parts.experiment_page(figure[1]).lstrip("/")
        return self.known.get(file) or STAND_FOR.get(name)

    def _picture(self, text: str, file: Path, page: str | None) -> str:
        """Return a figure with its description for those who do not see it; only the description if it is missing."""
        if not file.is_file():
            return text
        file = picture(file)
        self.files[parts.stored(file)] = file
        below = f"{parts.link('Numbers and verdicts', f'/{page}')}.\n" if page else ""
        return f'::::{{figure}} /{parts.stored(file)}\n:alt: "{text}"\n\n{below}::::'
