"""Exploring hardware: a space of accelerators and workloads, searched point by point, every point kept."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monet.search.hardware.engine import Engine
    from monet.search.hardware.exploration import Exploration, explore
    from monet.search.hardware.space import Space, load_space
    from monet.search.hardware.store import Store

_LATER = {
    "Engine": "monet.search.hardware.engine",
    "Exploration": "monet.search.hardware.exploration",
    "Space": "monet.search.hardware.space",
    "Store": "monet.search.hardware.store",
    "explore": "monet.search.hardware.exploration",
    "load_space": "monet.search.hardware.space",
}

__all__ = ["Engine", "Exploration", "Space", "Store", "explore", "load_space"]


def __getattr__(name: str) -> Any:
    """Import a part when it is first used: reading a store needs no scheduler."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'monet.search.hardware' has no attribute {name!r}")
