"""A space of designs: a base accelerator, named parameters that set paths in it or in the workloads, constraints.

Everything that can be known before a point is evaluated is checked when a space is loaded, and all problems are
reported at once: unknown paths and names, empty ranges, values that the hardware refuses, constraints that cannot be
read. ``docs/exploration.md`` describes the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from monet.errors import MonetError, OptionError, nearest
from monet.hardware.accelerator import Accelerator
from monet.hardware.document import Document, read_document, shipped_names, shipped_or_own, with_overrides
from monet.hardware.errors import DescriptionProblem, HardwareError
from monet.hardware.loading import describe, load_description, problems_of
from monet.hardware.resolve import resolve
from monet.quantities import plain_number
from monet.request.files import inlined
from monet.search.hardware.description import WHOLE_LIMIT, ParameterModel, SpaceModel
from monet.search.hardware.expressions import (
    Comparison,
    Expression,
    ExpressionError,
    parse_comparison,
    parse_expression,
)
from monet.search.hardware.objectives import (
    EXECUTED,
    HARDWARE_FIGURES,
    WORKLOAD_FIGURES,
    Objective,
    parse_objective,
)
from monet.search.hardware.workload import Workload, knobs

SPACES = Path(__file__).parent.parent / "spaces"
MOST_EXHAUSTIVE = 1_000_000  # points that an exhaustive search may have
MOST_TRIED_VALUES = 16  # values of one parameter that are tried on the base when a space is loaded

Value = int | float | str | bool
Values = dict[str, Any]


class SpaceError(MonetError):
    """A space that cannot be explored; ``problems`` holds everything found."""

    def __init__(self, source: str, problems: Sequence[DescriptionProblem]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"{source}: {count}\n" + "\n".join(map(str, problems)))


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named choice: what it sets, and the values it may take (none: any number from low to high)."""

    name: str
    sets: tuple[str, ...]
    values: tuple[Value, ...]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False  # a continuous one takes whole numbers only
    about: str = ""

    @property
    def path(self) -> str:
        """What it sets first, which says in what unit its values are; its name if it only decides derived values."""
        return self.sets[0] if self.sets else self.name

    @property
    def is_continuous(self) -> bool:
        """Whether any number between two bounds will do."""
        return not self.values

    @property
    def in_core(self) -> bool:
        """Whether it changes what a core or a shared memory is, so that mappings have to be found anew."""
        return any(
            path.startswith(("cores.", "memories.", "clock_hz", "node_nm"))
            and not path.endswith((".count", ".mesh.x", ".mesh.y", ".mesh"))
            for path in self.sets
        )

    def at(self, share: float) -> Value:
        """The value at a share of the way, 0 to 1 (excluded): how samplers choose."""
        if self.values:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.log:
            exact = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            exact = self.low + share * (self.high - self.low)
        return self.snap(exact)

    def snap(self, exact: float) -> int | float:
        """A number that a continuous parameter takes: six digits, so that it is the same when written and read."""
        rounded = float(f"{exact:.6g}")
        return round(rounded) if self.whole else rounded


@dataclass(frozen=True)
class Space:
    """A checked space. ``model`` is self-contained: hardware and plans are inside, files are not needed any more."""

    model: SpaceModel
    base: Document
    parameters: tuple[Parameter, ...]
    constraints: tuple[Comparison, ...]
    objectives: tuple[Objective, ...]
    derived: tuple[tuple[str, Expression], ...] = ()  # path of the hardware → what it comes to

    @property
    def name(self) -> str:
        """Name of the space."""
        return self.model.name

    @property
    def workloads(self) -> dict[str, Workload]:
        """Workloads by name, as they are before parameters change them."""
        return self.model.workloads

    def judged(self, metrics: Mapping[str, float], objectives: Sequence[Objective]) -> list[float]:
        """Objectives of a point by its figures."""
        weights = {name: workload.weight for name, workload in self.workloads.items()}
        return [objective.value(metrics, weights) for objective in objectives]

    @property
    def executes(self) -> bool:
        """Whether gradient errors are asked for, so that steps are executed."""
        asked = {name for constraint in self.constraints for name in constraint.names}
        named = any(name.rpartition(".")[2] == EXECUTED for name in asked)
        return named or any(objective.figure == EXECUTED for objective in self.objectives)

    @property
    def size(self) -> int | None:
        """Number of points; None if a parameter is continuous."""
        if any(parameter.is_continuous for parameter in self.parameters):
            return None
        return math.prod(len(parameter.values) for parameter in self.parameters)

    def points(self) -> Iterator[Values]:
        """Every point of a finite space, those that share a core one after another so that mappings are found once."""
        order = sorted(self.parameters, key=lambda parameter: not parameter.in_core)
        sizes = [len(parameter.values) for parameter in order]
        for number in range(math.prod(sizes)):
            chosen: Values = {}
            for parameter, size in zip(reversed(order), reversed(sizes), strict=True):
                number, position = divmod(number, size)
                chosen[parameter.name] = parameter.values[position]
            yield {parameter.name: chosen[parameter.name] for parameter in self.parameters}

    def hardware(self, values: Mapping[str, Any]) -> Accelerator:
        """The accelerator of a point; a combination of values that makes no sense is a ``HardwareError``."""
        return resolve(describe(self.base, self.name, self.overrides(values)))

    def hardware_document(self, values: Mapping[str, Any]) -> Document:
        """The description of a point's accelerator as plain values, for a run report or a YAML file."""
        return with_overrides(self.base, self.overrides(values))

    def overrides(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a point sets of the hardware, by path."""
        found = {
            path: values[parameter.name]
            for parameter in self.parameters
            for path in parameter.sets
            if not path.startswith("workloads.")
        }
        known = numeric(values) | self.model.tables if self.derived else {}
        return found | {path: expression.value(known) for path, expression in self.derived}

    @property
    def set_by(self) -> dict[str, frozenset[str]]:
        """Paths of the hardware that differ from point to point, and the parameters that decide each."""
        found = {
            path: frozenset({parameter.name})
            for parameter in self.parameters
            for path in parameter.sets
            if not path.startswith("workloads.")
        }
        return found | {path: expression.names for path, expression in self.derived}

    def workloads_at(self, values: Mapping[str, Any]) -> dict[str, Workload]:
        """The workloads of a point."""
        changed: dict[str, dict[str, Any]] = {name: {} for name in self.workloads}
        for parameter in self.parameters:
            for path in parameter.sets:
                if path.startswith("workloads."):
                    _, which, field = path.split(".")
                    for name in self.workloads if which == "*" else (which,):
                        changed[name][field] = values[parameter.name]
        return {
            name: changed_workload(self.workloads[name], new) if new else self.workloads[name]
            for name, new in changed.items()
        }

    @cached_property
    def text(self) -> str:
        """The whole space as JSON: what workers are sent and stores keep."""
        return self.model.model_dump_json(exclude_defaults=True)

    @property
    def decides(self) -> dict[str, Any]:
        """All that decides what a point costs, by what it is."""
        return {
            "hardware": self.base,
            "sets": {parameter.name: parameter.sets for parameter in self.parameters},
            "workloads": {name: [workload.to_json(), workload.weight] for name, workload in self.workloads.items()},
            "constraints": [constraint.text for constraint in self.constraints],
            **({"executed": EXECUTED} if self.executes else {}),
            **({"pipeline": self.model.pipeline.model_dump()} if self.model.pipeline else {}),
            **(
                {"derived": {path: each.text for path, each in self.derived}, "tables": self.model.tables}
                if self.derived
                else {}
            ),
        }

    @cached_property
    def meaning(self) -> str:
        """Hash of what decides. Values and objectives may change, points keep their figures."""
        return hashlib.blake2b(json.dumps(self.decides, sort_keys=True).encode(), digest_size=16).hexdigest()

    def key(self, values: Mapping[str, Any]) -> str:
        """The same text for the same point."""
        return json.dumps(
            {parameter.name: values[parameter.name] for parameter in self.parameters}, separators=(",", ":")
        )

    def require_finite(self) -> int:
        """Number of points for an exhaustive search; an error if there are too many."""
        continuous = [parameter.name for parameter in self.parameters if parameter.is_continuous]
        if continuous:
            raise MonetError(
                f"{self.name}: {', '.join(continuous)} can take any number, so the space cannot be exhausted; "
                "give a step or values, or take --search random, tpe or nsga2"
            )
        size = self.size or 0
        if size > MOST_EXHAUSTIVE:
            sizes = " × ".join(f"{len(parameter.values)} {parameter.name}" for parameter in self.parameters)
            raise MonetError(
                f"{self.name}: {size:,} points ({sizes}), more than the {MOST_EXHAUSTIVE:,} that --search exhaustive "
                "takes; use --search nsga2, tpe or random with --points, or fewer values"
            )
        return size


def space_names() -> tuple[str, ...]:
    """Names of the spaces that come with monet."""
    return shipped_names(SPACES)


def load_space(name_or_path: str | Path) -> Space:
    """A checked space from a YAML file or the name of a shipped one."""
    text, path = str(name_or_path), shipped_or_own(name_or_path, SPACES, "space")
    needed = ", ".join(name for name, field in SpaceModel.model_fields.items() if field.is_required())
    document = read_document(path, f"a space file is a mapping with at least {needed}")
    return make_space(document, text, path.parent)


def space_from_text(text: str) -> Space:
    """A space from its own ``text``."""
    return make_space(json.loads(text), "space", Path())


def space_schema() -> dict[str, Any]:
    """JSON Schema of a space file."""
    return SpaceModel.model_json_schema() | {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def make_space(document: Document, source: str, folder: Path) -> Space:
    """A checked space from plain values; relative paths in it start at ``folder``."""
    try:
        model = SpaceModel.model_validate(document)
    except ValidationError as error:
        raise SpaceError(source, problems_of(error, SpaceModel)) from None
    base = _base(model, source, folder)
    problems: list[DescriptionProblem] = []
    workloads = _inlined(model, folder, problems)
    model = model.model_copy(update={"hardware": base, "set_values": {}, "workloads": workloads})
    derived = _derived(model, problems)
    used = frozenset(name for _, expression in derived for name in expression.names)
    parameters = tuple(
        _parameter(name, parameter, base, used, problems) for name, parameter in model.parameters.items()
    )
    problems += _path_problems(model, base, parameters)
    constraints = _constraints(model, base, problems)
    objectives = _objectives(model, problems)
    if not problems and derived:
        problems += _derived_problems(model, base, parameters, derived)
    if problems:
        raise SpaceError(source, problems)
    return Space(model, base, parameters, constraints, objectives, derived)


def _derived(model: SpaceModel, problems: list[DescriptionProblem]) -> tuple[tuple[str, Expression], ...]:
    found = []
    for path, text in model.derived.items():
        try:
            found.append((path, parse_expression(text, model.parameters, model.tables)))
        except ExpressionError as error:
            problems.append(DescriptionProblem(f"derived.{path}", str(error)))
    return tuple(found)


def _derived_problems(
    model: SpaceModel,
    base: Document,
    parameters: tuple[Parameter, ...],
    derived: tuple[tuple[str, Expression], ...],
) -> Iterator[DescriptionProblem]:
    """Derived values that the hardware refuses, at either end of all parameters."""
    for end in (0, -1):
        ends = [(each.low, each.high) if each.is_continuous else each.values for each in parameters]
        known = numeric({each.name: values[end] for each, values in zip(parameters, ends, strict=True)})
        known |= model.tables
        for path, expression in derived:
            try:
                problem = _hardware_problem(base, path, expression.value(known))
            except ExpressionError as error:
                problem = str(error)
            if problem:
                yield DescriptionProblem(f"derived.{path}", problem, expression.text)


def _base(model: SpaceModel, source: str, folder: Path) -> Document:
    if isinstance(model.hardware, dict):
        return describe(model.hardware, source, model.set_values)._document
    beside = folder / model.hardware
    given = beside if beside.is_file() else model.hardware
    try:
        return load_description(given, model.set_values)._document
    except HardwareError as error:
        raise SpaceError(source, [DescriptionProblem("hardware", str(error))]) from None


def _inlined(model: SpaceModel, folder: Path, problems: list[DescriptionProblem]) -> dict[str, Workload]:
    """Workloads with the files they name made independent of the current directory."""
    found = {}
    for name, workload in model.workloads.items():
        try:
            found[name] = changed_workload(workload, {}, folder)
        except MonetError as error:
            problems.append(DescriptionProblem(f"workloads.{name}", str(error)))
            found[name] = workload
    return found


def changed_workload(workload: Workload, new: Mapping[str, Any], folder: Path = Path()) -> Workload:
    """A workload with other values, and the files it names read."""
    changed: Workload = inlined(replace(workload, **new), folder)
    return changed


def _parameter(
    name: str, model: ParameterModel, base: Document, used: frozenset[str], problems: list[DescriptionProblem]
) -> Parameter:
    """``used``: parameters that derived values are made of; these need not set anything themselves."""
    known = base.get("parameters") or {}
    named = model.sets or ([name] if name in known or name not in used else [])
    sets = tuple(path for entry in named for path in (_paths_of(known[entry]) if entry in known else [entry]))
    if not model.sets and name not in known and name not in used:
        problems.append(
            DescriptionProblem(
                f"parameters.{name}.sets",
                f"is required, as the hardware has no parameter {name!r} of its own"
                + (f"; {nearest(name, known)}" if known else ", and no derived value is made of it"),
            )
        )
        sets = ()
    if name in HARDWARE_FIGURES or not name.isidentifier():
        problems.append(
            DescriptionProblem(f"parameters.{name}", "is the name of a figure, or not a plain word; take another")
        )
    values, low, high = model.chosen()
    if len(values) > WHOLE_LIMIT:
        problems.append(
            DescriptionProblem(f"parameters.{name}.range", f"has more than {WHOLE_LIMIT:,} values; give a step")
        )
    log, whole = model.range is not None and model.range.log, low.is_integer() and high.is_integer()
    return Parameter(name, sets, values, low, high, log, whole, model.about)


def _paths_of(parameter: Mapping[str, Any]) -> list[str]:
    """What a parameter of the hardware file sets."""
    sets = parameter["sets"]
    return [sets] if isinstance(sets, str) else list(sets)


def _path_problems(
    model: SpaceModel, base: Document, parameters: tuple[Parameter, ...]
) -> Iterator[DescriptionProblem]:
    """Paths that are not there, are set twice, or refuse a value."""
    owner: dict[str, str] = {}
    for parameter in parameters:
        for path in parameter.sets:
            if path in owner:
                yield DescriptionProblem(f"parameters.{parameter.name}.sets", f"is already set by {owner[path]}", path)
            owner[path] = parameter.name
            tried = (
                parameter.values[: MOST_TRIED_VALUES - 1] + parameter.values[-1:]
                if parameter.values
                else (parameter.low, parameter.high)
            )
            for value in tried:
                problem = (
                    _workload_problem(model, path, value)
                    if path.startswith("workloads.")
                    else _hardware_problem(base, path, value)
                )
                if problem:
                    yield DescriptionProblem(f"parameters.{parameter.name}", problem, f"{path} = {value!r}")
                    break


def _hardware_problem(base: Document, path: str, value: Any) -> str:
    try:
        describe(base, "hardware", {path: value})
    except HardwareError as error:
        problems = getattr(error, "problems", ())
        return "; ".join(f"{problem.path}: {problem.message}" for problem in problems) if problems else str(error)
    return ""


def _workload_problem(model: SpaceModel, path: str, value: Any) -> str:
    parts = path.split(".")
    names = [*model.workloads, "*"]
    if len(parts) != 3:
        return "a knob of a workload is written workloads.NAME.KNOB, or workloads.*.KNOB for all"
    _, which, field = parts
    if which not in names:
        return f"no workload {which!r}; {nearest(which, names)}"
    if field not in knobs():
        return f"no knob {field!r}; {nearest(field, knobs())}"
    for name in model.workloads if which == "*" else (which,):
        try:
            changed_workload(model.workloads[name], {field: value})
        except OptionError as error:
            return error.reason if error.option == field else str(error)
        except MonetError as error:
            return str(error)
    return ""


def _constraints(model: SpaceModel, base: Document, problems: list[DescriptionProblem]) -> tuple[Comparison, ...]:
    dtypes = {dtype for core in base["cores"].values() for dtype in (core.get("rates") or {})}
    hardware = [*HARDWARE_FIGURES, *(f"peak_tops_{dtype}" for dtype in dtypes if "*" not in dtype)]
    measured = [f"{name}.{figure}" for name in model.workloads for figure in WORKLOAD_FIGURES]
    allowed = [*model.parameters, *hardware, *WORKLOAD_FIGURES, *measured]
    found = []
    for number, text in enumerate(model.constraints):
        try:
            found.append(parse_comparison(text, allowed))
        except ExpressionError as error:
            problems.append(DescriptionProblem(f"constraints.{number}", str(error)))
    return tuple(found)


def _objectives(model: SpaceModel, problems: list[DescriptionProblem]) -> tuple[Objective, ...]:
    found = []
    for number, text in enumerate(model.objectives):
        try:
            found.append(parse_objective(text, {name: workload.mode for name, workload in model.workloads.items()}))
        except MonetError as error:
            problems.append(DescriptionProblem(f"objectives.{number}", str(error)))
    return tuple(found)


def numeric(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameter values for constraints and plots: ``512 KiB`` as 524288, what is no quantity as it is."""
    return {name: plain_number(value) for name, value in values.items()}
