"""The export table: operator kind → the writer that expresses it in standard ONNX operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from monet.report.onnx.body import Value, Writer

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


def writer_table(rows: Mapping[str, Writer]) -> None:
    """Register writers of one expression each."""
    for kind, writer in rows.items():
        writes(kind)(writer)


def formula_table(rows: Mapping[str, Callable[..., Value | tuple[Value, ...]]]) -> None:
    """Register writers that are one formula over ``body.inputs``, which follow the body as arguments."""

    def writer(formula: Callable[..., Value | tuple[Value, ...]]) -> Writer:
        return lambda b: formula(b, *b.inputs)

    writer_table({kind: writer(formula) for kind, formula in rows.items()})
