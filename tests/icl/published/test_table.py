"""The table of layouts (icl/published/LAYOUTS.md): every layout has a row, and logits are as near as it says."""

from pathlib import Path

import pytest
import torch

from icl.published.kinds import KINDS
from icl.published.reading import load
from icl.published.writing import save
from tests.icl.published import test_reading as reading
from tests.icl.published import test_testbed as testbed
from tests.icl.published import test_transformers as theirs
from tests.icl.published.llama import CONFIG, logits, state_dict, write

TABLE = Path(__file__).parents[3] / "icl" / "published" / "LAYOUTS.md"
ROWS = {
    cells[0]: cells[1:]
    for line in TABLE.read_text().splitlines()
    if line.startswith("| ") and len(cells := [c.strip() for c in line.strip("|").split("|")]) == 4
}
DRAWN = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
OWN_FIRST = {
    "mixed": lambda own, first: own if own is first else torch.cat([own, first[:, 1:]], dim=1),
    "beside": lambda own, first: 0 * first,
}


@torch.no_grad()
def of_transformers(name, folder):
    """Read, and written and read there again."""
    model = theirs.model_of(*theirs.THEIRS[name])
    model.save_pretrained(folder / "theirs")
    expected, ours = model(theirs.tokens()).logits, load(folder / "theirs")
    save(ours, folder / "ours")
    back = theirs.transformers.AutoModelForCausalLM.from_pretrained(folder / "ours", dtype=torch.float32).eval()
    return [theirs.difference(x, expected) for x in (ours(theirs.tokens()), back(theirs.tokens()).logits)]


@torch.no_grad()
def of_testbed(name, folder):
    """Beside plain tensor code in float64, of the same rounded weights."""
    weights = {tensor: x.float() for tensor, x in testbed.tensors(name).items()}
    expected = testbed.logits(name, {tensor: x.double() for tensor, x in weights.items()}, DRAWN)
    return [theirs.difference(load(testbed.write(folder / "x", name, weights))(DRAWN[None])[0], expected)]


@torch.no_grad()
def of_llama_s_names(name, folder):
    """Likewise."""
    valueless, how = ((), OWN_FIRST) if name == "skipv1" else reading.MIXED[name]
    weights, inputs = state_dict(CONFIG, valueless=valueless, dtype=torch.float32), reading.tokens(CONFIG, 8)
    if name == "skipv1":
        weights |= {n: x[:4] for n, x in weights.items() if "v_proj" in n and "layers.0" not in n}
    expected = logits(CONFIG, {tensor: x.double() for tensor, x in weights.items()}, inputs, **how)
    return [theirs.difference(load(write(folder, CONFIG, weights), variant=name)(inputs), expected)]


def sources():
    yield from ((name, of_transformers) for name in theirs.THEIRS)
    yield from ((name, of_llama_s_names) for name in ("skipv1", *reading.MIXED))
    yield from ((name, of_testbed) for name in testbed.KINDS)


@pytest.mark.parametrize(("name", "found"), list(sources()), ids=lambda x: x if isinstance(x, str) else "")
def test_logits_are_as_near_as_the_table_says(name, found, tmp_path):
    _, read, written = ROWS[name]
    said = [float(cell) for cell in (read, written) if cell != "no"]
    apart = found(name, tmp_path)
    assert len(said) == len(apart)
    assert all(x <= bound <= 1e-5 for x, bound in zip(apart, said, strict=True)), apart


def test_the_table_has_no_other_rows():
    names = {name for name, _ in sources()}
    header = {"layout", "---"}
    assert ROWS.keys() - header == names


def test_every_kind_that_is_read_is_in_the_table():
    text = TABLE.read_text()
    assert all(f"`{kind}`" in text for of in KINDS for kind in of.types)
