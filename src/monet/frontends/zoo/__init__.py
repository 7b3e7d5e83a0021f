"""The model zoo: one entry per name, buildable at any batch, image or sequence size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from monet.errors import ModelError, nearest
from monet.frontends.zoo import small, transformers, vision
from monet.graph import Graph


@dataclass(frozen=True, slots=True)
class ZooModel:
    """One entry. ``image`` and ``sequence`` are default sizes; 0 means that the model has no such size."""

    name: str
    about: str
    build: Callable[..., Graph]
    image: int = 0
    sequence: int = 0

    def __call__(self, batch: int = 1, image: int | None = None, sequence: int | None = None) -> Graph:
        """Build the model at the given sizes."""
        if batch < 1:
            raise ModelError(f"--batch {batch}: at least 1 is needed")
        sizes: list[int] = []
        for option, given, default in (("--image", image, self.image), ("--sequence", sequence, self.sequence)):
            if given is not None and not default:
                raise ModelError(f"{option} {given}: {self.name} has no such size")
            if given is not None and given < 1:
                raise ModelError(f"{option} {given}: at least 1 is needed")
            if default:
                sizes.append(given or default)
        return self.build(self.name, batch, *sizes)


def _mlp(*sizes: int, activation: str = "silu") -> Callable[..., Graph]:
    return partial(small.mlp, sizes=sizes, activation=activation)


def _gpt(depth: int, width: int, heads: int, **more: Any) -> Callable[..., Graph]:
    return partial(transformers.gpt2, depth=depth, width=width, heads=heads, **more)


_RESNET18: dict[str, Any] = {"blocks": (2, 2, 2, 2), "bottleneck": False}

ZOO = {
    model.name: model
    for model in (
        ZooModel("resnet18", "ResNet-18, ImageNet stem", partial(vision.resnet, **_RESNET18), image=224),
        ZooModel("resnet50", "ResNet-50, ImageNet stem", partial(vision.resnet, blocks=(3, 4, 6, 3), bottleneck=True), image=224),
        ZooModel("resnet18-cifar", "ResNet-18, CIFAR stem", partial(vision.resnet, **_RESNET18, cifar=True, classes=10), image=32),
        ZooModel("vgg16", "VGG-16", vision.vgg16, image=224),
        ZooModel("mobilenetv2", "MobileNetV2", vision.mobilenet_v2, image=224),
        ZooModel("unet", "U-Net, 64 wide", vision.unet, image=256),
        ZooModel("vit-b16", "ViT base, patch 16", vision.vit, image=224),
        ZooModel("bert-base", "BERT base, 2 classes", partial(transformers.bert, depth=12, width=768, heads=12), sequence=128),
        ZooModel("bert-large", "BERT large, 2 classes", partial(transformers.bert, depth=24, width=1024, heads=16), sequence=128),
        ZooModel("gpt2-mini", "GPT-2, 6 × 384", _gpt(6, 384, 6), sequence=256),
        ZooModel("gpt2-small", "GPT-2 small", _gpt(12, 768, 12), sequence=1024),
        ZooModel("gpt2-medium", "GPT-2 medium", _gpt(24, 1024, 16), sequence=1024),
        ZooModel("gpt2-large", "GPT-2 large", _gpt(36, 1280, 20), sequence=1024),
        ZooModel("gpt2-xl", "GPT-2 XL", _gpt(48, 1600, 25), sequence=1024),
        ZooModel("gpt3-175b", "GPT-3, tied head", _gpt(96, 12288, 96, positions=2048), sequence=2048),
        ZooModel("gpt2-paper", "MONET's small GPT", transformers.gpt_paper, sequence=256),
        ZooModel("llama2-7b", "Llama 2", partial(transformers.llama, depth=32, width=4096, heads=32, key_heads=32, hidden=11008), sequence=4096),
        ZooModel("llama2-70b", "Llama 2, grouped query", partial(transformers.llama, depth=80, width=8192, heads=64, key_heads=8, hidden=28672), sequence=4096),
        ZooModel("lstm-lm", "LSTM, 2 × 650", small.lstm_lm, sequence=35),
        ZooModel("mlp-robot", "locomotion policy", _mlp(48, 512, 256, 128, 12, activation="elu")),
        ZooModel("mlp-cartpole", "dynamics of cartpole", _mlp(6, 500, 500, 500, 8)),
        ZooModel("mlp-reacher", "dynamics of reacher", _mlp(24, 200, 200, 200, 200, 34)),
        ZooModel("mlp-pusher", "dynamics of pusher", _mlp(27, 200, 200, 200, 40)),
        ZooModel("mlp-halfcheetah", "dynamics of halfcheetah", _mlp(24, 200, 200, 200, 200, 36)),
    )
}  # fmt: skip


def zoo_model(name: str) -> ZooModel:
    """The entry called ``name``."""
    try:
        return ZOO[name]
    except KeyError:
        raise ModelError(f"unknown model {name!r}; {nearest(name, ZOO)}") from None
