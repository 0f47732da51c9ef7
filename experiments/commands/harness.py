"""Tasks of lm-evaluation-harness, through its own interface for models: it asks, and scores what is answered.

It asks how likely a text is, or what follows one; `icl.models.scoring` and `icl.models.sampling` answer.  Tasks are
read from the hub, or from a folder of task files.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.commands.generation import Language, language
from experiments.commands.probing import Probed
from experiments.store.backends import Serial
from experiments.store.desk import Desk, OutOfTime
from experiments.store.folders import Json, RunFolder, UserError, in_a_path
from experiments.store.provenance import provenance
from experiments.store.sources import source_digest
from experiments.store.work import results
from experiments.training.device import chosen_device
from experiments.training.model_folders import ModelFolder, digest_of, one_model
from theory.errors import BadInput, at_least

if TYPE_CHECKING:
    from icl.models.decoder import Decoder

NEW = 256  # tokens that are written where a task names no length


@dataclass(frozen=True)
class Tasks:
    """The tasks to run.

    names    of tasks, as the harness knows them
    folder   of more task files
    fewshot  solved examples before each question; by default what the task says
    limit    of questions per task; by default all
    """

    names: tuple[str, ...]
    folder: Path | None = None
    fewshot: int | None = None
    limit: int | None = None


def evaluate_tasks(
    runs: Sequence[Path | str],
    tasks: Tasks,
    *,
    variant: str | None = None,
    device: str = "auto",
    out: Path | str = "runs",
) -> Probed:
    """Evaluate every task's metrics for every model, in a folder below out/tasks; what is there is kept.

    runs     folders of finished trainings, imported or published models
    variant  what published weights are of; by default vanilla

    Raises UserError or BadInput for what makes no sense, such as an unknown task.
    """
    from icl.data.sources import package
    from icl.published.files import weight_files

    package("lm_eval")
    for name, value in (("fewshot", tasks.fewshot), ("limit", tasks.limit)):
        if value is not None:
            at_least(f"--{name}", value, 0 if name == "fewshot" else 1)
    device = chosen_device(device)
    model_folders = [one_model(Path(run), variant) for run in runs]
    with _one_line():
        _loaded(tasks)
    for model_folder in model_folders:
        _check(language(model_folder), model_folder)
    digests = [
        digest_of(path)
        for model_folder in model_folders
        for path in _files(model_folder.folder, weight_files(model_folder.folder))
    ]
    task_files = _files(tasks.folder, []) if tasks.folder else []
    identity = [
        digests,
        [digest_of(path) for path in task_files],
        list(tasks.names),
        tasks.fewshot,
        tasks.limit,
        device,
        variant,
    ]
    identity += [version("lm_eval"), source_digest(__name__)]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    run = RunFolder(
        Path(out) / "tasks" / f"{in_a_path('-'.join(model_folder.name for model_folder in model_folders))}-{digest}"
    )
    keys = {str(i): model_folder for i, model_folder in enumerate(model_folders, 1)}
    with run.locked():
        measured = results("tasks", keys, _HarnessRun(tasks, device), run=run, label="tasks", backend=Serial())
        record = {
            "kind": "tasks",
            "tasks": list(tasks.names),
            "runs": [
                {"name": model_folder.name, "folder": str(model_folder.folder), **measured[key]}
                for key, model_folder in keys.items()
            ],
            **provenance(device, __name__),
        }
        run.write("summary.json", record)
    return Probed(run.path, record)


def _files(folder: Path, weights: Sequence[Path]) -> list[Path]:
    """Return the files that decide how a model answers, or the questions: weights, and the small files beside them."""
    small = (path for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".yaml", ".yml", ".jsonl", ".py"))
    mine = {"summary.json", "metrics.jsonl"}
    return [*weights, *(path for path in small if path.is_file() and path.name not in mine)]


def _check(spoken: Language, model_folder: ModelFolder) -> None:
    if not spoken.ends:
        raise UserError(f"{model_folder.folder} does not say which token ends a text, and tasks need one")


@contextmanager
def _one_line() -> Iterator[None]:
    """Send what the harness prints to standard error, and raise any error in it, or in a task, as one line."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (UserError, BadInput, OutOfTime):
        raise
    except Exception as error:  # tasks are other people's files, and the harness raises all kinds
        first = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"--tasks: {type(error).__name__}: {first[:200]}") from error


def _loaded(tasks: Tasks) -> Any:
    """Return the harness's task manager.  Raises UserError for a task that it does not know."""
    if tasks.folder is not None and not tasks.folder.is_dir():
        raise UserError(f"{tasks.folder}: no such folder")
    manager = import_module("lm_eval.tasks")
    known = manager.TaskManager(include_path=str(tasks.folder) if tasks.folder else None)
    for name in tasks.names:
        if name not in known.all_tasks:
            raise UserError(f"--tasks: the harness knows no task {name!r}, or cannot read its file")
    return known


@dataclass(frozen=True)
class _HarnessRun:
    tasks: Tasks
    device: str

    def __call__(self, model_folder: ModelFolder, _: Desk) -> Json:
        model = harness_model(model_folder.model(self.device), language(model_folder))
        return {"results": _ask(model, self.tasks)}


def _ask(model: Any, tasks: Tasks) -> Json:
    """Return the harness's results, by task and metric."""
    with _one_line():
        answer = import_module("lm_eval.evaluator").simple_evaluate(
            model=model,
            tasks=list(tasks.names),
            num_fewshot=tasks.fewshot,
            limit=tasks.limit,
            task_manager=_loaded(tasks),
            log_samples=False,
            bootstrap_iters=0,
        )
    return {name: {key: x for key, x in numbers.items() if _is_plain(x)} for name, numbers in answer["results"].items()}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value))


def likelihoods(
    model: Decoder, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], prefix: int
) -> list[tuple[float, bool]]:
    """Return the log-likelihood of each continuation after its context, and whether it is the likeliest.

    A continuation without a token is certain: 0 nats, and it is named on standard error.  An empty context is `prefix`.
    """
    from icl.models.scoring import score

    there = [place for place, (_, after) in enumerate(pairs) if after]
    if empty := len(pairs) - len(there):
        print(f"crosslayer: {empty} of {len(pairs)} continuations hold no token and count as certain", file=sys.stderr)
    scores = [(0.0, True)] * len(pairs)
    scored = score(model, [(pairs[place][0] or [prefix], pairs[place][1]) for place in there])
    for place, one in zip(there, scored, strict=True):
        scores[place] = (one.log_likelihood, one.greedy)
    return scores


def harness_model(model: Decoder, spoken: Language) -> Any:
    """Return the model as the harness takes it: as one of its TemplateLM."""
    from icl.models.sampling import Sampling, generate
    from icl.models.scoring import score, windows

    base: Any = import_module("lm_eval.api.model").TemplateLM
    end = min(spoken.ends)
    context = model.config.context

    class Ours(base):  # type: ignore[misc]
        """A language model for the harness, which reads the end of texts longer than the model's context.

        A continuation has to fit, and generated text takes half of the context at most.
        """

        eot_token_id = end
        prefix_token_id = spoken.start[0] if spoken.start else end
        tokenizer_name = "crosslayer"

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
            (ids,) = spoken.tokenizer.encode([string])
            return ids if add_special_tokens is False or not spoken.of_all else [*spoken.start, *ids]

        def _loglikelihood_tokens(self, requests: Sequence[Any], **_: Any) -> list[tuple[float, bool]]:
            return likelihoods(model, [(before, after) for _, before, after in requests], self.prefix_token_id)

        def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:  # noqa: ARG002
            sums = []
            for (text,) in (request.args for request in requests):
                parts = list(windows(self.tok_encode(text, False), self.prefix_token_id, context))
                sums.append(sum(one.log_likelihood for one in score(model, parts)))
            return sums

        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:  # noqa: ARG002
            return [self._written(*request.args) for request in requests]

        def _written(self, prompt: str, options: Json) -> str:
            until = options.get("until") or []
            until = [until] if isinstance(until, str) else list(until)
            new = min(int(options.get("max_gen_toks", NEW)), max(1, context // 2))
            warm = options.get("do_sample") and float(options.get("temperature", 0.0))
            sampling = Sampling(temperature=warm or 0.0)
            ids = (self.tok_encode(prompt) or [self.prefix_token_id])[-(context - new) :]
            drawn: list[int] = []
            text = ""
            stop = spoken.ends
            for (token,) in generate(model, [ids], new, sampling=sampling, stop=stop, vocab=spoken.tokenizer.vocab):
                if token is None or token in stop:
                    break
                drawn.append(token)
                text = spoken.after(ids, drawn)
                places = [place for x in until if x and (place := text.find(x)) >= 0]
                if places:
                    return text[: min(places)]
            return text

    return Ours()
