"""Commands of ``commands.yaml`` and the values that they write as JSON."""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.regression.evaluate import HERE

SHORT = {
    "MLP": "mlp:widths=16-32-32-8",
    "GPT": "gpt:layers=2,hidden=32,heads=2,vocabulary=64,positions=16,sequence=16",
    "CONV": "resnet:blocks=1,stem=cifar,classes=10,image=8",
    "EDGE": "--jobs 1 --template edge --range rows=8,16 --range columns=16 --range lanes=8 --range sram_kib=64 "
    "--range core_count=1,2 --range dram_gbps=6.4 --evaluations 3",
}
SPACE = {
    "name": "small",
    "hardware": "micro-npu",
    "parameters": {"sram_bytes": {"values": [65536, 262144]}},
    "workloads": {
        "inference": {"model": SHORT["MLP"], "mode": "inference", "batch": 2},
        "training": {"model": SHORT["MLP"], "batch": 2, "optimizer": "adam"},
    },
}
# of this run and this state of the source, not of what was asked
WALL = {"seconds", "cpu_seconds", "seconds_to_evaluate", "version", "versions"}
LONG = {"timeline", "memory"}  # of a result: the figures of runs.yaml have their digest and their peaks


@cache
def load_commands() -> dict[str, list[list[str]]]:
    """Name → commands as words; the last one's values are kept."""
    listed = {name: given for part in _document().values() for name, given in part.items()}
    every = {name: [given] if isinstance(given, str) else given for name, given in listed.items()}
    return {name: [one.format(**SHORT).split() for one in commands] for name, commands in every.items()}


def slow_commands() -> set[str]:
    """Names of the second tier."""
    return set(_document()["slow"])


def _document() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "commands.yaml").read_text())
    return found


@cache
def stored_values() -> dict[str, Any]:
    """Name → values as committed."""
    found: dict[str, Any] = json.loads((HERE / "commands.json").read_text())
    return found


def command_values(commands: list[list[str]]) -> Any:
    """What the last of some commands writes as JSON; all run in one directory with a space in it."""
    from typer.testing import CliRunner

    from monet.cli import app

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        Path("space.yaml").write_text(yaml.safe_dump(SPACE))
        try:
            for words in commands:
                asked = [*words, "--json", "-"] if words is commands[-1] else words
                done = CliRunner().invoke(app, asked)
                if done.exit_code or done.exception:
                    raise RuntimeError(f"monet {' '.join(asked)}: {done.exception!r}\n{done.output}")
        finally:
            os.chdir(before)
    values = json.loads(done.stdout)
    result = {name: one for name, one in values.items() if name not in LONG or not isinstance(one, list | dict)}
    return without_wall_time(result)


def without_wall_time(values: Any) -> Any:
    """Values without what the machine or the source's digest decides."""
    if isinstance(values, dict):
        return {name: without_wall_time(one) for name, one in values.items() if name not in WALL}
    return [without_wall_time(one) for one in values] if isinstance(values, list) else values
