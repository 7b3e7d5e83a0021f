"""The Python API as a notebook meets it: searches as functions, values that print in a line, tables, plots."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import monet
from monet.display import Displayed
from monet.report.dataframe import TABLES
from monet.report.notebook import VIEWS
from monet.search.hardware.exploration import Exploration
from tests.schedule.cases import accelerator
from tests.search.spaces import grid
from tests.search.test_allocation import chain
from tests.search.test_hardware_analysis import records


def _pair() -> dict[str, Any]:
    network = {"wire": {"size": 2, "bandwidth_bytes_per_s": 1e9, "latency_s": 1e-6}}
    return {"name": "pair", "devices": "micro-npu", "network": network}


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    """One of everything that a notebook may show, of a small network on a small chip."""
    step, chip = monet.training_step(monet.load_model("mlp-pusher")), monet.load_hardware("micro-npu")
    layers, mesh = chain(3), accelerator("mesh")
    fused = monet.fuse(layers, mesh, limit=2, effort=1)
    outcome = monet.checkpoint(step, "60%")
    space = grid(3, 3)
    return {
        "Graph": step,
        "Accelerator": chip,
        "Result": monet.evaluate(step, chip),
        "DistributedResult": monet.SystemRequest("mlp-pusher", system=_pair(), data=2, fusion="none").distribute(),
        "Plan": fused.plans["default"][0],
        "FoundFusion": fused,
        "Allocation": monet.allocate(layers, mesh, fusion="none", effort=1),
        "Outcome": outcome,
        "CheckpointPlan": outcome.plan,
        "ScheduledFront": monet.checkpoint_front(monet.Request("mlp-pusher", "micro-npu"), effort=1),
        "Exploration": Exploration(space, space.objectives, tuple(records(space))),
    }


@pytest.mark.parametrize("name", VIEWS)
def test_values_print_in_a_line_and_show_as_a_table(name: str, values: dict[str, Any]) -> None:
    value = values[name]
    assert isinstance(value, Displayed)
    assert repr(value).startswith(f"<{name} ")
    assert len(repr(value)) < 300
    assert "\n" not in repr(value)
    page = value._repr_html_()
    assert page.count("<div") == page.count("</div")
    assert len(page) < 60_000
    for what in TABLES[name]:
        frame = value.to_dataframe(what)
        assert len(frame) > 0
    assert value.to_dataframe().equals(value.to_dataframe(next(iter(TABLES[name]))))
    with pytest.raises(monet.MonetError, match="has no such table"):
        value.to_dataframe("nothing")


def test_frames_hold_the_figures(values: dict[str, Any]) -> None:
    result = values["Result"]
    frame = result.to_dataframe()
    assert frame["energy_j"].sum() == pytest.approx(sum(row.energy_j for row in result.operators))
    assert list(frame["name"]) == [row.name for row in result.operators]
    assert result.to_dataframe("timeline")["end_s"].max() == pytest.approx(result.latency_s)
    assert set(result.to_dataframe("phases")["phase"]) == set(result.phases)
    assert values["Graph"].to_dataframe()["macs"].sum() == monet.summarise(values["Graph"])["macs"]["total"]
    found = values["FoundFusion"].to_dataframe().set_index("plan")["latency_s"]
    assert found["found"] == values["FoundFusion"].plans["found"][1].latency_s


def test_searches_are_functions(values: dict[str, Any]) -> None:
    chip = values["Accelerator"]
    fused = values["FoundFusion"].plans["found"][0]
    again = monet.evaluate(chain(3), accelerator("mesh"), fused)
    assert again.latency_s == values["FoundFusion"].plans["found"][1].latency_s
    assert values["Outcome"].kept_bytes <= 0.6 * monet.summarise(values["Graph"])["saved_for_backward_bytes"]
    assert values["ScheduledFront"].front
    for wrong in (lambda: monet.fuse(values["Graph"]), lambda: monet.fuse(monet.Request("mlp-pusher"), chip)):
        with pytest.raises(monet.MonetError, match="hardware"):
            wrong()


@pytest.mark.slow
def test_explore_is_a_function(tmp_path: Path) -> None:
    space = {
        "name": "two",
        "hardware": "micro-npu",
        "parameters": {"sram_bytes": {"values": [524288, 1048576]}},
        "workloads": {"training": {"model": "mlp-pusher"}},
    }
    assert len(monet.explore(space, str(tmp_path / "two.sqlite")).to_dataframe()) == 2


def test_plots_are_figures_of_the_numbers(values: dict[str, Any]) -> None:
    from plotly.graph_objects import Figure

    result, plots = values["Result"], monet.plots
    assert max(bar.base[-1] + bar.x[-1] for bar in plots.timeline(result).data) <= 1e3 * result.latency_s * 1.0001
    memory = plots.memory(result)
    assert max(map(sum, zip(*(trace.y for trace in memory.data), strict=True))) == pytest.approx(
        result.dram_peak_bytes / 1e6
    )
    assert sum(plots.energy(result).data[0].y) == pytest.approx(result.energy_j)
    stacked = plots.time(result).data
    cores = [sum(trace.y[place] for trace in stacked) for place in range(len(result.cores))]
    assert cores == pytest.approx([1e3 * result.latency_s] * len(cores))
    assert isinstance(plots.roofline(result), Figure)
    for name in ("Allocation", "ScheduledFront", "Exploration"):
        assert isinstance(plots.front(values[name]), Figure)
    with pytest.raises(monet.MonetError, match="no memory 'l9'"):
        plots.memory(result, "l9")
    with pytest.raises(monet.MonetError, match="front of a Result"):
        plots.front(result)


def test_pandas_is_needed_only_when_used(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(monet.MonetError, match=r"pip install 'monet-train\[pandas\]'"):
        values["Result"].to_dataframe()


def test_import_is_light() -> None:
    heavy = ("numpy", "rich", "plotly", "pandas", "numba")
    code = f"import monet, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
