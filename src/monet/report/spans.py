"""When operators and phases run: their tiles and the transfers right beside them, not what was fetched long before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monet.schedule.result import EVENT_KINDS, Result

COMPUTE = EVENT_KINDS.index("compute")
SLACK_S = 250e-9  # transfers touch across the latency of a DRAM
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in seconds."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end_s - self.start_s


def operator_spans(result: Result) -> dict[str, Span]:
    """Operator → its tiles, with the transfers that lead straight to the first (while its core had nothing else to do)
    and those that follow straight on the last.

    All its events would say little: weights are fetched long before an operator runs. Where it computes nothing, they
    stand in.
    """
    timeline = result.timeline
    second = timeline.ticks_per_second
    slack = SLACK_S * second
    spans = {str(row["name"]): Span(float(row["start_s"]), float(row["end_s"])) for row in result.operators}
    first, last, free = _tiles(result)
    order = np.argsort(timeline.operator, kind="stable")
    edges = np.searchsorted(timeline.operator[order], np.arange(len(timeline.operators) + 1))
    for number in np.flatnonzero(last >= 0).tolist():
        mine = order[edges[number] : edges[number + 1]]
        moves = mine[timeline.kind[mine] != COMPUTE]
        begin = _leading(timeline.start[moves], timeline.end[moves], int(first[number]), int(free[number]), slack)
        finish = _trailing(timeline.start[moves], timeline.end[moves], int(last[number]), slack)
        spans[timeline.operators[number]] = Span(begin / second, finish / second)
    return spans


def _tiles(result: Result) -> tuple[Array, Array, Array]:
    """By operator: start of the first tile, end of the last (−1 for none), and when the core of the first was free."""
    timeline = result.timeline
    count = len(timeline.operators)
    tiles = np.flatnonzero(timeline.kind == COMPUTE)
    tiles = tiles[np.lexsort((timeline.start[tiles], timeline.resource[tiles]))]
    operator, start, end = timeline.operator[tiles], timeline.start[tiles], timeline.end[tiles]
    core = timeline.resource[tiles]
    same = np.concatenate(([False], core[1:] == core[:-1])) if len(tiles) else np.zeros(0, bool)
    before = np.where(same, np.concatenate(([0], end[:-1]))[: len(tiles)], 0)
    first, last, free = np.full(count, np.iinfo(np.int64).max), np.full(count, -1), np.zeros(count, np.int64)
    np.maximum.at(last, operator, end)
    for position in np.lexsort((before, start))[::-1].tolist():  # the earliest tile writes last
        first[operator[position]], free[operator[position]] = start[position], before[position]
    return first, last, free


def _leading(start: Array, end: Array, begin: int, free: int, slack: float) -> int:
    """Back from ``begin`` along transfers that touch, not beyond ``free``."""
    for position in np.argsort(-end, kind="stable").tolist():
        if end[position] < begin - slack:
            break
        begin = min(begin, max(int(start[position]), free))
    return begin


def _trailing(start: Array, end: Array, finish: int, slack: float) -> int:
    """On from ``finish`` along transfers that touch."""
    for position in np.argsort(start, kind="stable").tolist():
        if start[position] > finish + slack:
            break
        finish = max(finish, int(end[position]))
    return finish


def phase_spans(result: Result) -> dict[str, Span]:
    """Phase → from the first of its operators to the last."""
    spans = operator_spans(result)
    found: dict[str, Span] = {}
    for name, row in result.phases.items():
        mine = [spans[one["name"]] for one in result.operators if one["phase"] == name]
        found[name] = (
            Span(min(one.start_s for one in mine), max(one.end_s for one in mine))
            if mine
            else Span(float(row["start_s"]), float(row["end_s"]))
        )
    return found
