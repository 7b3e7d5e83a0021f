"""Assemble: number what the rows of all operators refer to, and note when every block is used. A compiled kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.compiled import kernel
from monet.schedule.simulation.decide import (
    CORE,
    E_BLOCK,
    E_KIND,
    ENTRY_END,
    ENTRY_START,
    HOLD_WRITE,
    KEEP_WRITE,
    OPERATOR,
    STREAM_WRITE,
    TICKS,
    WORK_END,
    WORK_START,
)
from monet.schedule.simulation.residency import (
    BLOCK_COLUMNS,
    DRAM_FROM,
    DRAM_READY,
    DRAM_TO,
    DUE,
    IN_DRAM,
    NEVER,
    NOT_YET,
    PERSISTENT,
    PIN,
    SIZE,
    THROUGH,
    USE,
    USE_END,
    WRITES_LEFT,
)

Array = Any

# columns of an operator: its steps, entries, buffers and storages, the first of each, then what it is
STEPS, ENTRIES, BUFFERS, STORAGES, FIRST_STEP, FIRST_ENTRY, FIRST_BUFFER, FIRST_STORAGE = range(8)
NUMBER, GROUP, HELD, MODE, MODE_TICKS = range(8, 13)
OPERATOR_COLUMNS = 13
SWITCH = 3  # column of the ticks of a step that a core does not pay when it goes on with the same operator


@kernel(
    "int64(int64[:,::1], int64[::1], int64[::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1],"
    "int64[:,::1], int64[::1], int64[::1], uint8[:,::1], int64[::1], int64, boolean)"
)
def assemble(
    operators: Array, shift: Array, storage: Array, gangs: Array, steps: Array, parts: Array, entries: Array,
    blocks: Array, sizes: Array, flagged: Array, flags: Array, uses: Array, cores: int, dram: bool,
) -> int:  # fmt: skip
    """Fill in ``steps``, ``parts``, ``entries``, ``blocks`` and ``uses``; returns the number of uses."""
    for number in range(len(blocks)):
        row = blocks[number]
        for column in range(BLOCK_COLUMNS):
            row[column] = 0
        root, persistent = flags[flagged[number], 0], flags[flagged[number], 1]
        row[SIZE], row[IN_DRAM], row[PERSISTENT], row[THROUGH] = sizes[number], root, persistent, persistent
        row[DRAM_READY], row[PIN], row[DUE] = -1, -1, NEVER
        row[DRAM_FROM], row[DRAM_TO] = -1 if root else NOT_YET, NOT_YET
    group_of = np.full(len(blocks), -1, np.int64)
    held = np.zeros(len(steps), np.uint8)
    operator_of = np.empty(len(steps), np.int64)
    for o in range(len(operators)):
        one = operators[o]
        for s in range(one[FIRST_STEP], one[FIRST_STEP] + one[STEPS]):
            held[s], operator_of[s] = one[HELD], o
            steps[s, OPERATOR] = one[NUMBER]
            steps[s, ENTRY_START] += one[FIRST_ENTRY]
            steps[s, ENTRY_END] += one[FIRST_ENTRY]
            steps[s, WORK_START] += one[FIRST_BUFFER]
            steps[s, WORK_END] += one[FIRST_BUFFER]
        for e in range(one[FIRST_ENTRY], one[FIRST_ENTRY] + one[ENTRIES]):
            entries[e, E_BLOCK] += shift[one[FIRST_STORAGE] + storage[e]]
            number, kind = entries[e, E_BLOCK], entries[e, E_KIND]
            if kind in (HOLD_WRITE, STREAM_WRITE, KEEP_WRITE):
                blocks[number, WRITES_LEFT] += 1
            if group_of[number] < 0:
                group_of[number] = one[GROUP]
            elif dram and group_of[number] != one[GROUP]:  # boundary ``dram``: what another group uses is written
                blocks[number, THROUGH] = 1
    last_operator, last_mode = np.full(cores, -1, np.int64), np.full(cores, -1, np.int64)
    last_gang = np.full(len(blocks), -1, np.int64)
    for gang in range(len(gangs)):
        for s in range(gangs[gang, 0], gangs[gang, 1]):
            core = steps[s, CORE]
            if held[s] and last_operator[core] == steps[s, OPERATOR]:
                parts[s, SWITCH] = 0
            last_operator[core] = steps[s, OPERATOR]
            mode = operators[operator_of[s], MODE]
            if mode >= 0:  # the array is set up for it; before the first one it may be set up already
                if last_mode[core] >= 0 and last_mode[core] != mode:
                    parts[s, SWITCH] += operators[operator_of[s], MODE_TICKS]
                last_mode[core] = mode
            steps[s, TICKS] = parts[s, 0] + parts[s, 1] + parts[s, 2] + parts[s, 3]
            for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
                number = entries[e, E_BLOCK]
                if last_gang[number] != gang:
                    last_gang[number] = gang
                    blocks[number, USE_END] += 1
    used = 0
    for number in range(len(blocks)):
        blocks[number, USE] = used
        used += blocks[number, USE_END]
        blocks[number, USE_END] = blocks[number, USE]
        last_gang[number] = -1
    for gang in range(len(gangs)):
        for s in range(gangs[gang, 0], gangs[gang, 1]):
            for e in range(steps[s, ENTRY_START], steps[s, ENTRY_END]):
                number = entries[e, E_BLOCK]
                if last_gang[number] != gang:
                    last_gang[number] = gang
                    uses[blocks[number, USE_END]] = gang
                    blocks[number, USE_END] += 1
    return used
