"""Studies of checkpointing, on points whose answers are known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from monet.studies import checkpointing, nonadditive


def point(megabytes: float, latency: float, energy: float) -> dict[str, Any]:
    return {"memory_peak_bytes": int(megabytes * 1e6), "latency_s": latency, "energy_j": energy}


def test_published_point_beside_ours() -> None:
    front = [point(99, 0.99, 1.01), point(80, 1.03, 1.02), point(60, 0.98, 1.30), point(50, 1.02, 1.20)]
    found = checkpointing.published({"plain": point(100, 1.0, 1.0), "front": front})
    assert found["paper"] == {"saved_mb": 13.0, "latency": 0.04, "energy": 0.04}
    assert found["as_much_memory_fastest"]["saved_mb"] == pytest.approx(40)
    assert found["as_much_memory_least_energy"]["saved_mb"] == pytest.approx(20)
    assert found["same_price_most_memory"] == pytest.approx({"saved_mb": 20, "latency": 0.03, "energy": 0.02})
    assert found["less_memory_and_faster"]["saved_mb"] == pytest.approx(40)
    assert found["plans_less_memory_and_faster"] == 2


def figures(latency: float) -> Any:
    return SimpleNamespace(latency_s=latency, energy_j=1.0, dram_bytes=100, memory_peak_bytes=100)


def test_pairs_against_their_sums() -> None:
    points = {
        (): figures(1.0), ("a",): figures(1.1), ("b",): figures(1.2), ("c",): figures(0.9),
        ("a", "b"): figures(1.25), ("a", "c"): figures(1.05), ("b", "c"): figures(1.1),
    }  # fmt: skip
    found = nonadditive.pairs(points, ["a", "b", "c"])
    assert [row["latency_s"]["joint_minus_sum"] for row in found["pairs"]] == pytest.approx([-0.05, 0.05, 0.0])
    assert found["pairs_not_additive"] == 2
    assert found["largest_latency_below_sum"] == pytest.approx(-0.05)
    assert found["largest_latency_above_sum"] == pytest.approx(0.05)
    plot = nonadditive.heat_map(found, ["a", "b", "c"], "latency_s")["data"][0]["z"]
    assert plot[0][1] == plot[1][0] == pytest.approx(-5)
    assert plot[0][0] is None
    outcome = nonadditive.outcome(found, ["a", "b", "c"])
    assert "2 of 3 pairs" in outcome.facts[0]
