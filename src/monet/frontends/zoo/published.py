"""Networks as others have published figures for them, inference in int8 at batch one: those of two measured chips
(Stream's validation: KULeuven-MICAS/stream, branch validation, commit 34853444), and Stream's own ResNet-18."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from monet.errors import ModelError
from monet.frontends.zoo.layers import Layers
from monet.frontends.zoo.parameters import Family, switch

if TYPE_CHECKING:
    from monet.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Published(Family):
    """A network of which nothing is ours to choose."""

    trains: ClassVar[bool] = False

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        if batch != 1:
            raise ModelError(f"--batch {batch}: {name} is of fixed size, as published: batch 1")
        return self.network(name)

    @abstractmethod
    def network(self, name: str) -> Graph:
        """The forward graph."""


def convolution_chain(name: str, channels: int, height: int, width: int, layers: list[tuple[int, int]]) -> Graph:
    """int8 convolutions one after another, each (output channels, window), stride one, padded to keep the size."""
    net = Layers(name)
    x = net.builder.input("image", (1, channels, height, width), "int8")
    for number, (out, window) in enumerate(layers):
        x = _convolution(net, f"conv{number}", x, out, window)
    return net.build(x)


def _convolution(net: Layers, name: str, x: str, out: int, window: int, stride: int = 1) -> str:
    weight = net.builder.parameter(f"{name}.weight", (out, net.shape(x)[1], window, window), "int8")
    pad = (window // 2, window // 2)
    return net.builder.emit(
        "conv", x, weight, name=name, stride=(stride, stride), padding=(pad, pad), dilation=(1, 1), groups=1
    )


@dataclass(frozen=True, kw_only=True)
class Fsrcnn(Published):
    """FSRCNN at 540×960, as DepFiN ran it."""

    def network(self, name: str) -> Graph:
        """Eight convolutions."""
        layers = [(56, 5), (12, 1), (12, 3), (12, 3), (12, 3), (12, 3), (56, 1), (16, 3)]
        return convolution_chain(name, 1, 540, 960, layers)


@dataclass(frozen=True, kw_only=True)
class ResNet50Segment(Published):
    """Five layers of ResNet-50 at 56×56, as the 4×4 analog in-memory chip ran them."""

    def network(self, name: str) -> Graph:
        """Five convolutions."""
        return convolution_chain(name, 256, 56, 56, [(64, 1), (64, 3), (256, 1), (64, 1), (64, 3)])


@dataclass(frozen=True, kw_only=True)
class StreamResNet18(Published):
    """ResNet-18 as Stream schedules it: norms folded into the convolutions."""

    activations: bool = switch(False, "all 49 layers of its file: rectifiers on their own and the classifier")

    def network(self, name: str) -> Graph:
        """Convolutions, additions and pooling; with ``activations`` the rest of its file (one node there is a view)."""
        net = Layers(name)
        emit = net.builder.emit

        def rectified(x: str, name: str) -> str:
            return emit("relu", x, name=f"{name}.relu") if self.activations else x

        image = net.builder.input("image", (1, 3, 224, 224), "int8")
        x = rectified(_convolution(net, "conv1", image, 64, 7, 2), "conv1")
        x = emit(
            "max_pool", x, name="maxpool", kernel=(3, 3), stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1),
            ceil=False, index_dtype="int8",
        )  # fmt: skip
        for stage, (channels, stride) in enumerate(((64, 1), (128, 2), (256, 2), (512, 2)), 1):
            for block in range(2):
                name, step = f"layer{stage}.{block}", stride if block == 0 else 1
                y = _convolution(net, f"{name}.conv1", x, channels, 3, step)
                y = _convolution(net, f"{name}.conv2", rectified(y, f"{name}.conv1"), channels, 3)
                if step == 2:
                    x = _convolution(net, f"{name}.downsample", x, channels, 1, 2)
                x = rectified(emit("add", y, x, name=f"{name}.add"), f"{name}.add")
        x = emit("reduce_mean", x, name="avgpool", axes=(2, 3), keepdims=False)
        if self.activations:
            weight = net.builder.parameter("fc.weight", (512, 1000), "int8")
            x = emit("linear", x, weight, name="fc", transpose=True)
        return net.build(x)
