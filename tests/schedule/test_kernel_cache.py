"""Kernels on disk are those of the sources as they are, also of files that a kernel only takes functions from."""

from __future__ import annotations

import pytest

from monet.compiled import fingerprint
from monet.schedule.simulation import decide, levels, nodes, residency, supply


def test_a_fingerprint_covers_functions_and_constants_of_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = decide.decide.__wrapped__
    before = fingerprint(kernel)
    assert fingerprint(kernel) == before
    for module, name in ((residency, "NEVER"), (nodes, "JOIN"), (supply, "SPILL")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 12345)
            assert fingerprint(kernel) != before, name
    with monkeypatch.context() as patch:
        patch.setattr(levels, "farthest", nodes.join)
        assert fingerprint(kernel) != before
    assert fingerprint(kernel) == before
