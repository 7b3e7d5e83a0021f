"""Validation: every published or measured figure that we check ourselves against, one module per topic."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from monet.errors import MonetError
from monet.validation.figure import CheckedFigure, Figure, NotComputable, Rule, Verdict, check

__all__ = ["TOPICS", "CheckedFigure", "Figure", "NotComputable", "Rule", "Verdict", "check", "figures", "select"]

# A new topic is a module with ``figures()`` and a line here.
TOPICS = (
    "training_graph", "training_memory", "technology", "one_core_mapping", "silicon", "gpu_operators", "stream",
    "distributed",
)  # fmt: skip


def figures() -> Iterator[Figure]:
    """Every figure, topic by topic."""
    for topic in TOPICS:
        yield from import_module(f"monet.validation.{topic}").figures()


def select(only: str = "") -> list[Figure]:
    """The figures whose topic, name or source contains ``only`` (in any case of letters); all for an empty string."""
    everything = list(figures())
    wanted = only.casefold()
    texts = ((figure, (figure.topic, figure.name, figure.source)) for figure in everything)
    found = [figure for figure, said in texts if any(wanted in text.casefold() for text in said)]
    if not found:
        topics = dict.fromkeys(figure.topic for figure in everything)
        raise MonetError(f"--only {only!r}: no figure with it in topic, name or source; topics: {', '.join(topics)}")
    return found
