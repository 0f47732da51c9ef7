"""The table of layouts (icl/published/LAYOUTS.md): every layout has a row, and logits are as near as it says."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from icl.published.kinds import KINDS, PAPERS
from icl.published.papers import in_paper_s
from icl.published.reading import load
from icl.published.writing import save
from tests.icl.published import test_papers as testbed
from tests.icl.published import test_reading as reading
from tests.icl.published import test_transformers as theirs
from tests.icl.published.llama import CONFIG, OWN_FIRST, logits, state_dict, write

TABLE = Path(__file__).parents[3] / "icl" / "published" / "LAYOUTS.md"
ROWS = {
    cells[0]: cells[1:]
    for line in TABLE.read_text().splitlines()
    if line.startswith("| ") and len(cells := [c.strip() for c in line.strip("|").split("|")]) == 4
}
SEEDS = (0, 1, 2)
TIMES, UNITS = 4, 4 * torch.finfo(torch.float32).eps


@torch.no_grad()
def of_transformers(name, folder, seed):
    """Read, and written and read there again."""
    model = theirs.model_of(*theirs.THEIRS[name], seed=seed)
    model.save_pretrained(folder / "theirs")
    expected, ours = model(theirs.tokens()).logits, load(folder / "theirs")
    save(ours, folder / "ours")
    back = theirs.transformers.AutoModelForCausalLM.from_pretrained(folder / "ours", dtype=torch.float32).eval()
    assert all(torch.equal(x, back.state_dict()[tensor]) for tensor, x in model.state_dict().items())
    return [theirs.difference(x, expected) for x in (ours(theirs.tokens()), back(theirs.tokens()).logits)]


@torch.no_grad()
def of_papers(name, folder, seed):
    """Likewise, beside plain tensor code in float64, of the same rounded weights."""
    if name in testbed.KINDS:
        weights, inputs = {n: x.float() for n, x in testbed.tensors(name, seed=seed).items()}, testbed.TOKENS[0]
        place = testbed.write(folder / "theirs", name, weights)

        def plain(tensors):
            return testbed.logits(name, {n: x.double() for n, x in tensors.items()}, inputs)[None]

    else:
        valueless, how = ((), OWN_FIRST) if name == "skipv1" else reading.MIXED[name]
        weights, inputs = state_dict(CONFIG, seed, valueless=valueless, dtype=torch.float32), reading.tokens(CONFIG, 8)
        if name == "skipv1":
            weights |= {n: x[:4] for n, x in weights.items() if "v_proj" in n and "layers.0" not in n}
        place, inputs = write(folder / "theirs", CONFIG, weights), inputs[0]

        def plain(tensors):
            return logits(CONFIG, {n: x.double() for n, x in tensors.items()}, inputs[None], **how)

    ours, expected = load(place, variant=PAPERS[name][1]), plain(weights)
    _, written = in_paper_s(ours, name, torch.float32)
    assert all(torch.equal(x, weights[tensor]) for tensor, x in written.items())
    return [theirs.difference(x, expected) for x in (ours(inputs[None]), plain(written))]


SOURCES = {**dict.fromkeys(theirs.THEIRS, of_transformers), **dict.fromkeys(PAPERS, of_papers)}


def measured(name, folder):
    """What is read and what is written: the largest of several models each."""
    return [max(of) for of in zip(*(SOURCES[name](name, folder / str(seed), seed) for seed in SEEDS), strict=True)]


def in_words(apart):
    return f"{apart:.1e}" if apart else "0"


@pytest.mark.parametrize("name", SOURCES)
def test_logits_are_as_near_as_the_table_says(name, tmp_path):
    """Another machine takes sums in another order, so that errors are others of the same size: the largest of some
    hundred logits of three models each is not several times another, but for a few units of the largest logit."""
    for seed in SEEDS:
        (tmp_path / str(seed)).mkdir()
    said = [float(cell) for cell in ROWS[name][1:]]
    for found, written in zip(measured(name, tmp_path), said, strict=True):
        assert found <= TIMES * written + UNITS, in_words(found)
        assert written <= TIMES * found + UNITS, in_words(found)


def main():
    """Writes the table's figures anew."""
    lines = []
    for line in TABLE.read_text().splitlines():
        name, *cells = (c.strip() for c in line.strip("|").split("|"))
        if name in SOURCES and len(cells) == 3:
            with TemporaryDirectory() as folder:
                for seed in SEEDS:
                    Path(folder, str(seed)).mkdir()
                line = f"| {' | '.join([name, cells[0], *map(in_words, measured(name, Path(folder)))])} |"
                print(line)
        lines.append(line)
    TABLE.write_text("\n".join(lines) + "\n")


def test_the_table_has_no_other_rows():
    assert ROWS.keys() - {"layout", "---"} == SOURCES.keys()


def test_every_kind_that_is_read_is_in_the_table():
    text = TABLE.read_text()
    assert all(f"`{kind}`" in text for of in KINDS for kind in of.types)


if __name__ == "__main__":
    main()
