"""Rewrite what ``test_figures.py`` compares with: ``make regress``. Read the diff before you commit it.

``python -m tests.regression.rewrite NAME …`` rewrites only these golden texts and values of commands."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from tests.regression.commands import command_values, load_commands, stored_values
from tests.regression.comparison import differences, stored
from tests.regression.evaluate import HERE, Figures, Spec, evaluate_run, fresh_processes, load_runs
from tests.regression.golden import GOLDEN, golden_text

PROCESSES = 2


def figures_text(figures: dict[str, Figures]) -> str:
    """JSON, one block per run and one line per figure or group of figures."""
    return _block({name: figures[name] for name in sorted(figures)}, depth=0) + "\n"


def _block(values: Any, depth: int) -> str:
    opened = isinstance(values, dict) and (depth < 2 or any(isinstance(one, dict) for one in values.values()))
    if not opened:
        return json.dumps(values, sort_keys=True, ensure_ascii=False)
    inside = ",\n".join(
        f"{' ' * (depth + 1)}{json.dumps(key)}: {_block(values[key], depth + 1)}" for key in sorted(values)
    )
    return f"{{\n{inside}\n{' ' * depth}}}"


def write_beside(path: Path, text: str) -> None:
    """Replace a file at once, so that an interrupted rewrite leaves the old one."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(path.suffix + ".new")
    beside.write_text(text)
    os.replace(beside, path)


def timed(spec: Spec) -> tuple[Figures, float]:
    """Figures of one run, and the processor time they took."""
    began = time.process_time()
    return evaluate_run(spec), time.process_time() - began


def rewrite_some(names: list[str]) -> None:
    """These golden texts and values of commands only."""
    commands = load_commands()
    known = (*GOLDEN, *commands)
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise SystemExit(f"no golden text or command {', '.join(unknown)}; there are {', '.join(known)}")
    with fresh_processes(1) as processes:  # as the test makes them
        for name in (name for name in names if name in GOLDEN):
            write_beside(HERE / "golden" / f"{name}.txt", processes.submit(golden_text, name).result())
        chosen = [name for name in names if name in commands]
        values = {name: processes.submit(command_values, commands[name]).result() for name in chosen}
    write_values(stored_values() | values)


def write_values(values: dict[str, Any]) -> None:
    """Values of commands; those that agree stay as they are, those of commands that are no more go."""
    before = stored_values()
    kept = {name: before[name] for name in values if name in before and not differences(before[name], values[name])}
    known = load_commands()
    text = figures_text({name: one for name, one in (values | kept).items() if name in known})
    write_beside(HERE / "commands.json", text)


def main() -> None:
    """All figures and all texts."""
    runs, figures, seconds = load_runs(), {}, {}
    with fresh_processes(PROCESSES) as processes:
        texts = {name: processes.submit(golden_text, name) for name in GOLDEN}
        values = {name: processes.submit(command_values, words) for name, words in load_commands().items()}
        waiting = {processes.submit(timed, spec): name for name, spec in runs.items()}
        for done in as_completed(waiting):
            name = waiting[done]
            try:
                figures[name], seconds[name] = done.result()
            except Exception as error:
                raise RuntimeError(f"runs.yaml: {name}: {error}") from error
            sys.stderr.write(f"{len(figures):>3} of {len(runs)}  {seconds[name]:5.2f} s  {name}\n")
        for name, text in texts.items():
            write_beside(HERE / "golden" / f"{name}.txt", text.result())
        write_values({name: one.result() for name, one in values.items()})
    kept = {name: old for name, old in stored().items() if name in figures and not differences(old, figures[name])}
    write_beside(HERE / "figures.json", figures_text(figures | kept))  # the diff shows what moved, not how sums round
    slowest = sorted(seconds, key=lambda name: -seconds[name])[:5]
    sys.stderr.write(f"{sum(seconds.values()):.1f} s of processor time; slowest: ")
    sys.stderr.write(", ".join(f"{name} {seconds[name]:.2f} s" for name in slowest) + "\n")


if __name__ == "__main__":
    rewrite_some(sys.argv[1:]) if sys.argv[1:] else main()
