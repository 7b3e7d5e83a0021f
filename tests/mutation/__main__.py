"""Does the suite notice? Applies the subtle bugs of ``mutations.yaml`` one by one to a copy of the source and runs the
tests that should notice: ``python -m tests.mutation [--only NAME …] [--jobs 2]``. Prints the share that was caught.

A mutation is one replacement of text that occurs once in its file. Its tests are run on the copy without it first
(all of them together), so that a red test cannot pass for a catch. The checkout itself is never changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SECONDS = 900  # a mutation that hangs its tests is caught


@dataclass(frozen=True)
class Mutation:
    """One subtle bug: ``old`` becomes ``new`` in ``file``; ``tests`` should notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def mutations() -> tuple[Mutation, ...]:
    """All mutations of the file, each checked to be applicable."""
    listed = yaml.safe_load((Path(__file__).parent / "mutations.yaml").read_text())
    found = tuple(Mutation(**{**one, "tests": tuple(one["tests"])}) for one in listed)
    for one in found:
        count = (ROOT / "src/monet" / one.file).read_text().count(one.old)
        if count != 1:
            raise SystemExit(f"{one.name}: the text to replace occurs {count} times in {one.file}, once is needed")
        for test in one.tests:
            if not (ROOT / test.split("::")[0]).exists():
                raise SystemExit(f"{one.name}: there is no {test}")
    return found


def passes(tests: tuple[str, ...], source: Path, workers: int = 0) -> bool:
    """Whether some tests pass on a copy of the source."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "", "-p", "no:cacheprovider"]
    command += [f"-n{workers}"] if workers else []
    try:
        done = subprocess.run(
            [*command, *tests], cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1, 2):  # passed; failed; did not even import
        raise SystemExit(f"pytest {' '.join(tests)} ended with {done.returncode}:\n{done.stdout.decode()[-2000:]}")
    return done.returncode == 0


def caught(one: Mutation) -> tuple[Mutation, bool, float]:
    """Whether the tests of a mutation notice it, and after how many seconds."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        file = source / "monet" / one.file
        file.write_text(file.read_text().replace(one.old, one.new))
        return one, not passes(one.tests, source), time.perf_counter() - began


def main() -> int:
    """Run the mutations and print what was caught; exit code 1 below nine in ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="names of mutations")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [one for one in mutations() if not arguments.only or one.name in arguments.only]
    every = tuple(dict.fromkeys(test for one in chosen for test in one.tests))
    print(f"{len(chosen)} mutations; first their {len(every)} tests as they are ...", flush=True)
    if not passes(every, ROOT / "src", arguments.jobs):
        print("some of these tests fail without any mutation")
        return 2
    survived = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for number, (one, noticed, seconds) in enumerate(pool.map(caught, chosen), 1):
            print(
                f"{number:3}/{len(chosen)}  {'caught  ' if noticed else 'SURVIVED'} {one.name}  ({seconds:.0f} s)",
                flush=True,
            )
            survived += [] if noticed else [one.name]
    share = 1 - len(survived) / len(chosen)
    print(f"caught {len(chosen) - len(survived)} of {len(chosen)}: {share:.0%}")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
