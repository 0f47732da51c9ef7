"""Options that a command does not have: which argument is one, and which of its options may be meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

OPTION = re.compile(r"--?[A-Za-z]")
ALIASES = {
    "--learning-rate": ("--lr", "--max-lr", "--eta"),
    "--weight-decay": ("--wd", "--decay"),
    "--batch": ("--bs", "--batch-size", "--global-batch-size", "--micro-batch"),
    "--accumulate": ("--grad-accum", "--gradient-accumulation", "--gradient-accumulation-steps"),
    "--steps": ("--iters", "--iterations", "--max-steps", "--max-iters", "--train-steps", "--epochs"),
    "--width": ("--dim", "--d-model", "--hidden", "--hidden-size", "--n-embd"),
    "--layers": ("--depth", "--n-layers", "--n-layer", "--num-layers", "--num-hidden-layers"),
    "--heads": ("--n-heads", "--n-head", "--num-heads", "--num-attention-heads"),
    "--context": ("--seq-len", "--seq-length", "--sequence-length", "--block-size", "--ctx", "--max-length"),
    "--precision": ("--dtype", "--bf16", "--fp16", "--amp"),
    "--recompute": ("--checkpointing", "--activation-checkpointing", "--gradient-checkpointing"),
    "--resume-from": ("--resume", "--continue"),
    "--init": ("--checkpoint", "--weights", "--from-pretrained", "--init-from"),
    "--preset": ("--model", "--config", "--arch"),
    "--data": ("--dataset", "--corpus"),
    "--out": ("--output", "--output-dir", "--dir", "-o"),
    "--tokens": ("--max-tokens", "--max-new-tokens", "--length"),
    "--temperature": ("--temp",),
    "--vocab": ("--vocab-size",),
    "--sigma": ("--noise", "--std"),
    "--jobs": ("--workers", "--num-workers", "-j"),
    "--device": ("--gpu", "--cuda"),
    "--seeds": ("--n-seeds", "--num-seeds"),
    "--fewshot": ("--num-fewshot", "--shots"),
    "--json": ("--format", "--as-json"),
    "--version": ("-V", "-v"),
}
MEANT = {alias: option for option, aliases in ALIASES.items() for alias in aliases}


def unknown_option(arguments: Sequence[str], options: Mapping[str, bool]) -> str | None:
    """Return the first argument that is written as an option but is none, as far as its `=`; None if there is none.

    Args:
        arguments: What was typed after the command's name.
        options: Whether each of the command's options takes a value, by the option as it is typed.
    """
    is_value = False
    for argument in arguments:
        if argument == "--":
            return None
        name = argument.partition("=")[0]
        known = name in options
        if not known and not is_value and OPTION.match(name) and " " not in argument and not _is_number(argument):
            return name
        is_value = options.get(argument, False)  # the next one, or else it is missing
    return None


def about_option(name: str, options: Collection[str], otherwise: str) -> str:
    """Return the line for an option that is not there, with what may be meant."""
    from theory.plans.suggestions import MOST, hint  # here: a user's own `theory` is named in one line

    meant = MEANT.get(name.lower().replace("_", "-"), "")
    begun = [option for option in options if option.startswith(name)]
    likeliest = [meant] if meant in options else begun[:MOST]
    near = f"did you mean {', '.join(likeliest)}?" if likeliest else hint(name, options, otherwise)
    return f"unknown option {name}; {near}"


def _is_number(text: str) -> bool:
    """Return whether text is a number as Python reads them, such as -inf."""
    try:
        float(text)
    except ValueError:
        return False
    return True
