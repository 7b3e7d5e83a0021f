"""Published tables of two microscaling NPUs beside ours: DaCapo's execution times, the SNAX core's throughput,
utilisation, energy and area. What a paper does not print is an assumption that stands in the preset."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from monet.formats import format_named
from monet.graph.loop_nest import LoopNest
from monet.hardware.accelerator import Accelerator
from monet.hardware.loading import load_hardware
from monet.hardware.technology import Technology
from monet.mapping.text.operator_arguments import operator_nest
from monet.report.html.study import Panel, axis, figure, scatter, table_panel, words_panel
from monet.report.table import Heading, TextTable
from monet.request import Request
from monet.studies.mx_arrays import array_core, array_cycles, nests_work, percent, products_of
from monet.studies.study import Options, Outcome

# casys-kaist/DaCapo, execution times with all 16 rows: (model, mode, batch) → milliseconds in MX9, MX6, MX4
DACAPO_MS: dict[tuple[str, str, int], tuple[float, float, float]] = {
    ("resnet18", "training", 16): (824.60, 248.47, 110.08),
    ("resnet18", "training", 8): (418.75, 126.14, 56.48),
    ("vit-b32", "training", 16): (1343.65, 336.73, 100.91),
    ("vit-b32", "training", 8): (689.56, 174.71, 57.41),
    ("resnet18", "inference", 1): (18.313, 4.770, 1.561),
    ("vit-b32", "inference", 1): (33.549, 8.478, 2.474),
}
DACAPO_PRECISIONS = ("mx9", "mx6", "mx4")

# arXiv 2511.06313: GOPS, GOPS/W of the system by mode (FP8 and FP6: the ends of a range), mm², utilisation
SNAX_MODES = {"mxint8": (64, 657), "mxfp8_e4m3": (256, 1438), "mxfp6_e3m2": (256, 1675), "mxfp4_e2m1": (512, 4065)}
SNAX_MM2, SNAX_CORE_MM2 = 0.60, 0.177
SNAX_UTILISATION = (0.9441, 0.9951)
SNAX_WORKLOADS = (
    ("resnet18-dacapo", "inference", "mxint8-square"),
    ("vit-b32-dacapo", "inference", "mxint8-square"),
    ("resnet18-dacapo", "training", "mxfp8-square"),
    ("vit-b32-dacapo", "training", "mxfp8-square"),
)
SNAX_BATCH = 32
GEMM = "N=512,C=512,K=512"  # the product whose energy is split

ASSUMPTIONS = (
    "DaCapo: networks as its layer lists have them (10 classes, no attention, the image's gradient); the full "
    "ones beside. Input gradients of convolutions are dY·Wᵀ, their columns added up at no charge.",
    "SNAX: energy of a product is the published one of the whole system less what is derived for the scratchpad "
    "at full use, so that the residual is what edges, conflicts and results add; FP8 has the lower end of the "
    "published range, FP6 the upper.",
    "SNAX: 51 registers are written for every launch (ours); 20 more cost what the last column of the table says."
    " Streams start at unrelated banks and meet once in a block; ports are the wires between banks and core.",
)


def run(options: Options) -> Outcome:
    """All tables."""
    options.say("DaCapo's execution times")
    times = dacapo_times(options)
    options.say("the SNAX core")
    snax = load_hardware("snax-mx")
    used, energy, area = utilisation_rows(), [energy_row(snax, mode) for mode in SNAX_MODES], area_rows(snax)
    values = {"dacapo": times, "snax": {"utilisation": used, "energy": energy, "area_mm2": area}}
    tables = (
        _dacapo_table(times),
        _throughput_table(snax),
        _used_table(used),
        _energy_table(energy),
        _area_table(area),
    )
    worst = max(abs(row["difference"]) for row in times)
    low, high = min(row["all"] for row in used), max(row["all"] for row in used)
    facts = (
        f"DaCapo: {len(times)} published times, worst difference {percent(worst, 4)}",
        f"SNAX: {percent(low)} to {percent(high)} used, published {percent(SNAX_UTILISATION[0])} to "
        f"{percent(SNAX_UTILISATION[1])}",
        "SNAX: residual of energy " + ", ".join(f"{row['mode']} {percent(row['residual'])}" for row in energy),
    )
    panels = (
        Panel("Ours against published times", "One point for each of DaCapo's times.", figure=_plot(times)),
        *(table_panel(made) for made in tables),
        words_panel("Assumptions", ASSUMPTIONS),
    )
    return Outcome("Microscaling NPUs: published tables beside ours", values, tables, facts, panels)


# --- DaCapo -----------------------------------------------------------------------------------------------------------


def dacapo_times(options: Options) -> list[dict[str, Any]]:
    """Published and our milliseconds of every job and precision, and those of the full network."""
    hardware, found = load_hardware("dacapo"), []
    clock = array_core(hardware).core.clock_hz
    for (model, mode, batch), published in DACAPO_MS.items():
        options.say(f"  {model}, {mode}, batch {batch}")
        for precision, milliseconds in zip(DACAPO_PRECISIONS, published, strict=True):
            listed, full = (
                products_of(Request(name, precision=precision, mode=mode, batch=batch).graph())
                for name in (f"{model}-dacapo", model)
            )
            took, whole = (1e3 * array_cycles(products, hardware) / clock for products in (listed, full))
            macs = sum(nest.points * count for nest, count in listed.items())
            row = {"model": model, "mode": mode, "batch": batch, "precision": precision, "gmac": macs / 1e9}
            row |= {"published_ms": milliseconds, "ours_ms": took, "difference": took / milliseconds - 1}
            found.append(row | {"full_network_ms": whole})
    return found


def _dacapo_table(rows: list[dict[str, Any]]) -> TextTable:
    cells = [
        (
            f"{row['model']} {row['mode']} b{row['batch']}", row["precision"], f"{row['gmac']:.2f}",
            f"{row['published_ms']:.3f}", f"{row['ours_ms']:.3f}", f"{100 * row['difference']:+.4f} %",
            f"{row['full_network_ms']:.2f}",
        )
        for row in rows
    ]  # fmt: skip
    heads = ("job", Heading("format", "words"), "GMAC", "published ms", "ours ms", "difference", "full network ms")
    return TextTable("DaCapo: 16 rows at 500 MHz, arrays alone with their first fill", heads, cells)


def _plot(rows: list[dict[str, Any]]) -> dict[str, Any]:
    traces = []
    for precision in DACAPO_PRECISIONS:
        chosen = [row for row in rows if row["precision"] == precision]
        published, ours = ([row[key] for row in chosen] for key in ("published_ms", "ours_ms"))
        traces.append(scatter(precision, published, ours))
    scale = {"type": "log"}
    return figure(traces, xaxis=axis("published ms", **scale), yaxis=axis("our ms", **scale))


# --- SNAX -------------------------------------------------------------------------------------------------------------


def _throughput_table(snax: Accelerator) -> TextTable:
    cells = [
        (mode, str(gops), f"{2e-9 * snax.peak_macs_per_s(mode):g}", str(per_watt))
        for mode, (gops, per_watt) in SNAX_MODES.items()
    ]
    return TextTable("SNAX: throughput by mode", ("mode", "published GOPS", "ours", "published GOPS/W"), cells)


def utilisation_rows() -> list[dict[str, Any]]:
    """Share of the array that works, with ever more of what keeps it from working."""
    plain = load_hardware("snax-mx", {"memories.spm.banks": None, "cores.mx_core.output_tiles.setup_cycles": 0})
    banked = load_hardware("snax-mx", {"cores.mx_core.output_tiles.setup_cycles": 0})
    more = load_hardware("snax-mx", {"cores.mx_core.output_tiles.setup_cycles": 71})
    found = []
    for model, mode, precision in SNAX_WORKLOADS:
        graph = Request(model, precision=precision, mode=mode, batch=SNAX_BATCH).graph()
        products = emitted(products_of(graph))
        works = [nests_work(products, each) for each in (plain, banked, load_hardware("snax-mx"), more)]
        blocks, conflicts = (work.full_cycles / work.compute_cycles for work in works[:2])
        row = {"model": model, "mode": mode, "precision": precision, "blocks": blocks, "conflicts": conflicts}
        found.append(row | {"all": works[2].utilisation, "twenty_more_registers": works[3].utilisation})
    return found


def emitted(products: Counter[LoopNest]) -> Counter[LoopNest]:
    """The same products with results as the core gives them out: in the format of its inputs."""
    found: Counter[LoopNest] = Counter()
    for nest, count in products.items():
        mode = format_named(nest.reads[0].dtype).mode
        operands = (replace(each, dtype=mode, bits_per_element=0) if each.written else each for each in nest.operands)
        found[LoopNest(nest.dims, tuple(operands))] += count
    return found


def _used_table(rows: list[dict[str, Any]]) -> TextTable:
    cells = [
        (
            f"{row['model']} {row['mode']}", row["precision"],
            *(percent(row[key], 2) for key in ("blocks", "conflicts", "all", "twenty_more_registers")),
        )
        for row in rows
    ]  # fmt: skip
    heads = ("workload", Heading("policy", "words"), "blocks alone", "bank conflicts", "launches", "20 more registers")
    low, high = (percent(share, 2) for share in SNAX_UTILISATION)
    return TextTable(
        f"SNAX: share of the array that works, batch {SNAX_BATCH}; published {low} to {high}", heads, cells
    )


def energy_row(snax: Accelerator, mode: str) -> dict[str, Any]:
    """Picojoules of a product of 512³ by part, beside the published figure of the system."""
    work = nests_work(Counter({operator_nest("linear", GEMM, f"{mode}[8x8]"): 1}), snax)
    core, level = array_core(snax).core, array_core(snax).core.level("spm")
    bank = Technology(snax.node_nm).sram(level.size_bytes // level.banks, level.bank_bits)
    spm = work.energy_j["spm"] / work.macs
    banks = spm * bank.read_energy_j / (level.read_energy_j * level.bank_bits / level.access_bits)
    moved = 3 * 512 * 512 * (format_named(mode).bits + 1 / 8)  # both inputs and the result pass the DMA once
    dma = moved * (snax.links[0].energy_j_per_bit + level.write_energy_j_per_bit) / work.macs
    parts = {"array": work.energy_j["compute"] / work.macs, "scratchpad": banks, "ports": spm - banks, "dma": dma}
    total, published = sum(parts.values()), 2 / (SNAX_MODES[mode][1] * 1e9)
    leakage = (core.leakage_w + level.total_leakage_w) * work.core_cycles / core.clock_hz / work.macs
    total += leakage
    row = {"mode": mode, **{f"{name}_pj": 1e12 * joules for name, joules in (parts | {"leakage": leakage}).items()}}
    row |= {"total_pj": 1e12 * total, "published_pj": 1e12 * published}
    return row | {
        "gops_per_w": 2e-9 / total,
        "published_gops_per_w": SNAX_MODES[mode][1],
        "residual": total / published - 1,
    }


def _energy_table(rows: list[dict[str, Any]]) -> TextTable:
    parts = ("array_pj", "scratchpad_pj", "ports_pj", "dma_pj", "leakage_pj", "total_pj", "published_pj")
    cells = [
        (
            row["mode"], *(f"{row[part]:.3f}" for part in parts), f"{row['gops_per_w']:.0f}",
            str(row["published_gops_per_w"]), f"{100 * row['residual']:+.1f} %",
        )
        for row in rows
    ]  # fmt: skip
    heads = (
        "mode", "array pJ", "scratchpad pJ", "ports pJ", "DMA pJ", "leakage pJ", "sum pJ", "published pJ", "GOPS/W",
        "published", "residual",
    )  # fmt: skip
    return TextTable("SNAX: energy of a multiply-accumulate, a product of 512³", heads, cells)


def area_rows(snax: Accelerator) -> dict[str, float]:
    """Square millimetres by part, and of the whole as published."""
    core = array_core(snax).core
    others = sum(each.core.compute_area_m2 for each in snax.cores if not each.core.modes)
    parts = {
        "core": core.compute_area_m2, "scratchpad": core.level("spm").total_area_m2,
        "Snitch units": others, "DMA wires": sum(link.area_m2 for link in snax.links),
    }  # fmt: skip
    found = {name: 1e6 * area for name, area in parts.items()}
    total = sum(found.values())
    return found | {"sum": total, "published": SNAX_MM2, "residual": total / SNAX_MM2 - 1}


def _area_table(area: dict[str, float]) -> TextTable:
    cells = [(name, f"{100 * value:+.1f} %" if name == "residual" else f"{value:.3f}") for name, value in area.items()]
    return TextTable("SNAX: area, mm²; the core's is published", ("part", "mm²"), cells)
