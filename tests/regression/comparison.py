"""What moved between stored figures and those of now."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

from tests.regression.evaluate import HERE, Figures

RELATIVE = 1e-9  # of joules, seconds and ratios; ticks and bytes are exact
EXECUTED = {"gradient_error": 1e-4}  # of what a step in NumPy finds: sums depend on the processor (3e-6 between two)


@cache
def stored() -> dict[str, Figures]:
    """Run → figures as committed."""
    found: dict[str, Figures] = json.loads((HERE / "figures.json").read_text())
    return found


def flat(values: Any, path: str = "") -> dict[str, Any]:
    """Path → figure; what is empty is a figure too."""
    if not isinstance(values, dict | list) or not values:
        return {path: values}
    inside = values.items() if isinstance(values, dict) else enumerate(values)
    return {key: one for name, value in inside for key, one in flat(value, f"{path}/{name}".strip("/")).items()}


def same(first: Any, second: Any, path: str = "") -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=EXECUTED.get(path.split("/")[-1], RELATIVE), abs_tol=0.0)
    return type(first) is type(second) and bool(first == second)


def differences(before: Figures, now: Figures) -> list[str]:
    """One line per figure that moved."""
    first, second = flat(before), flat(now)
    return [
        f"{path}: {first.get(path, 'absent')} stored, {second.get(path, 'absent')} now"
        for path in sorted(first.keys() | second.keys())
        if path not in first or path not in second or not same(first[path], second[path], path)
    ]
