"""``python -m tests.fuzz [CASES] [SEED] [KIND …]``: many cases of every kind; what breaks is printed with its seed."""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from random import Random

from monet.compiled import compile_ahead
from tests.fuzz.kinds import KINDS

SHARES = {
    "hardware": 0.3, "results": 0.1, "models": 0.2, "plans": 0.08, "stores": 0.1, "options": 0.12, "values": 0.097,
    "signals": 0.003,
}  # fmt: skip


def main(cases: int, seed: int, chosen: list[str]) -> int:
    """Run the cases; the exit code is 1 if any broke."""
    warnings.simplefilter("ignore")
    compile_ahead()  # half a minute on a new machine, which is not the first case's
    broken: Counter[str] = Counter()
    began = time.monotonic()
    for kind in chosen or list(SHARES):
        number = max(1, round(cases * SHARES[kind]))
        start = time.monotonic()
        for case in range(number):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    KINDS[kind](Random(f"{seed} {kind} {case}"), Path(folder))
                except AssertionError as error:
                    broken[kind] += 1
                    if broken[kind] <= 5:
                        print(f"{kind} {case} (seed {seed}): {str(error)[:1500]}", flush=True)
            if (case + 1) % 500 == 0:
                print(f"{kind}: {case + 1:,} of {number:,}", flush=True)
        took = time.monotonic() - start
        print(f"{kind}: {number:,} cases, {broken[kind]} broken, {took:.0f} s ({number / took:.0f}/s)", flush=True)
    print(f"{time.monotonic() - began:.0f} s in all, {sum(broken.values())} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    names = [word for word in given if word in KINDS]
    numbers = [int(word) for word in given if word not in KINDS]
    sys.exit(main(*(numbers + [10_000, 0][len(numbers) :]), names))
