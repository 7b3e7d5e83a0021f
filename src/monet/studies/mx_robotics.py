"""Which format should a robot learn in, on which NPU: four dynamics networks, square groups against DaCapo.

arXiv 2505.22404 compares a square-group array with DaCapo at equal peak throughput. Of its layer sizes and its grid of
blocks nothing is known to us; both are assumptions here, and what they move is shown.
"""

from __future__ import annotations

from typing import Any

from monet.hardware.accelerator import Accelerator
from monet.hardware.loading import load_hardware
from monet.hardware.technology import Technology
from monet.report.html.study import Panel, axis, figure, scatter, table_panel, words_panel
from monet.report.table import Heading, TextTable
from monet.request import Request
from monet.studies.mx_arrays import ArrayWork, array_core, percent, work_of
from monet.studies.mx_formats import operand_bytes
from monet.studies.mx_learning import NETWORK, best, learning_rows, learning_table, loss_against_energy
from monet.studies.study import Options, Outcome
from monet.transforms.product_formats import NAMED

NETWORKS = ("mlp-cartpole", "mlp-reacher", "mlp-pusher", "mlp-halfcheetah")
BATCH = 32  # of PETS (kchua/handful-of-trials)
# square policy, DaCapo's, and engines of DaCapo (columns × rows) with the peak of 4096 units: 1, 4 and 8 products a
# cycle against 1, 4 and 16
PAIRS = (("mxint8-square", "mx9", 64, 64), ("mxfp6-square", "mx6", 64, 64), ("mxfp4-square", "mx4", 64, 32))
CLAIMS = {"throughput": 4.0, "footprint": 0.51, "area": 0.256}  # and "comparable" energy
GRIDS = ((8, 512), (16, 256), (32, 128), (64, 64), (128, 32))  # rows and columns of 4096 units
UNIT_UM2 = 2080.0  # published of a unit of the square array
NODE_NM = 16  # of the square array, for what is derived
SMALL_ARRAYS = 16  # of 16×16 engines, in place of one of 64×64
NPUS = {"snax-mx": "-square", "mx-square": "-square", "dacapo": ""}
POLICIES = {"snax-mx": ("mxint8", "mxfp8", "mxfp6", "mxfp4"), "dacapo": ("mx9", "mx6", "mx4")}

LEARNING = "Every format and group shape on every NPU that multiplies it; the same weights and batches for all."
ASSUMPTIONS = (
    "Networks: the dynamics models of PETS, batch 32; the paper's own layer sizes are not known to us.",
    "Grid: 4×16 blocks of 8×8, at 500 MHz as in the abstract; other grids in the table. DaCapo: one array of "
    "64×64 engines by its published cycle law; sixteen of 16×16, or another batch, in the table.",
    "Energy and area of DaCapo's engines are derived (no published figure by part); those of the square array are"
    " published. Memory: both as large as the operands of the largest network, in the node of the square array.",
    "No vector work in throughput, energy and area; the whole step, with it, in the table by NPU.",
)


def run(options: Options) -> Outcome:
    """All tables."""
    options.say("throughput at equal peak")
    ratios = [ratio_row(network, *pair) for network in NETWORKS for pair in PAIRS]
    options.say("what assumptions move")
    moved = influence_rows(NETWORKS if options.effort > 2 else NETWORKS[:1])
    options.say("whole steps by NPU and format")
    steps = [step_row(network, npu, policy) for network in NETWORKS for npu in NPUS for policy in policies_of(npu)]
    options.say("learning")
    learnt = learning_rows(options)
    area, energy = area_row(), [energy_row(*pair[:2]) for pair in PAIRS]
    values = {"claims": CLAIMS, "pairs": ratios, "assumptions": moved, "steps": steps, "area": area, "energy": energy}
    values["learning"] = learnt
    tables = (
        _ratio_table(ratios), _influence_table(moved), _energy_table(energy), _area_table(area), _step_table(steps),
        learning_table(learnt),
    )  # fmt: skip
    panels = (
        Panel("Loss against energy", LEARNING, figure=loss_against_energy(learnt), height_px=620),
        Panel(
            "Energy and time of a training step", "mlp-cartpole, batch 32, vector work included.", figure=_plot(steps)
        ),
        *(table_panel(made) for made in tables),
        words_panel("Assumptions", ASSUMPTIONS),
    )
    return Outcome("Robots that learn: formats and NPUs", values, tables, _facts(ratios, area, learnt), panels)


def policies_of(npu: str) -> tuple[str, ...]:
    """The policies that an NPU can multiply in."""
    return tuple(f"{name}{NPUS[npu]}" for name in POLICIES.get(npu, POLICIES["snax-mx"]))


# --- square groups against DaCapo -------------------------------------------------------------------------------------


def square_array(rows: int = 32, columns: int = 128) -> Accelerator:
    """The square-group array with another grid."""
    return load_hardware("mx-square", {"block_rows": rows, "block_columns": columns})


def dacapo_array(columns: int, rows: int) -> Accelerator:
    """DaCapo with another number of engines."""
    sizes = {"cores.engines.axes.columns.size": columns, "cores.engines.axes.rows.size": rows}
    return load_hardware("dacapo", sizes)


def ratio_row(network: str, square: str, dacapo: str, columns: int, rows: int) -> dict[str, Any]:
    """Cycles, bytes and joules of a training step's products in both."""
    ours = work_of(network, square_array(), square, "training", BATCH)
    theirs = work_of(network, dacapo_array(columns, rows), dacapo, "training", BATCH)
    held = {
        policy: operand_bytes(Request(network, precision=policy, batch=BATCH).graph())[0] for policy in (square, dacapo)
    }
    joules = {"square": sum(ours.energy_j.values()), "dacapo": sum(theirs.energy_j.values())}
    return {
        "network": network, "square": square, "dacapo": dacapo, "engines": f"{columns}x{rows}",
        "cycles": {"square": ours.array_cycles, "dacapo": theirs.array_cycles},
        "throughput": theirs.array_cycles / ours.array_cycles,
        "used": {"square": _used(ours), "dacapo": _used(theirs)},
        "footprint": 1 - held[square] / held[dacapo], "bytes": held,
        "energy_j": joules, "energy": joules["square"] / joules["dacapo"],
        "dacapo_product_pj_for_equal_energy": 1e12 * _equal_energy(ours, theirs),
    }  # fmt: skip


def _used(work: ArrayWork) -> float:
    return work.full_cycles / work.array_cycles


def _equal_energy(ours: ArrayWork, theirs: ArrayWork) -> float:
    """Joules of one of DaCapo's products at which both take the same energy."""
    others = sum(joules for level, joules in theirs.energy_j.items() if level != "compute")
    return (sum(ours.energy_j.values()) - others) / theirs.macs


def influence_rows(networks: tuple[str, ...]) -> list[dict[str, Any]]:
    """The ratio of throughput, the mean of some networks, under other assumptions, for every pair of formats."""
    usual = (32, 128)
    assumptions = (
        ("as assumed", BATCH, usual, 1),
        ("without DaCapo's first fills", BATCH, usual, 0),
        *((f"grid of {grid[0] // 8}×{grid[1] // 8} blocks", BATCH, grid, 1) for grid in GRIDS if grid != usual),
        (f"DaCapo as {SMALL_ARRAYS} arrays of 16×16", BATCH, usual, SMALL_ARRAYS),
        ("batch 8", 8, usual, 1),
        ("batch 256", 256, usual, 1),
    )
    found = []
    for name, batch, grid, arrays in assumptions:
        row: dict[str, Any] = {"assumption": name}
        for pair in PAIRS:
            ratios = [_ratio(network, pair, batch, grid, arrays) for network in networks]
            row[pair[0]] = sum(ratios) / len(ratios)
        found.append(row)
    return found


def _ratio(network: str, pair: tuple[str, str, int, int], batch: int, grid: tuple[int, int], arrays: int) -> float:
    """DaCapo's cycles over ours. ``arrays``: small ones that share the work; 1: one as large; 0: that one, filled."""
    square, dacapo, columns, rows = pair
    ours = work_of(network, square_array(*grid), square, "training", batch)
    engines = dacapo_array(16, 16 * rows // 64) if arrays > 1 else dacapo_array(columns, rows)
    theirs = work_of(network, engines, dacapo, "training", batch)
    return (theirs.array_cycles / arrays if arrays else theirs.compute_cycles) / ours.array_cycles


def energy_row(square: str, dacapo: str) -> dict[str, Any]:
    """Picojoules of a product, units alone: as published of the square array, and of both by one technology at 16 nm. A
    unit of the square array has a multiplier's worth of two-bit ones, an adder, and an fp32 adder for its cycle."""
    published, theirs = (
        array_core(load_hardware(name)).core.rate(*[NAMED[policy].format_of("forward", "input")] * 2)
        for name, policy in (("mx-square", square), ("dacapo", dacapo))
    )
    technology = Technology(NODE_NM)
    multiply, add, wide = (
        1e12 * technology.energy_j(*unit) for unit in (("multiply", "int8", "int8"), ("add", "int16"), ("add", "fp32"))
    )
    ours = multiply / published.products_per_cycle + add + wide / published.products_per_cycle
    other = multiply / theirs.products_per_cycle + add + wide / theirs.products_per_step
    power = 1e12 * published.energy_j * published.products_per_cycle / UNIT_UM2  # pJ a cycle and µm²
    dense = power * like_published_um2() / theirs.products_per_cycle
    return {
        "square": square, "dacapo": dacapo, "published_pj": 1e12 * published.energy_j, "square_derived_pj": ours,
        "dacapo_derived_pj": other, "published_ratio": 1e12 * published.energy_j / other, "derived_ratio": ours / other,
        "dacapo_as_dense_pj": dense, "dense_ratio": 1e12 * published.energy_j / dense,
    }  # fmt: skip


def engine_um2() -> float:
    """Square micrometres of one of DaCapo's engines by our technology: a multiplier's worth of two-bit ones, a tree of
    15 adders, an fp32 adder, registers for two groups of 16 and a sum."""
    technology = Technology(NODE_NM)
    engine = technology.area_m2("multiply", "int8", "int8") + 15 * technology.area_m2("add", "int16")
    engine += technology.area_m2("add", "fp32") + technology.register_area_m2(2 * 16 * 9 + 32)
    return 1e12 * engine


def unit_um2() -> float:
    """The same of a unit of the square array, which adds eight products at most: what is published is larger."""
    technology = Technology(NODE_NM)
    unit = technology.area_m2("multiply", "int8", "int8") + 7 * technology.area_m2("add", "int16")
    return 1e12 * (unit + technology.area_m2("add", "fp32") + technology.register_area_m2(2 * 64 + 32))


def like_published_um2() -> float:
    """An engine that is as much larger than we derive as the published unit is."""
    return engine_um2() * UNIT_UM2 / unit_um2()


def area_influence(area: dict[str, Any]) -> list[dict[str, Any]]:
    """How much less area the square array takes under other assumptions on DaCapo's engine."""
    memory, total = area["memory_mm2"]["dacapo"], area["total_mm2"]["square"]
    engines = {
        "as derived": engine_um2(),
        "as much larger than derived as the square unit is": like_published_um2(),
    }
    return [
        {
            "assumption": text,
            "engine_um2": size,
            "saved": 1 - total / (64**2 * size / 1e6 + area["queues_mm2"] + memory),
        }
        for text, size in engines.items()
    ]


def area_row() -> dict[str, Any]:
    """Square millimetres of both in the node of the square array, memories for the largest network's operands."""
    square = array_core(load_hardware("mx-square")).core
    technology = Technology(NODE_NM)
    queues = technology.register_area_m2((64 + 64) * 16 * 16 * 9)
    sizes = {
        name: max(operand_bytes(Request(network, precision=policy, batch=BATCH).graph())[0] for network in NETWORKS)
        for name, policy in (("square", "mxint8-square"), ("dacapo", "mx9"))
    }
    memory = {name: technology.sram(size, 1024).area_m2 for name, size in sizes.items()}
    units = {"square": square.compute_area_m2, "dacapo": 64 * 64 * engine_um2() / 1e12 + queues}
    total = {name: units[name] + memory[name] for name in units}
    return {
        "units_mm2": {name: 1e6 * area for name, area in units.items()},
        "memory_mm2": {name: 1e6 * area for name, area in memory.items()}, "memory_bytes": sizes,
        "queues_mm2": 1e6 * queues,
        "total_mm2": {name: 1e6 * area for name, area in total.items()},
        "saved": 1 - total["square"] / total["dacapo"], "memory_saved": 1 - memory["square"] / memory["dacapo"],
        "engine_um2_for_claim": 1e12 * (total["square"] / (1 - CLAIMS["area"]) - memory["dacapo"] - queues) / 64**2,
    }  # fmt: skip


# --- whole steps ------------------------------------------------------------------------------------------------------


def step_row(network: str, npu: str, policy: str) -> dict[str, Any]:
    """Time, joules and bytes of a whole training step."""
    result = Request(network, npu, precision=policy, batch=BATCH).evaluate()
    return {
        "network": network, "npu": npu, "policy": policy, "latency_s": result.latency_s, "energy_j": result.energy_j,
        "peak_bytes": result.dram_peak_bytes,
    }  # fmt: skip


# --- shown ------------------------------------------------------------------------------------------------------------


def _facts(ratios: list[dict[str, Any]], area: dict[str, Any], learnt: list[dict[str, Any]]) -> tuple[str, ...]:
    eight = [row for row in ratios if row["dacapo"] == "mx9"]
    throughput = [row["throughput"] for row in eight]
    saved = [row["footprint"] for row in ratios]
    energy = [row["energy"] for row in ratios]
    cheapest = best(learnt)
    answer = f"{cheapest[0]} on {cheapest[1]}, {1e3 * cheapest[2]:.2f} mJ" if cheapest else "none in these steps"
    return (
        f"least energy to learn {NETWORK}: {answer}",
        f"throughput at equal peak, 8 bits: {min(throughput):.1f} to {max(throughput):.1f}×, claimed 4×",
        f"footprint: {percent(min(saved))} to {percent(max(saved))} less, claimed 51 %",
        f"area: {percent(area['saved'])} less, claimed 25.6 %",
        f"energy: {min(energy):.1f} to {max(energy):.1f} times DaCapo's, claimed comparable",
    )


def _ratio_table(rows: list[dict[str, Any]]) -> TextTable:
    cells = [
        (
            row["network"], f"{row['square']} / {row['dacapo']} {row['engines']}", f"{row['throughput']:.1f}×",
            f"{percent(row['used']['square'], 0)} / {percent(row['used']['dacapo'], 0)}", percent(row["footprint"]),
            f"{row['energy']:.1f}×", f"{row['dacapo_product_pj_for_equal_energy']:.2f}",
        )
        for row in rows
    ]  # fmt: skip
    heads = (
        "network", Heading("formats, engines", "words"), "throughput (4×)", "used: square / DaCapo",
        "footprint less (51 %)", "energy of DaCapo's", "pJ for equal energy",
    )  # fmt: skip
    return TextTable("Square groups against DaCapo at equal peak; claims in brackets", heads, cells)


def _influence_table(rows: list[dict[str, Any]]) -> TextTable:
    policies = [square for square, *_ in PAIRS]
    cells = [(row["assumption"], *(f"{row[policy]:.1f}×" for policy in policies)) for row in rows]
    return TextTable("Throughput against DaCapo's under other assumptions", ("assumption", *policies), cells)


def _energy_table(rows: list[dict[str, Any]]) -> TextTable:
    keys = ("published_pj", "square_derived_pj", "dacapo_derived_pj", "dacapo_as_dense_pj")
    cells = [
        (
            f"{row['square']} / {row['dacapo']}", *(f"{row[key]:.3f}" for key in keys),
            f"{row['published_ratio']:.1f}×", f"{row['derived_ratio']:.1f}×", f"{row['dense_ratio']:.1f}×",
        )
        for row in rows
    ]  # fmt: skip
    heads = (
        "formats", "square, published", "square, derived", "DaCapo, derived", "DaCapo, as much power per area",
        "published / derived", "both derived", "as much power per area",
    )  # fmt: skip
    return TextTable("Energy of a product at 16 nm, units alone, pJ; claimed: comparable", heads, cells)


def _area_table(area: dict[str, Any]) -> TextTable:
    cells = [
        (part, *(f"{area[key][name]:.2f}" for name in ("square", "dacapo")))
        for part, key in (("units", "units_mm2"), ("memory", "memory_mm2"), ("sum", "total_mm2"))
    ]
    cells.append(("less than DaCapo's", percent(area["saved"]), "claimed 25.6 %"))
    cells.append(("an engine for the claim, µm²", "", f"{area['engine_um2_for_claim']:.0f}"))
    for row in area_influence(area):
        cells.append((f"less, engine {row['assumption']}", percent(row["saved"]), f"{row['engine_um2']:.0f} µm²"))
    return TextTable("Area at 16 nm, mm²; DaCapo's units are derived", ("part", "square", "DaCapo"), cells)


def _step_table(rows: list[dict[str, Any]]) -> TextTable:
    cells = [
        (
            row["network"], row["npu"], row["policy"], f"{1e6 * row['latency_s']:.1f}", f"{1e6 * row['energy_j']:.1f}",
            f"{row['peak_bytes'] / 1024:,.0f}",
        )
        for row in rows
    ]  # fmt: skip
    heads = ("network", Heading("NPU", "words"), Heading("policy", "words"), "µs a step", "µJ a step", "peak KiB")
    return TextTable("A whole training step, batch 32, vector work and DRAM included", heads, cells)


def _plot(rows: list[dict[str, Any]]) -> dict[str, Any]:
    traces = []
    for npu in NPUS:
        chosen = [row for row in rows if row["npu"] == npu and row["network"] == NETWORKS[0]]
        x, y = ([1e6 * row[key] for row in chosen] for key in ("latency_s", "energy_j"))
        traces.append(scatter(npu, x, y, mode="markers+text", text=[row["policy"] for row in chosen]))
    scale = {"type": "log"}
    return figure(traces, xaxis=axis("µs a step", **scale), yaxis=axis("µJ a step", **scale))
