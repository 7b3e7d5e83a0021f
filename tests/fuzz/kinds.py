"""One case of every kind of input, from a random generator: what was damaged is given to the command that takes it."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import onnx
import yaml

from monet import Request
from monet.errors import MonetError
from monet.frontends.onnx import load_onnx
from monet.graph.counts import saved_for_backward
from monet.hardware.loading import PRESETS, describe_text, preset_names
from monet.hardware.resolve import resolve
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space, load_space
from monet.search.hardware.store import open_store
from tests.fuzz.damage import atom, damaged, torn
from tests.fuzz.outcomes import CODES, Broken, command

Case = Callable[[Random, Path], None]
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
MODEL, CHIP = "mlp", "micro-npu"


def _expects_words(what: str, work: Callable[[], object]) -> None:
    """Call something that may only succeed or refuse in our words."""
    try:
        work()
    except MonetError as error:
        if not str(error):
            raise Broken(f"{what}: refused without a word") from None
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rpartition('/')[2]}, line {frame.lineno}"
        raise Broken(f"{type(error).__name__}: {error} ({where}), of {what}") from error


# --- hardware --------------------------------------------------------------------------------------------------------


@cache
def _preset(name: str) -> Any:
    return yaml.safe_load((PRESETS / f"{name}.yaml").read_text())


def hardware(random: Random, folder: Path) -> None:
    """A preset with damage: as values, or as text."""
    name = random.choice(preset_names())
    if random.random() < 0.3:
        text = torn((PRESETS / f"{name}.yaml").read_bytes(), random).decode("utf-8", "replace")
    else:
        text = yaml.safe_dump(damaged(_preset(name), random), allow_unicode=True, sort_keys=False)
    _expects_words(f"hardware {name}:\n{text}", lambda: resolve(describe_text(text)))
    if random.random() < 0.05:
        (folder / "chip.yaml").write_text(text, encoding="utf-8")
        command(["run", MODEL, "--hardware", "chip.yaml"], folder)


# --- results ---------------------------------------------------------------------------------------------------------


@cache
def _result() -> Any:
    return json.loads(json.dumps(Request(MODEL, CHIP).evaluate().to_json()))


def results(random: Random, folder: Path) -> None:
    """A result edited by hand, to everything that reads one."""
    text = json.dumps(damaged(_result(), random))
    data = torn(text.encode(), random) if random.random() < 0.2 else text.encode()
    (folder / "a.json").write_bytes(data)
    (folder / "b.json").write_text(json.dumps(_result()))
    reader = random.choice(
        (["explain", "a.json", "--no-what-if"], ["diff", "a.json", "b.json"], ["diff", "b.json", "a.json"])
    )
    command(["rerun", "a.json"] if random.random() < 0.1 else reader, folder)


# --- models ----------------------------------------------------------------------------------------------------------


@cache
def _light(name: str) -> bytes:
    return (LIGHT / f"light_{name}.onnx").read_bytes()


def models(random: Random, folder: Path) -> None:
    """An ONNX file with damage: in its bytes, or in its nodes."""
    data = _light(random.choice(("squeezenet", "bvlc_alexnet", "zfnet512")))
    if random.random() < 0.5:
        data = torn(data, random)
    else:
        model = onnx.load_from_string(data)
        for _ in range(random.randint(1, 3)):
            _damage_node(model.graph, random)
        data = model.SerializeToString()
    path = folder / "net.onnx"
    path.write_bytes(data)
    _expects_words("ONNX file", lambda: load_onnx(path))


def _damage_node(graph: Any, random: Random) -> None:
    node = random.choice(graph.node)
    what = random.randrange(7)
    if what == 0 and node.input:
        node.input[random.randrange(len(node.input))] = random.choice(
            (*node.output, "", "nowhere", graph.input[0].name)
        )
    elif what == 1:
        node.op_type = random.choice(
            ("Gemm", "Conv", "Relu", "Nothing", "Reshape", "BatchNormalization", "Loop", "MatMul")
        )
    elif what == 2 and node.attribute:
        attribute = random.choice(node.attribute)
        values = [random.choice((0, -1, 1, 7, 2**40)) for _ in range(random.randint(0, 5))]
        del attribute.ints[:]
        attribute.ints.extend(values)
        attribute.i = random.choice((0, -1, 3, 2**62))
    elif what == 3:
        graph.node.remove(node)
    elif what == 4:
        dims = random.choice(graph.input).type.tensor_type.shape.dim
        if dims:
            random.choice(dims).dim_value = random.choice((0, -1, 1, 2**31, 2**62))
    elif what == 5 and graph.initializer:
        stored = random.choice(graph.initializer)
        del stored.dims[:]
        stored.dims.extend(random.choice(((), (0,), (-1, 2), (1, 1, 1, 1, 1), (2**40, 2**40))))
    elif graph.output:
        graph.output[0].name = random.choice((node.output[0], "nothing"))


# --- plans -----------------------------------------------------------------------------------------------------------


@cache
def _plans() -> tuple[Any, Any]:
    fused = dict(_result()["plan"])
    saved = [entry.name for entry in saved_for_backward(Request(MODEL).graph())]
    return fused, {"recompute": saved[:2], "narrow": saved[2:3]}


def plans(random: Random, folder: Path) -> None:
    """A plan with damage, of fusion, allocation or checkpoints."""
    fused, kept = _plans()
    option = random.choice(("--fusion", "--allocation", "--checkpoint"))
    text = yaml.safe_dump(damaged(kept if option == "--checkpoint" else fused, random), sort_keys=False)
    data = torn(text.encode(), random) if random.random() < 0.2 else text.encode()
    (folder / "plan.yaml").write_bytes(data)
    command(["run", MODEL, "--hardware", CHIP, option, "plan.yaml"], folder)


# --- stores ----------------------------------------------------------------------------------------------------------


@cache
def _store() -> bytes:
    """A store of three points, two of them with figures."""
    space = load_space("edge-tpu")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.sqlite"
        with open_store(path, space, "0", resume=False) as store:
            for number in range(3):
                chosen = {knob.name: knob.values[number % len(knob.values)] for knob in space.parameters}
                figures = _figures(space, 1.0 + number) if number else {}
                status, reason = ("ok", "") if number else ("infeasible", "too small")
                store.finish(Record(chosen, status, reason, figures, 0.1, 1, "0"))
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode=DELETE")
        return path.read_bytes()


def _figures(space: Space, value: float) -> dict[str, float]:
    """Figures for every objective of a space: asked for one after the other."""
    found = {"area_mm2": value}
    while True:
        try:
            space.judged(found, space.objectives)
            return found
        except KeyError as missing:
            found[str(missing.args[0])] = value


def stores(random: Random, folder: Path) -> None:
    """A store edited by hand: a cell, a table, or its bytes."""
    path = folder / "s.sqlite"
    data = _store()
    if random.random() < 0.4:
        path.write_bytes(torn(data, random))
    else:
        path.write_bytes(data)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            _edit(database, random)
    command(
        random.choice(
            (
                ["explore", "export", "s.sqlite", "--csv", "o.csv"],
                ["explore", "report", "s.sqlite", "o.html", "--front-reports", "0"],
            )
        ),
        folder,
    )
    for name in ("o.csv", "o.html", "s.sqlite", "s.sqlite-wal", "s.sqlite-shm"):
        (folder / name).unlink(missing_ok=True)


def _edit(database: sqlite3.Connection, random: Random) -> None:
    table, column = random.choice(
        (
            ("points", "parameters"),
            ("points", "status"),
            ("points", "metrics"),
            ("points", "seconds"),
            ("meta", "value"),
        )
    )
    value = random.choice((None, "", "x", "{}", "[]", "nan", '{"a": 1}', "ok", 1e400, -1, "[" * 5000, b"\xff"))
    what = random.randrange(4)
    try:
        if what == 0:
            database.execute(f"DROP TABLE {table}")
        elif what == 1:
            database.execute("CREATE TABLE recipes (name TEXT)")
        else:
            database.execute(f"UPDATE {table} SET {column} = ?", (value,))
    except sqlite3.Error:  # the file itself refuses it
        return


# --- options ---------------------------------------------------------------------------------------------------------

_FLAGS = (
    "--batch", "--image", "--sequence", "--input", "--dimension", "--mode", "--loss", "--optimizer", "--learning-rate",
    "--weight-decay", "--clip-norm", "--micro-batches", "--precision", "--freeze", "--lora", "--attention", "--saved",
    "--checkpoint", "--set", "--phases", "--fusion", "--allocation", "--boundary", "--objective", "--json", "--csv",
    "--seed", "--nonsense",
)  # fmt: skip
_VALUES = (
    "0", "1", "2", "-1", "8", "1e9", "300000000", "nan", "inf", "1e999", "x", "fp16", "int8", "adam", "sum",
    "inference", "auto", "none", "fused", "explicit", "dram", "energy", "1x3x8x8", "1x99999999999", "0x0",
    "1x2:int64", "N=0", "N=x", "clock_hz=.inf", "clock_hz=3", "a.b.c=1", "=", "../x.json", "/", "missing/x.json",
    "-", "é", "*", "[", "forward,forward", "forward", "keep-all", "sqrt-segments", "classes=10", "9" * 20,
    "plan.yaml", "\N{BELL}",
)  # fmt: skip


def options(random: Random, folder: Path) -> None:
    """Any options with any values, to some command."""
    name = random.choice(("run", "run", "graph", "map", "checkpoint"))
    model = random.choice(
        (MODEL, MODEL, MODEL, f"{MODEL}:layers=0", "mlp:x", "", "nosuch", "x.onnx", "a.py:f", "../", "resnet18:")
    )
    given = [word for _ in range(random.randint(0, 3)) for word in (random.choice(_FLAGS), random.choice(_VALUES))]
    chip = (
        []
        if name in ("graph", "checkpoint")
        else ["--hardware", random.choice((CHIP, CHIP, CHIP, "nosuch", "", ".", "/dev/null"))]
    )
    cost = ["--cost", "flops"] if name == "checkpoint" else []
    command([name, model, *chip, *cost, *given], folder)
    for made in folder.iterdir():
        made.unlink()


def values(random: Random, folder: Path) -> None:
    """A request from Python with anything for a value."""
    fields = (
        "batch",
        "image",
        "sequence",
        "inputs",
        "dimensions",
        "mode",
        "loss",
        "lora",
        "attention",
        "phases",
        "fusion",
        "set",
    )
    given = {random.choice(fields): atom(random) for _ in range(random.randint(1, 2))}
    model = atom(random) if random.random() < 0.1 else MODEL
    _expects_words(f"Request({model!r}, {given})", lambda: Request(model, CHIP, **given).graph())


# --- signals ---------------------------------------------------------------------------------------------------------


def signals(random: Random, folder: Path) -> None:
    """A command that is interrupted or terminated at some moment: an exit code of its own, and nobody left behind."""
    asked = random.choice(
        (
            ["run", MODEL, "--hardware", CHIP, "--json", "o.json"],
            ["checkpoint", MODEL, "--hardware", CHIP, "--pareto", "--jobs", "2"],
        )
    )
    sent = random.choice((signal.SIGINT, signal.SIGTERM))
    started = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); from monet.cli import main; sys.exit(main())", *asked],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert started.stdout is not None
    started.stdout.readline()  # Python itself is up
    time.sleep(0.3 + 3 * random.random())
    started.send_signal(sent)
    try:
        _, said = started.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        started.kill()
        raise Broken(f"{asked}: still there 30 s after {sent.name}") from None
    ended = started.returncode
    code = 128 - ended if ended < 0 else ended  # as a shell has it: at its end Python no longer catches them
    if code not in CODES or b"Traceback" in said:
        raise Broken(f"{asked}: {sent.name}: exit code {code}: {said.decode()[-600:]}")
    time.sleep(0.2)
    if left := _session(started.pid):
        raise Broken(f"{asked}: {sent.name}: processes left: {left}")
    if hidden := [path.name for path in folder.iterdir() if path.name.startswith(".")]:
        raise Broken(f"{asked}: {sent.name}: left {hidden}")


def _session(number: int) -> list[int]:
    """Processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == number and fields[0] not in "ZX":
            found.append(int(path.parent.name))
    return found


KINDS: dict[str, Case] = {
    "hardware": hardware, "results": results, "models": models, "plans": plans, "stores": stores, "options": options,
    "values": values, "signals": signals,
}  # fmt: skip
