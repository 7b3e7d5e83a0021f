"""Training graphs against PyTorch's measurements and the counts of the graphs that MONET's authors released."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from monet.frontends import load_model
from monet.graph.counts import macs_by_kind, macs_by_part, parameter_count, role_bytes, saved_bytes
from monet.graph.graph import Graph
from monet.graph.tensor import Role
from monet.mapping.cost_store import Section, default_store
from monet.training.step import training_step
from monet.validation.figure import Figure

TOPIC = "training graph"
TORCH = "PyTorch 2.13.0: saved-tensor hooks; FLOP counter, corrected for grouped convolutions and fused attention"
RELEASED = "MONET (arXiv 2603.15002): training graphs released by its authors"

# model, batch, image or sequence (0: the model's own), parameters, forward and backward GFLOP, saved MB
MEASURED = (
    ("resnet18", 1, 224, 11_689_512, 3.628, 7.020, 21.620),
    ("resnet18", 2, 32, 11_689_512, 0.150, 0.291, 0.931),
    ("resnet18", 8, 224, 11_689_512, 29.025, 56.162, 172.692),
    ("resnet18", 32, 224, 11_689_512, 116.101, 224.648, 690.654),
    ("bert-base", 1, 128, 109_483_778, 22.348, 44.697, 85.752),
    ("bert-base", 8, 128, 109_483_778, 178.787, 357.575, 686.007),
    ("gpt2-mini", 1, 256, 30_339_456, 15.921, 31.841, 99.857),
    ("gpt2-mini", 1, 1024, 30_339_456, 70.931, 141.861, 517.394),
    ("gpt2-mini", 8, 256, 30_339_456, 127.366, 254.732, 796.092),
    ("gpt2-small", 1, 256, 124_439_808, 65.664, 131.329, 242.619),
    ("gpt2-small", 1, 1024, 124_439_808, 291.648, 583.297, 1432.900),
    ("gpt2-small", 4, 256, 124_439_808, 262.657, 525.315, 968.112),
    ("mlp-robot", 4096, 0, 190_860, 1.556, 2.911, 29.557),
)

PUBLISHED_PARAMETERS = (
    ("mobilenetv2", 3_504_872, "torchvision"),
    ("resnet50", 25_557_032, "torchvision"),
    ("vgg16", 138_357_544, "torchvision"),
    ("vit-b16", 86_567_656, "torchvision"),
    ("unet", 31_037_698, "U-Net, 64 wide, two classes"),
    ("gpt2-medium", 354_823_168, "Hugging Face transformers"),
    ("gpt2-xl", 1_557_611_200, "Hugging Face transformers"),
    ("llama2-7b", 6_738_415_616, "Llama 2 model card"),
)

BACKWARD_OVER_FORWARD = (("mobilenetv2", 1.964), ("vit-b16", 1.993), ("unet", 1.998))


GRAPHS = Section[Graph]("graphs for validation", 64)


def step_of(model: str, batch: int = 0, size: int = 0, optimizer: str = "sgd", lora: int = 0) -> Graph:
    """A training step of a zoo model; ``size`` is its image or its sequence, whichever it has."""
    key = model, batch, size, optimizer, lora
    return default_store()[GRAPHS].get_or(key, lambda: _step(*key))


def _step(model: str, batch: int, size: int, optimizer: str, lora: int) -> Graph:
    image, sequence = (size, None) if model.startswith("resnet") else (None, size)
    forward = load_model(model, batch=batch or None, image=image or None, sequence=sequence or None)
    return training_step(forward, optimizer=optimizer, lora=lora)


def _thousandth(value: Callable[[], float]) -> float:
    """Rounded to the three decimals that the measured tables have."""
    return round(value(), 3)


def _measured() -> Iterator[Figure]:
    for model, batch, size, _, forward, backward, saved in MEASURED:
        step = partial(step_of, model, batch, size)
        where = f"{model} b{batch}" + (f" {size}" if size else "")
        checks: tuple[tuple[str, str, float, Callable[[], float]], ...] = (
            ("forward work", "GFLOP", forward, lambda step=step: 2 * macs_by_part(step()).forward / 1e9),  # type: ignore[misc]
            ("backward work", "GFLOP", backward, lambda step=step: 2 * macs_by_part(step()).backward / 1e9),  # type: ignore[misc]
            ("saved for backward", "MB", saved, lambda step=step: saved_bytes(step()) / 1e6),  # type: ignore[misc]
        )
        for what, unit, value, ours in checks:
            yield Figure(TOPIC, f"{where}: {what}", unit, value, 0.0, TORCH, partial(_thousandth, ours))


def _parameters() -> Iterator[Figure]:
    known = {model: count for model, _, _, count, *_ in MEASURED}
    measured = ((model, count, "PyTorch 2.13.0") for model, count in known.items())
    for model, count, source in (*measured, *PUBLISHED_PARAMETERS):
        yield Figure(TOPIC, f"{model}: parameters", "", count, 0.0, source, partial(_parameter_count, model))


def _parameter_count(model: str) -> float:
    return parameter_count(load_model(model))


def _optimizer_state() -> Iterator[Figure]:
    for optimizer, state in (("momentum", 4 * 11_689_512), ("adam", 8 * 11_689_512 + 4 * 62)):
        name, source = f"resnet18: state of {optimizer}", "PyTorch 2.13.0, optimizer.state"
        yield Figure(TOPIC, name, "B", state, 0.0, source, partial(_state_bytes, optimizer))


def _state_bytes(optimizer: str) -> float:
    return role_bytes(step_of("resnet18", 1, 224, optimizer), Role.STATE)


def _released_counts() -> Iterator[Figure]:
    cifar, paper = partial(step_of, "resnet18-cifar", 4), partial(step_of, "gpt2-paper")
    lora = partial(cifar, lora=8)

    def gradients(of: str, kind: str) -> Callable[[], float]:
        return lambda: macs_by_kind(cifar())[f"{of}_gradient"][kind]

    name = "resnet18-cifar b4"
    checks: tuple[tuple[str, str, float, Callable[[], float]], ...] = (
        (f"{name}: forward", "MAC", 2_221_690_880, lambda: macs_by_part(cifar()).forward),
        (f"{name}: convolution input gradients", "MAC", 2_214_592_512, gradients("input", "conv_transpose")),
        (f"{name}: convolution weight gradients", "MAC", 2_221_670_400, gradients("weight", "conv_weight_gradient")),
        (f"{name}, LoRA 8: trained parameters", "", 286_424, lambda: parameter_count(lora(), trainable_only=True)),
        (f"{name}, LoRA 8: backward", "MAC", 2_523_254_784, lambda: macs_by_part(lora()).backward),
        ("gpt2-paper: forward", "MAC", 3_309_305_856, lambda: macs_by_part(paper()).forward),
        ("gpt2-paper: backward", "MAC", 6_618_611_712, lambda: macs_by_part(paper()).backward),
    )
    for name, unit, value, ours in checks:
        yield Figure(TOPIC, name, unit, value, 0.0, RELEASED, ours)


def _ratios() -> Iterator[Figure]:
    for model, ratio in BACKWARD_OVER_FORWARD:
        name, ours = f"{model}: backward over forward work", partial(_backward_over_forward, model)
        yield Figure(TOPIC, name, "", ratio, 0.0, TORCH, ours)


def _backward_over_forward(model: str) -> float:
    macs = macs_by_part(step_of(model))
    return round(macs.backward / macs.forward, 3)


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    yield from _parameters()
    yield from _measured()
    yield from _ratios()
    yield from _optimizer_state()
    yield from _released_counts()
