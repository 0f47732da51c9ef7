"""The commands `import`, `export` and `convert`.  Each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli.commands import Commands, add_part, text_choices, whole_from
from experiments.store.folders import UserError

if TYPE_CHECKING:
    from experiments.commands.importing import SavedModel

UNCHANGED = 1e-3  # of the scores: what rounding, and an eps of norms, leave


def add_to(commands: Commands) -> None:
    """Add the commands `import`, `export` and `convert`."""
    command = commands.add(
        "import",
        import_,
        "make a folder of our own from published weights (LLaMA, Mistral, Qwen2, Qwen3, GPT-2, or what `export` wrote)",
        "crosslayer import Llama-3.2-1B --out runs/llama-3.2-1b",
    )
    command.add_argument(
        "source", help="folder with config.json and safetensors, as transformers writes them, or hf:NAME"
    )
    command.add_argument("--out", type=Path, required=True, help="the folder to make")
    command.add_argument("--variant", help="what the weights are of, such as resformer (default: vanilla)")

    command = commands.add(
        "export",
        export,
        "write a model for transformers: plain where it knows such a model, else read through this package",
        "crosslayer export runs/train/llama-2m-* --to hf --out exported",
    )
    command.add_argument("folder", type=Path, metavar="RUN", help="of a finished training, or imported")
    command.add_argument(
        "--to",
        default="hf",
        metavar="LAYOUT",
        help="hf, for transformers (the default), or as a paper's own code has it: skipv1, resformer, svformer or "
        "neutreno of LLaMA's kind; denseformer, skipv1-gpt2 or skipv1-gpt2-fused of a rotary GPT-2's",
    )
    command.add_argument("--out", type=Path, required=True, help="the folder to make")
    command.add_argument(
        "--dtype", default="float32", help="of the weights: float32 (the default), bfloat16 or float16"
    )
    command.add_argument(
        "--standalone",
        action="store_true",
        help="write one readable model file beside the weights, which needs torch and transformers, not this package",
    )

    command = commands.add(
        "convert",
        convert,
        "make a trained vanilla model into one under another plan, to be trained on",
        "crosslayer convert runs/llama-3.2-1b --variant skipv1 --text book.txt --out runs/llama-3.2-1b-skipv1",
    )
    command.add_argument("folder", type=Path, metavar="RUN", help="of a finished training, imported or published")
    command.add_argument("--variant", required=True, help="as for `describe`; or a plan in a .json file, from `advise`")
    command.add_argument(
        "--how",
        help="fit: refit the output projections that read converted heads, on text (the default with --text); or what "
        "becomes of values, where the plan has fewer: first, mean (the default without), apart, mean-vo, top-v, "
        "top-vo, svd, whole (the largest heads, others' outputs zero)",
    )
    command.add_argument(
        "--text",
        metavar="SOURCE",
        help="stdlib, a file or folder, or hf:NAME: three quarters for the refit, one for the first loss (default: of "
        "a training, its own data)",
    )
    command.add_argument("--tokens", type=whole_from(1), help="tokens of the text, in all (default: 32,768)")
    command.add_argument("--context", type=whole_from(2), help="tokens per sequence (default: at most 512)")
    add_part(command)
    command.add_argument("--out", type=Path, required=True, help="the folder to make")


def import_(options: argparse.Namespace) -> int:
    from experiments.commands.importing import import_ as imported

    return _report(imported(options.source, options.out, variant=options.variant), options.json, "imported")


def export(options: argparse.Namespace) -> int:
    from experiments.commands.importing import export as exported

    saved = exported(options.folder, options.out, to=options.to, dtype=options.dtype, standalone=options.standalone)
    return _report(saved, options.json, "exported")


def convert(options: argparse.Namespace) -> int:
    from experiments.commands import converting

    for name in ("tokens", "context", "start", "stop"):
        if options.text is None and getattr(options, name) is not None:
            name = {"start": "from", "stop": "to"}.get(name, name)
            raise UserError(f"--{name} is for the text that --text names")
    choices = None if options.text is None else text_choices(options, converting.TOKENS)
    done = converting.convert(options.folder, options.out, variant=options.variant, how=options.how, choices=choices)
    first = done.first
    more: dict[str, Any] = {"how": done.how}
    more |= {} if first is None else {"first_loss": asdict(first)}
    more |= {"refit": [asdict(one) for one in done.refits]} if done.refits else {}
    failed = first is not None and first.worse_than_guessing
    lines = converting.report_lines(done, chose=options.how is not None)
    return _report(done.saved, options.json, "made" if failed else "converted", more=more, lines=lines)


def _report(
    saved: SavedModel, as_json: bool, done: str, *, more: dict[str, Any] | None = None, lines: Sequence[str] = ()
) -> int:
    from theory.plans.accounting import total_parameters

    config, name = saved.model_folder.architecture, saved.model_folder.name
    count = total_parameters(config, saved.model_folder.plan)
    if as_json:
        about = {"folder": str(saved.folder), "name": name, "parameters": count, "plain": saved.plain}
        about |= {} if saved.change is None else {"change": saved.change}
        print(json.dumps({**about, **(more or {}), "architecture": asdict(config)}, indent=1))
        return 0
    print(
        f"{done} {name}: width {config.d_model:,}, {config.n_layers:,} layers, {config.n_heads:,} heads, "
        f"context {config.context:,}, {count:,} parameters"
    )
    if saved.change is not None and saved.change > UNCHANGED:
        print(f"  before any training its scores differ from the other model's by {saved.change:.2g} of their size")
    elif saved.change is not None:
        print("  before any training it gives the other model's scores")
    for line in lines:
        print(f"  {line}")
    if saved.layout:
        print(f"  in the layout {saved.layout} of its paper's code, which `crosslayer import` reads too")
    elif saved.module:
        print(f"  transformers reads it with trust_remote_code, through {saved.module} beside it, without this package")
    elif done == "exported":
        how = "as any model" if saved.plain else "with trust_remote_code, through this package, which must be installed"
        print(f"  transformers reads it {how}")
    print(f"folder: {saved.folder}")
    return 0
