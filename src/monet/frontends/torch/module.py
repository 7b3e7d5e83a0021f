"""load_module: a torch.nn.Module and example inputs in, a forward graph out."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from monet.errors import ModelError, MonetError, UnsupportedOperators
from monet.formats import FORMATS
from monet.frontends.torch import operators as _operators  # noqa: F401  fills the table of rules
from monet.frontends.torch.copies import copy_partial_operands
from monet.frontends.torch.library import dtype_name, require_torch
from monet.frontends.torch.program import ProgramReader
from monet.frontends.torch.translation import Ref
from monet.graph import Graph, GraphBuilder, Role
from monet.graph.rewrite import prune


def load_module(module: Any, example_inputs: Sequence[Any], name: str = "") -> Graph:
    """The forward graph of ``module`` in training mode, at the shapes of ``example_inputs``.

    Parameters and buffers have the module's names; a parameter used under several names is one parameter, under the
    first. Raises ModelError when the module cannot be exported, UnsupportedOperators listing all that have no rule.
    """
    torch = require_torch()
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"expected a torch.nn.Module, got {type(module).__name__}")
    title = name or type(module).__name__
    inputs = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    program = _export(torch, module, inputs, title)
    builder = GraphBuilder(title)
    reader = ProgramReader(builder)
    _declare_roots(module, program, builder, reader)
    outputs = reader.run(program.graph, program.graph_module)
    if reader.missing:
        raise UnsupportedOperators(title, reader.missing)
    names = [str(value) for value in outputs if isinstance(value, Ref)]
    if not names:
        raise ModelError(f"{title}: the module returns no tensor")
    if builder.tensors[names[0]].shape == ():
        builder.usual_loss = "sum"  # the module computes its loss itself
    return copy_partial_operands(prune(builder.build(names)), reader.translation.copied)


def module_values(module: Any, graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """The module's parameters and buffers by the graph's names, ready for the executor."""
    values: dict[str, np.ndarray[Any, Any]] = {}
    held = {**dict(module.named_buffers()), **dict(module.named_parameters())}
    for tensor in (*graph.parameters, *graph.role(Role.BUFFER)):
        if tensor.name not in held:
            raise MonetError(f"the module has no parameter or buffer called {tensor.name!r}")
        values[tensor.name] = _array(held[tensor.name])
    return values


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    if tensor.is_meta:
        raise ModelError("the module is on the meta device and holds no values")
    plain = tensor.detach().cpu()
    found = FORMATS.get(dtype_name(plain.dtype))
    if found is not None and found.numpy.isbuiltin != 1:  # not one of NumPy's own types
        plain = plain.float()
    return np.array(plain.numpy())


# --- export -------------------------------------------------------------------------------------------------------


def _export(torch: Any, module: Any, inputs: tuple[Any, ...], title: str) -> Any:
    """The pre-decomposition ATen program. A module in inference mode is exported in training mode and put back."""
    modes = {part: part.training for part in module.modules()}
    if not module.training:
        module.train()
    try:
        with warnings.catch_warnings(), _quiet(), _without_values(torch, module) as moved:
            warnings.simplefilter("ignore")
            return torch.export.export(module, moved(inputs), strict=False)
    except MonetError:
        raise
    except (Exception, SystemExit) as error:  # of torch.export many classes, and whatever the module raises
        raise ModelError(f"{title}: torch.export failed: {_reason(error)}") from None
    finally:
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the tracebacks that PyTorch logs before it raises: the error says it all."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _without_values(torch: Any, module: Any) -> Iterator[Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
    """A module on the meta device, of any size, is exported with its inputs and all it creates there too."""
    if not any(value.is_meta for value in module.parameters()):
        yield lambda inputs: inputs
        return
    with torch.device("meta"):
        yield lambda inputs: tuple(x.to("meta") if isinstance(x, torch.Tensor) else x for x in inputs)


_DATA_DEPENDENT = ("GuardOnDataDependentSymNode", "DynamicOutputShapeException", "DataDependentOutputException")


def _reason(error: BaseException) -> str:
    """One line that says why an export failed."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    kinds = {type(error).__name__, type(error.__cause__).__name__, type(error.__context__).__name__}
    if kinds & set(_DATA_DEPENDENT) or "data-dependent" in text.lower():
        return f"its control flow or a shape depends on the values of tensors ({text})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# --- roots ----------------------------------------------------------------------------------------------------------


def _declare_roots(module: Any, program: Any, builder: GraphBuilder, reader: ProgramReader) -> None:
    """Declare parameters in the module's order, then buffers, constants and inputs as the program lists them."""
    first_names = {id(value): name for name, value in module.named_parameters()}
    for name, value in module.named_parameters():
        if value.numel():
            builder.root(name, value.shape, _known_dtype(value, name), Role.PARAMETER, value.requires_grad)
    aliases = {name: first_names[id(value)] for name, value in module.named_parameters(remove_duplicate=False)}
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    for entry in program.graph_signature.input_specs:
        node = nodes.get(getattr(entry.arg, "name", ""))
        if node is None:
            continue
        kind = entry.kind.name
        if kind == "PARAMETER":
            reader.bind(node, aliases.get(entry.target, entry.target))
        elif kind == "BUFFER":
            _declare_buffer(builder, reader, node, entry.target)
        elif kind == "CONSTANT_TENSOR":
            value = program.constants[entry.target]
            reader.bind(node, builder.constant(entry.target, _array(value), _known_dtype(value, entry.target)))
        else:
            _declare_input(builder, reader, node)


def _declare_buffer(builder: GraphBuilder, reader: ProgramReader, node: Any, name: str) -> None:
    """A buffer that is only counted up (batches seen by a norm) or not used at all is no part of the step's work."""
    value = node.meta["val"]
    if all(_is_count(user) for user in node.users) or not value.numel():
        return
    if name not in builder.tensors:  # a buffer may be registered under two names
        builder.root(name, value.shape, _known_dtype(value, name), Role.BUFFER)
    reader.bind(node, name)


def _is_count(user: Any) -> bool:
    return str(user.target) == "aten.add_.Tensor" and not user.users and not isinstance(user.args[1], type(user))


def _declare_input(builder: GraphBuilder, reader: ProgramReader, node: Any) -> None:
    value = node.meta.get("val")
    if not hasattr(value, "shape"):
        reader.bind(node, value)
        return
    name = re.sub(r"^args_(\d+)$", r"input\1", node.name)
    if name in builder.tensors:
        name = f"input.{name}"
    reader.bind(node, builder.input(name, value.shape, _known_dtype(value, name)))


def _known_dtype(value: Any, name: str) -> str:
    found = dtype_name(value.dtype)
    if not found:
        raise ModelError(f"{name!r} holds {str(value.dtype).removeprefix('torch.')} values, which are not supported")
    return found
