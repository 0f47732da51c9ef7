"""The commands `rental ...`: one call on a rented GPU, what it takes, and what comes home."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.cli.commands import OUT, Commands, positive
from experiments.store.folders import Json

if TYPE_CHECKING:
    from experiments.campaign.setting import Corpus
    from experiments.rental.machines import Forecast
    from experiments.rental.parts import Part

GB = 1e9


def add_to(commands: Commands) -> None:
    """Add the commands `rental start`, `plan`, `pack`, `merge` and `text`."""
    rental = commands.group("rental", "one call on a rented GPU, and what comes home", "crosslayer rental plan")
    command = rental.add(
        "start",
        start,
        "run parts in their minutes, the most telling first; write an archive of the results every minute",
        "crosslayer rental start --minutes 9 --out results --data text.tokens --archive out",
        shows_json=False,
        resumes=True,
    )
    command.add_argument("--minutes", type=positive, default=9.0, help="of this command (default: 9)")
    command.add_argument("--out", type=Path, default=OUT, help="the results folder (default: runs)")
    command.add_argument("--archive", type=Path, help="the folder for the archive's pieces (default: OUT/rental)")
    command.add_argument("--data", type=Path, help="prepared text, packed or a folder (default: the standard library)")
    command.add_argument("--profile", default="gpu", choices=("gpu", "gpu-tiny"), help="gpu, or tiny models")
    command.add_argument("--device", default="auto", help="auto (a GPU for profile gpu), cpu or cuda")
    command.add_argument("--dry", action="store_true", help="without a GPU: tiny, every part killed once, then merged")

    command = rental.add(
        "plan", plan, "show what the parts would take on an H100 and an H200", "crosslayer rental plan --data data/mine"
    )
    command.add_argument("--data", type=Path, help="prepared text, packed or a folder")

    command = rental.add(
        "pack", pack, "make prepared text one small file", "crosslayer rental pack data/mine --to mine.tokens"
    )
    command.add_argument("folder", type=Path)
    command.add_argument("--to", type=Path, required=True, help="the file to write")

    command = rental.add(
        "merge",
        merge,
        "take an archive's pieces over into a results folder; what is there and differs is refused",
        "crosslayer rental merge out/*.tar.xz --out results",
    )
    command.add_argument("pieces", type=Path, nargs="+")
    command.add_argument("--out", type=Path, default=OUT, help="the results folder (default: runs)")

    command = rental.add(
        "text", text, "train the largest models that the text allows, with twins", "crosslayer rental text --out runs"
    )
    command.add_argument("--minutes", type=positive, help="stop then; the same command goes on")
    command.add_argument("--out", type=Path, default=OUT, help="the results folder (default: runs)")
    command.add_argument("--data", type=Path, help="prepared text, packed or a folder (default: the standard library)")
    command.add_argument("--device", default="auto", help="auto, cpu or cuda")
    command.add_argument("--tiny", action="store_true", help="tiny models, to show that it runs")


def start(options: argparse.Namespace) -> int:
    from experiments.rental.dry import dry
    from experiments.rental.machines import machine_named
    from experiments.rental.packed_text import unpacked
    from experiments.rental.parts import FULL, Setup, parts
    from experiments.rental.sitting import WORK, Clock, Sitting
    from experiments.store.progress import warn
    from experiments.training.device import chosen_device

    pieces = options.archive or options.out / WORK
    if options.dry:
        return int(not dry(options.out, pieces, warn))
    clock = Clock(options.minutes)
    full = options.profile == FULL
    device = chosen_device(("cuda" if full else "cpu") if options.device == "auto" else options.device)
    data = "" if options.data is None else str(unpacked(options.data))
    setup = Setup(options.out, device, options.profile, data)
    title = _gpu()
    machine = machine_named(title) if full else None
    if machine is not None:
        warn(f"{title or 'no GPU is named here'}: forecasts are those of an {machine.name}")
    sitting = Sitting(parts(setup, _corpus(Path(data)) if data else None), options.out, pieces, clock, machine)
    return int(not sitting.go_on())


def _gpu() -> str:
    """Return the name of the first GPU, without loading torch; empty where nobody knows it."""
    if shutil.which("nvidia-smi") is None:
        return ""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip().partition("\n")[0]


def _corpus(folder: Path) -> Corpus:
    from experiments.campaign.setting import Corpus
    from experiments.training.text import of_models
    from icl.data.shards import read_manifest

    manifest = read_manifest(folder)
    vocab = of_models(manifest.tokenizer.vocab)
    return Corpus(manifest.name, manifest.digest, manifest.splits["train"].tokens, vocab=vocab)


def plan(options: argparse.Namespace) -> int:
    from experiments.rental.machines import MACHINES
    from experiments.rental.packed_text import unpacked
    from experiments.rental.parts import Setup, parts

    corpus = None if options.data is None else _corpus(unpacked(options.data))
    every = parts(Setup(OUT), corpus)
    forecasts = {part.name: {name: part.forecast(machine) for name, machine in MACHINES.items()} for part in every}
    if options.json:
        print(json.dumps([_as_json(part, forecasts[part.name]) for part in every], indent=1))
        return 0
    for part in every:
        print(f"{part.name}, {f'{part.minutes:g} min' if part.minutes else 'what is left'}: {part.what}")
        for name, forecast in forecasts[part.name].items():
            if forecast is not None:
                print(f"  {name}: {forecast.seconds:.0f} s, at least {forecast.least:.0f} s, {_memory(forecast, name)}")
        known = next((x for x in forecasts[part.name].values() if x is not None), None)
        print(f"  {known.formula if known else 'nothing is forecast'}{_no_text(part, options.data)}")
    return 0


def _memory(forecast: Forecast, name: str) -> str:
    from experiments.rental.machines import MACHINES

    return f"{forecast.memory / GB:.0f} of {MACHINES[name].memory / GB:.0f} GB"


def _no_text(part: Part, data: Path | None) -> str:
    return " without --data" if part.name == "text" and data is None else ""


def _as_json(part: Part, forecasts: Mapping[str, Forecast | None]) -> Json:
    from dataclasses import asdict

    known = {name: asdict(forecast) for name, forecast in forecasts.items() if forecast is not None}
    return {"part": part.name, "what": part.what, "minutes": part.minutes, "forecasts": known}


def pack(options: argparse.Namespace) -> int:
    from experiments.rental import packed_text
    from icl.data.shards import read_manifest

    size = packed_text.pack(options.folder, options.to)
    tokens = sum(split.tokens for split in read_manifest(options.folder).splits.values())
    found = {"file": str(options.to), "bytes": size, "tokens": tokens, "bits_per_token": round(8 * size / tokens, 2)}
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print(f"{options.to}: {tokens:,} tokens in {size / 2**20:.1f} MiB, {found['bits_per_token']} bits per token")
    return 0


def merge(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from experiments.rental.archive import merge as merged

    done = merged(options.pieces, options.out)
    if options.json:
        print(json.dumps(asdict(done), indent=1))
        return 0
    print(f"{len(done.taken)} files taken over, {len(done.there)} were there already")
    for name, count in done.lines.items():
        print(f"{name}: {count} lines added to what was there")
    return 0


def text(options: argparse.Namespace) -> int:
    from experiments.rental.packed_text import unpacked
    from experiments.rental.trainings import lines, train
    from experiments.training.device import slot_for

    data = None if options.data is None else str(unpacked(options.data))
    device = options.device
    if device == "auto" and not options.tiny:
        from experiments.training.device import chosen_device

        device = chosen_device("auto")
    slot = slot_for([], "gpu", "cpu" if device == "auto" else device, minutes=options.minutes, data=data)
    result = train(options.out, slot, tiny=options.tiny)
    print(json.dumps(result, indent=1) if options.json else "\n".join(lines(result)))
    return 0
