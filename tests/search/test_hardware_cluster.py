"""A real Dask cluster on this machine: a scheduler and two worker processes, one of which is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from monet.errors import MonetError
from monet.search.hardware.engine import cluster
from monet.search.hardware.exploration import explore
from tests.search.spaces import grid
from tests.search.test_hardware_engine import FAULTY, GOOD, contents, stored_points


def set_variable(name: str, value: str) -> None:
    os.environ[name] = value


@pytest.fixture(scope="module")
def two_workers() -> Iterator[LocalCluster]:
    made = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None, silence_logs=50
    )
    yield made
    made.close()


@pytest.mark.parametrize("search", ["random", "nsga2"])
def test_a_cluster_gives_the_same_front_as_one_process(tmp_path: Path, two_workers: LocalCluster, search: str) -> None:
    address = two_workers.scheduler_address
    there, here = (
        explore(grid(8, 8), str(tmp_path / name), search=search, points=24, cluster_address=where, function=GOOD)
        for name, where in (("there", address), ("here", ""))
    )
    assert there.records == here.records
    assert there.front() == here.front()
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_what_kills_its_process_does_not_kill_the_cluster(tmp_path: Path, two_workers: LocalCluster) -> None:
    with Client(two_workers) as client:
        before = sorted(client.run(os.getpid).values())
        client.run(set_variable, "MONET_TEST_LOG", str(tmp_path / "log"))
    found = explore(
        grid(3, 4), str(tmp_path / "s"), cluster_address=two_workers.scheduler_address, timeout_s=1.5, function=FAULTY
    )
    status = Counter(one.status for one in found.records)
    assert status == {"ok": 8, "failed": 4}
    with Client(two_workers) as client:
        assert sorted(client.run(os.getpid).values()) == before


def test_a_worker_killed_in_the_middle_loses_nothing(tmp_path: Path, two_workers: LocalCluster) -> None:
    store = tmp_path / "s"
    with Client(two_workers) as client:
        client.run(set_variable, "MONET_TEST_SECONDS", "0.1")
        first, *_ = client.run(os.getpid).values()

        def kill_one() -> None:
            while stored_points(store) < 6:
                time.sleep(0.05)
            os.kill(first, signal.SIGKILL)

        killer = threading.Thread(target=kill_one)
        killer.start()
        found = explore(grid(6, 6), str(store), cluster_address=two_workers.scheduler_address, function=GOOD)
        killer.join()
        assert len(found.records) == 36
        assert all(one.ok for one in found.records)
    explore(grid(6, 6), str(tmp_path / "alone"), function=GOOD)
    assert contents(store) == contents(tmp_path / "alone")


def test_a_cluster_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MonetError, match="no Dask scheduler answers there"), cluster("tcp://127.0.0.1:1"):
        pass
