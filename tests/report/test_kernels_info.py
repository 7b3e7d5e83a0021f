"""``monet explain`` of a GPU: waves, tails, tensor cores, bandwidth, launches."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from monet import Request
from monet.cli import app
from monet.report.info import kernels
from monet.report.result_file import write_result


def test_a_gpu_is_explained_in_its_own_words(tmp_path: Path) -> None:
    result = Request("mlp-pusher", "jetson-orin", batch=4096, precision="bf16").evaluate()
    found = kernels.kernels(result)
    assert found
    assert [row.operator.latency_s for row in found] == sorted((row.operator.latency_s for row in found), reverse=True)
    for row in found:
        assert 0 <= row.kernel.tail < 1
        assert 0 < row.tensor_core_use <= 1
        assert row.kernel.waves == -(-row.kernel.blocks // (row.kernel.cores * row.kernel.resident))
        assert row.cores <= len(row.operator.cores)
        assert row.blocks <= row.kernel.waves * row.cores * row.kernel.resident
    cut = [row for row in found if row.sums > 1]  # weight gradients: few results, sums over 4,096 samples
    assert {row.operator.kind for row in cut} == {"linear_weight_gradient"}
    assert all(row.blocks == row.sums * row.kernel.blocks for row in cut)
    said = " ".join(kernels.sentences(result, found))
    for words in ("Tensor cores reach", "last waves leave", "GB/s on average", "launches of 6 µs", "of a TDP of 60 W"):
        assert words in said
    file = tmp_path / "r.json"
    write_result(result, str(file))
    shown = CliRunner().invoke(app, ["explain", str(file), "--no-what-if", "--json", str(tmp_path / "e.json")])
    assert shown.exit_code == 0, shown.output
    assert "Kernels, longest first" in shown.output
    written = json.loads((tmp_path / "e.json").read_text())
    assert written["kernels"][0]["operator"] == found[0].operator.name
    assert any("Tensor cores" in sentence for sentence in written["explanation"])


def test_other_devices_have_no_kernels() -> None:
    result = Request("mlp-pusher", "edge-tpu", batch=4).evaluate()
    assert kernels.kernels(result) == []
    assert kernels.sentences(result, []) == []
