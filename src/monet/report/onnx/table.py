"""The export table: operator kind → the writer that expresses it in standard ONNX operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from monet.registry import Registry
from monet.report.onnx.body import Value, Writer

WRITERS: Registry[Writer] = Registry("ONNX writer of operator kind")
writes = WRITERS.entry


def formula_table(rows: Mapping[str, Callable[..., Value | tuple[Value, ...]]]) -> None:
    """Register writers that are one formula over ``body.inputs``, which follow the body as arguments."""

    def writer(formula: Callable[..., Value | tuple[Value, ...]]) -> Writer:
        return lambda b: formula(b, *b.inputs)

    WRITERS.rows({kind: writer(formula) for kind, formula in rows.items()})
