"""Open an ONNX file: parse it, inline its local functions, and put its nodes in an order in which they can run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import onnx.defs
from onnx import helper, inliner

from monet.errors import ModelError
from monet.frontends.onnx.stripped import restore_weights

_SCOPES = "pkg.torch.onnx.name_scopes"
STANDARD = ("", "ai.onnx")
_HARMLESS = {  # said by other means, about another type of number, or about a random draw
    "broadcast", "consumed_inputs", "hidden_size", "is_test", "kernel_shape", "num_outputs", "saturate", "seed",
    "sorted", "stash_type", "training_mode",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the file. ``scope`` is the module path it was traced in, as far as the exporter wrote it down;
    ``asked`` are the attributes that its rule has looked at."""

    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    scope: str
    place: str
    proto: Any = field(repr=False)
    asked: set[str] = field(default_factory=set, repr=False, compare=False)

    @property
    def label(self) -> str:
        """The operator's name, with its domain unless that is the standard one."""
        return self.op if self.domain in STANDARD else f"{self.domain}::{self.op}"

    def input(self, position: int) -> str:
        """Name of an input, "" if it is left out."""
        return self.inputs[position] if position < len(self.inputs) else ""

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute; strings are decoded."""
        self.asked.add(name)
        return self.attributes.get(name, default)

    def ignored(self, opset: int) -> dict[str, Any]:
        """Attributes that nobody has asked for and that are not what they would be if left out."""
        left = {name: value for name, value in self.attributes.items() if name not in self.asked | _HARMLESS}
        known = _schema_attributes(self, opset) if left else {}
        return {
            name: value
            for name, value in left.items()
            if name not in known or _attribute(known[name].default_value) != value
        }


@dataclass(frozen=True, slots=True)
class File:
    """A parsed file: its graph, the nodes in execution order, and the version of the standard operators."""

    path: Path
    proto: Any = field(repr=False)
    nodes: tuple[Node, ...]
    opset: int
    versions: dict[str, int]

    @property
    def graph(self) -> Any:
        """The main graph as stored."""
        return self.proto.graph


def read_file(path: str | Path) -> File:
    """Parse ``path``. Every way in which it can be wrong is one ModelError."""
    path = Path(path)
    model = _parse(path)
    if not model.graph.node:
        raise ModelError(f"{path}: the graph has no operators")
    if model.functions:
        try:
            model = inliner.inline_local_functions(model)
        except Exception as error:  # the inliner raises bare RuntimeErrors from C++
            raise ModelError(f"{path}: its local functions cannot be inlined: {error}") from None
    restore_weights(model)
    versions = {("" if entry.domain in STANDARD else entry.domain): entry.version for entry in model.opset_import}
    nodes = [read_node(node, position) for position, node in enumerate(model.graph.node)]
    given = {value.name for value in model.graph.input} | {value.name for value in model.graph.initializer}
    given |= {value.values.name for value in model.graph.sparse_initializer}
    ordered = execution_order(path, nodes, given)
    return File(path, model, ordered, versions.get("", 1), versions)


def _parse(path: Path) -> Any:
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise ModelError(f"{path} {what}; give the path of an ONNX file")
    if path.stat().st_size == 0:
        raise ModelError(f"{path} is empty")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf raises its own DecodeError, C++ errors among them
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"{path} is not an ONNX file, or is truncated ({reason})") from None
    if not model.HasField("graph") or not (model.opset_import or model.graph.node):
        raise ModelError(f"{path} is not an ONNX file: it holds no graph")
    return model


def read_node(proto: Any, position: int) -> Node:
    """A stored node as a Node."""
    attributes = {attribute.name: _attribute(attribute) for attribute in proto.attribute}
    place = proto.name or (proto.output[0] if proto.output else f"node {position}")
    return Node(
        proto.op_type, proto.domain, tuple(proto.input), tuple(proto.output), attributes, _scope(proto), place, proto
    )


def _schema_attributes(node: Node, opset: int) -> Mapping[str, Any]:
    """The attributes of an operator that have a default."""
    try:
        attributes = onnx.defs.get_schema(node.op, opset, "" if node.domain in STANDARD else node.domain).attributes
    except onnx.defs.SchemaError:
        return {}
    return {name: attribute for name, attribute in attributes.items() if attribute.default_value.name}


def _attribute(attribute: Any) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple) and value and isinstance(value[0], bytes):
        return [entry.decode("utf-8", "replace") for entry in value]
    return value


def _scope(proto: Any) -> str:
    """The module path: written as metadata by the dynamo exporter, as the node's name by the tracing one."""
    for entry in proto.metadata_props:
        if entry.key == _SCOPES:
            try:
                names = ast.literal_eval(entry.value)
            except (ValueError, SyntaxError):
                return ""
            return re.sub(r"@\d+", "", str(names[-2])) if len(names) > 1 else ""  # a module that is called again
    if not proto.name.startswith("/"):
        return ""
    path: list[str] = []
    for segment in proto.name.split("/")[1:-1]:
        if path and segment.startswith(path[-1] + "."):  # a child repeats its container's name: layer1/layer1.0
            path.pop()
        path.append(segment)
    return ".".join(path)


def free_names(graph: Any) -> set[str]:
    """Names a subgraph reads from around it."""
    own = {name for node in graph.node for name in node.output}
    own |= {value.name for value in graph.input} | {value.name for value in graph.initializer}
    read = {name for node in graph.node for name in node.input if name}
    read |= {value.name for value in graph.output}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                read |= free_names(attribute.g)
    return read - own


def _reads(node: Node) -> set[str]:
    names = {name for name in node.inputs if name}
    for attribute in node.proto.attribute:
        if attribute.HasField("g"):
            names |= free_names(attribute.g)
    return names


def execution_order(path: Path, nodes: Sequence[Node], given: Iterable[str]) -> tuple[Node, ...]:
    """``nodes`` such that each comes after what it reads; stored order is kept where it is valid."""
    known = set(given)
    writers: dict[str, Node] = {}
    for node in nodes:
        for name in node.outputs:
            if name and (name in writers or name in known):
                raise ModelError(f"{path}: two operators write {name!r}, the second is {node.place!r} ({node.label})")
            writers[name] = node
    for node in nodes:
        missing = sorted(name for name in _reads(node) if name not in writers and name not in known)
        if missing:
            raise ModelError(
                f"{path}: operator {node.place!r} ({node.label}) reads {missing[0]!r}, which nothing gives"
            )
    order: list[Node] = []
    waiting = list(nodes)
    while waiting:
        later: list[Node] = []
        for node in waiting:
            if _reads(node) <= known:
                order.append(node)
                known.update(node.outputs)
            else:
                later.append(node)
        if len(later) == len(waiting):
            places = ", ".join(repr(node.place) for node in later[:3])
            raise ModelError(f"{path}: the graph has a cycle through {len(later)} operator(s): {places}")
        waiting = later
    return tuple(order)
