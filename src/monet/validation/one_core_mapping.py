"""One operator on one core: ZigZag's ResNet-18 on its tpu_like."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.mapping.cost_store import Section, default_store
from monet.mapping.unfused.model_operators import OperatorCost, map_graph
from monet.training.options import TrainingOptions
from monet.training.step import prepare
from monet.validation.figure import Figure, NotComputable, Rule

TOPIC = "mapping"
ZIGZAG = (
    "zigzag-dse 3.9.1, LOMA, lpf limit 6, ResNet-18 on tpu_like without systolic drain; "
    "ours adds the bias of fc and whole bursts of 8 bytes"
)
BETTER = "a lower figure is a better mapping, in a larger space"

# operator, pJ at objective energy, cycles at objective latency
LAYERS = (
    ("conv1", 128_899_783, 1_248_130),
    ("layer1.0.conv1", 66_996_200, 137_986),
    ("layer2.0.conv1", 47_270_886, 81_538),
    ("layer2.0.conv2", 57_967_469, 125_442),
    ("layer3.0.conv1", 52_822_914, 68_994),
    ("layer3.0.conv2", 87_358_676, 123_872),
    ("layer4.0.conv1", 123_410_071, 153_073),
    ("layer4.0.conv2", 238_190_980, 299_921),
    ("fc", 45_108_639, 63_677),
)


MAPPED = Section[tuple[OperatorCost, ...]]("mapped for validation", 2)


def _costs(objective: str) -> tuple[OperatorCost, ...]:
    """Convolutions and the last layer; ZigZag costs nothing else."""
    return default_store()[MAPPED].get_or(objective, lambda: _map(objective))


def _map(objective: str) -> tuple[OperatorCost, ...]:
    forward = prepare(load_model("resnet18", batch=1), TrainingOptions(precision="int8"))
    costs, _ = map_graph(forward, load_hardware("tpu-like"), objective)
    return tuple(operator for operator in costs if operator.macs)


def _layers(objective: str, name: str) -> tuple[OperatorCost, ...]:
    """One operator, or all of them without a name."""
    found = tuple(operator for operator in _costs(objective) if name in ("", operator.op.name))
    if not found:
        raise NotComputable(f"no operator {name!r} among {len(_costs(objective))} mapped ones")
    return found


def _energy_pj(name: str) -> float:
    return sum(operator.cost.energy_j for operator in _layers("energy", name)) * 1e12


def _cycles(name: str) -> float:
    return sum(operator.cost.cycles for operator in _layers("latency", name))


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    whole = ("resnet18 on tpu-like, 21 layers", "", 1_860_446_855, 3_863_768, 0.0)
    for title, name, energy, cycles, tolerance in (whole, *((layer[0], *layer, 0.05) for layer in LAYERS)):
        checks = (("energy", "pJ", energy, _energy_pj), ("cycles", "cycles", cycles, _cycles))
        for what, unit, published, ours in checks:
            of, cost = f"{title}: {what}", partial(ours, name)
            yield Figure(TOPIC, of, unit, published, tolerance, ZIGZAG, cost, Rule.AT_MOST, BETTER)
