"""The cost of a decoded token: time over the tokens in the cache, beside vanilla's and beside transformers'.

The model has 8 layers, width 256 and fp32 on a CPU; on a GPU it is LLaMA-350M in bf16.  Nothing is compiled.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from statistics import median

from experiments.experiment.turns import ratio, words
from experiments.store.folders import Json
from experiments.store.processes import threads as on_threads
from experiments.store.provenance import provenance
from experiments.training.decode_times import BASELINE, decode_times
from icl.files import sealed, write_atomically
from theory.plans.architecture import Architecture
from theory.plans.names import model as named_model
from theory.plans.presets import llama

VARIANTS = ("skipv1", "gqa:group=2", "skipv1+gqa:group=2", "mla", "skipv1+mla", "attnres")
SMALL = llama(d_model=256, n_heads=8, n_layers=8, d_ff=688, vocab=256, context=4224)
SIZES = {"cpu": ((1, 128), (1, 4096), (8, 1024)), "cuda": ((1, 1024), (1, 16_384), (32, 4096))}  # sequences, tokens


def bench_decode(options: argparse.Namespace) -> int:
    """Run, print and write; return 1 if a step gives another answer than a whole pass."""
    from experiments.training.device import chosen_device

    device = chosen_device(options.device)
    config = SMALL if device == "cpu" else named_model("llama-350m")[0]
    names = [BASELINE, *(options.variants.split(",") if options.variants else VARIANTS)]
    with on_threads(options.threads):
        result = decode(config, device, list(dict.fromkeys(names)), sizes=SIZES[device])
    result = {"benchmark": "decode", **provenance(device, __name__), **result}
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(options.out, json.dumps(sealed(result), indent=1) + "\n")
    print(json.dumps(result, indent=1) if options.json else _text(result))
    return int(not all(side["same_answer"] for side in result["sides"].values()))


def decode(config: Architecture, device: str, variants: Sequence[str], sizes: Sequence[tuple[int, int]]) -> Json:
    """Return by side whether it gives the same answer, and by size the cache's bytes, seconds per token and ratios."""
    times = decode_times(config, device, variants, sizes=sizes)
    turns = {name: {size: x["turns"] for size, x in side["sizes"].items()} for name, side in times["sides"].items()}
    sides = {
        name: {
            "same_answer": side["same_answer"],
            "sizes": {
                size: {
                    "bytes": x["bytes"],
                    "seconds": median(x["turns"]),
                    **ratio(x["turns"], turns[BASELINE][size]),
                }
                for size, x in side["sizes"].items()
            },
        }
        for name, side in times["sides"].items()
    }
    return {"what": times["what"], "sides": sides}


def _text(result: Json) -> str:
    lines = [f"a decoded token, {result['what']}; times as ratios to {BASELINE}, in turns:"]
    for size in next(iter(result["sides"].values()))["sizes"]:
        batch, _, tokens = size.partition(" x ")
        lines.append(f"{batch} sequence{'s' if batch != '1' else ''} of {int(tokens):,} tokens")
        for name, side in result["sides"].items():
            measured = side["sizes"][size]
            wrong = "" if side["same_answer"] else "   NOT COMPARABLE: its steps give other answers"
            shown = f"{1000 * measured['seconds']:8.2f} ms   cache {measured['bytes'] / 1e6:8.1f} MB"
            lines.append(f"  {name:22} {words(measured):42} {shown}{wrong}")
    return "\n".join([*lines, f"{result['device']}, commit {result['commit']}"])
