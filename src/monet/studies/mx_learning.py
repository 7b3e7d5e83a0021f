"""Loss against energy: a dynamics network learns for real in every format, and each NPU that can says what it takes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from monet.numerics.learning import LossCurve, data_for, learn
from monet.report.html.study import axis, figure, scatter
from monet.report.table import TextTable
from monet.request import Request
from monet.studies.study import Options

NETWORK = "mlp-reacher"
BATCH = 32
OPTIMIZER = "adam"
FAMILIES = ("mxint8", "mxfp8", "mxfp6", "mxfp4", "nvfp4", "mx9", "mx6", "mx4")
POLICIES = ("fp32", *itertools.chain.from_iterable((name, f"{name}-square") for name in FAMILIES))
NPUS = ("snax-mx", "mx-square", "dacapo")
STEPS_PER_EFFORT = 40
SMOOTHED = 10  # steps that a loss is the mean of
WITHIN = 1.10  # a format has learnt when its loss is at most so many times what fp32 ended with; set beforehand


def learning_rows(options: Options) -> list[dict[str, Any]]:
    """What every policy learns in so many steps, and the energy that it takes on every NPU that can multiply it."""
    steps = STEPS_PER_EFFORT * options.effort
    rows, goal = [], float("inf")
    for policy in POLICIES:
        options.say(f"  {policy}")
        curve = learnt(policy, steps, options.seed)
        losses = smoothed(curve)
        if policy == "fp32":
            goal = WITHIN * losses[-1]
        needed = next((number + 1 for number, loss in enumerate(losses) if loss <= goal), None)
        row: dict[str, Any] = {"policy": policy, "losses": list(losses), "last": losses[-1], "steps_to_goal": needed}
        rows.append(row | {"step_energy_j": step_energies(policy), "goal": goal})
    return rows


def learnt(policy: str, steps: int, seed: int) -> LossCurve:
    """The loss curve of a policy: the same weights and batches for all of them."""
    step = Request(NETWORK, precision=policy, batch=BATCH, optimizer=OPTIMIZER).graph()
    return learn(step, data_for(step, seed=seed), steps, seed=seed, precision=policy)


def smoothed(curve: LossCurve) -> tuple[float, ...]:
    """Means over the steps before."""
    losses = np.array(curve.losses)
    starts = (max(0, number + 1 - SMOOTHED) for number in range(len(losses)))
    return tuple(float(losses[start : number + 1].mean()) for number, start in enumerate(starts))


def step_energies(policy: str) -> dict[str, float]:
    """Joules of a whole training step on the NPUs that can run it."""
    found = {}
    for npu in NPUS:
        result = Request(NETWORK, npu, precision=policy, batch=BATCH, optimizer=OPTIMIZER).evaluate()
        if result.feasible:  # else it multiplies other formats
            found[npu] = result.energy_j
    return found


def best(rows: list[dict[str, Any]]) -> tuple[str, str, float] | None:
    """(policy, NPU, joules) that reach the goal with the least energy."""
    reached = [
        (joules * row["steps_to_goal"], row["policy"], npu)
        for row in rows
        if row["steps_to_goal"] is not None and row["policy"] != "fp32"
        for npu, joules in row["step_energy_j"].items()
    ]
    return (least[1], least[2], least[0]) if (least := min(reached, default=None)) else None


def learning_table(rows: list[dict[str, Any]]) -> TextTable:
    """One row for each policy."""
    wide, cells = rows[0]["last"], []
    for row in rows:
        needed = row["steps_to_goal"]
        joules = (row["step_energy_j"].get(npu) for npu in NPUS)
        spent = ("" if each is None else f"{1e3 * needed * each:.2f}" if needed else "never" for each in joules)
        cells.append(
            (row["policy"], f"{row['last']:.4f}", f"{row['last'] / wide:.2f}×", str(needed or "never"), *spent)
        )
    heads = ("policy", "last loss", "of fp32's", "steps to goal", *(f"mJ on {npu}" for npu in NPUS))
    title = f"{NETWORK}: {len(rows[0]['losses'])} steps of {OPTIMIZER}; the goal is {WITHIN:g} times fp32's last loss"
    return TextTable(title, heads, cells)


def loss_against_energy(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Loss curves over the energy spent so far, of every policy and NPU."""
    traces = []
    dashes = dict(zip(NPUS, ("solid", "dot", "dash"), strict=True))
    for row in rows:
        for npu, joules in row["step_energy_j"].items():
            spent = [1e3 * joules * (number + 1) for number in range(len(row["losses"]))]
            line = {"dash": dashes[npu]}
            traces.append(scatter(f"{row['policy']} on {npu}", spent, row["losses"], mode="lines", line=line))
    scale = {"type": "log"}
    return figure(traces, xaxis=axis("energy spent, mJ", **scale), yaxis=axis("loss", **scale))
