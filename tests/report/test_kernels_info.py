"""``monet explain`` of a GPU: waves, tails, tensor cores, bandwidth, launches."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from monet import Request
from monet.cli import app
from monet.hardware import load_hardware
from monet.report.info import kernels
from monet.report.quantities import percent
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
    assert "Kernels, those that are alike together, most time first" in " ".join(shown.output.split())
    written = json.loads((tmp_path / "e.json").read_text())
    assert written["kernels"][0]["operator"] == found[0].operator.name
    assert any("Tensor cores" in sentence for sentence in written["explanation"])


def test_every_figure_of_the_sentences() -> None:
    """A step with fused operators, products on fewer SMs than there are, and tails that differ."""
    result = Request("mlp-pusher", "jetson-orin", batch=64, precision="bf16").evaluate()
    found, accelerator = kernels.kernels(result), load_hardware("jetson-orin")
    peak, groups = accelerator.peak_macs_per_s("bf16"), {row.group for row in result.operators}
    assert len(groups) < len(result.operators)
    assert min(len(row.operator.cores) for row in found) < len(accelerator.cores)
    assert {row.peak_macs_per_s for row in found} == {peak}
    products = {row.operator.name: row.operator for row in found}.values()
    took, macs = sum(row.latency_s for row in products), sum(row.macs for row in products)
    idle = sum(row.kernel.tail * row.operator.latency_s for row in found) / took
    worst = max(found, key=lambda row: row.kernel.tail * row.operator.latency_s)
    moved = result.dram_bytes.total / result.latency_s
    assert kernels.sentences(result, found) == [
        f"Tensor cores reach {percent(macs / (took * peak))} of their peak while products run and "
        f"{percent(macs / (result.latency_s * peak))} over the step.",
        f"{len(products)} products run as kernels of {sum(row.kernel.blocks * row.sums for row in found)} blocks; last "
        f"waves leave {percent(idle)} of the SMs' time idle, most of it {worst.operator.name}: {worst.blocks} blocks "
        f"of {worst.kernel.tile[0]}×{worst.kernel.tile[1]} over {worst.cores} SMs in 1 wave.",
        f"DRAM moves {moved / 1e9:.0f} GB/s on average, {percent(moved / 204.8e9)} of its 205 GB/s.",
        f"{len(groups)} launches of 6 µs each are {percent(len(groups) * 6e-6 / result.latency_s)} of the step.",
        f"It draws {result.energy_j / result.latency_s:.0f} W on average, of a TDP of 60 W.",
    ]


def test_kernels_of_equal_layers_are_one_row() -> None:
    model = "gpt:layers=3,hidden=64,heads=2,vocabulary=100,sequence=32"
    result = Request(model, "jetson-orin", precision="bf16").evaluate()
    found = kernels.kernels(result)
    together = kernels.like_kernels(found)
    assert sorted((row for some in together for row in some.rows), key=id) == sorted(found, key=id)
    assert [some.latency_s for some in together] == sorted((some.latency_s for some in together), reverse=True)
    for some in together:
        assert len({row.kernel for row in some.rows}) == 1
        uses = [row.tensor_core_use for row in some.rows]
        assert min(uses) * (1 - 1e-12) <= some.tensor_core_use <= max(uses) * (1 + 1e-12)
    assert any(len(some.rows) >= 3 for some in together)


def test_other_devices_have_no_kernels() -> None:
    result = Request("mlp-pusher", "edge-tpu", batch=4).evaluate()
    assert kernels.kernels(result) == []
    assert kernels.sentences(result, []) == []
