"""The guide's way from others' weights to a variant that `Trainer` trains on, and back, with small models."""

import json
import re
import shlex

import pytest
import torch

import icl
from experiments.cli import main
from experiments.commands.converting import convert
from experiments.commands.importing import export, import_
from experiments.report.pages.documents import TEXT
from icl.published.reading import load
from tests.icl.data.small import write_tokenizer
from tests.icl.published.test_transformers import THEIRS, difference, model_of, tokens

transformers = pytest.importorskip("transformers")
pytest.importorskip("icl.published.wrapped")

SECTION = (TEXT / "guide" / "models.md").read_text().partition("## Uptraining elsewhere")[2].partition("\n## ")[0]
MODEL, ROW, STEPS, BATCH = "SmolLM3-3B", 512, 2000, 8
FAMILIES = sorted(name for name, (kind, _) in THEIRS.items() if kind != "GPT2")


@pytest.mark.long
def test_the_guide_s_commands_and_python_make_a_model_that_has_learned(tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    kind, sizes = THEIRS["smollm3"]
    model_of(kind, sizes | {"vocab_size": 300, "max_position_embeddings": 40}).save_pretrained(MODEL)
    write_tokenizer(tmp_path / MODEL)
    (tmp_path / MODEL / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    (tmp_path / "novel.txt").write_text("one two three four five six seven eight nine ten " * 30)
    commands = re.findall(r"^crosslayer (.*)$", SECTION, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["import", "convert", "export"]
    for command in commands:
        assert main(shlex.split(command)) == 0
    (block,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    for number, small in ((ROW, 16), (STEPS, 20), (BATCH, 2)):
        assert re.search(rf"\b{number}\b", block)
        block = re.sub(rf"\b{number}\b", str(small), block)
    block = block.replace('"uptrained", ', '"uptrained", use_cpu=True, report_to=[], disable_tqdm=True, ')
    losses, own = [], transformers.Trainer.compute_loss

    def compute_loss(*args, **kwargs):
        loss = own(*args, **kwargs)
        losses.append(float(loss.detach()))
        return loss

    monkeypatch.setattr(transformers.Trainer, "compute_loss", compute_loss)
    exec(compile(block, "a page", "exec"), {"__name__": "__main__"})
    assert len(losses) == 20
    assert sum(losses[-5:]) < sum(losses[:5])
    trained = import_("uptrained/last", tmp_path / "back").model_folder
    assert trained.plan == icl.load(tmp_path / "smol-skipv1").plan
    theirs = transformers.AutoModelForCausalLM.from_pretrained("uptrained/last").eval()
    with torch.no_grad():
        assert difference(icl.load(tmp_path / "back")(tokens()), theirs(tokens()).logits) < 1e-5


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_goes_out_as_a_variant(name, tmp_path):
    """Imported, converted and exported, a model answers in transformers as it does here, and has a gradient."""
    model_of(*THEIRS[name]).save_pretrained(tmp_path / "theirs")
    import_(str(tmp_path / "theirs"), tmp_path / "run")
    assert convert(tmp_path / "run", tmp_path / "variant", variant="resformer-learned").saved.change == 0
    convert(tmp_path / "run", tmp_path / "half", variant="resformer")
    export(tmp_path / "half", tmp_path / "out")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        ours = icl.load(tmp_path / "half")(tokens())
        assert torch.equal(theirs(tokens(), use_cache=False).logits, ours)
        assert difference(ours, load(tmp_path / "theirs")(tokens())) > 1e-3
    theirs(tokens(), labels=tokens()).loss.backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in theirs.parameters())
    cached = theirs.generate(tokens()[:, :8], max_new_tokens=6, do_sample=False, pad_token_id=0)
    again = theirs.generate(tokens()[:, :8], max_new_tokens=6, do_sample=False, pad_token_id=0, use_cache=False)
    assert cached.tolist() == again.tolist()
