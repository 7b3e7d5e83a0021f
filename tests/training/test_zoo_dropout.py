"""Dropout in the zoo: off by default, where the architectures have it, equal to PyTorch's under the same masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle

import numpy as np
import pytest
import torch
from torch import nn

import tests.zoo_reference as reference
from monet.errors import MonetError
from monet.frontends import FAMILIES, load_model
from monet.graph import Graph
from monet.graph.counts import saved_bytes, saved_for_backward
from monet.graph.verify import verify
from monet.training.step import training_step
from tests import torch_oracle
from tests.training.test_zoo_against_torch import TOLERANCE, doubled, image, tokens

P = 0.25
LAYERS = 2
TINY = f"layers={LAYERS},hidden=16,heads=2"
# model, the same in PyTorch, its inputs, how often something is dropped
CASES: dict[str, tuple[str, Callable[[], nn.Module], tuple[torch.Tensor, ...], int]] = {
    "gpt": (
        f"gpt:{TINY},vocabulary=50,positions=20,sequence=12",
        lambda: reference.Gpt2(LAYERS, 16, 2, 50, 20, P),
        tokens(2, 12),
        1 + 3 * LAYERS,
    ),
    "gpt untied": (
        f"gpt:{TINY},vocabulary=50,positions=20,sequence=12,tied=no",
        lambda: reference.Gpt2(LAYERS, 16, 2, 50, 20, P, tied=False),
        tokens(2, 12),
        1 + 3 * LAYERS,
    ),
    "bert": (
        f"bert:{TINY},vocabulary=50,sequence=12",
        lambda: reference.Bert(LAYERS, 16, 2, 50, P),
        tokens(2, 12),
        2 + 3 * LAYERS,
    ),
    "vit": (
        f"vit:{TINY},intermediate=32,patch=8,image=16,classes=10",
        lambda: reference.Vit(16, 8, 16, LAYERS, 2, 32, 10, P),
        image(2, 16),
        1 + 4 * LAYERS,
    ),
    "llama": (
        f"llama:layers={LAYERS},hidden=16,heads=4,kv_heads=2,intermediate=24,vocabulary=50,sequence=12",
        lambda: reference.Llama(LAYERS, 16, 4, 2, 24, 50, P),
        tokens(2, 12),
        LAYERS,
    ),
    "lstm": (
        "lstm:layers=3,hidden=8,vocabulary=50,sequence=5",
        lambda: reference.LstmLm(3, 8, 50, P),
        tokens(5, 2),
        2,
    ),
    "gnmt": (
        "gnmt:encoder_layers=3,decoder_layers=3,hidden=6,vocabulary=50,sequence=4",
        lambda: reference.Gnmt(3, 3, 6, 50, P),
        (*tokens(4, 2), *tokens(4, 2)),
        6,
    ),
    "resnet": (
        "resnet:blocks=1-1,width=8,stem=cifar,classes=10,image=16",
        lambda: reference.ResNet((1, 1), False, 10, True, 8, P),
        image(2, 16),
        1,
    ),
    "vgg": (
        "vgg:blocks=1-1-2-1-1,width=4,hidden=24,classes=10,image=64",
        lambda: reference.Vgg((1, 1, 2, 1, 1), 4, 24, 10, P),
        image(2, 64),
        2,
    ),
    "mobilenet": ("mobilenet:classes=10,image=32", lambda: reference.MobileNetV2(10, P), image(2, 32), 1),
    "mlp": (
        "mlp:widths=5-16-8-3",
        lambda: reference.mlp(5, 16, 8, 3, elu=False, dropout=P),
        (torch.randn(2, 5, generator=torch.Generator().manual_seed(2)),),
        2,
    ),
}


def make(name: str) -> tuple[Graph, nn.Module, tuple[torch.Tensor, ...], str]:
    text, module, inputs, _ = CASES[name]
    torch.manual_seed(0)
    return (
        load_model(f"{text},dropout={P}", batch=2),
        module().train(),
        inputs,
        "mse" if name == "mlp" else "cross-entropy",
    )


def dropouts(graph: Graph) -> list[tuple[float, int]]:
    return [(op.attrs["p"], op.attrs["seed"]) for op in graph.ops if op.kind == "dropout"]


@pytest.fixture
def masks_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Graph], list[int]]:
    """PyTorch drops what the graph drops, in the same order; the list grows by one with every dropout."""

    def install(graph: Graph) -> list[int]:
        masks: Iterator[tuple[float, int]] = cycle(dropouts(graph))
        done: list[int] = []

        def dropout(x: torch.Tensor, p: float) -> torch.Tensor:
            ours, seed = next(masks)
            assert ours == p
            done.append(seed)
            return x * torch.from_numpy(np.random.default_rng(seed).random(tuple(x.shape)) >= p) / (1 - p)

        monkeypatch.setattr(reference.F, "dropout", dropout)
        return done

    return install


@pytest.mark.parametrize("name", CASES)
def test_step_with_dropout_equals_torch_under_the_same_masks(name: str, masks_of: Callable[[Graph], list[int]]) -> None:
    model, module, inputs, loss = make(name)
    step = verify(training_step(model, optimizer="adam"))
    done = masks_of(model)
    errors = torch_oracle.compare_step(module.double(), step, doubled(inputs), "adam", loss)
    assert max(errors.values()) <= TOLERANCE, errors
    assert len(dropouts(model)) == CASES[name][3]
    assert done == 2 * [seed for _, seed in dropouts(model)]  # once to learn the shape of the label
    assert len(set(done)) == len(dropouts(model))


# as without dropout: the rotary embedding is several operators in the reference, the LSTM keeps an opaque workspace
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("llama", "lstm", "gnmt")])
def test_saved_bytes_with_dropout_equal_autograd(name: str) -> None:
    model, module, inputs, loss = make(name)
    assert abs(saved_bytes(training_step(model)) - torch_oracle.saved_bytes(module, inputs, loss)) <= 8


def test_dropout_is_off_unless_asked_for() -> None:
    on = {name for name, model in FAMILIES.items() if dropouts(model(1))}
    assert on == {"vgg", "mobilenet", "mobilenet3", "inception"}  # as their papers and torchvision have them
    assert not dropouts(load_model("vgg16:dropout=0"))


def test_masks_are_bits_where_little_is_kept() -> None:
    model = load_model("gpt:layers=1,hidden=16,heads=2,vocabulary=50,sequence=8,dropout=0.1")
    wide, narrow = (
        sum(item.bytes for item in saved_for_backward(training_step(model, saved=saved)) if item.name.endswith(":mask"))
        for saved in ("framework", "compact")
    )
    assert wide == 4 * (3 * 8 * 16 + 2 * 8 * 8)
    assert wide == 32 * narrow


def test_attention_that_drops_probabilities_is_not_fused() -> None:
    with pytest.raises(MonetError, match=r"h\.0\.attn\.dropout: attention that drops .*p=0\.1.*attention_dropout=0"):
        training_step(load_model("gpt2-mini:dropout=0.1"), attention="fused")
    step = training_step(load_model("gpt2-mini:dropout=0.1,attention_dropout=0"), attention="fused")
    assert sum(op.kind == "attention" for op in step.ops) == 6
    assert len(dropouts(step)) == 1 + 2 * 6
