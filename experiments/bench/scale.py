"""The needs of a campaign with models of a billion parameters: memory, speed, days, storage, failures; see SCALE.md.

Nothing is measured here.  Counts are those of `theory.plans`; figures of machines are published ones, each with its
source; handing out arms, and again after failures, is simulated against the scheduler itself
(`experiments.bench.simulated`).

Where machines fail at random, a computation of W seconds saves after every `interval` seconds of work, at `cost`
seconds each.  Failures come as a Poisson process of rate 1 / `mean`; after one it takes `restart` seconds, in which it
can fail again, to be where the last save left it.  A stretch of a seconds of work and its save succeeds with
probability exp(-(a + c) / M), and what is lost by a failure is memoryless, so (Daly 2006, Eqn. 20)

    expected time of a stretch = M exp(R / M) (exp((a + c) / M) - 1),

exact for every M.  Divided by a, it is least where 1 - a / M = exp(-(a + c) / M); to first order in sqrt(c / M) that is
Young's (1974) interval sqrt(2 c M).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, expm1, inf, sqrt

from experiments.bench.simulated import Machines, Outcome, Work, simulate
from theory.plans.accounting import flops, total_parameters
from theory.plans.architecture import Architecture
from theory.plans.memory import activation_bytes, activations
from theory.plans.names import fitting
from theory.plans.plan import Plan
from theory.plans.presets import PRESETS
from theory.plans.sharding import recomputed, saving_bytes, state_bytes, traffic

PRESET, CONTEXT = "llama-1b", 2048
VARIANTS = ("vanilla", "skipv1", "attnres", "attnres-block")
TOKENS_A_PARAMETER, STEP = 20, 2**19  # of training, and tokens of a step
ARMS, GPUS, NODE = 64, 64, 8
PEAK = 989e12  # FLOP/s of a dense bf16 product on an H100
MFU = 0.30
NEAR, FAR = 450e9, 50e9  # bytes/s that a GPU sends to others of its node, and of other nodes
DISK = 1e9  # bytes/s at which one process serialises, hashes and writes a checkpoint
GPU_SECONDS_A_FAILURE = 16_384 * 54 * 86_400 / 419
NODE_MEAN = GPU_SECONDS_A_FAILURE / NODE
RESTART = 120.0  # seconds until a training that died is at work again
DRIVER = 0.005  # seconds of the process that hands out, for a point
DAY, GB = 86_400, 1e9
SEEDS = range(10)
WORKERS = (8, 64, 512)


@dataclass(frozen=True)
class Sized:
    """A model of the campaign."""

    name: str
    config: Architecture
    plan: Plan

    @property
    def parameters(self) -> int:
        return total_parameters(self.config, self.plan)

    @property
    def tokens(self) -> int:
        return TOKENS_A_PARAMETER * self.parameters

    @property
    def token_flops(self) -> int:
        """FLOPs per token of a forward and a backward pass."""
        return 3 * flops(self.config, self.plan, (self.config.context + 1) // 2)

    @property
    def seconds(self) -> float:
        """Seconds of a training on one GPU."""
        return self.tokens * self.token_flops / (PEAK * MFU)

    def memory(self, processes: int, sequences: int, *, again: bool = False) -> float:
        """Return a GPU's bytes: weights, moments and activations, mostly in bf16, for so many sequences per part."""
        counted = (recomputed if again else activations)(self.config, self.plan, fused=True)
        state = state_bytes(self.config, self.plan, processes)
        return state + activation_bytes(self.config, counted, self.plan, sequences=sequences, number=2.0, fused=True)


def sized(name: str) -> Sized:
    config = replace(PRESETS[PRESET].architecture, context=CONTEXT)
    return Sized(name, config, fitting(name, config))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def memory() -> str:
    """Return the table of memory, in GB per GPU."""
    head = ["variant", "parameters", *(f"{n} GPU{'s' if n > 1 else ''}" for n in (1, 8, 64))]
    head += ["8 sequences", "recomputed"]
    rows = []
    for name in VARIANTS:
        model = sized(name)
        states = [state_bytes(model.config, model.plan, n) / GB for n in (1, 8, 64)]
        acts = [
            (model.memory(8, 8, again=again) - state_bytes(model.config, model.plan, 8)) / GB for again in (False, True)
        ]
        rows.append([name, f"{model.parameters / 1e9:.3f}e9", *(f"{x:.1f}" for x in (*states, *acts))])
    return table(head, rows)


def speed() -> str:
    sent_and_computed = "gradients and weights of a step", "compute of a step", "sent meanwhile"
    head = ["GPUs per arm", "tokens/s", "days", *sent_and_computed]
    model, rows = sized("vanilla"), []
    for count in (1, 8, 64, 512):
        rate = count * PEAK * MFU / model.token_flops
        sent = traffic(model.config, model.plan, count)
        work = STEP / rate
        took = sent / (NEAR if count <= NODE else FAR)
        rows.append(
            [
                count,
                f"{rate:,.0f}",
                f"{model.tokens / rate / DAY:.2f}",
                f"{sent / GB:.1f} GB",
                f"{work:.2f} s",
                f"{took:.2f} s",
            ]
        )
    return table(head, rows)


def crossing() -> float:
    """Return the number of GPUs per arm from which on communication takes longer than a GPU's part of a step."""
    model = sized("vanilla")
    return STEP * model.token_flops / (PEAK * MFU) / (traffic(model.config, model.plan, GPUS) / FAR)


def campaign() -> str:
    model = sized("vanilla")
    saved = saving_bytes(model.config, model.plan, 1)
    cost, mean = saved / DISK, NODE_MEAN
    rows: list[tuple[str, str]] = [
        ("arms, of tokens each", f"{ARMS}, {model.tokens / 1e9:.1f}e9"),
        ("GPU-days", f"{ARMS * model.seconds / DAY:.0f}"),
        ("from so many GPUs per arm on, sending takes longer than computing", f"{crossing():.0f}"),
        (f"days on {GPUS} GPUs, one per arm", f"{-(-ARMS // GPUS) * model.seconds / DAY:.1f}"),
        ("a checkpoint", f"{saved / GB:.1f} GB, {cost:.0f} s"),
        ("storage: two checkpoints per arm, and its weights", f"{ARMS * (2 * saved + saved / 3) / 1e12:.1f} TB"),
        ("best interval between checkpoints (Young, Daly)", f"{young(cost, mean) / 3600:.1f} h"),
        ("checkpoint traffic at that interval", f"{ARMS * saved / young(cost, mean) / 1e6:.0f} MB/s"),
        (
            "the same traffic at one a minute",
            f"{ARMS * saved / (60 + cost) / GB:.1f} GB/s, and {cost / (60 + cost):.0%} of the time",
        ),
    ]
    return table(["what", "how much"], rows)


def of_arms(times: float, interval: float, gpus: int = 1) -> tuple[Machines, Work]:
    """Return the campaign's machines, which fail so many times as often as published, and one of its arms."""
    model = sized("vanilla")
    cost = saving_bytes(model.config, model.plan, gpus) / DISK
    machines = Machines(GPUS // NODE, NODE, NODE_MEAN / times)
    return machines, Work(model.seconds / gpus, gpus, interval, cost=cost, restart=RESTART)


def overheads(times: float, interval: Callable[[float, float], float]) -> tuple[Work, float, list[Outcome]]:
    """Return an arm, by how much longer than its work it is expected to hold a GPU, and simulated campaigns."""
    machines, arm = of_arms(times, 1.0)
    arm = replace(arm, interval=interval(arm.cost, machines.mean))
    theory = (
        expected(arm.seconds, arm.interval, arm.cost, mean=machines.mean, restart=arm.restart) + arm.restart
    ) / arm.seconds - 1
    return arm, theory, [simulate(machines, [arm] * ARMS, seed) for seed in SEEDS]


def failures() -> str:
    head = ["failures, times the published", "interval", "expected overhead", "simulated", "tries that failed"]
    head += ["arms given up", "days"]
    rows = []
    for times in (1, 10, 100, 1000):
        for called, interval in (("Young", young), ("a minute", lambda *_: 60.0)):
            arm, theory, runs = overheads(times, interval)
            over = sum(run.used / run.worked for run in runs) / len(runs) - 1
            failed = sum(run.failures for run in runs) / len(runs)
            days = sum(run.seconds for run in runs) / len(runs) / DAY
            lost = sum(run.lost for run in runs)
            rows.append(
                [
                    times,
                    f"{arm.interval / 3600:.2f} h ({called})",
                    f"{theory:.2%}",
                    f"{over:.2%}",
                    f"{failed:.1f}",
                    lost,
                    f"{days:.2f}",
                ]
            )
    return table(head, rows)


def limits() -> str:
    """Return the table of how many workers stay busy where points are handed out one by one."""
    head = ["seconds a point", *(f"{cores} workers" for cores in WORKERS), "busy up to"]
    rows = []
    for seconds in (0.05, 1.0, 60.0):
        shares = []
        for cores in WORKERS:
            points = [Work(seconds, 1, inf, cost=0.0, restart=0.0)] * (4 * cores)
            run = simulate(Machines(cores // NODE, NODE, inf, driver=DRIVER), points, 0)
            shares.append(run.worked / (run.seconds * cores))
        rows.append([f"{seconds:g}", *(f"{share:.0%}" for share in shares), f"{seconds / DRIVER:,.0f} workers"])
    return table(head, rows)


TABLES = {"memory": memory, "speed": speed, "campaign": campaign, "failures": failures, "limits": limits}


def tables() -> dict[str, str]:
    """Return every table of the page, in Markdown."""
    return {name: printed() for name, printed in TABLES.items()}


def young(cost: float, mean: float) -> float:
    """Return the interval, in seconds of work, that loses least time, to first order in cost / mean."""
    return sqrt(2 * cost * mean)


def best(cost: float, mean: float) -> float:
    """Return the exact optimum: the root of d/da log(rate) = 0, 1 - a / M = exp(-(a + c) / M), by Newton's steps."""
    a = young(cost, mean)
    for _ in range(100):
        tail = exp(-(a + cost) / mean)
        step = (1 - a / mean - tail) / ((tail - 1) / mean)
        a -= step
        if abs(step) <= 1e-12 * a:
            return a
    raise ArithmeticError(f"no interval is found for a cost of {cost} and a mean of {mean}")


def expected(work: float, interval: float, cost: float, mean: float, restart: float) -> float:
    """Return the mean seconds until so much work is done and saved, without the first start.

    Work is cut into whole intervals and a rest.
    """
    whole, rest = divmod(work, interval)
    grown = whole * expm1((interval + cost) / mean) + (expm1((rest + cost) / mean) if rest else 0.0)
    return mean * exp(restart / mean) * grown
