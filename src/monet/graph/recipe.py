"""Recipe: how a graph was made, for a result that can be made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """How a graph was made, in names and plain values of a request's fields.

    Loading a model begins one; what makes a graph of another either adds its part, or leaves the new graph without a
    recipe. So a graph that has one is what the recipe makes, and anything built or changed otherwise has none.
    """

    values: Mapping[str, Any]

    def trained(self, mode: str, options: Mapping[str, Any]) -> Recipe | None:
        """With training options applied to a model just loaded. Each micro-batch is of the size it was loaded with."""
        batch, passes = self.values.get("batch"), options["micro_batches"] if mode == "training" else 1
        if "mode" in self.values or not isinstance(options["optimizer"], str) or (passes > 1 and batch is None):
            return None
        whole = None if batch is None else batch * passes
        return Recipe({**self.values, **options, "mode": mode, "micro_batches": passes, "batch": whole})

    def checkpointed(self, plan: Mapping[str, Any]) -> Recipe | None:
        """With a checkpoint plan applied to a plain training step."""
        if self.values.get("mode") != "training" or {"checkpoint", "phases"} & self.values.keys():
            return None
        return Recipe({**self.values, "checkpoint": dict(plan)})

    def selected(self, phases: Sequence[str]) -> Recipe | None:
        """With only some phases left."""
        return None if "phases" in self.values else Recipe({**self.values, "phases": list(phases)})
