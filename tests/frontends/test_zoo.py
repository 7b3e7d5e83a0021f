"""Families with parameters: what each changes, parameter counts by closed forms, errors; networks as published."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from monet.commands.models import _figures, _settings
from monet.errors import ModelError, MonetError
from monet.frontends import FAMILIES, ZOO, ZooModel, load_model, zoo_model
from monet.graph import GraphBuilder
from monet.graph.counts import macs_by_part, parameter_count, saved_bytes
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.numerics import execute
from monet.training.step import training_step


def body(graph: object) -> str:
    """A graph as text, without its name."""
    return str(graph).partition("\n")[2]


def block(hidden: int, inner: int) -> int:
    """Parameters of a block with biases and two norms: 12·h² + 13·h where the inner width is 4·h."""
    return 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden


def gpt(layers: int, hidden: int, vocabulary: int, positions: int, inner: int, heads_of_their_own: int = 0) -> int:
    tables = (vocabulary + positions + heads_of_their_own * vocabulary) * hidden
    return tables + layers * block(hidden, inner) + 2 * hidden


def llama(layers: int, hidden: int, heads: int, kv_heads: int, inner: int, vocabulary: int) -> int:
    attention = 2 * hidden * hidden + 2 * hidden * kv_heads * hidden // heads
    return 2 * vocabulary * hidden + layers * (attention + 3 * hidden * inner + 2 * hidden) + hidden


def bert(layers: int, hidden: int, vocabulary: int, positions: int, classes: int) -> int:
    tables = (vocabulary + positions + 2) * hidden + 2 * hidden
    return tables + layers * block(hidden, 4 * hidden) + hidden * hidden + hidden + (hidden + 1) * classes


def vit(layers: int, hidden: int, patch: int, image: int, classes: int, inner: int) -> int:
    embedding = (3 * patch * patch + 1) * hidden + hidden + ((image // patch) ** 2 + 1) * hidden
    return embedding + layers * block(hidden, inner) + 2 * hidden + (hidden + 1) * classes


def gnmt(encoders: int, decoders: int, hidden: int, vocabulary: int) -> int:
    def lstm(width: int) -> int:
        return 4 * hidden * (width + hidden + 2)

    encoder = 2 * lstm(hidden) + lstm(2 * hidden) + (encoders - 2) * lstm(hidden)
    decoder = lstm(hidden) + (decoders - 1) * lstm(2 * hidden)
    attention = 2 * hidden * hidden + hidden + hidden
    return vocabulary * hidden + encoder + decoder + attention + (hidden + 1) * vocabulary


COUNTS = {
    "gpt:layers=3,hidden=48,heads=4,vocabulary=100,positions=32,sequence=8": gpt(3, 48, 100, 32, 192),
    "gpt:layers=2,hidden=32,heads=4,intermediate=100,tied=no": gpt(2, 32, 50257, 1024, 100, 1),
    "gpt2-small:dropout=0.1": 124_439_808,
    "llama:layers=2,hidden=64,heads=8,kv_heads=2,intermediate=96,vocabulary=50,sequence=8": llama(2, 64, 8, 2, 96, 50),
    "llama:layers=1,hidden=512,heads=8,sequence=8": llama(1, 512, 8, 8, 1536, 32000),  # 8/3·512 up to 6 × 256
    "bert:layers=2,hidden=32,heads=4,vocabulary=90,positions=64,sequence=16,classes=7": bert(2, 32, 90, 64, 7),
    "vit:layers=2,hidden=32,heads=4,patch=8,image=32,classes=7,intermediate=40": vit(2, 32, 8, 32, 7, 40),
    "mlp:widths=32-256-128-8": 33 * 256 + 257 * 128 + 129 * 8,
    "lstm:layers=3,hidden=20,vocabulary=50": 50 * 20 + 3 * (8 * 20 * 20 + 8 * 20) + 21 * 50,
    "gnmt": gnmt(8, 8, 1024, 32000),
    "gnmt:encoder_layers=3,decoder_layers=2,hidden=20,vocabulary=50": gnmt(3, 2, 20, 50),
    "resnet18:classes=10": 11_689_512 - 990 * 513,
    "resnet:blocks=3-4-6-3": 21_797_672,  # torchvision's resnet34, resnet101, vgg11, vgg19
    "resnet:blocks=3-4-23-3,block=bottleneck": 44_549_160,
    "resnext101": 88_791_336,  # torchvision's resnext101_32x8d, mobilenet_v3_large, inception_v3 without aux_logits
    "mobilenetv3": 5_483_032,
    "inceptionv3": 23_834_568,
    "opt-1.3b": 1_315_758_080,
    "vgg:blocks=1-1-2-2-2": 132_863_336,
    "vgg:blocks=2-2-4-4-4": 143_667_240,
    "vit:layers=24,hidden=1024,heads=16": 304_326_632,  # torchvision's vit_l_16
}


@pytest.mark.parametrize("model", COUNTS)
def test_parameters_are_as_many_as_the_closed_form_says(model: str) -> None:
    assert parameter_count(load_model(model)) == COUNTS[model]


def test_a_model_of_22_billion_parameters_holds_no_arrays() -> None:
    graph = load_model("gpt:layers=48,hidden=6144,heads=64,vocabulary=51200")
    assert parameter_count(graph) == gpt(48, 6144, 51200, 1024, 4 * 6144)
    assert 22e9 < parameter_count(graph) < 22.1e9
    assert not graph.values


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt2-small", "gpt"),
        ("gpt2-xl", "gpt:layers=48,hidden=1600,heads=25"),
        ("gpt2-mini", "gpt2-small:layers=6, hidden=384, heads=6, sequence=256"),
        ("bert-large", "bert:layers=24,hidden=1024,heads=16,intermediate=4096,dropout=0"),
        ("llama2-7b", "llama:kv_heads=32,intermediate=11008"),
        ("vit-b16", "vit:patch=16"),
        ("resnet50", "resnet:blocks=3-4-6-3,block=bottleneck"),
        ("resnet18-cifar", "resnet:stem=cifar,classes=10,image=32"),
        ("vgg16", "vgg:blocks=2-2-3-3-3"),
        ("mobilenetv2", "mobilenet:dropout=0.2"),
        ("mlp-robot", "mlp:widths=48-512-256-128-12,activation=elu"),
        ("lstm-lm", "lstm:hidden=650"),
    ],
)
def test_a_family_with_the_parameters_of_a_model_is_that_model(name: str, family: str) -> None:
    assert body(load_model(name, batch=2)) == body(load_model(family, batch=2))


@pytest.mark.parametrize("model", [*FAMILIES.values(), *ZOO.values()], ids=lambda model: model.name)
def test_what_is_printed_of_a_model_can_be_read_back(model: ZooModel) -> None:
    given = [(key, value) for key, value in _settings(model) if getattr(model.family, key) is not None]
    text = ",".join(map("=".join, given))
    assert not text or zoo_model(f"{model.name}:{text}").family == model.family


OTHER = {
    "gpt": "layers=2 hidden=48 heads=2 intermediate=9 vocabulary=9 positions=64 sequence=8 tied=no dropout=.5"
    " attention_dropout=.5 activation=relu",
    "bert": "layers=2 hidden=48 heads=2 intermediate=9 vocabulary=9 positions=64 sequence=8 classes=3 dropout=.5"
    " attention_dropout=.5",
    "llama": "layers=2 hidden=48 heads=2 intermediate=9 kv_heads=1 vocabulary=9 sequence=8 dropout=.5",
    "vit": "layers=2 hidden=48 heads=2 intermediate=9 patch=8 image=32 classes=3 dropout=.5 attention_dropout=.5"
    " attention=no input_gradient=yes",
    "resnet": "blocks=1-1 block=bottleneck width=8 widening=2 groups=2 stem=cifar classes=3 image=64 dropout=.5"
    " input_gradient=yes",
    "vgg": "blocks=1-1-1-1-2 width=8 hidden=9 classes=3 image=64 dropout=.4",
    "mobilenet": "classes=3 image=96 dropout=.5",
    "mobilenet3": "classes=3 image=96 dropout=.5",
    "inception": "classes=3 image=160 dropout=.4",
    "unet": "levels=2 width=8 channels=1 classes=3 image=32",
    "lstm": "layers=3 hidden=8 vocabulary=9 sequence=3 dropout=.5",
    "gnmt": "encoder_layers=4 decoder_layers=2 hidden=8 vocabulary=9 sequence=3 dropout=.5",
    "mlp": "widths=3-4-5 activation=gelu dropout=.5 input_gradient=yes",
}
SMALL = {
    "gpt": "layers=1,hidden=24,heads=4,vocabulary=20,positions=16,sequence=16",
    "bert": "layers=1,hidden=24,heads=4,vocabulary=20,positions=16,sequence=16",
    "llama": "layers=1,hidden=24,heads=4,vocabulary=20,sequence=16",
    "vit": "layers=1,hidden=24,heads=4,classes=10,image=64",
    "resnet": "blocks=1-1-1,classes=10,image=32",
    "vgg": "blocks=1-1-1-1-1,width=4,hidden=16,classes=10,image=32",
    "mobilenet": "classes=10,image=64",
    "mobilenet3": "classes=10,image=64",
    "inception": "classes=10,image=128",
    "unet": "width=4,levels=3,image=16",
    "lstm": "hidden=12,vocabulary=20,sequence=4",
    "gnmt": "encoder_layers=3,decoder_layers=3,hidden=12,vocabulary=20,sequence=4",
    "mlp": "widths=3-4-4-5",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_parameter_changes_the_graph(family: str) -> None:
    changes = OTHER[family].split()
    assert {change.partition("=")[0] for change in changes} == {key for key, _ in _settings(FAMILIES[family])}
    small = zoo_model(f"{family}:{SMALL[family]}")
    texts = {body(ZooModel("m", small.family)())}
    for change in changes:
        given = dict(part.split("=") for part in f"{SMALL[family]},{change}".split(","))
        texts.add(body(load_model(f"{family}:" + ",".join(map("=".join, given.items())))))
    assert len(texts) == len(changes) + 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            "gpt:hiden=3",
            r"gpt:hiden=3: unknown parameter 'hiden'; did you mean 'hidden'\? gpt has layers, hidden, heads",
        ),
        ("gpt:zzz=3", r"unknown parameter 'zzz'; gpt has layers, hidden"),
        ("gpt:hidden=30,heads=7", r"heads=7 does not divide hidden=30"),
        ("gpt2-small:heads=7", r"gpt2-small:heads=7: heads=7 does not divide hidden=768"),
        ("gpt:layers=0", r"layers=0: expected a whole number from 1 to 65,536"),
        ("gpt:layers=many", r"layers=many: expected a whole number"),
        ("gpt:layers=1e3", r"layers=1e3: expected a whole number"),
        ("gpt:hidden=-768", r"hidden=-768: expected a whole number, at least 1"),
        ("gpt:", r"'' is not PARAMETER=VALUE; gpt has"),
        ("gpt:layers", r"'layers' is not PARAMETER=VALUE"),
        ("gpt:layers=1,layers=2", r"layers is given twice"),
        ("gpt:dropout=1", r"dropout=1: expected a number from 0 to below 1"),
        ("gpt:dropout=nan", r"dropout=nan: expected a number from 0"),
        ("gpt:tied=maybe", r"tied=maybe: expected yes or no"),
        ("gpt:sequence=2000", r"sequence=2000 is longer than positions=1024"),
        ("gtp:layers=2", r"unknown model 'gtp'; did you mean 'gpt'"),
        ("llama:kv_heads=5", r"kv_heads=5 does not divide heads=32"),
        ("llama:hidden=36,heads=4", r"rotary positions turn pairs"),
        ("vit:image=100", r"image=100 is not a multiple of patch=16"),
        ("unet:image=24", r"levels=4 halve image=24"),
        ("resnet18:block=fat", r"block=fat: expected basic or bottleneck"),
        ("resnet:blocks=2-0", r"blocks=2-0: expected 1 or more whole numbers"),
        ("mlp:widths=3", r"widths=3: expected 2 or more whole numbers"),
        ("fsrcnn:layers=3", r"unknown parameter 'layers'; fsrcnn has no parameters"),
    ],
)
def test_wrong_parameters_are_one_clear_error(model: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(model)


def test_sizes_given_apart_win_over_those_of_the_name() -> None:
    assert load_model("gpt:layers=1,sequence=64", sequence=16).tensors["tokens"].shape == (1, 16)
    assert load_model("resnet18:image=64", batch=3).tensors["image"].shape == (3, 3, 64, 64)


PUBLISHED = [name for name, model in ZOO.items() if not model.family.trains]


def test_published_networks_are_in_the_zoo() -> None:
    assert PUBLISHED == ["resnet18-stream", "fsrcnn", "resnet50-segment"]
    assert len(load_model("resnet18-stream").ops) == 20 + 1 + 8 + 1
    assert len(load_model("resnet18-stream:activations=yes").ops) == 48  # of 49 nodes one is a view
    assert load_model("fsrcnn").tensors["image"].shape == (1, 1, 540, 960)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_network_has_one_size_and_is_not_trained(name: str) -> None:
    for sizes, message in (
        ({"batch": 2}, "batch 1"),
        ({"image": 32}, "no such size"),
        ({"sequence": 8}, "no such size"),
    ):
        with pytest.raises(MonetError, match=f"{next(iter(sizes))}.*{message}"):
            load_model(name, **sizes)
    assert load_model(name, batch=1).ops
    with pytest.raises(MonetError, match=rf"{name} is for inference \(its parameters are int8\)"):
        training_step(load_model(name))


def test_the_list_fits_80_columns_and_loads_nothing_heavy() -> None:
    code = "import sys; from monet.commands.models import models; models(); sys.exit('numpy' in sys.modules)"
    environment = {**os.environ, "COLUMNS": "80"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert {line.split(" ")[0] for line in lines} >= {*ZOO, *FAMILIES}
    assert all(text in " ".join(result.stdout.split()) for text in ("widths=32-256-256-8", "dropout=0.5", "tied=yes"))


@pytest.mark.parametrize(
    "model",
    ["gpt2-mini", "gpt2-paper", "bert-base", "vit-b16", "gpt:layers=3,dropout=0.1", "llama:layers=4,kv_heads=8"],
)
def test_counts_of_a_deep_model_follow_from_two_of_its_layers(model: str) -> None:
    step = training_step(load_model(model))
    counted = {"parameters": parameter_count(step), "saved": saved_bytes(step), **macs_by_part(step).as_dict()}
    assert _figures(zoo_model(model)) == counted


@pytest.mark.parametrize(
    ("model", "products", "gmac"), [("resnet18-dacapo", 63, 87.05), ("vit-b32-dacapo", 78, 141.44)]
)
def test_dacapo_lists_count_three_products_of_every_layer(model: str, products: int, gmac: float) -> None:
    """Products of one step and their multiply-accumulates, as DaCapo's artifact lists them."""
    step = training_step(load_model(model, batch=16))
    counted = [op for op in step.ops if kind_named(op.kind).family in MAC_FAMILIES]
    assert len(counted) == products
    assert round(macs_by_part(step).as_dict()["total"] / 1e9, 2) == gmac


def test_a_differentiated_input_has_its_gradient() -> None:
    """d(x·W summed)/dx is the row sums of W, in every micro-batch, and no optimizer touches it."""
    builder = GraphBuilder("m")
    x = builder.input("x", (2, 3), differentiated=True)
    y = builder.emit("linear", x, builder.parameter("w", (4, 3)), transpose=False)
    step = training_step(builder.build([y]), loss="sum", micro_batches=2)
    weight = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    values = execute(step, {"w": weight, "x": np.ones((2, 3), np.float32), "x.1": np.zeros((2, 3), np.float32)})
    for name in ("x", "x.1"):
        np.testing.assert_allclose(values[step.gradients[name]], np.tile(weight.sum(0) / 2, (2, 1)))
    assert set(step.updated) == {"w"}
