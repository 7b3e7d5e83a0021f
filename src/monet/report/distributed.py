"""A training step over a system in the terminal: where its time goes, stages with their memory, the network."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from monet.distributed.result import CommunicationRow, DistributedResult, StageRow, TimeRow
from monet.report.columns import Column, rows_table
from monet.report.quantities import joules, nbytes, percent, quantity, seconds
from monet.report.screen import screen
from monet.report.table import Bar, Heading, TextTable

MOST_STAGES = 12
STAGES: tuple[Column[StageRow], ...] = (
    Column("stage", "", lambda row: f"{row.number} ({row.device})"),
    Column("layers", "n", lambda row: row.blocks),
    Column("forward", "s", lambda row: row.forward_s),
    Column("backward", "s", lambda row: row.backward_s),
    Column("busy", "s", lambda row: row.busy_s),
    Column("bubble", "s", lambda row: row.bubble_s),
    Column("held", "n", lambda row: row.micro_batches_held),
    Column("weights", "B", lambda row: row.peak_memory_bytes.weights),
    Column("gradients", "B", lambda row: row.peak_memory_bytes.gradients),
    Column("states", "B", lambda row: row.peak_memory_bytes.optimizer_state),
    Column("activations", "B", lambda row: row.peak_memory_bytes.activations),
    Column("workspace", "B", lambda row: row.peak_memory_bytes.workspace),
    Column("memory", "B", lambda row: row.peak_memory_bytes.total),
    Column("full", "%", lambda row: row.peak_memory_bytes.total / row.capacity_bytes),
)
AT_THE_HOST: Column[StageRow] = Column("at the host", "B", lambda row: row.host_memory_bytes)
COMMUNICATION: tuple[Column[CommunicationRow], ...] = (
    Column("collective", "", lambda row: f"{row.group} {row.kind}"),
    Column("level", "", lambda row: row.level, holds="words"),
    Column("calls", "", lambda row: row.calls),
    Column("a device sends", "B", lambda row: row.bytes),
    Column("all", "B", lambda row: row.total_bytes),
    Column("on the port", "s", lambda row: row.seconds),
    Column("exposed", "s", lambda row: row.exposed_s),
)


def parts_of(row: TimeRow) -> Iterator[tuple[str, float]]:
    """Where time goes, in words."""
    yield "compute", row.compute
    yield "recomputation", row.recomputation
    yield "update", row.update
    for kind, value in row.communication.items():
        yield f"exposed {kind.replace('_', '-')}", value
    yield "bubble", row.bubble
    if row.host:
        yield "waiting for the host", row.host


def plan_words(result: DistributedResult) -> str:
    """The plan in one line."""
    plan = result.parallel
    said = [f"data {plan['data']}", f"tensor {plan['tensor']}" + (" + sequence" if plan["sequence_parallel"] else "")]
    schedule = f" {plan['pipeline_schedule']}" if plan["pipeline_schedule"] != "1f1b" else ""
    chunks = f" × {plan['interleave']} chunks" if plan["interleave"] > 1 else ""
    said.append(f"pipeline {plan['pipeline']}{chunks}{schedule}")
    said.append(f"micro-batch {plan['micro_batch']} × {result.micro_batches}")
    said += [f"shard {plan['shard']}"] if plan["shard"] != "none" else []
    recompute = plan["recompute"] if isinstance(plan["recompute"], str) else "by a plan"
    said += [f"recompute {recompute}"] if recompute != "none" else []
    away = plan.get("offload", "none")
    said += [f"{'activations and states' if away == 'both' else away} at the host"] if away != "none" else []
    return ", ".join(said)


def title_of(result: DistributedResult) -> str:
    """What was costed."""
    return f"{result.model} on {result.devices:,} devices of {result.system}, batch {result.batch:,}"


def time_table(result: DistributedResult) -> TextTable:
    """Where the time of a device goes."""
    whole = result.latency_s or 1.0
    rows = [
        (name, seconds(value), percent(value / whole), Bar(value / whole))
        for name, value in parts_of(result.time)
        if value > 0
    ]
    title = "Where a device's time goes, on the average over stages"
    return TextTable(title, ("", "", "", Heading("", "bar")), rows)


def headline(result: DistributedResult) -> TextTable:
    """The figures that matter most."""
    headings = (Heading("", "words"), Heading("", "figure", "bold"), Heading("", "prose", "dim"))
    most = max(result.stages, key=lambda row: row.peak_memory_bytes.total, default=None)
    rows = [
        ("step", seconds(result.latency_s), f"{quantity(result.throughput_per_s, '')} samples/s"),
        ("MFU", percent(result.mfu), f"of the devices' peak; with recomputation {percent(result.hfu)}"),
        ("energy", joules(result.energy_j), f"of all devices and the network; {quantity(result.power_w, 'W')}"),
        ("device-hours", f"{result.device_hours:.4g}", "of one step"),
    ]
    if most:
        said = f"of {nbytes(most.capacity_bytes)} on a device of stage {most.number}"
        rows.append(("memory", nbytes(most.peak_memory_bytes.total), said))
    return TextTable("", headings, rows)


def render(result: DistributedResult) -> RenderableType:
    """Everything, for a screen."""
    lines: list[RenderableType] = [Text(title_of(result), style="bold"), Text(plan_words(result)), Text()]
    if result.reason:
        lines += [Text(f"infeasible: {result.reason.message}", style="red"), Text()]
    lines += [Text(f"note: {note}") for note in result.notes]
    if not result.stages:
        return Group(*lines)
    shown = result.stages if len(result.stages) <= MOST_STAGES else (*result.stages[:6], *result.stages[-6:])
    more = f"{len(result.stages) - len(shown)} more between" if len(shown) < len(result.stages) else ""
    lines += [headline(result), Text(), time_table(result), Text()]
    columns = (*STAGES, AT_THE_HOST) if any(row.host_memory_bytes for row in result.stages) else STAGES
    lines += [rows_table("Stages, a device of each", columns, shown, more=more)]
    if result.communication:
        lines += [Text(), rows_table("Network", COMMUNICATION, result.communication)]
    return Group(*lines)


def text(result: DistributedResult) -> str:
    """The same as text."""
    with (console := screen()).capture() as caught:
        console.print(render(result))
    return caught.get().rstrip()
