"""Prepared text as one file: it comes out as it went in, and what is too large or damaged is refused."""

import json

import pytest

from experiments.cli import main
from experiments.rental import packed_text
from experiments.store.folders import UserError
from icl.data.shards import open_data, read_manifest
from tests.icl.training.small import rain


@pytest.fixture
def data(tmp_path):
    rain(tmp_path)
    return tmp_path / "data"


def test_it_comes_out_as_it_went_in(data, tmp_path, capsys):
    file = tmp_path / f"rain{packed_text.SUFFIX}"
    assert main(["rental", "pack", str(data), "--to", str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["bytes"] == file.stat().st_size < sum(x.stat().st_size for x in data.iterdir())
    folder = packed_text.unpacked(file, tmp_path / "place")
    assert open_data(folder).manifest == read_manifest(data)
    assert {x.name: x.read_bytes() for x in folder.iterdir()} == {x.name: x.read_bytes() for x in data.iterdir()}
    before = {x: x.stat().st_mtime_ns for x in folder.iterdir()}
    assert packed_text.unpacked(file, tmp_path / "place") == folder
    assert before == {x: x.stat().st_mtime_ns for x in folder.iterdir()}  # once
    assert packed_text.unpacked(data) == data


def test_other_text_of_the_same_name_is_unpacked_anew(data, tmp_path):
    file = tmp_path / f"rain{packed_text.SUFFIX}"
    packed_text.pack(data, file)
    folder = packed_text.unpacked(file, tmp_path / "place")
    (folder / "manifest.json").write_text("{}")
    assert read_manifest(packed_text.unpacked(file, tmp_path / "place")) == read_manifest(data)


def test_what_is_too_large_is_refused_with_a_length_that_fits(data, tmp_path, monkeypatch):
    monkeypatch.setattr(packed_text, "MOST", 1000)
    file = tmp_path / "rain.tokens"
    with pytest.raises(UserError, match=r"prepare it again with --max-tokens \d+"):
        packed_text.pack(data, file)
    assert not list(tmp_path.glob("rain*"))


def test_damage_is_refused(data, tmp_path):
    file = tmp_path / "rain.tokens"
    packed_text.pack(data, file)
    with pytest.raises(UserError, match="is there already"):
        packed_text.pack(data, file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="is no packed text, or damaged"):
        packed_text.unpacked(file, tmp_path / "place")
    assert not (tmp_path / "place" / "rain").exists()
