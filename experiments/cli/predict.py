"""The command `predict`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli.commands import Commands, check_figure, number, whole_number
from experiments.cli.tables import print_rows, terminal
from experiments.store.folders import UserError

if TYPE_CHECKING:
    from theory.plans.plan import Plan
    from theory.prompts.moments import Array
    from theory.skipv1.bounds import Between, LossBounds
    from theory.toy.value_maps import Optimum

MATRICES = (".npy", ".csv", ".txt")
TASK = ("d", "n", "sigma")
EVERY, EVERY_RANK = "all", "every rank"
OF_REGRESSION = ("rank", "figure", "w0", "covariance", "kurtosis", "bias", "minimise", "paper_bound")
NAMES = {"mha": "MHA", "skipv1": "SkipV1Former"}


def add_to(commands: Commands) -> None:
    """Add the command `predict`."""
    command = commands.add(
        "predict",
        predict,
        "print the lowest loss that a two-layer plan's toy can reach",
        "crosslayer predict skipv1 --d 4 --n 2 --sigma 0.1 --w0 10",
    )
    command.add_argument("plan", help="a variant of two layers (see `crosslayer variants`), or FILE.py:name")
    command.add_argument("--d", type=whole_number, help="width of x and y")
    command.add_argument("--n", type=whole_number, help="context pairs")
    command.add_argument("--sigma", type=number, help="standard deviation of the noise")
    command.add_argument(
        "--recall",
        metavar="SIZES",
        help="in place of these: what theory says of associative recall, such as pairs=4,keys=16,values=16 "
        "(form=paired: key and value in one token)",
    )
    command.add_argument(
        "--rank",
        type=_rank,
        help="rank a of the compression (default: d // 2, MHA's best; with --w0 to --bias, the lowest loss of all "
        "ranks); all: every rank by itself",
    )
    command.add_argument("--figure", type=Path, help="draw losses and gaps at every rank into this .svg, .png or .pdf")
    command.add_argument("--heads", type=whole_number, default=2, help="heads of the second layer (default: 2)")
    matrix = f"one number c for c I, a diagonal such as 1,2,0, or a {', '.join(MATRICES)} file of a d x d matrix"
    command.add_argument("--w0", help=f"mean of W*: {matrix} (default: 0)")
    command.add_argument("--covariance", help="of x: as --w0 (default: 1)")
    command.add_argument("--kurtosis", help="excess kurtosis of the entries of x: one number or d of them (default: 0)")
    command.add_argument(
        "--bias", action="store_true", help="add a term C x, with the best matrix C, to the prediction"
    )
    command.add_argument(
        "--minimise", action="store_true", help="descend on the exact loss also where theorems speak: up to minutes"
    )
    command.add_argument("--paper-bound", action="store_true", help="also estimate the paper's own bound")


def predict(options: argparse.Namespace) -> int:
    from experiments.training.user_files import resolve
    from theory.errors import check_sizes
    from theory.plans.deeper import beyond_two_layers
    from theory.toy.predict import two_layers

    if options.recall is not None:
        return _recall(options)
    if missing := [f"--{name}" for name in TASK if getattr(options, name) is None]:
        raise UserError(f"say {', '.join(missing)}: predict asks of regression prompts, or --recall of recall")
    if options.figure is not None:
        check_figure(options.figure)
        if options.rank not in (None, EVERY):
            raise UserError("--figure draws every rank; leave --rank out")
        options.rank = EVERY
    every = options.rank == EVERY
    check_sizes(options.d, options.n, options.sigma, rank=None if every else options.rank)
    if every and options.paper_bound:
        raise UserError("--paper-bound is of one rank, and has no meaning beside --rank all and --figure")
    law = _law(options)
    if law and options.paper_bound:
        raise UserError("--paper-bound is proved for W0 = 0 and normal inputs of identity covariance only")
    plan = resolve(options.plan, two_layers(options.heads))
    beyond = beyond_two_layers(lambda shape: resolve(options.plan, shape), options.heads)
    if every:
        return _every_rank(options, plan, law, beyond=beyond)
    return _beyond(options, plan, law, beyond=beyond) if law else _central(options, plan, beyond)


def _rank(text: str) -> int | str:
    try:
        return EVERY if text == EVERY else whole_number(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(str(error).replace("number", f"number or {EVERY}")) from None


def _recall(options: argparse.Namespace) -> int:
    from experiments.commands.names import recalled
    from experiments.training.user_files import resolve
    from theory.plans.deeper import beyond_two_layers
    from theory.toy.predict import two_layers
    from theory.toy.recall_prediction import predict_recall

    values = {name: getattr(options, name) for name in (*TASK, *OF_REGRESSION)}
    if given := [f"--{name.replace('_', '-')}" for name, x in values.items() if x is not None and x is not False]:
        raise UserError(f"{given[0]} is of regression prompts, and has no meaning beside --recall")
    setting = recalled(f"recall:{options.recall}")
    plan = resolve(options.plan, two_layers(options.heads))
    prediction = predict_recall(plan, setting)
    beyond = beyond_two_layers(lambda shape: resolve(options.plan, shape), options.heads)
    if options.json:
        print(json.dumps({"plan": options.plan, **asdict(prediction), "beyond_two_layers": beyond}))
        return 0
    sizes = f"{setting.pairs} pairs, {setting.keys} keys, {setting.values} values, {setting.form}"
    print(f"Recall of {sizes}, by two layers of attention with a residual stream:")
    print(f"  {prediction.guess:12.6g}  loss of a guess that knows nothing of the prompt")
    print(f"  {prediction.plateau:12.6g}  loss of attending to all its values alike: the plateau of training")
    bound = "no weights go below this" if prediction.floor else "weights come as near to this as one likes"
    print(f"  {prediction.floor:12.6g}  {bound} ({options.plan}: {prediction.how})")
    width = "not known" if prediction.least_width is None else f"{prediction.least_width}"
    width = width if prediction.floor < prediction.plateau else "none"
    print(f"  {width:>12}  numbers per token that {options.plan} needs")
    if resolve("vanilla", two_layers(options.heads)) != plan:
        print(f"  {prediction.vanilla_width:>12}  numbers per token that vanilla needs")
    print("How soon training finds it is not proved; `crosslayer run bridge --variant ...` measures it.")
    _print_note(options.plan, beyond)
    return 0


def _print_note(plan: str, beyond: tuple[str, ...] | None) -> None:
    if beyond:
        changes = " and ".join(beyond)
        print(f"note: in deeper models {plan} also changes {changes}; two layers, as the toy has, do not contain it")


def _central(options: argparse.Namespace, plan: Plan, beyond: tuple[str, ...] | None) -> int:
    """Predict at W0 = 0 and standard normal inputs, from closed forms."""
    from theory.prompts.setting import zero_loss
    from theory.skipv1 import gap as skipv1
    from theory.toy.value_maps import closed_form

    rank = skipv1.best_mha_rank(options.d) if options.rank is None else options.rank
    task = (options.d, options.n, options.sigma, rank)
    reference = asdict(skipv1.loss_gap(*task))
    optimum = None if options.minimise else closed_form(plan, *task)
    over_ranks = None
    if optimum is None:
        (optimum,) = _minimised(options, plan, [rank], law={}).values()
    elif options.rank is None:
        losses = {a: closed_form(plan, *task[:3], a) for a in range(1, options.d + 1)}
        best, at = min((solution.loss, a) for a, solution in losses.items() if solution is not None)
        over_ranks = {"rank": at, "loss": best}
    optimum = replace(optimum, beyond_two_layers=beyond)
    result: dict[str, Any] = {"plan": options.plan, **asdict(optimum), **reference, "paper_bound": None}
    result |= {"over_ranks": over_ranks, "rank": rank, "zero_loss": zero_loss(*task[:3])}
    if options.paper_bound:
        result["paper_bound"] = asdict(skipv1.paper_bound(*task))
    if options.json:
        print(json.dumps(result))
    else:
        which = f"rank a = {rank}" + (" (MHA's best; --rank takes another)" if options.rank is None else "")
        _print_prediction(result, f"d = {task[0]}, n = {task[1]}, sigma = {task[2]:g}, {which}")
        _print_note(options.plan, beyond)
    return 0


def _print_prediction(result: dict[str, Any], task: str) -> None:
    from experiments.commands.ranks import NAMED

    reached = {True: "attained", False: "an infimum, not attained", None: "attained or not: not known"}
    how = result["method"]
    if result["starts"]:
        how += f", {result['agreeing']} of {result['finished']} descents ended here"
    print(f"The assumed-copy toy at {task}, W0 = 0; squared errors, summed over the d numbers of y:")
    lowest = f"lowest loss of {result['plan']}"
    if over := result["over_ranks"]:
        print(f"  {over['loss']:12.6g}  {lowest} over all ranks: at a = {over['rank']}")
        lowest = f"the same at rank a = {result['rank']}"
    print(f"  {result['loss']:12.6g}  {lowest} ({how}; {reached[result['attained']]})")
    words = {
        "zero_loss": "loss of predicting zero",
        "mha": "loss of the best MHA at rank a (an infimum)",
        **({} if result["plan"] in NAMED else {"own_gap": f"gap between MHA and {result['plan']} at rank a"}),
        "skipv1": "loss of the best SkipV1Former at rank a",
        "gap": "gap between MHA and SkipV1Former at rank a",
        "gap_to_optimum": "gap from MHA at rank a to SkipV1Former's optimum (a = d)",
        "gap_of_optima": "gap between the optima over the rank",
        "rho": "rho, the share of each entry of W* that can be explained",
    }
    numbers = {**result, "own_gap": result["mha"] - result["loss"]}
    for key, text in words.items():
        print(f"  {numbers[key]:12.6g}  {text}")
    if bound := result["paper_bound"]:
        error = f" +- {bound['stderr']:.2g} (standard error)" if bound["stderr"] else ""
        print(f"  {bound['value']:12.6g}  the paper's bound on gap_to_optimum{error}; {bound['method']}")


@dataclass(frozen=True)
class _Theorems:
    """Theorems on a task: bounds by rank, or why there are none, and whether the plan is one of theirs."""

    bounds: Mapping[int | None, LossBounds]
    missing: str | None
    of_plan: bool


def _theorems(options: argparse.Namespace, plan: Plan, law: dict[str, Any], ranks: Sequence[int | None]) -> _Theorems:
    """Return what theorems say; a rank of None means all ranks.

    Raises:
        NotCovered: where they say nothing, and nothing is minimised either.
    """
    from theory.plans.heads import NotCovered, theorem_heads
    from theory.prompts.moments import PromptMoments
    from theory.skipv1.bounds import loss_bounds

    counts = theorem_heads(plan)
    of_plan = counts is not None and counts[0] > 0
    moments = PromptMoments(options.d, options.n, options.sigma, **law)
    heads, skips = (sum(counts), counts[1] or None) if counts and of_plan else (max(2, options.heads), None)
    try:
        return _Theorems({a: loss_bounds(moments, rank=a, heads=heads, skips=skips) for a in ranks}, None, of_plan)
    except NotCovered as error:
        if of_plan and not options.minimise:
            raise NotCovered(f"{error} (--minimise)") from None
        return _Theorems({}, str(error), of_plan)


def _every_rank(options: argparse.Namespace, plan: Plan, law: dict[str, Any], beyond: tuple[str, ...] | None) -> int:
    """Predict every rank by itself, beside MHA and SkipV1Former, and draw that."""
    from experiments.commands import ranks
    from theory.prompts.moments import PromptMoments
    from theory.toy.value_maps import closed_form

    task, every = (options.d, options.n, options.sigma), range(1, options.d + 1)
    theorems = _theorems(options, plan, law, every)
    optima: dict[int, Optimum] = {}
    if not law and not options.minimise:
        known = {a: closed_form(plan, *task, a) for a in every}
        optima = {a: optimum for a, optimum in known.items() if optimum is not None}
    if options.minimise or not (theorems.of_plan or optima):
        optima = _minimised(options, plan, list(every), law=law)
    rows = [ranks.AtRank(a, optima.get(a), theorems.bounds.get(a)) for a in every]
    zero = float(PromptMoments(*task, **law).zero_loss)
    if options.json:
        by_rank = [asdict(row) for row in rows]
        print(json.dumps({"plan": options.plan, "zero_loss": zero, "ranks": by_rank, "beyond_two_layers": beyond}))
    else:
        head, *others = ranks.cells(options.plan, rows)
        print(f"The assumed-copy toy at {_words(options, law)}; squared errors, summed over the d numbers of y:")
        print_rows(terminal(), "", head, rows=others)
        print(f"{zero:.6g}  loss of predicting {'W0 x' if options.bias else 'zero'}")
        if theorems.missing is not None:
            print(theorems.missing)
        _print_note(options.plan, beyond)
    if options.figure is not None:
        from experiments.drawing import style

        title = _words(options, law).removesuffix(f", {EVERY_RANK}").replace("sigma", r"$\sigma$")
        with style.drawing():
            style.save_as(ranks.draw(options.plan, title, rows, zero=zero), options.figure)
        if not options.json:
            print(f"figure: {options.figure}")
    return 0


def _beyond(options: argparse.Namespace, plan: Plan, law: dict[str, Any], beyond: tuple[str, ...] | None) -> int:
    """Predict around W0, or for other inputs: proved losses for MHA and SkipV1Former, minimised ones for others."""
    theorems = _theorems(options, plan, law, [options.rank])
    bounds, missing = theorems.bounds.get(options.rank), theorems.missing
    ranks = list(range(1, options.d + 1)) if options.rank is None else [options.rank]
    minimised = None
    if options.minimise or not theorems.of_plan:
        minimised = min(_minimised(options, plan, ranks, law=law).values(), key=lambda optimum: optimum.loss)
    if options.json:
        numbers = {
            "bounds": bounds and asdict(bounds),
            "no_bounds": missing,
            "minimised": minimised and asdict(replace(minimised, beyond_two_layers=beyond)),
            "beyond_two_layers": beyond,
        }
        print(json.dumps({"plan": options.plan, "rank": options.rank, **numbers}))
        return 0
    print(f"The assumed-copy toy at {_words(options, law)}:")
    if minimised is not None:
        how = f"{minimised.agreeing} of {minimised.finished} descents ended here"
        how += f", which were the lowest of {minimised.starts}" * (minimised.starts > minimised.finished)
        print(f"  {minimised.loss:12.6g}  lowest loss found of {options.plan}, an upper bound on its infimum ({how})")
    if bounds is not None:
        _print_bounds(bounds, biased=options.bias)
    if missing is not None:
        print(f"  {missing}")
    _print_note(options.plan, beyond)
    return 0


def _words(options: argparse.Namespace, law: dict[str, Any]) -> str:
    """Return the task in words."""
    forms = {"w0": "W0 = {}", "covariance": "covariance {}", "kurtosis": "kurtosis {}"}
    given = {name: getattr(options, name) for name in law if name in forms}
    shown = {
        name: text if name == "kurtosis" or text.endswith(MATRICES) else f"diag({text})" if "," in text else f"{text} I"
        for name, text in given.items()
    }
    where = {None: "over all ranks", EVERY: EVERY_RANK}.get(options.rank, f"rank a = {options.rank}")
    task = f"d = {options.d}, n = {options.n}, sigma = {options.sigma:g}"
    biased = ["a free term C x"] if options.bias else []
    return ", ".join([task, *(forms[name].format(text) for name, text in shown.items()), *biased, where])


def _print_bounds(bounds: LossBounds, *, biased: bool) -> None:
    print(f"  {bounds.zero_loss:12.6g}  loss of predicting {'W0 x' if biased else 'zero'}")
    kinds = {
        "mha": f"{bounds.heads} ordinary heads",
        "skipv1": f"{bounds.heads} heads, skip heads among them: {bounds.skips}",
    }
    for name, kind in kinds.items():
        for loss, what in _evidence(getattr(bounds, name)):
            print(f"  {loss:12.6g}  {what.format(model=f'{NAMES[name]} with {kind}')}")
    by = f" ({bounds.ahead_by})" if bounds.ahead_by else ""
    low, high = sorted((abs(bounds.gap_least), abs(bounds.gap_most)))
    amount = f"by {low:.6g}" if low == high else f"by {low:.6g} at least and {high:.6g} at most"
    if bounds.ahead == "skipv1":
        print(f"SkipV1Former is ahead, {amount}{by}.")
    elif bounds.ahead == "mha":
        print(f"MHA is ahead, {amount}: here the theorem's inequality is false{by}.")
    elif bounds.ahead == "equal":
        print("Neither is ahead.")
    else:
        print(f"Which is ahead is not decided: the gap is from {bounds.gap_least:.6g} to {bounds.gap_most:.6g}.")
    holds = "holds" if bounds.assumed else "does not hold"
    print(f"The printed theorem's hypothesis, sigma_d(W0) > 2 sqrt(d) sigma, {holds}.")


def _evidence(between: Between) -> list[tuple[float, str]]:
    """Return each number with what it is: the infimum, attained or not, or bounds on it."""
    if between.lower == between.upper:
        reached = {True: "attained", False: "not attained", None: "attained or not: not known"}[between.attained]
        return [(between.upper, f"the infimum of {{model}}, {reached} ({between.upper_by})")]
    return [
        (between.upper, f"upper bound on the infimum of {{model}} ({between.upper_by})"),
        (between.lower, f"lower bound on it: no weights go below ({between.lower_by})"),
    ]


def _minimised(options: argparse.Namespace, plan: Plan, ranks: list[int], law: dict[str, Any]) -> dict[int, Optimum]:
    """Return the lowest of the descents at each of these ranks, and show their progress."""
    from experiments.store.progress import progress
    from theory.toy.value_maps import descents, optimum_by_descent

    task, (starts, _) = (options.d, options.n, options.sigma), descents(law)
    optima = {}
    with progress("minimising", starts * len(ranks)) as at:
        at(0)
        for done, rank in enumerate(ranks):

            def after_start(i: int, loss: float, done: int = done, rank: int = rank) -> None:
                at(done * starts + i, f"rank {rank}, loss {loss:.5g}")

            optima[rank] = optimum_by_descent(plan, *task, rank, law=law, after_start=after_start)
    return optima


def _law(options: argparse.Namespace) -> dict[str, Any]:
    """Return those of the given options that `PromptMoments` takes beside d, n and sigma."""
    given = {name: getattr(options, name) for name in ("w0", "covariance", "kurtosis")}
    law: dict[str, Any] = {
        name: _numbers(f"--{name}", text, options.d, matrix=name != "kurtosis")
        for name, text in given.items()
        if text is not None
    }
    return law | ({"centred": True} if options.bias else {})


def _numbers(what: str, text: str, d: int, *, matrix: bool) -> Array:
    """Read one number, d numbers with commas between, or a file; as a d x d matrix, or as d numbers."""
    import numpy as np

    from theory.errors import check_memory

    check_memory(f"a task of d = {d}", 40 * d**2)
    if matrix and text.endswith(MATRICES):
        return _matrix(what, Path(text), d)
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        file = f", or a {', '.join(MATRICES)} file" if matrix else ""
        raise UserError(f"{what} must be one number or d = {d} with commas between{file}, got {text!r}") from None
    if len(values) not in (1, d):
        raise UserError(f"{what} must be one number or d = {d} of them, got {len(values)}")
    entries = np.broadcast_to(np.array(values), (d,))
    return np.diag(entries) if matrix else np.array(entries)


def _matrix(what: str, path: Path, d: int) -> Array:
    import numpy as np

    try:
        if path.suffix == ".npy":
            matrix = np.load(path, allow_pickle=False)
        else:
            with warnings.catch_warnings(action="error"):  # an empty file is but a warning to numpy
                matrix = np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None, ndmin=2)
    except (ValueError, EOFError, UserWarning) as error:
        raise UserError(f"{what}: {path} holds no matrix of numbers: {error}") from None
    if matrix.shape != (d, d) or matrix.dtype.kind not in "iuf":
        raise UserError(f"{what}: {path} must hold a {d} x {d} matrix of numbers, got shape {matrix.shape}")
    return matrix
