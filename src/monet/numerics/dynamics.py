"""Simulated dynamics to learn from: a cart with a pole, and a planar arm. What models of robots are trained on.

A sample is a state and an action (features), and how the state changes over the next steps (targets), all brought to
mean zero and deviation one. Features of an angle are its sine and cosine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from monet.errors import MonetError
from monet.graph.kind import Array

CART_POLE, ARM = "cart-pole", "arm"
CART_POLE_INPUTS, PER_JOINT = 6, 4
_STEP_S = 0.02


class Samples(NamedTuple):
    """Features (samples × inputs) and targets (samples × outputs)."""

    features: Array
    targets: Array


def simulated(system: str, inputs: int, outputs: int, count: int, seed: int) -> Samples:
    """``count`` samples of a system, with as many features and targets as a model has inputs and outputs.

    Targets are changes of the state after one step, then after two and so on, until all outputs have one.
    """
    generator = np.random.default_rng((seed, inputs, outputs))
    if system == CART_POLE:
        if inputs != CART_POLE_INPUTS:
            raise MonetError(
                f"data cart-pole: it has {CART_POLE_INPUTS} features (position, speed, sine, cosine and speed of the "
                f"angle, force), the model takes {inputs}; allowed: arm, or an .npz file"
            )
        state, features, advance = _cart_pole(generator, count)
    else:
        if inputs < PER_JOINT:
            raise MonetError(f"data arm: a joint has {PER_JOINT} features, the model takes {inputs}")
        state, features, advance = _arm(generator, count, inputs)
    changes: list[Array] = []
    later = state
    while sum(change.shape[1] for change in changes) < outputs:
        later = advance(later)
        changes.append(later - state)
    return Samples(_standard(features), _standard(np.concatenate(changes, axis=1)[:, :outputs]))


def _standard(values: Array) -> Array:
    spread = values.std(axis=0)
    result: Array = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return result


Advance = Callable[[Array], Array]


def _cart_pole(generator: np.random.Generator, count: int) -> tuple[Array, Array, Advance]:
    """Barto, Sutton and Anderson, 1983: cart 1 kg, pole 0.1 kg, half its length 0.5 m, the force is kept."""
    gravity, cart, pole, half = 9.8, 1.0, 0.1, 0.5
    ranges = np.array([2.4, 3.0, np.pi, 3.0])
    state = generator.uniform(-ranges, ranges, (count, 4))
    force = generator.uniform(-10.0, 10.0, count)
    position, speed, angle, turn = state.T
    features = np.stack([position, speed, np.sin(angle), np.cos(angle), turn, force], axis=1)

    def advance(now: Array) -> Array:
        _, speed, angle, turn = now.T
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (force + pole * half * turn**2 * sine) / (cart + pole)
        turning = (gravity * sine - cosine * push) / (half * (4 / 3 - pole * cosine**2 / (cart + pole)))
        moving = push - pole * half * turning * cosine / (cart + pole)
        rates = np.stack([speed, moving, turn, turning], axis=1)
        result: Array = now + _STEP_S * rates
        return result

    return state, features, advance


def _arm(generator: np.random.Generator, count: int, inputs: int) -> tuple[Array, Array, Advance]:
    """A chain of equal links with point masses at their ends, lying flat: for absolute angles φ and torques τ,
    Σ_j a_ij cos(φ_i − φ_j) φ̈_j + a_ij sin(φ_i − φ_j) φ̇_j² = τ_i − d φ̇_i with a_ij = masses beyond both, links of 1."""
    joints = inputs // PER_JOINT
    angles = generator.uniform(-np.pi, np.pi, (count, joints))
    speeds, torques = generator.uniform(-2.0, 2.0, (2, count, joints))
    parts = [np.sin(angles), np.cos(angles), speeds, torques]
    tip = np.stack([np.cos(angles).sum(axis=1), np.sin(angles).sum(axis=1), (speeds**2).sum(axis=1)], axis=1)
    features = np.concatenate([*parts, tip], axis=1)[:, :inputs]
    order = np.arange(joints)
    beyond = joints - np.maximum(order[:, None], order[None, :])

    def advance(now: Array) -> Array:
        angles, speeds = now[:, :joints], now[:, joints:]
        apart = angles[:, :, None] - angles[:, None, :]
        forces = torques - 0.5 * speeds - np.einsum("nij,nj->ni", beyond * np.sin(apart), speeds**2)
        turning = np.linalg.solve(beyond * np.cos(apart) + 0.1 * np.eye(joints), forces[:, :, None])[:, :, 0]
        result: Array = now + _STEP_S * np.concatenate([speeds, turning], axis=1)
        return result

    return np.concatenate([angles, speeds], axis=1), features, advance
