"""What is critical, what has slack, what one more core would buy."""

from __future__ import annotations

import pytest

from monet.hardware.loading import load_hardware
from monet.report.criticality import critical_table, critical_work, one_more_table
from monet.request import Request
from monet.schedule.workload import workload_of


def test_critical_work_of_a_small_step() -> None:
    workload = workload_of(Request("mlp-robot", "tpu-v3", batch=8, precision="bf16").graph())
    work = critical_work(workload, load_hardware("tpu-v3"))
    assert sum(took for _, took, _ in work.critical) >= work.path_s * (1 - 1e-9)
    assert work.path_s <= work.step_s
    assert [(each.kind, each.cores) for each in work.more] == [("mxu_0", 4), ("vpu_0", 2)]
    assert all(work.path_s <= each.step_s <= work.step_s for each in work.more)
    assert work.to_json()["longest_path_s"] == pytest.approx(work.path_s)
    assert len(critical_table(work, 3).rows) == 3
    assert len(one_more_table(work).rows) == 2
