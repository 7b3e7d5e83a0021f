"""From a preset name or a path to a checked description and a resolved accelerator."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from monet.errors import nearest
from monet.formats import FORMATS
from monet.hardware.accelerator import Accelerator
from monet.hardware.check import check
from monet.hardware.description import Description
from monet.hardware.document import Document, parse_document, read_document, resolve_uses, set_value, with_overrides
from monet.hardware.errors import DescriptionError, DescriptionProblem, HardwareError
from monet.hardware.resolve import resolve

PRESETS = Path(__file__).parent / "presets"
NUMBERS = {"bytes", "cycle", "s", "hz", "size", "lanes", "x", "y", "count"}  # how the names of numeric fields end


def preset_names() -> tuple[str, ...]:
    """Names of the built-in accelerators."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.yaml")))


def _preset(name: str) -> Document:
    path = PRESETS / f"{name}.yaml"
    found = path.stat()
    return copy.deepcopy(_read(path, found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=64)
def _read(path: Path, time_ns: int, size: int) -> Document:
    """A file as it is since a time."""
    return read_document(path)


def _document(name_or_path: str | Path) -> tuple[Document, str]:
    """The document of a preset or a file, and how to call it in errors."""
    text = str(name_or_path)
    if text in preset_names():
        return _preset(text), text
    path = Path(name_or_path)
    if path.is_file():
        return read_document(path), text
    if path.is_dir():
        files = sorted(found.name for found in path.iterdir() if found.suffix in (".yaml", ".yml"))
        names = ", ".join(files[:8]) + " …" * (len(files) > 8)
        raise HardwareError(f"{text}: is a folder; {f'name a file in it: {names}' if files else 'it has no YAML file'}")
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        raise HardwareError(f"{text}: no such file")
    raise HardwareError(f"no hardware called {text!r}; {nearest(text, preset_names())}")


def load_description(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Description:
    """A checked description. ``overrides`` sets paths (``cores.pe.memories.sram.size_bytes``) or named parameters."""
    document, source = _document(name_or_path)
    return describe(document, source, overrides)


def describe(document: Document, source: str = "hardware", overrides: Mapping[str, Any] | None = None) -> Description:
    """A checked description from a document. Every problem is reported at once, as ``DescriptionError``."""
    try:
        document = with_overrides(resolve_uses(document, source, lambda name: _document(name)[0]), overrides or {})
        description = Description.model_validate(document)
    except (TypeError, AttributeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise HardwareError(f"{source}: not a hardware description: {type(error).__name__}: {error}") from None
    except ValidationError as error:
        problems = problems_of(error)
        raise DescriptionError(source, problems + _also(document, error, problems)) from None
    problems = [*check(description), *_parameter_problems(document, description)]
    if problems:
        raise DescriptionError(source, problems)
    description._document = document
    return description


def describe_text(text: str, source: str = "hardware") -> Description:
    """A checked description from YAML text."""
    return describe(parse_document(text, source), source)


def description_text(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> str:
    """The YAML text of a preset or a file: as it is written, comments and all, or the document with values set."""
    document, source = _document(name_or_path)
    if not overrides:
        path = PRESETS / f"{source}.yaml" if source in preset_names() else Path(source)
        return path.read_text(encoding="utf-8")
    return document_text(describe(document, source, overrides)._document)


def document_text(document: Document) -> str:
    """A description's document as the YAML text of a file."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def load_hardware(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Accelerator:
    """A resolved accelerator from a preset name or a YAML file, with ``overrides`` set first."""
    return resolve(load_description(name_or_path, overrides))


def replace(description: Description, path: str, value: Any) -> Description:
    """A copy of a description with one path or parameter set; the original is left alone."""
    document = description._document or description.model_dump(mode="json", exclude_unset=True)
    return describe(document, description.name, {path: value})


def schema() -> dict[str, Any]:
    """JSON Schema of a hardware file, short forms included."""
    result = Description.model_json_schema()
    result["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    short = {
        "ports": {"type": "string", "pattern": r"^(\d+r)?(\d+w)?(\d+rw)?$"},
        "mesh": {"type": "string", "pattern": r"^\d+x\d+$"},
        "per": {"type": "string"},
        "transposed_read": {"enum": ["free", "explicit"]},
        "sets": {"type": "string"},
        "source": {"type": "string"},
        "rates": {"type": "array", "items": {"type": "string"}},
        "dtypes": {"type": "array", "items": {"enum": list(FORMATS)}},
    }
    for model in (result, *result["$defs"].values()):
        for name, field in model.get("properties", {}).items():
            if name in short and not (name == "mesh" and "anyOf" in field and {"type": "string"} in field["anyOf"]):
                described = {key: field.pop(key) for key in ("title", "description", "default") if key in field}
                model["properties"][name] = described | {"anyOf": [short[name], *field.pop("anyOf", [field])]}
        if "ports" in model.get("required", ()):
            model["required"].remove("ports")
        if "kind" in model.get("required", ()) and "use" in model.get("properties", {}):
            model["required"] = []  # a core that uses another inherits what is required
    return result


# --- problems ---------------------------------------------------------------------------------------------------------


def problems_of(error: ValidationError, root: type[BaseModel] = Description) -> list[DescriptionProblem]:
    """Pydantic's errors about a ``root`` in our words."""
    found = []
    for item in error.errors(include_url=False):
        place, given = tuple(item["loc"]), item.get("input")
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "missing":
            found.append(DescriptionProblem(_path(place), "is required"))
            continue
        if item["type"] == "extra_forbidden":
            message = f"unknown key; {nearest(str(place[-1]), _keys_at(place[:-1], root))}"
        elif item["type"] == "literal_error":
            message = f"must be one of {item['ctx']['expected']}"
        elif item["type"] == "model_type":
            message = f"must be a mapping with {', '.join(_keys_at(place, root))}"
        shown = "" if isinstance(given, dict | list | BaseModel) or item["type"] == "extra_forbidden" else repr(given)
        found.append(DescriptionProblem(_path(place), message[0].lower() + message[1:], shown))
    return found


def _path(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in place if part != "[key]")


def _keys_at(place: tuple[int | str, ...], root: type[BaseModel]) -> list[str]:
    """Valid keys of the model at a place below ``root``."""
    here: Any = root
    for part in place:
        if _is_model(here):
            field = here.model_fields.get(str(part))
            here = _unwrap(field.annotation) if field else None
        else:
            here = _unwrap(get_args(here)[-1]) if get_args(here) else None
    return [field.alias or name for name, field in here.model_fields.items()] if _is_model(here) else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _unwrap(annotation: Any) -> Any:
    """The type inside an optional; anything else as it is."""
    options = [option for option in get_args(annotation) if option is not type(None)]
    is_container = get_origin(annotation) in (list, dict)
    return options[0] if len(options) == 1 and not is_container else annotation


def _also(document: Document, error: ValidationError, known: list[DescriptionProblem]) -> list[DescriptionProblem]:
    """Problems of the whole that would show once the fields in ``error`` are put right.

    Refused values are taken out (numbers become 1) and the rest is checked; what stands below one is left out.
    """
    repaired = copy.deepcopy(document)
    for item in error.errors(include_url=False):
        _neutralise(repaired, [part for part in item["loc"] if part != "[key]"], item["type"])
    try:
        description = Description.model_validate(repaired)
    except ValidationError:
        return []
    bad = [problem.path for problem in known]
    return [
        problem for problem in check(description) if not any(f"{problem.path}.".startswith(f"{path}.") for path in bad)
    ]


def _neutralise(document: Any, place: list[Any], kind: str) -> None:
    for part in place[:-1]:
        inside = part in document if isinstance(document, dict) else isinstance(document, list)
        if not inside:
            return
        document = document[part]
    if not place or not isinstance(document, dict) or place[-1] not in document:
        return
    if place[-1] == "mesh":
        document["mesh"] = "1x1"
        return
    number = isinstance(document[place[-1]], int | float | str) and kind not in ("extra_forbidden", "literal_error")
    if number and str(place[-1]).rpartition("_")[2] in NUMBERS:
        document[place[-1]] = 1
    else:
        del document[place[-1]]


def _parameter_problems(document: Document, description: Description) -> list[DescriptionProblem]:
    """Every path that a parameter sets must be there to set."""
    scratch = copy.deepcopy(document)
    found = []
    for name, parameter in description.parameters.items():
        for path in parameter.sets:
            try:
                set_value(scratch, path, parameter.values[0] if parameter.values else 1)
            except HardwareError as error:
                found.append(DescriptionProblem(f"parameters.{name}.sets", str(error), path))
    return found
