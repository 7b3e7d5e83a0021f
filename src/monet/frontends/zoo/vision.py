"""Image models: ResNet, VGG, MobileNetV2, U-Net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monet.errors import ModelError
from monet.frontends.zoo.layers import Layers
from monet.frontends.zoo.parameters import Family, choice, probability, repeats, switch, whole, wholes

if TYPE_CHECKING:
    from monet.graph import Graph


def _basic_block(net: Layers, x: str, width: int, inner: int, stride: int, groups: int) -> str:
    out = net.relu(net.batch_norm("bn1", net.conv("conv1", x, inner, 3, stride, 1, groups)), "relu1")
    out = net.batch_norm("bn2", net.conv("conv2", out, width, 3, 1, 1))
    return net.relu(net.add(out, _shortcut(net, x, width, stride), inplace=True), "relu2")


def _bottleneck(net: Layers, x: str, width: int, inner: int, stride: int, groups: int) -> str:
    out = net.relu(net.batch_norm("bn1", net.conv("conv1", x, inner, 1)), "relu1")
    out = net.relu(net.batch_norm("bn2", net.conv("conv2", out, inner, 3, stride, 1, groups)), "relu2")
    out = net.batch_norm("bn3", net.conv("conv3", out, 4 * width, 1))
    return net.relu(net.add(out, _shortcut(net, x, 4 * width, stride), inplace=True), "relu3")


def _shortcut(net: Layers, x: str, out: int, stride: int) -> str:
    if stride == 1 and net.shape(x)[1] == out:
        return x
    with net.scope("downsample"):
        return net.batch_norm("1", net.conv("0", x, out, 1, stride))


@dataclass(frozen=True, kw_only=True)
class ResNet(Family):
    """ResNet (He et al. 2016) with torchvision's stem, or with the CIFAR stem: 3×3, stride 1, no pooling."""

    blocks: tuple[int, ...] = wholes((2, 2, 2, 2), "blocks of every stage; each stage halves the image")
    block: str = choice("basic", ("basic", "bottleneck"), "two 3×3 convolutions, or 1×1, 3×3, 1×1")
    width: int = whole(64, "channels of the first stage; each stage doubles them")
    widening: int = whole(1, "times the channels inside a block; 2 makes a wide ResNet (Zagoruyko and Komodakis 2016)")
    groups: int = whole(1, "of the 3×3 convolutions; 32 with widening 4 makes a ResNeXt 32x8d (Xie et al. 2017)")
    stem: str = choice("imagenet", ("imagenet", "cifar"), "7×7, stride 2 and pooling; or 3×3, for small images")
    classes: int = whole(1000, "outputs of the classifier")
    image: int = whole(224, "side of the image, if --image is not given")
    dropout: float = probability(0.0, "before the classifier")
    input_gradient: bool = switch(False, "training works out the gradient of the image too")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net, small = Layers(name), self.stem == "cifar"
        x = net.builder.input("image", (batch, 3, self.image, self.image), differentiated=self.input_gradient)
        x = net.conv("conv1", x, self.width, 3, 1, 1) if small else net.conv("conv1", x, self.width, 7, 2, 3)
        x = net.relu(net.batch_norm("bn1", x))
        if not small:
            x = net.max_pool("maxpool", x, 3, 2, 1)
        block = _bottleneck if self.block == "bottleneck" else _basic_block
        for stage, count in enumerate(self.blocks):
            for position in range(count):
                with net.scope(f"layer{stage + 1}.{position}"):
                    width, stride = self.width << stage, 2 if stage and not position else 1
                    x = block(net, x, width, width * self.widening, stride, self.groups)
        x = net.dropout("dropout", net.global_average(x), self.dropout)
        return net.build(net.linear("fc", x, self.classes))


@dataclass(frozen=True, kw_only=True)
class Vgg(Family):
    """VGG (Simonyan and Zisserman 2015) without batch norm; the classifier sees 7×7 at every image size."""

    blocks: tuple[int, ...] = wholes((2, 2, 3, 3, 3), "convolutions of every stage; each stage halves the image")
    width: int = whole(64, "channels of the first stage; each stage doubles them, up to eightfold")
    hidden: int = whole(4096, "width of the two hidden layers of the classifier")
    classes: int = whole(1000, "outputs of the classifier")
    image: int = whole(224, "side of the image, if --image is not given")
    dropout: float = probability(0.5, "inside the classifier")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net = Layers(name)
        x, position = net.builder.input("image", (batch, 3, self.image, self.image)), 0
        with net.scope("features"):
            for stage, count in enumerate(self.blocks):
                for _ in range(count):
                    x = net.conv(str(position), x, self.width << min(stage, 3), 3, 1, 1, bias=True)
                    x = net.relu(x, str(position + 1))
                    position += 2
                x = net.max_pool(str(position), x, 2, 2)
                position += 1
        x = net.reshape(_adaptive_average(net, x, 7), batch, -1)
        with net.scope("classifier"):
            for layer in (0, 3):
                x = net.relu(net.linear(str(layer), x, self.hidden), str(layer + 1))
                x = net.dropout(str(layer + 2), x, self.dropout)
            return net.build(net.linear("6", x, self.classes))


def _adaptive_average(net: Layers, x: str, size: int) -> str:
    """Average to size × size, in equal windows where the input divides evenly."""
    height = net.shape(x)[2]
    if height == size:
        return x
    if height % size == 0:
        kernel = (height // size,) * 2
        return net.builder.emit(
            "avg_pool", x, name="avgpool", kernel=kernel, stride=kernel, padding=((0, 0),) * 2, dilation=(1, 1),
            ceil=False, count_padding=True,
        )  # fmt: skip
    return net.builder.emit("adaptive_avg_pool", x, name="avgpool", spatial=(size, size))


# (expansion, channels, repeats, stride), Sandler et al. 2018, table 2
_MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


@dataclass(frozen=True, kw_only=True)
class MobileNet(Family):
    """MobileNetV2 (Sandler et al. 2018)."""

    classes: int = whole(1000, "outputs of the classifier")
    image: int = whole(224, "side of the image, if --image is not given")
    dropout: float = probability(0.2, "before the classifier")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net = Layers(name)

        def unit(x: str, prefix: str, out: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
            with net.scope(prefix):
                x = net.batch_norm("1", net.conv("0", x, out, kernel, stride, (kernel - 1) // 2, groups))
                return net.activation("clip", x, "2", inplace=False, low=0.0, high=6.0)

        x = net.builder.input("image", (batch, 3, self.image, self.image))
        with net.scope("features"):
            x, position = unit(x, "0", 32, 3, 2), 1
            for expansion, out, repeat_count, first_stride in _MOBILENET:
                for repeat in range(repeat_count):
                    stride, width = first_stride if repeat == 0 else 1, net.shape(x)[1]
                    with net.scope(f"{position}.conv"):
                        y = unit(x, "0", width * expansion, 1) if expansion > 1 else x
                        part = 1 if expansion > 1 else 0
                        y = unit(y, str(part), width * expansion, 3, stride, width * expansion)
                        y = net.batch_norm(str(part + 2), net.conv(str(part + 1), y, out, 1))
                    with net.scope(str(position)):
                        x = net.add(x, y) if stride == 1 and width == out else y
                    position += 1
            x = unit(x, str(position), 1280, 1)
        x = net.dropout("classifier.0", net.global_average(x), self.dropout)
        return net.build(net.linear("classifier.1", x, self.classes))


@dataclass(frozen=True, kw_only=True)
class UNet(Family):
    """U-Net (Ronneberger et al. 2015): same-size convolutions with batch norm, transposed up-sampling."""

    levels: int = repeats(4, "how often the image is halved")
    width: int = whole(64, "channels of the first level; each level doubles them")
    channels: int = whole(3, "channels of the image")
    classes: int = whole(2, "outputs of every pixel")
    image: int = whole(256, "side of the image, if --image is not given")

    def check(self) -> None:
        """Every level halves the image."""
        if self.image % (1 << self.levels):
            raise ModelError(f"levels={self.levels} halve image={self.image}: not a multiple of {1 << self.levels}")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net, width = Layers(name), self.width

        def double(x: str, prefix: str, out: int) -> str:
            with net.scope(prefix):
                for position in (0, 3):
                    x = net.batch_norm(str(position + 1), net.conv(str(position), x, out, 3, 1, 1))
                    x = net.relu(x, str(position + 2))
            return x

        x = net.builder.input("image", (batch, self.channels, self.image, self.image))
        skips = []
        for level in range(self.levels):
            x = double(x, f"down{level}", width << level)
            skips.append(x)
            x = net.max_pool(f"pool{level}", x, 2, 2)
        x = double(x, "bottom", width << self.levels)
        for level in reversed(range(self.levels)):
            x = net.conv_transpose(f"up{level}", x, width << level, 2, 2)
            x = net.builder.emit("concat", skips[level], x, name=f"join{level}", axis=1)
            x = double(x, f"merge{level}", width << level)
        return net.build(net.conv("head", x, self.classes, 1, bias=True))
