"""to_model: a graph as an ONNX model.

An operator that is one standard ONNX operator is exported as that operator. Every other one is a single node of domain
``monet`` backed by a model-local function of standard operators, so that a viewer shows one box that can be opened and
a runtime that inlines functions runs it. Equal bodies of one kind share a function; shapes are static everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from monet.errors import MonetError, UnsupportedOperators, nearest
from monet.graph import Attributes, Call, Graph, Op, Role, Tensor
from monet.graph.kind import Array
from monet.report.onnx import operators as _operators  # fills the export table
from monet.report.onnx.body import Body, Node, Written
from monet.report.onnx.element_types import IR_VERSION, OPSET, element_type, tensor_proto
from monet.report.onnx.table import WRITERS

del _operators

DOMAIN = "monet"
_GIVEN = (Role.PARAMETER, Role.BUFFER, Role.STATE, Role.CONSTANT)  # roots that may become initializers

Signature = tuple[str, Attributes, tuple[tuple[tuple[int, ...], str], ...]]


def to_model(graph: Graph, values: Mapping[str, Array] | None = None) -> Any:
    """``graph`` as an ``onnx.ModelProto``.

    Parameters, buffers and optimizer state are inputs of the model; those named in ``values`` become initializers.
    Outputs are the graph's outputs, its loss, all gradients and all updated values. A dropout mask is part of the
    file, equal to the executor's, if it is small or ``values`` are given; else the runtime draws its own.
    """
    missing = {op.kind for op in graph.ops} - set(WRITERS)
    if missing:
        places = {kind: [op.name for op in graph.ops if op.kind == kind] for kind in missing}
        raise UnsupportedOperators(f"{graph.name} as ONNX", {k: (len(v), v[0]) for k, v in places.items()})
    given = {**_checked(graph, values or {}), **graph.values}
    emitter = _Emitter(graph, exact=values is not None)
    for op in graph.ops:
        emitter.emit(op)
    roots = [tensor for name, tensor in graph.tensors.items() if name not in graph.producer]
    outputs = _outputs(graph)
    inner = [t for name, t in graph.tensors.items() if name in graph.producer and name not in outputs]
    proto = onnx.helper.make_graph(
        emitter.nodes,
        graph.name,
        [_value_info(tensor, str(tensor.role)) for tensor in roots if tensor.name not in given],
        [_value_info(graph.tensors[name], about) for name, about in outputs.items()],
        [*(tensor_proto(t.name, given[t.name], t.dtype) for t in roots if t.name in given), *emitter.constants()],
        value_info=[_value_info(tensor) for tensor in inner],
    )
    return onnx.helper.make_model(
        proto,
        producer_name="monet",
        ir_version=IR_VERSION,
        functions=list(emitter.functions.values()),
        opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(DOMAIN, 1)],
    )


def _checked(graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
    """The values that become initializers: those of lasting roots. Inputs and labels stay inputs."""
    chosen: dict[str, Array] = {}
    for name, value in values.items():
        if name not in graph.tensors:
            raise MonetError(f"no tensor is called {name!r}; {nearest(name, graph.tensors)}")
        tensor, array = graph.tensors[name], np.asarray(value)
        if array.shape != tensor.shape:
            raise MonetError(f"value of {name!r} has shape {list(array.shape)}, the graph says {list(tensor.shape)}")
        if tensor.role in _GIVEN and name not in graph.producer:
            chosen[name] = array
    return chosen


def _outputs(graph: Graph) -> dict[str, str]:
    """What the model returns, each with a word on what it is."""
    about = dict.fromkeys(graph.outputs, "output")
    if graph.loss:
        about[graph.loss] = "loss"
    for parameter, name in graph.gradients.items():
        about.setdefault(name, f"gradient of {parameter}")
    for root, name in graph.updated.items():
        about.setdefault(name, f"{root} after the step")
    return about


def _value_info(tensor: Tensor, about: str = "") -> Any:
    return onnx.helper.make_tensor_value_info(tensor.name, element_type(tensor.dtype), tensor.shape, doc_string=about)


@dataclass(slots=True)
class _Emitter:
    """Turns operators into nodes, writing each distinct signature once."""

    graph: Graph
    exact: bool
    nodes: list[Any] = field(default_factory=list)
    functions: dict[tuple[str, bytes], Any] = field(default_factory=dict)
    _templates: dict[Signature, tuple[Written, str]] = field(default_factory=dict)
    _constants: dict[tuple[str, tuple[int, ...], bytes], Any] = field(default_factory=dict)
    _count: Counter[str] = field(default_factory=Counter)

    def emit(self, op: Op) -> None:
        """Append the node of ``op``: the standard operator it is, or a call of its function."""
        written, function = self._template(op)
        if function:
            node = onnx.helper.make_node(function, op.inputs, op.outputs, op.name, domain=DOMAIN)
        else:
            node = self._standard(op, written)
        node.metadata_props.extend(_metadata(op))
        self.nodes.append(node)

    def constants(self) -> Iterator[Any]:
        """Constant operands of standard nodes: shapes, axes, bounds."""
        yield from self._constants.values()

    def _template(self, op: Op) -> tuple[Written, str]:
        call = Call(
            tuple(self.graph.tensors[name] for name in op.inputs),
            tuple(self.graph.tensors[name] for name in op.outputs),
            op.attrs,
        )
        kinds = tuple((tensor.shape, tensor.dtype) for tensor in (*call.inputs, *call.outputs))
        signature = (op.kind, op.attrs, (*kinds, ((len(op.inputs),), "")))
        if signature not in self._templates:
            body = Body(call, self.exact)
            written = body.finish(WRITERS[op.kind](body))
            self._templates[signature] = written, "" if _is_standard(written) else self._function(op.kind, written)
        return self._templates[signature]

    def _function(self, kind: str, written: Written) -> str:
        """The name of the function with this body, declared on first use."""
        constants = [
            onnx.helper.make_node("Constant", (), (name,), value=tensor_proto("", array, dtype))
            for name, (array, dtype) in written.constants.items()
        ]
        nodes = [*constants, *(_node(node) for node in written.nodes)]
        key = kind, b"".join(node.SerializeToString(deterministic=True) for node in nodes)
        if key not in self.functions:
            title = "".join(part.capitalize() for part in kind.split("_"))
            self._count[title] += 1
            self.functions[key] = onnx.helper.make_function(
                DOMAIN,
                title if self._count[title] == 1 else f"{title}_{self._count[title]}",
                written.inputs,
                written.outputs,
                nodes,
                [onnx.helper.make_opsetid("", OPSET)],
                doc_string=f"monet operator {kind}",
            )
        name: str = self.functions[key].name
        return name

    def _standard(self, op: Op, written: Written) -> Any:
        (node,) = written.nodes
        actual = {**dict(zip(written.inputs, op.inputs, strict=True)), "": ""}
        for name, (array, dtype) in written.constants.items():
            actual[name] = self._constant(array, dtype)
        outputs = dict(zip(written.outputs, op.outputs, strict=True))
        inputs = [actual[name] for name in node.inputs]
        return onnx.helper.make_node(
            node.op_type, inputs, [outputs[name] for name in node.outputs], op.name, **node.attributes
        )

    def _constant(self, array: Array, dtype: str) -> str:
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant{len(self._constants)}"
            while name in self.graph.tensors:
                name += "_"
            self._constants[key] = tensor_proto(name, array, dtype)
        shared: str = self._constants[key].name
        return shared


def _is_standard(written: Written) -> bool:
    return len(written.nodes) == 1 and written.nodes[0].outputs == written.outputs


def _node(node: Node) -> Any:
    return onnx.helper.make_node(node.op_type, node.inputs, node.outputs, **node.attributes)


def _metadata(op: Op) -> Iterator[Any]:
    facts = {"phase": str(op.phase), "layer": op.layer, "kind": op.kind}
    if op.attrs:
        facts["attributes"] = repr(op.attrs)
    if op.micro_batch:
        facts["micro_batch"] = str(op.micro_batch)
    if op.recompute:
        facts["recompute"] = "yes"
    for key, value in facts.items():
        yield onnx.StringStringEntryProto(key=f"monet.{key}", value=value)
