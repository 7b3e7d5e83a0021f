"""Low-rank adaptation against the framework: values and gradients with adapters that are not zero."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from monet.graph import Graph, GraphBuilder
from monet.numerics import execute, random_values
from monet.training.step import training_step
from monet.transforms.lora import add_lora

RANK = 2
WINDOW = {"stride": (2, 1), "padding": ((1, 1), (2, 2)), "dilation": (1, 2)}


def model() -> Graph:
    """A convolution with everything unusual, a linear layer, and a head."""
    builder = GraphBuilder("adapted")
    x = builder.input("image", (2, 4, 6, 5))
    with builder.scope("conv"):
        w, b = builder.parameter("weight", (6, 2, 3, 3)), builder.parameter("bias", (6,))
    x = builder.emit("tanh", builder.emit("conv", x, w, b, name="conv", groups=2, **WINDOW))
    x = builder.emit("reshape", x, shape=(2, builder.tensors[x].elements // 2))
    with builder.scope("fc"):
        w = builder.parameter("weight", (7, builder.tensors[x].shape[1]))
    x = builder.emit("tanh", builder.emit("linear", x, w, name="fc", transpose=False))
    with builder.scope("head"):
        w = builder.parameter("weight", (3, 7))
    return builder.build([builder.emit("linear", x, w, name="head", transpose=False)])


@pytest.mark.parametrize(("alpha", "scale"), [(None, 1.0), (6.0, 3.0), (1.0, 0.5)])
def test_adapters_compute_and_train_what_the_framework_does(alpha: float | None, scale: float) -> None:
    adapted = add_lora(model(), RANK, alpha)
    step = training_step(adapted, loss="sum")
    assert set(step.gradients) == {f"{layer}.lora_{part}.weight" for layer in ("conv", "fc") for part in "ab"}
    values = random_values(step, seed=3)
    found = execute(step, values)
    given = {name: torch.tensor(np.asarray(value), dtype=torch.float64) for name, value in values.items()}
    for name in step.gradients:
        given[name].requires_grad_()
    y = torch.tanh(_convolved(given, scale)).flatten(1)
    low = F.linear(F.linear(y, given["fc.lora_a.weight"]), given["fc.lora_b.weight"])
    y = F.linear(torch.tanh(F.linear(y, given["fc.weight"]) + scale * low), given["head.weight"])
    y.sum().backward()
    np.testing.assert_allclose(found[step.outputs[0]], y.detach().numpy(), rtol=1e-9, atol=1e-12)
    for name, gradient in step.gradients.items():
        np.testing.assert_allclose(found[gradient], given[name].grad.numpy(), rtol=1e-9, atol=1e-12)


def _convolved(given: dict[str, torch.Tensor], scale: float) -> torch.Tensor:
    """The adapter has the layer's window but no groups; its second half is 1×1."""
    window = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}
    low = F.conv2d(F.conv2d(given["image"], given["conv.lora_a.weight"], **window), given["conv.lora_b.weight"])
    return F.conv2d(given["image"], given["conv.weight"], given["conv.bias"], groups=2, **window) + scale * low


def test_patterns_choose_layers() -> None:
    assert set(training_step(add_lora(model(), 1, patterns=["fc"]), loss="sum").gradients) == {
        "fc.lora_a.weight",
        "fc.lora_b.weight",
    }
