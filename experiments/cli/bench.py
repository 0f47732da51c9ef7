"""The command `bench`.  It takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from experiments.cli.commands import Commands, whole_number
from experiments.store.folders import UserError


def add_to(commands: Commands) -> None:
    """Add the command `bench`."""
    command = commands.add(
        "bench",
        bench,
        "measure speed: ratios against a named baseline, medians of turns with their range (status 1 if two sides give "
        "different answers; a ratio whose turns differ by more than a factor of 2 is undecided, which is no failure)",
        "crosslayer bench",
    )
    command.add_argument(
        "suite",
        nargs="?",
        default="toy",
        choices=("toy", "decoders", "depth", "decode", "step", "campaign", "scale"),
        help="toy (the default); decoders, many small ones; depth, attention over it; decode, a token at a time; step, "
        "of full size; campaign, what handing out points costs; or scale, what a campaign of large models would take, "
        "worked out and simulated",
    )
    command.add_argument("--preset", default="llama-130m", help="of step: whose training steps (default: llama-130m)")
    command.add_argument("--variants", help="of step, depth and decode: names with commas between")
    command.add_argument("--device", default="auto", help="of step, depth and decode: auto (the default), cpu or cuda")
    command.add_argument(
        "--batch", type=whole_number, help="of step: sequences per step (default: what makes 32,768 tokens)"
    )
    command.add_argument("--context", type=whole_number, help="of step: tokens per sequence (default: the preset's)")
    command.add_argument("--out", type=Path, help="of these: also write the result to this .json file")
    command.add_argument(
        "--threads",
        type=whole_number,
        default=min(2, os.cpu_count() or 1),
        help="CPU threads (default: 2, or as many as there are)",
    )


def bench(options: argparse.Namespace) -> int:
    cores = os.cpu_count() or 1
    if not 1 <= options.threads <= cores:
        raise UserError(f"--threads must be from 1 to {cores}, the number of cores, got {options.threads}")
    if options.suite == "step":
        from experiments.bench.step import bench_step

        return bench_step(options)
    if options.suite == "scale":
        from experiments.bench.scale import tables

        print(json.dumps(tables(), indent=1) if options.json else "\n\n".join(tables().values()))
        return 0
    if options.suite == "depth":
        from experiments.bench.depth import bench_depth

        return bench_depth(options)
    if options.suite == "decode":
        from experiments.bench.decode import bench_decode

        return bench_decode(options)
    unit, digits = "times faster", 1
    if options.suite == "decoders":
        from experiments.bench.decoders import run_decoders

        results = run_decoders(options.threads)
    elif options.suite == "campaign":
        from experiments.bench.campaign import run_campaign

        results = run_campaign(options.threads)
        unit, digits = "a core's time over the baseline's", 3
    else:
        from experiments.bench.toy import run_benchmarks

        results = run_benchmarks(options.threads)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        from experiments.bench.toy import print_results

        print_results(results, unit, digits)
    return int(not all(result["same_answer"] for result in results["benchmarks"]))
