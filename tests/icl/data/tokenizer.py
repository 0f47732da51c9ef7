"""A tokenizer as it lies beside published weights: the bytes, and marks before and after every text."""

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers


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
