"""The model zoo: families that take parameters, and models by name; buildable at any batch, image or sequence size."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from monet.errors import ModelError, OptionError, nearest
from monet.frontends.zoo.branched import Inception, MobileNet3
from monet.frontends.zoo.parameters import Family, changed, with_parameters
from monet.frontends.zoo.published import Fsrcnn, ResNet50Segment, StreamResNet18
from monet.frontends.zoo.small import Lstm, Mlp
from monet.frontends.zoo.transformers import Bert, Gpt, Llama, PaperGpt, Vit
from monet.frontends.zoo.translation import Gnmt
from monet.frontends.zoo.vision import MobileNet, ResNet, UNet, Vgg

if TYPE_CHECKING:
    from monet.graph import Graph


@dataclass(frozen=True, slots=True)
class ZooModel:
    """One entry: a family with its parameters set."""

    name: str
    family: Family
    about: str = ""

    @property
    def image(self) -> int:
        """Side of the image; 0 if it has none."""
        return int(getattr(self.family, "image", 0))

    @property
    def sequence(self) -> int:
        """Tokens of the sequence; 0 if it has none."""
        return int(getattr(self.family, "sequence", 0))

    def __call__(self, batch: int = 1, image: int | None = None, sequence: int | None = None) -> Graph:
        """Build the model at the given sizes."""
        given = {key: size for key, size in (("image", image), ("sequence", sequence)) if size is not None}
        for key, size in given.items():
            if not hasattr(self.family, key):
                raise OptionError(key, size, f"{self.name} has no such size")
        return changed(self.name, self.family, given).build(self.name, batch)


# What the layer lists of DaCapo (ISCA 2024) count of a network: ten classes, no attention, the gradient of the image.
_DACAPO = {"classes": 10, "attention": False, "input_gradient": True}


def _dacapo(model: ZooModel) -> ZooModel:
    """A network as DaCapo's layer lists have it."""
    known = {field.name for field in fields(model.family)}
    family = replace(model.family, **{key: value for key, value in _DACAPO.items() if key in known})
    return ZooModel(f"{model.name}-dacapo", family, "what DaCapo's layer lists count of it")


_AS_PUBLISHED = "as published: inference only, fixed size"


def _table(*models: ZooModel) -> dict[str, ZooModel]:
    return {model.name: model for model in models}


FAMILIES = _table(
    ZooModel("gpt", Gpt(), "GPT-2"),
    ZooModel("bert", Bert(), "BERT with a classifier"),
    ZooModel("llama", Llama(), "Llama 2"),
    ZooModel("vit", Vit(), "vision transformer"),
    ZooModel("resnet", ResNet(), "ResNet"),
    ZooModel("vgg", Vgg(), "VGG"),
    ZooModel("mobilenet", MobileNet(), "MobileNetV2"),
    ZooModel("mobilenet3", MobileNet3(), "MobileNetV3-Large"),
    ZooModel("inception", Inception(), "Inception-v3"),
    ZooModel("unet", UNet(), "U-Net"),
    ZooModel("lstm", Lstm(), "LSTM language model"),
    ZooModel("gnmt", Gnmt(), "GNMT, translation"),
    ZooModel("mlp", Mlp(), "multi-layer perceptron"),
)

_IMAGE_CLASSIFIERS = (
    ZooModel("resnet18", ResNet()),
    ZooModel("resnet34", ResNet(blocks=(3, 4, 6, 3))),
    ZooModel("resnet50", ResNet(blocks=(3, 4, 6, 3), block="bottleneck")),
    ZooModel("wide-resnet50-2", ResNet(blocks=(3, 4, 6, 3), block="bottleneck", widening=2)),
    ZooModel("wide-resnet101-2", ResNet(blocks=(3, 4, 23, 3), block="bottleneck", widening=2)),
    ZooModel("vit-b16", Vit()),
    ZooModel("vit-b32", Vit(patch=32)),
)

ZOO = _table(
    *_IMAGE_CLASSIFIERS,
    ZooModel("resnet18-cifar", ResNet(stem="cifar", classes=10, image=32)),
    ZooModel("vgg16", Vgg()),
    ZooModel("mobilenetv2", MobileNet()),
    ZooModel("mobilenetv3", MobileNet3()),
    ZooModel("inceptionv3", Inception()),
    ZooModel("resnext101", ResNet(blocks=(3, 4, 23, 3), block="bottleneck", widening=4, groups=32)),
    ZooModel("unet", UNet()),
    ZooModel("bert-base", Bert()),
    ZooModel("bert-large", Bert(layers=24, hidden=1024, heads=16)),
    ZooModel("gpt2-mini", Gpt(layers=6, hidden=384, heads=6, sequence=256)),
    ZooModel("gpt2-small", Gpt()),
    ZooModel("gpt2-medium", Gpt(layers=24, hidden=1024, heads=16)),
    ZooModel("gpt2-large", Gpt(layers=36, hidden=1280, heads=20)),
    ZooModel("gpt2-xl", Gpt(layers=48, hidden=1600, heads=25)),
    ZooModel(
        "opt-1.3b",
        Gpt(layers=24, hidden=2048, heads=32, vocabulary=50272, positions=2050, sequence=2048, activation="relu"),
    ),
    ZooModel("gpt3-175b", Gpt(layers=96, hidden=12288, heads=96, positions=2048, sequence=2048)),
    ZooModel("gpt2-paper", PaperGpt(), "MONET's small GPT"),
    ZooModel("llama2-7b", Llama()),
    ZooModel("llama2-70b", Llama(layers=80, hidden=8192, heads=64, kv_heads=8, intermediate=28672)),
    ZooModel("lstm-lm", Lstm()),
    ZooModel("gnmt", Gnmt()),
    ZooModel("mlp-robot", Mlp(widths=(48, 512, 256, 128, 12), activation="elu"), "locomotion policy"),
    ZooModel("mlp-cartpole", Mlp(widths=(6, 500, 500, 500, 8)), "robot dynamics"),
    ZooModel("mlp-reacher", Mlp(widths=(24, 200, 200, 200, 200, 34)), "robot dynamics"),
    ZooModel("mlp-pusher", Mlp(widths=(27, 200, 200, 200, 40)), "robot dynamics"),
    ZooModel("mlp-halfcheetah", Mlp(widths=(24, 200, 200, 200, 200, 36)), "robot dynamics"),
    ZooModel("resnet18-stream", StreamResNet18(), f"Stream's ResNet-18; {_AS_PUBLISHED}"),
    ZooModel("fsrcnn", Fsrcnn(), f"DepFiN's FSRCNN; {_AS_PUBLISHED}"),
    ZooModel("resnet50-segment", ResNet50Segment(), f"the analog chip's layers; {_AS_PUBLISHED}"),
    *map(_dacapo, _IMAGE_CLASSIFIERS),
)

KNOWN = FAMILIES | ZOO


def is_zoo(model: str) -> bool:
    """Whether ``model`` is a zoo name or family, with parameters or without."""
    return model.partition(":")[0] in KNOWN


def zoo_model(model: str) -> ZooModel:
    """The entry that ``model`` names: ``resnet18``, ``resnet18:classes=10``, ``gpt:layers=48,hidden=6144``."""
    name, colon, text = model.partition(":")
    if name not in KNOWN:
        raise ModelError(f"unknown model {name!r}; {nearest(name, KNOWN)}")
    entry = KNOWN[name]
    return ZooModel(model, with_parameters(name, entry.family, text), entry.about) if colon else entry
