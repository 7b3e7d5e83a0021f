"""ProgramReader: walks an exported program node by node, applies the rules, and keeps track of in-place changes."""

from __future__ import annotations

import operator
import re
from contextlib import nullcontext
from typing import Any

from monet.frontends.torch.translation import RULES, Ref, Translation, Unsupported, defaulted
from monet.graph import GraphBuilder, Op
from monet.graph.kind import Family, kind_named

_REGIONS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4, "tag_activation_checkpoint": 0}
"""Higher-order operators that run a sub-graph, and where among their arguments it stands."""


class _Unknown:
    """The value of a node that could not be translated; what depends on it is passed over."""


UNKNOWN = _Unknown()


class ProgramReader:
    """Translates the nodes of an exported graph; ``missing`` collects what has no rule, by count and first place."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.translation = Translation(builder)
        self.values: dict[Any, Any] = {}
        self.missing: dict[str, tuple[int, str]] = {}
        self._attributes: Any = None

    def bind(self, node: Any, value: Any) -> None:
        """Say what a placeholder stands for: a tensor's name, or a plain value."""
        self.values[node] = Ref(value) if isinstance(value, str) and value in self.builder.tensors else value
        self._note_layout(node)

    def run(self, graph: Any, attributes: Any) -> list[Any]:
        """Translate every node and return the values of the outputs."""
        outer, self._attributes = self._attributes, attributes
        outputs: list[Any] = []
        for node in graph.nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op == "get_attr":
                self.values[node] = getattr(attributes, node.target, None)
            elif node.op == "output":
                outputs = _flat(self._resolve(node.args[0]))
        self._attributes = outer
        return outputs

    # --- one call ---------------------------------------------------------------------------------------------------

    def _call(self, node: Any) -> None:
        path, is_layer = _module_path(node)
        name = _operator_name(node)
        scope, _, leaf = path.rpartition(".") if is_layer else (path, "", "")
        self.translation.name = leaf  # an operator of a plain layer is called like the layer
        with self.builder.scope(scope) if scope else nullcontext():
            try:
                self.values[node] = self._translate(node, name)
            except Unsupported as reason:
                self._miss(f"{name} ({reason})" if str(reason) else name, path or node.name)
                self.values[node] = UNKNOWN
        self._note_layout(node)

    def _miss(self, what: str, place: str) -> None:
        count, first = self.missing.get(what, (0, place))
        self.missing[what] = (count + 1, first)

    def _translate(self, node: Any, name: str) -> Any:
        if node.target is operator.getitem:
            source = self._resolve(node.args[0])
            return UNKNOWN if source is UNKNOWN else source[node.args[1]]
        if name in _REGIONS:
            return self._region(node, name)
        rule, inplace = _rule_for(name)
        if rule is None:
            raise Unsupported
        arguments = defaulted(node.target._schema.arguments, self._resolve(node.args), self._resolve(node.kwargs))
        if any(value is UNKNOWN for value in _flat(list(vars(arguments).values()))):
            return UNKNOWN
        now = self.translation
        now.meta = node.meta.get("val")
        changed = next(iter(vars(arguments).values())) if inplace else ""
        stale = self._stale(node, changed) if changed else set()
        now.overwrites = "" if stale else changed
        try:
            result = rule(now, arguments)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise Unsupported(f"this use of it: {type(error).__name__}: {error}") from error
        finally:
            now.overwrites = ""
        if inplace and result is not None:
            self._changed(changed, result, stale)
        return result

    def _region(self, node: Any, name: str) -> Any:
        """Inline the sub-graph of a region; what was computed without gradients is cut off from them."""
        position = _REGIONS[name]
        settings = node.args[:position]
        if name == "wrap_with_autocast" and settings[2] is not False:
            raise Unsupported("autocast inside the module; use a precision policy instead")
        inner = self._resolve(node.args[position])
        for placeholder, given in zip(
            (n for n in inner.graph.nodes if n.op == "placeholder"), node.args[position + 1 :], strict=False
        ):
            self.values[placeholder] = self._resolve(given)
        outputs = self.run(inner.graph, inner)
        if name == "wrap_with_set_grad_enabled" and not settings[0]:
            outputs = [self.translation.emit("detach", v) if isinstance(v, Ref) else v for v in outputs]
        return tuple(outputs)

    def _resolve(self, argument: Any) -> Any:
        """Replace nodes by their values, inside lists too; constants of the framework (dtypes) are left alone."""
        if isinstance(argument, (list, tuple)):
            return [self._resolve(part) for part in argument]
        if isinstance(argument, dict):
            return {key: self._resolve(part) for key, part in argument.items()}
        return self.values.get(argument, UNKNOWN) if hasattr(argument, "all_input_nodes") else argument

    def _note_layout(self, node: Any) -> None:
        """Remember the framework's strides of what the node produced."""
        value, meta = self.values[node], node.meta.get("val")
        if isinstance(value, Ref) and hasattr(meta, "stride") and tuple(meta.shape) == self.translation.shape(value):
            self.translation.layouts[value] = tuple(int(stride) for stride in meta.stride())

    # --- in-place calls ---------------------------------------------------------------------------------------------

    def _stale(self, node: Any, changed: str) -> set[str]:
        """Other tensors in the changed one's storage that later nodes read."""
        storage = self.builder.tensors[changed].storage
        later = _following(node)
        return {
            value
            for other, value in self.values.items()
            if isinstance(value, Ref)
            and value != changed
            and self.builder.tensors[value].storage == storage
            and any(user in later for user in other.users)
        }

    def _changed(self, changed: str, result: str, stale: set[str]) -> None:
        """Let every name of the changed tensor mean the result from now on; write it through to its base if others
        read that, or another view of it, later."""
        self._rename(changed, result)
        while stale:
            stale.discard(changed)
            source = self.translation.source(changed)
            if source is None or kind_named(source.kind).family is not Family.VIEW:
                break
            result = self._write_back(source, changed, result)
            changed = source.inputs[0]
            self._rename(changed, result)
        if stale - {changed}:
            raise Unsupported("in-place change of a tensor that is read through another view")

    def _rename(self, old: str, new: str) -> None:
        for node, value in self.values.items():
            if isinstance(value, Ref) and value == old:
                self.values[node] = Ref(new)

    def _write_back(self, view: Op, viewed: str, value: str) -> Ref:
        """The base of a view after the view was given a new value."""
        now, base = self.translation, view.inputs[0]
        shape = now.shape(base)
        if view.kind == "reshape":
            return now.emit("reshape", value, shape=shape)
        if view.kind == "transpose":
            order = view.attrs["order"]
            return now.transpose(value, [order.index(axis) for axis in range(len(order))])
        if view.kind == "slice" and view.attrs["steps"] == (1,):
            (axis,), (start,), (stop,) = (view.attrs[key] for key in ("axes", "starts", "stops"))
        elif view.kind == "split":
            axis, part = view.attrs["axis"], view.outputs.index(viewed)
            start = sum(view.attrs["sizes"][:part])
            stop = start + view.attrs["sizes"][part]
        else:
            raise Unsupported(f"in-place change through {view.kind}")
        parts = [now.slice(base, axis, 0, start)] if start else []
        parts.append(Ref(value))
        if stop < shape[axis]:
            parts.append(now.slice(base, axis, stop, shape[axis]))
        return now.emit("concat", *parts, axis=axis) if len(parts) > 1 else Ref(value)


def _rule_for(name: str) -> tuple[Any, bool]:
    """The rule of an operator, and whether it is the in-place form of the operator the rule was written for."""
    if name in RULES:
        return RULES[name], name.partition(".")[0].endswith("_")
    base, _, overload = name.partition(".")
    if base.endswith("_") and not base.endswith("__"):
        plain = base.removesuffix("_")
        for candidate in (f"{plain}.{overload}", f"{plain}.default"):
            if candidate in RULES:
                return RULES[candidate], True
    return None, False


def _operator_name(node: Any) -> str:
    target = node.target
    if target is operator.getitem:
        return "getitem"
    name = str(target)
    return name.removeprefix("aten.") if hasattr(target, "_schema") else getattr(target, "__name__", name)


_COMPOSITE = ("torch.nn.modules.container.", "torch.nn.modules.transformer.", "torch.nn.modules.rnn.")


def _module_path(node: Any) -> tuple[str, bool]:
    """The path of the innermost module that made the call, and whether that is a plain layer of the framework.

    A module that is called again carries a mark in its path, which is dropped.
    """
    stack = node.meta.get("nn_module_stack") or {}
    path, kind = next(reversed(stack.values()), ("", ""))
    kind = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    plain = kind.startswith("torch.nn.modules.") and not kind.startswith(_COMPOSITE)
    path = re.sub(r"@\d+", "", str(path)).strip(".")
    return path, plain and bool(path) and not kind.endswith("MultiheadAttention")


def _following(node: Any) -> set[Any]:
    later, current = set(), node.next
    while current.op != "root":
        later.add(current)
        current = current.next
    return later


def _flat(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [leaf for value in values for leaf in _flat(value)]
    if isinstance(values, dict):
        return [leaf for value in values.values() for leaf in _flat(value)]
    return [values]
