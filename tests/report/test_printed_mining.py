"""Every number that mining says, of one device, with options of training, and of a pipeline: tables, headlines, plain
values and drawings are compared with the records they are of. A heading or a key that no table lists fails."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.system import load_system
from monet.hardware.power import full_use_power_w
from monet.report import joint as joint_report
from monet.report import mining as report
from monet.report import stages as stage_report
from monet.report.html import joint as joint_page
from monet.report.html import mining as page
from monet.report.html import stages as stage_page
from monet.report.table import TextTable
from monet.search.hardware.record import Record
from monet.search.mining.comparison import Beside
from monet.search.mining.finalists import Finalist
from monet.search.mining.joint import JointMining, mine_jointly
from monet.search.mining.mine import Mining, Problem, mine
from monet.search.mining.stages.choice import Choice
from monet.search.mining.stages.mine_stages import StageMining, mine_stages
from monet.search.mining.stages.problem import StageProblem
from monet.search.mining.templates import Limits, load_template
from tests.report.reading import check, check_words

RANGES = {
    "core_count": [1, 2],
    "rows": [4, 16],
    "columns": [8],
    "lanes": [8],
    "sram_kib": [64],
    "dram_gbps": [3.2, 6.4],
}
MODELS = {
    "wide": {"model": "mlp:widths=64-256-64", "batch": 8, "weight": 3.0, "fusion": "none"},
    "long": {"model": "mlp:widths=16-32-32-32-8", "batch": 2, "weight": 1.0, "fusion": "none"},
}
SAMPLES, WEIGHTS = {"wide": 8, "long": 2}, {"wide": 3.0, "long": 1.0}
JOINT_SAMPLES = {"batch": [2, 8], "precision": ["bf16", "fp32"]}
PARAMETERS = tuple(RANGES)


def problem(metric: str = "throughput") -> Problem:
    template = load_template("edge").with_ranges(RANGES)
    return Problem(
        template, {name: template.workload(values) for name, values in MODELS.items()}, Limits(20.0, 2.0), metric
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mining:
    return mine(problem(), str(tmp_path_factory.mktemp("mined") / "one.sqlite"), evaluations=6, slack=0.2)


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> JointMining:
    store = str(tmp_path_factory.mktemp("joint") / "one.sqlite")
    return mine_jointly(problem("edp"), JOINT_SAMPLES, store, evaluations=10, slack=0.2)


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> StageMining:
    template = load_template("edge").with_ranges({**RANGES, "rows": [4, 8]})
    workload = template.workload({"model": "mlp:widths=16-64-64-24-16-8", "fusion": "none"})
    plan = ParallelPlan(pipeline=3, data=2)
    asked = StageProblem(
        template, "model", workload, load_system("edge-ethernet"), plan, 16, template.limits, "throughput"
    )
    return mine_stages(asked, str(tmp_path_factory.mktemp("piped") / "one.sqlite"), top=2, evaluations=12)


def rate(record: Record, samples: dict[str, int]) -> float:
    """Weighted geometric mean of samples per second."""
    logs = [WEIGHTS[name] * math.log(samples[name] / record.metrics[f"{name}.latency_s"]) for name in ("wide", "long")]
    return math.exp(sum(logs) / 4)


def check_area_and_power(area: str, power: str, record: Record, where: str, **space: Any) -> None:
    """As shown, of the record; and the record's, of the hardware."""
    assert float(area.removesuffix(" mm²")) == pytest.approx(record.metrics["area_mm2"], abs=0.0501), where
    assert float(power.removesuffix(" W")) == pytest.approx(record.metrics["full_use_power_w"], rel=0.00501), where
    hardware = space["space"].hardware({name: record.values[name] for name in record.values})
    assert record.metrics["area_mm2"] == pytest.approx(hardware.area_m2 * 1e6)
    assert record.metrics["full_use_power_w"] == pytest.approx(full_use_power_w(hardware))


def labels(table: TextTable) -> list[str]:
    return [heading.label for heading in table.columns]


def cells(table: TextTable) -> list[dict[str, str]]:
    """Rows by heading."""
    assert len(set(labels(table))) == len(labels(table))
    return [dict(zip(labels(table), map(str, row), strict=True)) for row in table.rows]


def drawn(figure: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    return {trace["name"]: list(zip(trace["x"], trace["y"], strict=True)) for trace in figure["data"]}


def check_on_page(panels: list[Any], *tables: TextTable) -> None:
    """The page shows the tables of the terminal, cell by cell."""
    for table in tables:
        (panel,) = [each for each in panels if each.title == table.title]
        shown = [html.unescape(re.sub(r"<.*?>", "", one)) for one in re.findall(r"<td.*?>(.*?)</td>", panel.body)]
        assert [text for text in shown if text] == [str(text) for row in table.rows for text in row if str(text)]


# --- one device -------------------------------------------------------------------------------------------------------


def test_designs(found: Mining) -> None:
    table = report.designs_table(found, "Best designs", found.ranked)
    assert labels(table) == ["", "samples", "area", "TDP", *PARAMETERS, "bound by"]
    assert len(table.rows) >= 3
    for number, (row, record) in enumerate(zip(cells(table), found.ranked, strict=True), 1):
        assert row[""] == str(number)
        check(row["samples"], rate(record, SAMPLES), "/s", "samples")
        check_area_and_power(row["area"], row["TDP"], record, "designs", space=found.space)
        for name in PARAMETERS:
            assert row[name].split(" ")[0] == f"{record.values[name]:g}"
        steps = found.bound(record).steps
        slowest = max(steps, key=lambda name: steps[name].latency_s)
        what, share = row["bound by"].rsplit(" ", 2)[0], " ".join(row["bound by"].rsplit(" ", 2)[1:])
        assert what == steps[slowest].limit
        check(share, steps[slowest].latency_s / record.metrics[f"{slowest}.latency_s"], "%", "bound by")


def test_headline(found: Mining) -> None:
    best = found.ranked[0]
    first, figures, count, *others = report.headline(found)
    assert first.startswith("edge, throughput: core_count ")
    check_words(
        figures,
        "  wide {wide}, long {long}; {area} mm², {power} W at full use",
        "headline",
        wide=(SAMPLES["wide"] / best.metrics["wide.latency_s"], "samples/s"),
        long=(SAMPLES["long"] / best.metrics["long.latency_s"], "samples/s"),
        area=(f"{best.metrics['area_mm2']:.1f}", ""),
        power=(f"{best.metrics['full_use_power_w']:.3g}", ""),
    )
    designs = math.prod(len(values) for values in RANGES.values())
    spent = f"{found.seconds:.1f} s ({found.cpu_seconds:.1f} s of CPU)"
    assert count == f"  {len(found.records)} evaluations of {designs} designs, {spent}"
    assert others
    assert found.search is not None
    for gap in (0.0, 0.034):
        said = report.headline(replace(found, search=_with_gap(found, gap)))[-1]
        assert said == (
            "  proved the best of the template, by bounds over all default plans"
            if not gap
            else "  no design is better by more than 3.4 %, by bounds over all default plans"
        )


class _Gap:
    def __init__(self, gap: float) -> None:
        self.gap = gap


def _with_gap(found: Mining, gap: float) -> Any:
    return _Gap(gap)


def test_what_workloads_lose(found: Mining) -> None:
    table = report.loss_table(found)
    assert labels(table) == ["workload", "common", "own", "loses", "its own design"]
    for row, name in zip(cells(table), MODELS, strict=True):
        common = found.ranked[0].metrics[f"{name}.latency_s"]
        own = min(record.metrics[f"{name}.latency_s"] for record in found.ranked)
        assert row["workload"] == name
        check(row["common"], common, "s", name)
        check(row["own"], own, "s", name)
        check(row["loses"], (common - own) / common, "%", name)
    slower = replace(found, records=tuple(reversed(found.records)))
    assert report.loss_table(slower).rows == table.rows


def test_loses_is_a_share_of_the_common_time(found: Mining) -> None:
    """With a design that is far better for one workload alone."""
    best = found.ranked[0]
    metrics = {**best.metrics, "long.latency_s": 0.2 * best.metrics["long.latency_s"]}
    metrics["wide.latency_s"] = 40 * best.metrics["wide.latency_s"]
    other = next(record for record in found.ranked if record.values != best.values)
    both = replace(found, records=(best, replace(other, metrics=metrics)))
    assert both.best == best
    row = cells(report.loss_table(both))[1]
    check(row["loses"], 0.8, "%", "loses")


def test_designs_beside_it(found: Mining) -> None:
    one, other = found.ranked[0], found.ranked[-1]
    beside = [Beside("by hand", "as others build", other, 2.5 * found.cost(one))]
    table = report.beside_table(found, beside)
    assert labels(table) == ["design", "samples", "area", "TDP", "cost of best's", ""]
    (row,) = cells(table)
    check(row["samples"], rate(other, SAMPLES), "/s", "beside")
    check_area_and_power(row["area"], row["TDP"], other, "beside", space=found.space)
    check(row["cost of best's"], 2.5, "×", "beside")
    values = report.summary(found, beside)["beside"][0]
    assert values["cost_over_best"] == pytest.approx(2.5)
    check_design(values, other, found)


def test_finalists(found: Mining) -> None:
    one, other = found.ranked[:2]
    cost = [found.cost(record) for record in (one, other)]
    faster = [
        replace(r, metrics={name: f * v if name.endswith("latency_s") else v for name, v in r.metrics.items()})
        for r, f in ((one, 0.95), (other, 0.5))
    ]
    last = [Finalist(one, faster[0], cost[0], 0.95 * cost[0]), Finalist(other, faster[1], cost[1], 0.5 * cost[1])]
    table = report.finalists_table(found, last)
    assert labels(table) == ["", "default plan", "searched fusion", "gain", "design"]
    for row, record, factor in zip(cells(table), (one, other), (0.95, 0.5), strict=True):
        check(row["default plan"], rate(record, SAMPLES), "/s", "finalists")
        check(row["searched fusion"], rate(record, SAMPLES) / factor, "/s", "finalists")
        check(row["gain"], 1 - factor, "%", "finalists")
    check_words(
        table.more,
        "with searched fusion design 2 is {ahead} ahead of design 1",
        "finalists",
        ahead=(1 - 0.5 * cost[1] / (0.95 * cost[0]), "%"),
    )
    values = report.summary(found, (), last)["finalists"]
    for each, record, again, factor in zip(values, (one, other), faster, (0.95, 0.5), strict=True):
        assert each["gain"] == pytest.approx(1 - factor)
        for name in MODELS:
            assert each["workloads"][name] == {
                "latency_s": record.metrics[f"{name}.latency_s"],
                "searched_latency_s": again.metrics[f"{name}.latency_s"],
                "searched_energy_j": again.metrics[f"{name}.energy_j"],
            }


def check_design(values: dict[str, Any], record: Record, found: Mining) -> None:
    assert values["parameters"] == dict(record.values)
    assert values["throughput"] == pytest.approx(rate(record, SAMPLES))
    assert values["area_mm2"] == record.metrics["area_mm2"]
    assert values["tdp_w"] == record.metrics["full_use_power_w"]
    latency = {name: record.metrics[f"{name}.latency_s"] for name in MODELS}
    assert values["cost"] == pytest.approx((latency["wide"] ** 3 * latency["long"]) ** 0.25)
    for name, each in values["workloads"].items():
        assert each == {
            "throughput": SAMPLES[name] / latency[name],
            "latency_s": latency[name],
            "energy_j": record.metrics[f"{name}.energy_j"],
            "bound_s": found.bound(record).steps[name].latency_s,
        }
        assert each["bound_s"] <= each["latency_s"]
    limits = values["limited_by"]
    assert limits["area"] == pytest.approx(record.metrics["area_mm2"] / 20.0)
    assert limits["power"] == pytest.approx(record.metrics["full_use_power_w"] / 2.0)
    assert 0 < limits["share"] <= 1


def test_plain_values(found: Mining) -> None:
    values = json.loads(json.dumps(report.summary(found)))
    assert set(values) == {
        "template",
        "method",
        "metric",
        "limits",
        "workloads",
        "best",
        "gap",
        "evaluations",
        "seconds",
        "cpu_seconds",
        "designs",
        "cut_by",
        "ranked",
        "front",
        "finalists",
        "beside",
        "notes",
        "interrupted",
    }
    assert values["limits"] == {"area_mm2": 20.0, "tdp_w": 2.0, "floor": None}
    assert values["gap"] == found.gap
    assert values["evaluations"] == len(found.records)
    for each, record in zip(values["ranked"], found.ranked, strict=False):
        check_design(each, record, found)
    assert [each["parameters"] for each in values["front"]] == [dict(record.values) for record in found.front()]
    counts = values["designs"]
    assert counts.pop("in the template") == sum(counts.values()) == math.prod(map(len, RANGES.values()))
    shown = {row[""]: row["number"] for row in cells(report.standing_table(found))}
    assert shown == {name: str(count) for name, count in counts.items() if count}


def test_page(found: Mining) -> None:
    points = drawn(page.front_figure(found))
    for name, records in (("evaluated", found.ranked), ("front", found.front())):
        expected = [(record.metrics["area_mm2"], rate(record, SAMPLES)) for record in records]
        assert points[name] == [(area, pytest.approx(value)) for area, value in expected]
    assert found.search is not None
    history = drawn(page.history_figure(found.search))
    assert [best for _, best in history["best found"]][-1] == found.search.best == found.cost(found.ranked[0])
    assert all(
        bound <= found.search.best * (1 + 1e-12) or math.isinf(bound) for _, bound in history["smallest bound left"]
    )
    panels = page.panels(found)
    check_on_page(panels, report.designs_table(found, "Front over area", found.front()), report.loss_table(found))
    (panel,) = [each for each in panels if each.title == "Design 2"]
    above = found.cost(found.ranked[1]) / found.cost(found.ranked[0]) - 1
    check(panel.about.rsplit(". ", 1)[1].removesuffix(" above the best."), above, "%", "drawing")


# --- together with options of training --------------------------------------------------------------------------------


def joint_cost(record: Record) -> float:
    """Seconds times joules, each per sample, as a weighted geometric mean over workloads."""
    samples = record.values["batch"]
    logs = [
        WEIGHTS[name] * math.log(record.metrics[f"{name}.latency_s"] * record.metrics[f"{name}.energy_j"] / samples**2)
        for name in MODELS
    ]
    return math.exp(sum(logs) / 4)


def joint_rate(record: Record) -> float:
    return rate(record, dict.fromkeys(MODELS, record.values["batch"]))


def test_costs_are_per_sample(joint: JointMining) -> None:
    for record in joint.ranked:
        assert joint.cost(record) == pytest.approx(joint_cost(record))
    assert {record.values["batch"] for record in joint.records} <= {2, 8}
    assert joint.gap == max(each.search.gap for each in joint.combinations if each.search)


def test_gap_is_that_of_the_least_proved_combination(joint: JointMining) -> None:
    gaps = (0.25, 0.5, 0.0, None)
    fake = tuple(
        replace(each, search=None if gap is None else _Gap(gap))  # type: ignore[arg-type]
        for each, gap in zip(joint.combinations, gaps, strict=True)
    )
    assert replace(joint, combinations=fake).gap == 0.5


def test_combinations(joint: JointMining) -> None:
    table, best = joint_report.combinations_table(joint), joint_cost(joint.ranked[0])
    assert [heading.label for heading in table.columns] == [
        *JOINT_SAMPLES,
        "",
        "evaluated",
        "best of it",
        "on the best design",
        "bound",
        "why",
    ]
    values = joint_report.summary(joint)["choices"]
    for row, each, plain in zip(table.rows, joint.combinations, values, strict=True):
        batch, precision, state, evaluated, own, same, bound, why = map(str, row)
        assert each.search is not None
        assert (batch, precision, state, why) == (
            str(each.options["batch"]),
            each.options["precision"],
            each.state,
            each.why,
        )
        mine = [
            joint_cost(record)
            for record in joint.ranked
            if all(record.values[name] == value for name, value in each.options.items())
        ]
        assert evaluated == str(len(each.search.evaluated)) == str(plain["evaluations"])
        assert own == (f"{min(mine) / best:.3g}×" if mine else "")
        assert plain["best"] == (pytest.approx(min(mine)) if mine else None)
        design = {name: value for name, value in joint.ranked[0].values.items() if name not in joint.options}
        alike = [
            joint_cost(record)
            for record in joint.ranked
            if record.values == record.values | design | dict(each.options)
        ]
        assert same == (f"{alike[0] / best:.3g}×" if alike else "")
        assert plain["on_best_design"] == (pytest.approx(alike[0]) if alike else None)
        least = each.lowest
        assert bound == (f"{least / best:.3g}×" if math.isfinite(least) else "")
        assert plain["least_bound"] == (least if math.isfinite(least) else None)


def test_joint_designs_and_headline(joint: JointMining) -> None:
    table = joint_report.designs_table(joint, "Best designs", joint.ranked)
    assert labels(table)[1:] == [*JOINT_SAMPLES, "cost", "area", "TDP", "limit", "design"]
    for row, record in zip(cells(table), joint.ranked, strict=True):
        assert (row["batch"], row["precision"]) == (str(record.values["batch"]), record.values["precision"])
        assert row["cost"] == f"{joint_cost(record) / joint_cost(joint.ranked[0]):.3g}×"
        check_area_and_power(row["area"], row["TDP"], record, "joint", space=joint.space)
    best = joint.ranked[0]
    _, figures, counts, _ = joint_report.headline(joint)
    samples = best.values["batch"]
    check_words(
        figures,
        "  wide {wide}, long {long}; {area} mm², {power} W at full use",
        "headline",
        wide=(samples / best.metrics["wide.latency_s"], "samples/s"),
        long=(samples / best.metrics["long.latency_s"], "samples/s"),
        area=(f"{best.metrics['area_mm2']:.1f}", ""),
        power=(f"{best.metrics['full_use_power_w']:.3g}", ""),
    )
    cut = sum(each.state == "cut" for each in joint.combinations)
    assert counts.startswith(f"  4 combinations, {cut} cut without a schedule; {len(joint.records)} evaluations, ")


def test_joint_plain_values_and_page(joint: JointMining) -> None:
    values = json.loads(json.dumps(joint_report.summary(joint)))
    for each, record in zip(values["ranked"], joint.ranked, strict=False):
        samples = record.values["batch"]
        assert each["choice"] == {name: record.values[name] for name in JOINT_SAMPLES}
        assert each["throughput"] == pytest.approx(joint_rate(record))
        assert each["cost"] == pytest.approx(joint_cost(record))
        assert (each["area_mm2"], each["tdp_w"]) == (record.metrics["area_mm2"], record.metrics["full_use_power_w"])
        for name, workload in each["workloads"].items():
            latency = record.metrics[f"{name}.latency_s"]
            assert workload == {
                "throughput": samples / latency,
                "latency_s": latency,
                "energy_j": record.metrics[f"{name}.energy_j"],
                "memory_bytes": record.metrics[f"{name}.memory_bytes"],
            }
    assert [step["best"] for step in values["steps"]] == [
        step.best if math.isfinite(step.best) else None for step in joint.steps
    ]
    points = drawn(joint_page.front_figure(joint))
    assert points["evaluated"] == [
        (record.metrics["area_mm2"], pytest.approx(joint_rate(record))) for record in joint.ranked
    ]
    front = [record.metrics["area_mm2"] for record in joint.front()]
    assert [area for area, _ in points["front"]] == front == sorted(front, reverse=True)
    check_on_page(joint_page.panels(joint), joint_report.combinations_table(joint), joint_report.steps_table(joint))


# --- a pipeline -------------------------------------------------------------------------------------------------------


def chosen(found: StageMining) -> dict[str, Choice]:
    known = {name: getattr(found.chosen, name) for name in stage_report.WORDS}
    return {name: choice for name, choice in known.items() if choice is not None}


def test_choices(piped: StageMining) -> None:
    table = stage_report.choices_table(piped)
    assert labels(table) == ["design", "samples", "step", "per TDP", "area", "TDP", "kinds", "most waiting"]
    values = json.loads(json.dumps(stage_report.summary(piped)))
    assert len(chosen(piped)) == 3
    for row, (name, choice) in zip(cells(table), chosen(piped).items(), strict=True):
        area, power = (
            2 * sum(record.metrics[key] for record in choice.designs) for key in ("area_mm2", "full_use_power_w")
        )
        assert row["design"] == stage_report.WORDS[name]
        check(row["samples"], 16 / choice.seconds, "/s", name)
        check(row["step"], choice.seconds, "s", name)
        check(row["per TDP"], 16 / choice.seconds / power, "/J", name)
        assert float(row["area"].removesuffix(" mm²").replace(",", "")) == pytest.approx(area, abs=0.501)
        assert float(row["TDP"].removesuffix(" W").replace(",", "")) == pytest.approx(power, rel=1e-3)
        assert row["kinds"] == str(len({str(record.values) for record in choice.designs}))
        check(row["most waiting"], max(choice.bubble), "%", name)
        plain = values[name]
        assert plain["throughput"] == pytest.approx(16 / choice.seconds)
        assert plain["perf_per_tdp"] == pytest.approx(16 / choice.seconds / power)
        assert (plain["area_mm2"], plain["tdp_w"]) == (pytest.approx(area), pytest.approx(power))
        assert (plain["step_s"], plain["energy_j"], plain["cuts"]) == (
            choice.seconds,
            choice.energy_j,
            list(choice.cuts),
        )
        for stage, record, figures, waiting in zip(
            plain["stages"], choice.designs, choice.stages, choice.bubble, strict=True
        ):
            assert stage["design"] == dict(record.values)
            assert (stage["area_mm2"], stage["tdp_w"]) == (
                record.metrics["area_mm2"],
                record.metrics["full_use_power_w"],
            )
            assert (stage["forward_s"], stage["backward_s"]) == (figures.forward_s, figures.backward_s)
            assert stage["bubble"] == waiting
    assert len({round(share, 6) for choice in chosen(piped).values() for share in choice.bubble}) > 1


def test_headline_of_a_pipeline(piped: StageMining) -> None:
    one, each = piped.chosen.homogeneous, piped.chosen.heterogeneous
    assert one is not None
    assert each is not None
    faster = replace(each, throughput=1.3 * one.throughput, tdp_w=0.8 * one.tdp_w, area_mm2=0.65 * one.area_mm2)
    told = replace(piped, chosen=replace(piped.chosen, heterogeneous=faster))
    first, second, *_, last = stage_report.headline(told)
    assert first.endswith(": 3 stages × tensor 1 × data 2 on the network of edge-ethernet")
    assert second.startswith(
        f"  16 samples a step, 8 micro-batches of 1; {len(piped.records)} designs evaluated, {piped.tried:,} choices"
    )
    check_words(
        last,
        "  one design per stage: {more} more throughput than one for all, {watt} more of it per watt at full "
        "use, {area} of the area",
        "headline",
        more=(0.3, "%"),
        watt=(1.3 / 0.8 - 1, "%"),
        area=(0.65, "%"),
    )


def test_stages_of_a_choice(piped: StageMining) -> None:
    for name, choice in chosen(piped).items():
        table = stage_report.stages_table(piped, name)
        assert labels(table) == ["stage", "layers", "forward", "backward", "area", "TDP", *PARAMETERS]
        spans, shown = piped.problem.pipeline.spans(choice.cuts), 0
        for row in cells(table):
            first, _, last = row["stage"].partition("-")
            for number in range(int(first), int(last or first) + 1):
                stage, record = choice.stages[number], choice.designs[number]
                assert row["layers"] == str(len(spans[number]))
                check(row["forward"], stage.forward_s, "s", name)
                check(row["backward"], stage.backward_s, "s", name)
                check_area_and_power(row["area"], row["TDP"], record, name, space=piped.space)
                assert [row[each].split(" ")[0] for each in PARAMETERS] == [
                    f"{record.values[each]:g}" for each in PARAMETERS
                ]
                shown += 1
        assert shown == 3


def test_best_designs_of_each_stage(piped: StageMining) -> None:
    table, rows = stage_report.local_table(piped), []
    for kind in piped.kinds:
        for number, record in enumerate(kind.top, 1):
            rows.append((kind, number, record))
    assert [heading.label for heading in table.columns] == ["stage", "gap", "", "micro-batch", "area", *PARAMETERS]
    values = stage_report.summary(piped)["stages"]
    for shown, (kind, number, record) in zip(table.rows, rows, strict=True):
        stage, gap, place, took, area, *parameters = map(str, shown)
        if number == 1:
            assert stage.split("-")[0] == str(kind.stages[0])
            check(gap, kind.search.gap, "%", "gap")
        assert place == str(number)
        latency = record.metrics[f"stage{kind.kind}.latency_s"]
        check(took, latency, "s", "micro-batch")
        assert float(area.removesuffix(" mm²")) == pytest.approx(record.metrics["area_mm2"], abs=0.0501)
        assert [text.split(" ")[0] for text in parameters] == [f"{record.values[each]:g}" for each in PARAMETERS]
        plain = values[kind.kind]["designs"][number - 1]
        assert plain == {
            "parameters": dict(record.values),
            "area_mm2": record.metrics["area_mm2"],
            "tdp_w": record.metrics["full_use_power_w"],
            "micro_batch_s": latency,
        }
    for row, (one, each) in zip(stage_report.top_table(piped).rows, piped.chosen.by_top, strict=True):
        check(str(row[1]), one, "/s", "top")
        check(str(row[2]), each, "/s", "top")
    assert piped.chosen.homogeneous is not None
    assert piped.chosen.by_top[-1][0] == piped.chosen.homogeneous.throughput


def test_page_of_a_pipeline(piped: StageMining) -> None:
    lines = drawn(stage_page.stages_figure(piped))
    for name in ("homogeneous", "heterogeneous"):
        expected = [stage.forward_s + stage.backward_s for stage in chosen(piped)[name].stages]
        assert lines[stage_report.WORDS[name]] == list(enumerate(expected))
    kept = drawn(stage_page.top_figure(piped))
    assert kept["one for all"] == [(count, one) for count, (one, _) in enumerate(piped.chosen.by_top, 1)]
    assert kept["one per stage"] == [(count, each) for count, (_, each) in enumerate(piped.chosen.by_top, 1)]
    check_on_page(stage_page.panels(piped), stage_report.choices_table(piped), stage_report.local_table(piped))


def test_a_page_is_written(found: Mining, tmp_path: Path) -> None:
    page.write_mining(str(tmp_path / "page.html"), found)
    assert "wide, long on edge: mined for throughput" in (tmp_path / "page.html").read_text()
