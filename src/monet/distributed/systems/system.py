"""System: devices and the network between them, read from a preset or a YAML file and checked."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from monet.distributed.systems.system_description import LevelModel, SystemModel
from monet.distributed.systems.topology import NetworkLevel, Span, spans
from monet.errors import MonetError, nearest
from monet.hardware.accelerator import Accelerator
from monet.hardware.document import Document, parse_document, read_document, set_value
from monet.hardware.errors import DescriptionError, DescriptionProblem
from monet.hardware.loading import describe, load_description, preset_names, problems_of
from monet.hardware.resolve import resolve
from monet.quantities import parse_quantity

PRESETS = Path(__file__).parent / "presets"
EXPECTED = "a system file is a mapping with name, devices, network"


class SystemNotFound(MonetError):
    """A system is missing, or asked for something it does not have."""


@dataclass(frozen=True, slots=True)
class Devices:
    """Like devices, next to each other in the order of ranks. ``key``: a digest of what they are."""

    count: int
    accelerator: Accelerator
    key: str


@dataclass(frozen=True)
class System:
    """Devices and network levels, from the innermost to the outermost."""

    name: str
    about: str
    source: tuple[str, ...]
    devices: tuple[Devices, ...]
    levels: tuple[NetworkLevel, ...]
    document: Mapping[str, Any]  # hardware files in place of their names: means the same everywhere

    @cached_property
    def size(self) -> int:
        """How many devices there are."""
        return sum(part.count for part in self.devices)

    def kinds(self, first: int, count: int) -> tuple[Devices, ...]:
        """The kinds of device among ``count`` ranks from ``first`` on, in order."""
        found, at = [], 0
        for part in self.devices:
            if at < first + count and first < at + part.count:
                found.append(part)
            at += part.count
        return tuple(found)

    def spans(self, stride: int, members: int, used: int) -> tuple[Span, ...]:
        """Where a group of ranks lies, of a system of which ``used`` devices work."""
        return spans(self.levels, stride, members, used)


def system_names() -> tuple[str, ...]:
    """Names of the built-in systems."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.yaml")))


def system_text(name_or_path: str) -> str:
    """The YAML text of a preset or a file, as it is written."""
    path, _ = _path(name_or_path)
    return path.read_text(encoding="utf-8")


def load_system(given: str | Path | Mapping[str, Any], setting: Mapping[str, Any] | None = None) -> System:
    """A system from a preset name, the path of a YAML file, or such a file's content. ``setting``: values set first, of
    a level of its network (``network.LEVEL.FIELD``) or else of every device, as ``--set`` does."""
    if isinstance(given, Mapping):
        return describe_system(_with(given, setting or {}), str(given.get("name", "system")), None)
    path, source = _path(str(given))
    return describe_system(_with(read_document(path, EXPECTED), setting or {}), source, path.parent)


def _with(document: Mapping[str, Any], setting: Mapping[str, Any]) -> Document:
    """A document with values set."""
    levels = document.get("network")
    found: Document = copy.deepcopy(dict(document)) if setting else dict(document)
    of_devices = {}
    for path, value in setting.items():
        first, _, rest = path.partition(".")
        if first == "network" and isinstance(levels, Mapping) and rest.partition(".")[0] in levels:
            set_value(found, path, value)
        else:
            of_devices[path] = value
    if of_devices:
        found["devices"] = [{**part, "set": {**(part.get("set") or {}), **of_devices}} for part in _parts(found)]
    return found


def system_from_text(text: str, source: str = "system", folder: Path | None = None) -> System:
    """A system from YAML text; hardware files are looked for below ``folder``."""
    return describe_system(parse_document(text, source, EXPECTED), source, folder)


def _path(text: str) -> tuple[Path, str]:
    if text in system_names():
        return PRESETS / f"{text}.yaml", text
    path = Path(text)
    if path.is_file():
        return path, text
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        raise SystemNotFound(f"{text}: no such file")
    raise SystemNotFound(f"no system called {text!r}; {nearest(text, system_names())}")


def describe_system(document: Document, source: str, folder: Path | None) -> System:
    """A checked system from a document. Every problem is reported at once, as ``DescriptionError``."""
    contents: list[Any] = [part.get("hardware") for part in _parts(document)]
    named = {**document, "devices": [_without_content(part) for part in _parts(document)]}
    try:
        model = SystemModel.model_validate(named if isinstance(document.get("devices"), list | dict) else document)
    except ValidationError as error:
        raise DescriptionError(source, problems_of(error, SystemModel)) from None
    levels = tuple(_level(name, level) for name, level in model.network.items())
    room = math.prod(level.size for level in levels)
    devices, parts, problems = [], [], []
    for index, part in enumerate(model.devices):
        given = contents[index] if index < len(contents) and isinstance(contents[index], Mapping) else part.hardware
        try:
            described = _described(given, part.set, folder)
        except DescriptionError as error:
            below = error.problems
            problems += [DescriptionProblem(f"devices.{index}.{one.path}", one.message, one.given) for one in below]
            continue
        except MonetError as error:
            problems.append(DescriptionProblem(f"devices.{index}.hardware", str(error), str(part.hardware)))
            continue
        digest = hashlib.sha256(json.dumps(described._document, sort_keys=True, default=str).encode()).hexdigest()
        devices.append(Devices(part.count or room, resolve(described), digest[:16]))
        parts.append({"hardware": described._document, "count": part.count or room})
    if problems:
        raise DescriptionError(source, problems)
    inlined = {**document, "devices": parts}
    return System(model.name, model.about, tuple(model.source), tuple(devices), levels, inlined)


def _parts(document: Document) -> list[dict[str, Any]]:
    devices = document.get("devices")
    listed = devices if isinstance(devices, list) else [devices]
    return [part if isinstance(part, dict) else {"hardware": part} for part in listed]


def _without_content(part: dict[str, Any]) -> dict[str, Any]:
    """A part whose hardware is given by content, with its name instead."""
    hardware = part.get("hardware")
    return {**part, "hardware": str(hardware.get("name", "hardware"))} if isinstance(hardware, Mapping) else part


def _described(given: str | Mapping[str, Any], setting: Mapping[str, Any], folder: Path | None) -> Any:
    if isinstance(given, Mapping):
        return describe(dict(given), str(given.get("name", "hardware")), setting)
    beside = folder / given if folder is not None and given not in preset_names() else None
    return load_description(beside if beside is not None and beside.is_file() else given, setting)


def _level(name: str, model: LevelModel) -> NetworkLevel:
    sizes = {_bytes(size): share for size, share in model.efficiency.items()}
    return NetworkLevel(
        name,
        tuple(model.size),
        model.topology,
        model.bandwidth_bytes_per_s,
        min(model.device_bandwidth_bytes_per_s or math.inf, model.bandwidth_bytes_per_s),
        model.latency_s,
        model.launch_s,
        tuple(sorted(sizes.items())),
        model.energy_j_per_bit,
        model.takes_compute,
        tuple(model.algorithms),
    )


def _bytes(size: str) -> float:
    return float(size) if size.replace(".", "").isdecimal() else parse_quantity(size, "B")


def system_schema() -> dict[str, Any]:
    """JSON Schema of a system file, short forms included."""
    result = SystemModel.model_json_schema()
    result["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    devices = result["properties"]["devices"]
    described = {key: devices.pop(key) for key in ("title", "description") if key in devices}
    result["properties"]["devices"] = described | {"anyOf": [{"type": "string"}, devices.get("items", {}), devices]}
    source = result["properties"]["source"]
    result["properties"]["source"] = {"anyOf": [{"type": "string"}, source]}
    levels = result["$defs"]["LevelModel"]["properties"]
    levels["efficiency"] = {
        "description": levels["efficiency"].get("description", ""),
        "anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, levels["efficiency"]],
    }
    levels["algorithms"]["items"] = {"enum": list(levels["algorithms"].get("default", []))}
    return result
