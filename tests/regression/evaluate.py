"""From a line of ``runs.yaml`` to its figures: the only file of this folder that knows how monet is called.

Everything runs in fresh processes with MONET_CACHE=off (``fresh_processes``), so that costs of an earlier version, on
disk or in the memory of the process that tests, can never be compared with themselves.
"""

from __future__ import annotations

import dataclasses
import hashlib
import multiprocessing
import os
import re
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
Spec = dict[str, Any]
Figures = dict[str, Any]

SIZES = ("batch", "image", "sequence")
SCHEDULE = ("fusion", "boundary", "plan", "allocation", "phases", "objective")
KEYS = {"slow", "model", "hardware", "set", "mode", "options", "checkpoint", *SIZES, *SCHEDULE}


def load_runs() -> dict[str, Spec]:
    """Every run by name."""
    runs: dict[str, Spec] = yaml.safe_load((HERE / "runs.yaml").read_text())
    for name, spec in runs.items():
        if unknown := set(spec) - KEYS:
            raise ValueError(f"runs.yaml: {name}: unknown keys {', '.join(sorted(unknown))}")
    return runs


def fresh_processes(count: int) -> ProcessPoolExecutor:
    """Processes that share nothing with this one and read no costs from disk."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _without_cache)


def _without_cache() -> None:
    os.environ["MONET_CACHE"] = "off"


# --- one run ----------------------------------------------------------------------------------------------------------


def evaluate_run(spec: Spec) -> Figures:
    """The figures of one run. Integers are exact; every float is in seconds, joules or a ratio."""
    return _figures(evaluate_spec(spec))


def evaluate_spec(spec: Spec) -> Any:
    """The ``Result`` of one run."""
    import monet

    graph, plan, overrides = _network(spec)
    options = dict(spec.get("options", {}))
    if "freeze" in options:
        options["freeze"] = tuple(options["freeze"])
    if spec.get("mode") == "inference" and options:
        from monet.training.step import prepare

        graph = prepare(graph, monet.TrainingOptions(**options))
    elif spec.get("mode") != "inference":
        graph = monet.training_step(graph, **options)
    if "checkpoint" in spec:
        from monet.transforms.checkpoint_plan import CheckpointPlan
        from monet.transforms.recompute import recompute

        graph = recompute(graph, CheckpointPlan.from_dict(spec["checkpoint"]))
    schedule = {key: spec[key] for key in SCHEDULE if key in spec} | ({"plan": plan} if plan else {})
    hardware = spec["hardware"] if not spec["hardware"].endswith(".yaml") else HERE.parents[1] / spec["hardware"]
    return monet.evaluate(graph, monet.load_hardware(hardware, overrides | spec.get("set", {})), **schedule)


TINY = {
    "llama-tiny": "llama:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=172,vocabulary=320",
    "gpt-tiny": "gpt:layers=2,hidden=64,heads=4,vocabulary=320,positions=64,sequence=64",
    "bert-tiny": "bert:layers=2,hidden=64,heads=4,vocabulary=320",
    "vit-tiny": "vit:patch=8,hidden=64,layers=2,heads=4,intermediate=128,classes=10",
    "unet-tiny": "unet:width=8",
}


def _network(spec: Spec) -> tuple[Any, Any, dict[str, Any]]:
    """The forward graph of a run, and the plan and the changes of hardware that were published with it."""
    import monet
    from monet.frontends.zoo.published import convolution_chain
    from monet.validation import silicon, stream

    name, sizes = spec["model"], {key: spec[key] for key in SIZES if key in spec}
    if name in ("depfin-fsrcnn", "aimc-segment"):
        return (*{"depfin-fsrcnn": silicon.depfin_fsrcnn, "aimc-segment": silicon.aimc_segment}[name](), {})
    if name.startswith("resnet18-stream"):  # resnet18-stream with: activations, fused, split, rules
        asked = name.split(",")[1:]
        graph = monet.load_model("resnet18-stream" + (":activations=yes" if "activations" in asked else ""))
        overrides = stream.STREAM_LANES if "activations" in asked else {}
        if "published" not in asked:
            return graph, None, overrides
        plan = stream.stream_plan(graph, "fused" in asked, "split" in asked)
        if "rules" in asked:
            plan, links = stream.stream_rules(graph, plan)
            overrides = overrides | links
        return graph, plan, overrides
    if name == "conv-chain":
        return convolution_chain(name, 3, 16, 16, [(16, 3), (32, 3), (16, 1), (8, 5)]), None, {}
    return monet.load_model(TINY.get(name, name), **sizes), None, {}


# --- its figures ------------------------------------------------------------------------------------------------------


def _figures(result: Any) -> Figures:
    if result.ticks == 0:
        return {"infeasible": result.reason.message, "bytes_short": result.reason.bytes_short}
    bounds, energy = result.bounds, result.energy_breakdown
    found: Figures = {
        "ticks": int(result.ticks),
        "cycles": int(result.cycles),
        "latency_s": float(result.latency_s),
        "energy_j": float(result.energy_j),
        "energy_by_level_j": _floats(energy.by_level),
        "energy_by_phase_j": _floats(energy.by_phase),
        "energy_by_core_j": _floats(_of_templates(energy.by_core)),
        "dram_bytes": dataclasses.asdict(result.dram_bytes),
        "dram_bytes_by_phase": {name: row.dram_bytes for name, row in result.phases.items()},
        "link_bytes": _integers(_of_templates({row.name: row.bytes for row in result.links})),
        "peak_bytes": _peaks(result.memory_peak_bytes),
        "bounds": {
            "compute_s": bounds.compute_s,
            "dram_s": bounds.dram_s,
            "critical_path_s": result.longest_chain_s,
            "memory_bytes": int(bounds.memory_bytes),
            "energy_j": bounds.energy_j,
        },
        "work": {
            "operators": len(result.operators),
            "recomputed": sum(row.recompute for row in result.operators),
            "groups": len(result.plan["groups"]),
            "cores": sum(row.tiles > 0 for row in result.cores),
            "tiles": sum(row.tiles for row in result.operators),
            "events": len(result.timeline),
            "macs": sum(row.macs for row in result.operators),
        },
        "core_ticks": _integers(sum((Counter(row.time_ticks) for row in result.cores), Counter())),
        "bound_by": dict(Counter(row.bound_by for row in result.operators)),
        "utilisation": float(result.utilisation),
        "schedule_digest": _digest(result.timeline),
    }
    if result.reason:
        found |= {"infeasible": result.reason.message, "bytes_short": result.reason.bytes_short}
    return found


def _integers(values: Any) -> dict[str, int]:
    return {name: int(value) for name, value in values.items()}


def _floats(values: Any) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _of_templates(values: dict[str, Any]) -> dict[str, Any]:
    """Sums over what differs by its number only: pe[0,0] and pe[1,0] are pe[*]. Zeros are left out."""
    sums: dict[str, Any] = {}
    for name, value in values.items():
        if value:
            template = re.sub(r"\[[\d,]+\]", "[*]", name)
            sums[template] = sums.get(template, 0) + value
    return sums


def _peaks(peaks: Any) -> dict[str, Any]:
    """Bytes of every memory by category; memories with the same peak share a line, empty ones have none."""
    alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for memory, categories in peaks.items():
        filled = tuple((name, size) for name, size in dataclasses.asdict(categories).items() if size)
        if filled:
            alike.setdefault(filled, []).append(memory)
    return {names[0] + (f" and {len(names) - 1} alike" if names[1:] else ""): dict(key) for key, names in alike.items()}


def schedule_rows(timeline: Any) -> list[tuple[int, int, str, str, str]]:
    """Every tile and transfer: start and end in ticks, resource, kind, operator; in order of time."""
    from monet.schedule.result_rows import EVENT_KINDS

    columns = (timeline.start, timeline.end, timeline.resource, timeline.kind, timeline.operator)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return sorted(
        (start, end, timeline.resources[resource], EVENT_KINDS[kind], timeline.operators[operator])
        for start, end, resource, kind, operator in rows
    )


def _digest(timeline: Any) -> str:
    """Of when every resource does what: moves whenever a tile or a transfer does."""
    rows = sorted(row[:4] for row in schedule_rows(timeline))
    return hashlib.blake2b("\n".join(map(str, rows)).encode(), digest_size=8).hexdigest()


# --- texts ------------------------------------------------------------------------------------------------------------


def schedule_text(spec: Spec) -> str:
    """One schedule as a table."""
    result = evaluate_spec(spec)
    rows = [("start", "end", "resource", "kind", "operator"), *schedule_rows(result.timeline)]
    lines = [
        f"{start:>12} {end:>12}  {resource:<24} {kind:<8} {operator}" for start, end, resource, kind, operator in rows
    ]
    return "\n".join([str(result.ticks), *lines, ""])


def terminal_text(commands: list[str], columns: int) -> str:
    """What the last of some commands prints on a terminal of so many columns; all run in one empty directory."""
    from typer.testing import CliRunner

    from monet.cli import app

    environment = {"COLUMNS": str(columns), "NO_COLOR": "1", "FORCE_COLOR": None, "TERM": "dumb"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            for command in commands:
                done = CliRunner().invoke(app, command.split(), env=environment)
                if done.exit_code or done.exception:
                    raise RuntimeError(f"monet {command}: {done.exception!r}\n{done.output}")
        finally:
            os.chdir(before)
    printed = re.sub(r"(tiles and transfers)\s+in\s+[\d.,]+\s+[µm]?s", r"\1", done.stdout)  # wall time
    lines = [f"$ monet {commands[-1]}", *(line.rstrip() for line in printed.splitlines())]
    return "\n".join([*lines, ""])
