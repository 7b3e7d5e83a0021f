"""Assemble: number what the rows of all operators refer to, and note when every block is used. A compiled kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monet.arrays import I64, Table
from monet.compiled import kernel, part
from monet.schedule.plan import BOUNDARIES
from monet.schedule.simulation.records import HOLD_WRITE, KEEP_WRITE, STREAM_WRITE, WAIT, Tables, TickParts

KEEP, LOCAL, DRAM = range(len(BOUNDARIES))


class Placed(Table):
    """Operators in a plan: the first of their rows, how many there are, and what else their steps need to know."""

    first_step: I64
    first_entry: I64
    first_buffer: I64
    first_storage: I64
    steps: I64
    entries: I64
    buffers: I64
    storages: I64
    number: I64
    group: I64
    held: I64  # 1: what a core has set up stays as long as it goes on with the same operator
    mode: I64  # of the array, or -1
    mode_ticks: I64  # to change to it
    dispatch_ticks: I64  # that a core waits for the launch of its group


class Cut(NamedTuple):
    """Where blocks are. ``shift``: by storage of each operator, how far its blocks have moved since its rows were made;
    ``leaves``: likewise, 1 where results leave the chip if nothing stays there between groups; ``storage``: by entry,
    which of the storages of its operator it is in."""

    shift: I64
    leaves: I64
    storage: I64


@kernel
def assemble(placed: Placed, cut: Cut, plan: Tables, parts: TickParts, cores: int, outside: int, boundary: int) -> int:
    """Fill in what of the tables of a plan depends on all operators together; returns the number of uses. ``outside``:
    the first memory that is not on chip, where results stay whatever the boundary."""
    operator_of = number_rows(placed, cut, plan, outside, boundary)
    fill_ticks(placed, plan, parts, operator_of, cores)
    return note_uses(plan)


@part(allocates=True)
def number_rows(placed: Placed, cut: Cut, plan: Tables, outside: int, boundary: int) -> I64:
    """Count entries, buffers and blocks from the first of all; note who writes blocks. Returns the operator, as a row
    of ``placed``, of every step."""
    group_of = np.full(len(plan.blocks), -1, np.int64)
    maker = np.full(len(plan.blocks), -1, np.int64)  # the memory in which it is made
    operator_of = np.empty(len(plan.steps), np.int64)
    for o in range(len(placed)):
        operator = placed[o]
        for s in range(operator.first_step, operator.first_step + operator.steps):
            step = plan.steps[s]
            operator_of[s], step.operator = o, operator.number
            step.entry_start += operator.first_entry
            step.entry_end += operator.first_entry
            step.buffer_start += operator.first_buffer
            step.buffer_end += operator.first_buffer
        for e in range(operator.first_entry, operator.first_entry + operator.entries):
            entry, storage = plan.entries[e], operator.first_storage + cut.storage[e]
            entry.block += cut.shift[storage]
            is_outside = entry.memory >= outside
            if boundary == DRAM and entry.kind == KEEP_WRITE and cut.leaves[storage] and not is_outside:
                entry.kind = STREAM_WRITE
            block = plan.blocks[entry.block]
            made = maker[entry.block]
            if boundary == LOCAL and entry.kind != WAIT and made >= 0 and (made != entry.memory or entry.away > 0):
                block.through = 1  # what another core uses is written
            if entry.kind in (HOLD_WRITE, STREAM_WRITE, KEEP_WRITE):
                block.writes += 1
                maker[entry.block] = entry.memory
            if group_of[entry.block] < 0:
                group_of[entry.block] = operator.group
            elif boundary == DRAM and group_of[entry.block] != operator.group and maker[entry.block] < outside:
                block.through = 1  # what another group uses is written
    return operator_of


@part(allocates=True)
def fill_ticks(placed: Placed, plan: Tables, parts: TickParts, operator_of: I64, cores: int) -> None:
    """Ticks of every step, with what a core pays to switch to it."""
    last_operator, last_mode = np.full(cores, -1, np.int64), np.full(cores, -1, np.int64)
    last_group = np.full(cores, -1, np.int64)
    for gang in range(len(plan.gangs)):
        for s in range(plan.gangs[gang].first_step, plan.gangs[gang].last_step):
            step, ticks, operator = plan.steps[s], parts[s], placed[operator_of[s]]
            if operator.held and last_operator[step.core] == step.operator:
                ticks.switching = 0
            last_operator[step.core] = step.operator
            if last_group[step.core] != operator.group and ticks.useful + ticks.under_used + ticks.stalled > 0:
                ticks.switching += operator.dispatch_ticks
                last_group[step.core] = operator.group
            if operator.mode >= 0:  # the array is set up for it; before the first one it may be set up already
                if last_mode[step.core] >= 0 and last_mode[step.core] != operator.mode:
                    ticks.switching += operator.mode_ticks
                last_mode[step.core] = operator.mode
            step.ticks = ticks.useful + ticks.under_used + ticks.stalled + ticks.switching


@part(allocates=True)
def note_uses(plan: Tables) -> int:
    """Fill in which gangs use a block, block by block; returns how many uses there are."""
    last_gang = np.full(len(plan.blocks), -1, np.int64)
    used = 0
    for is_known in (False, True):  # how many there are of each block
        for gang in range(len(plan.gangs)):
            first, last = plan.gangs[gang].first_step, plan.gangs[gang].last_step
            for e in range(plan.steps[first].entry_start, plan.steps[last - 1].entry_end):
                number = plan.entries[e].block
                if last_gang[number] != gang:
                    last_gang[number] = gang
                    if is_known:
                        plan.uses[plan.blocks[number].use_end] = gang
                    plan.blocks[number].use_end += 1
        for number in range(0 if is_known else len(plan.blocks)):
            block = plan.blocks[number]
            block.use_start = used
            used += block.use_end
            block.use_end = block.use_start
            last_gang[number] = -1
    return used
