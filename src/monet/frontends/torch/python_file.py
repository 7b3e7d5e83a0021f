"""load_python: ``mymodel.py:make_model`` names a function that makes a module."""

from __future__ import annotations

import importlib.util
import math
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from monet.errors import ModelError, OptionError, nearest
from monet.formats import FORMATS
from monet.frontends.torch.library import require_torch, torch_dtype
from monet.frontends.torch.module import load_module
from monet.graph import Graph

MOST_ELEMENTS = 2**31  # of an example input


def load_python(path_and_function: str, *, batch: int | None = None, inputs: Sequence[str] | None = None) -> Graph:
    """The graph of the module that a function in a Python file makes.

    The function takes no arguments and returns a module, or (module, example inputs), or a module with an attribute
    ``example_inputs``. ``inputs`` such as ``1x3x224x224`` or ``1x128:int64`` take precedence over those; ``batch``
    replaces the first size of every input that shares it with the first input.
    """
    torch = require_torch()
    path, function = _split(path_and_function)
    module, examples = _make(torch, path, function, path_and_function)
    if inputs:
        examples = tuple(_example(torch, text) for text in inputs)
    if examples is None:
        raise ModelError(
            f"{path_and_function}: the shapes of the module's inputs are not known; return (module, example_inputs) "
            "from the function, set module.example_inputs, or describe them to monet graph: --input 1x128:int64"
        )
    if batch is not None:
        examples = _with_batch(torch, examples, batch)
    return load_module(module, examples, name=function)


def _split(path_and_function: str) -> tuple[Path, str]:
    text, colon, function = path_and_function.rpartition(":")
    if not colon or not text or not function:
        raise ModelError(f"{path_and_function!r}: write FILE.py:FUNCTION, the function returns a torch.nn.Module")
    path = Path(text)
    if not path.is_file():
        near = [str(other) for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise ModelError(f"{text}: no such file" + (f"; {nearest(text, near)}" if near else ""))
    return path, function


# --- running the user's code ------------------------------------------------------------------------------------------


def _make(torch: Any, path: Path, function: str, given: str) -> tuple[Any, tuple[Any, ...] | None]:
    source = _run_file(path)
    make = getattr(source, function, None)
    if make is None:
        callables = [name for name, value in vars(source).items() if callable(value) and not name.startswith("_")]
        hint = f"; {nearest(function, callables)}" if callables else ""
        raise ModelError(f"{path}: has no function {function!r}{hint}")
    if not callable(make):
        raise ModelError(f"{given}: {function!r} is {type(make).__name__}, not a function")
    try:
        made = make()
    except (Exception, SystemExit) as error:  # a script's own end is not the end of this program
        raise ModelError(f"{given} raised {_one_line(error, path)}") from None
    module, examples = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"{given}: returned {type(module).__name__}, expected a torch.nn.Module")
    if examples is None:
        examples = getattr(module, "example_inputs", None)
    if examples is None:
        return module, None
    return module, tuple(examples) if isinstance(examples, (tuple, list)) else (examples,)


def _run_file(path: Path) -> ModuleType:
    """Import the file under a name of its own, with its folder importable meanwhile."""
    name = f"monet_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{path}: not a Python file")
    source = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    sys.modules[name] = source  # dataclasses and pickling look their module up
    try:
        spec.loader.exec_module(source)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise ModelError(f"{path}: cannot be imported: {_one_line(error, path)}") from None
    finally:
        sys.path.remove(folder)
    return source


def _one_line(error: BaseException, path: Path) -> str:
    """What went wrong, and the last line of the user's file it went wrong in."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
    return f"{type(error).__name__}: {text}" + (f" (line {line})" if line else "")


# --- example inputs ---------------------------------------------------------------------------------------------------


def _example(torch: Any, text: str) -> Any:
    """A tensor from ``2x3x32x32`` or ``2x128:int64``; zeros, which are valid rows of any table."""
    sizes, _, dtype_text = text.partition(":")
    dtype = torch_dtype(dtype_text or "fp32")
    if dtype is None:
        allowed = [name for name, number_format in FORMATS.items() if number_format.torch]
        raise ModelError(f"input {text!r}: unknown type {dtype_text!r}; {nearest(dtype_text, allowed)}")
    try:
        shape = [int(size) for size in sizes.replace("×", "x").split("x")]
    except ValueError:
        raise ModelError(f"input {text!r}: write sizes joined by x and a type, as in 1x128:int64") from None
    if min(shape) < 1:
        raise ModelError(f"input {text!r}: every size must be at least 1")
    if math.prod(shape) > MOST_ELEMENTS:
        raise ModelError(
            f"input {text!r}: {math.prod(shape):,} elements; at most {MOST_ELEMENTS:,} are allowed, as examples are "
            "held in this computer's memory"
        )
    try:
        return torch.zeros(shape, dtype=dtype)
    except RuntimeError as error:
        raise ModelError(f"input {text!r}: {str(error).splitlines()[0]}") from None


def _with_batch(torch: Any, examples: tuple[Any, ...], batch: int) -> tuple[Any, ...]:
    """Examples with another first size, rows repeated or dropped as needed."""
    if batch < 1:
        raise OptionError("batch", batch, "at least 1 is needed")
    first = next((x for x in examples if isinstance(x, torch.Tensor) and x.dim()), None)
    if first is None:
        raise ModelError("the example inputs have no batch axis to change")
    old = first.shape[0]

    def resized(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dim() and x.shape[0] == old:
            return x[torch.arange(batch) % old]
        return x

    return tuple(resized(x) for x in examples)
