"""The YAML document behind a description: reading it, cores that start from others (``use``), and setting values."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from monet.errors import MonetError, nearest
from monet.hardware.errors import DescriptionError, DescriptionProblem, HardwareError
from monet.nesting import check_nesting

Document = dict[str, Any]
_GRID = re.compile(r"^(\d+)x(\d+)$")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, refusing a key that is written twice. As in YAML 1.2 on, off, yes and no are names, which a DRAM
    or a core may well have, and not truth values."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the loader has it
        first: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:bool" or first in "tTfF"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a list or mapping cannot be a key", key.start_mark)
            if key.value in seen:
                mark = key.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} is written twice", mark)
            seen.add(key.value)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


EXPECTED = "a hardware file is a mapping with name, node_nm, clock_hz, cores, dram, network"


def shipped_names(folder: Path) -> tuple[str, ...]:
    """Names of the files in a folder that come with monet."""
    return tuple(sorted(path.stem for path in folder.glob("*.yaml")))


def shipped_or_own(name_or_path: str | Path, folder: Path, what: str) -> Path:
    """The file of a shipped ``what`` by its name, or any file; an error with the nearest name if it is neither."""
    text = str(name_or_path)
    if text in shipped_names(folder):
        return folder / f"{text}.yaml"
    path = Path(name_or_path)
    if path.is_file():
        return path
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        raise MonetError(f"{text}: no such file")
    raise MonetError(f"no {what} called {text!r}; {nearest(text, shipped_names(folder))}")


def read_document(path: Path, expected: str = EXPECTED) -> Document:
    """The mapping in a YAML file; ``expected`` says what it should be if it is something else."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HardwareError(f"{path}: cannot be read: {error}") from None
    return parse_document(text, str(path), expected)


def parse_document(text: str, source: str, expected: str = EXPECTED) -> Document:
    """The mapping in a YAML text."""
    check_nesting(text, source)
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise HardwareError(f"{source}:{line} {getattr(error, 'problem', None) or error}") from None
    if not isinstance(document, dict):
        raise HardwareError(f"{source}: {expected}")
    return document


# --- use: ------------------------------------------------------------------------------------------------------------


def resolve_uses(document: Document, source: str, preset: Callable[[str], Document]) -> Document:
    """The document with every ``use`` of a core replaced by what it stands for. ``preset`` reads another file."""
    cores = document.get("cores")
    if not isinstance(cores, dict):
        return document
    problems: list[DescriptionProblem] = []
    resolved: dict[str, Any] = {}
    for name, core in cores.items():
        try:
            resolved[name] = _resolve_use(core, cores, (str(name),), preset)
        except HardwareError as error:
            problems.append(DescriptionProblem(f"cores.{name}.use", str(error), str(core.get("use"))))
    if problems:
        raise DescriptionError(source, problems)
    return document | {"cores": resolved}


def _resolve_use(core: Any, cores: Document, trail: tuple[str, ...], preset: Callable[[str], Document]) -> Any:
    if not isinstance(core, dict) or core.get("use") is None:
        return core
    file, _, name = str(core["use"]).rpartition(":")
    if file:
        cores, trail = preset(file).get("cores", {}), ()
    if name not in cores:
        raise HardwareError(f"no such core; {nearest(name, map(str, cores))}")
    if name in trail:
        raise HardwareError(f"cores use each other in a circle: {' → '.join((*trail, name))}")
    base = _resolve_use(cores[name], cores, (*trail, name), preset)
    inherited = {key: value for key, value in base.items() if key not in ("count", "mesh")}
    return _merge(inherited, {key: value for key, value in core.items() if key != "use"})


def _merge(base: Any, change: Any) -> Any:
    """Mappings merge key by key, lists of named things by name; everything else is replaced."""
    if isinstance(base, dict) and isinstance(change, dict):
        return base | {key: _merge(base.get(key), value) for key, value in change.items()}
    if _are_named(base) and _are_named(change):
        names = [item["name"] for item in base]
        changes = {item["name"]: item for item in change}
        merged = [_merge(item, changes.get(item["name"], {})) for item in base]
        return merged + [item for item in change if item["name"] not in names]
    return change


def _are_named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "name" in item for item in value)


# --- setting values ---------------------------------------------------------------------------------------------------


# what stands at the top of a file and is set by its name alone
SETTABLE = (
    "name", "node_nm", "process", "clock_hz", "dispatch_cycles", "host_dispatch_s", "other_area_m2", "clock_power_w",
    "clock_gating",
)  # fmt: skip


def with_overrides(document: Document, overrides: Mapping[str, Any]) -> Document:
    """A copy with values set. A key is a dotted path, or the name of one of the file's parameters."""
    result = copy.deepcopy(document)
    parameters = document.get("parameters") or {}
    for key, value in overrides.items():
        if key in parameters:
            sets = parameters[key].get("sets", [])
            for path in [sets] if isinstance(sets, str) else sets:
                set_value(result, path, value)
        elif "." in key:
            set_value(result, key, value)
        elif key in SETTABLE:
            result[key] = value
        else:
            raise HardwareError(
                f"no parameter {key!r}; {nearest(key, parameters) if parameters else 'give a dotted path'}"
            )
    return result


def set_value(document: Document, path: str, value: Any) -> None:
    """Set one value in place. List items are addressed by index or by name; ``mesh: 4x4`` opens into x and y."""
    *parents, last = path.split(".")
    here: Any = document
    for depth, key in enumerate(parents):
        here = _descend(here, key, ".".join(parents[:depth]), path)
    if isinstance(here, list):
        here[_position(here, last, path)] = value
    elif isinstance(here, dict):
        here[last] = value
    else:
        raise HardwareError(f"cannot set {path}: {'.'.join(parents)} is a single value")


def _descend(here: Any, key: str, where: str, path: str) -> Any:
    if isinstance(here, list):
        return here[_position(here, key, path)]
    if not isinstance(here, dict) or key not in here:
        options = map(str, here) if isinstance(here, dict) else ()
        raise HardwareError(
            f"cannot set {path}: nothing at {where + '.' if where else ''}{key}; {nearest(key, options)}"
        )
    match = _GRID.match(here[key]) if isinstance(here[key], str) else None
    if key == "mesh" and match:
        here[key] = {"x": int(match[1]), "y": int(match[2])}
    return here[key]


def _position(items: list[Any], key: str, path: str) -> int:
    names = [str(item.get("name", index)) if isinstance(item, dict) else str(index) for index, item in enumerate(items)]
    if key in names:
        return names.index(key)
    if key.isdigit() and int(key) < len(items):
        return int(key)
    raise HardwareError(f"cannot set {path}: no item {key!r}; {nearest(key, names)}")
