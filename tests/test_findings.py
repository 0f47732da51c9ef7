"""Numbers on the pages of findings and claims are those that were measured, predicted or printed."""

import csv
import math
import re
from collections import Counter
from statistics import fmean, median

from experiments import catalogue
from experiments.across import bridge
from experiments.across.ladder.setting import FIRST, LAST, RUNGS
from experiments.across.ladder.verdicts import best, chance, leads, null_rows
from experiments.across.printed import NANOGPT, reported
from experiments.across.reading.experiment import rises
from experiments.experiment.protocol import Retiring
from experiments.report.pages.variants import costs
from experiments.resformer import index as resformer_index
from experiments.verdicts.intervals import t_interval
from tests.findings import ARMS, CLAIMS, FINDINGS, PAGE, ROOT, between, both_of, compared, signed, stored
from theory.plans.variants import VARIANTS

ARMS_AND_OWN_MAP = {"own-map": "own map of the embedding", **ARMS}
EARLIER = list(csv.DictReader((ROOT / "results/earlier/numbers.csv").read_text().splitlines()))


def test_the_findings_count_resformer_s_items():
    assert f"goes through the paper: {len(resformer_index.ITEMS)} items," in " ".join(PAGE.split())


def test_numbers_of_what_was_found():
    explained = stored("skipv1-end-to-end/measurement.json")["explained"]
    for arm in ("mha-4/m3", "skipv1/m2"):
        share = t_interval(explained[f"d2-n8-s0.1/positions/random/{arm}"])
        assert f"{share.mean:.3f} ± {share.half_width:.3f}" in PAGE


def test_numbers_of_value_tables():
    prediction, measurement = both_of("value-tables")
    count = sum(map(len, prediction["missed"].values()))
    for arm, told in (
        ("map", "16 tokens per coordinate {}, and {} after training"),
        ("two", "leaves {} of two layers' tables together (trained: {})"),
        ("four", "{} of four layers' ({})"),
    ):
        share = t_interval(measurement[arm]["128"], count)
        trained = f"{share.mean:.3f} ± {share.half_width:.3f}"
        assert told.format(f"{prediction['missed'][arm]['128']:.3f}", trained) in FINDINGS


def test_numbers_of_the_field():
    """Costs are counted from the plans."""
    own = [name for name, variant in VARIANTS.items() if variant.paper and variant.paper.name == "the field"]
    assert len(own) == 12
    assert "Twelve variants of the field are built" in FINDINGS
    cost = {name: costs("llama-130m", name) for name in ("vanilla", *own)}
    more = {name: {key: f"{100 * (x[key] / cost['vanilla'][key] - 1):+.1f} %" for key in x} for name, x in cost.items()}
    told = f"{more['value-embeddings']['parameters']}; {more['gated-value-embeddings']['parameters']}"
    assert f"| their parameters; with nanochat's gates | {told} |" in FINDINGS
    shared = more["gemma-sharing"]["cache"].replace("-", "\u2212")
    assert f"| cache with shared keys and values, as in Gemma 3n | {shared} |" in FINDINGS
    for name in ("mudd", "deepcrossattention", "lime", "delta-attnres"):
        assert cost[name]["cache"] == cost["vanilla"]["cache"]
    dense, width = earlier("attnres-ablations", "denseformer/vanilla")
    assert f"early | {dense:.3f} ± {width:.3f} |".replace("-", "\u2212") in FINDINGS


def test_numbers_of_the_long_bridge():
    found = {c.id: c for c in compared("bridge/long")}
    verdicts = [c.verdict for c in found.values() if c.rule != "unpredicted"]
    decided = sum(verdict in ("agrees", "contradicts") for verdict in verdicts)
    assert f"{decided} of {len(verdicts)} verdicts are decided" in FINDINGS
    for question, arm, told in (
        ("speed", "svformer", "{} at fan-in and {} at 0.02"),
        ("speed", "skipv1", "{} and {}, own map"),
        ("speed", "own-map", "{} and {}."),
        ("null", "svformer", "SVFormer {} and {}."),
    ):
        both = [found[f"{question}/{scale}/{arm}"] for scale in ("fan-in", "0.02")]
        assert told.format(*(f"{c.measured:.2f} ± {c.half_width:.2f}" for c in both)) in FINDINGS
    one = found["one token/0.02/svformer"]
    assert (one.verdict, f"{one.measured:.2f} ± {one.half_width:.2f}") == ("contradicts", "0.08 ± 0.04")
    speeds = [c.verdict for c in found.values() if c.id.startswith("speed") and c.predicted > 0]
    assert (speeds.count("agrees"), len(speeds)) == (7, 8)


def test_times_of_the_long_bridge():
    page, parts = PAGE, stored("bridge/long/measurement.json")["parts"]
    names = {"vanilla": "vanilla", "twin": "vanilla with other initial weights"}
    for arm, name in (ARMS_AND_OWN_MAP | names).items():
        cells = []
        for scale in ("fan-in", "0.02"):
            steps = parts[f"speed, width 1 d, {scale}"]["left"][arm]
            middle = median(math.inf if step is None else step for step in steps)
            cells += [str(sum(step is not None for step in steps)), f"{middle:.0f}" if middle < math.inf else ""]
        assert f"| {name} | {' | '.join(cells)} |\n".replace("|  |", "| |") in page
    paired = [x for scale in ("fan-in", "0.02") for x in parts[f"one token, width 1 d, {scale}"]["left"].values()]
    assert min(sum(step is not None for step in steps) for steps in paired) == 22
    middles = [median(math.inf if step is None else step for step in steps) for steps in paired]
    assert f"at median steps of {min(middles):.0f} to {max(middles):.0f}." in page


def test_numbers_of_the_ladder():
    prediction, measurement = both_of("ladder")
    task, names = measurement["task"], {**ARMS, "twin": "twin (control)"}
    for what in ("reached", "found"):
        by_rung = [leads(measurement, task, rung, what) for rung in RUNGS]
        for arm, called in names.items():
            told = " | ".join(between(of_rung[arm]) for of_rung in by_rung)
            assert f"| {called}, {what} | {told} |" in FINDINGS
    last = by_rung[-1]
    assert max(abs(last[arm].mean) for arm in names) < min(last[arm].half_width for arm in names)
    counts = {rung: {arm: chance(measurement, task, rung, arm) for arm in ("svformer", "vanilla")} for rung in RUNGS}
    assert counts[LAST] == {"svformer": (2, 24), "vanilla": (0, 24)}
    assert counts["linear"] == {"svformer": (24, 24), "vanilla": (4, 24)}
    _, other, fourth, fifth = prediction["tasks"]
    for setting in (other, fourth):
        by_rung = [leads(measurement, setting, rung, "reached") for rung in RUNGS]
        further = [of_rung["svformer"] for of_rung in by_rung]
        told = "{:.2f}, {:.2f}, {:.2f} and {:.2f} on the four rungs".format(*(lead.mean for lead in further))
        assert f"{told} (each ± 0.02" in FINDINGS
        assert 0.015 < max(lead.half_width for lead in further) <= 0.02
        assert f"of {prediction['tasks'][setting]['lead']['svformer']:.2f} predicted" in FINDINGS
    assert max(abs(of_rung["twin"].mean) for of_rung in by_rung) < 0.02  # at d = 4
    lead, toys = leads(measurement, fifth, LAST, "reached")["svformer"], prediction["tasks"][fifth]["lead"]["svformer"]
    assert f"({lead.mean:.2f} with a feed-forward, of {toys:.2f})" in FINDINGS
    shares, proved = best(measurement, fifth, FIRST), prediction["tasks"][fifth]["proved"]["vanilla"]
    assert f"it found {shares['vanilla'].mean:.2f} of the signal, where {proved[0]:.2f} is proved possible" in FINDINGS
    judged = {c.id: c for c in compared("ladder")}
    for setting, told in (
        (task, "The softmax changes SVFormer's lead by {}, norms by {}."),
        (other, "Here the softmax changes it by {} and norms by {},"),
    ):
        changes = [judged[f"change/{setting}/{rung}/svformer"] for rung in ("softmax", "norms")]
        cells = (signed(c.measured, c.half_width, digits=3) for c in changes)
        assert told.format(*cells) in FINDINGS
    low, high = prediction["tasks"][task]["proved"]["vanilla"]
    assert f"are {low:.2f} as possible, and {high:.2f} as a bound" in FINDINGS
    found = [row for row, _ in null_rows(prediction, measurement, "found") if not row.id.endswith("twin")]
    assert {row.verdict for row in found} == {"inconclusive"}
    ends = [f"{f(row.measured for row in found):.2f}".replace("-", "\u2212") for f in (min, max)]
    assert "lie between {} and {},".format(*ends) in FINDINGS
    assert "± {:.2f} to ± {:.2f}".format(*(f(row.tolerance for row in found) for f in (min, max))) in FINDINGS
    reached = {(width, row.id.rpartition("/")[2]): row for row, width in null_rows(prediction, measurement, "reached")}
    words = {"agrees": "as the toy says", "contradicts": "against the toy"}
    for arm, called in names.items():
        rows = [reached[width, arm] for width in ("2 d", "3 d")]
        cells = [f"{row.measured:.3f} ± {row.tolerance:.3f}".replace("-", "\u2212") for row in rows]
        (verdict,) = {row.verdict for row in rows}
        last = ("twin", "control") if arm == "twin" else (called, words[verdict])
        assert f"| {last[0]} | {' | '.join(cells)} | {last[1]} |" in FINDINGS


def test_numbers_of_the_independent_bridge():
    areas = stored("bridge-independent.json")["areas"]
    parts = [areas[name] for name in ("width 16, fan-in", "width 16, 0.02", "width 48, fan-in")]
    for arm, called in {**ARMS_AND_OWN_MAP, "twin": "twin"}.items():
        gains = [t_interval([a - b for a, b in zip(part["vanilla"], part[arm], strict=True)]) for part in parts]
        assert f"| {called} | {' | '.join(map(between, gains))} |" in PAGE


def test_numbers_of_the_bridge():
    found = {(row.arm, row.question, row.scale): row for row in bridge.rows(*both_of("bridge"))}
    names = {**ARMS_AND_OWN_MAP, "skipv0": "SkipV0", "shared-keys": "shared keys", "twin": "twin"}
    cells = [(question, scale) for question in ("speed", "null") for scale in (bridge.FAN_IN, bridge.SMALL)]
    for arm, name in names.items():
        row = [found[arm, *cell].judgement for cell in cells]
        told = " | ".join(signed(c.measured, c.half_width).removeprefix("+") for c in row)
        assert f"| {name} | {told} |".replace("\N{MINUS SIGN}0.00", "0.00") in PAGE
    words = Counter(row.words for row in found.values() if row.arm != "twin")
    assert f"{words['not decided']} of {words.total() - words['no prediction']} verdicts" in PAGE
    assert f"{words['as the toy says']} of 8 comparisons" in PAGE
    width = found["svformer", "width", bridge.FAN_IN].judgement
    assert f"than SVFormer by {width.measured:.1f} ± {width.half_width:.1f} octaves" in PAGE


def test_numbers_of_resformer_in_small_decoders():
    page = " ".join(CLAIMS.split())
    for run, found in {
        "resformer-mapping": {
            "nearer/previous/identity": (2, "By {} of a cosine"),
            "nearer/previous/even": (2, "nearer by another {},"),
            "loss/identity-mapping": (3, "higher than ResFormer's by {} nats"),
        },
        "resformer-ablations": {
            "paper/svformer/vanilla": (3, "by \u2212{} nats, against the paper and as the toy says"),
            "paper/resformer/vanilla": (3, "ResFormer is at \u2212{}."),
        },
        "resformer-spectrum": {
            "largest/resformer": (1, "smaller (log \u2212{})"),
            "filled/resformer": (2, "as many directions (log {})"),
        },
        "svformer-length": {"late/length": (3, "falls by {} nats a doubling")},
    }.items():
        for name, (digits, told) in found.items():
            middle, width = map(abs, earlier(run, name))
            assert told.format(f"{middle:.{digits}f} ± {width:.{digits}f}") in page
    factors = ("drain", "{:.2f} times the others', {:.2f} to {:.2f}"), ("peak", "{:.1f} times, {:.1f} to {:.1f}")
    for name, told in factors:
        middle, width = earlier("resformer-concentration", f"{name}/vanilla")
        assert told.format(*(math.exp(x) for x in (middle, middle - width, middle + width))) in page


def test_numbers_of_attention_residuals():
    powers = {
        check["id"]: f"{check['measured']:.2f} ± {check['tolerance']:.2f}".replace("-", "\u2212")
        for check in stored("attnres-bounds/summary.json")["checks"]
    }
    full, block = powers["exponent/attnres"], powers["exponent/attnres-block:size=4"]
    assert f"than PreNorm's, by {full}; that of blocks of 4, {block}, is not decided" in FINDINGS
    lower = [power.lstrip("\N{MINUS SIGN}") for power in (full, block)]
    assert "lower by {} (full); not decided, {} (blocks of 4)".format(*lower) in FINDINGS


def test_numbers_of_conversion_and_decoding():
    found = stored("scale-uptrain/summary.json")["checks"]
    for place, told in {
        "first/the paper/svd": "`svd` begins {} nats lower, two others",
        "first/the paper/mean-vo": "two others {} and",
        "first/the paper/top-vo": "and {}. With the largest half",
        "first/independent heads/whole": "begins {} lower and ends",
        "end/independent heads/skipv1, whole/skipv1, mean": "ends {} lower. That first losses",
        "end/the paper/skipv1, mean/continued": "is {} behind MHA that was trained on as long",
        "end/the paper/skipv1, mean/vanilla": "{} behind MHA before that",
        "end/the paper/skipv1, mean/skipv1": "and {} behind SkipV1Former from scratch",
        "end/a reason to convert/skipv1, whole/continued": "{} is still missing to MHA that was trained on",
    }.items():
        digits = 2 if place.startswith("first") else 3
        (check,) = (check for check in found if check["id"] == place)
        numbers = (f"{abs(check[x]):.{digits}f}" for x in ("measured", "tolerance"))
        assert told.format(" ± ".join(numbers)) in FINDINGS
    sizes = [check["verdict"] for check in found if check["id"].startswith("first/independent heads")]
    assert (sizes.count("agrees"), len(sizes)) == (5, 6)
    assert "borne out in five of six predictions, the sixth is not decided" in FINDINGS
    for kind in ("grouped", "latent"):
        found = stored(f"scale-uptrain/{kind}/summary.json")["checks"]
        measured = {check["id"]: f"{abs(check['measured']):.3f} ± {check['tolerance']:.3f}" for check in found}
        assert measured["end/the paper/skipv1, mean/continued"] in FINDINGS
        assert measured["end/a reason to convert/skipv1, whole/continued"] in FINDINGS
    tokens = stored("scale-uptrain/measurement.json")
    assert round(tokens["tokens"] / tokens["parameters"]["vanilla"]) == 10
    assert "eight heads was trained on 9.9 tokens per parameter" in FINDINGS
    found = stored("scale-decode/summary.json")["checks"]
    steps = [check for check in found if check["id"].startswith("slower/skipv1/")]
    ratios, width = sorted(math.exp(-check["measured"]) for check in steps), max(check["tolerance"] for check in steps)
    assert (
        f"takes {ratios[0]:.2f} to {ratios[-1]:.2f} of MHA's time a token, give or take {width:.2f} for all" in FINDINGS
    )


def test_rows_of_earlier_results_are_those_of_the_table():
    """Every row of FINDINGS names a row of the table, and says what it says."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (\w+) \| (\S+) \| (\d+) \| `([\w-]+)/(\w+): ([^`]+)` \|$", PAGE, re.M)
    assert len(rows) > 15
    for _, told, verdict, tokens, seeds, *name in rows:
        (row,) = (row for row in EARLIER if [row["experiment"], row["profile"], row["id"]] == name)
        middle, width = float(row["measured"]), float(row["half_width"])
        assert told == signed(middle, width, digits=3)
        assert (verdict, tokens, seeds) == (row["verdict"], row["tokens_per_parameter"], row["seeds"])


def test_the_table_of_earlier_results_is_whole():
    assert f"All {len(EARLIER)} rows" in PAGE
    names = catalogue.names()
    apart = set(catalogue.RETIRED) - set(catalogue.MERGED)
    apart |= {name for name in names if isinstance(catalogue.experiment(name), Retiring)}  # their retired profiles
    assert {row["experiment"] for row in EARLIER} == apart
    assert {row["claim"] for row in EARLIER} <= set(catalogue.claims()) | {""}
    assert all(
        re.fullmatch(r"[0-9a-f]{12}( [0-9a-f]{12})*", row["commit"]) and int(row["seeds"]) > 1 for row in EARLIER
    )
    figures = {
        max((name for name in apart if path.stem.startswith(name)), key=len)
        for path in (ROOT / "results/earlier").glob("*.png")
    }
    assert figures == apart


def test_the_ladder_s_retired_profiles_are_in_the_table():
    rows = {(row["profile"], row["id"]): row for row in EARLIER if row["experiment"] == "ladder"}
    assert {profile for profile, _ in rows} == set(catalogue.experiment("ladder").retired)
    norms = rows["optima", "size/5/d2-n4-s0.1/svformer/2"]
    assert f"{float(norms['measured']):.2f} ± {float(norms['half_width']):.2f}" in PAGE
    tasks = [row for (profile, name), row in rows.items() if profile == "tasks" and re.match("size/.*/svformer/", name)]
    for field, told in (("measured", "0.28 to 0.39"), ("predicted", "0.41 to 0.54")):
        ends = [f(float(row[field]) for row in tasks) for f in (min, max)]
        assert "{:.2f} to {:.2f}".format(*ends) == told
        assert told in FINDINGS
    axes = [row["verdict"] for row in EARLIER if row["experiment"] == "ladder-axes" and "bayes" not in row["id"]]
    decided = sum(verdict in ("agrees", "contradicts") for verdict in axes)
    assert f"{decided} of {len(axes)} comparisons decided" in PAGE


def test_what_others_measured_is_told_as_it_stands_in_the_tables():
    """Of the papers and modded-nanogpt in `printed`, of the logs in results/others.csv."""

    def told(numbers, digits=3):
        return ", ".join(f"{number:.{digits}f}" for number in numbers).replace("-", "\u2212")

    def of(variant, place):
        found = [r for r in reported() if (r.variant, r.against) == (variant, "vanilla") and r.place.startswith(place)]
        return [r.nats for r in sorted(found, key=lambda r: float(re.search(r"([\d.]+)[MB]", r.size)[1]))]

    assert f"{told(of('resformer', 'appendix A.6'))} nats" in PAGE
    for variant in ("attnres", "attnres-block"):
        assert f"{told(of(variant, 'paper'))} nats" in PAGE
    skipv1 = {r.size.partition(",")[0]: r.nats for r in reported() if r.place == "section 6.2, Fig. 5a"}
    assert f"{told(skipv1[f'LLaMA-{size}'] for size in ('60M', '130M', '350M', '1B', '3B'))} nats" in PAGE
    others = list(csv.DictReader((ROOT / "results/others.csv").read_text().splitlines()))
    for name, digits in (("value embeddings", 4), ("attnres", 3)):
        logs = [float(row["difference"]) for row in others if row["variant"] == name]
        assert f"{told(logs, digits)} bits per byte" in PAGE
    nanogpt = [r.nats for r in reported() if r.paper == NANOGPT]
    assert [float(row["difference"]) for row in others if row["source"] == NANOGPT] == nanogpt
    assert all(row["source"] and row["unit"] and int(row["runs"]) for row in others)


def test_numbers_of_heads_that_read_layer_1_in_a_trained_model():
    prediction, measurement = both_of("reading")
    guide = (ROOT / "experiments/report/text/guide/conversion.md").read_text()
    model = "SmolLM2-135M"
    draws = [arm for arm in prediction["arms"] if arm.startswith("random")]
    assert model in prediction["models"]
    assert len(draws) == 3

    def told(name, arm, when="by_sequence"):
        rise = t_interval(rises(measurement, name, arm, when))
        return f"{rise.mean:+.3f} ± {rise.half_width:.3f} |"

    (advice,) = (line for key, line in measurement["advice"].items() if key.startswith(model))
    assert len(advice["chosen"]) == 29
    for arm in ("raw", "fixed", "advised", *draws):
        cost = f"{advice['cost'][arm]:+.3f}" if arm in advice["cost"] else ""
        spread = f" ± {1.96 * advice['stderr'][arm]:.3f}" if cost else ""
        further = "" if arm in draws else f" {told(model, arm, 'further')}"
        assert f"| {cost} | {told(model, arm)}{further}".replace("|  |", "| |") in PAGE
        assert f"| {cost}{spread} | {told(model, arm)}{further}".replace("|  |", "| |") in guide
    found = {check["id"]: check for check in stored("reading/summary.json")["checks"]}
    assert {check["verdict"] for check in found.values()} == {"agrees"}
    keys = (
        f"{key}/{model}/{when}"
        for key, when in (("random", "by_sequence"), ("fixed", "by_sequence"), ("fixed", "further"))
    )
    random, fixed, further = (f"{found[key]['measured']:.3f} ± {found[key]['tolerance']:.3f}" for key in keys)
    assert f"cost {random} less than random ones, and {fixed} less than the third of each layer" in FINDINGS
    assert f"after 200 steps {further} less" in FINDINGS
    for name in ("campaign", "grouped"):
        for arm in ("raw", "fixed", "advised"):
            assert told(name, arm) in FINDINGS
            assert told(name, arm, "further") in FINDINGS
        assert f"{told(name, 'random 1').removesuffix(' |')}; {told(name, 'random 2')}" in FINDINGS
        costs = [line["cost"]["advised"] for key, line in measurement["advice"].items() if key.startswith(name)]
        assert f"{told(name, 'advised')} {fmean(costs):+.3f} |" in FINDINGS
    second = rises(measurement, model, "random 2")
    assert sum(rise > 4 for rise in second) == 5
    assert f"the median sequence loses {median(second):.2f}, but five of {len(second)} lose more than 4" in FINDINGS
    before = measurement["lines"][f"{model}/0/unchanged"]
    assert all(f"{loss:.3f}" in page for page in (PAGE, guide) for loss in (before["loss"], fmean(before["further"])))


def test_numbers_of_a_second_text():
    found = stored("reading-second-text.json")
    guide = " ".join((ROOT / "experiments/report/text/guide/conversion.md").read_text().split())
    before = found["losses"]["unchanged"]
    advice = found["advice"]
    assert len(before) * 512 == found["tokens"]["judged"]
    rise = {
        arm: t_interval([x - y for x, y in zip(found["losses"][arm], before, strict=True)])
        for arm in ("fixed", "advised")
    }
    for interval in rise.values():
        assert all(f"+{interval.mean:.3f} ± {interval.half_width:.3f}" in page for page in (FINDINGS, guide))
    assert f"where +{advice['cost']:.3f} was predicted; the unchanged model's loss is {fmean(before):.3f}." in FINDINGS
    assert f"predicted +{advice['cost']:.3f} ± {1.96 * advice['stderr']:.3f}." in guide
    assert len(advice["chosen"]) == 29


def test_numbers_of_the_layers_of_a_trained_model():
    found = {check["id"].partition("/")[0]: check for check in stored("trained-layers/summary.json")["checks"]}
    line = stored("trained-layers/measurement.json")["SmolLM2-135M/0"]
    layers, sequences = line["layers"], line["sequences"]
    page = " ".join(CLAIMS.split())

    def told(part, digits, shift=0.0, sign=1):
        check = found[part]
        return f"{sign * check['measured'] + shift:.{digits}f} ± {check['tolerance']:.{digits}f}"

    shares = f"+{told('first', 2)}; {told('value', 2, shift=1)}; {told('state', 0, shift=1)} |"
    assert shares in PAGE
    assert f"| {told('slope', 3)} | the same | measured; no sign seen |" in PAGE
    assert f"is {told('entropy', 2, sign=-1)} nats below uniform" in page
    assert f"It gets {told('first', 2)} more of the attention" in page
    assert f"In layer 24 it gets {layers['first'][23]:.2f} more" in page
    assert f"norm is {told('value', 2, shift=1)} of the others', at the least {min(layers['value']):.2f}" in page
    assert f"norm is {told('state', 0, shift=1)} times the others', at the most {max(layers['state']):.0f}" in page
    assert f"({-min(layers['entropy']):.2f} nats)" in page
    places = [layers["entropy"].index(min(layers["entropy"])), layers["value"].index(min(layers["value"]))]
    assert places == [layers["first"].index(max(layers["first"]))] * 2 == [23, 23]
    assert layers["state"].index(max(layers["state"])) == 12
    block, identity = (fmean(sequences[part]) for part in ("current", "identity"))
    assert f"Cosines of {block:.2f} and {identity:.2f} with the layer before: {told('current', 2)} nearer" in page
    others = sum(a < b for a, b in zip(layers["current"], layers["identity"], strict=True))
    assert f"In {others} of {len(layers['current'])} layers it is the other way" in page
    assert f"in all layers at once, is {told('slope', 3)} nats" in page
    assert found["slope"]["verdict"] == "inconclusive"
    assert f"fill {fmean(sequences['filled']):.0f} of 192 directions" in page


def earlier(experiment, check):
    """What was measured of a retired experiment, and the half-width of its interval; of several profiles the last."""
    found = [row for row in EARLIER if (row["experiment"], row["id"]) == (experiment, check)]
    return float(found[-1]["measured"]), float(found[-1]["half_width"])
