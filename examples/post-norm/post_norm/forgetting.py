"""Ask how much of the embedding is left after many sublayers whose outputs are random."""

from dataclasses import replace

import icl
from experiments.drawing import style
from experiments.experiment.protocol import Profile
from experiments.verdicts.checks import Check
from experiments.verdicts.intervals import t_interval
from post_norm.memory import remembered
from theory.plans.presets import llama

CLAIM, DEPTHS, SIZE = "post-norm.memory", (4, 8, 16), 0.5  # of outputs, over the stream's
SIZES = replace(llama(d_model=256, n_heads=1, n_layers=8, d_ff=4, vocab=3, context=2), head_dim=2)


class Forgetting:
    name, kind, claims = "post-norm-forgetting", "theory", (CLAIM,)
    title = "How much of the embedding does a PostNorm stream keep?"
    caption = "It keeps geometrically less with depth. Markers: random outputs, 95 % over seeds. Line: theory."
    profiles = {  # noqa: RUF012
        "smoke": Profile(config=SIZES, seeds=200, seconds=2, detects="0.03 of the embedding"),
        "cpu": Profile(config=replace(SIZES, d_model=4096), seeds=20, seconds=10, detects="0.03 of the embedding"),
    }

    def predict(self, config):  # noqa: ARG002
        return {str(n): remembered(SIZE, n) for n in DEPTHS}

    def measure(self, config, seeds, run):  # noqa: ARG002 - takes seconds
        import torch

        rule = icl.build(config, "post-norm:eps=0").requires_grad_(False).depth
        kept = {str(n): [] for n in DEPTHS}
        for seed in range(seeds):
            outputs = torch.randn(1 + max(DEPTHS), config.d_model, generator=torch.Generator().manual_seed(seed))
            state = outputs[0]
            for n, output in enumerate(outputs[1:], 1):
                state = rule.write(n - 1, state, SIZE * output)
                if n in DEPTHS:
                    kept[str(n)].append(float(state @ outputs[0] / outputs[0].square().sum()))
        return kept

    def compare(self, prediction, measurement):
        about = {"claim": CLAIM, "quantity": "coefficient of the embedding", "group": "random outputs", "slack": 0.02}
        about |= {"statement": "random outputs leave what orthogonal ones do"}
        found = {n: t_interval(values, len(measurement)) for n, values in measurement.items()}
        prenorm = {n: (1 + SIZE**2 * int(n)) ** -0.5 for n in found}
        return [Check.sampled(found[n], id=n, predicted=prediction[n], controls=(prenorm[n],), **about) for n in found]

    def draw(self, prediction, measurement):
        fig, (axis,) = style.figure(1)
        axis.plot(*zip(*((int(n), share) for n, share in prediction.items()), strict=True), "k-", label="theory")
        found = [t_interval(values, len(measurement)) for values in measurement.values()]
        style.bars(axis, [int(n) for n in measurement], found, color="black", marker="o", label="random outputs")
        axis.set(xlabel="sublayers", ylabel="coefficient of the embedding")
        style.finish([axis])
        return fig


EXPERIMENT = Forgetting()
