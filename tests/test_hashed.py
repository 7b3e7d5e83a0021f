"""Tuples that know their hash."""

from __future__ import annotations

import pickle

from monet.hashed import Hashed
from monet.schedule.plan import MANY, Placement


def test_a_hashed_tuple_is_a_tuple() -> None:
    names = Hashed(("a", "b"))
    assert names == ("a", "b")
    assert hash(names) == hash(("a", "b"))
    assert {names: 1}["a", "b"] == 1


def test_a_hash_stays_in_its_process() -> None:
    names = Hashed(("a", "b"))
    hash(names)
    again = pickle.loads(pickle.dumps(names))
    assert again == names
    assert isinstance(again, Hashed)
    assert "_hash" not in vars(again)


def test_placements_on_the_same_cores_share_their_names() -> None:
    names = [f"core[{number}]" for number in range(MANY)]
    first, second = Placement(tuple(names), "K"), Placement(tuple(names), "N")
    assert first.cores is second.cores
    assert Placement(tuple(names[:2]), "K").cores == tuple(names[:2])
