"""Several DRAMs: interleaved where that is faster, filled one after the other where it is not; to the byte."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from monet import evaluate, load_model
from monet.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.hardware.errors import HardwareError
from monet.hardware.loading import describe_text
from monet.hardware.resolve import resolve
from monet.schedule.dram_places import places_of_storages
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.plan import Placement, Plan, PlanError
from monet.schedule.planning.default_plan import default_plan
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.training.step import training_step
from monet.transforms.checkpoint_plan import CheckpointPlan
from tests.schedule.cases import CORES, HEAD, random_graph, random_plan
from tests.schedule.test_kernels import compare_schedule
from tests.search.test_checkpoint_scheduled import check_pages

# a bus with both DRAMs, a link of its own for each, and both behind a shared level
NETWORKS = {
    # two chiplets, each with a DRAM, and a narrow link between them; the same with a shared level on each
    "chiplets": "  left: {{bus: ['pe[0]', 'pe[1]', dram0], bandwidth_bits_per_cycle: 64}}\n"
    "  right: {{bus: ['pe[2]', simd{last}], bandwidth_bits_per_cycle: 64}}\n"
    "  between: {{link: ['pe[1]', 'pe[2]'], bandwidth_bits_per_cycle: 4}}",
    "levels": "  left: {{bus: ['pe[0]', 'pe[1]', l2, dram0], hub: l2, bandwidth_bits_per_cycle: 64}}\n"
    "  right: {{bus: ['pe[2]', simd, l3{last}], hub: l3, bandwidth_bits_per_cycle: 64}}\n"
    "  between: {{link: [l2, l3], bandwidth_bits_per_cycle: 4}}",
    "bus": "  bus: {{bus: [pe, simd, {names}], bandwidth_bits_per_cycle: 64}}",
    "hub": "  inside: {{bus: [pe, simd, l2], hub: l2, bandwidth_bits_per_cycle: 64}}\n{links}",
}
LINK = "  to_{name}: {{link: [l2, {name}], bandwidth_bits_per_cycle: {wires}}}\n"
LEVEL = "memories:\n  l2: {size_bytes: 8192, bandwidth_bits_per_cycle: 128}\n"
OTHER = "  l3: {size_bytes: 8192, bandwidth_bits_per_cycle: 128}\n"
ONE = """  {name}: {{kind: custom, capacity_bytes: {capacity}, bandwidth_bits_per_cycle: {width},
         latency_s: {latency} ns, burst_bytes: {burst}, efficiency: {efficiency},
         read_energy_j_per_bit: {energy} pJ/bit, write_energy_j_per_bit: {energy} pJ/bit, static_power_w: 0.01}}
"""


@cache
def with_drams(
    *widths: int, network: str = "bus", latency: tuple[int, ...] = (), capacity: tuple[int, ...] = (),
    burst: int = 8, efficiency: str = "1", sram: int = 8192, energy: tuple[int, ...] = (), host: str = "",
) -> Accelerator:  # fmt: skip
    """The small accelerator of the random cases with one DRAM for each width."""
    names = [f"dram{number}" for number in range(len(widths))]
    drams = "".join(
        ONE.format(
            name=name, width=width, burst=burst, efficiency=efficiency, latency=(*latency, *[40] * len(widths))[number],
            capacity=(*capacity, *[2**30] * len(widths))[number], energy=(*energy, *[5] * len(widths))[number],
        )
        for number, (name, width) in enumerate(zip(names, widths, strict=True))
    )  # fmt: skip
    links = "".join(LINK.format(name=name, wires=width) for name, width in zip(names, widths, strict=True))
    text = (
        HEAD.format(clock=500)
        + {"hub": LEVEL, "levels": LEVEL + OTHER}.get(network, "")
        + "cores:"
        + CORES.format(layout="count: 3", buffers="", sram=sram, local=4096)
        + "dram:\n"
        + drams
        + host
        + "network:\n"
        + NETWORKS[network].format(names=", ".join(names), links=links, last="".join(f", {name}" for name in names[1:]))
        + "\n"
    )
    return resolve(describe_text(text, "small"))


def random_case(number: int):
    """A random graph and plan on two or three DRAMs, some of them too small for all; None if it cannot run."""
    seed = random.Random(number)
    count = seed.choice((2, 2, 3))
    machine = with_drams(
        *(seed.choice((8, 16, 64)) for _ in range(count)),
        network=seed.choice(sorted(NETWORKS)),
        latency=tuple(seed.choice((0, 40, 4000)) for _ in range(count)),
        capacity=tuple(seed.choice((2**12, 2**14, 2**30)) for _ in range(count - 1)),
        burst=seed.choice((8, 64)),
        efficiency=seed.choice(("1", "[{bytes: 64, share: 0.5}, {bytes: 1024, share: 0.75}]")),
        sram=seed.choice((3072, 8192)),
        energy=tuple(seed.choice((3, 7)) for _ in range(count)),
    )
    scheduler = Scheduler(random_graph(seed), machine)
    try:
        return scheduler, scheduler.schedule(random_plan(seed, scheduler))
    except (NoSchedule, PlanError):
        return None


@pytest.mark.parametrize("block", [pytest.param(block, marks=[pytest.mark.slow] * (block >= 1)) for block in range(4)])
def test_kernels_do_what_the_plain_reading_says(block: int) -> None:
    ran, apart = 0, 0
    for number in range(25 * block, 25 * block + 25):
        found = random_case(number)
        if found is not None:
            compare_schedule(*found)
            ran += 1
            apart += len(set(found[1].expanded.tables.blocks.place.tolist())) > 1
    assert ran >= 15
    assert apart >= 3  # blocks lie in more than one place


@pytest.mark.parametrize("block", [pytest.param(block, marks=[pytest.mark.slow] * (block >= 1)) for block in range(4)])
def test_bytes_are_kept_and_bounds_hold(block: int) -> None:
    for number in range(25 * block, 25 * block + 25):
        found = random_case(number)
        if found is None:
            continue
        scheduler, schedule = found
        drams = scheduler.machine.accelerator.drams
        result = evaluate(scheduler.workload.graph, scheduler.machine.accelerator, schedule.plan, scheduler=scheduler)
        rows = {row.name: row for row in result.links}
        moved = [rows[dram.name].bytes for dram in drams]
        assert sum(moved) == result.dram_bytes.total
        assert sum(rows[dram.name].energy_j for dram in drams) == pytest.approx(
            result.energy_breakdown.by_level["dram"]
        )
        transfers = len(schedule.transfers.node)  # each is shared out in whole bytes
        for dram, size in zip(drams, moved, strict=True):
            assert rows[dram.name].busy_s >= (size - transfers) / dram.bandwidth_bytes_per_s
        for trace in result.memory[: len(drams)]:
            assert np.all(trace.bytes >= 0)
        whole = np.array([stays.bytes for stays in schedule.in_drams()]).sum(axis=0)
        assert np.array_equal(whole, schedule.in_dram.bytes)
        figures = figures_of(scheduler, schedule)
        assert (
            figures.dram_peak_bytes == result.dram_peak_bytes == sum(t.peak_bytes for t in result.memory[: len(drams)])
        )
        assert figures.energy_j == pytest.approx(result.energy_j)
        assert result.latency_s >= result.bounds.latency_s * (1 - 1e-9)
        assert result.energy_j >= result.bounds.energy_j * (1 - 1e-9)


@pytest.mark.parametrize("network", ["bus", "hub"])
@pytest.mark.parametrize("number", range(6))
def test_two_of_half_the_width_are_one_of_the_whole(network: str, number: int) -> None:
    """To the tick: every transfer takes half of its time at each of two that are half as fast."""
    seed = random.Random(number)
    graph, efficiency = random_graph(seed), seed.choice(("1", "0.8"))
    two = with_drams(8, 8, network=network, efficiency=efficiency)
    one = with_drams(16, network=network, efficiency=efficiency)
    assert two.dram_places == ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0))
    ours, theirs = evaluate(graph, two), evaluate(graph, one)
    assert ours.ticks == theirs.ticks
    assert ours.dram_bytes == theirs.dram_bytes
    assert ours.memory[0].peak_bytes + ours.memory[1].peak_bytes == theirs.memory[0].peak_bytes


@pytest.mark.parametrize("network", ["bus", "chiplets", "hub"])
@pytest.mark.parametrize("second", [(4, 40), (16, 40), (16, 10_000), (64, 0)])
def test_one_more_is_never_slower(network: str, second: tuple[int, int]) -> None:
    width, latency = second
    before = with_drams(16, network=network)
    after = with_drams(16, width, network=network, latency=(40, latency))
    for number in range(4):
        graph = random_graph(random.Random(number))
        assert evaluate(graph, after).latency_s <= 1.02 * evaluate(graph, before).latency_s


def test_one_of_a_place_that_is_full_first_leaves_the_rest_to_the_others() -> None:
    machine = with_drams(16, 16, 16, capacity=(2**20, 2**22, 2**22))
    assert machine.dram_places[:2] == (pytest.approx((1 / 3, 1 / 3, 1 / 3)), (0.0, 0.5, 0.5))


def test_a_far_one_is_for_what_does_not_fit_and_is_used_least() -> None:
    graph = training_step(load_model("mlp-cartpole", batch=4), optimizer="adam")
    roots = sum(
        each.tensor.bytes for each in Scheduler(graph, with_drams(16)).workload.storages.values() if each.is_root
    )
    machine = with_drams(64, 4, latency=(0, 10_000), capacity=(roots // 2, 2**30))
    assert machine.dram_places == ((1.0, 0.0), (0.0, 1.0))
    scheduler = Scheduler(graph, machine)
    steps = scheduler.draft(scheduler.complete(Plan())).steps_of
    places = places_of_storages(scheduler.workload, scheduler.machine, steps)
    uses = np.bincount(np.concatenate([np.unique(touched) for touched in scheduler.workload.touched]))
    assert set(places.tolist()) == {0, 1}
    assert uses[places[:-1] == 0].mean() > uses[places[:-1] == 1].mean()
    result = evaluate(graph, machine)
    assert result.feasible
    assert result.memory_peak_bytes["dram0"].total <= roots // 2
    assert result.memory_peak_bytes["dram1"].optimizer_state > 0
    assert any("data lies on dram0, or dram1:" in note for note in result.notes)


def test_what_does_not_fit_names_the_dram() -> None:
    graph = training_step(load_model("mlp-cartpole", batch=4), optimizer="adam")
    held = evaluate(graph, with_drams(16)).memory[0].peak_bytes
    result = evaluate(graph, with_drams(16, 16, capacity=(held // 2 - 1000, held // 2 - 1000)))
    assert not result.feasible
    assert result.reason is not None
    assert result.reason.level in ("dram0", "dram1")
    assert f"DRAM {result.reason.level} holds" in result.reason.message


def test_every_core_needs_a_way_to_every_dram() -> None:
    """A second DRAM behind the first: nothing passes through a DRAM."""
    drams = "".join(
        ONE.format(name=name, width=8, burst=8, efficiency=1, latency=0, capacity=2**30, energy=5)
        for name in ("dram0", "dram1")
    )
    cores = CORES.format(layout="count: 3", buffers="", sram=8192, local=4096)
    network = NETWORKS["bus"].format(names="dram0") + "\n  stub: {link: [dram0, dram1], bandwidth_bits_per_cycle: 8}\n"
    text = HEAD.format(clock=500) + "cores:" + cores + "dram:\n" + drams + "network:\n" + network
    with pytest.raises(HardwareError, match="to every DRAM in both directions"):
        describe_text(text, "small")


@pytest.mark.parametrize("network", ["chiplets", "levels"])
def test_on_chiplets_data_lies_beside_the_cores_that_use_it(network: str) -> None:
    """With a narrow link between them: what only the cores of one use is on its DRAM."""
    machine, graph = with_drams(16, 16, network=network), random_graph(random.Random(3))
    for core, beside, other in (("pe[0]", "dram0", "dram1"), ("pe[2]", "dram1", "dram0")):
        scheduler = Scheduler(graph, machine)
        matrix = [each.op.name for each in scheduler.workload.operators if each.is_matrix]
        only = select_matrix(graph, matrix[:1])
        result = evaluate(only, machine, Plan(placements={matrix[0]: Placement((core,))}))
        moved = {row.name: row.bytes for row in result.links}
        assert moved[beside] == result.dram_bytes.total > 0
        assert moved[other] == 0


def select_matrix(graph: Graph, names: list[str]) -> Graph:
    """Only some operators of a graph."""
    return replace(graph, ops=tuple(op for op in graph.ops if op.name in names))


@pytest.mark.parametrize("network", sorted(NETWORKS))
def test_pages_go_from_and_to_all_drams(network: str) -> None:
    host = (
        "host: {bandwidth_bytes_per_s: 0.1 GB/s, latency_s: 1 us, energy_j_per_bit: 5 pJ/bit, capacity_bytes: 1 GiB}\n"
    )
    machine = with_drams(16, 8, network=network, host=host)
    scheduler = Scheduler(training_step(load_model("mlp-cartpole", batch=4)), machine)
    costed = ScheduledCost(scheduler, default_plan(scheduler))
    check_pages(costed, CheckpointPlan(dict.fromkeys(costed.saved_bytes, "offload")))
