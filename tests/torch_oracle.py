"""PyTorch as the oracle: one real training step, its FLOPs, and the bytes autograd keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from monet.graph import Graph, Role
from monet.numerics import execute
from monet.training.losses import class_axis_of

Optimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.001),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.001, weight_decay=0.01),
}


def loss_of(output: Tensor, label: Tensor | None, loss: str) -> Tensor:
    if loss == "mse":
        return F.mse_loss(output, label)
    if loss == "sum":
        return output.sum()
    axis = class_axis_of(tuple(output.shape))
    return F.cross_entropy(output.movedim(axis, 1) if output.dim() > 2 else output, label)


def label_for(output: Tensor, loss: str, generator: torch.Generator) -> Tensor | None:
    if loss == "sum":
        return None
    if loss == "mse":
        return torch.randn(output.shape, generator=generator, dtype=output.dtype)
    axis = class_axis_of(tuple(output.shape))
    shape = [size for position, size in enumerate(output.shape) if position != axis]
    return torch.randint(0, output.shape[axis], shape, generator=generator)


def saved_bytes(module: nn.Module, inputs: tuple[Tensor, ...], loss: str = "cross-entropy") -> int:
    """Bytes of storages autograd keeps: each once; parameters, buffers, inputs and labels left out."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        label = label_for(module(*inputs), loss, generator)
    known = [*module.parameters(), *module.buffers(), *inputs, *([] if label is None else [label])]
    excluded = {tensor.untyped_storage().data_ptr() for tensor in known}
    kept: dict[int, int] = {}
    alive = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in excluded:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss_of(module(*inputs), label, loss)
    return sum(kept.values())


def forward_flops(module: nn.Module, inputs: tuple[Tensor, ...]) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    # the oneDNN LSTM is one opaque call that the counter does not know
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops()


def step_flops(module: nn.Module, inputs: tuple[Tensor, ...], loss: str) -> int:
    """FLOPs of forward and backward together."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad():
        label = label_for(module(*inputs), loss, torch.Generator().manual_seed(0))
    with FlopCounterMode(display=False) as counter:
        loss_of(module(*inputs), label, loss).backward()
    return counter.get_total_flops()


def worst_error(ours: np.ndarray, theirs: Tensor, floor: float = 1e-12) -> float:
    """Largest difference relative to the largest magnitude of the reference, or to ``floor`` if that is larger."""
    reference = theirs.detach().numpy()
    scale = max(float(np.abs(reference).max(initial=0.0)), floor)
    return float(np.abs(ours - reference).max(initial=0.0)) / scale


def worst_of(pairs: Iterable[tuple[np.ndarray, Tensor]]) -> float:
    """Worst error over several tensors; one that is zero but for rounding is measured against the largest of them."""
    pairs = list(pairs)
    floor = 1e-7 * max((float(theirs.detach().abs().max()) for _, theirs in pairs), default=0.0)
    return max((worst_error(ours, theirs, max(floor, 1e-12)) for ours, theirs in pairs), default=0.0)


def values_for(
    module: nn.Module, step: Graph, inputs: tuple[Tensor, ...], label: Tensor | None
) -> dict[str, np.ndarray]:
    """Root values of ``step`` taken from the module: parameters and buffers by name, state zero."""
    values = {name: tensor.detach().numpy().copy() for name, tensor in module.state_dict().items()}
    names = [name for name in step.inputs if step.tensors[name].role is Role.INPUT]
    values.update({name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)})
    if label is not None:
        values["label"] = label.numpy()
    for tensor in step.role(Role.STATE):
        values[tensor.name] = np.zeros(tensor.shape)
    return values


def _where_gradient_counts(
    ours: np.ndarray, after: Tensor, before: Tensor, parameter: nn.Parameter
) -> tuple[np.ndarray, Tensor]:
    """Elements whose gradient is more than rounding noise: Adam turns even noise into a step of full size."""
    counts = (parameter.grad.abs() > 1e-11).numpy() if parameter.grad is not None else np.ones(ours.shape, bool)
    return np.where(counts, ours, before.numpy()), torch.where(torch.from_numpy(counts), after, before)


def compare_step(
    module: nn.Module,
    step: Graph,
    inputs: tuple[Tensor, ...],
    optimizer: str,
    loss: str = "cross-entropy",
    clip_norm: float | None = None,
) -> dict[str, float]:
    """Relative errors of loss, worst gradient, worst updated parameter and worst updated buffer, in float64."""
    generator = torch.Generator().manual_seed(1)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with torch.no_grad():
        label = label_for(module(*inputs), loss, generator)
    module.load_state_dict(before)
    values = values_for(module, step, inputs, label)
    results = execute(step, values)
    update = OPTIMIZERS[optimizer](list(module.parameters()))
    value = loss_of(module(*inputs), label, loss)
    value.backward()
    errors = {"loss": worst_error(results[step.loss], value)}
    trained = dict(module.named_parameters())
    missing = {name for name, parameter in trained.items() if parameter.grad is not None} - set(step.gradients)
    assert not missing, f"no gradient for {sorted(missing)[:3]}"
    errors["gradient"] = worst_of(
        (results[step.gradients[n]], p.grad) for n, p in trained.items() if p.grad is not None
    )
    if clip_norm is not None:
        nn.utils.clip_grad_norm_(module.parameters(), clip_norm)
    update.step()
    after = module.state_dict()
    updated = step.updated
    errors["parameter"] = worst_of(
        _where_gradient_counts(results[updated[name]], after[name], before[name], trained[name])
        for name in step.gradients
    )
    buffers = [name for name in updated if step.tensors[name].role is Role.BUFFER]
    errors["buffer"] = worst_of((results[updated[name]], after[name]) for name in buffers)
    return errors
