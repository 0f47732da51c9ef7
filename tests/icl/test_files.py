"""Files that are written whole, and JSON that tells whether it is as it was written."""

import errno
import json

import pytest

from icl.files import naming, opened, sealed, write_atomically

CONTENT = {"loss": 0.25, "seeds": [0, 1], "name": "vanilla", "nested": {"none": None, "yes": True}}


@pytest.mark.parametrize("indent", [None, 1])
def test_a_flipped_bit_is_detected_or_harmless(indent):
    """Every bit of the file, those of the digest's own name included."""
    text = json.dumps(sealed(CONTENT), indent=indent).encode()
    assert opened(text) == (CONTENT, True)
    for i in range(8 * len(text)):
        damaged = bytearray(text)
        damaged[i // 8] ^= 1 << i % 8
        try:
            found = opened(bytes(damaged))
        except ValueError:
            continue
        assert found == (CONTENT, True)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"4", b"null", b"\xff\xfe", b"\0" * 9, b"[" * 100_000])
def test_what_is_no_object_is_damage(text):
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind
        opened(text)


def test_what_was_written_before_there_were_digests():
    assert opened(json.dumps(CONTENT).encode()) == (CONTENT, False)
    assert opened(b"{}") == ({}, False)


def test_a_full_disk_is_said_of_the_file(tmp_path):
    """The error of a file that is open has no name of its own."""
    with pytest.raises(OSError, match=str(tmp_path / "file")) as stop, naming(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert stop.value.errno == errno.ENOSPC


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, "old")
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as stop:
        write_atomically(path, "new")
    assert stop.value.filename == str(path)
    assert path.read_text() == "old"
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match=str(folder)):
        write_atomically(folder, "new")
    assert sorted(p.name for p in tmp_path.iterdir() if not p.is_symlink()) == ["file", "folder"]
