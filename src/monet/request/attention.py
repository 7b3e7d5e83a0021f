"""Which implementation of attention a request takes where it leaves that to the hardware: each is costed by its whole
schedule, and the one that is done first is taken."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from monet.errors import MonetError
from monet.graph.op import Phase
from monet.mapping.cost_store import Section, default_store
from monet.training.options import FUSED, TrainingOptions, left_to_hardware

if TYPE_CHECKING:
    from monet.request.request import Request
    from monet.schedule.result import Result

Asked = TypeVar("Asked", bound="Request")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Tried:
    """An implementation, its latency (None: it cannot run), and why it cannot."""

    name: str
    latency_s: float | None
    reason: str = ""

    def __str__(self) -> str:
        if self.latency_s is None:
            return f"{'fused' if self.name in FUSED else self.name} cannot run ({' '.join(self.reason.split())})"
        return f"{self.name} {1e3 * self.latency_s:.4g} ms"


@dataclass(frozen=True, slots=True)
class Taken:
    """The implementation that was taken, of which ones."""

    asked: str
    name: str
    tried: tuple[Tried, ...]

    def __str__(self) -> str:
        told = dict.fromkeys(str(each) for each in self.tried)
        return f"--attention {self.asked}: {self.name} is taken; {', '.join(told)}"


CHOICES = Section[Taken]("implementations of attention", 1000)


def implementations(request: Request) -> tuple[str, ...]:
    """Those that a request may take, of equals the one that keeps least first. Scores are kept for a backward pass."""
    names = left_to_hardware(request.attention) or (request.attention,)
    trains = request.mode == "training" and (not request.phases or Phase.BACKWARD.value in request.phases)
    return tuple(name for name in names if len(names) == 1 or trains or name != "fused-scores")


def fastest(request: Asked, cost: Callable[[Asked], tuple[Found, float | None, str]]) -> tuple[Found, Taken]:
    """What was found with the implementation that takes the least time, the first of equals. ``cost``: what is found
    with one, seconds (None: it cannot run) and why it cannot. Where none can run, it is the first that was found."""
    best: tuple[float, Found, str] | None = None
    tried, errors = list[Tried](), list[MonetError]()
    for name in implementations(request):
        try:
            found, seconds, reason = cost(replace(request, attention=name))
        except MonetError as error:
            errors.append(error)
            tried.append(Tried(name, None, str(error)))
            continue
        tried.append(Tried(name, seconds, reason))
        taken = math.inf if seconds is None else seconds
        if best is None or taken < best[0]:
            best = taken, found, name
    if best is None:
        raise errors[0]
    return best[1], Taken(request.attention, best[2], tuple(tried))


def evaluated(request: Request) -> Result:
    """The result of a request that leaves its attention to its hardware: that of what is taken, which it says."""
    result, taken = fastest(request, _evaluated)
    default_store()[CHOICES].keep(_key(request), taken)
    return replace(result, notes=(*result.notes, str(taken)))


def settled(request: Asked) -> Asked:
    """The request with an implementation of attention, chosen where that is left to the hardware that it names. Without
    hardware it is as it was."""
    if not left_to_hardware(request.attention) or not request.hardware:
        return request
    taken = default_store()[CHOICES].get_or(_key(request), lambda: fastest(request, _evaluated)[1])
    return replace(request, attention=taken.name)


def _evaluated(request: Request) -> tuple[Result, float | None, str]:
    result = request.evaluate()
    return result, result.latency_s if result.feasible else None, result.reason.message if result.reason else ""


def _key(request: Request) -> str:
    """Equal for requests that come to the same choice."""
    usual = TrainingOptions().attention
    return json.dumps((request.attention, replace(request, attention=usual).to_json()), sort_keys=True, default=str)
