"""Requests with a system: options from one declaration, refused where they have no effect, recorded and rerun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from monet.cli import app
from monet.commands.options import flag_of
from monet.distributed.result import DistributedResult
from monet.errors import MonetError, OptionError
from monet.hardware.errors import DescriptionError
from monet.mapping.cost_store import CostStore
from monet.options import options_of
from monet.request import Request
from monet.request.system_request import DEGREES, NEEDS, NOT_OF_A_SYSTEM, SystemRequest
from tests.request.models import write_onnx, write_python
from tests.request.probes import PROBES as PROBES_OF_A_DEVICE

GPT = "gpt:layers=4,hidden=16,heads=2,vocabulary=32,positions=8,sequence=8"
SYSTEM = {
    "name": "boards",
    "devices": "micro-npu",
    "network": {"board": {"size": 8, "bandwidth_bytes_per_s": 1e9, "latency_s": 1e-6}},
}
OWN = ("system", "devices", *DEGREES)
# every degree: a value, and where it is seen; given beside it
PROBES: dict[str, tuple[Any, dict[str, Any]]] = {
    "devices": (2, {}), "micro_batch": (2, {}), "data": (2, {}), "tensor": (2, {}), "pipeline": (2, {}),
    "sequence_parallel": (True, {"tensor": 2}), "interleave": (2, {"pipeline": 2}),
    "pipeline_schedule": ("gpipe", {"pipeline": 2}), "shard": ("states", {"data": 2}), "recompute": ("full", {}),
    "cuts": ("1", {"pipeline": 2}), "bucket_bytes": (100, {"data": 2}), "batch_norm": ("local", {"data": 2}),
    "tensor_split": ("rows", {"tensor": 2}), "gradient_format": ("bf16", {}),
    "offload": ("both", {"system": {**SYSTEM, "devices": "edge-tpu"}, "optimizer": "adam"}),
}  # fmt: skip


def test_every_degree_has_a_probe_and_is_an_option_of_run() -> None:
    assert set(PROBES) == {"devices", *DEGREES}
    assert set(options_of(SystemRequest)) - set(options_of(Request)) == set(OWN)
    shown = CliRunner().invoke(app, ["run", "--help"], terminal_width=200).output
    for name in OWN:
        assert flag_of(options_of(SystemRequest)[name]) in shown


@pytest.mark.parametrize("name", PROBES)
def test_a_degree_has_its_effect(name: str) -> None:
    value, more = PROBES[name]
    asked = {"system": SYSTEM, "batch": 8, "fusion": "none", **more}
    usual, given = SystemRequest(GPT, **asked), SystemRequest(GPT, **asked, **{name: value})
    if name == "tensor_split":  # of images: a transformer has none
        assert usual.parallel_plan() != given.parallel_plan()
        return
    before, after = usual.distribute(), given.distribute()
    assert before.parallel != after.parallel
    if name == "batch_norm":  # a transformer has no use for it
        return
    assert before.latency_s != after.latency_s or before.peak_memory_bytes != after.peak_memory_bytes
    assert Request.from_json  # a plain request does not know it
    with pytest.raises(OptionError, match="give system too"):
        SystemRequest(GPT, "micro-npu", **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("hardware", "edge-tpu"), ("micro_batches", 2), ("checkpoint", "recompute-all"), ("phases", "forward"),
     ("boundary", "dram"), ("mode", "inference"), ("allocation", {"a": {"cores": ["npu"]}})],
)  # fmt: skip
def test_what_is_of_one_device_is_refused(name: str, value: Any) -> None:
    assert name in NOT_OF_A_SYSTEM
    with pytest.raises(OptionError, match="has no effect on a system"):
        SystemRequest(GPT, system=SYSTEM, batch=8, **{name: value})


def test_values_of_devices_and_of_the_network_are_set() -> None:
    """What is not below a level of the network is of the devices; a result records what came of it."""
    setting = {"host_dispatch_s": "3 us", "network.nvlink.launch_s": "7 us"}
    request = SystemRequest(GPT, system="dgx-a100", set=setting)
    system = request.load_system()
    assert {part.accelerator.host_dispatch_s for part in system.devices} == {3e-6}
    assert [level.launch_s for level in system.levels if level.name == "nvlink"] == [7e-6]
    usual = SystemRequest(GPT, system="dgx-a100").load_system()
    assert [part.key for part in usual.devices] != [part.key for part in system.devices]
    recorded = request.to_json()
    assert recorded["set"] == {}
    again = SystemRequest(GPT, system=recorded["system"]).load_system()
    assert again.levels == system.levels
    assert [part.key for part in again.devices] == [part.key for part in system.devices]
    with pytest.raises(DescriptionError, match="no parameter 'launch_s'"):
        SystemRequest(GPT, system="dgx-a100", set={"launch_s": 1}).load_system()
    with pytest.raises(DescriptionError, match=r"network\.nvlink\.speed"):
        SystemRequest(GPT, system="dgx-a100", set={"network.nvlink.speed": 1}).load_system()


@pytest.mark.parametrize("name", NEEDS)
def test_what_nobody_shares_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=f"has no effect with {NEEDS[name]}=1; leave it out"):
        SystemRequest(GPT, system=SYSTEM, batch=8, **{name: PROBES[name][0]}).parallel_plan()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name → the model and the sizes it is given, as of ``tests/request/test_options.py``."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "net": (write_onnx(folder / "net.onnx"), {}),
        "torch": (write_python(folder / "two.py"), {"inputs": "2x8"}),
        "attention": ("gpt:layers=1,hidden=32,heads=2,vocabulary=64", {"sequence": 2}),
    }


@pytest.mark.parametrize("name", [name for name in options_of(Request) if name != "model"])
def test_every_option_of_a_request_reaches_the_stages_or_is_refused(
    name: str, models: dict[str, tuple[str, dict[str, Any]]]
) -> None:
    """By the programs of a stage, the batch, and what chooses plans and mappings."""
    probe, declared = PROBES_OF_A_DEVICE[name], options_of(Request)
    model, sizes = models[probe.model]
    usual = {each: declared[each].read(value) for each, value in (sizes | probe.more).items() if each != "hardware"}
    given = {"inputs": "2x3x8", "dimensions": "rows=6"}.get(name, probe.given)
    more = {"batch": 4} if name == "micro_batches" else {}
    value = given if isinstance(given, dict) else declared[name].read(given)
    if name in NOT_OF_A_SYSTEM or name == "dimensions":
        reason = "one of these is the batch" if name == "dimensions" else "has no effect on a system"
        with pytest.raises(OptionError, match=reason):
            programs(SystemRequest(model, system=SYSTEM, **usual, **more, **{name: value}))
        return
    before = programs(SystemRequest(model, system=SYSTEM, **usual))
    assert programs(SystemRequest(model, system=SYSTEM, **{**usual, name: value})) != before


def programs(request: SystemRequest) -> tuple[Any, ...]:
    coster, plan = request.coster(CostStore()), request.parallel_plan()
    stage = coster.graphs(plan, 1, 0).stages[0]
    devices = tuple(part.key for part in request.load_system().devices)
    return str(stage.micro), str(stage.update), request.whole_batch(plan), coster.fusion, coster.objective, devices


def test_a_batch_that_is_left_out_fills_the_pipeline() -> None:
    found = SystemRequest(GPT, system=SYSTEM, fusion="none", data=2, pipeline=4, micro_batch=2).distribute()
    assert (found.batch, found.micro_batches) == (2 * 4 * 2, 4)


def test_commands_write_read_rerun_and_compare(tmp_path: Path) -> None:
    file, first, second = tmp_path / "boards.yaml", tmp_path / "a.json", tmp_path / "b.json"
    file.write_text(yaml.safe_dump(SYSTEM))
    run = ["run", GPT, "--system", str(file), "--batch", "8", "--fusion", "none", "--data", "2"]
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    made = CliRunner().invoke(app, [*run, "--json", str(first), "--report", str(page), "--trace", str(trace)])
    assert made.exit_code == 0, made.output
    assert "Where a device's time goes" in made.output
    values = json.loads(first.read_text())
    assert {"latency_s", "mfu", "time", "stages", "communication"} <= set(values)
    assert {"compute", "communication", "bubble", "recomputation", "update"} <= set(values["time"])
    assert "weights" in values["stages"][0]["peak_memory_bytes"]
    assert {"bytes", "seconds", "kind", "level"} <= set(values["communication"][0])
    assert DistributedResult.from_json(values).latency_s == values["latency_s"]
    events = json.loads(trace.read_text())["traceEvents"]
    passes = {event["name"] for event in events if event["ph"] == "X"}
    assert passes >= {"forward 0", "backward 3", "synchronisation and update"}
    assert "Pipeline" in page.read_text()
    again = CliRunner().invoke(app, ["rerun", str(first)])
    assert again.exit_code == 0, again.output
    assert again.output.startswith("equal")
    CliRunner().invoke(app, [*run, "--shard", "states", "--json", str(second)])
    told = CliRunner().invoke(app, ["diff", str(first), str(second)])
    assert told.exit_code == 0, told.output
    assert "shard" in told.output
    refused = CliRunner().invoke(app, ["diff", str(first), str(second), "--top", "3"])
    assert "--top: has no effect on results of systems" in str(refused.exception)
    assert isinstance(CliRunner().invoke(app, ["explain", str(first)]).exception, MonetError)


def test_distribute_prints_the_best_and_writes_a_page(tmp_path: Path) -> None:
    file, page, values = tmp_path / "boards.yaml", tmp_path / "page.html", tmp_path / "found.json"
    file.write_text(yaml.safe_dump(SYSTEM))
    arguments = ["distribute", GPT, "--system", str(file), "--devices", "2", "--batch", "4", "--fusion", "none"]
    arguments += ["--shard", "none", "--recompute", "none", "--most-micro-batch", "1"]
    made = CliRunner().invoke(app, [*arguments, "--report", str(page), "--json", str(values)])
    assert made.exit_code == 0, made.output
    assert "best by time" in made.output
    assert "parcoords" in page.read_text()
    found = json.loads(values.read_text())
    assert found["best"]["latency_s"] == min(row["latency_s"] for row in found["top"])
    for wrong, said in (("--best", "allowed are time"), ("--shard", "is unknown")):
        refused = CliRunner().invoke(app, [*arguments, wrong, "nonsense"])
        assert said in str(refused.exception)
