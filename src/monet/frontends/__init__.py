"""Models in: zoo name (with parameters or without), ONNX file, or Python function that returns a torch module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from monet.errors import ModelError
from monet.frontends.zoo import FAMILIES, ZOO, ZooModel, is_zoo, zoo_model

if TYPE_CHECKING:
    from monet.graph import Graph

__all__ = ["FAMILIES", "ZOO", "ZooModel", "is_zoo", "load_model", "zoo_model"]


def load_model(
    model: str,
    *,
    batch: int | None = None,
    image: int | None = None,
    sequence: int | None = None,
    inputs: Sequence[str] = (),
    dimensions: Mapping[str, int] | None = None,
) -> Graph:
    """The forward graph of ``model``: a zoo name, a path to an ONNX file, or ``file.py:function``.

    Parameters follow a zoo name or family: ``resnet18:classes=10``, ``gpt:layers=48,hidden=6144,heads=64``.
    ``image`` and ``sequence`` set the sizes a zoo model has, and the matching dynamic axes of an ONNX file;
    ``dimensions`` sets other dynamic axes by name. ``inputs`` describes the inputs of a torch module
    (``1x3x224x224``, ``1x128:int64``) where it does not say itself.
    """
    for option, value in (("--batch", batch), ("--image", image), ("--sequence", sequence)):
        if value is not None and value < 1:
            raise ModelError(f"{option} {value}: at least 1 is needed")
    is_python = ".py:" in model
    if inputs and not is_python:
        raise ModelError(
            f"--input {inputs[0]}: only a torch module (file.py:function) is told its inputs, not {model!r}"
        )
    if dimensions and (is_python or is_zoo(model)):
        name, size = next(iter(dimensions.items()))
        raise ModelError(f"--dimension {name}={size}: only an ONNX file has dynamic axes, not {model!r}")
    for option, value in (("--image", image), ("--sequence", sequence)):
        if value is not None and is_python:
            raise ModelError(f"{option} {value}: the sizes of a torch module are those of its inputs; take --input")
    if is_python:
        from monet.frontends.torch import load_python

        return load_python(model, batch=batch, inputs=inputs)
    if is_zoo(model):
        return zoo_model(model)(batch=batch or 1, image=image, sequence=sequence)
    if model.endswith(".py"):
        raise ModelError(f"{model!r}: say which function makes the module, as in {model}:make_model")
    if model.endswith(".onnx") or Path(model).is_file():
        from monet.frontends.onnx import load_onnx

        return load_onnx(model, batch=batch, image=image, sequence=sequence, dimensions=dimensions)
    if "/" in model or Path(model).suffix:
        raise ModelError(f"no such model file: {model!r}")
    return zoo_model(model)()  # says what it is not
