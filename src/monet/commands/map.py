"""``monet map``: the best mapping of one operator, or the cost of every operator of a model, each alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from monet.commands.options import refuse_unused, with_request
from monet.errors import MonetError, nearest
from monet.frontends import FAMILIES, ZOO, is_zoo
from monet.graph.counts import nest_of
from monet.graph.graph import Graph
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.graph.loop_nest import LoopNest
from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.core import Core
from monet.hardware.lane_array import arrays_of
from monet.mapping.cost_store import default_store
from monet.mapping.errors import MappingError
from monet.mapping.mapper.tiling import Constraints
from monet.mapping.nest.cost import Access
from monet.mapping.text.loop_text import loop_nest_text
from monet.mapping.text.mapping_file import check_operands, mapping_document, read_constraints, read_mapping
from monet.mapping.text.operator_arguments import OPERATORS, operator_nest, with_formats
from monet.mapping.unfused.arrays import unfused_on
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.model_operators import OperatorCost, Unmapped, distinct_instances, map_graph
from monet.mapping.unfused.operator import Unfused, unfused_as
from monet.mapping.vector import VectorCost
from monet.options import options_of
from monet.report.files import check_outputs, write_json
from monet.report.quantities import joules, quantity, seconds
from monet.report.screen import screen
from monet.report.table import Heading, TextTable
from monet.request import Request
from monet.transforms.precision import precision_named
from monet.transforms.product_formats import OPERANDS

_TARGET = "An operator (conv, conv_transpose, conv_weight_gradient, linear, linear_weight_gradient, matmul) or a model."
_PRECISION = (
    "fp32, bf16, fp16, fp64, int16, int8 …; default: what the core has, of a model the widest that some array has."
)

OF_A_MODEL = [
    name
    for name, option in options_of(Request).items()
    if option.group in ("model", "training", "checkpoint") and name not in ("model", "precision")
]


@with_request("model", "training", "checkpoint", "hardware", "phases", "objective", model=_TARGET, precision=_PRECISION)
def map_command(
    request: Request,
    core: Annotated[str, typer.Option("--core", help="Core instance; default: the one that does it best.")] = "",
    dims: Annotated[str, typer.Option("--dims", help="K=64,C=64,OY=56,OX=56,FY=3,FX=3; also N, G, stride, dilation, pad, B.")] = "",
    mapping: Annotated[str, typer.Option("--mapping", metavar="FILE", help="Cost this mapping as it stands.")] = "",
    constraint: Annotated[list[str] | None, typer.Option("--constraint", help="'keep W stationary', 'OY<=4', 'LEVEL:OY<=4'.")] = None,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
) -> None:  # fmt: skip
    """Show the best mapping of an operator, or what every operator of a model costs alone with its operands in DRAM."""
    check_outputs({}, {"--json": json})
    accelerator = request.accelerator()
    if request.model in OPERATORS:
        refuse_unused("on one operator", {}, request, *OF_A_MODEL)
        result, text = _operator(request, accelerator, core, dims, mapping, constraint or [])
    else:
        if dims or mapping:
            raise MappingError(f"{request.model!r} is not an operator, so --dims and --mapping do not apply; {_TARGET}")
        result, text = _model(_graph(request, accelerator), accelerator, core, request.objective, constraint or [])
    if json:
        write_json(json, result)
    if json != "-":
        screen().print(text)


# --- one operator -----------------------------------------------------------------------------------------------------


def _nest(kind: str, dims: str, request: Request, array: Core) -> LoopNest:
    """An operator's nest, operands in what a policy says for such a product; without one, in what the core has."""
    if not request.precision:
        return operator_nest(kind, dims, array.rates[0].inputs[0])
    policy = precision_named(request.precision)
    nest = operator_nest(kind, dims, policy.working)
    if policy.products is None:
        return nest
    product = {"conv_transpose": "input_gradient"}.get(kind, "weight_gradient" if "gradient" in kind else "forward")
    roles = OPERANDS[product]
    if kind == "conv_transpose":
        roles = ("weight", "gradient")  # in the order of a nest's operands
    return with_formats(
        nest, (policy.products.format_of(product, roles[0]), policy.products.format_of(product, roles[1]))
    )


def _operator(
    request: Request, accelerator: Accelerator, core: str, dims: str, mapping: str, constraints: list[str]
) -> tuple[dict[str, Any], RenderableType]:
    kind = str(request.model)
    instance = (
        accelerator.instance(core)
        if core
        else next((candidate for candidate in accelerator.cores if arrays_of(candidate.core)), None)
    )
    arrays = arrays_of(instance.core) if instance else ()
    if instance is None or not arrays:
        raise MappingError(f"{accelerator.name}: no core with an array or lanes that multiply can run {kind}")
    nest = _nest(kind, dims, request, arrays[0])
    operands = dict(zip("IWO", (operand.name for operand in (*nest.reads, *nest.writes)), strict=True))
    pinned = read_constraints(constraints, operands, nest.sizes, _level_names(accelerator))
    if mapping:
        written = read_mapping(mapping, arrays[0].modes[0].name)
        check_operands(written, nest)
        border, store = border_of(accelerator, instance), default_store()
        modes = {mode.name: array for array in reversed(arrays) for mode in array.modes}
        array = modes.get(written.mapping.mode, arrays[0])
        found = unfused_as(nest, array, border, written.tile, written.order, written.mapping, store=store)
    else:
        instance, found = _best(nest, accelerator, core, request.objective, pinned)
    result = operator_json(found, accelerator, instance) | {"objective": request.objective}
    return result, operator_text(kind, found, nest, accelerator, instance)


def _level_names(accelerator: Accelerator) -> set[str]:
    return {level.name for instance in accelerator.cores for level in instance.core.levels}


def _best(
    nest: LoopNest, accelerator: Accelerator, core: str, objective: str, constraints: Constraints
) -> tuple[CoreInstance, Unfused]:
    """The best core design for the nest, or the core asked for; if none can run it, the first reason."""
    instances = (
        [accelerator.instance(core)]
        if core
        else [candidate for candidate in distinct_instances(accelerator) if arrays_of(candidate.core)]
    )
    found: list[tuple[float, CoreInstance, Unfused]] = []
    errors: list[MonetError] = []
    for instance in instances:
        try:
            border = border_of(accelerator, instance)
            cost = unfused_on(nest, instance.core, border, objective, constraints, store=default_store())
        except MonetError as error:
            errors.append(error)
            continue
        seconds = cost.cycles / instance.core.clock_hz
        score = {"latency": seconds, "energy": cost.energy_j, "edp": seconds * cost.energy_j}[objective]
        found.append((score, instance, cost))
    if not found:
        raise errors[0]
    _, instance, cost = min(found, key=lambda candidate: candidate[0])
    return instance, cost


def accesses_json(cost: Unfused | VectorCost) -> dict[str, dict[str, dict[str, float]]]:
    """Level → operand slot → elements and bits read and written, DRAM included."""
    table: dict[str, dict[str, dict[str, float]]] = {}

    def add(level: str, access: Access, verb: str) -> None:
        empty: dict[str, float] = {"reads": 0, "writes": 0, "read_bits": 0, "write_bits": 0}
        row = table.setdefault(level, {}).setdefault(access.slot, empty)
        row[f"{verb}s"] += access.elements
        row[f"{verb}_bits"] += access.bits

    for access in (*cost.accesses, *cost.border_accesses):
        add("dram" if access.level == "stream" else access.level, access, "read" if access.flow.is_read else "write")
    for access in cost.border_accesses:  # the other side of what passes the border
        add("dram", access, "write" if access.flow.is_read else "read")
    return table


def _energies(cost: Unfused | VectorCost) -> dict[str, float]:
    """Joules by level, those of what passes the border included."""
    inner, border = cost.energy_j_by_level, cost.border_energy_j
    return {level: inner.get(level, 0.0) + border.get(level, 0.0) for level in inner | border}


def operator_json(cost: Unfused | VectorCost, accelerator: Accelerator, instance: CoreInstance) -> dict[str, Any]:
    """Everything about one operator, as plain data."""
    result: dict[str, Any] = {
        "core": instance.name,
        "cycles": cost.cycles,
        "compute_cycles": cost.compute_cycles,
        "seconds": cost.cycles / instance.core.clock_hz,
        "energy_j": cost.energy_j,
        "energy_j_by_level": _energies(cost),
        "static_energy_j": instance.core.leakage_w * cost.cycles / instance.core.clock_hz,
        "utilisation": cost.utilisation,
        "bound_by": cost.bound_by,
        "fill_cycles": cost.fill_cycles,
        "drain_cycles": cost.passing.drain_cycles,
        "dram_cycles": cost.passing.dram_cycles,
        "dram_read_bytes": cost.passing.read_bytes,
        "dram_write_bytes": cost.passing.write_bytes,
        "dram_burst_bytes": cost.passing.read_burst_bytes + cost.passing.write_burst_bytes,
        "accesses": accesses_json(cost),
    }
    if not isinstance(cost, Unfused):
        return result | {"macs": 0, "work": dict(cost.work), "mapping": None}
    tile = cost.mapped.cost
    stalls = {port: max(0.0, cycles - tile.compute_cycles - tile.exposed_cycles) for port, cycles in tile.port_cycles}
    return result | {
        "array_cycles": cost.array_cycles,
        "macs": cost.macs,
        "mapping": mapping_document(cost) if cost.phases == 1 else None,  # a file holds one mapping
        "phases": cost.phases,
        "tiles": sum(shape.count for shape in cost.shapes),
        "tile_cycles": {
            "compute": tile.compute_cycles,
            "exposed": tile.exposed_cycles,
            "stall_by_port": {port: stall for port, stall in stalls.items() if stall},
            "fill": tile.fill_cycles,
            "drain": tile.drain_cycles,
            "total": tile.cycles,
        },
        "roofline": roofline(cost, accelerator, instance),
    }


def roofline(cost: Unfused, accelerator: Accelerator, instance: CoreInstance) -> dict[str, float]:
    """Where the operator stands: MACs per DRAM byte, MACs per second, and the two roofs."""
    clock = instance.core.clock_hz
    moved = cost.passing.read_bytes + cost.passing.write_bytes
    bandwidth = border_of(accelerator, instance).bits_per_cycle * clock / 8
    return {
        "macs_per_byte": cost.macs / moved if moved else float("inf"),
        "macs_per_s": cost.macs / (cost.cycles / clock),
        "peak_macs_per_s": cost.units * clock,
        "dram_bytes_per_s": bandwidth,
    }


def operator_text(
    kind: str, cost: Unfused, nest: LoopNest, accelerator: Accelerator, instance: CoreInstance
) -> RenderableType:
    """The mapping and its cost, to be read."""
    tile, took = cost.mapped.cost, cost.cycles / instance.core.clock_hz
    head = [
        f"{kind} on {instance.name} of {accelerator.name}: {nest}",
        "",
        loop_nest_text(nest, cost),
        "",
        f"cycles {cost.cycles:,.0f} ({seconds(took)}), bound by {cost.bound_by}, utilisation {cost.utilisation:.1%}",
        f"  first tile in {cost.fill_cycles:,.0f}, array {cost.core_cycles:,.0f} (compute {cost.compute_cycles:,.0f}), "
        f"last tile out {cost.passing.drain_cycles:,.0f}; DRAM busy {cost.passing.dram_cycles:,.0f}",
        f"  one tile of {sum(shape.count for shape in cost.shapes)}: compute {tile.compute_cycles:,.0f}, waiting for "
        f"exchange {tile.exposed_cycles:,.0f}, fill {tile.fill_cycles:,.0f}, drain {tile.drain_cycles:,.0f}",
    ]
    for port, cycles in sorted(tile.port_cycles, key=lambda load: -load[1])[:4]:
        head.append(f"    port {port}: busy {cycles:,.0f}")
    spent = [
        (level, joules(energy), f"{energy / cost.energy_j:.1%}")
        for level, energy in sorted(_energies(cost).items(), key=lambda part: -part[1])
    ]
    accesses = [
        (level, slot, f"{row['reads']:,.0f}", f"{row['writes']:,.0f}")
        for level, slots in accesses_json(cost).items()
        for slot, row in slots.items()
    ]
    point = roofline(cost, accelerator, instance)
    roof = min(point["peak_macs_per_s"], point["macs_per_byte"] * point["dram_bytes_per_s"])
    last = (
        f"roofline: {point['macs_per_byte']:.2f} MAC/byte, {quantity(point['macs_per_s'], 'MAC/s')} of "
        f"{quantity(roof, 'MAC/s')} possible ({point['macs_per_s'] / roof:.1%})"
    )
    return Group(
        Text("\n".join([*head, ""])),
        TextTable(f"energy {joules(cost.energy_j)} (dynamic)", ("", "", ""), spent),
        Text(),
        TextTable("", ("level", Heading("slot", "words"), "reads", "writes"), accesses),
        Text(f"\n{last}"),
    )


# --- a model ----------------------------------------------------------------------------------------------------------


def _graph(request: Request, accelerator: Accelerator) -> Graph:
    model = str(request.model)
    if model.isidentifier() and not is_zoo(model):
        raise MonetError(f"unknown operator or model {model!r}; {nearest(model, [*OPERATORS, *FAMILIES, *ZOO])}")
    attention = "explicit" if request.attention == "auto" else request.attention  # the one that can be mapped alone
    precision = request.precision or _usual_precision(accelerator)
    return replace(request, precision=precision, attention=attention).graph()


def _usual_precision(accelerator: Accelerator) -> str:
    """The widest policy that some array of the hardware has a rate for."""
    rates = {rate.inputs for instance in accelerator.cores for rate in instance.core.rates}
    return next((name for name in ("fp32", "bf16", "fp16", "int16", "int8") if (name, name) in rates), "fp32")


def _model(
    graph: Graph, accelerator: Accelerator, core: str, objective: str, constraints: list[str]
) -> tuple[dict[str, Any], RenderableType]:
    nests = (nest_of(graph, op) for op in graph.ops if kind_named(op.kind).family in MAC_FAMILIES)
    dims = {dim for nest in nests if nest for dim in nest.sizes} if constraints else set()
    pinned = read_constraints(constraints, {"I": "x", "W": "w", "O": "y"}, dims, _level_names(accelerator))
    costs, unmapped = map_graph(graph, accelerator, objective, core, pinned)
    lost = [operator for operator in unmapped if kind_named(operator.op.kind).family in MAC_FAMILIES]
    if lost or not costs:  # arithmetic that nothing runs is an error; missing vector lanes leave a table with a gap
        first = {operator.reason: operator.op.name for operator in reversed(lost or unmapped)}
        reasons = "\n".join(f"  {name}: {reason}" for reason, name in reversed(first.items()))
        count = f"{len(lost)} matrix operator(s)" if lost else "any operator"
        raise MappingError(f"{accelerator.name} cannot run {count} of {graph.name}; first of each reason:\n{reasons}")
    matrix = {operator.op.name: operator.cost for operator in costs if isinstance(operator.cost, Unfused)}
    clocks = {operator.op.name: operator.core.core.clock_hz for operator in costs}
    result = {
        "model": graph.name,
        "hardware": accelerator.name,
        "objective": objective,
        "operators": [
            {"name": operator.op.name, "kind": operator.op.kind, "phase": operator.op.phase.value}
            | operator_json(operator.cost, accelerator, operator.core)
            for operator in costs
        ],
        "unmapped": [
            {"name": operator.op.name, "kind": operator.op.kind, "reason": operator.reason} for operator in unmapped
        ],
        "cycles": sum(operator.cost.cycles for operator in costs),
        "seconds": sum(operator.seconds for operator in costs),
        "array_cycles": sum(cost.array_cycles for cost in matrix.values()),
        "array_seconds": sum(cost.array_cycles / clocks[name] for name, cost in matrix.items()),
        "energy_j": sum(operator.cost.energy_j for operator in costs),
        "macs": sum(operator.macs for operator in costs),
    }
    return result, model_text(result, costs, unmapped)


MODEL_HEADINGS = (
    "operator", Heading("kind", "words"), Heading("core", "words"), "MACs", "cycles", "energy", "used",
    Heading("bound by", "words"),
)  # fmt: skip


def model_text(
    result: dict[str, Any], costs: tuple[OperatorCost, ...], unmapped: tuple[Unmapped, ...]
) -> RenderableType:
    """The table, one row per operator."""
    rows = [
        (
            operator.op.name,
            operator.op.kind,
            operator.core.template,
            f"{operator.macs:,}",
            f"{operator.cost.cycles:,.0f}",
            joules(operator.cost.energy_j),
            f"{operator.cost.utilisation:.1%}",
            operator.cost.bound_by,
        )
        for operator in costs
    ]
    rows.append(
        ("total", "", "", f"{result['macs']:,}", f"{result['cycles']:,.0f}", joules(result["energy_j"]), "", "")
    )
    made = TextTable("", MODEL_HEADINGS, rows, [""] * len(costs) + ["bold"])
    alone = Text(
        f"arrays alone, no DRAM time: {result['array_cycles']:,.0f} cycles, {1e3 * result['array_seconds']:,.3f} ms, "
        "the sum of all matrix operators"
    )
    if not unmapped:
        return Group(made, alone)
    kinds = sorted({operator.op.kind for operator in unmapped})
    lost = Text(
        f"NOT COUNTED: {len(unmapped)} operators that no core of this hardware can run ({', '.join(kinds)})\n"
        f"  first: {unmapped[0].op.name}: {unmapped[0].reason}"
    )
    return Group(made, alone, lost)
