"""CheckpointPlan: for each activation that backward needs, whether it is kept, recomputed, paged out or narrowed.

The one record that every way of choosing fills and every consumer reads. Storages, not tensors, are chosen: views and
in-place results share one. Absent from the plan means: as the plain step has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from monet.display import Displayed
from monet.errors import MonetError, nearest
from monet.graph.counts import KEPT_ANYWAY, saved_for_backward
from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.nesting import check_nesting
from monet.transforms.compact import narrowed_bytes

CHOICES = ("keep", "recompute", "offload", "narrow")
EARLY = (Phase.FORWARD, Phase.LOSS)


class CheckpointError(MonetError):
    """A checkpoint plan that cannot be read or does not fit the graph; says where and what would."""


class Impossible(CheckpointError):
    """No plan is within the budget, or within DRAM: a result, not bad input. ``operator`` is where the least that can
    be had is needed, ``bytes_short`` by how much that is too much."""

    def __init__(self, message: str, operator: str, bytes_short: int) -> None:
        """``message`` says all of it."""
        super().__init__(message)
        self.operator, self.bytes_short = operator, bytes_short


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """One storage that the plain step keeps from forward to backward, in the order of the forward pass.

    ``storage`` is the name a plan uses, ``tensor`` the one backward reads (``relu`` lives in the storage of ``bn1``).
    ``narrowed_bytes`` is its size under ``narrow``, equal to ``bytes`` where there is nothing to narrow.
    """

    storage: str
    tensor: str
    bytes: int
    narrowed_bytes: int
    made_by: str
    kept_by: tuple[str, ...]


def saved_tensors(graph: Graph) -> tuple[SavedTensor, ...]:
    """What the plain step keeps, in the order it is first written (of the first pass when gradients accumulate)."""
    order = {name: position for position, op in enumerate(graph.ops) for name in op.outputs}
    narrow, found = narrowed_bytes(graph), list[SavedTensor]()
    for saved in saved_for_backward(graph):
        storage, size = saved.tensor.name, saved.bytes
        found.append(SavedTensor(storage, saved.name, size, narrow.get(storage, size), saved.made_by, saved.kept_by))
    return tuple(sorted(found, key=lambda saved: (order[saved.storage], saved.storage)))


@dataclass(frozen=True, repr=False)
class CheckpointPlan(Displayed):
    """Saved storage → ``recompute``, ``offload`` or ``narrow``; what is absent is kept.

    ``keep`` may be said of a forward storage that the plain step would free, so that recomputation can start from it.
    With gradient accumulation the names are those of the first pass, and every pass follows them. ``ahead``: of
    what is offloaded, how many operators before its first reader in backward it is let in; what is absent comes in
    time if the device moves ``transforms.offload.LEAD`` bytes while one of it comes.
    """

    choices: Mapping[str, str] = field(default_factory=dict)
    ahead: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, choice in self.choices.items():
            if choice not in CHOICES:
                raise CheckpointError(f"checkpoint plan: {name}: {choice!r}; {nearest(str(choice), CHOICES)}")
        for name, many in self.ahead.items():
            if self.choices.get(name) != "offload" or not isinstance(many, int) or isinstance(many, bool) or many < 1:
                raise CheckpointError(f"checkpoint plan: offload: {name}: {many!r}: a number of operators, 1 or more")
        object.__setattr__(self, "choices", MappingProxyType(dict(sorted(self.choices.items()))))
        object.__setattr__(self, "ahead", MappingProxyType(dict(sorted(self.ahead.items()))))

    def __reduce__(self) -> tuple[type[CheckpointPlan], tuple[dict[str, str], dict[str, int]]]:
        return CheckpointPlan, (dict(self.choices), dict(self.ahead))  # a mapping proxy does not pickle

    def __hash__(self) -> int:
        return hash((tuple(self.choices.items()), tuple(self.ahead.items())))

    @classmethod
    def dropping(cls, storages: Iterable[str], keeping: Iterable[str] = ()) -> CheckpointPlan:
        """The plan that recomputes ``storages``, starting also from ``keeping`` where the plain step would free it."""
        return cls(dict.fromkeys(storages, "recompute") | dict.fromkeys(keeping, "keep"))

    def named(self, choice: str) -> tuple[str, ...]:
        """The storages with this choice."""
        return tuple(name for name, chosen in self.choices.items() if chosen == choice)

    def checked(self, graph: Graph, source: str = "checkpoint plan") -> CheckpointPlan:
        """The plan with every name resolved to its storage; names that ``graph`` does not keep are an error."""
        saved = {kept.storage for kept in saved_tensors(graph)}
        possible = _early_storages(graph)
        resolved: dict[str, str] = {}
        for name, choice in self.choices.items():
            tensor = graph.tensors.get(name)
            storage = tensor.storage if tensor else ""
            if storage not in (possible if choice == "keep" else saved):
                what = "no tensor of the graph has this name" if tensor is None else "backward does not read it"
                names = (saved | possible) if choice == "keep" else saved
                raise CheckpointError(f"{source}: {choice} {name!r}: {what}; {_hint(name, names)}")
            if resolved.setdefault(storage, choice) != choice:
                raise CheckpointError(f"{source}: {name!r} and another view of {storage!r} have different choices")
        ahead = {graph.tensors[name].storage: many for name, many in self.ahead.items()}
        return CheckpointPlan(resolved, ahead)

    # --- files ---------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML or JSON: choice → names; of what is offloaded, also when it is let in if that is
        said."""
        found: dict[str, Any] = {choice: list(self.named(choice)) for choice in CHOICES if self.named(choice)}
        return found | ({"offload": self.pages} if self.ahead else {})

    @property
    def pages(self) -> dict[str, int | None]:
        """What is offloaded → how many operators before its first reader it is let in, if that is said."""
        return {name: self.ahead.get(name) for name in self.named("offload")}

    @classmethod
    def from_dict(cls, values: Any, source: str = "checkpoint plan") -> CheckpointPlan:
        """A plan from plain values; anything unknown is an error that names its place."""
        if not isinstance(values, Mapping):
            raise CheckpointError(f"{source}: expected lists under {', '.join(CHOICES)}, got {values!r}")
        choices: dict[str, str] = {}
        ahead: dict[str, int] = {}
        for choice, names in values.items():
            if choice not in CHOICES:
                raise CheckpointError(f"{source}: unknown key {choice!r}; {nearest(str(choice), CHOICES)}")
            if choice == "offload" and isinstance(names, Mapping):
                ahead |= {name: many for name, many in names.items() if many is not None}
                names = list(names)
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise CheckpointError(f"{source}: {choice}: expected a list of tensor names, got {names!r}")
            for name in names:
                if choices.setdefault(name, choice) != choice:
                    raise CheckpointError(f"{source}: {name!r} is listed under {choices[name]} and under {choice}")
        return cls(choices, ahead)


def _early_storages(graph: Graph) -> set[str]:
    early = (name for op in graph.ops if op.phase in EARLY and op.micro_batch == 0 for name in op.outputs)
    return {graph.tensors[name].storage for name in early if graph.storage_of(name).role not in KEPT_ANYWAY}


def _hint(name: str, names: Iterable[str]) -> str:
    options = sorted(names)
    hint = nearest(name, options)
    if hint.startswith("allowed") and len(options) > 6:
        return f"allowed: {', '.join(options[:6])} and {len(options) - 6} more"
    return hint


def is_plan_file(name: str) -> bool:
    """Whether a name is meant as the path of a plan."""
    return name.endswith((".yaml", ".yml"))


def load_checkpoint_plan(path: str) -> CheckpointPlan:
    """A plan from a YAML file."""
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"cannot read checkpoint plan {path!r}: {error}") from None
    check_nesting(text, path)
    try:
        return CheckpointPlan.from_dict(yaml.safe_load(text) or {}, path)
    except yaml.YAMLError as error:
        raise CheckpointError(f"{path}: not YAML: {error}") from None


def checkpoint_plan_text(plan: CheckpointPlan) -> str:
    """A plan as YAML."""
    return yaml.safe_dump(plan.to_dict(), sort_keys=False, default_flow_style=False, width=110)
