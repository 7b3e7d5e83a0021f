"""SystemRequest: a request for a training step over the devices of a system, under a parallel plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monet.errors import MonetError, OptionError
from monet.options import option, options_of
from monet.request.request import Request

if TYPE_CHECKING:
    from monet.distributed.costs.chunk_costs import Coster
    from monet.distributed.plan import ParallelPlan
    from monet.distributed.result import DistributedResult
    from monet.distributed.systems.system import System
    from monet.mapping.cost_store import CostStore

# what one device is asked for, and a system is not; why
NOT_OF_A_SYSTEM = {
    "hardware": "a system has its own devices",
    "micro_batches": "micro_batch says how many samples a pass has, the rest follows",
    "checkpoint": "recompute says what is recomputed, by name or by a checkpoint plan",
    "mode": "a training step is costed",
    "phases": "a whole training step is costed",
    "allocation": "operators of all stages are placed by default",
    "boundary": "the fastest is taken for every stage",
}
DEGREES = ("micro_batch", "data", "tensor", "sequence_parallel", "pipeline", "interleave", "pipeline_schedule", "shard",
           "recompute", "offload", "batch_norm", "tensor_split", "cuts", "bucket_bytes", "gradient_format")  # fmt: skip

# what says how so many share something
NEEDS = {"shard": "data", "batch_norm": "data", "bucket_bytes": "data", "tensor_split": "tensor", "pipeline_schedule": "pipeline"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SystemRequest(Request):
    """A request with a ``system``: ``SystemRequest("gpt2-small", system="edge-ethernet", batch=8, data=4)``. Without one
    it is a plain request."""

    # fmt: off
    system: str | Mapping[str, Any] = option(
        "", group="system", help="Preset name or path of a YAML file (monet systems): devices and a network, instead of --hardware."
    )
    devices: int | None = option(
        None, group="system", minimum=1, maximum=2**22, unit="devices", usual="data × tensor × pipeline",
        help="Devices that work together.",
    )
    micro_batch: int = option(1, group="system", minimum=1, maximum=2**20, unit="samples", help="Samples of one pass of a replica.")
    data: int | None = option(
        None, group="system", minimum=1, maximum=2**22, usual="what the other degrees leave of the devices",
        help="Replicas that train on parts of the batch.",
    )
    tensor: int = option(1, group="system", minimum=1, maximum=2**16, help="Devices that share every layer.")
    sequence_parallel: bool = option(False, group="system", help="They share the tokens where features are whole, too.")
    pipeline: int = option(1, group="system", minimum=1, maximum=2**16, help="Stages of consecutive layers.")
    interleave: int = option(1, group="system", minimum=1, maximum=2**16, help="Chunks of layers of every stage.")
    pipeline_schedule: str = option(
        "1f1b", group="system", choices="monet.distributed.plan:PIPELINE_SCHEDULES", help="1f1b, gpipe or zero-bubble."
    )
    shard: str = option(
        "none", group="system", choices="monet.distributed.plan:SHARDING",
        help="What replicas share instead of each keeping it whole: none, states of the optimizer, also gradients, also parameters.",
    )
    recompute: str | Mapping[str, Any] = option(
        "none", group="system", choices="monet.distributed.plan:RECOMPUTATION", file="a YAML file with a checkpoint plan",
        help="none, selective (what lies between the products of attention), full (all of a layer but its input), or a YAML file with a plan.",
    )
    offload: str = option(
        "none", group="system", choices="monet.distributed.plan:OFFLOADING",
        help="What a device leaves with its host while it does not need it: none, activations, states of the optimizer, or both.",
    )
    batch_norm: str = option(
        "sync", group="system", choices="monet.distributed.plan:BATCH_NORM", help="Statistics over all replicas (sync) or each (local)."
    )
    tensor_split: str = option(
        "features", group="system", choices="monet.distributed.plan:TENSOR_SPLITS", help="What tensor ranks share: features, or rows of images."
    )
    cuts: tuple[str, ...] = option((), group="system", separator=",", help="Layers that pipeline chunks begin with: 3,6,9; or number (equally many each), or time (so that the slowest takes least).", usual="number where layers and devices are alike, else time")
    bucket_bytes: int = option(25 << 20, group="system", minimum=0, maximum=2**50, unit="bytes", help="Gradients that are sent together.")
    gradient_format: str = option(
        "", group="system", choices="monet.distributed.plan:GRADIENT_FORMATS", usual="that of the weights",
        help="Format that gradients are kept, added up and sent in.",
    )
    # fmt: on

    def __post_init__(self) -> None:
        super().__post_init__()
        declared = options_of(SystemRequest)
        if not self.system:
            for name in ("devices", *DEGREES):
                if getattr(self, name) != declared[name].default:
                    raise OptionError(name, getattr(self, name), "is for the devices of a system: give system too")
            return
        for name, why in NOT_OF_A_SYSTEM.items():
            if getattr(self, name) != declared[name].default:
                raise OptionError(name, getattr(self, name), f"has no effect on a system: {why}; leave it out")
        if not isinstance(self.fusion, str) or self.fusion not in ("auto", "none"):
            raise OptionError("fusion", self.fusion, "auto or none: stages have graphs of their own")

    # --- what is asked for ---------------------------------------------------------------------------------------

    def load_system(self) -> System:
        """The system."""
        from monet.distributed.systems.system import load_system

        return load_system(self.system, self.set)

    def parallel_plan(self) -> ParallelPlan:
        """How the step is laid over the devices."""
        from monet.distributed.plan import CUT_BY, ParallelPlan
        from monet.transforms.checkpoint_plan import CheckpointPlan

        data = self.data or self._left()
        self._refuse_unused(data)
        recompute = self.inlined().recompute
        by = self.cuts[0] if len(self.cuts) == 1 and self.cuts[0] in CUT_BY else ""
        plan = ParallelPlan(
            data=data, tensor=self.tensor, sequence_parallel=self.sequence_parallel, pipeline=self.pipeline,
            interleave=self.interleave, pipeline_schedule=self.pipeline_schedule, shard=self.shard,
            micro_batch=self.micro_batch, batch_norm=self.batch_norm, tensor_split=self.tensor_split,
            recompute=recompute if isinstance(recompute, str) else CheckpointPlan.from_dict(recompute),
            offload=self.offload, gradient_format=self.gradient_format,
            cuts=() if by else tuple(_whole("cuts", cut) for cut in self.cuts), cut_by=by, bucket_bytes=self.bucket_bytes,
        )  # fmt: skip
        if self.devices is not None:
            plan.check_devices(self.devices)
        return plan

    def under(self, plan: ParallelPlan, source: str = "the plan") -> SystemRequest:
        """The same request under a plan. What is asked for beside it and differs is refused."""
        values: dict[str, Any] = plan.to_dict()
        if by := values.pop("cut_by", ""):
            values["cuts"] = (by,)
        elif "cuts" in values:
            values["cuts"] = tuple(map(str, values["cuts"]))
        declared = options_of(SystemRequest)
        for name in DEGREES:
            asked = getattr(self, name)
            if asked != declared[name].default and asked != values.get(name, declared[name].default):
                raise OptionError(
                    name, asked, f"{source} says {values.get(name, 'the default')}; leave one of them out"
                )
        return replace(self, **values)

    def _refuse_unused(self, data: int) -> None:
        """Refuse what is said of ranks, stages or replicas that there are none of."""
        declared = options_of(SystemRequest)
        alone = {"data": data, "tensor": self.tensor, "pipeline": self.pipeline}
        for name, degree in NEEDS.items():
            if alone[degree] == 1 and getattr(self, name) != declared[name].default:
                raise OptionError(name, getattr(self, name), f"has no effect with {degree}=1; leave it out")

    def _left(self) -> int:
        """Replicas that tensor and pipeline degrees leave of the devices; one where they are not said."""
        per = self.tensor * self.pipeline
        if self.devices is None:
            return 1
        if self.devices % per:
            system = self.load_system()
            lower, upper = min(self.devices, system.size) // per * per, (self.devices // per + 1) * per
            there = [count for count in (lower, upper) if 0 < count <= system.size]
            near = " or ".join(map(str, there)) or f"at most {system.size} for tensor × pipeline"
            left = f"leaves {self.devices % per}"
            if self.devices > system.size:
                left += f", and {system.name} has {system.size:,}, {self.devices - system.size:,} fewer"
            reason = f"tensor={self.tensor} × pipeline={self.pipeline} = {per} {left}; {near} would do"
            raise OptionError("devices", self.devices, reason)
        return self.devices // per

    def whole_batch(self, plan: ParallelPlan) -> int:
        """Samples of a step over all replicas; unless given, one pass for each stage of every replica."""
        return self.batch or plan.data * plan.micro_batch * plan.pipeline

    def coster(self, store: CostStore | None = None) -> Coster:
        """What costs plans of the model."""
        from monet.request.distribution import coster_of

        return coster_of(self, store)

    def distribute(self) -> DistributedResult:
        """Do it: one training step under the plan on the system."""
        from monet.request.distribution import distribute

        return distribute(self)

    def inlined(self, folder: Path | None = None) -> SystemRequest:
        """As of a request; a checkpoint plan to recompute by, too."""
        from monet.request.files import read_plan
        from monet.transforms.checkpoint_plan import load_checkpoint_plan

        whole = super().inlined(folder)
        assert isinstance(whole, SystemRequest)
        if whole.system and whole.set:
            whole = replace(whole, system=dict(self.load_system().document), set={})
        return replace(
            whole,
            recompute=read_plan(whole.recompute, folder or Path(), lambda path: load_checkpoint_plan(path).to_dict()),
        )

    def files(self) -> tuple[str, ...]:
        """What is given that may be the path of a file."""
        return (
            *super().files(),
            *(value for value in (self.system, self.recompute) if isinstance(value, str) and value),
        )

    # --- plain values --------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """As of a request, with the whole description of the system instead of its name."""
        asked = self.inlined()
        values = super(SystemRequest, asked).to_json()
        if not self.system:
            return values
        own = {name: getattr(asked, name) for name in ("devices", *DEGREES)}
        own = {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}
        return {**values, "system": dict(asked.load_system().document), **own}

    @classmethod
    def of_distributed(cls, result: DistributedResult) -> SystemRequest:
        """The request that a result records."""
        if not result.inputs.get("model") or not result.inputs.get("system"):
            raise MonetError("this result does not record its inputs, so it cannot be rerun")
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in result.inputs.items() if name in known})


def _whole(name: str, text: str) -> int:
    if not text.isdecimal():
        raise OptionError(name, text, "numbers of layers are needed, as in 3,6,9; or number, or time")
    return int(text)
