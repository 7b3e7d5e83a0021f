"""Whole networks through the PyTorch reader, against PyTorch: one training step, FLOPs, and the bytes kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from monet.frontends.torch import load_module, module_values
from monet.graph import Graph, Role
from monet.graph.counts import macs_by_part, parameter_count, saved_bytes
from monet.graph.verify import verify
from monet.numerics.executor import execute, random_values
from monet.training.step import training_step
from tests import torch_oracle
from tests.frontends.onnx_export import Points, clouds
from tests.torch_models import MODELS, make, tokens
from tests.torch_transformers import Gpt2

TOLERANCE = 1e-5

FUSED = {"gpt2_sdpa", "llama_sdpa", "encoder_decoder", "conformer"}

# Bytes PyTorch keeps beyond ours; mostly because its CPU code keeps more than its GPU code, which is what monet models.
TORCH_KEEPS_MORE = {
    # an LSTM cell on the CPU keeps tanh of its state besides the state: one more per step, except the last
    "lstm": 4 * 2 * 5 * (3 * 5),
    "lstm_both_ways": 4 * 4 * 5 * (3 * 5),
    "cells": 4 * 3 * (3 * 5),
    # indices on two axes are joined into one, so one tensor of three is kept instead of two
    "clip": 8 * 3,
}


class FirstOutput(nn.Module):
    """The module without its further outputs, under the same parameter names."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.__dict__.update(module.__dict__)
        self._inner = [module]

    def forward(self, *inputs: Tensor) -> Tensor:
        out = self._inner[0](*inputs)
        return out[0] if isinstance(out, tuple) else out


def in_double(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.double() if x.is_floating_point() else x for x in inputs)


@pytest.fixture(scope="module")
def graphs() -> dict[str, Graph]:
    return {}


def graph_of(graphs: dict[str, Graph], name: str) -> Graph:
    if name not in graphs:
        module, inputs, _ = make(name)
        graphs[name] = verify(load_module(module, inputs, name))
    return graphs[name]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", MODELS)
def test_step_equals_torch(graphs: dict[str, Graph], name: str, optimizer: str) -> None:
    module, inputs, loss = make(name)
    step = verify(training_step(graph_of(graphs, name), loss=loss, optimizer=optimizer))
    errors = torch_oracle.compare_step(FirstOutput(module.double()), step, in_double(inputs), optimizer, loss)
    assert max(errors.values()) <= TOLERANCE, errors


@pytest.mark.parametrize("name", MODELS)
def test_counts_equal_torch(graphs: dict[str, Graph], name: str) -> None:
    module, inputs, loss = make(name)
    graph = graph_of(graphs, name)
    assert parameter_count(graph) == sum(parameter.numel() for parameter in module.parameters())
    with sdpa_kernel(SDPBackend.MATH):  # the counter does not see the fused kernel
        assert 2 * macs_by_part(graph).forward == torch_oracle.forward_flops(module, inputs)
    step = training_step(graph, loss=loss)
    with torch.backends.mkldnn.flags(enabled=not name.startswith("lstm")):  # its LSTM has a workspace of its own
        kept = torch_oracle.saved_bytes(FirstOutput(module), inputs, loss)
    assert abs(saved_bytes(step) + TORCH_KEEPS_MORE.get(name, 0) - kept) <= 8


def test_fused_attention_gives_the_same_step(graphs: dict[str, Graph]) -> None:
    for name in sorted(FUSED):
        module, inputs, loss = make(name)
        step = verify(training_step(graph_of(graphs, name), loss=loss, attention="fused"))
        assert not any(op.kind == "softmax" for op in step.ops)
        errors = torch_oracle.compare_step(module.double(), step, in_double(inputs), "sgd", loss)
        assert max(errors.values()) <= TOLERANCE, (name, errors)


def test_names_roles_and_values() -> None:
    module = Gpt2(sdpa=False)
    graph = load_module(module, (tokens(1, 8),))
    assert [tensor.name for tensor in graph.parameters] == [name for name, _ in module.named_parameters()]
    assert sum(name.endswith("lm_head.weight") for name in graph.tensors) == 0  # tied to the table, which comes first
    assert [tensor.name for tensor in graph.role(Role.BUFFER)] == ["attn.bias"]
    assert graph.inputs == ("idx",)
    assert graph.name == "Gpt2"
    assert set(module_values(module, graph)) == {tensor.name for tensor in graph.parameters} | {"attn.bias"}
    assert {op.name for op in graph.ops} >= {"attn.c_attn", "ln_1", "wte", "attn.softmax", "add"}


def test_positions_and_masks_are_made_at_run_time() -> None:
    graph = load_module(Gpt2(sdpa=False), (tokens(1, 8),))
    assert [op.kind for op in graph.ops].count("iota") == 1
    assert not graph.role(Role.CONSTANT)


def test_modes_are_kept_and_frozen_norms_stay_fixed() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.1))
    image = torch.randn(2, 3, 8, 8)
    module.eval()
    assert {"batch_norm", "dropout"} <= {op.kind for op in load_module(module, (image,)).ops}
    assert not any(part.training for part in module.modules())
    module.train()
    module[1].eval()
    assert "batch_norm_fixed" in {op.kind for op in load_module(module, (image,)).ops}


def test_a_norm_used_twice_updates_its_statistics_twice() -> None:
    torch.manual_seed(0)
    module, inputs = Points(), clouds()
    step = verify(training_step(verify(load_module(module, inputs)), optimizer="sgd"))
    assert saved_bytes(step) == torch_oracle.saved_bytes(module, inputs)
    errors = torch_oracle.compare_step(module.double(), step, in_double(inputs), "sgd")
    assert errors.keys() >= {"buffer"}
    assert max(errors.values()) <= TOLERANCE, errors


def test_frozen_parameters_are_not_trained() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    module[0].requires_grad_(False)
    step = training_step(load_module(module, (torch.randn(3, 4),)))
    assert set(step.gradients) == {"1.weight", "1.bias"}


def test_a_loss_inside_the_module_is_used_as_it_is() -> None:
    module, inputs, _ = make("autoencoder")
    assert load_module(module, inputs).usual_loss == "sum"


def test_same_graph_twice() -> None:
    module, inputs, _ = make("resnet_basic")
    assert str(load_module(module, inputs)) == str(load_module(module, inputs))


def test_a_module_without_values_is_read_at_full_size() -> None:
    with torch.device("meta"):
        module = Gpt2(sdpa=False, vocabulary=50257, width=12288, length=2048)
    graph = load_module(module, (tokens(1, 2048),))
    assert parameter_count(graph) == sum(parameter.numel() for parameter in module.parameters())


def test_random_numbers_have_their_cost_and_a_seed() -> None:
    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = nn.Linear(6, 4), nn.Linear(2, 6)

        def forward(self, x: Tensor) -> Tensor:
            mean, variance = self.encode(x).chunk(2, -1)
            return self.decode(mean + torch.exp(0.5 * variance) * torch.randn_like(variance))

    module, inputs = Vae(), (torch.randn(3, 6),)
    step = verify(training_step(load_module(module, inputs), loss="mse"))
    assert saved_bytes(step) == torch_oracle.saved_bytes(module, inputs, "mse")
    values = random_values(step)
    assert execute(step, values)[step.loss] == execute(step, values)[step.loss]


def test_a_buffer_changed_in_place_is_updated() -> None:
    class Average(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 4)
            self.register_buffer("average", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x)
            with torch.no_grad():
                self.average.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
            return y - self.average

    module, inputs = Average(), (torch.randn(3, 6),)
    step = verify(training_step(load_module(module, inputs)))
    assert "average" in step.updated
    errors = torch_oracle.compare_step(module.double(), step, in_double(inputs), "sgd")
    assert max(errors.values()) <= TOLERANCE
