"""Image models with many kinds of block: MobileNetV3 and Inception-v3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monet.errors import ModelError
from monet.frontends.zoo.layers import Layers
from monet.frontends.zoo.parameters import Family, probability, whole

if TYPE_CHECKING:
    from monet.graph import Graph

# (kernel, expanded, channels, squeezed, hard-swish, stride), Howard et al. 2019, table 1
_LARGE = (
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1), (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1), (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MobileNet3(Family):
    """MobileNetV3-Large (Howard et al. 2019), as torchvision builds it."""

    classes: int = whole(1000, "outputs of the classifier")
    image: int = whole(224, "side of the image, if --image is not given")
    dropout: float = probability(0.2, "inside the classifier")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net = Layers(name)
        x = net.builder.input("image", (batch, 3, self.image, self.image))
        with net.scope("features"):
            x = _unit(net, x, "0", 16, 3, 2, kind="hard_swish")
            for position, (kernel, expanded, out, squeezed, swish, stride) in enumerate(_LARGE, 1):
                with net.scope(str(position)):
                    x = _inverted(net, x, kernel, expanded, out, squeezed, "hard_swish" if swish else "relu", stride)
            x = _unit(net, x, str(len(_LARGE) + 1), 960, 1, kind="hard_swish")
        with net.scope("classifier"):
            x = net.activation("hard_swish", net.linear("0", net.global_average(x), 1280), "1")
            return net.build(net.linear("3", net.dropout("2", x, self.dropout), self.classes))


def _unit(
    net: Layers, x: str, prefix: str, out: int, kernel: int, stride: int = 1, groups: int = 1, kind: str = ""
) -> str:
    """Convolution, batch norm, and an activation if one is named."""
    with net.scope(prefix):
        x = net.batch_norm("1", net.conv("0", x, out, kernel, stride, (kernel - 1) // 2, groups))
        return net.activation(kind, x, "2") if kind else x


def _inverted(net: Layers, x: str, kernel: int, expanded: int, out: int, squeezed: bool, kind: str, stride: int) -> str:
    """An inverted residual: expand, convolve each channel, squeeze and excite, project."""
    channels, y, part = net.shape(x)[1], x, 0
    with net.scope("block"):
        if expanded != channels:
            y, part = _unit(net, y, "0", expanded, 1, kind=kind), 1
        y = _unit(net, y, str(part), expanded, kernel, stride, expanded, kind)
        if squeezed:
            part += 1
            y = _excited(net, y, str(part), _eighths(expanded // 4))
        y = _unit(net, y, str(part + 1), out, 1)
    return net.add(x, y) if stride == 1 and channels == out else y


def _excited(net: Layers, x: str, prefix: str, squeezed: int) -> str:
    """Squeeze and excitation: channels scaled by what their means say."""
    batch, channels = net.shape(x)[:2]
    with net.scope(prefix):
        mean = net.reshape(net.global_average(x), batch, channels, 1, 1)
        y = net.relu(net.conv("fc1", mean, squeezed, 1, bias=True), "relu", inplace=False)
        scale = net.activation(
            "hard_sigmoid", net.conv("fc2", y, channels, 1, bias=True), "scale", alpha=1 / 6, beta=0.5
        )
        return net.builder.emit("mul", x, scale, name="scaled")


def _eighths(width: int) -> int:
    """The nearest multiple of eight, not more than a tenth below."""
    rounded = max(8, (width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * width else rounded


@dataclass(frozen=True, kw_only=True)
class Inception(Family):
    """Inception-v3 (Szegedy et al. 2016) as torchvision builds it, without the auxiliary classifier."""

    classes: int = whole(1000, "outputs of the classifier")
    image: int = whole(299, "side of the image, if --image is not given")
    dropout: float = probability(0.5, "before the classifier")

    def check(self) -> None:
        """Windows without padding need something to cover."""
        if self.image < 75:
            raise ModelError(f"image={self.image} is too small: at least 75")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net = Layers(name)
        x = net.builder.input("image", (batch, 3, self.image, self.image))
        x = _conv(net, x, "Conv2d_1a_3x3", 32, 3, 2)
        x = _conv(net, x, "Conv2d_2a_3x3", 32, 3)
        x = net.max_pool("maxpool1", _conv(net, x, "Conv2d_2b_3x3", 64, 3, padding=1), 3, 2)
        x = _conv(net, _conv(net, x, "Conv2d_3b_1x1", 80, 1), "Conv2d_4a_3x3", 192, 3)
        x = net.max_pool("maxpool2", x, 3, 2)
        for block, pooled in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
            with net.scope(block):
                x = _mixed_a(net, x, pooled)
        with net.scope("Mixed_6a"):
            x = _mixed_b(net, x)
        for block, inner in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
            with net.scope(block):
                x = _mixed_c(net, x, inner)
        with net.scope("Mixed_7a"):
            x = _mixed_d(net, x)
        for block in ("Mixed_7b", "Mixed_7c"):
            with net.scope(block):
                x = _mixed_e(net, x)
        x = net.dropout("dropout", net.global_average(x), self.dropout)
        return net.build(net.linear("fc", x, self.classes))


Window = int | tuple[int, int]


def _conv(net: Layers, x: str, prefix: str, out: int, kernel: Window, stride: int = 1, padding: Window = 0) -> str:
    """Convolution with any window, batch norm, ReLU."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    above, beside = (padding, padding) if isinstance(padding, int) else padding
    with net.scope(prefix):
        with net.scope("conv"):
            weight = net.builder.parameter("weight", (out, net.shape(x)[1], height, width))
        x = net.builder.emit(
            "conv", x, weight, name="conv", stride=(stride,) * 2, padding=((above,) * 2, (beside,) * 2),
            dilation=(1, 1), groups=1,
        )  # fmt: skip
        return net.relu(net.batch_norm("bn", x))


def _joined(net: Layers, *parts: str) -> str:
    return net.builder.emit("concat", *parts, name="joined", axis=1)


def _average(net: Layers, x: str) -> str:
    return net.builder.emit(
        "avg_pool", x, name="pool", kernel=(3, 3), stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), ceil=False,
        count_padding=True,
    )  # fmt: skip


def _mixed_a(net: Layers, x: str, pooled: int) -> str:
    one = _conv(net, x, "branch1x1", 64, 1)
    five = _conv(net, _conv(net, x, "branch5x5_1", 48, 1), "branch5x5_2", 64, 5, padding=2)
    three = _conv(net, _conv(net, x, "branch3x3dbl_1", 64, 1), "branch3x3dbl_2", 96, 3, padding=1)
    three = _conv(net, three, "branch3x3dbl_3", 96, 3, padding=1)
    return _joined(net, one, five, three, _conv(net, _average(net, x), "branch_pool", pooled, 1))


def _mixed_b(net: Layers, x: str) -> str:
    three = _conv(net, x, "branch3x3", 384, 3, 2)
    double = _conv(net, _conv(net, x, "branch3x3dbl_1", 64, 1), "branch3x3dbl_2", 96, 3, padding=1)
    double = _conv(net, double, "branch3x3dbl_3", 96, 3, 2)
    return _joined(net, three, double, net.max_pool("pool", x, 3, 2))


def _mixed_c(net: Layers, x: str, inner: int) -> str:
    one = _conv(net, x, "branch1x1", 192, 1)
    seven = _conv(net, _conv(net, x, "branch7x7_1", inner, 1), "branch7x7_2", inner, (1, 7), padding=(0, 3))
    seven = _conv(net, seven, "branch7x7_3", 192, (7, 1), padding=(3, 0))
    double = _conv(net, x, "branch7x7dbl_1", inner, 1)
    for number, (kernel, padding, out) in enumerate(
        (((7, 1), (3, 0), inner), ((1, 7), (0, 3), inner), ((7, 1), (3, 0), inner), ((1, 7), (0, 3), 192)), 2
    ):
        double = _conv(net, double, f"branch7x7dbl_{number}", out, kernel, padding=padding)
    return _joined(net, one, seven, double, _conv(net, _average(net, x), "branch_pool", 192, 1))


def _mixed_d(net: Layers, x: str) -> str:
    three = _conv(net, _conv(net, x, "branch3x3_1", 192, 1), "branch3x3_2", 320, 3, 2)
    seven = _conv(net, _conv(net, x, "branch7x7x3_1", 192, 1), "branch7x7x3_2", 192, (1, 7), padding=(0, 3))
    seven = _conv(net, seven, "branch7x7x3_3", 192, (7, 1), padding=(3, 0))
    return _joined(net, three, _conv(net, seven, "branch7x7x3_4", 192, 3, 2), net.max_pool("pool", x, 3, 2))


def _mixed_e(net: Layers, x: str) -> str:
    one = _conv(net, x, "branch1x1", 320, 1)
    three = _conv(net, x, "branch3x3_1", 384, 1)
    double = _conv(net, _conv(net, x, "branch3x3dbl_1", 448, 1), "branch3x3dbl_2", 384, 3, padding=1)
    sides = [
        _conv(net, y, f"{prefix}{side}", 384, kernel, padding=padding)
        for y, prefix, first in ((three, "branch3x3_", 2), (double, "branch3x3dbl_", 3))
        for side, kernel, padding in ((f"{first}a", (1, 3), (0, 1)), (f"{first}b", (3, 1), (1, 0)))
    ]
    return _joined(net, one, *sides, _conv(net, _average(net, x), "branch_pool", 192, 1))
