"""Does the suite notice? Applies the subtle bugs of ``mutations.yaml`` one by one to a copy of the source and runs the
tests that should notice: ``python -m tests.mutation [--only NAME …] [--area FOLDER …] [--jobs 2]``. Prints the share
that was caught, by area.

A mutation is one replacement of text that occurs once in its file. Its tests are run on the copy without it first
(all of them together), and those that fail there are left out, so that a red test cannot pass for a catch. The
checkout itself is never changed, and results that are kept on disk are those of one mutation only; compiled kernels
are kept with the copy, for what is unchanged.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
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

    @property
    def area(self) -> str:
        """The stage it is in."""
        return self.file.split("/")[0]


def mutations() -> tuple[Mutation, ...]:
    """All mutations of the file, each checked to be applicable; one error lists all that are not."""
    listed = yaml.safe_load((Path(__file__).parent / "mutations.yaml").read_text())
    found = tuple(Mutation(**{**one, "tests": tuple(one["tests"])}) for one in listed)
    wrong = [f"{name}: named twice" for name, count in Counter(one.name for one in found).items() if count > 1]
    for one in found:
        file = ROOT / "src/monet" / one.file
        count = file.read_text().count(one.old) if file.exists() else 0
        if count != 1 or one.old == one.new:
            wrong.append(f"{one.name}: the text to replace occurs {count} times in {one.file}, once is needed")
        wrong += [f"{one.name}: there is no {test}" for test in one.tests if not (ROOT / test.split("::")[0]).exists()]
    if wrong:
        raise SystemExit("\n".join(wrong))
    return found


@dataclass(frozen=True)
class Copy:
    """A copy of the source that tests run on, with the kernels compiled from it."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Copy:
        """A fresh copy in a folder; kernels of an earlier one that are still right are used again."""
        shutil.rmtree(folder / "src", ignore_errors=True)
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        return cls(folder)

    def failures(self, tests: tuple[str, ...], without: tuple[str, ...] = (), workers: int = 0) -> tuple[str, ...]:
        """The tests that do not pass on it, ``without`` left out; the first one only unless ``workers`` is given."""
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", "--tb=no"]
        command += ["-x"] if not workers else [f"-n{workers}"] if workers > 1 else []
        command += [f"--deselect={test}" for test in without]
        with tempfile.TemporaryDirectory() as fresh:
            environment = os.environ | {
                "PYTHONPATH": f"{self.folder / 'src'}{os.pathsep}{ROOT}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "MONET_CACHE_DIR": fresh,
                "NUMBA_CACHE_DIR": str(self.folder / "kernels"),
            }
            try:
                done = subprocess.run(
                    [*command, *tests],
                    cwd=ROOT,
                    env=environment,
                    capture_output=True,
                    timeout=None if workers else SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return (f"no end after {SECONDS} s",)
        text = done.stdout.decode()
        found = tuple(re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE))
        if done.returncode not in (0, 1, 2, 5) or (done.returncode in (1, 2) and not found):  # 5: no test is left
            raise SystemExit(f"pytest {' '.join(tests)} ended with {done.returncode}:\n{text[-2000:]}")
        return found

    def notices(self, one: Mutation, without: tuple[str, ...]) -> bool:
        """Whether the tests of a mutation fail on the copy with it; the copy is whole again afterwards."""
        file = self.folder / "src/monet" / one.file
        original, times = file.read_text(), file.stat()
        file.write_text(original.replace(one.old, one.new))
        try:
            return bool(self.failures(one.tests, without))
        finally:
            file.write_text(original)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # compiled kernels know their file by it


def run(chosen: list[Mutation], copies: list[Copy], without: tuple[str, ...]) -> list[Mutation]:
    """Apply every mutation, print what becomes of it, and return those that survived; ``without`` some tests."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def caught(one: Mutation) -> tuple[Mutation, bool, float]:
        copy, began = free.get(), time.perf_counter()
        try:
            return one, copy.notices(one, without), time.perf_counter() - began
        finally:
            free.put(copy)

    survived = []
    with ThreadPoolExecutor(len(copies)) as pool:
        for number, (one, noticed, seconds) in enumerate(pool.map(caught, chosen), 1):
            verdict = "caught  " if noticed else "SURVIVED"
            print(f"{number:3}/{len(chosen)}  {verdict} {one.name}  ({seconds:.0f} s)", flush=True)
            survived += [] if noticed else [one]
    return survived


def main() -> int:
    """Run the mutations and print what was caught; exit code 1 below nine in ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="names of mutations")
    parser.add_argument("--area", nargs="*", default=[], help="folders of src/monet")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where to keep copies and compiled kernels for the next run")
    parser.add_argument("--check", action="store_true", help="only see whether every mutation can be applied")
    arguments = parser.parse_args()
    chosen = [
        one
        for one in mutations()
        if (not arguments.only or one.name in arguments.only) and (not arguments.area or one.area in arguments.area)
    ]
    if arguments.check or not chosen:
        print(f"{len(chosen)} mutations can be applied")
        return 0
    every = tuple(dict.fromkeys(test for one in chosen for test in one.tests))
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        copies = [Copy.make(folder / str(number)) for number in range(arguments.jobs)]
        print(f"{len(chosen)} mutations; first their {len(every)} tests as they are ...", flush=True)
        red = copies[0].failures(every, workers=arguments.jobs)
        for test in red:
            print(f"fails without any mutation, left out: {test}", flush=True)
        survived = run(chosen, copies, red)
    for area, count in Counter(one.area for one in chosen).items():
        lost = [one.name for one in survived if one.area == area]
        print(f"{area:<12} {count - len(lost)} of {count}" + (f", not {', '.join(lost)}" if lost else ""))
    share = 1 - len(survived) / len(chosen)
    print(f"caught {len(chosen) - len(survived)} of {len(chosen)}: {share:.0%}")
    return 2 if red else 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
