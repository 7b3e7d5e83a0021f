"""Chips: latency measured on silicon against the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from monet.validation.figure import Figure, NotComputable

TOPIC = "silicon"
DEPFIN = "DepFiN chip, as measured in the Stream validation (KULeuven-MICAS/stream, branch validation, 34853444)"
AIMC = "Jia et al. 4×4 analog in-memory chip, as measured in the Stream validation"


def _depfin() -> float:
    raise NotComputable("waits for the scheduler: FSRCNN 540×960 in rows of one line, one core")


def _aimc() -> float:
    raise NotComputable("waits for the scheduler: five layers of ResNet-50 in tiles of 2×1 pixels, five cores")


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    yield Figure(TOPIC, "depfin, FSRCNN 540×960: latency", "cycles", 6.18e6, 0.04, DEPFIN, _depfin)
    yield Figure(TOPIC, "aimc-4x4, ResNet-50 segment: latency", "cycles", 66_302, 0.05, AIMC, _aimc)
