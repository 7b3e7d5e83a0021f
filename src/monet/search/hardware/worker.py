"""The process that evaluates points: reads one per line on standard input, answers with one line each.

It runs apart from whatever supervises it, so that a point that crashes, hangs or takes all memory ends this process
and nothing else. ``python -m monet.search.hardware.worker MODULE:FUNCTION``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

IDLE_S = 300.0  # longer than compiling all kernels takes


def main(function: str, memory_bytes: int) -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a model prints must not look like an answer
    asked = [time.monotonic()]
    threading.Thread(target=_end_when_unwanted, args=(os.getppid(), asked), daemon=True).start()
    module, _, name = function.partition(":")
    evaluate = getattr(import_module(module), name)
    if "monet.compiled" in sys.modules:
        sys.modules["monet.compiled"].compile_kernels()
    if memory_bytes:
        _limit_memory(memory_bytes)
    answers.write(json.dumps({"ready": True}) + "\n")
    asked[0] = time.monotonic()
    for line in sys.stdin:
        asked[0] = float("inf")  # busy
        answers.write(json.dumps(_answer(evaluate, json.loads(line))) + "\n")
        asked[0] = time.monotonic()


def _answer(evaluate: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        record = evaluate(request["space"], request["values"])
    except MemoryError:
        return {"failed": "out of memory"}
    except Exception as error:
        return {"failed": f"internal error: {type(error).__name__}: {error}"}
    return {
        "status": record.status,
        "reason": record.reason,
        "metrics": dict(record.metrics),
        "seconds": record.seconds,
        "version": record.version,
        "resident_bytes": _resident_bytes(),
    }


def _resident_bytes() -> int:
    """Memory that this process takes now; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _end_when_unwanted(parent: int, asked: list[float]) -> None:
    """End with the process that started this one, or when it has asked for nothing for a while."""
    while os.getppid() == parent and time.monotonic() - asked[0] < IDLE_S:
        time.sleep(0.5)
    os._exit(1)


def _limit_memory(size: int) -> None:
    try:
        import resource
    except ImportError:
        return  # not on this system
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
