"""What comes home from a rental: pieces that stand alone, merged where nothing has changed, refused elsewhere."""

import json
import os

import pytest

from experiments.rental import archive
from experiments.store.folders import RunFolder, UserError


def line(key, loss=1.0):
    return {"kind": "run", "key": key, "loss": loss}


@pytest.fixture
def places(tmp_path):
    """The results folder of the rented machine, and the one at home, which are equal before."""
    there, home = tmp_path / "there", tmp_path / "home"
    for place in (there, home):
        pool = RunFolder(place / "campaign")
        pool.path.mkdir(parents=True)
        pool.log(line("first"))
        pool.write("summary.json", {"seeds": [0]})
    return there, home


def packed(there, tmp_path, name="rental", base=None):
    """The pieces after what `change` has done, as of a command that began before it."""
    base = archive.note_base(there, there / "rental") if base is None else base
    left = archive.write(tmp_path / "pieces", name, archive.changes(there, base), {})
    return sorted((tmp_path / "pieces").glob(f"{name}-*")), left


def test_what_is_new_or_changed_comes_home_and_nothing_else(places, tmp_path):
    there, home = places
    base = archive.note_base(there, there / "rental")
    RunFolder(there / "campaign").log(line("second"))
    RunFolder(there / "campaign").write("summary.json", {"seeds": [0, 1]})
    (there / "bridge" / "gpu").mkdir(parents=True)
    (there / "bridge" / "gpu" / "figure.png").write_bytes(os.urandom(1000))
    (there / "campaign" / ".lock").touch()
    (there / "campaign" / "half.part").write_text("half")
    pieces, left = packed(there, tmp_path, base=base)
    assert not left
    assert len(pieces) == 1
    assert {x.path for x in archive.read(pieces)} == {
        "campaign/metrics.jsonl",
        "campaign/summary.json",
        "bridge/gpu/figure.png",
    }
    done = archive.merge(pieces, home)
    assert len(done.taken) == 3
    for name in ("campaign/metrics.jsonl", "campaign/summary.json", "bridge/gpu/figure.png"):
        assert (home / name).read_bytes() == (there / name).read_bytes()
    again = archive.merge(pieces, home)
    assert not again.taken
    assert len(again.there) == 3


def test_lines_of_both_sides_are_joined(places, tmp_path):
    there, home = places
    base = archive.note_base(there, there / "rental")
    RunFolder(there / "campaign").log(line("second"))
    pieces, _ = packed(there, tmp_path, base=base)
    RunFolder(home / "campaign").log(line("at home"))
    assert archive.merge(pieces, home).lines == {"campaign/metrics.jsonl": 1}
    assert [x["key"] for x in RunFolder(home / "campaign").metrics()] == ["first", "at home", "second"]


def test_what_differs_at_home_is_refused_and_nothing_is_written(places, tmp_path):
    there, home = places
    base = archive.note_base(there, there / "rental")
    RunFolder(there / "campaign").log(line("second"))
    (there / "a.json").write_text("{}")
    pieces, _ = packed(there, tmp_path, base=base)
    RunFolder(home / "campaign").log(line("second", loss=2.0))
    before = (home / "campaign" / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match="the training second is there already, with other numbers"):
        archive.merge(pieces, home)
    assert (home / "campaign" / "metrics.jsonl").read_bytes() == before
    assert not (home / "a.json").exists()
    (home / "campaign" / "metrics.jsonl").unlink()
    (home / "a.json").write_text("[]")
    with pytest.raises(UserError, match=r"a\.json is there and differs"):
        archive.merge(pieces, home)


def test_a_later_command_s_archive_holds_what_the_first_had(places, tmp_path):
    """So whichever of them are fetched, in order, everything comes home once."""
    there, home = places
    for number, key in enumerate(("second", "third")):
        base = archive.note_base(there, there / "rental")
        RunFolder(there / "campaign").log(line(key))
        RunFolder(there / "campaign").write("summary.json", {"seeds": list(range(number + 2))})
        packed(there, tmp_path, f"rental-{number}", base)
    first, last = (sorted((tmp_path / "pieces").glob(f"rental-{number}-*")) for number in range(2))
    alone = tmp_path / "alone"
    archive.merge(last, alone)
    assert [x["key"] for x in RunFolder(alone / "campaign").metrics()] == ["first", "second", "third"]
    archive.merge(first, home)
    archive.merge(last, home)
    for name in ("metrics.jsonl", "summary.json"):
        assert (home / "campaign" / name).read_bytes() == (there / "campaign" / name).read_bytes()


def test_versions_of_one_archive_follow_each_other(places, tmp_path):
    """Fetched when the machine was taken away, after which it went on: both come home, in one merge or in two."""
    there, home = places
    base = archive.note_base(there, there / "rental")
    RunFolder(there / "campaign").write("summary.json", {"seeds": [0, 1]})
    for _ in range(2):  # the second holds the same versions
        found = archive.changes(there, base)
        archive.write(tmp_path / "pieces", "rental-0", found, {})
        archive.note_sent(there / "rental", base, found)
    RunFolder(there / "campaign").write("summary.json", {"seeds": [0, 1, 2]})  # and nothing more is archived
    base = archive.note_base(there, there / "rental")
    RunFolder(there / "campaign").write("summary.json", {"seeds": [0, 1, 2, 3]})
    packed(there, tmp_path, "rental-1", base)
    first, last = (sorted((tmp_path / "pieces").glob(f"rental-{number}-*")) for number in range(2))
    for fetched in ([first, last], [[*first, *last]], [[*first, *last]]):
        for pieces in fetched:
            archive.merge(pieces, home)
        assert RunFolder(home / "campaign").read("summary.json")["seeds"] == [0, 1, 2, 3]


def test_a_torn_last_line_stays_behind(places, tmp_path):
    there, home = places
    base = archive.note_base(there, there / "rental")
    RunFolder(there / "campaign").log(line("second"))
    with (there / "campaign" / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "run", "key": "thi')
    pieces, _ = packed(there, tmp_path, base=base)
    archive.merge(pieces, home)
    assert [x["key"] for x in RunFolder(home / "campaign").metrics()] == ["first", "second"]


def test_pieces_are_few_and_small_and_each_stands_alone(tmp_path, monkeypatch):
    """Results come first; a model that is too large stays behind, and is named."""
    monkeypatch.setattr(archive, "PIECE", 100_000)
    monkeypatch.setattr(archive, "PIECES", 3)
    monkeypatch.setattr(archive, "ROOM", 4_000)
    there = tmp_path / "there"
    there.mkdir()
    base = archive.note_base(there, there / "rental")
    sizes = {"models/a/weights.safetensors": 80_000, "models/b/weights.safetensors": 90_000}
    sizes |= {"models/large/weights.safetensors": 200_000, "models/c/weights.safetensors": 85_000}
    sizes |= {f"run/{i}.json": 9_000 for i in range(9)}
    for name, size in sizes.items():
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_bytes(os.urandom(size))
    pieces, left = packed(there, tmp_path, base=base)
    assert len(pieces) == 3
    assert all(piece.stat().st_size <= 100_000 for piece in pieces)
    assert "models/large/weights.safetensors" in left
    kept = [change.path for change in archive.read(pieces)]
    assert {f"run/{i}.json" for i in range(9)} <= {*kept}
    assert sorted([*kept, *left]) == sorted(sizes)
    assert [change.path for change in archive.read(pieces[:1])]  # without the others
    (there / "models/b/weights.safetensors").unlink()
    for name in list(sizes)[:4]:
        (there / name).unlink(missing_ok=True)
    assert len(packed(there, tmp_path, base=base)[0]) == 1  # a smaller version leaves no piece of a larger one


def test_only_the_newest_checkpoint_travels_and_whole_or_not_at_all(tmp_path, monkeypatch):
    there = tmp_path / "there"
    training = there / "campaign" / "unfinished-abc"
    base = archive.note_base(there, there / "rental")
    for step in (10, 20):
        folder = training / f"checkpoint-{step:09d}"
        folder.mkdir(parents=True)
        (folder / "state.json").write_text("{}")
        (folder / "state.safetensors").write_bytes(os.urandom(50_000))
    pieces, left = packed(there, tmp_path, base=base)
    assert not left
    assert {x.path.split("/")[2] for x in archive.read(pieces)} == {"checkpoint-000000020"}
    monkeypatch.setattr(archive, "PIECE", 60_000)
    monkeypatch.setattr(archive, "ROOM", 20_000)
    pieces, left = packed(there, tmp_path, base=base)
    assert not pieces
    assert len(left) == 2


def test_damaged_pieces_and_paths_that_lead_out_are_refused(places, tmp_path):
    there, home = places
    base = archive.note_base(there, there / "rental")
    (there / "new.json").write_text("{}")
    ((piece,), _) = packed(there, tmp_path, base=base)
    whole = piece.read_bytes()
    piece.write_bytes(whole[:-40])
    with pytest.raises(UserError, match="no piece of a rental, or damaged"):
        archive.merge([piece], home)
    evil = archive.Change("../evil.json", b"{}", ())
    archive.write(tmp_path / "pieces", "evil", [evil], {})
    with pytest.raises(UserError, match="no piece of a rental, or damaged"):
        archive.merge([tmp_path / "pieces" / f"evil-0{archive.SUFFIX}"], home)
    assert not (tmp_path / "evil.json").exists()


def test_the_base_is_kept_between_commands(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "old.json").write_text("1")
    archive.note_base(there, there / "rental")
    (there / "old.json").write_text("2")
    (there / "new.json").write_text("3")
    base = archive.note_base(there, there / "rental")
    assert base["old.json"] == [archive.digest(b"1"), archive.digest(b"2")]
    assert base["new.json"] == [archive.ABSENT, archive.digest(b"3")]
    assert {x.path for x in archive.changes(there, base)} == {"old.json", "new.json"}
    (there / "rental" / archive.BASE).write_text(json.dumps([]))
    with pytest.raises(UserError, match="damaged"):
        archive.note_base(there, there / "rental")
