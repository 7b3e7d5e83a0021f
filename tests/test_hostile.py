"""What once hung, crashed, destroyed or said nothing: one case of each, next to the random ones of ``test_fuzz``."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from monet import Request
from monet.errors import ComputerMemoryError, MonetError
from monet.hardware.errors import HardwareError
from monet.hardware.loading import describe_text, load_hardware
from monet.nesting import MOST_LEVELS
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.expansion import expand as expansion
from monet.search.fusion.search import FusionSettings, find_fusion
from monet.search.hardware.record import Record
from monet.search.hardware.store import StoreError, open_store, read_store
from tests.fuzz.outcomes import command
from tests.search.spaces import small_space


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("clock_hz=0.8", "0.8 Hz is outside"),
        ("clock_hz=.inf", "finite"),
        ("clock_hz=.nan", "finite"),
        ("dram.external.bandwidth_bytes_per_s=51.2", "51.2 B/s is outside"),
        ("dram.external.read_energy_j_per_bit=3.9", "3.9 J/bit is outside"),
        ("cores.npu.count=1000000", "at most 16,384 copies"),
        ("cores.npu.mesh=100000x100000", "at most 16,384 copies"),
        ("cores.npu.memories.0.ports=0r0w", "1 to 64 are allowed"),
        ("cores.npu.memories.0.ports=999999999r1w", "1 to 64 are allowed"),
    ],
)
def test_quantities_outside_physical_sense_are_refused(setting: str, message: str, tmp_path: Path) -> None:
    code, said = command(["run", "mlp", "--hardware", "micro-npu", "--set", setting], tmp_path)
    assert code == 2
    assert message in said


def test_times_that_do_not_fit_are_refused() -> None:
    accelerator = load_hardware("micro-npu")
    scheduler = Scheduler(Request("mlp").graph(), accelerator)
    machine = scheduler.machine
    machine.check_ticks(np.array([0, 0]), np.array([2**61, 2**60]))
    for ticks in ([2**61, 2**61, 2**61], [5, -(2**63)]):
        with pytest.raises(HardwareError, match="times are counted up to"):
            machine.check_ticks(np.zeros(len(ticks), np.int64), np.array(ticks))


def test_a_schedule_that_the_computer_cannot_hold_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "CHECKED", 1)
    monkeypatch.setattr(expansion, "free_memory_bytes", lambda: 1000)
    with pytest.raises(ComputerMemoryError, match=r"GB of this computer's memory, of which 0\.0 GB is free") as raised:
        Request("mlp", "micro-npu").evaluate()
    assert isinstance(raised.value, MonetError)


def test_a_search_says_at_once_that_nothing_fits() -> None:
    scheduler = Request("mlp", "micro-npu", set={"dram.external.capacity_bytes": "4 kB"}).scheduler()
    with pytest.raises(NoSchedule, match="before the step begins"):
        find_fusion(scheduler, FusionSettings())


def test_deep_texts() -> None:
    for text in ("[" * 100_000, "a:\n" + "".join(f"{' ' * n}- \n" for n in range(1, 3000)), "- " * 3000):
        with pytest.raises(MonetError):
            describe_text(text)
    with pytest.raises(MonetError, match=f"more than {MOST_LEVELS} levels deep"):
        describe_text("x: " + "[" * 3000 + "]" * 3000)


def test_a_deep_result(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("[" * 100_000)
    assert command(["explain", "r.json"], tmp_path)[0] == 2


@pytest.mark.parametrize("where", ["def make():\n    sys.exit(0)", "sys.exit(0)\ndef make(): ..."])
def test_a_models_function_does_not_end_the_program(where: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(f"import sys\n{where}\n")
    code, said = command(["graph", "net.py:make", "--input", "1x2"], tmp_path)
    assert code == 2
    assert "SystemExit: 0" in said


def test_seeds_and_inputs_have_limits(tmp_path: Path) -> None:
    for seed in ("-1", "100000000000"):
        assert command(["fuse", "mlp", "--hardware", "micro-npu", "--seed", seed], tmp_path)[0] == 2
    (tmp_path / "net.py").write_text("import torch\ndef make(): return torch.nn.ReLU()\n")
    code, said = command(["graph", "net.py:make", "--input", "1x99999999999x4"], tmp_path)
    assert (code, "at most 2,147,483,648" in said) == (2, True)


# --- files ----------------------------------------------------------------------------------------------------------


def _store(path: Path) -> None:
    space = small_space()
    values = {parameter.name: parameter.values[0] for parameter in space.parameters}
    with open_store(path, space, "0", resume=False) as store:
        store.finish(Record(values, "infeasible", "too small", {}, 0.1, 1, "0"))


def test_nothing_is_written_over_what_is_read(tmp_path: Path) -> None:
    _store(tmp_path / "s.sqlite")
    before = (tmp_path / "s.sqlite").read_bytes()
    for option in ("--csv", "--optuna"):
        code, said = command(["explore", "export", "s.sqlite", option, "./s.sqlite"], tmp_path)
        assert (code, "a file to read from" in said) == (2, True)
    assert (tmp_path / "s.sqlite").read_bytes() == before
    code, said = command(["run", "mlp", "--hardware", "micro-npu", "--json", "x", "--report", "./x"], tmp_path)
    assert (code, "one file" in said, (tmp_path / "x").exists()) == (2, True, False)
    assert command(["explore", "report", "s.sqlite", "missing/page.html"], tmp_path)[0] == 2


def test_a_foreign_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "recipes.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE recipes (name TEXT)")
    database.close()
    before = path.read_bytes()
    for resume in (False, True):
        with pytest.raises(StoreError, match="a SQLite file with recipes in it"):
            open_store(path, small_space(), "0", resume=resume)
    with pytest.raises(StoreError, match="recipes"):
        read_store(path)
    assert path.read_bytes() == before


def test_a_store_with_a_schema_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    _store(path)
    path.write_bytes(path.read_bytes().replace(b"WITHOUT ROWID", b"WITHOUT \xca\xff\xca\xff\xca"))
    with pytest.raises(StoreError, match=r"s\.sqlite"):
        read_store(path)


def test_a_space_names_a_file_in_this_folder() -> None:
    with pytest.raises(MonetError, match="name"):
        small_space(name="../x")


def test_a_store_is_read_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _store(tmp_path / "s.sqlite")

    def read_only(path: str | Path) -> sqlite3.Connection:
        raise StoreError(f"{path}: attempt to write a readonly database")

    monkeypatch.setattr("monet.search.hardware.store._connect", read_only)
    with read_store(tmp_path / "s.sqlite") as store:
        assert [record.reason for record in store.records()] == ["too small"]


@pytest.mark.parametrize(
    "edit", [("points", "metrics", "null"), ("points", "parameters", "{}"), ("meta", "value", "x")]
)
def test_a_store_edited_by_hand(edit: tuple[str, str, str], tmp_path: Path) -> None:
    _store(tmp_path / "s.sqlite")
    table, column, value = edit
    with sqlite3.connect(tmp_path / "s.sqlite") as database:
        database.execute(f"UPDATE {table} SET {column} = ?", (value,))
    database.close()
    code, said = command(["explore", "export", "s.sqlite", "--csv", "-"], tmp_path)
    assert (code, "damaged" in said) == (2, True)


@pytest.mark.parametrize(("key", "value"), [("latency_s", None), ("latency_s", 0), ("operators", [1]), ("batch", "x")])
def test_a_result_edited_by_hand(key: str, value: object, tmp_path: Path) -> None:
    values = json.loads(json.dumps(Request("mlp", "micro-npu").evaluate().to_json()))
    (tmp_path / "r.json").write_text(json.dumps({**values, key: value}))
    for reader in ("explain", "rerun"):
        code, said = command([reader, "r.json"], tmp_path)
        assert (code, "damaged result" in said and key in said) == (2, True)


# --- streams --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None or not Path("/dev/full").exists(), reason="needs bash and /dev/full")
@pytest.mark.parametrize(("redirection", "code"), [(">/dev/full", 2), (">&-", 0), ("| true; exit ${PIPESTATUS[0]}", 1)])
def test_standard_output_that_takes_nothing(redirection: str, code: int) -> None:
    text = f"{sys.executable} -m monet.cli hardware schema {redirection}"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
