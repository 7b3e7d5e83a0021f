"""The points of a store as a table: CSV, Parquet, and an Optuna study for its dashboard."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from monet.errors import MonetError
from monet.search.hardware.objectives import Objective
from monet.search.hardware.record import Record
from monet.search.hardware.space import Parameter, Space

STUDY_BATCH = 500


def columns(space: Space, records: Sequence[Record]) -> list[str]:
    """Names of the columns: parameters, status, reason, every figure, seconds, attempts, version."""
    figures = dict.fromkeys(name for record in records for name in record.metrics)
    names = [parameter.name for parameter in space.parameters]
    return [*names, "status", "reason", *figures, "evaluation_s", "attempts", "model_version"]


def rows(records: Iterable[Record], names: Sequence[str]) -> Iterable[list[Any]]:
    """One row per record; a figure that it has not is None."""
    for record in records:
        known = {
            **record.values, "status": record.status, "reason": record.reason, **record.metrics,
            "evaluation_s": record.seconds, "attempts": record.attempts, "model_version": record.version,
        }  # fmt: skip
        yield [known.get(name) for name in names]


def csv_text(space: Space, records: Sequence[Record]) -> str:
    """The table as CSV; floats in full, so that reading them back gives the same numbers."""
    names = columns(space, records)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows(records, names))
    return text.getvalue()


def write_parquet(space: Space, records: Sequence[Record], path: str) -> None:
    """The table as Parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MonetError("--parquet needs pyarrow: pip install 'monet-train[parquet]'") from None
    names = columns(space, records)
    cells = list(zip(*rows(records, names), strict=True)) or [()] * len(names)
    table = pyarrow.table({name: list(column) for name, column in zip(names, cells, strict=True)})
    beside = Path(path).with_name(f".{Path(path).name}.part")
    try:
        pyarrow.parquet.write_table(table, beside)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise MonetError(f"cannot write {path!r}: {error.strerror or error}") from None


def write_optuna(space: Space, records: Sequence[Record], objectives: Sequence[Objective], path: str) -> None:
    """The points as a finished Optuna study in a SQLite file: ``optuna-dashboard sqlite:///FILE`` opens it."""
    import optuna

    target = Path(path)
    beside = target.with_name(f".{target.name}.part")
    beside.unlink(missing_ok=True)
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{beside}")
        study = optuna.create_study(study_name=space.name, storage=storage, directions=["minimize"] * len(objectives))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([f"{objective.text} [{objective.unit}]" for objective in objectives])
        distributions = {parameter.name: _distribution(parameter, records) for parameter in space.parameters}
        for start in range(0, len(records), STUDY_BATCH):
            some = records[start : start + STUDY_BATCH]
            study.add_trials([_trial(space, record, objectives, distributions) for record in some])
        storage.engine.dispose()
        beside.replace(target)
    except OSError as error:
        raise MonetError(f"cannot write {path!r}: {error.strerror or error}") from None
    finally:
        beside.unlink(missing_ok=True)
        optuna.logging.set_verbosity(before)


def _distribution(parameter: Parameter, records: Sequence[Record]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if parameter.is_continuous:
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    values = (record.values[parameter.name] for record in records)
    others = {json.dumps(value): value for value in values if value not in parameter.values}
    return CategoricalDistribution([*parameter.values, *others.values()])


def _trial(space: Space, record: Record, objectives: Sequence[Objective], distributions: Any) -> Any:
    import optuna

    state = optuna.trial.TrialState
    return optuna.trial.create_trial(
        state=state.COMPLETE if record.ok else state.FAIL,
        values=space.judged(record.metrics, objectives) if record.ok else None,
        params=dict(record.values),
        distributions=distributions,
        user_attrs={**record.metrics, **({"reason": record.reason} if record.reason else {})},
    )
