"""Models in: zoo name (with parameters or without), ONNX file, or Python function that returns a torch module."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from monet.errors import ModelError, OptionError
from monet.frontends.zoo import FAMILIES, ZOO, ZooModel, is_zoo, zoo_model

if TYPE_CHECKING:
    from monet.graph import Graph

__all__ = ["FAMILIES", "ZOO", "ZooModel", "digest_of", "is_zoo", "load_model", "zoo_model"]


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
    sizes = {"batch": batch, "image": image, "sequence": sequence}
    for option, value in sizes.items():
        if value is not None and value < 1:
            raise OptionError(option, value, "at least 1 is needed")
    is_python = ".py:" in model
    if inputs and not is_python:
        raise OptionError(
            "inputs", inputs[0], f"only a torch module (file.py:function) is told its inputs, not {model!r}"
        )
    if dimensions and (is_python or is_zoo(model)):
        name, size = next(iter(dimensions.items()))
        raise OptionError("dimensions", f"{name}={size}", f"only an ONNX file has dynamic axes, not {model!r}")
    for option in ("image", "sequence") if is_python else ():
        if sizes[option] is not None:
            raise OptionError(
                option, sizes[option], "the sizes of a torch module are those of its inputs; take --input"
            )
    from monet.frontends.trained import note_untrained
    from monet.graph.recipe import Recipe

    values = {"model": model, **sizes, "inputs": list(inputs), "dimensions": dict(dimensions or {})}
    if is_zoo(model):
        return zoo_model(model)(batch or 1, image, sequence).made_by(Recipe({**values, "batch": batch or 1}))
    digest = digest_of(model)  # before it is read: of a file that changes meanwhile it is the wrong one
    graph = note_untrained(_file(model, batch, image, sequence, inputs, dimensions))
    return graph.made_by(Recipe({**values, "model_digest": digest}))


def digest_of(model: str) -> str:
    """Content hash of a model file; empty for a zoo name, and for what is no file."""
    path = Path(model.rpartition(":")[0] if ".py:" in model else model)
    if is_zoo(model) or not path.is_file():
        return ""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _file(
    model: str,
    batch: int | None,
    image: int | None,
    sequence: int | None,
    inputs: Sequence[str],
    dimensions: Mapping[str, int] | None,
) -> Graph:
    if ".py:" in model:
        from monet.frontends.torch import load_python

        return load_python(model, batch=batch, inputs=inputs)
    if model.endswith(".py"):
        raise ModelError(f"{model!r}: say which function makes the module, as in {model}:make_model")
    if model.endswith(".onnx") or Path(model).is_file():
        from monet.frontends.onnx import load_onnx

        return load_onnx(model, batch=batch, image=image, sequence=sequence, dimensions=dimensions)
    if "/" in model or Path(model).suffix:
        raise ModelError(f"no such model file: {model!r}")
    return zoo_model(model)()  # says what it is not
