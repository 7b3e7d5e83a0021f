"""A host that issues operators one after another and runs ahead of the device: ``host_dispatch_s``."""

from __future__ import annotations

import pytest

from monet.hardware.errors import DescriptionError
from monet.request.request import Request
from monet.request.system_request import SystemRequest
from monet.schedule.result import Result

LONG = 1e-3  # longer than any kernel here


def run(host: float, **more: object) -> Result:
    given = {"hardware": "a100", "batch": 4, "fusion": "none", "set": {"host_dispatch_s": host} if host else {}, **more}
    return Request("mlp", **given).evaluate()  # type: ignore[arg-type]


@pytest.mark.parametrize("hardware", ["a100", "edge-tpu", "tpu-like-quad"])
def test_a_step_takes_as_long_as_its_host_or_its_device(hardware: str) -> None:
    """A host that is never behind but for the first operator costs its dispatch; one that always is costs all of them,
    and what the last operator takes; between these the slower of both rules."""
    alone = run(0.0, hardware=hardware)
    launched = len({row.group for row in alone.operators})
    quick, slow = run(1e-9, hardware=hardware), run(LONG, hardware=hardware)
    assert alone.latency_s <= quick.latency_s <= alone.latency_s + launched * 1e-9 + 1e-8
    assert launched * LONG < slow.latency_s < launched * LONG + alone.latency_s
    for host in (1e-6, 5e-6, 2e-5, 1e-4):
        found = run(host, hardware=hardware).latency_s
        assert max(launched * host, 0.99 * alone.latency_s) <= found <= launched * host + alone.latency_s


def test_nothing_starts_before_it_was_issued() -> None:
    host = 2e-5
    found = run(host)
    line = found.timeline
    for number, row in enumerate(found.operators):
        mine = (line.operator == line.operators.index(row.name)) & (line.kind == 0)
        assert line.start[mine].min() / line.ticks_per_second >= (number + 1) * host - 1e-12


def test_waiting_for_the_host_is_told_from_other_waiting() -> None:
    for host, share in ((0.0, 0.0), (LONG, 0.9)):
        found = run(host)
        for core in found.cores:
            assert sum(core.time_ticks.values()) == found.ticks
        spent = [core.time_ticks["waiting_for_host"] / found.ticks for core in found.cores if core.tiles]
        assert min(spent) >= share
        assert (max(spent) > 0) == (host > 0)


@pytest.mark.slow
def test_a_fused_group_is_issued_once() -> None:
    model = "gpt:layers=1,hidden=64,heads=2,vocabulary=128,positions=32,sequence=32"
    fused = Request(model, "a100", batch=2, fusion="auto", set={"host_dispatch_s": LONG}).evaluate()
    alone = Request(model, "a100", batch=2, fusion="none", set={"host_dispatch_s": LONG}).evaluate()
    groups = len({row.group for row in fused.operators})
    assert groups < len(alone.operators)  # the plan with fewer launches is the fastest now
    assert groups * LONG < fused.latency_s < (groups + 1) * LONG


def test_devices_of_a_system_wait_for_their_hosts() -> None:
    """One device of a system is that device alone; of several each waits, and says so."""
    asked = {"batch": 2, "fusion": "none", "set": {"host_dispatch_s": 5e-5}}
    model = "gpt:layers=2,hidden=64,heads=2,vocabulary=128,positions=32,sequence=32"
    one = SystemRequest(model, system="dgx-a100", micro_batch=2, **asked).distribute()  # type: ignore[arg-type]
    alone = Request(model, "a100", **asked).evaluate()  # type: ignore[arg-type]
    assert one.latency_s == pytest.approx(alone.latency_s, rel=1e-12)
    shared = SystemRequest(model, system="dgx-a100", micro_batch=2, tensor=2, **asked).distribute()  # type: ignore[arg-type]
    assert shared.latency_s > one.latency_s  # more to issue
    for found in (one, shared):
        assert found.time.host > 0.7 * found.latency_s
        assert found.time.total == pytest.approx(found.latency_s, rel=1e-9)


@pytest.mark.slow
def test_of_a_long_row_every_layer_is_issued() -> None:
    """Few layers are scheduled, and the head lets the host run ahead of these; all of them are issued all the same."""
    host, step = 2e-4, {}
    for layers in (24, 48):
        model = f"gpt:layers={layers},hidden=64,heads=2,vocabulary=8192,positions=64,sequence=64"
        more = {"set": {"host_dispatch_s": host}, "fusion": "none", "micro_batch": 2, "batch": 4}
        step[layers] = SystemRequest(model, system="dgx-a100", **more).distribute().latency_s  # type: ignore[arg-type]
    alone = Request(model, "a100", batch=4, micro_batches=2, fusion="none").evaluate()  # of 48 layers
    assert step[48] >= len({row.group for row in alone.operators}) * host
    assert step[48] / step[24] == pytest.approx(2, rel=0.05)


def test_a_host_takes_no_negative_time() -> None:
    with pytest.raises(DescriptionError, match="host_dispatch_s"):
        run(-1e-6)
