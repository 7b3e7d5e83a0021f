"""Attention that is left to the hardware: what is done first is taken, and named, by every command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import monet
from monet.cli import app
from monet.errors import OptionError
from monet.request import Request
from monet.request.attention import implementations
from monet.request.system_request import SystemRequest
from monet.schedule.result import Result
from monet.search.hardware.evaluation import evaluate, graph_of
from monet.search.hardware.space import make_space
from monet.training.options import FUSED

GPT = "gpt:layers=1,hidden=64,heads=2,vocabulary=64"
LONG = "gpt:layers=1,hidden=128,heads=2,vocabulary=64"
EVERY = ("explicit", *FUSED)


def asked(attention: str, hardware: str = "tpu-v4", model: str = GPT, **options: Any) -> Request:
    return Request(model, hardware, precision="bf16", attention=attention, **{"sequence": 64, **options})


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Result]:
    """By hardware and attention, of a network whose scores are worth keeping on one of them."""
    return {
        (hardware, attention): asked(attention, hardware, LONG, sequence=512).evaluate()
        for hardware in ("tpu-v4", "fusemax")
        for attention in (*EVERY, "fused", "auto")
    }


@pytest.mark.parametrize("hardware", ["tpu-v4", "fusemax"])
def test_the_fastest_is_taken(hardware: str, found: dict[tuple[str, str], Result]) -> None:
    times = {name: found[hardware, name].latency_s for name in EVERY}
    assert found[hardware, "auto"].latency_s == min(times.values())
    assert found[hardware, "fused"].latency_s == min(times[name] for name in FUSED)
    assert len(set(times.values())) == 3


def test_the_hardware_decides(found: dict[tuple[str, str], Result]) -> None:
    taken = {hardware: found[hardware, "fused"].inputs["attention"] for hardware in ("tpu-v4", "fusemax")}
    assert taken == {"tpu-v4": "fused-scores", "fusemax": "fused-lse"}


@pytest.mark.parametrize("attention", ["fused", "auto"])
def test_a_result_says_what_was_taken_and_is_had_again(attention: str, found: dict[tuple[str, str], Result]) -> None:
    result = found["tpu-v4", attention]
    taken = result.inputs["attention"]
    assert taken in EVERY
    assert f"--attention {attention}: {taken} is taken" in result.notes[-1]
    again = Request.of(Result.from_json(json.loads(json.dumps(result.to_json())))).evaluate()
    assert (again.ticks, again.energy_j, again.plan) == (result.ticks, result.energy_j, result.plan)
    plain = found["tpu-v4", taken]
    assert (plain.ticks, plain.plan, plain.inputs) == (result.ticks, result.plan, result.inputs)


def test_the_fastest_is_taken_of_equals_the_one_that_keeps_least() -> None:
    request = asked("fused", "fusemax")
    times = [replace(request, attention=name).evaluate().latency_s for name in FUSED]
    assert request.settled().attention == FUSED[times.index(min(times))]


def test_scores_are_kept_for_a_backward_pass_only() -> None:
    assert implementations(asked("auto", mode="inference")) == (FUSED[0], "explicit")
    assert implementations(asked("fused", phases=("forward",))) == FUSED[:1]
    assert implementations(asked("fused", phases=("backward",))) == FUSED
    with pytest.raises(OptionError, match="inference keeps nothing"):
        asked("fused-scores", mode="inference").graph()


def test_what_cannot_run_is_not_taken() -> None:
    """No lanes for it, no attention, or probabilities that are dropped."""
    for hardware, model in (("edge-tpu", GPT), ("fusemax", "mlp-robot"), ("fusemax", f"{GPT},dropout=0.1")):
        size = {} if model == "mlp-robot" else {"sequence": 16}
        request = Request(model, hardware, precision="bf16", attention="auto", **size)  # type: ignore[arg-type]
        result = request.evaluate()
        assert result.feasible
        assert result.inputs["attention"] == "explicit"
        assert "fused cannot run" in result.notes[-1]


def test_scores_that_find_no_room_in_dram_are_not_kept() -> None:
    least, kept = (asked(name, "tpu-v3", LONG, sequence=1024, batch=8).evaluate() for name in FUSED)
    assert kept.latency_s < least.latency_s
    between = (kept.dram_peak_bytes + least.dram_peak_bytes) // 2
    assert least.dram_peak_bytes < between < kept.dram_peak_bytes
    small = asked("fused", "tpu-v3", LONG, sequence=1024, batch=8, set={"dram.hbm.capacity_bytes": between}).evaluate()
    assert small.feasible
    assert small.inputs["attention"] == "fused-lse"
    assert "fused cannot run" in small.notes[-1]


def test_without_hardware_it_says_so() -> None:
    with pytest.raises(OptionError, match="on given hardware, and here is none"):
        Request(GPT, sequence=16, attention="auto").graph()
    kinds = {op.kind for op in Request(GPT, sequence=16, attention="fused").graph().ops}
    assert "attention" in kinds
    shown = CliRunner().invoke(app, ["graph", GPT, "--attention", "auto"])
    assert "--attention 'auto': takes what is done first on given hardware" in str(shown.exception)


@pytest.mark.parametrize("attention", ["fused", "auto"])
@pytest.mark.parametrize(
    "command",
    [
        ["run", "--phases", "backward"],
        ["run", "--fusion", "none"],
        ["map"],
        pytest.param(["fuse", "--effort", "1", "--limit", "2"], marks=pytest.mark.slow),
        pytest.param(["allocate", "--effort", "1"], marks=pytest.mark.slow),
        ["checkpoint", "--method", "per-block"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_every_command_takes_it(command: list[str], attention: str) -> None:
    name, *more = command
    arguments = [name, GPT, "--hardware", "fusemax", "--sequence", "8", "--precision", "bf16"]
    shown = CliRunner().invoke(app, [*arguments, "--attention", attention, *more, "--json", "-"])
    if name == "map" and attention == "fused":
        assert "take explicit attention" in str(shown.exception)
        return
    assert shown.exit_code == 0, shown.output
    inputs = json.loads(shown.stdout).get("inputs", {})
    assert not inputs or inputs["attention"] in EVERY


@pytest.mark.slow
def test_every_design_of_a_space_takes_its_own() -> None:
    workload = {"model": LONG, "sequence": 512, "precision": "bf16", "attention": "fused"}
    found = {}
    for attention in (*FUSED, "fused"):
        document = {
            "name": "one", "hardware": "tpu-v4", "workloads": {"net": {**workload, "attention": attention}},
            "parameters": {"cmem": {"sets": "memories.cmem.size_bytes", "values": [2**18, 2**27]}},
        }  # fmt: skip
        space = make_space(document, "space", Path())
        found[attention] = [evaluate(space.text, {"cmem": size}).metrics["net.latency_s"] for size in (2**18, 2**27)]
    assert found["fused"] == [min(pair) for pair in zip(*(found[name] for name in FUSED), strict=True)]
    assert graph_of(space.workloads["net"]).ops


@pytest.mark.slow
def test_a_system_takes_the_fastest_for_all_its_devices() -> None:
    given = {"system": "tpu-v4-pod", "batch": 4, "data": 2, "sequence": 256, "precision": "bf16"}
    results = {
        name: SystemRequest(LONG, attention=name, **given).distribute()  # type: ignore[arg-type]
        for name in (*EVERY, "auto")
    }
    assert results["auto"].latency_s == min(results[name].latency_s for name in EVERY)
    assert results["auto"].inputs["attention"] in EVERY
    assert "--attention auto" in results["auto"].notes[-1]


def test_graphs_that_are_evaluated_are_what_they_are() -> None:
    """``training_step`` knows no hardware: what it fused is evaluated, and had again, as it is."""
    step = monet.training_step(monet.load_model(GPT, sequence=64), precision="bf16", attention="fused")
    result = monet.evaluate(step, monet.load_hardware("tpu-v4"))
    assert result.inputs["attention"] == "fused-lse"
    assert not any("--attention" in note for note in result.notes)
    assert Request.of(result).evaluate().ticks == result.ticks
