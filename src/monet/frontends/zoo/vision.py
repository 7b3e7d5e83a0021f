"""Image models: ResNet, VGG, MobileNetV2, U-Net, ViT."""

from __future__ import annotations

from monet.frontends.zoo.layers import Layers
from monet.graph import Graph


def _basic_block(net: Layers, x: str, width: int, stride: int) -> str:
    out = net.relu(net.batch_norm("bn1", net.conv("conv1", x, width, 3, stride, 1)), "relu1")
    out = net.batch_norm("bn2", net.conv("conv2", out, width, 3, 1, 1))
    return net.relu(net.add(out, _shortcut(net, x, width, stride), inplace=True), "relu2")


def _bottleneck(net: Layers, x: str, width: int, stride: int) -> str:
    out = net.relu(net.batch_norm("bn1", net.conv("conv1", x, width, 1)), "relu1")
    out = net.relu(net.batch_norm("bn2", net.conv("conv2", out, width, 3, stride, 1)), "relu2")
    out = net.batch_norm("bn3", net.conv("conv3", out, 4 * width, 1))
    return net.relu(net.add(out, _shortcut(net, x, 4 * width, stride), inplace=True), "relu3")


def _shortcut(net: Layers, x: str, out: int, stride: int) -> str:
    if stride == 1 and net.shape(x)[1] == out:
        return x
    with net.scope("downsample"):
        return net.batch_norm("1", net.conv("0", x, out, 1, stride))


def resnet(
    name: str,
    batch: int,
    image: int,
    *,
    blocks: tuple[int, ...],
    bottleneck: bool,
    classes: int = 1000,
    cifar: bool = False,
) -> Graph:
    """ResNet (He et al. 2016) with torchvision's stem, or with the CIFAR stem: 3×3, stride 1, no pooling."""
    net = Layers(name)
    x = net.builder.input("image", (batch, 3, image, image))
    x = net.conv("conv1", x, 64, 3, 1, 1) if cifar else net.conv("conv1", x, 64, 7, 2, 3)
    x = net.relu(net.batch_norm("bn1", x))
    if not cifar:
        x = net.max_pool("maxpool", x, 3, 2, 1)
    block = _bottleneck if bottleneck else _basic_block
    for stage, count in enumerate(blocks):
        for position in range(count):
            with net.scope(f"layer{stage + 1}.{position}"):
                x = block(net, x, 64 << stage, 2 if stage and not position else 1)
    return net.builder.build([net.linear("fc", net.global_average(x), classes)])


_VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)


def vgg16(name: str, batch: int, image: int, *, classes: int = 1000) -> Graph:
    """VGG-16 (Simonyan and Zisserman 2015) without batch norm; the classifier sees 7×7 at every image size."""
    net = Layers(name)
    x, position = net.builder.input("image", (batch, 3, image, image)), 0
    with net.scope("features"):
        for width in _VGG16:
            if width:
                x = net.relu(net.conv(str(position), x, width, 3, 1, 1, bias=True), str(position + 1))
                position += 2
            else:
                x = net.max_pool(str(position), x, 2, 2)
                position += 1
    x = _adaptive_average(net, x, 7)
    x = net.reshape(x, batch, -1)
    with net.scope("classifier"):
        for layer, width in ((0, 4096), (3, 4096)):
            x = net.relu(net.linear(str(layer), x, width), str(layer + 1))
            x = net.builder.emit("dropout", x, name=str(layer + 2), p=0.5, seed=layer)
        return net.builder.build([net.linear("6", x, classes)])


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


def mobilenet_v2(name: str, batch: int, image: int, *, classes: int = 1000) -> Graph:
    """MobileNetV2 (Sandler et al. 2018)."""
    net = Layers(name)

    def unit(x: str, prefix: str, out: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        with net.scope(prefix):
            x = net.batch_norm("1", net.conv("0", x, out, kernel, stride, (kernel - 1) // 2, groups))
            return net.activation("clip", x, "2", inplace=False, low=0.0, high=6.0)

    x = net.builder.input("image", (batch, 3, image, image))
    with net.scope("features"):
        x, position = unit(x, "0", 32, 3, 2), 1
        for expansion, out, repeats, first_stride in _MOBILENET:
            for repeat in range(repeats):
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
    x = net.builder.emit("dropout", net.global_average(x), name="classifier.0", p=0.2, seed=0)
    return net.builder.build([net.linear("classifier.1", x, classes)])


def unet(name: str, batch: int, image: int, *, classes: int = 2, width: int = 64, channels: int = 3) -> Graph:
    """U-Net (Ronneberger et al. 2015), four levels, same-size convolutions with batch norm, transposed up-sampling."""
    net = Layers(name)

    def double(x: str, prefix: str, out: int) -> str:
        with net.scope(prefix):
            for position in (0, 3):
                x = net.batch_norm(str(position + 1), net.conv(str(position), x, out, 3, 1, 1))
                x = net.relu(x, str(position + 2))
        return x

    if image % 16:
        from monet.errors import ModelError

        raise ModelError(f"unet halves its image four times; --image {image} is not a multiple of 16")
    x = net.builder.input("image", (batch, channels, image, image))
    skips = []
    for level in range(4):
        x = double(x, f"down{level}", width << level)
        skips.append(x)
        x = net.max_pool(f"pool{level}", x, 2, 2)
    x = double(x, "bottom", width << 4)
    for level in reversed(range(4)):
        x = net.conv_transpose(f"up{level}", x, width << level, 2, 2)
        x = net.builder.emit("concat", skips[level], x, name=f"join{level}", axis=1)
        x = double(x, f"merge{level}", width << level)
    return net.builder.build([net.conv("head", x, classes, 1, bias=True)])


def vit(
    name: str, batch: int, image: int, *, patch: int = 16, width: int = 768, depth: int = 12, heads: int = 12,
    hidden: int = 3072, classes: int = 1000,
) -> Graph:  # fmt: skip
    """Vision transformer (Dosovitskiy et al. 2021), classified from the class token."""
    from monet.errors import ModelError
    from monet.frontends.zoo.transformers import self_attention

    if image % patch:
        raise ModelError(f"{name} cuts the image in patches of {patch}; --image {image} is not a multiple")
    net = Layers(name)
    x = net.builder.input("image", (batch, 3, image, image))
    x = net.conv("conv_proj", x, width, patch, patch, bias=True)
    tokens = (image // patch) ** 2
    x = net.transpose(net.reshape(x, batch, width, tokens), 0, 2, 1)
    token = net.builder.parameter("class_token", (1, 1, width))
    token = net.builder.emit("expand", token, shape=(batch, 1, width))
    x = net.builder.emit("concat", token, x, axis=1)
    position = net.builder.parameter("encoder.pos_embedding", (1, tokens + 1, width))
    x = net.add(x, position, "encoder.embed")
    for layer in range(depth):
        with net.scope(f"encoder.layers.{layer}"):
            y = net.layer_norm("ln_1", x, 1e-6)
            x = net.add(x, self_attention(net, y, heads, causal=False), "add1")
            y = net.gelu(net.linear("mlp.0", net.layer_norm("ln_2", x, 1e-6), hidden), name="mlp.1")
            x = net.add(x, net.linear("mlp.3", y, width), "add2")
    x = net.select(net.layer_norm("encoder.ln", x, 1e-6), 1, 0)
    return net.builder.build([net.linear("heads.head", x, classes)])
