"""Compilations of the rental's text trainings, counted: two per plan, however many trainings there are."""

from dataclasses import replace

import pytest

from experiments.campaign.setting import Corpus
from experiments.rental import trainings
from experiments.training.trunks import trunks
from icl.models.decoder import Decoder
from icl.training.loop import train
from tests.icl.training.small import CONTEXT, VOCAB, text
from tests.icl.training.test_compiled import ONE_SHAPE, counter
from theory.plans.architecture import Tokens

__all__ = ["counter"]
TEXT = Corpus("a text", "0123", 45_000_000, vocab=4096)


@pytest.mark.long
def test_a_campaign_compiles_every_plan_once_to_train_and_once_to_evaluate(counter):
    """With narrow models: nothing but their widths differs from the rental's."""
    wanted = trainings.trainings(TEXT)
    alone = trunks(wanted.arms(trainings.SEEDS))
    assert len(alone) == 24
    plans = set()
    for trunk in alone:
        arm = trunk.arms[-1]
        assert arm.recipe.compile
        narrow = replace(arm.architecture, d_model=16, d_ff=16, context=CONTEXT, stem=Tokens(VOCAB))
        recipe = replace(arm.recipe, steps=2, batch=2, precision="fp32", log_every=1, evaluate_every=1)
        plans.add(arm.plan)
        list(train(Decoder(narrow, arm.plan, seed=arm.twin), text(), recipe, arm.twin))
    assert counter.frame_count == ONE_SHAPE * len(plans) == 8
