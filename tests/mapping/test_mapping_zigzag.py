"""ResNet-18 on ``tpu-like``, layer by layer, against ZigZag 3.9.1.

Published side: zigzag-dse 3.9.1 (LOMA, lpf limit 6, uneven mapping) on its tpu_like description without the systolic
line, 8-bit operands, 16-bit partial sums, 8-bit results: cycles and picojoules per layer, at objective energy and at
objective latency. Layer: (K, C, output size, taps, stride, padding, how often).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from monet.graph.loop_nest import LoopNest
from monet.hardware import load_hardware
from monet.mapping.cost_store import CostStore
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.operator import Unfused, unfused
from tests.mapping.nests import conv, linear

LAYERS = {
    "conv1": (64, 3, 112, 7, 2, 3, 1),
    "layer1.conv": (64, 64, 56, 3, 1, 1, 4),
    "layer2.0.conv1": (128, 64, 28, 3, 2, 1, 1),
    "layer2.0.downsample": (128, 64, 28, 1, 2, 0, 1),
    "layer2.conv": (128, 128, 28, 3, 1, 1, 3),
    "layer3.0.conv1": (256, 128, 14, 3, 2, 1, 1),
    "layer3.0.downsample": (256, 128, 14, 1, 2, 0, 1),
    "layer3.conv": (256, 256, 14, 3, 1, 1, 3),
    "layer4.0.conv1": (512, 256, 7, 3, 2, 1, 1),
    "layer4.0.downsample": (512, 256, 7, 1, 2, 0, 1),
    "layer4.conv": (512, 512, 7, 3, 1, 1, 3),
    "fc": (1000, 512, 0, 0, 0, 0, 1),
}
ZIGZAG = {  # layer: (cycles, pJ) at objective energy, (cycles, pJ) at objective latency
    "conv1": ((1248130, 128899783), (1248130, 128899783)),
    "layer1.conv": ((137986, 66996200), (137986, 66996200)),
    "layer2.0.conv1": ((81538, 47270886), (81538, 47270886)),
    "layer2.0.downsample": ((18817, 16432106), (18817, 16432106)),
    "layer2.conv": ((125442, 57967469), (125442, 57967469)),
    "layer3.0.conv1": ((68994, 52822914), (68994, 52822914)),
    "layer3.0.downsample": ((10369, 11459105), (10369, 11459105)),
    "layer3.conv": ((186122, 87358676), (123872, 88387503)),
    "layer4.0.conv1": ((205961, 123410071), (153073, 127902977)),
    "layer4.0.downsample": ((19521, 16507176), (19521, 16507176)),
    "layer4.conv": ((300401, 238190980), (299921, 239327692)),
    "fc": ((63677, 45108639), (63677, 45108639)),
}
ZIGZAG_ENERGY_PJ, ZIGZAG_LATENCY = 1_860_446_855, 3_863_768
OURS = {"energy": (4_138_299, 1_852_165_342), "latency": (3_734_915, 2_824_817_871)}  # cycles, pJ: regression


def layer_nest(name: str) -> LoopNest:
    k, c, size, taps, stride, pad, _ = LAYERS[name]
    if name == "fc":
        return linear(1, k, c)
    nest = conv(K=k, C=c, OY=size, OX=size, FY=taps, FX=taps, stride=stride, pad=pad)
    image = replace(nest.operands[0], shape=(1, c, size * stride, size * stride))
    return replace(nest, operands=(image, *nest.operands[1:]))


def table(objective: str) -> dict[str, Unfused]:
    accelerator = load_hardware("tpu-like")
    core = accelerator.cores[0]
    border = border_of(accelerator, core)
    return {name: unfused(layer_nest(name), core.core, border, objective, store=CostStore()) for name in LAYERS}


def totals(found: dict[str, Unfused]) -> tuple[float, float]:
    cycles = sum(found[name].cycles * LAYERS[name][-1] for name in LAYERS)
    return cycles, sum(found[name].energy_j * 1e12 * LAYERS[name][-1] for name in LAYERS)


def test_published_rows_add_up_to_the_published_totals() -> None:
    assert sum(ZIGZAG[name][0][1] * LAYERS[name][-1] for name in LAYERS) == pytest.approx(ZIGZAG_ENERGY_PJ, abs=20)
    assert sum(ZIGZAG[name][1][0] * LAYERS[name][-1] for name in LAYERS) == ZIGZAG_LATENCY


def test_no_more_energy_than_zigzag() -> None:
    cycles, picojoules = totals(table("energy"))
    assert picojoules <= ZIGZAG_ENERGY_PJ
    assert (cycles, picojoules) == pytest.approx(OURS["energy"], rel=1e-6)


def test_no_slower_than_zigzag() -> None:
    cycles, picojoules = totals(table("latency"))
    assert cycles <= ZIGZAG_LATENCY
    assert (cycles, picojoules) == pytest.approx(OURS["latency"], rel=1e-6)
