"""Rows of several texts, as torchtitan hands them over: one row of tokens, positions that begin again."""

import pytest
import torch

from icl.training.titan.text import answers, text_lengths
from tests.icl.published.wrapped.small import close, decoder, tokens

ROW = tokens(1, 12)[0]


def packed(*lengths):
    return torch.cat([torch.arange(length) for length in lengths])


@pytest.mark.parametrize(
    "name", ["vanilla", "skipv1", "attnres-block", "shifted-values", "window skipv1", "positions skipv1"]
)
@pytest.mark.parametrize("lengths", [(12,), (4, 4, 4), (5, 1, 6)])
def test_every_text_is_answered_as_if_alone(name, lengths):
    model = decoder(name)
    with torch.no_grad():
        found = answers(model, ROW, packed(*lengths))
        close(found, torch.cat([model(text[None])[0] for text in ROW.split(lengths)]))
        close(answers(model, ROW[None], packed(*lengths)[None])[0], found)


def test_rows_are_texts_without_positions():
    model = decoder("skipv1")
    with torch.no_grad():
        close(answers(model, tokens()), model(tokens()))


def test_lengths_are_read_from_positions():
    assert text_lengths(packed(5, 1, 6)) == [5, 1, 6]
    for positions in (torch.arange(1, 4), torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1])):
        with pytest.raises(ValueError, match=r"^positions: "):
            text_lengths(positions)
