"""Precision policies: which number format parameters, activations, master weights and operands of products have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from monet.errors import OptionError, nearest
from monet.formats import FORMATS, format_named
from monet.graph import Graph
from monet.graph.rewrite import replay_op, with_roots
from monet.nesting import check_nesting
from monet.transforms.product_formats import NAMED, PolicyError, ProductFormats, plain_values, product_formats_of


@dataclass(frozen=True, slots=True)
class Precision:
    """``working`` is the format of weights, activations and gradients; ``master`` that of the copy the optimizer keeps.

    Norm statistics, log-sum-exp and losses stay in fp32 under every policy, as do optimizer states. ``products`` says
    what operands of products are rounded to before they are multiplied; none: they are multiplied as they are.
    ``read``: the format of the same width in which products take in what is in the working format.
    """

    name: str
    working: str
    master: str = ""
    products: ProductFormats | None = None
    read: str = ""

    def __post_init__(self) -> None:
        for name in filter(None, (self.working, self.master)):
            format_named(name)

    @property
    def trainable(self) -> bool:
        """Whether a model can be trained under it."""
        return FORMATS[self.working].may_train


POLICIES = {
    policy.name: policy
    for policy in (
        Precision("fp64", "fp64"),
        Precision("fp32", "fp32"),
        Precision("tf32", "fp32", read="tf32"),
        Precision("bf16", "bf16", master="fp32"),
        Precision("fp16", "fp16", master="fp32"),
        Precision("int16", "int16"),
        Precision("int8", "int8"),
        *(Precision(name, "fp32", products=products) for name, products in NAMED.items()),
    )
}


def precision_named(given: str | Mapping[str, Any]) -> Precision:
    """The policy called so, of a YAML file, or of the content of such a file."""
    if isinstance(given, Mapping):
        return precision_of(given)
    if given.endswith((".yaml", ".yml")):
        return load_precision(given)
    try:
        return POLICIES[given]
    except KeyError:
        raise OptionError("precision", given, nearest(given, POLICIES)) from None


def load_precision(path: str) -> Precision:
    """A policy of microscaling training from a YAML file."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"cannot read precision policy {path!r}: {error}") from None
    check_nesting(text, path)
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PolicyError(f"{path}: not YAML: {error}") from None
    if not isinstance(values, Mapping):
        raise PolicyError(f"{path}: expected a mapping with wide, master, like, forward …, got {values!r}")
    return precision_of(values, path)


def precision_of(values: Mapping[str, Any], source: str = "precision") -> Precision:
    """A policy from plain values: ``wide`` and ``master`` formats, and those of operands (see ``ProductFormats``)."""
    rest = {str(key): value for key, value in values.items() if key not in ("name", "wide", "master")}
    wide, master = (values.get(key) or usual for key, usual in (("wide", "fp32"), ("master", "")))
    for key, name in (("wide", wide), ("master", master)):
        allowed = [policy.working for policy in POLICIES.values() if policy.trainable and not policy.products]
        if name and name not in allowed:
            raise PolicyError(f"{source}: {key} {name!r}: allowed are {', '.join(allowed)}")
    name = str(values.get("name") or Path(source).stem)
    return Precision(name, wide, master, product_formats_of(rest, source))


def precision_values(precision: Precision) -> str | dict[str, Any]:
    """What ``precision_named`` makes the same policy of: its name, or the whole of it."""
    if POLICIES.get(precision.name) == precision or precision.products is None:
        return precision.name
    head = {"name": precision.name, "wide": precision.working, "master": precision.master}
    return head | plain_values(precision.products)


def set_precision(graph: Graph, precision: Precision) -> Graph:
    """A forward graph with every floating-point root, and all that is computed from them, in the working format."""

    def narrowed(dtype: str) -> str:
        return precision.working if FORMATS[dtype].is_float else dtype

    if all(
        narrowed(tensor.dtype) == tensor.dtype for tensor in graph.tensors.values() if tensor.name not in graph.producer
    ):
        return graph
    builder, renamed = with_roots(graph, lambda tensor: replace(tensor, dtype=narrowed(tensor.dtype)))
    for op in graph.ops:
        attrs = {**op.attrs}
        if "dtype" in attrs:
            attrs["dtype"] = narrowed(attrs["dtype"])
        replay_op(builder, graph, op, renamed, attrs)
    return builder.build([renamed[name] for name in graph.outputs])
