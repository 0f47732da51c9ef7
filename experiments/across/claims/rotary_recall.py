"""Claims on associative recall by shared keys under rotary positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from experiments.across.claims.recall import shared_keys_decoder
from experiments.ledger.claim import Claim
from theory.errors import BadInput
from theory.skipv1.paper import PAPER
from theory.toy import rotary_recall
from theory.toy.recall import least_margin, margin, shared_key_scores
from theory.toy.rotary_recall import least_rotary_margin, rotary_margin, rotary_scores, rotary_weights, speeds

if TYPE_CHECKING:
    from icl.recall import RecallTask, Sequences

PAIRS, KEYS, VALUES, HEAD = 4, 6, 5, 64
ROUNDING = 1e-9
Scores = Callable[[int, int, int, float], np.ndarray]

ROTARY = Claim(
    "toy.recall-shared-keys-rotary",
    PAPER.ours,
    place="theory/toy/rotary_recall.py; bears on ResFormer, section 4.8 (shared keys)",
    statement="Rotary positions do not forbid recall by two layers whose keys are all layer 1's: for every number of "
    "pairs there is a base of the frequencies with which two heads, which have two numbers for each key and two more, "
    "answer every query right on interleaved prompts, with a loss as small as one likes.  At the usual base of 10,000 "
    "heads of 128 numbers do so for 16 keys and 1, 2, 4, 9 and 16 pairs.",
    assumes="softmax attention, no norms and feed-forward layers; keys, then values, are drawn without repetition; "
    "queries follow all pairs; a state of one number for each key and two for each value; heads have a number for each "
    "value",
    verdict="verified",
    proof=rotary_recall,
    uses=("toy.recall-shared-keys",),
)


def _as_fast(n: int, query: int, asked: int, speed: float) -> np.ndarray:
    return rotary_scores(n, query, asked, 100 * speed)


STATED: Scores = rotary_scores
AS_FAST: Scores = _as_fast


@ROTARY.check(
    "a decoder with rotary positions and these weights has these scores, whatever is asked for, in whatever order",
    states=STATED,
    control=AS_FAST,
    wrong="pairs of numbers that turn a hundred times as fast",
)
def a_decoder_has_these_scores(scores: Scores) -> bool:
    task, drawn = _drawn()
    answers = _answers(task, drawn)
    turns = speeds(HEAD)
    for answer, keys, values, asked in zip(answers, drawn.keys, drawn.values, drawn.asked, strict=True):
        for query, pair in enumerate(asked.tolist(), 1):
            stated = np.zeros(VALUES)
            stated[values.numpy()] = scores(PAIRS, query, pair + 1, float(turns[keys[pair]]))
            if np.abs(answer[query - 1] - stated).max() > ROUNDING:
                return False
    return True


@ROTARY.check(
    "with a readout of 1,500 the loss of that decoder is below 1e-9 at every query",
    states=1500.0,
    control=1.0,
    wrong="the readout as it is",
)
def the_loss_is_small(readout: float) -> bool:
    task, drawn = _drawn()
    scores = readout * _answers(task, drawn)
    right = (scores * drawn.answers().numpy()).sum(-1)
    most = scores.max(-1)
    return bool((np.log(np.exp(scores - most[..., None]).sum(-1)) + most - right < ROUNDING).all())


@ROTARY.check(
    "at the usual base each of 16 keys has a positive margin at every query, in heads of 128 numbers, for these pairs",
    states=128,
    control=32,
    wrong="heads of 32 numbers, whose fastest pairs turn once in a few tokens",
)
def every_key_stands_apart(width: int) -> bool:
    return all(least_rotary_margin(n, float(speed)) > 0 for n in (1, 2, 4, 9, 16) for speed in speeds(width)[:16])


@ROTARY.check(
    "for slow pairs and a large match scores and margins are those without positions",
    states=60.0,
    control=3.0,
    wrong="a match that leaves attention on other tokens",
)
def margins_tend_to_those_without_positions(match: float) -> bool:
    for n in (1, 2, 5, 8):
        if abs(least_rotary_margin(n, 1e-8, match) - float(least_margin(n))) > ROUNDING:
            return False
    for n, query, asked in ((3, 2, 2), (20, 20, 1), (20, 1, 20), (20, 20, 20)):
        exact = [float(score) for score in shared_key_scores(n, query, asked)]
        stated = float(margin(n, query, asked))
        if np.abs(rotary_scores(n, query, asked, speed=0.0, match=match) - exact).max() > ROUNDING:
            return False
        if abs(rotary_margin(n, query, asked, speed=0.0, match=match) - stated) > ROUNDING:
            return False
    scores = rotary_scores(3, 2, 2, 0.2)
    return bool(abs(rotary_margin(3, 2, 2, 0.2) - (scores[1] - max(0, scores[0], scores[2]))) < ROUNDING)


@ROTARY.check(
    "a head of w numbers turns its pairs by base^(-2i/w) per token, the slowest first, all but the first as slowly as "
    "one likes, and an odd or narrow head is refused",
    states=10_000.0,
    control=1_000.0,
    wrong="another base",
)
def how_pairs_turn(base: float) -> bool:
    for width in (2, 8, HEAD):
        if np.abs(speeds(width) - [base ** (-2 * i / width) for i in reversed(range(width // 2))]).max() > ROUNDING:
            return False
    return bool(speeds(2 * KEYS + 2, 1e60)[:KEYS].max() < 1e-8) and all(map(_refused, (2 * KEYS - 2, 2 * KEYS + 1)))


def _refused(width: int) -> bool:
    try:
        rotary_weights(PAIRS, KEYS, VALUES, width)
    except BadInput:
        return True
    return False


def _drawn() -> tuple[RecallTask, Sequences]:
    from icl.prompts import TRAIN_STREAM, Generator
    from icl.recall import RecallTask

    task = RecallTask(pairs=PAIRS, keys=KEYS, values=VALUES)
    return task, task.sample(20, Generator(TRAIN_STREAM, 0, 0))


def _answers(task: RecallTask, drawn: Sequences) -> np.ndarray:
    """Return the scores of all values at every query: (sequences, n, values)."""
    import torch

    model = shared_keys_decoder(task, rotary_weights(task.pairs, task.keys, task.values, HEAD), "rope")
    with torch.no_grad():
        return np.asarray(model(drawn.tokens().double())[:, task.told :, task.keys :].numpy())
