"""A few cases of every kind of hostile input on every run; ``make fuzz`` runs ten thousand."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.kinds import KINDS

EXAMPLES = {"hardware": 40, "results": 8, "models": 40, "plans": 8, "stores": 8, "options": 12, "values": 40}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_hostile_input_is_refused_in_words(kind: str) -> None:
    @settings(max_examples=EXAMPLES[kind], deadline=None, database=None, derandomize=True)
    @given(st.integers(0, 2**32))
    def case(seed: int) -> None:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            KINDS[kind](Random(seed), Path(folder))

    case()


def test_a_signal_ends_a_command_and_its_workers(tmp_path: Path) -> None:
    KINDS["signals"](Random(1), tmp_path)
