"""Numbers of the campaign of text trainings on the page of findings are those that were measured."""

import math
import re
from statistics import fmean, median, stdev

import pytest

from experiments import catalogue
from experiments.across.questions.induction import gains_apart
from experiments.across.questions.rates import WORDS, tables
from experiments.campaign.question import BASELINE, CONTROL, VANILLAS, Question
from experiments.campaign.rates import candidates, costs, ends, own_rate, seeds_of
from experiments.campaign.reading import at_length, gain, over
from experiments.campaign.standing import standings
from experiments.store.folders import Slot
from experiments.verdicts.intervals import t_interval
from tests.findings import CLAIMS, FINDINGS, PAGE, ROOT, between, compared, signed, stored

MODELS = {  # groups of text-induction that are trained, as the page calls them
    "width 32, rate 0.008, initial weights 0.02": "0.11M",
    "width 48, rate 0.008, initial weights 0.02": "0.22M",
    "width 32, rate 0.004, initial weights 0.02": "0.11M, half the rate",
    "width 32, rate 0.008, initial weights fan-in": "0.11M, initial weights by fan-in",
}
SMALL, LARGE, SLOW, FAN_IN = MODELS
BY_RATE = "width 32, initial weights 0.02"  # models of text-rates that are trained at three rates
SPANS = ("2.5 to 5", "5 to 8")
WHO = {"toy": "the toy", "recall": "recall, with 24 seeds"}
ENDING = {"svformer": ("svformer",), "vanilla": BASELINE}
TOY_ALONE, RECALL_ALONE = "toy/vanilla/shared-keys", "recall/svformer/skipv1"


def test_numbers_of_the_campaign_s_first_answer():
    measurement = stored("text-induction/measurement.json")
    assert list(measurement["groups"]) == list(MODELS)
    assert not measurement["left_out"]
    judged = {c.id: c for c in compared("text-induction")}
    for name, called in MODELS.items():
        group = measurement["groups"][name]
        assert group["seeds"] == 12
        assert called.startswith(f"{group['parameters']['vanilla'] / 1e6:.2f}M")
        for span in SPANS:
            pairs = ("svformer/vanilla", "skipv1/vanilla", "svformer/skipv1", "skipv1/shared-keys")
            checks = [judged[f"{name}/{span}/{pair}"] for pair in pairs]
            first, second, *others = (signed(check.measured, check.half_width) for check in checks)
            third = signed(*checks[0].controls[0])
            assert f"| {' | '.join([called, span, first, second, third, *others])} |" in FINDINGS


def test_how_often_skips_train_faster_is_what_the_readme_says():
    def below(*arms):
        """Return how often an arm's loss lies below vanilla's, from 0.02 and by fan-in."""
        ends = tuple(f"{arm}/vanilla" for arm in arms)
        judged = [c for c in compared("text-induction") if c.id.endswith(ends)]
        by_scale = ([c.verdict for c in judged if c.id.startswith(FAN_IN) == fan_in] for fan_in in (False, True))
        return [f"{verdicts.count('agrees')} of {len(verdicts)}" for verdicts in by_scale]

    small, large = below("svformer", "skipv1")
    readme = (ROOT / "README.md").read_text()
    assert f"lie below vanilla's in {small} comparisons from initial weights of 0.02 (" in readme
    assert f"they are 0.01 to 0.03 below, in {large} by more than the interval for all at once (0.11M;" in readme
    small, large = below("svformer")
    sentence = (
        f"lies below vanilla's in {small} comparisons from initial weights of 0.02, and in {large} from weights by"
    )
    assert f"{sentence} fan-in" in " ".join(CLAIMS.split())


def test_numbers_of_the_campaign_s_sizes():
    judged = {c.id: c for c in compared("text-induction")}
    less = {
        span: [c for name, c in judged.items() if name.startswith(f"{LARGE}/{span}/") and name.endswith(SMALL)]
        for span in SPANS
    }
    assert [c.verdict for c in less[SPANS[0]]] == ["inconclusive", "inconclusive"]
    assert [c.verdict for c in less[SPANS[1]]] == ["agrees", "inconclusive"]
    svformer, skipv1 = (f"{c.measured:.2f} ± {c.half_width:.2f} smaller" for c in less[SPANS[1]])
    assert f"it is {svformer} at 0.22M" in FINDINGS
    assert f"That of SkipV1Former, {skipv1}," in FINDINGS


def test_how_the_campaign_s_gains_hang_on_initial_weights():
    groups = stored("text-induction/measurement.json")["groups"]

    def paired(later, earlier):
        return t_interval([b - a for b, a in zip(later, earlier, strict=True)])

    def written(interval):
        return signed(interval.mean, interval.half_width).lstrip("+\N{MINUS SIGN}")

    windows = [tuple(over(groups[name], *span) for name in (SMALL, FAN_IN)) for span in ((2.5, 5.0), (5.0, 8.0))]
    less = {arm: [written(gains_apart(window, arm)) for window in windows] for arm in ("svformer", "skipv1")}
    first, second = less["svformer"]
    assert f"SVFormer's gain is {first} smaller by fan-in than from 0.02 between 2.5 and 5 tokens per" in FINDINGS
    assert f"and {second} between 5 and 8; SkipV1Former's {' and '.join(less['skipv1'])}. In" in FINDINGS
    small, large = windows[0]
    vanillas = [[fmean(of_seed) for of_seed in zip(*map(x.get, BASELINE), strict=True)] for x in (large, small)]
    higher = paired(large["svformer"], small["svformer"])
    lower = paired(*vanillas)
    assert lower.mean < 0 < higher.mean
    assert f"vanilla's own loss is {written(lower)} lower by fan-in than from 0.02, and SVFormer's is" in FINDINGS
    assert f"and SVFormer's is {written(higher)} higher: of the four, SVFormer from 0.02 is lowest" in FINDINGS
    assert paired(vanillas[0], small["svformer"]).mean > 0 < paired(large["svformer"], small["svformer"]).mean
    ends = [gain(at_length(groups[name], "10.0"), "svformer") for name in (FAN_IN, SMALL)]
    by_fan_in, from_small = map(written, ends)
    assert f"held-out loss is {by_fan_in} below vanilla's by fan-in, and {from_small} from 0.02." in FINDINGS


def test_gains_by_fan_in_each_alone():
    """All four exclude zero, and none of a third vanilla's does; of all 32 at once it is the other way round."""
    group = stored("text-induction/measurement.json")["groups"][FAN_IN]
    windows = [over(group, *span) for span in ((2.5, 5.0), (5.0, 8.0))]
    gains = [gain(losses, arm) for arm in ("svformer", "skipv1") for losses in windows]
    assert all(one.mean + one.half_width < 0 for one in gains)
    controls = [gain(losses, CONTROL) for losses in windows]
    assert all(abs(one.mean) < one.half_width for one in controls)
    largest, control = (signed(one.mean, one.half_width, digits=3) for one in (gains[1], controls[1]))
    assert f"as {largest} for SVFormer between 5 and 8 tokens per parameter; a third vanilla's do not" in FINDINGS
    assert f"do not, as {control}." in FINDINGS
    means = sorted(f"{-one.mean:.2f}" for one in gains)
    assert f"By fan-in both are {means[0]} to {means[-1]} below." in FINDINGS
    small = {arm: [] for arm in ("svformer", "skipv1")}
    for c in compared("text-induction"):
        arm = c.id.split("/")[-2]
        if c.id.endswith("/vanilla") and c.verdict == "agrees":
            small[arm].append(f"{-c.measured:.2f}")
    (least, *_, most), (low, *_, high) = map(sorted, small.values())
    assert f"training loss is {least} to {most} nats below vanilla's from 2.5 to 8 tokens per parameter" in FINDINGS
    assert f"and SkipV1Former's {low} to {high}, but for one window." in FINDINGS


def test_earlier_gains_by_fan_in():
    group = stored("text-induction/measurement.json")["groups"][FAN_IN]
    first, second = (
        [signed(one.mean, one.half_width) for one in (gain(over(group, *span), arm) for arm in ("svformer", "skipv1"))]
        for span in ((0.5, 1.0), (1.0, 2.5))
    )
    assert f"{first[0]} for SVFormer and {first[1]} for SkipV1Former between 0.5 and 1 token per" in FINDINGS
    assert second[0] == second[1]
    assert f"then {second[0]} for either up to 2.5 (each alone;" in FINDINGS


def test_gains_by_fan_in_at_other_rates():
    gains = [c for c in compared("text-rates") if c.id.startswith("gain/width 32") and "fan-in" in c.id]
    first, second, third = (signed(c.measured, c.half_width) for c in gains)
    sentence = (
        f"minus vanilla's is {first}, {second} and {third} at rates 0.004, 0.008 and 0.016 (10 tokens per parameter"
    )
    assert sentence in FINDINGS
    groups = stored("text-induction/measurement.json")["groups"]
    by_rate = stored("text-rates/measurement.json")["groups"]

    def ends(losses):
        return {arm: fmean(fmean(losses[name]["10.0"]) for name in of) for arm, of in ENDING.items()}

    small = {name: ends(groups[name]["loss"]) for name in (SMALL, SLOW)}
    large = {name: ends(group["loss"]) for name, group in by_rate.items() if "fan-in" in name}
    every = [*small.values(), *large.values()]
    svformer, vanilla = (min(x[arm] for x in every) for arm in ENDING)
    assert {f"{x['svformer']:.2f}" for x in small.values()} == {f"{svformer:.2f}"}
    assert vanilla == small[SLOW]["vanilla"]
    by_fan_in = min(large, key=lambda name: large[name]["vanilla"])
    assert "rate 0.016" in by_fan_in
    assert f"that one ends at {svformer:.2f} nats per token at either rate" in FINDINGS
    lowest = large[by_fan_in]["vanilla"]
    ends_at = f"vanilla at {vanilla:.2f} from 0.02 (rate 0.004, 12 seeds) and {lowest:.2f} by fan-in (rate 0.016, four)"
    assert ends_at in FINDINGS


def test_numbers_of_the_campaign_s_heads():
    groups = stored("text-induction/measurement.json")["groups"]
    best = [fmean(one["induction"] for one in groups[name]["probed"]["vanilla"]["10.0"]) for name in MODELS]
    assert f"at most {max(best):.3f} more attention than uniform attention does." in FINDINGS
    for name, called in MODELS.items():
        probed = groups[name]["probed"]
        arms = ("svformer", "skipv1", "vanilla", "twin", "shared-keys")
        previous = [between(t_interval([one["previous"] for one in probed[arm]["2.5"]])) for arm in arms]
        assert f"| {called} | {' | '.join(previous)} |" in FINDINGS


def test_spreads_of_the_campaign_s_seeds():
    groups = stored("text-induction/measurement.json")["groups"]

    def spread(name, *arms):
        return fmean(stdev(groups[name]["loss"][arm]["5.0"]) ** 2 for arm in arms) ** 0.5

    spreads = [spread(name, *arms) for arms in (VANILLAS, ["svformer"]) for name in (SMALL, SLOW)]
    sentence = (
        "is {:.2f} nats at 0.008 and {:.2f} at 0.004, taken together over the three; SVFormer's is {:.2f} and {:.2f}."
    )
    assert sentence.format(*spreads) in FINDINGS
    assert f"By fan-in it is {spread(FAN_IN, *VANILLAS):.2f} at 0.008." in FINDINGS


def test_where_the_campaign_s_gains_peak():
    peaks = {c.id: c for c in compared("text-induction") if "/peak/" in c.id}
    assert [c.verdict for c in peaks.values()] == ["inconclusive"] * 8
    assert "All eight are undecided" in FINDINGS
    probed = stored("text-induction/measurement.json")["groups"][SLOW]["probed"]["vanilla"]["10.0"]
    assert f"where it rises by {fmean(one['induction'] for one in probed):.3f} there is nothing to come" in FINDINGS


def test_numbers_of_predicted_orders():
    judged = {c.id: c for c in compared("text-predicted")}
    for who, called in WHO.items():
        numbers = re.fullmatch(
            r"of (\d+) pairs that .* orders, text orders (\d+) as predicted, (\d+) the other way, "
            r"and leaves (\d+) open; exact permutation p = ([\d.]+), at best \5",
            judged[f"order/{who}"].statement,
        )
        assert numbers is not None
        assert f"| {called} | {' | '.join(numbers.groups())} |" in FINDINGS
        assert judged[f"order/{who}"].verdict == "inconclusive"
    signs = {c.id.partition(": ")[0::2]: c for c in judged.values() if ": " in c.id}
    both = {
        f"{who}/{arm}/{other}" for who in WHO for arm in ("svformer", "skipv1") for other in ("vanilla", "shared-keys")
    }
    open_ = {(SMALL, f"2.5 to 5/{pair}") for pair in both if "skipv1" in pair}
    open_ |= {(FAN_IN, f"{span}/{pair}") for span in SPANS for pair in both if "vanilla" in pair}
    own = {(SLOW, f"{span}/{RECALL_ALONE}") for span in SPANS} | {(SLOW, f"5 to 8/{TOY_ALONE}")}
    own |= {(FAN_IN, f"{span}/{TOY_ALONE}") for span in SPANS}
    every = {(name, f"{span}/{pair}") for name in MODELS for span in SPANS for pair in both}
    assert {key for key, c in signs.items() if c.verdict == "agrees"} == every - open_ | own
    assert {c.verdict for c in signs.values()} == {"agrees", "inconclusive"}
    places = stored("text-predicted/prediction.json")["places"]
    assert f"all {sum(len(place['pairs']) for place in places.values())} differences" in FINDINGS

    def written(name, pair, span="5 to 8"):
        check = signs[name, f"{span}/{pair}"]
        return signed(check.measured, check.half_width, digits=3)

    keys, skips = written(FAN_IN, TOY_ALONE, span="2.5 to 5"), written(SLOW, RECALL_ALONE)
    assert f"the least of these is {keys}." in FINDINGS
    assert f"is below SkipV1Former in both at half the rate, the last {skips}." in FINDINGS
    first, large, slow, _ = (written(name, "toy/skipv1/vanilla") for name in MODELS)
    assert (
        f"SkipV1Former minus vanilla, {first} between 5 and 8 tokens per parameter at 0.11M and rate 0.008" in FINDINGS
    )
    assert f"At 0.22M it is {large}, and at half the rate {slow}." in FINDINGS


def test_the_table_of_rates():
    table = tables(stored("text-rates/measurement.json"))[BY_RATE]
    for arm, losses in table.items():
        known, best, reach = candidates(losses), own_rate(losses), ends(losses)
        assert {seeds_of(losses)} == {4}
        inside = "not told from an end" if reach is None else f"{reach[0]:.2g} to {reach[1]:.2g}"
        words = "an end" if best.edge else inside
        cells = [f"{fmean(known[rate]):.2f}" if rate in known else "diverged" for rate in losses]
        assert f"| {WORDS.get(arm, arm)} | {' | '.join(cells)} | {best.rate:.2g}, {words} |" in FINDINGS, arm


def test_what_rates_cost():
    every = tables(stored("text-rates/measurement.json"))
    table, by_fan_in = every[BY_RATE], every["width 32, initial weights fan-in"]
    cost = {arm: {rate: one.mean for rate, one in costs(losses).items()} for arm, losses in table.items()}
    lowest = [min(of_arm, key=of_arm.get) for of_arm in cost.values()]
    below = len(lowest) - lowest.count(0.016)
    assert f"0.004 or 0.008 has the lowest loss for {below} of {len(lowest)} models of 0.11M" in FINDINGS
    for rate in table["vanilla"]:
        by_cost = sorted((of_arm[rate], arm) for arm, of_arm in cost.items())
        (next_, _), (largest, arm) = by_cost[-2:]
        words = f"{largest:.2f} ({WORDS[arm]})"
        others = f", all others at most {next_:.2f}" if rate == 0.008 else ""
        middle = f"{median(x for x, _ in by_cost):.2f}"
        assert f"| {rate:g} | {middle} | {words}{others} |" in FINDINGS
    assert f"0.016 costs {middle} nats per token in the median" in FINDINGS
    assert {arm for arm, rate in zip(cost, lowest, strict=True) if rate == 0.016} == {"dva", "gate"}

    def written(arm, rate, table=table):
        one = costs(table[arm])[rate]
        return between(one), abs(one.mean) > one.half_width

    full, equal = (written(arm, 0.008) for arm in ("attnres", "attnres-equal"))
    assert f"Full is {equal[0]} nats worse at 0.008 than at 0.004, with queries at a tenth of it {full[0]}." in FINDINGS
    high, low = written("vanilla", 0.016), written("vanilla", 0.004, by_fan_in)
    assert f"vanilla's loss is {high[0]} higher at the rate 0.016 than at 0.008; by fan-in it is lowest at" in FINDINGS
    assert f"and {low[0]} higher at 0.004. |" in FINDINGS
    assert f"the rate 0.016 costs {high[0]}; by fan-in it is the lowest of the three, and 0.004 costs {low[0]}." in (
        FINDINGS
    )
    for rate, of_rate, open_ in ((0.016, table, 1), (0.004, by_fan_in, 0)):
        assert [written(arm, rate, of_rate)[1] for arm in VANILLAS].count(False) == open_
    assert {min(c, key=lambda rate: c[rate].mean) for c in (costs(by_fan_in[arm]) for arm in VANILLAS)} == {0.016}


def test_how_far_own_rates_are_apart():
    checks = [c for c in compared("text-rates") if c.id.startswith(f"{BY_RATE}/")]
    known = [c for c in checks if math.isfinite(c.measured)]
    (apart,) = [c for c in known if abs(c.measured) > c.half_width]
    assert apart.id.endswith("/resformer-learned")
    assert (len(known), apart.measured > 0) == (8, True)
    assert f"ResFormer with learned weights, {apart.measured:.2f} ± {apart.half_width:.2f} doublings higher" in FINDINGS
    own = {arm: own_rate(losses) for arm, losses in tables(stored("text-rates/measurement.json"))[BY_RATE].items()}
    low = [arm for arm, one in own.items() if one.rate == 0.004]
    assert (len(low), all(own[arm].edge for arm in low), len({*low} & {*VANILLAS})) == (12, True, 1)
    gains = [c for c in compared("text-rates") if c.id.startswith("gain/width 32") and c.id.endswith("0.02/svformer")]
    first, second, third = (signed(c.measured, c.half_width) for c in gains)
    assert f"minus vanilla's is {first}, {second} and {third} at 0.004, 0.008 and 0.016." in FINDINGS


@pytest.mark.long
def test_what_is_left_of_the_campaign():
    """Trainings that were added since then leave less."""
    told = re.findall(r"\| `(text-[a-z-]+)`: .* \| (\d+) \| (\d+) \| (\d+) \|", PAGE)
    rows = {name: [int(x) for x in numbers] for name, *numbers in told}
    experiments = map(catalogue.experiment, catalogue.names("scale"))
    questions = [one for one in experiments if isinstance(one, Question)]
    now = standings(sorted(questions, key=lambda one: one.order), ROOT / "nowhere", Slot())
    needed = {one.question.name: one for one in now if one.left}
    assert set(needed) <= set(rows)
    assert f"some {sum(hours for _, _, hours in rows.values())} hours of one core" in FINDINGS
    for name, one in needed.items():
        trained, left, hours = rows[name]
        assert trained <= one.trained
        assert left >= one.left
        total = one.trained + one.left
        assert trained + left <= total  # what a question above asked for, too, was not left here, and is trained now
        assert one is not now[0] or trained + left == total
        assert one.seconds / 3600 < 1.3 * hours  # the price of a step is measured anew with every training
