"""What the axes are held against: the toy's, ridge's and Bayes' numbers on every test, and the rules that decide."""

from __future__ import annotations

from experiments.across.axes.losses import ridge_on_law, toy_loss
from experiments.across.axes.points import Config, Shift, Trained, rungs, source, task_of, widths
from experiments.across.gaps import KEPT
from experiments.across.ladder.predicting import longer
from experiments.across.ladder.reading import CONVERGED
from experiments.across.ladder.rungs import plan_of
from experiments.store.folders import Json
from experiments.training.campaign import BASELINE
from experiments.training.comparing import TOY, names_of_own
from theory.errors import BadInput
from theory.plans.plan import Plan
from theory.plans.setting import Setting
from theory.prompts.moments import Array
from theory.toy.width import explained_share_at_width

Means = tuple[Array, Array]  # W0 in training, and in the test

RULES = {
    "order": "the interval of a variant's gap to vanilla lies on the side of zero of the toy's gap on that test",
    "size": f"it holds the toy's gap, give or take {KEPT:g}, and is narrower than that gap",
    "no gap": f"where the toy's is at most {KEPT:g}, it lies within {KEPT:g} of zero",
    "pool": "the interval of what ridge loses more than the model lies on the side of zero of what ridge loses more "
    "than the best linear step, where the toy sees all of S_yx; where it sees less, and that step loses more than "
    f"ridge, so does the model. Nothing else is predicted, nor where the two differ by at most {KEPT:g}. The place "
    "between ridge (0) and the posterior mean (1) is reported, with its interval",
    "converged": f"the last doubling of the steps explains at most {CONVERGED:g} of the signal trained on more or "
    "less, by the ends of its paired 95 % interval; what compares an arm that has not is inconclusive",
    "control": "of gaps vanilla's twin with other initial weights, of which nothing of the kind may be seen; of pools "
    "what does the opposite: predicting zero, or the posterior mean",
}


def predicted(config: Config) -> Json:
    return {
        "assumes": "of the toy alone: trained at W0 = 0, or around W0 with a path from the query to the output; two "
        "layers of linear attention; Assumption 1 with the best division of the width; where a toy sees part of S_yx "
        "after isotropic training, that all parts are alike. That trained models do likewise is what is asked",
        "source": "theory.prompts.shifts, theory.skipv1.transfer, theory.skipv1.bias, theory.prompts.pool; ridge and "
        "the posterior mean: experiments.across.axes.losses",
        "statistic": "share of the test's E ||W* x||^2 explained at the last position; a gap is the mean paired "
        "difference to vanilla's, its intervals family-wise over the variants of a test",
        "rule": "; ".join(f"{name}: {rule}" for name, rule in (RULES | longer(config.doublings)).items()),
        "tuning": config.tuning.described("rung, law, variant and width"),
        "restarts": config.restarts.described(),
        "d": config.task.d,
        "n": config.task.n,
        "rungs": {rung.key: rung.adds for rung in rungs(config)},
        "variants": [name for name in config.names if name != BASELINE],
        "trained": {trained.name: _of_trained(trained, config) for trained in config.trained},
        **names_of_own(config.own),
    }


def _of_trained(trained: Trained, config: Config) -> Json:
    return {
        "law": trained.law.words,
        "sigma": task_of(trained, config).floats[2],
        "rotary": trained.rotary,
        "rungs": [rung.key for rung in rungs(config, trained)],
        "widths": widths(config, trained),
        "tests": {test.name: _of_test(trained, test, config) for test in trained.every},
    }


def _of_test(trained: Trained, test: Shift, config: Config) -> Json:
    asked, learnt = source(trained, test, config), task_of(trained, config)
    prompts, before = asked.regression, source(trained, trained.every[0], config).regression
    task, noise = Setting(asked.d, asked.n, asked.sigma), asked.d * asked.sigma**2
    signal = float(prompts.signal)
    means = before.w0.numpy(), prompts.w0.numpy()
    about: Json = {
        "n": asked.n,
        "sigma": asked.sigma,
        "law": test.law.words,
        "signal": signal,
        "zero_loss": signal + noise,
        "toy": {
            rung.key: _toys(trained, test, config, rung.key, means, signal, noise) for rung in rungs(config, trained)
        },
    }

    def share(loss: float) -> float:
        return (signal + noise - loss) / signal

    if (pool := prompts.pool) is None:
        ridge = ridge_on_law(test.law, task, means[1], penalty=learnt.floats[2] ** 2, around=means[0])
        bayes = ridge_on_law(test.law, task, means[1], penalty=asked.sigma**2, around=means[1])
    else:
        from theory.prompts.pool import pool_step, posterior_on_pool, ridge_on_pool

        ridge = ridge_on_pool(pool.numpy(), *task.floats[1:])
        bayes = posterior_on_pool(pool.numpy(), *task.floats[1:])
        step = pool_step(pool.numpy(), *task.floats[1:], of_inputs=True, constant=True)
        about |= {"pool": test.law.pool, "step": share(step.loss), "sees": _seen(trained, config)}
    return {
        **about,
        "ridge": share(ridge.value),
        "ridge_stderr": ridge.stderr / signal,
        "bayes": share(bayes.value),
        "bayes_stderr": bayes.stderr / signal,
    }


def _seen(trained: Trained, config: Config) -> Json:
    """How much of S_yx the toys see, at most: by variant and width; None where that is not known."""
    task = task_of(trained, config)

    def part(plan: Plan | None, width: int) -> float | None:
        try:
            share = None if plan is None else explained_share_at_width(plan, *task.floats, width)
        except BadInput:
            return None
        return None if share is None else share / float(task.signal_share)

    plans = _plans(config).items()
    return {name: {str(width): part(plan, width) for width in widths(config, trained)} for name, plan in plans}


def _plans(config: Config) -> dict[str, Plan | None]:
    """Of the toy, by variant."""
    plans: dict[str, Plan | None] = {variant: plan_of(variant, TOY) for variant in config.variants}
    return plans | {variant.name: variant.toy for variant in config.own}


def _toys(trained: Trained, test: Shift, config: Config, rung: str, means: Means, signal: float, noise: float) -> Json:
    """Shares, by variant and width; None where the toy has nothing to say."""
    averages = "softmax" in next(r for r in rungs(config) if r.key == rung).ingredients

    def share(plan: Plan | None, width: int) -> float | None:
        if plan is None:
            return None
        loss = toy_loss(plan, task_of(trained, config), trained, test, means, width, averages=averages)
        return None if loss is None else (signal + noise - loss) / signal

    sizes = widths(config, trained)
    return {name: {str(width): share(plan, width) for width in sizes} for name, plan in _plans(config).items()}
