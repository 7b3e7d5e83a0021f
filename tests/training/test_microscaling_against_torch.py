"""Executed microscaling steps against PyTorch's autograd with fake-quantised products, written independently."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import monet
from monet.frontends.torch import load_module, module_values
from monet.graph import Graph
from monet.numerics import execute, random_values

torch = pytest.importorskip("torch")
functional = torch.nn.functional
Tensor = Any
# exponent of the largest number, least exponent, fraction bits, largest number: OCP MX v1.0, table 1
ELEMENTS = {
    "e4m3": (8, -6, 3, 448.0), "e5m2": (15, -14, 2, 57344.0), "e3m2": (4, -2, 2, 28.0), "e2m1": (2, 0, 1, 6.0),
    "int8": (0, 0, 6, 127 / 64),
}  # fmt: skip


def rounded_to(values: Tensor, element: str) -> Tensor:
    """Groups along the last axis, by exponents from frexp and rounding of quotients."""
    top, least, bits, largest = ELEMENTS[element]
    most = values.abs().amax(-1, keepdim=True)
    scale = torch.where(most > 0, torch.exp2((torch.frexp(most)[1] - 1 - top).double()), torch.ones_like(most))
    scaled = values / scale
    exponents = torch.clamp(torch.frexp(scaled)[1] - 1, min=least)
    step = torch.exp2((exponents - bits).double())
    low = -2.0 if element == "int8" else -largest
    return torch.clamp(torch.round(scaled / step) * step, low, largest) * scale


def fake(values: Tensor, element: str, axes: tuple[int, int], square: bool) -> Tensor:
    """``axes``: the one that is summed over, and the one across it; runs of 32 along the first, or 8 × 8 over both."""
    summed, across = (axis % values.ndim for axis in axes)
    rest = [axis for axis in range(values.ndim) if axis not in (summed, across)]
    turned = values.permute(*rest, across, summed)
    extents = (8, 8) if square else (1, 32)
    height, width = turned.shape[-2:]
    padded = functional.pad(turned, (0, -width % extents[1], 0, -height % extents[0]))
    lead, (rows, columns) = padded.shape[:-2], padded.shape[-2:]
    blocks = padded.reshape(*lead, rows // extents[0], extents[0], columns // extents[1], extents[1]).transpose(-3, -2)
    flat = rounded_to(blocks.flatten(-2), element).reshape(blocks.shape)
    whole = flat.transpose(-3, -2).reshape(*lead, rows, columns)[..., :height, :width]
    return whole.permute(*np.argsort([*rest, across, summed]).tolist())


class Rules:
    def __init__(self, forward: str, backward: str, square: bool, after: bool) -> None:
        self.forward, self.backward, self.square, self.after = forward, backward, square, after

    def value(self, x: Tensor, summed: int, across: int) -> Tensor:
        return fake(x, self.forward, (summed, across), self.square)

    def gradient(self, x: Tensor, summed: int, across: int) -> Tensor:
        return fake(x, self.backward, (summed, across), self.square)


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rules: Rules, x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        context.rules = rules
        context.save_for_backward(x, w)
        rows = x.reshape(-1, x.shape[-1])
        y = rules.value(rows, 1, 0) @ rules.value(w, 1, 0).T + bias
        return y.reshape(*x.shape[:-1], -1)

    @staticmethod
    def backward(context: Any, g: Tensor) -> Any:
        rules, (x, w) = context.rules, context.saved_tensors
        rows, columns = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
        dx = rules.gradient(columns, 1, 0) @ rules.value(w, 0, 1)
        dw = rules.gradient(columns, 0, 1).T @ rules.value(rows, 0, 1)
        return None, dx.reshape(x.shape), dw, columns.sum(0)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rules: Rules, a: Tensor, b: Tensor) -> Tensor:
        context.rules = rules
        context.save_for_backward(a, b)
        return rules.value(a, -1, -2) @ rules.value(b, -2, -1)

    @staticmethod
    def backward(context: Any, g: Tensor) -> Any:
        rules, (a, b) = context.rules, context.saved_tensors
        da = rules.gradient(g, -1, -2) @ rules.value(b, -1, -2).transpose(-1, -2)
        db = rules.value(a, -2, -1).transpose(-1, -2) @ rules.gradient(g, -2, -1)
        return None, da, db


class Attention(torch.autograd.Function):
    """Online softmax: backward makes the scores again, and has the row sums of dP ∘ P from the result."""

    @staticmethod
    def forward(context: Any, rules: Rules, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        context.rules = rules
        p = torch.softmax(scores_of(rules, q, k), -1)
        out = rules.value(p, -1, -2) @ rules.value(v, -2, -1)
        context.save_for_backward(q, k, v, p, out)
        return out

    @staticmethod
    def backward(context: Any, g: Tensor) -> Any:
        rules, (q, k, v, p, out) = context.rules, context.saved_tensors
        dp = rules.gradient(g, -1, -2) @ rules.value(v, -1, -2).transpose(-1, -2)
        ds, scale = p * (dp - (g * out).sum(-1, keepdim=True)), q.shape[-1] ** -0.5
        dq = scale * rules.gradient(ds, -1, -2) @ rules.value(k, -2, -1)
        dk = scale * rules.gradient(ds, -2, -1).transpose(-1, -2) @ rules.value(q, -2, -1)
        return None, dq, dk, rules.value(p, -2, -1).transpose(-1, -2) @ rules.gradient(g, -2, -1)


def scores_of(rules: Rules, q: Tensor, k: Tensor) -> Tensor:
    return rules.value(q, -1, -2) @ rules.value(k, -1, -2).transpose(-1, -2) * q.shape[-1] ** -0.5


class Convolution(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rules: Rules, x: Tensor, w: Tensor, *window: int) -> Tensor:
        context.rules, context.window = rules, window
        stride, padding, groups = window
        context.save_for_backward(x, w)
        if not rules.after or groups > 1:
            return functional.conv2d(rules.value(x, 1, 0), rules.value(w, 1, 0), None, stride, padding, 1, groups)
        size = (x.shape[2] + 2 * padding - w.shape[2]) // stride + 1
        y = rules.value(patches(x, w, stride, padding), 1, 0) @ rules.value(w.flatten(1), 1, 0).T
        return y.reshape(x.shape[0], size, size, -1).permute(0, 3, 1, 2)

    @staticmethod
    def backward(context: Any, g: Tensor) -> Any:
        rules, (x, w), (stride, padding, groups) = context.rules, context.saved_tensors, context.window
        window = stride, padding, 1, groups
        dx = torch.nn.grad.conv2d_input(x.shape, rules.value(w, 0, 1), rules.gradient(g, 1, 0), *window)
        if rules.after and groups == 1:
            rows = g.permute(0, 2, 3, 1).reshape(-1, g.shape[1])
            dw = rules.gradient(rows, 0, 1).T @ rules.value(patches(x, w, stride, padding), 0, 1)
            return None, dx, dw.reshape(w.shape), None, None, None
        dw = torch.nn.grad.conv2d_weight(rules.value(x, 0, 1), w.shape, rules.gradient(g, 0, 1), *window)
        return None, dx, dw, None, None, None


def patches(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    columns = functional.unfold(x, w.shape[2:], stride=stride, padding=padding)
    return columns.transpose(1, 2).reshape(-1, columns.shape[1])


class Quantised(torch.overrides.TorchFunctionMode):
    """Products of a module, fake-quantised."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.rules = rules

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        if function is functional.linear:
            return Linear.apply(self.rules, *arguments)
        if function in (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__):
            return Product.apply(self.rules, *arguments)
        if function is torch.conv2d:
            x, w, _, (stride, _), (padding, _), _, groups = arguments
            wide = groups > 1 and w.shape[1] % 32  # of a depthwise one, products stay as they are
            return function(*arguments) if wide else Convolution.apply(self.rules, x, w, stride, padding, groups)
        if function is functional.scaled_dot_product_attention:
            return Attention.apply(self.rules, *arguments)
        return function(*arguments, **options)


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(20, 70), torch.nn.Linear(70, 9)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(functional.silu(self.first(x)))


class Convnet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 40, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(40)
        self.second = torch.nn.Conv2d(40, 16, 3, stride=2, padding=1, bias=False)
        self.head = torch.nn.Linear(16, 9)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(functional.relu(self.norm(self.first(x)))).mean((2, 3)))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(24)
        self.project, self.join = torch.nn.Linear(24, 72), torch.nn.Linear(24, 24)
        self.up, self.down = torch.nn.Linear(24, 40), torch.nn.Linear(40, 24)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(self.norm(x)).reshape(*x.shape[:2], 3, 2, 12).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(parts[0], parts[1].transpose(-1, -2)) / math.sqrt(12)
        mixed = torch.matmul(torch.softmax(scores, -1), parts[2]).permute(0, 2, 1, 3).reshape(x.shape)
        x = x + self.join(mixed)
        return x + self.down(functional.gelu(self.up(x)))


class Attending(Block):
    """The same with its attention in one operator."""

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(self.norm(x)).reshape(*x.shape[:2], 3, 2, 12).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.join(mixed.permute(0, 2, 1, 3).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(x)))


class Grouped(torch.nn.Module):
    """Convolutions in two groups of 32 channels, and one of a channel each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 64, 1, bias=False)
        self.second = torch.nn.Conv2d(64, 64, 3, padding=1, groups=2, bias=False)
        self.third = torch.nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.third(functional.relu(self.second(functional.relu(self.first(x)))))


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (Mlp, (33, 20)),
    "convnet": (Convnet, (5, 3, 8, 8)),
    "block": (Block, (3, 11, 24)),
    "attending": (Attending, (3, 37, 24)),
    "grouped": (Grouped, (3, 3, 5, 5)),
}


@cache
def forward_graph(name: str) -> Graph:
    """Exported once: a module's values are not in its graph."""
    make, shape = MODELS[name]
    return load_module(make().double(), (torch.randn(*shape, dtype=torch.float64),))


@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        ("mxfp8", Rules("e4m3", "e4m3", False, False)),
        ("mxfp8-mixed-square", Rules("e4m3", "e5m2", True, False)),
        ({"like": "mxfp6", "im2col": "after"}, Rules("e3m2", "e3m2", False, True)),
        ({"like": "mxfp4-square", "im2col": "after"}, Rules("e2m1", "e2m1", True, True)),
        ({"like": "mxint8", "keep": {"inputs": "wide", "weights": "wide"}, "place": "producer"},
         Rules("int8", "int8", False, False)),
    ],
    ids=["mxfp8", "mixed-square", "mxfp6-after", "mxfp4-square-after", "mxint8"],
)  # fmt: skip
@pytest.mark.parametrize("name", [*MODELS, "attending, scores kept"])
def test_a_step_is_a_fake_quantised_one_of_pytorch(name: str, policy: Any, rules: Rules) -> None:
    name, _, kept = name.partition(", ")
    make, shape = MODELS[name]
    torch.manual_seed(0)
    module = make().double()
    x = torch.randn(*shape, dtype=torch.float64)
    attention = "fused-scores" if kept else ""
    step = monet.training_step(
        forward_graph(name), precision=policy, loss="sum", learning_rate=0.5, attention=attention
    )
    values = random_values(step) | module_values(module, step)
    values[step.inputs[0]] = x.numpy()
    ours = execute(step, values)
    with Quantised(rules):
        loss = module(x).sum()
    loss.backward()
    assert float(ours[step.loss]) == pytest.approx(loss.item(), rel=1e-6)
    theirs = dict(module.named_parameters())
    assert set(theirs) == set(step.gradients)
    for parameter, gradient in step.gradients.items():
        expected = theirs[parameter].grad.numpy()
        assert np.abs(ours[gradient] - expected).max() <= 1e-6 * np.abs(expected).max(), parameter
        updated = ours[step.updated[parameter]]
        np.testing.assert_allclose(updated, values[parameter] - 0.5 * expected, rtol=1e-6, atol=1e-9)
