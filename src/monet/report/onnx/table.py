"""The export table: operator kind → the writer that expresses it in standard ONNX operators."""

from __future__ import annotations

from collections.abc import Callable

from monet.report.onnx.body import Writer

WRITERS: dict[str, Writer] = {}


def writes(*kinds: str) -> Callable[[Writer], Writer]:
    """Register the decorated function as the writer of ``kinds``."""

    def register(writer: Writer) -> Writer:
        for kind in kinds:
            if kind in WRITERS:
                raise ValueError(f"operator kind {kind!r} has two ONNX writers")
            WRITERS[kind] = writer
        return writer

    return register
