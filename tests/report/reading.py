"""Printed figures read back, without the code that printed them: ``12.34 ms`` shows 0.01234 s to its four digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
Columns = Mapping[str, tuple[str, Callable[[Any], Any]]]  # heading → unit, what it shows of a row


def shows(text: str, value: Any, unit: str) -> bool:
    """Whether ``text`` is how people read ``value``. Units: ``n`` a count in full, ``%`` a share, ``×`` a ratio, empty
    for words and for counts with a prefix, else that of a quantity."""
    if isinstance(value, str):
        return text == value
    if unit == "n":
        return bool(re.fullmatch(r"\d{1,3}(,\d{3})*", text)) and int(text.replace(",", "")) == value
    if unit == "%":
        found = re.fullmatch(r"(\d+)(\.\d)? %", text)
        return bool(found) and abs(float(text[:-2]) - 100 * value) <= (0.0501 if found[2] else 0.501)
    if unit == "×":
        found = re.fullmatch(r"(\d\.\d\d|\d{2,}(\.\d)?)×", text)
        return bool(found) and abs(float(text[:-1]) - value) <= max(0.00501, 0.00501 * value * (value >= 10))
    found = re.fullmatch(rf"(-?\d+(?:\.\d+)?) ?([{''.join(PREFIXES)}]?){re.escape(unit)}", text)
    if not found or not (float(found[1]) == 0 or 1 <= abs(float(found[1])) < 1000 or unit == "B"):
        return False
    scale = PREFIXES[found[2]]
    digits = 0.5 * scale if unit == "B" and scale == 1 else 5.01e-4 * abs(value)
    return abs(float(found[1]) * scale - value) <= digits


def check(text: str, value: Any, unit: str, where: str) -> None:
    """Fail unless ``text`` shows ``value``."""
    assert shows(text, value, unit), f"{where}: {text!r} does not show {value!r} ({unit or 'words or a count'})"


def check_table(lines: list[str], columns: Columns, rows: Iterable[Any], where: str) -> None:
    """Every cell of a printed table against what its heading should show; a heading that is not listed fails."""
    heads, shown, rows = re.split(r"  +", lines[0].strip()), lines[1:], list(rows)
    assert heads == list(columns), f"{where}: columns {heads}"
    assert len(shown) == len(rows), f"{where}: {len(shown)} rows"
    for line, row in zip(shown, rows, strict=True):
        cells = re.split(r"  +", line.strip())
        assert len(cells) == len(heads), f"{where}: {line!r}"
        for head, cell in zip(heads, cells, strict=True):
            unit, value = columns[head]
            check(cell, value(row), unit, f"{where}, {head}")


def check_words(text: str, template: str, where: str, **values: tuple[Any, str]) -> None:
    """A sentence against a template: ``{name}`` stands for a figure, everything else is as printed."""
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(template))
    found = re.fullmatch(pattern, text)
    assert found, f"{where}: {text!r} is not {template!r}"
    assert set(found.groupdict()) == set(values), where
    for name, (value, unit) in values.items():
        check(found[name].strip(), value, unit, f"{where}, {name}")
