"""Mappings and constraints as a user writes them: YAML in, plain data of the same form out, to be edited."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monet.errors import nearest
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import OPERANDS
from monet.mapping.errors import MappingError
from monet.mapping.mapper.tiling import Constraints
from monet.mapping.nest.mapping import Binding, Cut, Loop, Mapping, Unrolled
from monet.mapping.unfused.operator import Unfused
from monet.nesting import check_nesting


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Unrolled(_Strict):
    axis: str
    dim: str
    factor: int = Field(ge=1)


class _Loop(_Strict):
    dim: str
    trips: int = Field(ge=1)


class _Cut(_Strict):
    slot: str
    level: str
    position: int = Field(ge=0)


class _Slots(_Strict):
    I: str  # noqa: E741
    W: str
    O: str  # noqa: E741


class _Dram(_Strict):
    tile: dict[str, int] = {}
    order: list[str] = []


class MappingDocument(_Strict):
    """The file: what runs side by side, the loops of a tile from outside in, where each level cuts, the DRAM tile."""

    mode: str = ""
    slots: _Slots
    unrolled: list[_Unrolled] = []
    loops: list[_Loop] = []
    cuts: list[_Cut] = []
    dram: _Dram = _Dram()


@dataclass(frozen=True, slots=True)
class WrittenMapping:
    """A mapping from a file, with its DRAM tile and the order of loops over tiles."""

    mapping: Mapping
    tile: dict[str, int]
    order: tuple[str, ...]


def read_mapping(path: str, default_mode: str) -> WrittenMapping:
    """Read a mapping file; all problems are reported together."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        check_nesting(text, path)
        document = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise MappingError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        raise MappingError(f"{path}: not valid YAML: {error}") from None
    try:
        found = MappingDocument.model_validate(document)
    except ValidationError as error:
        problems = [
            f"  {'.'.join(map(str, problem['loc'])) or '(top)'}: {problem['msg']}" for problem in error.errors()
        ]
        raise MappingError(f"{path}: {len(problems)} problem(s)\n" + "\n".join(problems)) from None
    mapping = Mapping(
        found.mode or default_mode,
        Binding(found.slots.I, found.slots.W, found.slots.O),
        tuple(Unrolled(unrolling.axis, unrolling.dim, unrolling.factor) for unrolling in found.unrolled),
        tuple(Loop(loop.dim, loop.trips) for loop in found.loops),
        tuple(Cut(cut.slot, cut.level, cut.position) for cut in found.cuts),
    )
    return WrittenMapping(mapping, found.dram.tile, tuple(found.dram.order))


def mapping_document(found: Unfused) -> dict[str, Any]:
    """A mapping as plain data, in the form of the file."""
    mapping = found.mapped.mapping
    return {
        "mode": mapping.mode,
        "slots": {slot: mapping.binding.operand(slot) for slot in OPERANDS},
        "unrolled": [
            {"axis": unrolling.axis, "dim": unrolling.dim, "factor": unrolling.factor} for unrolling in mapping.unrolled
        ],
        "loops": [{"dim": loop.dim, "trips": loop.trips} for loop in mapping.loops],
        "cuts": [{"slot": cut.slot, "level": cut.level, "position": cut.position} for cut in mapping.cuts],
        "dram": {"tile": dict(found.tile), "order": [loop.dim for loop in found.order]},
    }


def check_operands(written: WrittenMapping, nest: LoopNest) -> None:
    """The slots must hold the operands of the nest, the output in O."""
    reads, output = {operand.name for operand in nest.reads}, nest.writes[0].name
    binding = written.mapping.binding
    if {binding.I, binding.W} != reads or output != binding.O:
        expected = f"inputs {', '.join(sorted(reads))} in I and W, {output} in O"
        raise MappingError(f"slots: got I={binding.I}, W={binding.W}, O={binding.O}; expected {expected}")


_STATIONARY = re.compile(r"^(?:keep\s+)?(\w+)\s+stationary$")
_AT_MOST = re.compile(r"^(?:tile\s+)?(?:([\w.\-]+):)?\s*(\w+)\s*(?:<=|≤)\s*(\d+)$")


def read_constraints(
    texts: list[str], operands: Dictionary[str, str], dims: Iterable[str], levels: Iterable[str]
) -> Constraints:
    """``keep W stationary``, ``tile OY <= 4``, ``LEVEL:OY<=4``; ``operands`` says which operand a slot name means.

    ``dims`` and ``levels`` are the names that exist: a constraint on anything else would constrain nothing.
    """
    dims, levels = tuple(dims), tuple(levels)
    stationary, tiles = set(), []
    for text in texts:
        pinned, limited = _STATIONARY.match(text.strip()), _AT_MOST.match(text.strip())
        if pinned and pinned[1] in (*operands, *operands.values()):
            stationary.add(operands.get(pinned[1], pinned[1]))
        elif limited:
            level, dim, most = limited[1] or "", limited[2], int(limited[3])
            if dim not in dims:
                raise MappingError(f"--constraint {text!r}: no dimension {dim!r}; {nearest(dim, dims)}")
            if level and level not in levels:
                raise MappingError(f"--constraint {text!r}: no memory level {level!r}; {nearest(level, levels)}")
            if most < 1:
                raise MappingError(f"--constraint {text!r}: a tile has at least 1 element")
            tiles.append((level, dim, most))
        else:
            raise MappingError(
                f"--constraint {text!r}: expected 'keep W stationary', 'OY<=4' or 'LEVEL:OY<=4', with W one of I, W, O"
            )
    return Constraints(frozenset(stationary), tuple(tiles))
