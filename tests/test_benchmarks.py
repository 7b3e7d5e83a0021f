"""Benchmarks run by hand; that what they import is still there is looked at here."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_what_a_benchmark_imports_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "monet":
            module = import_module(node.module or "")
            missing = [one.name for one in node.names if not hasattr(module, one.name)]
            assert not [name for name in missing if find_spec(f"{node.module}.{name}") is None]
