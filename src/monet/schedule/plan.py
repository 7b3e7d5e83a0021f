"""Plans: which operators are fused and how they are tiled, which cores run them. Saved and edited as YAML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from monet.display import Displayed
from monet.errors import MonetError, nearest
from monet.hashed import Hashed
from monet.nesting import check_nesting

BOUNDARIES = ("keep", "local", "dram")
HALOS = ("cached", "recomputed")
TILES = ("latency", "throughput")
MOST_SPLIT = 3  # dimensions of an operator that are cut at once


class PlanError(MonetError):
    """A plan that does not fit the graph or the accelerator; says where and what would."""


class Group(NamedTuple):
    """A fusion group: operators that run tile by tile, depth first. ``tile`` gives tile sizes of its last operator's
    dimensions. Without any, operators run whole, one right after another, each with the tiles that the mapper chooses:
    what passes between them stays on chip as far as there is room."""

    operators: tuple[str, ...]
    tile: tuple[tuple[str, int], ...] = ()
    halo: str = "cached"


Split = tuple[tuple[str, int], ...]  # (dimension, parts it is cut into); the parts of the last one change fastest


MANY = 16  # cores of a placement that are worth one object for all placements on them


@lru_cache(maxsize=256)
def same_cores(cores: tuple[str, ...]) -> tuple[str, ...]:
    """Of equal names of cores the first."""
    return Hashed(cores)


class _Placement(NamedTuple):
    cores: tuple[str, ...]
    split: Split


class Placement(_Placement):
    """The cores of an operator, and the dimensions of its nest that are split over them: one to three, cut into as many
    parts as there are cores, all together (none for one core). A dimension's name alone is split over all cores.

    Piece number i goes to core number i, the parts of the last dimension changing fastest; parts differ by one at most.
    """

    __slots__ = ()

    def __new__(cls, cores: tuple[str, ...], split: Split | str = ()) -> Placement:
        """A dimension's name stands for a split of it over all cores."""
        if isinstance(split, str):
            split = ((split, len(cores)),) if split else ()
        return super().__new__(cls, same_cores(cores) if len(cores) >= MANY else cores, split)

    @property
    def dims(self) -> frozenset[str]:
        """Dimensions that are cut."""
        return frozenset(dim for dim, parts in self.split if parts > 1)

    def parts(self, dim: str) -> int:
        """How many parts a dimension is cut into."""
        return dict(self.split).get(dim, 1)


def split_text(split: Split, short: bool = True) -> str:
    """A split as text: ``K``, ``K:4 N:2``; ``short``: without the parts if there is one dimension."""
    if short and len(split) == 1:
        return split[0][0]
    return " ".join(f"{dim}:{parts}" for dim, parts in split)


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """Every decision of a schedule that is not the memory manager's.

    Operators in no group run alone. ``boundary``: ``keep`` leaves results on chip until they are evicted, other cores
    get them from there; ``local`` also leaves them, but only for the core that made them: what others use is written to
    DRAM, where they read it; ``dram`` writes everything out. Of all that could start, links serve what comes first in
    the plan (``serving``). When a core asks for a tile's operands is a matter of the
    hardware (``tile_buffers`` of its description, see ``schedule.prefetch``) unless ``prefetch`` says otherwise: 0,
    when its core is done with the tile before; a larger number, as soon as there is room, results may wait behind the
    reads of so many tiles (of every operator, on every core of a group), and in a group over several cores those that
    come first run so many tiles ahead.
    ``buffer_share``: share of a memory that an operator alone may take for its own tiles, so that results of others
    can stay there. ``memory_share``: share of every memory on chip that is used at all; what is left empty is not
    fetched into ahead of what is needed now. ``tiles``: what the tiles of an operator alone are chosen for:
    ``latency``, it is done soonest on an idle machine; ``throughput``, core and wires together have the least to do,
    whichever of them it waits for.
    """

    groups: tuple[Group, ...] = ()
    placements: Mapping[str, Placement] = field(default_factory=dict)
    boundary: str = "keep"
    prefetch: int | None = None
    buffer_share: float = 1.0
    tiles: str = "latency"
    memory_share: float = 1.0

    @property
    def share(self) -> float:
        """Share of a memory that an operator alone may take: all of it where nothing stays on chip."""
        return 1.0 if self.boundary == "dram" else self.buffer_share

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML or JSON."""
        return {
            "boundary": self.boundary,
            **({} if self.prefetch is None else {"prefetch": self.prefetch}),
            "buffer_share": self.buffer_share,
            **({} if self.tiles == "latency" else {"tiles": self.tiles}),
            **({} if self.memory_share == 1.0 else {"memory_share": self.memory_share}),
            "groups": [
                {"operators": list(group.operators)}
                | ({"tile": dict(group.tile)} if group.tile else {})
                | ({"halo": group.halo} if group.halo != "cached" else {})
                for group in self.groups
            ],
            "allocation": {
                name: {"cores": list(placement.cores)} | ({"split": _plain(placement)} if placement.split else {})
                for name, placement in self.placements.items()
            },
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "plan") -> Plan:
        """A plan from plain values; anything unknown is an error that names its place."""
        allowed = ("boundary", "prefetch", "buffer_share", "tiles", "memory_share", "groups", "allocation")
        if not isinstance(values, Mapping):
            raise PlanError(f"{source}: expected keys {', '.join(allowed)}, got {values!r}")
        for key in values:
            if key not in allowed:
                raise PlanError(f"{source}: unknown key {key!r}; {nearest(str(key), allowed)}")
        boundary = values.get("boundary", "keep")
        if boundary not in BOUNDARIES:
            raise PlanError(f"{source}: boundary {boundary!r}: allowed are {', '.join(BOUNDARIES)}")
        prefetch = values.get("prefetch")
        if prefetch is not None and (not isinstance(prefetch, int) or isinstance(prefetch, bool) or prefetch < 0):
            raise PlanError(f"{source}: prefetch {prefetch!r}: a whole number of tiles, 0 or more")
        shares = {name: values.get(name, 1.0) for name in ("buffer_share", "memory_share")}
        for name, share in shares.items():
            if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
                raise PlanError(f"{source}: {name} {share!r}: more than 0, at most 1")
        tiles = values.get("tiles", "latency")
        if tiles not in TILES:
            raise PlanError(f"{source}: tiles {tiles!r}: {nearest(str(tiles), TILES)}")
        listed, placed = values.get("groups") or [], values.get("allocation") or {}
        if not isinstance(listed, list | tuple):
            raise PlanError(f"{source}: groups: expected a list of groups, got {listed!r}")
        if not isinstance(placed, Mapping):
            raise PlanError(f"{source}: allocation: expected operator: cores, got {placed!r}")
        groups = tuple(_group(entry, f"{source}: groups.{i}") for i, entry in enumerate(listed))
        placements = {str(name): _placement(entry, f"{source}: allocation.{name}") for name, entry in placed.items()}
        buffers, memories = (float(share) for share in shares.values())
        return cls(groups, placements, boundary, prefetch, buffers, tiles, memories)


def _group(values: Any, place: str) -> Group:
    if not isinstance(values, Mapping) or not isinstance(values.get("operators"), list) or not values["operators"]:
        raise PlanError(f"{place}: expected a list 'operators', and 'tile' and 'halo' if wanted")
    for key in values:
        if key not in ("operators", "tile", "halo"):
            raise PlanError(f"{place}: unknown key {key!r}; {nearest(str(key), ('operators', 'tile', 'halo'))}")
    tile, halo = values.get("tile") or {}, values.get("halo", "cached")
    if not isinstance(tile, Mapping):
        raise PlanError(f"{place}.tile: expected dimension: size, got {tile!r}")
    for dim, size in tile.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise PlanError(f"{place}.tile.{dim}: {size!r} is not a tile size")
    if halo not in HALOS:
        raise PlanError(f"{place}.halo: {halo!r}: allowed are {', '.join(HALOS)}")
    return Group(tuple(map(str, values["operators"])), tuple((str(d), s) for d, s in tile.items()), halo)


def _placement(values: Any, place: str) -> Placement:
    if isinstance(values, str):
        return Placement((values,))
    if isinstance(values, list):
        values = {"cores": values}
    if not isinstance(values, Mapping) or not isinstance(values.get("cores"), list) or not values["cores"]:
        raise PlanError(f"{place}: expected a core, or a list 'cores' and a 'split'")
    for key in values:
        if key not in ("cores", "split"):
            raise PlanError(f"{place}: unknown key {key!r}; {nearest(str(key), ('cores', 'split'))}")
    cores, split = tuple(map(str, values["cores"])), values.get("split") or ""
    if isinstance(split, str):
        return Placement(cores, split)
    if not isinstance(split, Mapping) or len(split) > MOST_SPLIT:
        raise PlanError(
            f"{place}.split: expected a dimension, or parts of one to three of them ({{K: 4, N: 2}}), got {split!r}"
        )
    for dim, parts in split.items():
        if not isinstance(parts, int) or isinstance(parts, bool) or parts < 1:
            raise PlanError(f"{place}.split.{dim}: {parts!r} is not a number of parts")
    pieces = math.prod(split.values())
    if pieces != len(cores):
        raise PlanError(f"{place}.split: {pieces} pieces for {len(cores)} cores")
    return Placement(cores, tuple((str(dim), parts) for dim, parts in split.items()))


def _plain(placement: Placement) -> str | dict[str, int]:
    """A split as plain values: a dimension's name if that says it all."""
    split = placement.split
    return split[0][0] if len(split) == 1 else dict(split)


def load_plan(path: str) -> Plan:
    """A plan from a YAML file."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise PlanError(f"cannot read plan {path!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: not YAML: not a text file") from None
    check_nesting(text, path)
    try:
        return Plan.from_dict(yaml.safe_load(text) or {}, path)
    except yaml.YAMLError as error:
        raise PlanError(f"{path}: not YAML: {error}") from None


def plan_text(plan: Plan) -> str:
    """A plan as YAML."""
    return yaml.safe_dump(plan.to_dict(), sort_keys=False, default_flow_style=None, width=110)
