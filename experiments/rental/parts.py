"""The parts of a rental, in the order of what they tell per minute; each has minutes of its own and goes on later.

A part is commands of `crosslayer`, each a process, and a look at the results folder that says whether it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments import catalogue
from experiments.campaign.setting import Corpus
from experiments.rental import trainings
from experiments.rental.machines import (
    CONTEXT,
    INITIAL,
    KERNELS,
    LAUNCH,
    START,
    Forecast,
    Machine,
    compile_seconds,
    decoding_seconds,
    initial_seconds,
    step_seconds,
    training_memory,
)
from experiments.store.folders import Json, RunFolder, UserError
from icl.files import opened
from icl.recipe import Recipe
from theory.plans.accounting import total_parameters
from theory.plans.architecture import Architecture
from theory.plans.names import model, resolve, sized

DECODE, TEXT, BRIDGE, STEP, OTHERS = "decode", "text", "bridge", "step", "others"
BRIDGES = ("gpu-8", "gpu")  # profiles: codes of 8 and of 16 numbers; half a code needs two heads of even width
# What is compiled takes most of the time, so the larger model has one value map and one depth rule.
TIMED = {
    "llama-130m": "vanilla,resformer,skipv1,svformer,attnres-block,attnres",
    "llama-350m": "vanilla,skipv1,attnres-block",
}
TINY_TIMED = ("llama-2m", "vanilla,attnres")
TINY_SIZE = ("--context", "16", "--batch", "2")
TOKENS_A_STEP = {"llama-130m": 32_768, "llama-350m": 16_384}  # whose plain gradients, in float32, fit into 80 GB
TURNS, DECODED_A_TURN = 6, 8
TIMED_STEPS = 2 * 5 * TURNS  # of a variant and of vanilla
PLAIN = 16.0  # times a step in bf16, the gradients that it is held against: float32, not compiled
DRAWN = 4e-3  # seconds in which a core draws the prompts of a stack's step
FULL, TINY = "gpu", "gpu-tiny"

Arguments = Sequence[str]


@dataclass(frozen=True)
class Setup:
    """The place and the size of a rental.

    Args:
        out: The results folder.
        device: cuda or cpu.
        profile: FULL, or TINY to show that everything runs.
        data: The folder of prepared text; empty: the standard library's source.
    """

    out: Path
    device: str = "cuda"
    profile: str = FULL
    data: str = ""

    @property
    def tiny(self) -> bool:
        return self.profile != FULL


@dataclass(frozen=True)
class Part:
    """A part of a rental.

    Args:
        name: Of the part, its log and its line of the standing.
        what: A few words on it.
        minutes: Its own; 0: it has what others leave.
        commands: By how many minutes there are, what is run, one after the other.
        done: Whether nothing is left of it.
        forecast: By machine; None where nothing can be said.
    """

    name: str
    what: str
    minutes: float
    commands: Callable[[float], Sequence[Arguments]]
    done: Callable[[], bool]
    forecast: Callable[[Machine], Forecast | None]


def parts(setup: Setup, corpus: Corpus | None = None) -> list[Part]:
    """Return all parts, in order.

    Args:
        setup: Where, and in which size.
        corpus: The text, if it is known; else nothing is forecast of its trainings.
    """
    place = ("--out", str(setup.out), "--device", setup.device)
    data = ("--data", setup.data) if setup.data else ()

    def run(name: str, profile: str, minutes: float) -> Arguments:
        return ("run", name, "--profile", profile, *place, "--minutes", f"{minutes:.2f}", *data)

    bridges = (TINY,) if setup.tiny else BRIDGES
    steps = _timings(setup)
    tiny = ("--tiny",) if setup.tiny else ()
    return [
        Part(
            DECODE,
            "decoding at 350M in bf16, plans against vanilla",
            2,
            lambda minutes: [run("scale-decode", setup.profile, minutes)],
            lambda: _finished(setup, "scale-decode", setup.profile),
            _decoding,
        ),
        Part(
            TEXT,
            "text trainings of the largest size that the text allows, with twins, at two rates",
            8,
            lambda minutes: [("rental", "text", *place, "--minutes", f"{minutes:.2f}", *data, *tiny)],
            lambda: _left(setup.out) == 0,
            lambda machine: (
                None if corpus is None else trainings.forecast(trainings.trainings(corpus, tiny=setup.tiny), machine)
            ),
        ),
        Part(
            BRIDGE,
            "the toy's predictions on recall, codes of 8 and of 16 numbers, stacked",
            4,
            lambda minutes: [
                run("bridge", profile, minutes) for profile in bridges if not _finished(setup, "bridge", profile)
            ],
            lambda: all(_finished(setup, "bridge", profile) for profile in bridges),
            _bridging,
        ),
        Part(
            STEP,
            "step time, memory and MFU of LLaMA-130M and 350M per variant",
            8,
            lambda _: [step.command for step in steps if not step.done()],
            lambda: all(step.done() for step in steps),
            _stepping,
        ),
        Part(
            OTHERS,
            "the other experiments of the profile",
            0,
            lambda minutes: [run("--all", setup.profile, minutes)],
            lambda: all(_finished(setup, name, setup.profile) for name in catalogue.names("scale")),
            lambda _: None,
        ),
    ]


@dataclass(frozen=True)
class Timing:
    """A benchmark of training steps.

    Args:
        preset: The model.
        variants: Those that are timed, joined by commas.
        path: The file of the result.
        options: Further ones of the command.
    """

    preset: str
    variants: str
    path: Path
    options: Arguments

    @property
    def command(self) -> Arguments:
        about = ("--preset", self.preset, "--variants", self.variants, "--out", str(self.path))
        return ("bench", "step", *about, *self.options)

    def done(self) -> bool:
        """Return whether every variant has a line, be it an error's."""
        try:
            timed = opened(self.path.read_bytes())[0]["variants"]
        except (OSError, ValueError, KeyError):
            return False
        return set(timed) >= set(self.variants.split(","))


def _timings(setup: Setup) -> list[Timing]:
    device = ("--device", setup.device)
    if setup.tiny:
        return [Timing(*TINY_TIMED, setup.out / f"step-time-{setup.profile}.json", (*TINY_SIZE, *device))]
    return [
        Timing(
            preset,
            variants,
            setup.out / f"step-time-{setup.profile}-{preset}.json",
            ("--batch", str(TOKENS_A_STEP[preset] // model(preset)[0].context), *device),
        )
        for preset, variants in TIMED.items()
    ]


def _finished(setup: Setup, name: str, profile: str) -> bool:
    """Return whether an experiment is finished with all seeds of the profile."""
    if profile not in (profiles := catalogue.experiment(name).profiles):
        return True
    seeds = profiles[profile].seeds
    folder = setup.out / name
    for path in [*folder.glob(f"{profile}-*/summary.json"), folder / profile / "summary.json"]:
        try:
            summary: Json = RunFolder(path.parent).read(path.name, {"seeds": list})
        except UserError:
            continue
        if len(summary["seeds"]) >= seeds:
            return True
    return False


def _left(out: Path) -> int | None:
    run = RunFolder(out.joinpath(*trainings.FOLDER))
    try:
        return int(run.read(trainings.LEFT, {"left": int})["left"]) if run.has(trainings.LEFT) else None
    except UserError:
        return None


def _decoding(machine: Machine) -> Forecast:
    """Return the forecast of `scale-decode`, profile gpu."""
    config = catalogue.experiment("scale-decode").profiles[FULL].config
    models = [
        (fitted, resolve(rest, fitted.shape))
        for fitted, rest in (sized(config.architecture, name) for name in config.variants)
    ]
    steps = (config.turns + 1) * DECODED_A_TURN
    timed = sum(
        steps * decoding_seconds(*one, machine, batch=batch, tokens=tokens)
        for one in models
        for batch, tokens in config.sizes
    )
    initial = sum(initial_seconds(*one) for one in models)
    weights = sum(2 * total_parameters(*one) for one in models)
    largest = max(batch * tokens for batch, tokens in config.sizes)
    fitted = models[0][0]
    caches = len(models) * largest * 4 * fitted.n_layers * fitted.d_model
    seconds = START + initial + timed
    formula = (
        f"{len(models)} models, initial weights {initial:.0f} s; {steps} steps for each of {len(config.sizes)} sizes, "
        f"a step max(bytes read / bandwidth, kernels x {LAUNCH * 1e6:.0f} us)"
    )
    return Forecast(seconds, seconds, CONTEXT + weights + caches, formula)


def _bridging(_machine: Machine) -> Forecast:
    """Return the forecast of `bridge`, of all its profiles."""
    experiment = catalogue.experiment("bridge")
    seconds, first, memory, stacks = START, 0.0, 0.0, 0
    for name in BRIDGES:
        profile = experiment.profiles[name]
        for part in profile.config.parts:
            members = len(profile.config.names(part)) * (part.tuning * len(part.rates) + profile.seeds)
            count = -(-members // 160)
            config = profile.config.architecture(part)
            plan = resolve("vanilla", config.shape)
            step = LAUNCH * (KERNELS[False] * config.sublayers(plan) + 60) + DRAWN
            seconds += count * part.steps * step
            first = first or START + part.steps * step
            stacks += count
            rows = 160 * total_parameters(config, plan)
            memory = max(memory, CONTEXT + 4 * (6 * rows + 160 * _kept(config, profile.config.recipe)))
    formula = (
        f"{stacks} stacks of up to 160 decoders; a step takes {LAUNCH * 1e6:.0f} us per kernel and {DRAWN * 1e3:.0f} "
        "ms for its prompts"
    )
    return Forecast(seconds, first, 4 * memory, formula)


def _kept(config: Architecture, recipe: Recipe) -> int:
    """Return the numbers that a step of one small decoder keeps, at most."""
    per_token = 40 * config.d_model + config.n_heads * config.context
    return recipe.batch * config.context * config.n_layers * per_token


def _stepping(machine: Machine) -> Forecast:
    """Return the forecast of `bench step`, in which vanilla, with weights, moments and gradients, stays beside each."""
    seconds, first, memory, words = 0.0, 0.0, 0.0, []
    for preset, variants in TIMED.items():
        config, _ = model(preset)
        recipe = Recipe(
            steps=1, batch=TOKENS_A_STEP[preset] // config.context, learning_rate=1e-4, precision="bf16", compile=True
        )
        plain = replace(recipe, precision="fp32", compile=False)
        seconds += START
        for name in variants.split(","):
            plan = resolve(name, config.shape)
            step = step_seconds(config, plan, recipe, machine)
            compiling = compile_seconds(config, plan, recipe)
            seconds += initial_seconds(config, plan) + compiling + (TIMED_STEPS + PLAIN) * step
            first = first or seconds
            memory = max(memory, training_memory(config, plan, plain) + 16 * total_parameters(config, plan))
        words.append(f"{preset} {1e3 * step:.0f} ms a step, {compiling:.0f} s to compile")
    formula = f"{'; '.join(words)}; {TIMED_STEPS} timed steps per variant; initial weights {INITIAL:g} s per parameter"
    return Forecast(seconds, first, memory, formula)
