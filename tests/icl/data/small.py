"""Ranks, texts and a tokenizer to prepare data sets from, and what is read of them."""

import base64

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

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


def write_tokenizer(folder, start=(), end=(), vocab=300):
    """start, end: marks that it puts in front of a text and behind it, of <s> and </s>."""
    model = tokenizers.Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(["one two three four five six seven eight nine ten " * 3], trainer)
    marks = [(mark, model.token_to_id(mark)) for mark in ("<s>", "</s>")]
    model.post_processor = processors.TemplateProcessing(single=" ".join([*start, "$A", *end]), special_tokens=marks)
    model.save(str(folder / "tokenizer.json"))
    return folder
