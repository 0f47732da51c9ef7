"""lm-evaluation-harness's calls to a model of transformers, on exported folders: the likelihoods are `icl`'s own.

The calls are those of its HFLM at 4e7e0d47 (0.4.13), lm_eval/models/huggingface.py: the model is read in lines 727 to
870, asked in 1151 and padded on the right in 1329 to 1572; windows of long texts are cut in 1226 to 1311.
"""

import pytest
import torch

from icl.models.scoring import score, windows
from icl.published import own, standalone
from tests.icl.published.wrapped.small import decoder

transformers = pytest.importorskip("transformers")
pytest.importorskip("icl.published.wrapped")

PREFIX = 0
WAYS = ("registered", "trusted", "standalone")
PAIRS = [([3, 1, 4], [1, 5]), ([9, 2, 6, 5, 3, 5, 8], [9]), ([7], [9, 3, 2, 3, 8, 4, 6])]
LONG = [i * i % 13 for i in range(97)]


class Harness:
    """What HFLM makes of a folder and of its answers."""

    def __init__(self, folder, **options):
        config = transformers.AutoConfig.from_pretrained(folder, revision="main", **options)
        self.context = config.max_position_embeddings
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, revision="main", dtype=torch.float32, **options
        )
        self.model.eval()
        self.model.tie_weights()

    def likelihoods(self, pairs):
        """The log-likelihood of every continuation, and whether it is the likeliest."""
        read = [torch.tensor((before + after)[-(self.context + 1) :][:-1]) for before, after in pairs]
        longest = max(map(len, read))
        rows = torch.stack([torch.cat([x, x.new_zeros(longest - len(x))]) for x in read])
        with torch.no_grad():
            scores = self.model(rows).logits.log_softmax(-1)
        found = []
        for row, x, (_, after) in zip(scores, read, pairs, strict=True):
            own_scores, wanted = row[len(x) - len(after) : len(x)], torch.tensor(after)
            total = float(own_scores.gather(-1, wanted[:, None]).sum())
            found.append((total, bool((own_scores.argmax(-1) == wanted).all())))
        return found


def folder_of(ours, way, folder):
    if way == "standalone":
        standalone.save(ours, folder, name="skipv1")
    else:
        own.save(ours, folder)
    return Harness(folder, **({} if way == "registered" else {"trust_remote_code": True}))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_the_harness_is_told_what_we_find(way, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    ours = decoder("skipv1")
    harness = folder_of(ours, way, tmp_path / "model")
    assert harness.context == ours.config.context
    found, expected = harness.likelihoods(PAIRS), score(ours, PAIRS)
    for (likelihood, greedy), one in zip(found, expected, strict=True):
        assert likelihood == pytest.approx(one.log_likelihood, rel=1e-4)
        assert greedy == one.greedy
    parts = list(windows(LONG, PREFIX, harness.context))
    assert len(parts) > 1
    rolling = sum(likelihood for likelihood, _ in harness.likelihoods(parts))
    assert rolling == pytest.approx(sum(one.log_likelihood for one in score(ours, parts)), rel=1e-4)


def test_another_model_would_be_noticed(tmp_path):
    own.save(decoder("skipv1", seed=1), tmp_path / "model")
    (found, _), *_ = Harness(tmp_path / "model").likelihoods(PAIRS)
    assert found != pytest.approx(score(decoder("skipv1"), PAIRS)[0].log_likelihood, rel=1e-3)
