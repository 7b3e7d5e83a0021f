"""Published and measured figures at full size: parameters, FLOPs, saved bytes, optimizer state, MONET's own counts.

PyTorch figures were measured with PyTorch 2.13.0 (saved_tensors_hooks, FlopCounterMode with its two known errors
corrected); MONET's counts are those of the training graphs its authors released.
"""

from __future__ import annotations

import tracemalloc

import pytest

from monet import load_model, summarise, training_step
from monet.graph import Graph, Role
from monet.graph.counts import macs_by_part, parameter_count, role_bytes, saved_bytes

# model, options, parameters, forward GFLOP, backward GFLOP, saved MB (three decimals each)
MEASURED = [
    ("bert-base", {"batch": 1}, 109_483_778, 22.348, 44.697, 85.752),
    ("bert-base", {"batch": 8}, 109_483_778, 178.787, 357.575, 686.007),
    ("gpt2-mini", {"batch": 1, "sequence": 1024}, 30_339_456, 70.931, 141.861, 517.394),
    ("gpt2-mini", {"batch": 1, "sequence": 256}, 30_339_456, 15.921, 31.841, 99.857),
    ("gpt2-mini", {"batch": 8, "sequence": 256}, 30_339_456, 127.366, 254.732, 796.092),
    ("gpt2-small", {"batch": 1, "sequence": 1024}, 124_439_808, 291.648, 583.297, 1432.900),
    ("gpt2-small", {"batch": 1, "sequence": 256}, 124_439_808, 65.664, 131.329, 242.619),
    ("gpt2-small", {"batch": 4, "sequence": 256}, 124_439_808, 262.657, 525.315, 968.112),
    ("mlp-robot", {"batch": 1}, 190_860, 0.000, 0.001, 0.007),
    ("mlp-robot", {"batch": 4096}, 190_860, 1.556, 2.911, 29.557),
    ("resnet18", {"batch": 1}, 11_689_512, 3.628, 7.020, 21.620),
    ("resnet18", {"batch": 2, "image": 32}, 11_689_512, 0.150, 0.291, 0.931),
    ("resnet18", {"batch": 32}, 11_689_512, 116.101, 224.648, 690.654),
    ("resnet18", {"batch": 8}, 11_689_512, 29.025, 56.162, 172.692),
]


def step_of(model: str, options: dict[str, int], **training: object) -> Graph:
    return training_step(load_model(model, **options), **training)


@pytest.mark.parametrize(("model", "options", "parameters", "forward", "backward", "saved"), MEASURED)
def test_measured_with_torch(
    model: str, options: dict[str, int], parameters: int, forward: float, backward: float, saved: float
) -> None:
    step = step_of(model, options)
    macs = macs_by_part(step)
    assert parameter_count(step) == parameters
    assert round(2 * macs.forward / 1e9, 3) == forward
    assert round(2 * macs.backward / 1e9, 3) == backward
    assert round(saved_bytes(step) / 1e6, 3) == saved


@pytest.mark.parametrize(("depth", "width", "heads", "model"), [(6, 384, 6, "gpt2-mini"), (12, 768, 12, "gpt2-small")])
@pytest.mark.parametrize(("batch", "sequence"), [(1, 256), (1, 1024), (4, 256)])
def test_closed_form_of_gpt2_saved_bytes(
    depth: int, width: int, heads: int, model: str, batch: int, sequence: int
) -> None:
    s, b, h, vocabulary = sequence, batch, width, 50257
    per_layer = 4 * (16 * s * b * h + heads * s * s * b) + s * s
    ends = 4 * (s * b * vocabulary + 2 * s * b * h) + 4 * 2 * s * b * (2 * depth + 1) + 8 * s + 4
    assert saved_bytes(step_of(model, {"batch": b, "sequence": s})) == depth * per_layer + ends


@pytest.mark.parametrize(
    ("model", "options", "saved"),
    [("gpt2-small", {"sequence": 1024}, 816.927), ("bert-base", {"batch": 8}, 611.100)],
)
def test_fused_attention_saves_what_torch_saves(model: str, options: dict[str, int], saved: float) -> None:
    assert round(saved_bytes(step_of(model, options, attention="fused")) / 1e6, 3) == saved


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("mobilenetv2", 3_504_872),
        ("unet", 31_037_698),
        ("vit-b16", 86_567_656),
        ("vit-b32", 88_224_232),
        ("resnet34", 21_797_672),
        ("resnet50", 25_557_032),
        ("wide-resnet50-2", 68_883_240),
        ("wide-resnet101-2", 126_886_696),
        ("vgg16", 138_357_544),
        ("bert-large", 335_143_938),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
        ("llama2-7b", 6_738_415_616),
        ("llama2-70b", 68_976_648_192),
    ],
)
def test_published_parameter_counts(model: str, parameters: int) -> None:
    assert parameter_count(load_model(model)) == parameters


@pytest.mark.parametrize(
    ("model", "ratio"),
    [("mobilenetv2", 1.964), ("vit-b16", 1.993), ("unet", 1.998), ("resnet18", 1.935), ("mlp-robot", 1.871)],
)
def test_backward_over_forward(model: str, ratio: float) -> None:
    macs = macs_by_part(step_of(model, {}))
    assert round(macs.backward / macs.forward, 3) == ratio


@pytest.mark.parametrize(
    ("optimizer", "per_parameter", "per_tensor"), [("sgd", 0, 0), ("momentum", 4, 0), ("adam", 8, 4)]
)
def test_optimizer_state_bytes(optimizer: str, per_parameter: int, per_tensor: int) -> None:
    step = step_of("resnet18", {}, optimizer=optimizer)
    expected = per_parameter * 11_689_512 + per_tensor * len(step.parameters)
    assert role_bytes(step, Role.STATE) == expected


def test_counts_of_monets_resnet18() -> None:
    summary = summarise(step_of("resnet18-cifar", {"batch": 4}))
    assert summary["macs"]["forward"] == 2_221_690_880
    by_kind = summary["macs_by_kind"]
    assert by_kind["input_gradient"]["conv_transpose"] == 2_214_592_512
    assert by_kind["weight_gradient"]["conv_weight_gradient"] == 2_221_670_400
    assert by_kind["input_gradient"]["linear"] == by_kind["weight_gradient"]["linear_weight_gradient"] == 20_480


def test_counts_of_monets_lora_resnet18() -> None:
    step = step_of("resnet18-cifar", {"batch": 4}, lora=8)
    macs = macs_by_part(step)
    assert parameter_count(step, trainable_only=True) == 286_424
    assert macs.forward == 2_376_454_144
    assert macs.backward == 2_523_254_784


def test_counts_of_monets_gpt2() -> None:
    step = step_of("gpt2-paper", {})
    macs = macs_by_part(step)
    assert macs.forward == 3_309_305_856
    assert macs.backward == 2 * macs.forward
    own = [tensor for tensor in step.parameters if tensor.name.startswith("h.")]
    assert len({tensor.storage for tensor in own}) == 4 * 8  # four layers, eight tensors each, none shared


def test_schedulable_operators_of_resnet18() -> None:
    operators = summarise(step_of("resnet18", {}))["operators"]
    assert operators["forward"] + operators["loss"] == 70


@pytest.mark.slow
def test_gpt3_is_counted_in_megabytes() -> None:
    tracemalloc.start()
    summary = summarise(step_of("gpt3-175b", {}, optimizer="adam"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summary["parameters"] == 174_604_259_328
    assert summary["flops"]["backward"] == 2 * summary["flops"]["forward"]
    assert peak < 200e6
