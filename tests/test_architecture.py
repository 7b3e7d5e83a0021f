"""``docs/architecture.md`` names what there is: every stage in the order of the import contract, files that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
NAMED = [one for one in re.findall(r"`([\w./-]+)`", PAGE) if one.endswith((".py", "/", ".md", ".toml"))]


def test_every_file_and_folder_named_exists() -> None:
    assert len(NAMED) > 60
    roots = (ROOT / "src" / "monet", ROOT)
    missing = [name for name in NAMED if not any((root / name).exists() for root in roots)]
    assert not missing
    assert all((ROOT / name).is_dir() for name in NAMED if name.endswith("/") and (ROOT / name).exists())


def test_every_stage_is_in_the_table_in_the_order_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [one.removeprefix("monet.") for one in reversed(contracts[0]["layers"])]
    table = PAGE.partition("| stage |")[2].partition("## The path")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    stages = [name.rstrip("/").removesuffix(".py") for cell in first_cells for name in re.findall(r"`([\w./]+)`", cell)]
    assert [one for one in stages if one in layers] == layers[: len(layers)]
    there = {path.stem for path in (ROOT / "src" / "monet").iterdir() if not path.name.startswith(("_", "py."))}
    assert there == set(stages)
