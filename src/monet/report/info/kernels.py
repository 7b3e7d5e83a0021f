"""A step in the words of GPUs: kernels in waves, tails, use of tensor cores, achieved bandwidth, launch gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from monet.hardware.accelerator import Accelerator
from monet.hardware.thread_blocks import Kernel
from monet.report.quantities import percent, seconds
from monet.request import Request
from monet.schedule.engine import Scheduler
from monet.schedule.result import Result
from monet.schedule.result_rows import OperatorRow
from monet.schedule.workload import Operator


@dataclass(frozen=True)
class KernelRow:
    """A product of a step as the kernel that it ran as: ``kernel`` is that of one of the ``sums`` parts which what is
    summed is cut into (split-K), each over its own cores at the same time."""

    operator: OperatorRow
    kernel: Kernel
    sums: int
    peak_macs_per_s: float

    @property
    def blocks(self) -> int:
        """Blocks of all parts."""
        return self.kernel.blocks * self.sums

    @property
    def cores(self) -> int:
        """Cores that blocks are dealt out to."""
        return self.kernel.cores * self.sums

    @property
    def tensor_core_use(self) -> float:
        """Share of what the arrays of all cores could multiply meanwhile."""
        took = self.operator.latency_s
        return self.operator.macs / (took * self.peak_macs_per_s) if took else 0.0


def kernels(result: Result) -> list[KernelRow]:
    """Products that ran as kernels of blocks of threads, longest first; none on other devices, or where the request of
    a result cannot be followed."""
    request = Request.of(result)
    accelerator = request.accelerator()
    if not runs_blocks(accelerator):
        return []
    scheduler = Scheduler(request.graph(), accelerator)
    known = {operator.op.name: operator for operator in scheduler.workload.operators}
    share = 1.0 if result.plan.get("boundary") == "dram" else float(result.plan.get("buffer_share", 1.0))
    found = []
    for row in result.operators:
        operator = known.get(row.name)
        if operator is None or not operator.is_matrix:
            continue
        sums = _parts_of_sum(operator, row)
        kernel = _kernel(operator, row, scheduler, share, sums)
        if kernel is not None:
            first, second = (operand.dtype for operand in operator.nest.reads[:2])
            core = accelerator.instance(row.cores[0]).core
            rate = core.rate(first, second, either_way=True)
            found.append(KernelRow(row, kernel, sums, core.peak_macs_per_s(rate) * _like(accelerator, row)))
    return sorted(found, key=lambda one: -one.operator.latency_s)


@dataclass(frozen=True)
class LikeKernels:
    """Products of one kind that ran as the same kernel, as those of equal layers do."""

    rows: tuple[KernelRow, ...]  # longest first

    @property
    def latency_s(self) -> float:
        """Of all of them."""
        return sum(row.operator.latency_s for row in self.rows)

    @property
    def tensor_core_use(self) -> float:
        """Share of what arrays could multiply while they ran."""
        took = self.latency_s
        return sum(row.tensor_core_use * row.operator.latency_s for row in self.rows) / took if took else 0.0


def like_kernels(found: list[KernelRow]) -> list[LikeKernels]:
    """Kernels of a step, those that are alike together, most time first."""
    alike: dict[Any, list[KernelRow]] = {}
    for row in found:
        alike.setdefault((row.operator.kind, row.operator.macs, row.kernel, row.sums), []).append(row)
    return sorted((LikeKernels(tuple(rows)) for rows in alike.values()), key=lambda some: -some.latency_s)


def runs_blocks(accelerator: Accelerator) -> bool:
    """Whether some core runs blocks of threads."""
    return any(instance.core.thread_blocks for instance in accelerator.cores)


def _like(accelerator: Accelerator, row: OperatorRow) -> int:
    return len(accelerator.like_cores[accelerator.design_number[row.cores[0]]])


def _parts_of_sum(operator: Operator, row: OperatorRow) -> int:
    """Into how many parts the split of a row cuts what is summed."""
    written, sums = operator.nest.writes[0].dims, 1
    for part in row.split.split():
        dim, _, many = part.partition(":")
        sums *= int(many or len(row.cores)) if dim not in written else 1
    return sums


def _kernel(operator: Operator, row: OperatorRow, scheduler: Scheduler, share: float, sums: int) -> Kernel | None:
    """The kernel of a row that runs alone, as it was costed; None if it is fused with others into tiles."""
    if row.tiles > len(row.cores):
        return None
    machine, cores = scheduler.machine, len(row.cores)
    instance = machine.accelerator.instance(row.cores[0])
    mine = 1 / machine.supplying.sharing(instance, cores)
    whole = scheduler.costs.kernel(operator, instance, cores, sums, mine)
    if whole is None or whole.held_bytes <= share * mine * instance.core.top("I").total_bytes:
        return whole
    return scheduler.costs.kernel(operator, instance, cores, sums, share * mine)


def sentences(result: Result, found: list[KernelRow]) -> list[str]:
    """What is special about a step on such a device, most important first."""
    accelerator = Request.of(result).accelerator()
    if not runs_blocks(accelerator):
        return []
    said, whole = [], result.latency_s or 1.0
    if found:
        took = sum(row.operator.latency_s for row in found) or 1.0
        use = sum(row.tensor_core_use * row.operator.latency_s for row in found)
        tail = sum(row.kernel.tail * row.operator.latency_s for row in found) / took
        worst = max(found, key=lambda row: row.kernel.tail * row.operator.latency_s)
        said.append(
            f"Tensor cores reach {percent(use / took)} of their peak while products run and {percent(use / whole)} "
            f"over the step."
        )
        said.append(
            f"{len(found)} products run as kernels of {sum(row.blocks for row in found):,} blocks; last waves leave "
            f"{percent(tail)} of the SMs' time idle, most of it {worst.operator.name}: {count(worst.blocks, 'block')} "
            f"of {text(worst.kernel)}{_cut(worst)} over {worst.cores} SMs in {count(worst.kernel.waves, 'wave')}."
        )
    moved = sum(row.dram_read_bytes + row.dram_write_bytes for row in result.operators) / whole
    most = accelerator.dram.bandwidth_bytes_per_s
    said.append(
        f"DRAM moves {moved / 1e9:,.0f} GB/s on average, {percent(moved / most)} of its {most / 1e9:,.0f} GB/s."
    )
    gap = max(instance.core.dispatch_cycles / instance.core.clock_hz for instance in accelerator.cores)
    launches = len({row.group for row in result.operators})
    if gap:
        said.append(
            f"{count(launches, 'launch', 'launches')} of {seconds(gap)} each are {percent(launches * gap / whole)} of "
            "the step."
        )
    if accelerator.tdp_w:
        drawn = result.energy_j / whole
        said.append(f"It draws {drawn:,.0f} W on average, of a TDP of {accelerator.tdp_w:,.0f} W.")
    return said


def _cut(row: KernelRow) -> str:
    return f" (split-K {row.sums})" if row.sums > 1 else ""


def text(kernel: Kernel) -> str:
    """The tile of a kernel."""
    return "×".join(map(str, kernel.tile))


def count(number: int, one: str, many: str = "") -> str:
    """A number of things."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def info(found: list[KernelRow]) -> list[dict[str, Any]]:
    """Kernels as plain values."""
    return [
        {
            "operator": row.operator.name,
            "tile": list(row.kernel.tile),
            "blocks": row.blocks,
            "cores": row.cores,
            "split_k": row.sums,
            "waves": row.kernel.waves,
            "resident_blocks": row.kernel.resident,
            "tail": row.kernel.tail,
            "latency_s": row.operator.latency_s,
            "flop_per_s": 2 * row.operator.macs / row.operator.latency_s if row.operator.latency_s else math.nan,
            "tensor_core_use": row.tensor_core_use,
        }
        for row in found
    ]
