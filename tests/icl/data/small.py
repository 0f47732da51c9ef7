"""Ranks and texts to prepare data sets from, and what is read of them."""

import base64

from icl.data.preparing import prepare
from icl.data.shards import open_data
from icl.data.sources import documents
from icl.data.tokenizers import END

SPECIAL = (END, "<|endoftext|>", "<|end", "|>")
SMALL = {"vocab": 300, "held_out": 0.3, "shard_bytes": 100}
MERGES = (b"th", b"the", b" t", b"in", b"ing", "é".encode())


def texts_of(source):
    return [document.text for document in documents(str(source))]


def write_ranks(path, tokens):
    path.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)))
    return path


def split_texts(data, split):
    """The documents of a split, from its tokens alone."""
    tokenizer, found, ids = data.tokenizer(), [], []
    for token in data.tokens(split)[:].tolist():
        if token == tokenizer.end:
            found.append(tokenizer.decode(ids))
            ids = []
        else:
            ids.append(token)
    assert not ids  # the last document has its end too
    return found


def open_data_of(source, folder, **changes):
    prepare(str(source), folder, **SMALL | changes)
    return open_data(folder)
