"""Benchmarks: each is a ratio against a named baseline, in turns, and only where both sides gave the same answer.

1. `optimum`: exact minimisation against tuned, stacked, sampled training: time until every rank of both architectures
   at d = 5, n = 20, sigma = 0.5 is within 1 % of the explained signal of its optimum.
2. `stack`: training steps of 200 toys: a plain loop over models against the stack, and torch.func's vmap besides.
"""

from __future__ import annotations

import time
from statistics import median

from experiments.experiment.turns import in_turns, ratio, words
from experiments.store.folders import Json
from experiments.store.processes import threads as on_threads
from experiments.store.provenance import provenance
from experiments.toys.runs import population_weights
from theory.plans.heads import TOYS
from theory.prompts import setting
from theory.skipv1 import gap as skipv1

D, N, SIGMA = 5, 20, 0.5
WITHIN = 0.01  # of the explained signal
SAMPLED, EXACT = "sampled training (baseline)", "exact minimisation"


def run_benchmarks(threads: int) -> Json:
    """Run both benchmarks on `threads` CPU threads, with provenance."""
    from experiments.bench.stack import stack

    with on_threads(threads):
        return {"threads": threads, **provenance("cpu", __name__), "benchmarks": [optimum(), stack()]}


def optimum() -> Json:
    """Compare exact minimisation with tuned sampled training."""
    from icl.prompts import RegressionTask
    from icl.toys.stacked import StackedToys, ToySpec
    from icl.toys.training import toy_recipe, train
    from theory.prompts.moments import PromptMoments
    from theory.toy.minimise import minimise
    from theory.toy.population import PopulationLoss

    points = [(toy, rank) for toy in TOYS for rank in range(D + 1)]
    explained = {"mha": skipv1.mha_explained, "skipv1": skipv1.skipv1_explained}
    zero, moments = setting.zero_loss(D, N, SIGMA), PromptMoments(D, N, SIGMA)
    losses = {toy: PopulationLoss(moments, heads) for toy, heads in TOYS.items()}
    # Without any signal to explain, the toy has to come within 1 % of one number of W*.
    allowed = {
        (toy, rank): zero
        - explained[toy](D, N, SIGMA, rank)
        + WITHIN * max(explained[toy](D, N, SIGMA, rank), setting.signal_share(D, N, SIGMA))
        for toy, rank in points
    }
    reached: dict[str, dict[tuple[str, int], float]] = {EXACT: {}, SAMPLED: {}}
    task = RegressionTask(D, N, SIGMA)
    # Tuned for this race: the fastest of ten settings of steps, batch and rate that end within 1 % everywhere.
    recipe = toy_recipe(600, batch=128, learning_rate=0.006)

    def exact() -> float:
        started = time.perf_counter()
        for toy, rank in points:
            enough = allowed[toy, rank]
            result = minimise(losses[toy], rank, until=lambda value, enough=enough: value <= enough)  # type: ignore[misc]
            reached[EXACT][toy, rank] = result.value
        return time.perf_counter() - started

    def sampled() -> float:
        toys = StackedToys([ToySpec(task, TOYS[toy], rank, seed=0) for toy, rank in points])
        started = time.perf_counter()
        for _ in train(toys, recipe):
            pass
        seconds = time.perf_counter() - started
        for i, (toy, rank) in enumerate(points):
            reached[SAMPLED][toy, rank] = losses[toy].value(population_weights(toys, i))
        return seconds

    turns = in_turns({SAMPLED: sampled, EXACT: exact})
    misses = {
        side: [f"{t}/a{r}" for t, r in points if values[t, r] > allowed[t, r]] for side, values in reached.items()
    }
    return {
        "name": "optimum",
        "what": f"time to within {WITHIN:.0%} of the optimum, d={D}, n={N}, sigma={SIGMA}, all ranks, both toys",
        "baseline": f"stacked sampled training, {recipe.steps} steps of {recipe.batch} prompts",
        "seconds": {name: median(of_turns) for name, of_turns in turns.items()},
        "ratios": {EXACT: ratio(turns[SAMPLED], turns[EXACT])},
        "same_answer": not any(misses.values()),
        "difference": misses,
    }


def print_results(results: Json, unit: str = "times faster", digits: int = 1) -> None:
    """Print one line per contender: median seconds, and its ratio to the baseline in the same turn, called `unit`."""
    for bench in results["benchmarks"]:
        print(f"{bench['name']}: {bench['what']}")
        for name, seconds in bench["seconds"].items():
            shown = f"{unit}: {words(bench['ratios'][name], digits)}" if name in bench["ratios"] else ""
            print(f"  {name:32} {seconds:10.4f} s  {shown}".rstrip())
        if not bench["same_answer"]:
            print(f"  NOT COMPARABLE: the sides give different answers: {bench['difference']}")
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    print(f"{results['device']}, {results['threads']} threads, {versions}, commit {results['commit']}")
