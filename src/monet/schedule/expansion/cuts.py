"""How storages are cut into blocks: each by whoever touches it first, as fine as groups need it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from monet.arrays import I64
from monet.graph.loop_nest import Operand
from monet.graph.tensor import Tensor
from monet.schedule.expansion.geometry import Grid, axis_map
from monet.schedule.machine import Machine
from monet.schedule.workload import Workload

if TYPE_CHECKING:
    from monet.schedule.costs.cost_table import OperatorSteps
    from monet.schedule.expansion.operator_arrays import OperatorArrays


class Cuts:
    """How every storage touched so far is cut into blocks, and by whom."""

    def __init__(self, workload: Workload, machine: Machine) -> None:
        self.workload, self.machine = workload, machine
        self.grids: dict[str, Grid] = {}  # of every storage touched; where its blocks start is in ``base``
        self.base: dict[str, int] = {}
        self.origin: dict[str, OperatorSteps] = {}  # storage → who cut it
        self.number: dict[str, int] = {}  # storage → number of how it is cut, and by which group
        self.finer: dict[
            str, tuple[tuple[Tensor, Mapping[int, I64]], ...]
        ] = {}  # cuts of groups that it has to be as fine as
        self.new: list[tuple[str, Grid, I64]] = []  # those that the operator at hand cuts
        self.waiting: list[
            tuple[OperatorSteps, OperatorArrays]
        ] = []  # operators whose cuts are known but not noted yet
        self.noted: list[
            tuple[int, I64, int, int, I64]
        ] = []  # by storage: first block, sizes, number, row of its flags, sizes in the memory of one core of many
        self.n_blocks = 0

    def cut_finer(self, stepped: OperatorSteps, made: frozenset[str], overwritten: frozenset[str]) -> None:
        """Remember how an operator of a group cuts what lies outside of it (``made``: what the group itself makes), so
        that blocks are as fine as that, whoever touches them first: storages that are ``overwritten`` by tiles (an
        update its weights), and what each core reads the same part of in every tile, and so can hold."""
        if stepped.steps.pieces == 1 and overwritten.isdisjoint(stepped.operator.written):
            return
        for position, (operand, tensor) in enumerate(stepped.operator.operands):
            overwrites = operand.written and tensor.storage in overwritten
            if overwrites or (
                not operand.written and tensor.storage not in made and self._same_in_all_tiles(stepped, operand)
            ):
                edges = stepped.costed.edges(position, operand, stepped.operator.nest)
                if edges:
                    self.finer[tensor.storage] = (*self.finer.get(tensor.storage, ()), (tensor, edges))

    def _same_in_all_tiles(self, stepped: OperatorSteps, operand: Operand) -> bool:
        split = stepped.placement.dims
        return bool(split & operand.dims) and not (stepped.steps.ranges.keys() - split) & operand.dims

    def _merged(self, tensor: Tensor, edges: Mapping[int, I64]) -> Mapping[int, I64]:
        """Edges of a storage's axes, with those of all who overwrite it by tiles."""
        merged = dict(edges)
        for seen, more in self.finer.get(tensor.storage, ()):
            for axis, there in (axis_map(seen, tensor) or {}).items():
                if there in more:
                    merged[axis] = np.union1d(merged[axis], more[there]) if axis in merged else more[there]
        return merged

    def finer_content(self, storage: str) -> tuple[Any, ...]:
        """How those who overwrite a storage by tiles cut it."""
        return tuple(
            (seen.shape, seen.strides, *((axis, edge.tobytes()) for axis, edge in more.items()))
            for seen, more in self.finer.get(storage, ())
        )

    def grid_of(self, tensor: Tensor, edges: Mapping[int, I64], stepped: OperatorSteps) -> Grid:
        """The blocks of a storage, cut by whoever touches it first."""
        storage = tensor.storage
        if storage not in self.grids:
            self.cut(storage, *self.new_grid(tensor, edges), stepped)
        return self.grid(storage)

    def new_grid(self, tensor: Tensor, edges: Mapping[int, I64]) -> tuple[Grid, I64]:
        """Blocks of a storage that nobody has touched before, and their bytes."""
        found = self.workload.storages[tensor.storage]
        if tensor.elements != found.tensor.elements:
            tensor, edges = found.tensor, {}
        grid = Grid(tensor, self._merged(tensor, edges) if self.finer else edges, self.n_blocks)
        return grid, grid.sizes(found.tensor.bytes)

    def grid(self, storage: str) -> Grid:
        """The blocks of a storage touched before, counted from where they start now."""
        grid = self.grids[storage]
        if grid.base != self.base[storage]:
            grid = self.grids[storage] = replace(grid, base=self.base[storage])
        return grid

    def cut(self, storage: str, grid: Grid, sizes: I64, stepped: OperatorSteps) -> None:
        """The operator at hand cuts a storage that nobody has touched before."""
        self.new.append((storage, grid, sizes))
        self._note(storage, grid, sizes, stepped)

    def _note(self, storage: str, grid: Grid, sizes: I64, stepped: OperatorSteps) -> None:
        """The blocks of a storage that nobody has touched before."""
        found, start = self.workload.storages.get(storage), self.n_blocks
        self.grids[storage], self.base[storage] = grid, start
        if found is not None:
            number = flags = found.number
        else:  # sums that cores keep for themselves
            known, position = self.workload.storages, next(p for p, name in stepped.sums.items() if name == storage)
            number, flags = known[stepped.operator.operands[position][1].storage].number, len(known)
        self.noted.append((start, sizes, number, flags, sizes if grid.layout is None else grid.layout.own))
        self.n_blocks = start + len(sizes)

    def catch_up(self) -> None:
        """Note the cuts of operators whose arrays were looked up: only now is asked where blocks start."""
        for stepped, arrays in self.waiting:
            for position, grid, sizes in arrays.grids:
                storage = stepped.storages[position]
                self.origin[storage] = stepped
                self._note(storage, grid, sizes, stepped)
        self.waiting = []

    def forget_new(self) -> None:
        """Undo the cuts of the operator at hand."""
        for storage, _, sizes in reversed(self.new):
            del self.grids[storage], self.base[storage]
            self.noted.pop()
            self.n_blocks -= len(sizes)
        self.new = []

    def same_group(self, stepped: OperatorSteps, storage: str) -> bool:
        """Whether a storage was cut by the group of an operator, or by nobody yet."""
        return storage not in self.origin or self.origin[storage].tiled == stepped.tiled

    def sizes_of(self, grid: Grid) -> I64:
        """Bytes of the blocks of a storage."""
        return self._noted(grid.base)[1]

    def bytes_of(self, blocks: I64) -> int:
        """Bytes of some blocks of one storage."""
        base, sizes, *_ = self._noted(int(blocks[0]))
        return int(sizes[blocks - base].sum())

    def _noted(self, block: int) -> tuple[int, I64, int, int, I64]:
        """What was noted of the storage of a block."""
        return self.noted[bisect_right(self.noted, block, key=itemgetter(0)) - 1]
