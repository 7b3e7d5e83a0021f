"""Tables, plots and findings of studies against the values they are made of: written down here, all different."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from monet.request import Request
from monet.studies import edge_tpu, fusion, mx_learning, wham_pipelines
from tests.report.reading import check


def drawn(figure: Any) -> dict[str, tuple[list[float], list[float]]]:
    return {trace["name"]: (list(trace["x"]), list(trace["y"])) for trace in figure["data"]}


# --- fusion -----------------------------------------------------------------------------------------------------------

REFERENCES = {
    "unfused": {"latency_s": 5e-3, "energy_j": 9e-3, "dram_bytes": 8e6},
    "manual": {"latency_s": 4e-3, "energy_j": 8e-3, "dram_bytes": 6e6},
}


def row(objective: str, limit: int, latency: float, energy: float, groups: int) -> dict[str, Any]:
    return {
        "objective": objective, "limit": limit, "latency_s": latency, "energy_j": energy, "dram_bytes": 1e6 * limit,
        "groups": groups, "latency_vs_manual": latency / 4e-3 - 1, "energy_vs_manual": energy / 8e-3 - 1,
    }  # fmt: skip


ROWS = [row("latency", 2, 3.6e-3, 7.6e-3, 11), row("latency", 6, 3e-3, 7.2e-3, 12), row("energy", 6, 3.2e-3, 7e-3, 13)]
FUSION = {"rows": ROWS, "references": REFERENCES, "published": fusion.PUBLISHED}


def test_plots_of_the_study_of_fusion() -> None:
    latency, energy, _ = fusion._panels(FUSION)
    for panel, (x, y), manual, unfused, name in (
        (latency, ([2, 6], [3.6, 3.0]), 4.0, 5.0, "latency"), (energy, ([6], [7.0]), 8.0, 9.0, "energy"),
    ):  # fmt: skip
        shown = drawn(panel.figure)
        assert shown["found"] == (x, pytest.approx(y))
        assert shown["manual"] == (x, pytest.approx([manual] * len(x)))
        assert shown["unfused"] == (x, pytest.approx([unfused] * len(x)))
        gain = fusion.PUBLISHED[name]
        assert gain < 0  # less than the manual plan takes
        assert shown["published: manual less its gain"] == ([fusion.AT], pytest.approx([manual + manual * gain]))
        unit = {"latency": "ms", "energy": "mJ"}[name]
        assert panel.figure is not None
        assert panel.figure["layout"]["yaxis"]["title"]["text"] == f"{name} of a step ({unit})"


def test_table_of_the_study_of_fusion() -> None:
    *cells, published = fusion._cells(FUSION)
    given = [*({"name": name} | one for name, one in REFERENCES.items()), *ROWS]
    for shown, one in zip(cells, given, strict=True):
        for text, key, unit in zip(shown[2:7:2], ("latency_s", "energy_j", "dram_bytes"), ("s", "J", "B"), strict=True):
            check(text, one[key], unit, key)
        if "name" in one:
            assert (shown[1], shown[3], shown[5], shown[7]) == (one["name"], "", "", "")
        else:
            assert shown[:2] == [f"for {one['objective']}", f"limit {one['limit']}"]
            assert float(shown[3].removesuffix(" %")) == pytest.approx(100 * (one["latency_s"] / 4e-3 - 1), abs=0.051)
            assert float(shown[5].removesuffix(" %")) == pytest.approx(100 * (one["energy_j"] / 8e-3 - 1), abs=0.051)
            assert shown[7] == str(one["groups"])
    assert [float(published[place].removesuffix(" %")) for place in (3, 5)] == [
        pytest.approx(100 * fusion.PUBLISHED[name], abs=0.51) for name in ("latency", "energy")
    ]
    line = fusion._line(ROWS[0])
    assert re.sub(r"[\d.]+", "#", line) == "latency, limit #: # ms (-# % against manual), # mJ (-# %)"
    assert [float(each) for each in re.findall(r"[-+]?[\d.]+", line)] == pytest.approx([2, 3.6, -10, 7.6, -5])


# --- mining of pipelines ----------------------------------------------------------------------------------------------


def choice(throughput: float, tdp_w: float) -> SimpleNamespace:
    designs = [SimpleNamespace(values={"rows": 16, "lanes": 8})]
    return SimpleNamespace(throughput=throughput, tdp_w=tdp_w, perf_per_tdp=throughput / tdp_w, designs=designs)


def mined(one: float, many: float, kept: list[float]) -> Any:
    by_top = [(worth, SimpleNamespace()) for worth in kept]
    chosen = SimpleNamespace(
        homogeneous=choice(one, 5.0), heterogeneous=choice(many, 8.0), thrifty=choice(0.99 * one, 4.0),
        by_top=by_top,
    )  # fmt: skip
    plan = SimpleNamespace(pipeline=4, tensor=2)
    return SimpleNamespace(chosen=chosen, problem=SimpleNamespace(plan=plan), records=[None] * 7, cpu_seconds=33.0)


def test_findings_of_pipelines() -> None:
    found = {"a": mined(10.0, 12.0, [10.0, 10.5, 11.0]), "b": mined(20.0, 20.0, [20.0, 20.0])}
    unlike, kept = wham_pipelines._unlike(found), wham_pipelines._kept(found)
    assert unlike.values["gain"] == pytest.approx({"a": 1.2, "b": 1.0})
    assert kept.values["gain"] == pytest.approx({"a": 1.1, "b": 1.0})
    assert "a 20 % (1 % slower: 20 % less power" in unlike.ours.replace(".0 %", " %")
    assert kept.ours.replace(".0 %", " %").startswith("one design for all, 3 kept instead of 1: a 10 %, b 0 %")
    assert unlike.holds == (wham_pipelines.WORTHWHILE < 1.2)
    assert kept.holds == (wham_pipelines.WORTHWHILE < 1.1)
    same = {"b": found["b"]}
    assert not wham_pipelines._unlike(same).holds
    assert not wham_pipelines._kept(same).holds
    name, degrees, one, many, per_one, per_many, count, seconds, design = wham_pipelines._table(found).rows[0]
    assert (name, degrees, count, seconds, design) == ("a", "4 × 2", "7", "33 s", "rows 16, lanes 8")
    for text, value, unit in (
        (one, 10.0, "/s"), (many, 12.0, "/s"), (per_one, 2.0, "/J"), (per_many, 1.5, "/J"),
    ):  # fmt: skip
        check(text, value, unit, "throughput")


# --- loss against energy ----------------------------------------------------------------------------------------------


def test_energy_is_of_a_whole_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx_learning, "NPUS", ("dacapo",))
    ((npu, joules),) = mx_learning.step_energies("mx6").items()
    asked = Request(mx_learning.NETWORK, npu, precision="mx6", batch=mx_learning.BATCH, optimizer=mx_learning.OPTIMIZER)
    assert joules == asked.evaluate().energy_j


def test_losses_are_means_of_the_last_ten() -> None:
    losses = [float(each) for each in np.random.default_rng(0).random(25)]
    found = mx_learning.smoothed(SimpleNamespace(losses=losses))  # type: ignore[arg-type]
    assert found == pytest.approx([np.mean(losses[max(0, each - 9) : each + 1]) for each in range(25)])


def test_the_goal_is_reached_with_least_energy() -> None:
    one, two = mx_learning.NPUS[:2]
    rows: list[dict[str, Any]] = [
        {"policy": "fp32", "last": 0.5, "losses": [1.0, 0.5], "steps_to_goal": 2, "step_energy_j": {one: 1e-6}},
        {"policy": "mxfp8", "last": 0.6, "losses": [1.0, 0.6], "steps_to_goal": 10, "step_energy_j": {one: 3e-3}},
        {"policy": "mx6", "last": 0.55, "losses": [0.9, 0.55], "steps_to_goal": 40, "step_energy_j": {two: 5e-4}},
        {"policy": "mx4", "last": 2.0, "losses": [3.0, 2.0], "steps_to_goal": None, "step_energy_j": {two: 1e-9}},
    ]
    assert mx_learning.best(rows) == ("mx6", two, pytest.approx(0.02))  # fp32 is what they are compared with
    shown = mx_learning.learning_table(rows).rows
    assert [each[:4] for each in shown] == [
        ("fp32", "0.5000", "1.00×", "2"), ("mxfp8", "0.6000", "1.20×", "10"), ("mx6", "0.5500", "1.10×", "40"),
        ("mx4", "2.0000", "4.00×", "never"),
    ]  # fmt: skip
    assert [each[4:6] for each in shown] == [("0.00", ""), ("30.00", ""), ("", "20.00"), ("", "never")]
    curves = drawn(mx_learning.loss_against_energy(rows))
    assert curves[f"mxfp8 on {one}"] == (pytest.approx([3.0, 6.0]), [1.0, 0.6])
    assert curves[f"mx6 on {two}"] == (pytest.approx([0.5, 1.0]), [0.9, 0.55])


# --- designs for inference and training -------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "holds"), [(0.4, True), (0.6, False)])
def test_fronts_differ_where_few_are_on_both(monkeypatch: pytest.MonkeyPatch, share: float, holds: bool) -> None:
    fronts = SimpleNamespace(first_size=9, second_size=7, common=3, share=share, hypervolume_ratio=1 - share)
    monkeypatch.setattr(edge_tpu, "overlap", lambda *given: fronts)
    found = edge_tpu.fronts_differ(None, [])  # type: ignore[arg-type]
    assert found.holds is holds
    assert found.values == {
        "inference": 9, "training": 7, "common": 3, "share": share, "hypervolume_ratio": 1 - share,
    }  # fmt: skip
    assert re.findall(r"\d+ designs|\d+ and|\d+ on both", found.ours) == ["9 and", "7 designs", "3 on both"]
