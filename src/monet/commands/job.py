"""Job: everything one evaluation was asked for, as a result records it, so that it can be done again."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from monet.errors import MonetError
from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.hardware.description import Description
from monet.schedule.result import Result


@dataclass(frozen=True)
class Job:
    """A model, how it is trained, on what hardware, scheduled how.

    ``hardware`` is the whole description, not a name, so that a result does not change when a preset or a file does.
    ``training`` are fields of ``TrainingOptions``, ``schedule`` keywords of ``monet.schedule.evaluate``, as plain values.
    """

    model: str
    hardware: Mapping[str, Any]
    mode: str = "training"
    sizes: Mapping[str, Any] = field(default_factory=dict)  # batch, image, sequence, inputs, dimensions
    training: Mapping[str, Any] = field(default_factory=dict)
    schedule: Mapping[str, Any] = field(default_factory=dict)
    model_digest: str = ""  # of a model file; empty for the zoo
    checkpoint: Mapping[str, Any] = field(default_factory=dict)  # a CheckpointPlan as plain values

    def to_json(self) -> dict[str, Any]:
        """Plain values: ``Result.inputs``."""
        return dataclasses.asdict(self)

    @classmethod
    def from_result(cls, result: Result) -> Job:
        """The job that a result records."""
        known = {one.name for one in dataclasses.fields(cls)}
        values = {key: value for key, value in result.inputs.items() if key in known}
        if not isinstance(values.get("hardware"), Mapping) or not isinstance(values.get("model"), str):
            raise MonetError(
                "this result does not record its inputs (it was not made by monet run), so it cannot be rerun"
            )
        return cls(**values)

    def describe(self, overrides: Mapping[str, Any] | None = None) -> Description:
        """The hardware description, with single values set."""
        from monet.hardware.loading import describe

        return describe(dict(self.hardware), str(self.hardware.get("name", "hardware")), overrides)

    def accelerator(self, overrides: Mapping[str, Any] | None = None) -> Accelerator:
        """The hardware, with single values set."""
        from monet.hardware.resolve import resolve

        return resolve(self.describe(overrides))

    def graph(self) -> Graph:
        """The graph: a training step, or the forward pass for inference."""
        from monet.frontends import load_model
        from monet.training import TrainingOptions, prepare, training_step

        if self.model_digest and digest_of(self.model) != self.model_digest:
            raise MonetError(f"{self.model}: the file has changed since the result was made")
        forward = load_model(self.model, **self.sizes)
        options = TrainingOptions(**{key: _hashable(value) for key, value in self.training.items()})
        if self.mode != "training":
            return prepare(forward, options)
        return self._checkpointed(training_step(forward, options))

    def _checkpointed(self, step: Graph) -> Graph:
        from monet.transforms.checkpoint_plan import CheckpointPlan
        from monet.transforms.recompute import recompute

        return recompute(step, CheckpointPlan.from_dict(self.checkpoint)) if self.checkpoint else step

    def evaluate(self, graph: Graph | None = None, overrides: Mapping[str, Any] | None = None) -> Result:
        """Do it (again). ``graph`` saves building it when only the hardware changes."""
        from monet.schedule import evaluate

        graph = self.graph() if graph is None else graph
        result = evaluate(graph, self.accelerator(overrides), **self.schedule)
        return dataclasses.replace(result, inputs=self.to_json())


def job_for(
    model: str,
    hardware: str,
    *,
    mode: str = "training",
    sizes: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    schedule: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    checkpoint: Mapping[str, Any] | None = None,
) -> Job:
    """The job of a model and a hardware name or file."""
    from monet.hardware.loading import load_description

    description = load_description(hardware, overrides)
    return Job(
        model,
        description._document,
        mode,
        sizes or {},
        training or {},
        schedule or {},
        model_digest=digest_of(model),
        checkpoint=checkpoint or {},
    )


def digest_of(model: str) -> str:
    """Content hash of a model file; empty for a zoo name."""
    path = Path(model.split(":")[0])
    if not path.is_file():
        return ""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
