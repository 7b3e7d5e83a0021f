"""Assemble: number what the rows of all operators refer to, and note when every block is used. A compiled kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monet.arrays import I64, Table
from monet.compiled import kernel, part
from monet.schedule.simulation.records import HOLD_WRITE, KEEP_WRITE, STREAM_WRITE, Tables, TickParts


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


class Cut(NamedTuple):
    """Where blocks are. ``shift``: by storage of each operator, how far its blocks have moved since its rows were made;
    ``storage``: by entry, which of the storages of its operator it is in."""

    shift: I64
    storage: I64


@kernel
def assemble(placed: Placed, cut: Cut, plan: Tables, parts: TickParts, cores: int, boundary_is_dram: bool) -> int:
    """Fill in what of the tables of a plan depends on all operators together; returns the number of uses."""
    operator_of = number_rows(placed, cut, plan, boundary_is_dram)
    fill_ticks(placed, plan, parts, operator_of, cores)
    return note_uses(plan)


@part(allocates=True)
def number_rows(placed: Placed, cut: Cut, plan: Tables, boundary_is_dram: bool) -> I64:
    """Count entries, buffers and blocks from the first of all; note who writes blocks. Returns the operator, as a row
    of ``placed``, of every step."""
    steps, entries, blocks = plan.steps, plan.entries, plan.blocks
    group_of = np.full(len(blocks), -1, np.int64)
    operator_of = np.empty(len(steps), np.int64)
    for o in range(len(placed)):
        first_entry, first_buffer, group = placed.first_entry[o], placed.first_buffer[o], placed.group[o]
        for s in range(placed.first_step[o], placed.first_step[o] + placed.steps[o]):
            operator_of[s], steps.operator[s] = o, placed.number[o]
            steps.entry_start[s] += first_entry
            steps.entry_end[s] += first_entry
            steps.buffer_start[s] += first_buffer
            steps.buffer_end[s] += first_buffer
        for e in range(first_entry, first_entry + placed.entries[o]):
            entries.block[e] += cut.shift[placed.first_storage[o] + cut.storage[e]]
            block, kind = entries.block[e], entries.kind[e]
            if kind in (HOLD_WRITE, STREAM_WRITE, KEEP_WRITE):
                blocks.writes[block] += 1
            if group_of[block] < 0:
                group_of[block] = group
            elif boundary_is_dram and group_of[block] != group:  # what another group uses is written
                blocks.through[block] = 1
    return operator_of


@part(allocates=True)
def fill_ticks(placed: Placed, plan: Tables, parts: TickParts, operator_of: I64, cores: int) -> None:
    """Ticks of every step, with what a core pays to switch to it."""
    steps = plan.steps
    last_operator, last_mode = np.full(cores, -1, np.int64), np.full(cores, -1, np.int64)
    for gang in range(len(plan.gangs)):
        for s in range(plan.gangs.first_step[gang], plan.gangs.last_step[gang]):
            core, o = steps.core[s], operator_of[s]
            if placed.held[o] and last_operator[core] == steps.operator[s]:
                parts.switching[s] = 0
            last_operator[core] = steps.operator[s]
            mode = placed.mode[o]
            if mode >= 0:  # the array is set up for it; before the first one it may be set up already
                if last_mode[core] >= 0 and last_mode[core] != mode:
                    parts.switching[s] += placed.mode_ticks[o]
                last_mode[core] = mode
            steps.ticks[s] = parts.useful[s] + parts.under_used[s] + parts.stalled[s] + parts.switching[s]


@part(allocates=True)
def note_uses(plan: Tables) -> int:
    """Fill in which gangs use a block, block by block; returns how many uses there are."""
    entries, blocks = plan.entries, plan.blocks
    last_gang = np.full(len(blocks), -1, np.int64)
    for filling in (False, True):  # first count them
        for gang in range(len(plan.gangs)):
            first, last = plan.gangs.first_step[gang], plan.gangs.last_step[gang]
            for e in range(plan.steps.entry_start[first], plan.steps.entry_end[last - 1]):
                block = entries.block[e]
                if last_gang[block] != gang:
                    last_gang[block] = gang
                    if filling:
                        plan.uses[blocks.use_end[block]] = gang
                    blocks.use_end[block] += 1
        if not filling:
            used = 0
            for block in range(last_gang.size):
                blocks.use_start[block] = used
                used += blocks.use_end[block]
                blocks.use_end[block] = blocks.use_start[block]
                last_gang[block] = -1
    return used
