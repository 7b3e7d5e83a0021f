"""What ``fuse``, ``allocate``, ``checkpoint`` and ``train`` print against what they write as JSON, figure by figure;
and the JSON against what was costed. A heading that no table lists fails."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from monet import Request
from monet.cli import app
from tests.report.reading import check

MLP = "mlp:widths=16-32-32-8"
ON = ("--hardware", "micro-npu", "--batch", "4")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(lines printed, values written) of a command, run once."""
    known: dict[tuple[str, ...], tuple[list[str], Any]] = {}

    def of(*arguments: str) -> tuple[list[str], Any]:
        if arguments not in known:
            file = tmp_path_factory.mktemp("said") / "found.json"
            done = CliRunner().invoke(app, [*arguments, "--json", str(file)], env={"COLUMNS": "400"})
            assert done.exit_code == 0, (done.output, done.exception)
            known[arguments] = [line.rstrip() for line in done.stdout.splitlines()], json.loads(file.read_text())
        return known[arguments]

    return of


def table(lines: list[str], heads: list[str], count: int) -> list[list[str]]:
    """So many rows below a line of headings; a cell that is empty is so."""
    place = next(
        number for number, line in enumerate(lines) if re.split(r"  +", line.strip()) == [h for h in heads if h]
    )
    rows, ends = [], _ends(lines[place], heads)
    for line in lines[place + 1 : place + 1 + count]:
        rows.append(_cells(line, ends))
    return rows


def _ends(line: str, heads: list[str]) -> list[int]:
    """Where each column ends: figures are right-aligned under their headings."""
    ends, at = [], 0
    for head in heads:
        at = line.index(head, at) + len(head)
        ends.append(at)
    return ends


def _cells(line: str, ends: list[int]) -> list[str]:
    found, first = [], 0
    for number, end in enumerate(ends):
        stop = len(line) if number == len(ends) - 1 else end
        if number == 0:  # names are left-aligned and may be longer than their heading
            stop = max(end, len(re.match(r"(\S+ ?)*", line)[0]))  # type: ignore[index]
        found.append(line[first:stop].strip())
        first = stop
    return found


def change(value: float, reference: float, digits: int = 1) -> str:
    return f"{100 * (value / reference - 1):+.{digits}f} %"


@pytest.mark.slow
def test_fuse(said: Any) -> None:
    lines, values = said("fuse", MLP, *ON, "--mode", "inference", "--effort", "1", "--limit", "3")
    heads = ["plan", "latency", "vs unfused", "energy", "vs unfused", "off-chip", "vs unfused", "groups", "fused"]
    plans = values["plans"]
    rows = table(lines, heads, len(plans))
    unfused = next(plan for plan in plans if plan["name"] == "unfused")
    assert len(rows) == len(plans) >= 4
    for row, plan in zip(rows, plans, strict=True):
        name, latency, slower, energy, more, moved, further, groups, fused = row
        assert name == plan["name"]
        for text, key, unit in ((latency, "latency_s", "s"), (energy, "energy_j", "J"), (moved, "dram_bytes", "B")):
            check(text, plan[key], unit, f"{name}, {key}")
        for text, key in ((slower, "latency_s"), (more, "energy_j"), (further, "dram_bytes")):
            assert text == ("" if plan is unfused else change(plan[key], unfused[key])), (name, key)
        assert (groups, fused) == tuple(
            "" if plan[key] is None else str(plan[key]) for key in ("groups", "fused_operators")
        )
        assert plan["edp_js"] == pytest.approx(plan["latency_s"] * plan["energy_j"], rel=1e-9, abs=0)
    found = next(plan for plan in plans if plan["name"] == "found")
    again = Request(MLP, "micro-npu", batch=4, mode="inference", fusion=values["plan"]).evaluate()
    assert (again.latency_s, again.energy_j, again.dram_bytes.total) == (
        found["latency_s"], pytest.approx(found["energy_j"], rel=1e-9, abs=0), found["dram_bytes"],
    )  # fmt: skip
    assert values["off_chip"]["found_bytes"] == found["dram_bytes"]
    assert values["off_chip"]["unfused_bytes"] == unfused["dram_bytes"]


@pytest.mark.slow
def test_allocate(said: Any) -> None:
    lines, values = said(
        "allocate", MLP, "--hardware", "edge-tpu", "--batch", "4", "--mode", "inference", "--effort", "1"
    )
    heads = ["plan", "latency", "cycles", "energy", "EDP", "off-chip", "latency ×", "EDP ×", ""]
    best = next(plan for plan in values["plans"] if plan["name"] == "found")
    for row, plan in zip(table(lines, heads, len(values["plans"])), values["plans"], strict=True):
        name, latency, cycles, energy, edp, moved, slower, worse = row[:8]
        assert name == plan["name"]
        check(latency, plan["latency_s"], "s", name)
        assert int(cycles.replace(",", "")) == round(plan["latency_s"] * 8e8)
        check(energy, plan["energy_j"], "J", name)
        product = plan["latency_s"] * plan["energy_j"]
        assert float(edp.removesuffix(" J·s")) == pytest.approx(product, rel=1e-3, abs=0)
        assert plan["edp_js"] == pytest.approx(product, rel=1e-9, abs=0)
        if plan["dram_bytes"] is None:
            assert moved == ""
        else:
            check(moved, plan["dram_bytes"], "B", name)
        assert float(slower.removesuffix("×")) == pytest.approx(plan["latency_s"] / best["latency_s"], abs=6e-4)
        assert float(worse.removesuffix("×")) == pytest.approx(product / best["edp_js"], rel=2e-3)


def test_checkpoint_by_work(said: Any) -> None:
    lines, values = said("checkpoint", MLP, "--batch", "64", "--budget", "50%")
    place = next(number for number, line in enumerate(lines) if line.startswith("Beside the baselines"))
    plans = [(f"chosen ({values['method']})", values), *((plan["method"], plan) for plan in values["baselines"])]
    assert lines[place + 1].split() == ["kept", "of", "all", "again", "above", "optimum", "peak", "in"]
    for line, (name, plan) in zip(lines[place + 2 :], plans, strict=False):
        shown, kept, share, again, _, peak, where = re.split(r"  +", line.strip())
        assert shown == name
        check(kept, plan["kept_bytes"], "B", name)
        assert float(share.removesuffix(" %")) == pytest.approx(
            100 * plan["kept_bytes"] / values["keep_all_bytes"], abs=0.051
        )
        assert float(again.removesuffix(" %")) == pytest.approx(100 * plan["recompute_over_forward"], abs=0.0051)
        check(peak, plan["peak"]["bytes"], "B", name)
        assert where == plan["peak"]["operator"]
    assert f"keeps {_bytes(values['keep_all_bytes'])} from forward to backward" in lines[0]


def test_checkpoint_through_the_schedule(said: Any) -> None:
    lines, values = said("checkpoint", MLP, *ON, "--method", "recompute-all")
    place, plain = next(number for number, line in enumerate(lines) if line == "Baselines"), values["plain"]
    plans = values["baselines"]
    assert lines[place + 1].split() == [
        "peak", "kept", "latency", "energy", "DRAM", "traffic", "again", "above", "least", "peak", "in",
    ]  # fmt: skip
    for line, plan in zip(lines[place + 2 :], plans, strict=False):
        name, peak, kept, latency, energy, moved, again, above, where = re.split(r"  +", line.strip())
        assert name.removesuffix(" (exceeds DRAM)") == plan["method"]
        check(peak, plan["memory_peak_bytes"], "B", name)
        check(kept, plan["kept_bytes"], "B", name)
        for text, key in ((latency, "latency_s"), (energy, "energy_j"), (moved, "dram_bytes")):
            assert text == change(plan[key], plain[key], 2), (name, key)
        assert float(again.removesuffix(" %")) == pytest.approx(100 * plan["recompute_over_forward"], abs=0.0051)
        assert float(above) == pytest.approx(100 * plan["gap"], abs=0.0051)
        assert where == plan["peak_operator"]
    whole = Request(MLP, "micro-npu", batch=4).evaluate()
    assert plain["latency_s"] == whole.latency_s
    assert f"{_bytes(plain['memory_peak_bytes'])} in {plain['peak_operator']}" in lines[0]


def _bytes(value: float) -> str:
    scale, prefix = (1e3, "k") if value < 999_950 else (1e6, "M")
    return f"{value / scale:.4g} {prefix}B"


def test_train(said: Any) -> None:
    lines, values = said("train", "mlp:widths=6-8-8-4", "--precision", "mxfp8", "--steps", "14", "--seed", "3")
    narrow, wide = (curve["losses"] for curve in values["curves"])
    assert [len(narrow), len(wide)] == [14, 14]
    rows = table(lines, ["step", "mxfp8", "fp32"], 9)
    for step, *losses in rows:
        if step == "mean of last 10":
            expected = [sum(curve[-10:]) / 10 for curve in (narrow, wide)]
            assert expected == pytest.approx([curve["last"] for curve in values["curves"]])
        else:
            expected = [curve[int(step) - 1] for curve in (narrow, wide)]
        if losses[0]:
            assert [float(loss) for loss in losses] == pytest.approx(expected, rel=1e-3)
    assert rows[0][0] == "1"
    ends = sum(narrow[-10:]) / sum(wide[-10:])
    (line,) = [line for line in lines if line.startswith("mxfp8 ends at ")]
    assert float(line.split()[3]) == pytest.approx(ends, rel=1e-2)
