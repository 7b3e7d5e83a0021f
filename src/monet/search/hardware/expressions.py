"""Constraints and derived values as people write them: ``area_mm2 <= 100``, ``rows * columns / 64``. Parsed, never run
as Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from monet.errors import MonetError, nearest

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max}
_GRAMMAR = "a constraint compares sums and products of names and numbers: area_mm2 <= 100"
_VALUE_GRAMMAR = "a derived value is made of sums and products of names and numbers: max(1024, rows * columns)"


class ExpressionError(MonetError):
    """A constraint that cannot be read or computed."""


@dataclass(frozen=True)
class Comparison:
    """One comparison, or a chain of them."""

    text: str
    names: frozenset[str]
    _tree: ast.Compare

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it is true of the values."""
        return self.violation(values) == 0.0

    def violation(self, values: Mapping[str, Any]) -> float:
        """0 if it holds, else by how much it is missed relative to its bound: for a search that steers by it."""
        sides = [self._value(side, values) for side in (self._tree.left, *self._tree.comparators)]
        worst = 0.0
        for left, kind, right in zip(sides, self._tree.ops, sides[1:], strict=False):
            try:
                if _COMPARISONS[type(kind)][1](left, right):
                    continue
            except TypeError:
                raise ExpressionError(f"{self.text!r}: {left!r} and {right!r} cannot be compared") from None
            numbers = isinstance(left, int | float) and isinstance(right, int | float)
            worst = max(worst, (abs(left - right) / (abs(right) or 1.0) if numbers else 0.0) or 1e-12)
        return worst

    def explain(self, values: Mapping[str, Any]) -> str:
        """The comparison with the values it was computed from: ``area_mm2 <= 100 (area_mm2 is 106.6)``."""
        given = ", ".join(f"{name} is {_shown(values[name])}" for name in sorted(self.names))
        return f"{self.text} ({given})"

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> Any:
        return _computed(node, values, self.text)


@dataclass(frozen=True)
class Expression:
    """A number, or another value, made of named ones."""

    text: str
    names: frozenset[str]
    _tree: ast.expr

    def value(self, values: Mapping[str, Any]) -> Any:
        """What it comes to; whole numbers stay whole, also where they were divided."""
        found = _computed(self._tree, values, self.text)
        return int(found) if isinstance(found, float) and found.is_integer() else found


def _computed(node: ast.expr, values: Mapping[str, Any], text: str) -> Any:
    name = _name(node)
    if name is not None:
        return values[name]
    try:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -_computed(operand, values, text)
            case ast.BinOp(left=left, op=kind, right=right):
                return _ARITHMETIC[type(kind)](_computed(left, values, text), _computed(right, values, text))
            case ast.Call(func=ast.Name(id=function), args=arguments):
                return _FUNCTIONS[function](*(_computed(argument, values, text) for argument in arguments))
            case ast.Subscript(value=ast.Name(id=table), slice=key):
                return _looked_up(table, values[table], _computed(key, values, text), text)
    except (TypeError, ZeroDivisionError, OverflowError) as error:
        raise ExpressionError(f"{text!r} cannot be computed: {error}") from None
    raise AssertionError(f"{ast.dump(node)} was let through by the parser")


def _looked_up(name: str, table: Mapping[Any, Any], key: Any, text: str) -> Any:
    for entry in (key, str(key)):  # a number is a word once the table has been JSON
        if entry in table:
            return table[entry]
    raise ExpressionError(f"{text!r}: {name} has no entry {_shown(key)}; it has {', '.join(map(str, table))}")


def parse_expression(text: str, allowed: Collection[str], tables: Collection[str] = ()) -> Expression:
    """A value made of some names, and of entries of tables (``price[rows]``); anything else is an error that says what
    is allowed."""
    try:
        tree = ast.parse(str(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise ExpressionError(f"{text!r} cannot be read; {_VALUE_GRAMMAR}") from None
    names: set[str] = set()
    _check(tree, str(text), allowed, names, _VALUE_GRAMMAR, tables)
    return Expression(str(text).strip(), frozenset(names), tree)


def parse_comparison(text: str, allowed: Collection[str]) -> Comparison:
    """A comparison over some names; anything else is an error that says what is allowed."""
    try:
        tree = ast.parse(str(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise ExpressionError(f"{text!r} cannot be read; {_GRAMMAR}") from None
    if not isinstance(tree, ast.Compare) or any(type(kind) not in _COMPARISONS for kind in tree.ops):
        raise ExpressionError(f"{text!r} is not a comparison with <, <=, >, >=, == or !=; {_GRAMMAR}")
    names: set[str] = set()
    for side in (tree.left, *tree.comparators):
        _check(side, str(text), allowed, names)
    if not names:
        raise ExpressionError(f"{text!r} names nothing that could vary; {_GRAMMAR}")
    return Comparison(str(text).strip(), frozenset(names), tree)


def _check(
    node: ast.expr,
    text: str,
    allowed: Collection[str],
    names: set[str],
    grammar: str = _GRAMMAR,
    tables: Collection[str] = (),
) -> None:
    name = _name(node)
    if name is not None:
        if name not in allowed:
            raise ExpressionError(f"{text!r}: unknown name {name!r}; {nearest(name, allowed)}")
        names.add(name)
        return
    match node:
        case ast.Constant(value=value) if isinstance(value, int | float | str) and not isinstance(value, bool):
            return
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check(operand, text, allowed, names, grammar, tables)
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _ARITHMETIC:
            _check(left, text, allowed, names, grammar, tables)
            _check(right, text, allowed, names, grammar, tables)
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]) if function in _FUNCTIONS and arguments:
            for argument in arguments:
                _check(argument, text, allowed, names, grammar, tables)
        case ast.Subscript(value=ast.Name(id=table), slice=key) if table in tables:
            _check(key, text, allowed, names, grammar, tables)
        case _:
            raise ExpressionError(f"{text!r}: {ast.unparse(node)!r} is not allowed; {grammar}")


def _name(node: ast.expr) -> str | None:
    """``area_mm2`` or ``training.latency_s``; None if the node is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _name(node.value)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
