"""ParallelPlan: how a training step is laid over devices. Three nested degrees (tensor, data, pipeline; their product
is the number of devices) and what goes with them. What a plan does to a graph stands in ``ranks.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from monet.errors import MonetError, OptionError, nearest
from monet.formats import FORMATS, format_named
from monet.nesting import check_nesting
from monet.transforms.checkpoint_plan import CheckpointPlan

PIPELINE_SCHEDULES = ("1f1b", "gpipe", "zero-bubble")
SHARDING = ("none", "states", "gradients", "parameters")
RECOMPUTATION = ("none", "selective", "full")
BATCH_NORM = ("sync", "local")
TENSOR_SPLITS = ("features", "rows")
OFFLOADING = ("none", "activations", "states", "both")
CUT_BY = ("number", "time")
GRADIENT_FORMATS = tuple(name for name, each in FORMATS.items() if each.may_train)
GROUPS = ("tensor", "data", "pipeline", "tied")  # that a collective operator may name


@dataclass(frozen=True, kw_only=True)
class ParallelPlan:
    """How one training step is laid over ``devices`` devices.

    ``data`` replicas train on parts of the batch, ``micro_batch`` samples at a time, and add up gradients. ``tensor``
    devices share every layer: its features (columns and rows of weights, attention heads, vocabulary) or, of images,
    the ``rows``; with ``sequence_parallel`` they share the tokens where features are whole. ``pipeline`` stages have
    consecutive layers each, ``interleave`` chunks of them per device. ``cuts`` are the blocks each chunk starts with
    (without the first, which starts with 0). Not given, they are chosen ``cut_by`` number, equally many each, or by
    time, so that the slowest chunk takes least; not given either, by time where layers or devices are not alike.

    ``shard`` says what replicas share instead of each keeping it whole: optimizer states, also gradients, also
    parameters. ``recompute``: nothing, what lies between the products of attention, all of a block but its input, or a
    checkpoint plan of ours by name of storage. ``offload``: what a device leaves with its host while it does not need
    it, activations between forward and backward, states of the optimizer between steps, or both. Batch norm takes
    statistics over the micro-batches of all replicas (``sync``) or of its own (``local``). Gradients are sent in
    buckets of ``bucket_bytes`` (0: each by itself), and kept, added up and sent in ``gradient_format`` (not given: as
    the weights are).
    """

    data: int = 1
    tensor: int = 1
    sequence_parallel: bool = False
    pipeline: int = 1
    interleave: int = 1
    pipeline_schedule: str = "1f1b"
    shard: str = "none"
    micro_batch: int = 1
    recompute: str | CheckpointPlan = "none"
    offload: str = "none"
    batch_norm: str = "sync"
    tensor_split: str = "features"
    cuts: tuple[int, ...] = ()
    cut_by: str = ""
    bucket_bytes: int = 25 << 20
    gradient_format: str = ""

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "interleave", "micro_batch"):
            _check_count(name, getattr(self, name))
        _check_count("bucket_bytes", self.bucket_bytes, 0)
        for name, allowed in _NAMED.items():
            value = getattr(self, name)
            if value not in allowed and not isinstance(value, CheckpointPlan):
                raise OptionError(name, value, nearest(str(value), allowed))
        if self.cut_by and self.cut_by not in CUT_BY:
            raise OptionError("cut_by", self.cut_by, nearest(self.cut_by, CUT_BY))
        if self.gradient_format and not format_named(self.gradient_format).may_train:
            raise OptionError("gradient_format", self.gradient_format, "gradients are floats: fp32, bf16 …")
        if self.sequence_parallel and self.tensor == 1:
            raise OptionError("sequence_parallel", True, "tokens are shared among tensor ranks: tensor=1 has none")
        if self.sequence_parallel and self.tensor_split == "rows":
            raise OptionError("sequence_parallel", True, "goes with tensor_split=features")
        if self.interleave > 1 and (self.pipeline == 1 or self.pipeline_schedule == "gpipe"):
            raise OptionError("interleave", self.interleave, "needs pipeline of at least 2 and pipeline_schedule=1f1b")
        object.__setattr__(self, "cuts", tuple(self.cuts))
        if self.cuts and len(self.cuts) != self.chunks - 1:
            raise OptionError(
                "cuts",
                list(self.cuts),
                f"{self.chunks} chunks have {self.chunks - 1} cuts between them, {len(self.cuts)} are given",
            )
        if list(self.cuts) != sorted(set(self.cuts)) or any(cut < 1 for cut in self.cuts):
            raise OptionError("cuts", list(self.cuts), "blocks are cut in ascending order, each chunk has at least one")

    @property
    def activations_away(self) -> bool:
        """Whether activations wait for backward at the host."""
        return self.offload in ("activations", "both")

    @property
    def states_away(self) -> bool:
        """Whether states of the optimizer wait for the next step at the host."""
        return self.offload in ("states", "both")

    @property
    def devices(self) -> int:
        """How many devices it takes."""
        return self.data * self.tensor * self.pipeline

    @property
    def chunks(self) -> int:
        """Pieces that the layers are cut into: stages, times chunks of each."""
        return self.pipeline * self.interleave

    def micro_batches(self, batch: int) -> int:
        """Passes that each replica makes for a batch of so many samples over all replicas."""
        share = self.data * self.micro_batch
        if batch % share:
            lower, upper = batch // share * share, (batch // share + 1) * share
            legal = f"{lower} or {upper}" if lower else str(upper)
            reason = f"data={self.data} × micro_batch={self.micro_batch} = {share} leaves {batch % share}; {legal} fit"
            raise OptionError("batch", batch, reason)
        count = batch // share
        if self.interleave > 1 and count % self.pipeline:
            legal_counts = _around(count, self.pipeline)
            legal = " or ".join(str(number * share) for number in legal_counts)
            reason = f"interleaved, {count} micro-batches do not divide into pipeline={self.pipeline}; {legal} do"
            raise OptionError("batch", batch, reason)
        return count

    def check_devices(self, devices: int) -> None:
        """That so many devices are enough, and that none is left over."""
        if devices != self.devices:
            product = f"data={self.data} × tensor={self.tensor} × pipeline={self.pipeline} = {self.devices}"
            more, per = devices - self.devices, self.tensor * self.pipeline
            what = f"{-more} more than there are" if more < 0 else f"{more} are left over"
            counts = sorted({max(1, devices // per), -(-devices // per)})
            legal = " or ".join(f"data={count} ({count * per} devices)" for count in counts)
            raise OptionError("devices", devices, f"{product}, {what}; with tensor and pipeline as they are: {legal}")

    # --- ranks ----------------------------------------------------------------------------------------------------

    def rank(self, pipeline: int, data: int, tensor: int) -> int:
        """The device at a place in its groups: those of one tensor group are next to each other, then those of a data
        group, so that the busiest collectives are nearest."""
        return (pipeline * self.data + data) * self.tensor + tensor

    # --- plain values ---------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values for YAML or JSON; what is as usual is left out."""
        found: dict[str, Any] = {}
        for declared in fields(self):
            value = getattr(self, declared.name)
            if value != declared.default:
                value = value.to_dict() if isinstance(value, CheckpointPlan) else value
                found[declared.name] = list(value) if isinstance(value, tuple) else value
        return found

    @classmethod
    def from_dict(cls, values: Any, source: str = "parallel plan") -> ParallelPlan:
        """A plan from plain values."""
        if not isinstance(values, Mapping):
            raise MonetError(f"{source}: expected a mapping of options, got {values!r}")
        known = {declared.name for declared in fields(cls)}
        for name in values:
            if name not in known:
                raise MonetError(f"{source}: unknown key {name!r}; {nearest(str(name), known)}")
        given = dict(values)
        if isinstance(given.get("recompute"), Mapping):
            given["recompute"] = CheckpointPlan.from_dict(given["recompute"], f"{source}: recompute")
        return cls(**given)


def load_parallel_plan(path: str) -> ParallelPlan:
    """A plan from a YAML file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MonetError(f"cannot read parallel plan {path!r}: {error}") from None
    check_nesting(text, path)
    try:
        return ParallelPlan.from_dict(yaml.safe_load(text) or {}, path)
    except yaml.YAMLError as error:
        raise MonetError(f"{path}: not YAML: {error}") from None


def parallel_plan_text(plan: ParallelPlan) -> str:
    """A plan as YAML; what is as usual is left out."""
    return yaml.safe_dump(plan.to_dict(), sort_keys=False, default_flow_style=False, width=110)


_NAMED = {
    "pipeline_schedule": PIPELINE_SCHEDULES,
    "shard": SHARDING,
    "recompute": RECOMPUTATION,
    "offload": OFFLOADING,
    "batch_norm": BATCH_NORM,
    "tensor_split": TENSOR_SPLITS,
}


def _check_count(name: str, value: object, least: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(name, value, f"a whole number of at least {least} is needed")


def _around(number: int, divisor: int) -> tuple[int, ...]:
    """The multiples of ``divisor`` next to ``number``."""
    lower = number // divisor * divisor
    return (lower, lower + divisor) if lower else (divisor,)


def check_divides(option: str, parts: int, size: int, what: str) -> None:
    """That ``size`` things can be cut into ``parts`` equal parts; otherwise says which numbers could."""
    if size % parts:
        divisors = [number for number in range(1, size + 1) if size % number == 0]
        below, above = (max(n for n in divisors if n < parts), min((n for n in divisors if n > parts), default=0))
        legal = f"{below} or {above}" if above else str(below)
        raise OptionError(option, parts, f"does not divide {what} of {size} ({size % parts} left over); {legal} would")
