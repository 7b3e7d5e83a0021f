"""The Chrome trace: tracks, times, counters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monet.report.perfetto import PROCESSES, info, write_trace
from monet.schedule.result_rows import CATEGORIES
from tests.report.small import small


def test_one_track_per_core_link_and_dram() -> None:
    result = small()
    events = info(result)["traceEvents"]
    tracks = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "thread_name"}
    assert set(tracks) == {*result.timeline.resources, "phase"}
    assert tracks["pe[0,0]"] == PROCESSES["core"][0]
    assert tracks["bus"] == PROCESSES["link"][0]
    assert tracks["dram"] == PROCESSES["dram"][0]


def test_slices_are_the_timeline_in_microseconds() -> None:
    result = small()
    slices = [event for event in info(result)["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == len(result.timeline)
    assert max(event["ts"] + event["dur"] for event in slices) == pytest.approx(1e6 * result.latency_s)
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in info(result)["traceEvents"]
             if event["name"] == "thread_name"}  # fmt: skip
    named = [names[event["pid"], event["tid"]] for event in slices]
    assert named == [result.timeline.resources[place] for place in result.timeline.resource.tolist()]
    by_track: dict[tuple[int, int], float] = {}
    for event in slices:  # slices of one track follow each other, so viewers need not nest them
        track = (event["pid"], event["tid"])
        assert event["ts"] >= by_track.get(track, 0.0) - 1e-6
        by_track[track] = event["ts"] + event["dur"]


def test_memories_are_counters_by_category() -> None:
    result = small()
    counters = [event for event in info(result)["traceEvents"] if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {f"{trace.name} (bytes)" for trace in result.memory}
    assert all(tuple(event["args"]) == CATEGORIES for event in counters)
    dram = [sum(event["args"].values()) for event in counters if event["name"] == "dram (bytes)"]
    assert max(dram) == result.memory_peak_bytes["dram"].total


def test_the_file_is_json(tmp_path: Path) -> None:
    write_trace(small(), tmp_path / "trace.json")
    values = json.loads((tmp_path / "trace.json").read_text())
    assert values["otherData"]["model"] == "small"
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
