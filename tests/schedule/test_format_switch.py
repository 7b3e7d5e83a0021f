"""A core that takes time to go on in other number formats."""

from __future__ import annotations

from pathlib import Path

from monet.request import Request

POLICY = """
forward: {input: "mxfp8_e4m3[8x8]", weight: "mxfp8_e4m3[8x8]"}
input_gradient: {gradient: "mxint8[8x8]", weight: "mxint8[8x8]"}
weight_gradient: {input: "mxfp8_e4m3[8x8]", gradient: "mxfp8_e4m3[8x8]"}
"""


def test_a_change_of_formats_is_paid_for(tmp_path: Path) -> None:
    """Forward and weight gradients in one format, the only input gradient in another: there and back is two changes."""
    (tmp_path / "mixed.yaml").write_text(POLICY)
    latency = {}
    for precision in ("mxfp8-square", f"{tmp_path}/mixed.yaml"):
        for cycles in (0, 10_000):
            request = Request(
                "mlp:widths=16-16-16", "snax-mx", precision=precision, batch=8, fusion="none",
                set={"cores.mx_core.format_switch_cycles": cycles},
            )  # fmt: skip
            latency[precision[:5], cycles] = request.evaluate().latency_s
    assert latency["mxfp8", 0] == latency["mxfp8", 10_000]
    plain, mixed = latency[str(tmp_path)[:5], 0], latency[str(tmp_path)[:5], 10_000]
    assert 1.5 * 20e-6 < mixed - plain <= 2 * 20e-6
