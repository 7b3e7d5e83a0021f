"""The files that a request names, read: what is left means the same everywhere and later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from monet.schedule.plan import load_plan
from monet.transforms.checkpoint_plan import is_plan_file, load_checkpoint_plan
from monet.transforms.precision import load_precision, precision_values

if TYPE_CHECKING:
    from monet.request.request import Request

Asked = TypeVar("Asked", bound="Request")


def inlined(request: Asked, folder: Path | None) -> Asked:
    """A request with plans in place of their files; paths start at ``folder``, by default the current one."""
    at = folder or Path()
    return replace(
        request,
        model=_model(request.model, folder),
        fusion=read_plan(request.fusion, at, lambda path: load_plan(path).to_dict()),
        allocation=read_plan(request.allocation, at, lambda path: load_plan(path).to_dict()["allocation"]),
        precision=read_plan(request.precision, at, lambda path: precision_values(load_precision(path))),
        checkpoint=read_plan(request.checkpoint, at, lambda path: load_checkpoint_plan(path).to_dict()),
    )


def read_plan(given: str | Mapping[str, Any], folder: Path, load: Any) -> str | Mapping[str, Any]:
    """What the file that is given holds; anything else as it is."""
    if isinstance(given, str) and is_plan_file(given):
        return dict(load(str(folder / given)))
    return given


def _model(model: str | Mapping[str, Any], folder: Path | None) -> str | Mapping[str, Any]:
    """A model's file below ``folder`` by its whole path; anything else as it is."""
    if folder is None or not isinstance(model, str):
        return model
    file, colon, function = model.rpartition(":") if ".py:" in model else (model, "", "")
    return f"{(folder / file).resolve()}{colon}{function}" if (folder / file).is_file() else model
