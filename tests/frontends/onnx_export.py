"""Small modules written to ONNX files, and what PyTorch says of them."""

from __future__ import annotations

import copy
import logging
import math
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from monet.frontends.onnx import load_onnx, onnx_values
from monet.graph import Graph, Role
from monet.graph.counts import macs_by_part
from monet.graph.counts import saved_bytes as saved_bytes_of
from monet.numerics import execute
from monet.training.step import training_step
from tests.torch_oracle import forward_flops, label_for, loss_of, saved_bytes, worst_of

MODES = {
    "training": torch.onnx.TrainingMode.TRAINING,
    "preserve": torch.onnx.TrainingMode.PRESERVE,
    "eval": torch.onnx.TrainingMode.EVAL,
}


def export(
    module: nn.Module, inputs: tuple[Tensor, ...], path: Path, how: str = "training", opset: int = 17, **options: object
) -> Path:
    """Write ``module``; ``how`` is dynamo, or a mode of the tracing exporter."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if how == "dynamo":
            torch.onnx.export(module, inputs, str(path), dynamo=True, opset_version=opset, verbose=False, **options)
        else:
            options.setdefault("do_constant_folding", how != "training")
            torch.onnx.export(
                module, inputs, str(path), dynamo=False, opset_version=opset, training=MODES[how], **options
            )
    module.train()
    return path


class Comparison:
    """An exported module beside its import: ratios of saved bytes, FLOPs, errors of loss and gradients."""

    def __init__(self, module: nn.Module, inputs: tuple[Tensor, ...], path: Path, loss: str = "cross-entropy") -> None:
        self.module, self.inputs, self.path, self.loss = module, inputs, path, loss
        self.graph = load_onnx(path)
        self.step = training_step(self.graph, loss=loss)

    def saved(self, step: Graph | None = None) -> float:
        """Saved bytes relative to PyTorch's, minus one."""
        with torch.backends.mkldnn.flags(enabled=False):
            return saved_bytes_of(step or self.step) / saved_bytes(self.module, self.inputs, self.loss) - 1

    def flops(self) -> tuple[int, int]:
        return 2 * macs_by_part(self.step).forward, forward_flops(self.module, self.inputs)

    def unmatched(self) -> set[str]:
        """Names that only one of the two sides trains."""
        return set(self.step.gradients) ^ {name for name, _ in self.module.named_parameters()}

    def errors(self) -> tuple[float, float]:
        """Relative error of the loss and of the worst gradient, in float64."""
        module = copy.deepcopy(self.module).double()
        inputs = tuple(x.double() if x.is_floating_point() else x for x in self.inputs)
        with torch.no_grad():
            label = label_for(copy.deepcopy(module)(*inputs), self.loss, torch.Generator().manual_seed(1))
        value = loss_of(module(*inputs), label, self.loss)
        value.backward()
        values = onnx_values(self.path, self.graph)
        names = [name for name in self.step.inputs if self.step.tensors[name].role is Role.INPUT]
        values.update({name: x.numpy() for name, x in zip(names, inputs, strict=True)})
        if label is not None:
            values["label"] = label.numpy()
        results = execute(self.step, values)
        theirs = dict(module.named_parameters())
        pairs = [(results[g], theirs[name].grad) for name, g in self.step.gradients.items() if name in theirs]
        assert pairs
        return abs(float(results[self.step.loss]) - value.item()) / abs(value.item()), worst_of(pairs)


class Convolutional(nn.Module):
    """Most of what image models are made of."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem, self.bn1 = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.depthwise, self.bn2 = nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8)
        self.squeeze, self.excite = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.group = nn.GroupNorm(2, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)
        self.dropout, self.head = nn.Dropout(dropout), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.bn1(self.stem(x))))
        y = F.hardswish(self.bn2(self.depthwise(x)))
        y = y * torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        y = F.silu(self.group(x + y))
        y = torch.cat([F.interpolate(y, scale_factor=2.0), F.leaky_relu(self.up(y), 0.1)], 1)
        return self.head(self.dropout(y.mean((2, 3))))


class Activations(nn.Module):
    """Every activation once, between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.PReLU(4)
        self.functions = [
            F.elu, F.selu, F.celu, F.hardsigmoid, F.softplus, F.mish, F.silu, F.hardswish, F.relu6, F.gelu, torch.tanh,
            torch.sigmoid, F.softsign, self.slopes,
        ]  # fmt: skip
        self.layers = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in self.functions)
        self.norm, self.response = nn.InstanceNorm2d(4, affine=True), nn.LocalResponseNorm(3)
        self.head = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        for function, layer in zip(self.functions, self.layers, strict=True):
            x = function(layer(x))
        x = self.response(self.norm(x))
        x = F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)
        x = F.glu(F.interpolate(x, scale_factor=2.0, mode="bilinear"), 1)
        return self.head(x.flatten(2).amax(2) + x.pow(2).sum((2, 3)).sqrt())


class Block(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.ln_1, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln_2, self.fc, self.out = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        parts = self.qkv(self.ln_1(x)).split(w, 2)
        q, k, v = (part.view(b, s, self.heads, -1).transpose(1, 2) for part in parts)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(w // self.heads)
            hidden = torch.triu(torch.ones(s, s, dtype=torch.bool), 1)
            y = F.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, s, w))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Decoder(nn.Module):
    """A small GPT with learned positions and a tied head."""

    def __init__(self, fused: bool = False, width: int = 32) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(61, width), nn.Embedding(16, width)
        self.h = nn.ModuleList(Block(width, 4, fused) for _ in range(2))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, 61, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


class Patches(nn.Module):
    """A vision transformer with PyTorch's own encoder layers and a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, 0.0, "gelu", batch_first=True), 2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.head(self.encoder(x)[:, 0])


class Rotary(nn.Module):
    """A Llama-like layer from primitives: RMSNorm by hand, rotary tables made each step, SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.scale = nn.Embedding(61, 16), nn.Parameter(torch.rand(16) + 0.5)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False), nn.Linear(24, 16)
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, 4, 2) / 4))

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat([-right, left], -1) * sin

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        b, s, w = x.shape
        angles = torch.arange(s).float()[:, None] * self.inv_freq[None]
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        y = self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))
        q, k, v = (layer(y).view(b, s, 4, 4).transpose(1, 2) for layer in (self.q, self.k, self.v))
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        hidden = torch.full((s, s), float("-inf")).triu(1)
        y = F.softmax(q @ k.transpose(-2, -1) * 0.5 + hidden, -1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(b, s, w))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Points(nn.Module):
    """Two clouds through one encoder, whose norms are used twice, and the largest value over all points."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 6, 1))
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        first, second = (self.norm(self.encoder(cloud)) for cloud in (x, y))
        return self.head((first.max(2)[0] - second.min(2)[0]).abs())


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.rnn = getattr(nn, kind)(8, 6, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 7)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.rnn(self.table(tokens))[0])


def tokens(batch: int = 2, length: int = 6, seed: int = 0) -> tuple[Tensor, ...]:
    return (torch.randint(0, 50, (batch, length), generator=torch.Generator().manual_seed(seed)),)


def clouds() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 3, 17, generator=generator), torch.randn(3, 3, 17, generator=generator)


def image(batch: int = 2, size: int = 32, channels: int = 3) -> tuple[Tensor, ...]:
    return (torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(0)),)
