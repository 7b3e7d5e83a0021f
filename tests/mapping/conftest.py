"""Picojoules, nanoseconds and square micrometres are compared by their ratio: what ``pytest.approx`` allows beside it,
1e-12, is a picojoule, so that any two of these would be equal."""

from __future__ import annotations

import pytest

SMALLEST = 1e-30


@pytest.fixture(autouse=True)
def _picojoules_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(pytest.approx(1.0)), "DEFAULT_ABSOLUTE_TOLERANCE", SMALLEST)
