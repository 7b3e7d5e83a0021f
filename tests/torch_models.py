"""Small torch modules in the style of well-known networks. ``make`` gives (module, inputs, loss) by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.torch_transformers import (
    T5,
    Bert,
    Clip,
    Conformer,
    Einsum,
    EncoderDecoder,
    Gpt2,
    Llama,
    Swin,
    Vit,
    WeightedAttention,
)

Case = tuple[nn.Module, tuple[Tensor, ...], str]


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def tokens(*shape: int, vocabulary: int = 20) -> Tensor:
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(3))


# --- image networks -------------------------------------------------------------------------------------------------


class BasicBlock(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        out = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block: type[nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        self.layer1 = block(8, 8, 1)
        self.layer2 = block(8 * (4 if block is Bottleneck else 1), 12, 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(12 * (4 if block is Bottleneck else 1), 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.avgpool(self.layer2(self.layer1(self.stem(x)))), 1))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, gate: nn.Module) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, 4, 1)
        self.fc2 = nn.Conv2d(4, channels, 1)
        self.activation, self.scale_activation = nn.ReLU(), gate

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x


class InvertedResidual(nn.Module):
    """MobileNetV2 with ReLU6, V3 with hard swish and squeeze-excite, EfficientNet with SiLU."""

    def __init__(self, channels: int, out: int, stride: int, style: str) -> None:
        super().__init__()
        hidden = 3 * channels
        activation = {"v2": nn.ReLU6(inplace=True), "v3": nn.Hardswish(inplace=True), "mb": nn.SiLU(inplace=True)}[
            style
        ]
        gate = {"v2": None, "v3": nn.Hardsigmoid(), "mb": nn.Sigmoid()}[style]
        parts: list[nn.Module] = [nn.Conv2d(channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), activation]
        parts += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            activation,
        ]
        if gate is not None:
            parts.append(SqueezeExcite(hidden, gate))
        parts += [nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv = nn.Sequential(*parts)
        self.residual = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNet(nn.Module):
    def __init__(self, style: str) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
            InvertedResidual(8, 8, 1, style), InvertedResidual(8, 12, 2, style),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(12, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8 + 4 * layer) for layer in range(3)])
        self.convs = nn.ModuleList([nn.Conv2d(8 + 4 * layer, 4, 3, padding=1, bias=False) for layer in range(3)])
        self.transition = nn.Sequential(
            nn.BatchNorm2d(20), nn.ReLU(inplace=True), nn.Conv2d(20, 10, 1), nn.AvgPool2d(2, 2)
        )
        self.classifier = nn.Linear(10, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.conv0(x)]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            features.append(conv(F.relu(norm(torch.cat(features, 1)), inplace=True)))
        x = F.relu(self.transition(torch.cat(features, 1)), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.b1 = nn.Conv2d(3, 4, 1)
        self.b2 = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 6, (1, 5), padding=(0, 2)))
        self.b3 = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding="same", dilation=2))
        self.b4 = nn.Conv2d(3, 2, 1)
        self.fc = nn.Linear(16 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)
        x = torch.cat([self.b1(x), self.b2(x), self.b3(x), self.b4(pooled)], 1)
        x = F.max_pool2d(F.relu(x), 3, 2, ceil_mode=True)
        return self.fc(F.adaptive_avg_pool2d(x, 2).flatten(1))


class ShuffleNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.branch = nn.Sequential(
            nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3, 1, 1, groups=4, bias=False), nn.BatchNorm2d(4),
            nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
        )  # fmt: skip
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.stem(x).chunk(2, dim=1)
        x = torch.cat((left, self.branch(right)), dim=1)
        batch, channels, height, width = x.size()
        x = x.view(batch, 2, channels // 2, height, width)
        x = torch.transpose(x, 1, 2).contiguous().view(batch, channels, height, width)
        return self.fc(x.mean([2, 3]))


class UNet(nn.Module):
    def __init__(self, upsample: bool) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(inplace=True))
        self.deep = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        )
        if upsample:
            self.up: nn.Module = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(8, 4, 1)
            )
        else:
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x)
        up = self.up(self.deep(skip))
        rows, columns = skip.size(2) - up.size(2), skip.size(3) - up.size(3)
        up = F.pad(up, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.last(torch.cat([skip, up], dim=1))


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), LayerNorm2d(8, eps=1e-6))
        self.blocks = nn.Sequential(ConvNeXtBlock(8), ConvNeXtBlock(8))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.stem(x)).mean([-2, -1])))


class MlpMixer(nn.Module):
    def __init__(self, patches: int = 16, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.token = nn.Sequential(nn.Linear(patches, 12), nn.GELU(), nn.Linear(12, patches))
        self.channel = nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Linear(12, width))
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = x + self.token(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channel(self.norm2(x))
        return self.head(x.mean(dim=1))


class Generator(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Unflatten(1, (6, 1, 1)),
            nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
            nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1), nn.Tanh(),
        )  # fmt: skip


class Discriminator(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(4, 8, 4, 2, 1, bias=False), nn.InstanceNorm2d(8), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(8, 1, 4), nn.Flatten(), nn.Sigmoid(),
        )  # fmt: skip


class Autoencoder(nn.Module):
    """Trained on its own reconstruction: the loss is inside."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.PReLU(4), nn.Conv2d(4, 6, 3, 2, 1), nn.ELU())
        self.decoder = nn.Sequential(nn.ConvTranspose2d(6, 4, 2, 2), nn.Softplus(), nn.ConvTranspose2d(4, 1, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        return F.mse_loss(self.decoder(self.encoder(x)), x)


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2, padding_mode="reflect")
        self.conv2 = nn.Conv2d(6, 4, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        up = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.shuffle(self.conv2(torch.tanh(self.conv1(x)))) + up


class Yolo(nn.Module):
    """A pyramid pooling neck and a head whose boxes are squashed and joined again."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU(inplace=True))
        self.pool, self.fuse = nn.MaxPool2d(5, 1, 2), nn.Conv2d(32, 8, 1)
        self.up, self.detect = nn.Upsample(scale_factor=2), nn.Conv2d(16, 18, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        once, twice = self.pool(x), self.pool(self.pool(x))
        y = self.up(F.avg_pool2d(self.fuse(torch.cat([x, once, twice, self.pool(twice)], 1)), 2))
        y = self.detect(torch.cat([y, x], 1))
        batch, _, height, width = y.shape
        y = y.view(batch, 3, 6, height, width).permute(0, 1, 3, 4, 2).contiguous()
        place, size = y[..., :2].sigmoid() * 2 - 0.5, (y[..., 2:4].sigmoid() * 2) ** 2
        return torch.cat([place, size, y[..., 4:]], -1)


# --- recurrent --------------------------------------------------------------------------------------------------------


class RecurrentLm(nn.Module):
    def __init__(
        self, kind: type[nn.RNNBase], bidirectional: bool = False, batch_first: bool = False, layers: int = 2
    ) -> None:
        super().__init__()
        self.encoder = nn.Embedding(20, 6)
        self.rnn = kind(6, 5, layers, bidirectional=bidirectional, batch_first=batch_first)
        self.decoder = nn.Linear(10 if bidirectional else 5, 20)

    def forward(self, ids: Tensor) -> Tensor:
        return self.decoder(self.rnn(self.encoder(ids))[0])


class Cells(nn.Module):
    """Cells stepped by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.head = nn.LSTMCell(4, 5), nn.GRUCell(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = c = g = torch.zeros(x.shape[1], 5, dtype=x.dtype)
        outputs = []
        for row in x:
            h, c = self.lstm(row, (h, c))
            g = self.gru(h, g)
            outputs.append(g)
        return self.head(torch.stack(outputs))


def _x(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (image(*shape),)


def _ids(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (tokens(*shape),)


_BUILDERS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, ...]], str]] = {
    "resnet_basic": (lambda: ResNet(BasicBlock), _x(2, 3, 32, 32), "cross-entropy"),
    "resnet_bottleneck": (lambda: ResNet(Bottleneck), _x(2, 3, 32, 32), "cross-entropy"),
    "mobilenet_v2": (lambda: MobileNet("v2"), _x(2, 3, 16, 16), "cross-entropy"),
    "mobilenet_v3": (lambda: MobileNet("v3"), _x(2, 3, 16, 16), "cross-entropy"),
    "efficientnet": (lambda: MobileNet("mb"), _x(2, 3, 16, 16), "cross-entropy"),
    "densenet": (DenseNet, _x(2, 3, 8, 8), "cross-entropy"),
    "inception": (Inception, _x(2, 3, 8, 8), "cross-entropy"),
    "shufflenet": (ShuffleNet, _x(2, 3, 16, 16), "cross-entropy"),
    "unet": (lambda: UNet(upsample=False), _x(2, 3, 16, 16), "cross-entropy"),
    "unet_bilinear": (lambda: UNet(upsample=True), _x(2, 3, 16, 16), "cross-entropy"),
    "convnext": (ConvNeXt, _x(2, 3, 32, 32), "cross-entropy"),
    "mlp_mixer": (MlpMixer, _x(2, 3, 16, 16), "cross-entropy"),
    "gan_generator": (Generator, _x(2, 6), "mse"),
    "gan_discriminator": (Discriminator, _x(2, 3, 16, 16), "mse"),
    "autoencoder": (Autoencoder, _x(2, 1, 8, 8), "sum"),
    "super_resolution": (SuperResolution, _x(2, 1, 8, 8), "mse"),
    "yolo": (Yolo, _x(2, 3, 16, 16), "mse"),
    "swin": (Swin, _x(2, 8, 8, 8), "cross-entropy"),
    "clip": (Clip, lambda: (image(3, 6), tokens(3, 5)), "sum"),
    "conformer": (Conformer, _x(2, 7, 8), "cross-entropy"),
    "gpt2": (lambda: Gpt2(sdpa=False), _ids(2, 10), "cross-entropy"),
    "gpt2_batch1": (lambda: Gpt2(sdpa=False), _ids(1, 10), "cross-entropy"),
    "gpt2_sdpa": (lambda: Gpt2(sdpa=True), _ids(2, 10), "cross-entropy"),
    "bert": (Bert, lambda: (tokens(2, 10), tokens(2, 10, vocabulary=2)), "cross-entropy"),
    "vit": (Vit, _x(2, 3, 16, 16), "cross-entropy"),
    "llama": (lambda: Llama(sdpa=False), _ids(2, 10), "cross-entropy"),
    "llama_sdpa": (lambda: Llama(sdpa=True), _ids(2, 10), "cross-entropy"),
    "t5": (T5, _ids(2, 10), "cross-entropy"),
    "encoder_decoder": (EncoderDecoder, lambda: (tokens(2, 7), tokens(2, 5)), "cross-entropy"),
    "weighted_attention": (WeightedAttention, _x(5, 2, 8), "cross-entropy"),
    "einsum": (Einsum, _x(2, 5, 8), "cross-entropy"),
    "lstm": (lambda: RecurrentLm(nn.LSTM), _ids(6, 3), "cross-entropy"),
    "lstm_both_ways": (lambda: RecurrentLm(nn.LSTM, True, True), _ids(3, 6), "cross-entropy"),
    "gru": (lambda: RecurrentLm(nn.GRU, batch_first=True), _ids(3, 6), "cross-entropy"),
    "gru_both_ways": (lambda: RecurrentLm(nn.GRU, True), _ids(6, 3), "cross-entropy"),
    "rnn": (lambda: RecurrentLm(nn.RNN, layers=1), _ids(6, 3), "cross-entropy"),
    "cells": (Cells, _x(4, 3, 4), "cross-entropy"),
}  # fmt: skip

MODELS = tuple(_BUILDERS)


def make(name: str) -> Case:
    """A module with seeded weights, its inputs, and the loss it is trained with."""
    torch.manual_seed(0)
    build, inputs, loss = _BUILDERS[name]
    return build(), inputs(), loss
