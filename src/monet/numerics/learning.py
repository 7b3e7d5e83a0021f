"""Learning: a training step run over and over, on data. The loss curve comes from the graph that is costed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from monet.errors import MonetError
from monet.formats import FORMATS
from monet.graph import Attributes, Graph, Role
from monet.graph.kind import Array
from monet.numerics.dynamics import ARM, CART_POLE, CART_POLE_INPUTS, simulated
from monet.numerics.executor import execute

SAMPLES = 4096  # of simulated dynamics, from which batches are drawn
_SEEDS = 1_000_003  # between the draws of one step and those of the next


@dataclass(frozen=True, slots=True)
class LossCurve:
    """The loss of every step, up to the first that is no number."""

    precision: str
    losses: tuple[float, ...]

    @property
    def diverged(self) -> bool:
        """Whether it ended in something that is no number."""
        return not math.isfinite(self.losses[-1])

    def last(self, steps: int = 10) -> float:
        """The mean of the last steps, less noisy than one of them."""
        return float(np.mean(self.losses[-steps:]))


def learn(
    step: Graph, data: Mapping[str, Array], steps: int, *, seed: int = 0, precision: str = "",
    say: Callable[[int, float], None] = lambda number, loss: None,
) -> LossCurve:  # fmt: skip
    """Run a training step ``steps`` times. ``data`` has all samples of every input and label by name; each step takes a
    batch of them. Every tensor is rounded to its own format. The same seed gives the same weights, batches and draws,
    whatever the formats are."""
    generator = np.random.default_rng((seed, 1))
    values = initial_values(step, seed)
    samples = min(len(array) for array in data.values())
    losses: list[float] = []
    for number in range(steps):
        drawn = generator.integers(0, samples, step.tensors[step.inputs[0]].shape[0])
        batch = {name: array[drawn] for name, array in data.items()}
        found = execute(_reseeded(step, number), values | batch, compute=None)
        values |= {root: found[name] for root, name in step.updated.items()}
        losses.append(float(found[step.loss]))
        say(number, losses[-1])
        if not math.isfinite(losses[-1]):
            break
    return LossCurve(precision, tuple(losses))


def _reseeded(step: Graph, number: int) -> Graph:
    """The same step with other draws: of dropout, of stochastic rounding."""
    if number == 0 or not any("seed" in op.attrs for op in step.ops):
        return step
    ops = tuple(
        replace(op, attrs=Attributes({**op.attrs, "seed": (op.attrs["seed"] + number * _SEEDS) % 2**32}))
        if "seed" in op.attrs
        else op
        for op in step.ops
    )
    return replace(step, ops=ops)


def initial_values(step: Graph, seed: int = 0) -> dict[str, Array]:
    """Values of parameters, buffers and states before the first step. Weights are uniform within one over the root of
    what they sum over, as PyTorch's; scales of norms and running variances are one; biases and states are zero."""
    generator, values = np.random.default_rng((seed, 0)), dict[str, Array]()
    for name, tensor in step.tensors.items():
        if name in step.producer or tensor.role not in (Role.PARAMETER, Role.BUFFER, Role.STATE):
            continue
        if tensor.role is Role.PARAMETER and len(tensor.shape) > 1:
            bound = 1 / math.sqrt(_summed(step, name))
            values[name] = generator.uniform(-bound, bound, tensor.shape)
        else:
            values[name] = np.full(tensor.shape, 1.0 if _is_scale(step, name) else 0.0)
    for name, tensor in step.tensors.items():
        if tensor.role is Role.STATE and name.endswith(".master"):
            values[name] = values[name.removesuffix(".master")]
    return values


def _summed(step: Graph, name: str) -> int:
    """Over how many elements of a weight a result is summed."""
    shape = step.tensors[name].shape
    transposed = any(op.attrs.get("transpose") and op.inputs[1] == name for op in step.consumers[name][:1])
    return shape[0] if transposed else math.prod(shape[1:])


def _is_scale(step: Graph, name: str) -> bool:
    """Whether a vector scales what a norm gives (it is the norm's second operand), or is a running variance."""
    first = step.consumers[name][0]
    return name.endswith("running_var") or ("norm" in first.kind and first.inputs[1:2] == (name,))


# --- data -------------------------------------------------------------------------------------------------------------


def data_for(step: Graph, source: str = "", seed: int = 0) -> dict[str, Array]:
    """Samples of every input and label of a step: of an .npz file, or simulated for a model from vectors to vectors.

    ``source``: cart-pole, arm or a path; empty: the cart where the model takes its six features, else the arm.
    """
    if source.endswith(".npz"):
        return _from_file(step, source)
    if source not in ("", CART_POLE, ARM):
        raise MonetError(f"data {source!r}: allowed are {CART_POLE}, {ARM}, or the path of an .npz file")
    tensors = [step.tensors[name] for name in step.inputs]
    plain = all(len(tensor.shape) == 2 and FORMATS[tensor.dtype].is_float for tensor in tensors)
    if len(tensors) != 2 or not plain:
        listed = ", ".join(f"{tensor.name} ({tensor})" for tensor in tensors)
        raise MonetError(
            f"{step.name}: simulated dynamics are for models from vectors to vectors with squared error; give an .npz "
            f"file with samples of {listed}"
        )
    features, targets = tensors
    inputs = features.shape[1]
    system = source or (CART_POLE if inputs == CART_POLE_INPUTS else ARM)
    made = simulated(system, inputs, targets.shape[1], SAMPLES, seed)
    return {features.name: made.features, targets.name: made.targets}


def _from_file(step: Graph, path: str) -> dict[str, Array]:
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise MonetError(f"cannot read {path!r}: {error}") from None
    found = {}
    for name in step.inputs:
        tensor = step.tensors[name]
        if name not in arrays:
            raise MonetError(f"{path}: has no array {name!r}; it has {', '.join(sorted(arrays)) or 'none'}")
        if arrays[name].shape[1:] != tensor.shape[1:] or not len(arrays[name]):
            raise MonetError(
                f"{path}: {name} has shape {list(arrays[name].shape)}; samples of {list(tensor.shape[1:])} are needed"
            )
        if arrays[name].dtype.kind not in ("f" if FORMATS[tensor.dtype].is_float else "iub"):
            raise MonetError(f"{path}: {name} holds {arrays[name].dtype}, the model takes {tensor.dtype}")
        found[name] = arrays[name]
    if len({len(array) for array in found.values()}) > 1:
        counts = ", ".join(f"{name} {len(array)}" for name, array in found.items())
        raise MonetError(f"{path}: arrays have different numbers of samples: {counts}")
    return found
