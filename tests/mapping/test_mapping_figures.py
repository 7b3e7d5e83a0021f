"""The figures beside the counts: ports, waiting, fill and drain, utilisation, what binds, energy. Recounted from what
the simulator moves and keeps, or by hand."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monet.cli import app
from monet.graph.loop_nest import LoopNest
from monet.hardware import load_hardware
from monet.hardware.core import Axis, Core, Flow, TransposedRead
from monet.mapping.cost_store import CostStore
from monet.mapping.errors import DoesNotFit
from monet.mapping.mapper.search import search
from monet.mapping.nest.cost import Cost, cost, energy_j
from monet.mapping.nest.mapping import Binding, Cut, Loop, Mapping, Unrolled
from monet.mapping.nest.prices import prices_of
from monet.mapping.nest.spatial import frame_of
from monet.mapping.unfused.dram_route import DramRoute, OperandCost, passing, passing_energy
from tests.mapping.cores import core as core_of
from tests.mapping.cores import level, streaming, three_level, two_level
from tests.mapping.nests import conv, linear, matmul
from tests.mapping.random_cases import STREAM, random_frame, random_mapping
from tests.mapping.simulator import Walk, simulate

BITS = {"I": 8, "W": 8, "O": 16}  # partial sums are wider than the results
RESULT_BITS = 8


def bits_moved(nest: LoopNest, core: Core, counts: Counter) -> Counter:  # type: ignore[type-arg]
    """Bits of the simulator's elements: every result leaves its memories once in its own type, else as a sum."""
    outputs = [one.name for one in core.levels_of("O")] + ["stream"] * ("O" in core.streamed)
    results = math.prod(nest.writes[0].shape)
    found: Counter = Counter()  # type: ignore[type-arg]
    for (where, slot, flow), elements in counts.items():
        found[where, slot, flow] = elements * BITS[slot]
        final = (where == outputs[-1] and flow is Flow.COLLECT) or (where in outputs[1:-1] and flow is Flow.DRAIN)
        if slot == "O" and (final or (flow is Flow.COLLECT and where in outputs[1:])):
            found[where, slot, flow] -= results * (BITS["O"] - RESULT_BITS)
    return found


class Recount:
    """Time and energy of a mapping from what the simulator counts; nothing of the cost model is used."""

    def __init__(self, nest: LoopNest, core: Core, mapping: Mapping) -> None:
        self.walk, self.core = Walk(nest, core, mapping), core
        self.counts = simulate(nest, core, mapping)
        self.bits = bits_moved(nest, core, self.counts)
        self.steps = sum(1 for _ in self.walk.iterate(len(mapping.loops)))
        self.macs = nest.points

    def instances(self, level, slot: str = "") -> int:  # type: ignore[no-untyped-def]
        """Instances of a level that some lane uses; with a slot, those that hold different parts of it."""
        unrolled = self.walk.mapping.unrolled
        keys = {
            tuple(
                digit
                for digit, one in zip(lane, unrolled, strict=True)
                if not self.walk.inside(level, one.axis) and (not slot or one.dim in self.walk.operand(slot).dims)
            )
            for lane in self.walk.lanes()
        }
        return len(keys)

    def ports(self) -> dict[str, float]:
        found: Counter = Counter()  # type: ignore[type-arg]
        for (where, slot, flow), bits in self.bits.items():
            if where == "stream":
                found["stream"] += bits / STREAM.bandwidth_bits_per_cycle
                continue
            level = self.core.level(where)
            (port,) = (one for one in level.ports if (slot, flow) in one.carries)
            found[f"{where}.{port.name}"] += bits / (port.bandwidth_bits_per_cycle * self.instances(level))
        return dict(found)

    def energy(self) -> dict[str, float]:
        """Joules by level, all accesses being wide enough."""
        found = {"compute": self.macs * self.core.rates[0].energy_j}
        for (where, _, flow), bits in self.bits.items():
            reads = flow in (Flow.FEED, Flow.DRAIN)
            if where == "stream":
                price = STREAM.read_energy_j_per_bit if reads else STREAM.write_energy_j_per_bit
            else:
                level = self.core.level(where)
                price = (level.read_energy_j if reads else level.write_energy_j) / level.access_bits
            found[where] = found.get(where, 0.0) + bits * price
        return found

    def exchanges(self) -> tuple[float, float, float]:
        """(cycles the array waits for tiles, first tiles in, last tiles out)."""
        waits, chains, outer = 0.0, dict.fromkeys("IWO", 0.0), {}
        for slot in "IWO":
            levels = [*self.core.levels_of(slot), *(["stream"] if slot in self.core.streamed else [])]
            for below, above in itertools.pairwise(levels):
                outer[slot] = self._port(above, slot, Flow.FEED)
                waits += self._crossing(slot, below, above, chains)
        shared = "I" in outer and "W" in outer and outer["I"][0] == outer["W"][0]
        fill = chains["I"] + chains["W"] if shared else max(chains["I"], chains["W"])
        latencies = max(sum(one.latency_cycles for one in self.core.levels_of(slot)) for slot in "IW")
        return waits, fill + latencies, chains["O"]

    def _port(self, level, slot: str, flow: Flow) -> tuple[str, float]:  # type: ignore[no-untyped-def]
        """(name, bits per cycle of all used instances)."""
        if level == "stream":
            return "stream", STREAM.bandwidth_bits_per_cycle
        (port,) = (one for one in level.ports if (slot, flow) in one.carries)
        return f"{level.name}.{port.name}", port.bandwidth_bits_per_cycle * self.instances(level)

    def _crossing(self, slot, below, above, chains) -> float:  # type: ignore[no-untyped-def]
        walk, out = self.walk, slot == "O"
        operand, position = walk.operand(slot), walk.mapping.cut(slot, below.name).position
        largest = max(
            len(walk.tile(operand, position, start, lane, below))
            for start, _ in walk.iterate(position)
            for lane in walk.lanes()
        )
        here, there = (Flow.DRAIN, Flow.COLLECT) if out else (Flow.FILL, Flow.FEED)
        above_name = above if above == "stream" else above.name
        moved_here, moved_there = self.counts[below.name, slot, here], self.counts[above_name, slot, there]
        entries = moved_here / (self.instances(below) / self.instances(below, slot))
        slowest = max(
            BITS[slot] * moved_here / entries / self._port(below, slot, here)[1],
            BITS[slot] * moved_there / entries / self._port(above, slot, there)[1],
        )
        chains[slot] += slowest * largest * self.instances(below, slot)
        one_step = all(walk.mapping.tile(position).get(dim, 1) == 1 for dim in operand.dims)
        room = below.size_bytes * 8 / 2 if len(below.operands) == 1 else 0
        if below.double_buffered or one_step or largest * BITS[slot] <= room:
            return 0.0
        again = self.counts[above_name, slot, Flow.FEED] if out else 0
        return slowest * (entries + again * entries / moved_there)


def whole(nest: LoopNest, mapping: Mapping) -> bool:
    """Whether unrolling and loops divide every dimension."""
    tile = mapping.tile(0)
    return all(mapping.factor(dim) * tile.get(dim, 1) == size for dim, size in nest.dims)


CORES = {
    "registers": lambda: two_level(2, 2, 16, 8, 16),
    "few ports": lambda: two_level(2, 1, 4, 4, 4, sram_bits=16),
    "two buffers": lambda: two_level(2, 2, 16, 8, 16, double=True),
    "local": lambda: three_level(4096),
    "local in halves": lambda: three_level(4096, double=True),
    "streamed": lambda: streaming(2, 2, 16),
}
NESTS = [
    conv(K=4, C=4, OX=4, FX=2),
    conv("x", K=2, C=4, OX=4, FX=2),
    linear(4, 8, 4),
    matmul(2, 4, 2, 4),
    linear(8, 2, 8),
]


@pytest.mark.parametrize("name", CORES)
def test_figures_of_a_mapping_equal_a_recount(name: str) -> None:
    rng, core, seen = random.Random(3), CORES[name](), Counter()  # type: ignore[var-annotated]
    core = replace(core, levels=tuple(replace(one, size_bytes=one.size_bytes * 64) for one in core.levels))
    for _ in range(40):
        nest = rng.choice(NESTS)
        frame = random_frame(rng, nest, core)
        mapping = random_mapping(rng, frame)
        if not whole(nest, mapping):
            continue
        tight = tuple(replace(one, size_bytes=max(1, one.size_bytes // rng.choice([1, 64]))) for one in core.levels)
        small = replace(core, levels=tight)
        try:
            found = cost(nest, small, mapping, STREAM)
        except DoesNotFit:  # another test's
            continue
        check_figures(
            found,
            Recount(nest, small, mapping),
            energy_j(frame_for(nest, small, mapping), found, prices_of(small, STREAM)),
        )
        seen[found.bound_by == "compute"] += 1
        seen["waits"] += found.exposed_cycles > 0
    assert sum(seen[key] for key in (True, False)) >= 10
    if name in ("registers", "local"):
        assert seen["waits"]


def frame_for(nest: LoopNest, core: Core, mapping: Mapping):  # type: ignore[no-untyped-def]
    return frame_of(nest, core, mapping.mode, mapping.binding, mapping.unrolled, STREAM)


def check_figures(found: Cost, again: Recount, joules: dict[str, float]) -> None:
    ports = {port: cycles for port, cycles in again.ports().items() if cycles}
    assert {port: cycles for port, cycles in found.port_cycles if cycles} == pytest.approx(ports)
    waits, fill, drain = again.exchanges()
    assert found.compute_cycles == again.steps
    assert found.exposed_cycles == pytest.approx(waits)
    assert found.fill_cycles == pytest.approx(fill)
    assert found.drain_cycles == pytest.approx(drain)
    busiest = max(ports, key=lambda port: ports[port])
    assert found.cycles == pytest.approx(max(again.steps + waits, ports[busiest]) + fill + drain)
    slower = ports[busiest] > (again.steps + waits) * (1 + 1e-9)
    assert (found.bound_by != "compute") == slower
    assert not slower or ports[found.bound_by] == pytest.approx(ports[busiest])
    units = math.prod(axis.size for axis in again.core.modes[0].axes)
    assert found.utilisation == pytest.approx(again.macs / (units * found.cycles))
    assert {name: one for name, one in joules.items() if one} == pytest.approx(
        {name: one for name, one in again.energy().items() if one}
    )


# --- by hand ----------------------------------------------------------------------------------------------------------


def systolic(rows: int, columns: int, both: bool = True, latency: int = 1) -> Core:
    """An array through which data ripples along ``a`` and, if ``both``, along ``b``."""
    axes = (
        Axis("a", rows, frozenset({"I"}), False, None, True),
        Axis("b", columns, frozenset(), True, None, both),
    )
    levels = (
        level("w_reg", "W", 64, (), rows * columns, 64, 64),
        level("o_reg", "O", 64, (), rows * columns, 64, 64),
        replace(level("sram", "IWO", 1 << 20, ("a", "b"), 1, 1 << 20, 1 << 20), latency_cycles=latency),
    )
    return core_of(axes, levels, swappable=False)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("k", "c"), [(3, 2), (2, 2), (3, 1), (1, 2), (1, 1), (6, 4)])
def test_ripple_of_a_systolic_array_by_hand(k: int, c: int, both: bool) -> None:
    """Every cell starts when its operand has come past the cells before it, one a cycle, and works every cycle from
    then on: the last cell that is used ends so much later than the first."""
    core, n = systolic(3, 2, both), 5
    rows, columns = min(k, 3), min(c, 2)
    unrolled = [Unrolled("a", "K", rows)] * (rows > 1) + [Unrolled("b", "C", columns)] * (columns > 1)
    loops = [Loop("K", -(-k // rows)), Loop("C", -(-c // columns)), Loop("N", n)]
    loops = [loop for loop in loops if loop.trips > 1]
    steps = math.prod(loop.trips for loop in loops)
    starts = [row + (column if both else 0) for row in range(rows) for column in range(columns)]
    ends = [start + steps for start in starts]
    ripple = max(ends) - steps
    assert ripple == (rows - 1) + (columns - 1) * both
    # registers keep everything: cuts at the outermost place
    mapping = Mapping(
        "default", Binding("x", "w", "y"), tuple(unrolled), tuple(loops), (Cut("W", "w_reg", 0), Cut("O", "o_reg", 0))
    )
    found = cost(linear(n, k, c), core, mapping)
    weights = 8 * k * c / (64 * rows * columns)  # into registers, all side by side: slower than out of a wide memory
    sums = 16 * k * n * columns / (64 * rows * columns)
    latency = 1 + 1  # of register and memory
    assert found.compute_cycles == steps
    assert found.fill_cycles == pytest.approx(weights + latency + ripple)
    assert found.drain_cycles == pytest.approx(sums)


def test_two_dimensions_on_one_systolic_axis_ripple_together() -> None:
    """Two channels times three taps lie one after the other: six cells, five cycles from the first to the last."""
    mapping = Mapping(
        "default",
        Binding("x", "w", "y"),
        (Unrolled("b", "C", 2), Unrolled("b", "FX", 3)),
        (Loop("OX", 4),),
        (Cut("W", "w_reg", 0), Cut("O", "o_reg", 0)),
    )
    found = cost(conv(C=2, OX=4, FX=3), systolic(1, 6), mapping)
    assert found.fill_cycles == pytest.approx(8 * 6 / (64 * 6) + 2 + 5)


def test_latencies_add_up_along_the_longest_chain() -> None:
    one, five = (systolic(2, 2, latency=latency) for latency in (1, 5))
    nest = linear(4, 2, 2)
    assert (
        search(nest, five, store=CostStore()).cost.fill_cycles
        == search(nest, one, store=CostStore()).cost.fill_cycles + 4
    )


def test_transposed_inputs_cost_by_the_element() -> None:
    """In the input gradient of a linear layer the weight is read against its order: K × C elements."""
    core = systolic(2, 2)
    slow = replace(core, transposed_read=TransposedRead("per_element", 0.25))
    for nest, against in ((linear(4, 2, 2), 0), (matmul(1, 4, 2, 2), 2 * 2)):
        before, after = search(nest, core, store=CostStore()).cost, search(nest, slow, store=CostStore()).cost
        assert after.fill_cycles - before.fill_cycles == pytest.approx(0.25 * against)


def test_several_products_a_step_fill_the_array_less() -> None:
    """Two products a step: half the steps, and twice the slots that could work."""
    nest = linear(4, 2, 8)
    for products, steps in ((1, 4 * 4), (2, 4 * 2)):
        found = search(nest, two_level(2, 2, 64, 64, 64, products=products, sram_bits=4096), store=CostStore()).cost
        assert found.compute_cycles == steps
        assert found.utilisation == pytest.approx(4 * 2 * 8 / (4 * products * found.cycles))


def test_narrow_accesses_are_paid_in_full() -> None:
    """A register that reads 32 bits at least bills a sum of 16 bits twice, at the array's side only."""
    core = two_level(1, 1, 64, 64)
    wide = replace(
        core, levels=tuple(replace(one, min_access_bits=32) if one.name == "o_reg" else one for one in core.levels)
    )
    nest = linear(2, 2, 4)
    mapping = search(nest, core, store=CostStore()).mapping
    plain, paid = (
        energy_j(frame_for(nest, one, mapping), cost(nest, one, mapping), prices_of(one, None)) for one in (core, wide)
    )
    register = core.level("o_reg")
    counts = simulate(nest, core, mapping)
    read, write = register.read_energy_j / 64, register.write_energy_j / 64
    more = 16 * (counts["o_reg", "O", Flow.FEED] * read + counts["o_reg", "O", Flow.COLLECT] * write)
    assert paid["o_reg"] - plain["o_reg"] == pytest.approx(more)
    assert {name: one for name, one in paid.items() if name != "o_reg"} == {
        name: one for name, one in plain.items() if name != "o_reg"
    }


# --- between DRAM and the core ----------------------------------------------------------------------------------------

INPUT = OperandCost("I", 1000, 100, 0, 0, False)
WEIGHT = OperandCost("W", 500, 500, 0, 0, True)  # streamed: it has no place in the core
RESULT = OperandCost("O", 800, 90, 300, 0, False)  # 300 bytes of it come back once
OPERANDS = ((False, INPUT), (False, WEIGHT), (True, RESULT))


def test_what_passes_is_counted_once_in_whole_bursts() -> None:
    """First 100 + 500 bytes in; meanwhile 900 + 300 in and 710 out; at last 90 out. Bursts of 64 bytes, two cycles a
    byte at DRAM; the link takes one in each direction."""
    route = DramRoute((("dram", 2.0), ("link in", 1.0)), (("dram", 2.0), ("link out", 1.0)), 64, 7.0)
    found = passing(route, OPERANDS)
    first, rest, leaving, last = 640, 1216, 768, 128
    assert (found.read_bytes, found.write_bytes) == (600 + 1200, 710 + 90)
    assert (found.read_burst_bytes, found.write_burst_bytes) == (first + rest, leaving + last)
    assert found.dram_cycles == 2 * (first + rest + leaving + last)
    assert found.fill_cycles == 7 + 2 * first
    assert found.drain_cycles == 7 + 2 * last
    assert found.stream_cycles == 2 * (first + rest + leaving + last)  # one wire carries both directions
    apart = passing(replace(route, writing=(("other", 2.0),)), OPERANDS)
    assert apart.stream_cycles == 2 * (first + max(rest, 710) + 90)


def test_energy_of_what_passes() -> None:
    """DRAM bursts, link bytes, and the top memory: what comes is written there, what leaves is read."""
    core = two_level(2, 2, 16, 16, 16)
    top = replace(core.level("sram"), read_energy_j=3 * 64e-12, write_energy_j=11 * 64e-12)  # 3 and 11 pJ a bit
    core = replace(core, levels=(*core.levels[:-1], top))
    route = DramRoute((("dram", 1.0),), (("dram", 1.0),), 64, 0.0)
    found = passing_energy(passing(route, OPERANDS), OPERANDS, core, 20e-12, 50e-12, 1e-12)
    assert found["dram"] == pytest.approx(8 * ((640 + 1216) * 20e-12 + (768 + 128) * 50e-12))
    assert found["link"] == pytest.approx(8 * (1800 + 800) * 1e-12)
    assert found["sram"] == pytest.approx(8 * ((1000 + 300) * 11e-12 + 800 * 3e-12))
    assert set(found) == {"dram", "link", "sram"}


# --- monet map --------------------------------------------------------------------------------------------------------


def mapped(*arguments: str) -> dict:  # type: ignore[type-arg]
    result = CliRunner().invoke(app, ["map", *arguments, "--json", "-"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


OPERATORS = [
    ("tpu-like", "conv", {"K": 64, "C": 64, "OY": 14, "OX": 14, "FY": 3, "FX": 3}, "int8"),
    ("edge-tpu", "linear", {"N": 64, "K": 96, "C": 128}, ""),
    ("eyeriss", "conv", {"K": 16, "C": 8, "OY": 13, "OX": 13, "FY": 3, "FX": 3}, ""),
    ("a100", "linear", {"N": 256, "K": 512, "C": 256}, "bf16"),
]


@pytest.mark.parametrize(("hardware", "kind", "dims", "precision"), OPERATORS)
def test_figures_of_the_command_hang_together(hardware: str, kind: str, dims: dict[str, int], precision: str) -> None:
    text = ",".join(f"{dim}={size}" for dim, size in dims.items())
    found = mapped(kind, "--hardware", hardware, "--dims", text, *(["--precision", precision] if precision else []))
    machine = load_hardware(hardware)
    core = machine.instance(found["core"]).core
    assert found["macs"] == math.prod(dims.values())
    rate = next(one for one in core.rates if not precision or one.inputs[0] == precision)
    peak = core.units * rate.products_per_step / rate.cycles_per_step
    assert found["seconds"] == pytest.approx(found["cycles"] / core.clock_hz)
    assert found["static_energy_j"] == pytest.approx(core.leakage_w * found["seconds"])
    assert found["energy_j"] == pytest.approx(sum(found["energy_j_by_level"].values()))
    assert found["utilisation"] == pytest.approx(
        found["macs"] / (core.units * rate.products_per_step * found["cycles"])
    )
    assert found["compute_cycles"] >= found["macs"] / peak * (1 - 1e-12)
    dram = found["accesses"]["dram"]
    reads, writes = (sum(row[f"{verb}_bits"] for row in dram.values()) / 8 for verb in ("read", "write"))
    assert (found["dram_read_bytes"], found["dram_write_bytes"]) == (reads, writes)
    burst = machine.dram.burst_bytes
    assert found["dram_burst_bytes"] % burst == 0
    assert 0 <= found["dram_burst_bytes"] - reads - writes < 4 * burst
    pace = 0.87 if hardware == "a100" else 1.0  # the share of its bandwidth that the DRAM achieves
    pace *= machine.dram.bandwidth_bits_per_s / 8 / core.clock_hz
    assert found["dram_cycles"] == pytest.approx(found["dram_burst_bytes"] / pace)
    tile = found["tile_cycles"]
    slowest = max(tile["compute"] + tile["exposed"] + stall for stall in (0, *tile["stall_by_port"].values()))
    assert tile["total"] == pytest.approx(slowest + tile["fill"] + tile["drain"])
    line = found["roofline"]
    assert line["macs_per_byte"] == pytest.approx(found["macs"] / (reads + writes))
    assert line["macs_per_s"] == pytest.approx(found["macs"] / found["seconds"])
    assert line["dram_bytes_per_s"] <= machine.dram.bandwidth_bits_per_s / 8 * (1 + 1e-12)
    if found["bound_by"] not in ("dram", "compute"):
        stalls = tile["stall_by_port"]
        assert stalls[found["bound_by"]] == max(stalls.values())
    elif found["bound_by"] == "compute":
        assert not tile["stall_by_port"]


NARROW = """
name: narrow
node_nm: 28
clock_hz: 1 GHz
cores:
  pe:
    kind: matrix
    axes: {k: {size: 2, multicast: [I]}, c: {size: 2, reduce: true}}
    rates: [int8]
    memories:
      - {name: rf, operands: [W], per: mac, size_bytes: 4, bandwidth_bits_per_cycle: 2}
      - {name: local, size_bytes: 256, bandwidth_bits_per_cycle: 64}
      - {name: sram, size_bytes: 64 KiB, bandwidth_bits_per_cycle: 8}
dram: {main: {kind: LPDDR4, capacity_bytes: 1 GiB}}
network: {bus: {bus: [pe, main], bandwidth_bits_per_cycle: 64}}
"""


def test_a_port_stalls_the_array_beyond_its_waiting_for_tiles(tmp_path: Path) -> None:
    """Registers that are read 2 bits at a time take four cycles a step, and the local buffer is exchanged as well."""
    (tmp_path / "narrow.yaml").write_text(NARROW)
    found = mapped("linear", "--hardware", str(tmp_path / "narrow.yaml"), "--dims", "N=16,K=16,C=16")
    tile = found["tile_cycles"]
    steps = 16 * 16 * 16 / 4 / found["tiles"]
    assert tile["compute"] == steps
    assert tile["exposed"] > 0
    assert tile["stall_by_port"]["rf.r0"] == pytest.approx(4 * steps - tile["compute"] - tile["exposed"])
    assert tile["total"] == pytest.approx(4 * steps + tile["fill"] + tile["drain"])
    assert found["bound_by"] == "rf.r0"


def test_what_crosses_to_and_from_dram_is_the_operands() -> None:
    """Everything fits: each operand passes once, and the memory's side is the mirror image of DRAM's."""
    found = mapped("linear", "--hardware", "tpu-like", "--dims", "N=16,K=32,C=64", "--precision", "int8")
    rows = found["accesses"]["dram"]
    assert {slot: (row["reads"], row["writes"]) for slot, row in rows.items()} == {
        "I": (16 * 64, 0),
        "W": (32 * 64, 0),
        "O": (0, 16 * 32),
    }
