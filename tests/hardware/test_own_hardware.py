"""Hardware files of users: a skeleton to begin with, presets as text, and the ten minutes of docs/hardware.md."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from monet import evaluate, load_model, training_step
from monet.cli import app
from monet.errors import MonetError
from monet.hardware.loading import describe_text, description_text, load_description, load_hardware, preset_names
from monet.hardware.resolve import resolve
from monet.hardware.skeleton import skeleton

DOCS = Path(__file__).parents[2] / "docs"
WORKED = {
    "single-core": skeleton("single-core"),
    "multi-core": skeleton("multi-core", cores=4),
    "systolic": skeleton("systolic", array="64x64", systolic=True),
}


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_as_text_is_the_same_accelerator(name: str) -> None:
    assert resolve(describe_text(description_text(name))) == load_hardware(name)
    description = load_description(name)
    settings = {key: parameter.values[0] for key, parameter in description.parameters.items() if parameter.values}
    settings |= {"clock_hz": "777 MHz"}
    text = description_text(name, settings)
    assert resolve(describe_text(text)) == load_hardware(name, settings)
    assert yaml.safe_load(text)["clock_hz"] == "777 MHz"


@pytest.mark.parametrize("name", WORKED)
def test_worked_files_are_skeletons_that_train(name: str) -> None:
    assert (DOCS / "hardware" / f"{name}.yaml").read_text(encoding="utf-8") == WORKED[name]
    accelerator = load_hardware(DOCS / "hardware" / f"{name}.yaml")
    result = evaluate(training_step(load_model("mlp-cartpole"), precision="bf16", optimizer="adam"), accelerator)
    assert result.feasible
    assert len(accelerator.cores) == {"multi-core": 5}.get(name, 2)


@pytest.mark.parametrize(("cores", "array"), [(1, "1x1"), (3, "8x4"), (64, "512x512")])
def test_every_skeleton_is_valid(cores: int, array: str) -> None:
    accelerator = resolve(describe_text(skeleton("any", cores, array)))
    columns, rows = map(int, array.split("x"))
    assert accelerator.cores[0].core.units == columns * rows
    assert len(accelerator.cores) == cores + 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cores": 0}, "--cores 0: from 1 to 64"),
        ({"array": "16"}, "COLUMNSxROWS"),
        ({"name": "a b"}, "letters, digits"),
    ],
)
def test_skeletons_that_are_none(given: dict[str, object], said: str) -> None:
    with pytest.raises(MonetError, match=said):
        skeleton(**given)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_ten_minutes_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    shutil.copytree(DOCS / "hardware", tmp_path / "hardware")
    text = (DOCS / "hardware.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ monet (.+)$", text, re.MULTILINE)
    assert len(commands) == 12
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
        assert done.exit_code == 0, command
    assert (tmp_path / "my-chip.yaml").read_text(encoding="utf-8") == skeleton("my-chip")
    with pytest.raises(MonetError, match="there is such a file already"):
        CliRunner().invoke(app, shlex.split(commands[0]), catch_exceptions=False)
    assert all(f"hardware/{name}.yaml" in text for name in WORKED)
