from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from monet.errors import MonetError
from monet.search.hardware.objectives import means, parse_objective
from monet.search.pareto import front, hypervolume

MODES = {"resnet": "training", "gpt": "training", "inference": "inference"}


@pytest.mark.parametrize("objectives", [1, 2, 3, 4])
def test_hypervolume_is_what_points_dominate_cell_by_cell(objectives: int) -> None:
    generator = np.random.default_rng(objectives)
    cells = np.stack(np.meshgrid(*[np.arange(9)] * objectives), axis=-1).reshape(-1, objectives)
    for _ in range(20):
        values = generator.integers(0, 11, (generator.integers(1, 30), objectives))
        dominated = (values[:, None] <= cells).all(axis=2).any(axis=0).sum()  # a cell lies above its lower corner
        assert hypervolume(values.astype(float), [9.0] * objectives) == pytest.approx(dominated, abs=1e-9)


def test_front_is_what_nothing_beats() -> None:
    generator = np.random.default_rng(0)
    for size, largest in itertools.product((1, 2, 3), (6, 60)):  # with many twins, and with large fronts
        values = generator.integers(0, largest, (60, size)).astype(float)
        kept = front(values).tolist()
        assert kept == sorted(kept)
        for place, row in enumerate(values):
            beaten = any((other <= row).all() and (other < row).any() for other in values)
            twin = any((values[earlier] == row).all() for earlier in range(place))
            assert (place in kept) == (not beaten and not twin)


def test_objectives_cover_one_workload_a_mode_or_all() -> None:
    assert parse_objective("latency", MODES).workloads == ("resnet", "gpt", "inference")
    assert parse_objective("training.energy", MODES).workloads == ("resnet", "gpt")
    assert parse_objective("gpt.edp", MODES).workloads == ("gpt",)
    assert parse_objective("area", MODES).workloads == ()
    for text in ("inference.area", "speed", "nothing.latency"):
        with pytest.raises(MonetError, match="objective"):
            parse_objective(text, MODES)


def test_several_networks_count_by_their_geometric_mean() -> None:
    metrics = {"resnet.latency_s": 2.0, "gpt.latency_s": 8.0, "inference.latency_s": 1.0}
    objective = parse_objective("training.latency", MODES)
    assert objective.value(metrics, {}) == pytest.approx(4.0)
    weighted = math.exp((3 * math.log(2.0) + math.log(8.0)) / 4)
    assert objective.value(metrics, {"resnet": 3.0, "gpt": 1.0}) == pytest.approx(weighted)
    every = {f"{name}.{figure}": 2.0 for name in MODES for figure in
             ("latency_s", "energy_j", "edp_js", "power_w", "dram_bytes", "memory_bytes")}  # fmt: skip
    assert means(every | {"gpt.memory_bytes": 7.0}, dict.fromkeys(MODES, 1.0))["memory_bytes"] == 7.0
