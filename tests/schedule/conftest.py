"""Comparisons of seconds and joules here are strict: ``pytest.approx`` also takes what differs by 1e-12 unless it is
told not to, which is all of a picosecond or a picojoule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """No absolute tolerance but one that is given; the relative one is pytest's."""
    plain: Callable[..., Any] = pytest.approx

    def approx(expected: Any, rel: float | None = None, abs: float | None = None, **more: Any) -> Any:
        return plain(expected, rel=1e-6 if rel is None and abs is None else rel, abs=abs or 0.0, **more)

    monkeypatch.setattr(pytest, "approx", approx)
