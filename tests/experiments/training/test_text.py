"""The text that trainings read, and what a user is told of it."""

import json
import shutil

import pytest

from experiments.store.folders import UserError
from experiments.training import text as text_data
from icl.data import shards


def test_text_is_a_folder_or_the_standard_library(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert text_data.prepared(str(data)) == data
    with pytest.raises(UserError, match=r"there is no folder nowhere; make one with `crosslayer data prepare SOURCE"):
        text_data.prepared("nowhere")
    made = []
    monkeypatch.setattr(text_data, "prepare", lambda source, folder, vocab: made.append((source, str(folder), vocab)))
    folder = tmp_path / "cache" / "crosslayer" / "stdlib-512"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert text_data.prepared("stdlib", 512) == folder
    assert made == [("stdlib", str(folder), 512)]
    assert str(folder) in capsys.readouterr().err
    shutil.copytree(data, folder)
    assert text_data.prepared("stdlib", 512) == folder
    shutil.copytree(data, tmp_path / "data" / "stdlib-512")
    assert str(text_data.prepared("stdlib", 512)) == "data/stdlib-512"  # made here before there was the other place
    assert len(made) == 1
    assert not capsys.readouterr().err


def test_what_a_user_is_told_of_text(data):
    """As JSON, and the figures those of the files."""
    opened = shards.open_data(data)
    about = text_data.about(data, opened.manifest)
    assert json.loads(json.dumps(about, allow_nan=False)) == about
    assert about["train"]["documents"] + about["held_out"]["documents"] == 30
    assert (about["vocab"], about["folder"], about["digest"]) == (280, str(data), opened.manifest.digest)
    for split in ("train", "held_out"):
        assert about[split]["tokens"] == len(opened.tokens(split)) > 0
    assert about["megabytes"] == round(sum(path.stat().st_size for path in data.glob("*.bin")) / 1e6, 1)
