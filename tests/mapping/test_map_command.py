"""``monet map``: one operator, a mapping by hand, constraints, a whole model, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from monet.commands.map import map_command
from monet.errors import MonetError

app = typer.Typer(pretty_exceptions_enable=False)
app.command("map")(map_command)
runner = CliRunner()
CONV = ["conv", "--hardware", "tpu-like", "--dims", "K=64,C=64,OY=14,OX=14,FY=3,FX=3"]


def run(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_an_operator_as_json() -> None:
    found = json.loads(run(*CONV, "--objective", "energy", "--json", "-"))
    assert {"cycles", "compute_cycles", "energy_j", "accesses", "utilisation", "mapping"} <= found.keys()
    assert found["compute_cycles"] == 7056
    assert found["macs"] == 64 * 64 * 14 * 14 * 9
    assert found["energy_j"] == pytest.approx(sum(found["energy_j_by_level"].values()), rel=1e-9)
    assert found["accesses"]["dram"]["W"]["reads"] == 64 * 64 * 9


def test_a_person_can_read_the_loop_nest() -> None:
    text = run(*CONV)
    for part in ("for ", "side by side: k 32 on D1, c 32 on D2", "rf_2B keeps y", "roofline", "bound by"):
        assert part in text


def test_a_mapping_by_hand_costs_what_it_did(tmp_path: Path) -> None:
    found = json.loads(run(*CONV, "--json", "-"))
    path = tmp_path / "mapping.yaml"
    path.write_text(yaml.safe_dump(found["mapping"]), encoding="utf-8")
    again = json.loads(run(*CONV, "--mapping", str(path), "--json", "-"))
    assert again["cycles"] == found["cycles"]
    assert again["energy_j"] == pytest.approx(found["energy_j"], rel=1e-12)


def test_constraints_pin_parts() -> None:
    free = json.loads(run(*CONV, "--objective", "energy", "--json", "-"))
    held = json.loads(run(*CONV, "--objective", "energy", "--constraint", "rf_128B:FX<=1", "--json", "-"))
    assert held["energy_j"] >= free["energy_j"]
    cut = next(cut for cut in held["mapping"]["cuts"] if cut["level"] == "rf_128B")
    assert all(loop["dim"] != "FX" for loop in held["mapping"]["loops"][cut["position"] :])


def test_constraints_hold_for_the_tile_from_dram_too() -> None:
    large = [*CONV[:-1], "K=64,C=64,OY=56,OX=56,FY=3,FX=3", "--json", "-"]
    held = json.loads(run(*large, "--constraint", "tile OY <= 7", "--constraint", "OY<=28"))
    assert held["mapping"]["dram"]["tile"]["OY"] <= 7
    weights = 64 * 64 * 9
    free = json.loads(run(*large))
    assert free["accesses"]["dram"]["W"]["reads"] > weights
    once = json.loads(run(*large, "--constraint", "keep W stationary"))
    assert once["accesses"]["dram"]["W"]["reads"] == weights
    assert once["cycles"] >= free["cycles"]


def test_an_integer_array_takes_a_model_in_its_own_type() -> None:
    found = json.loads(run("resnet18", "--hardware", "eyeriss", "--mode", "inference", "--json", "-"))
    assert found["macs"] == 1_814_073_344
    with pytest.raises(MonetError, match="--precision 'int16': is for inference"):
        run("resnet18", "--hardware", "eyeriss")


def test_a_model_layer_by_layer() -> None:
    found = json.loads(
        run("resnet18", "--hardware", "tpu-like", "--precision", "int8", "--mode", "inference", "--json", "-")
    )
    costed = [one for one in found["operators"] if one["macs"]]
    assert len(costed) == 21
    assert found["cycles"] == pytest.approx(sum(one["cycles"] for one in found["operators"]))
    assert found["energy_j"] == pytest.approx(sum(one["energy_j"] for one in found["operators"]))
    assert {"relu", "add"} <= {one["kind"] for one in found["unmapped"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["conv", "--hardware", "tpu-like", "--dims", "Q=3"], "unknown dimension 'Q'"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=0"], "positive whole number"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4", "--precision", "fp32"], "no rate for fp32"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4", "--precision", "fp7"], "--precision 'fp7': allowed are"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4", "--objective", "speed"], "latency, energy, edp"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4", "--constraint", "please"], "keep W stationary"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4", "--constraint", "ZZ<=3"], "no dimension 'ZZ'"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4", "--constraint", "sram:K<=3"], "did you mean 'sram_2MB'"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4", "--constraint", "K<=0"], "at least 1 element"),
        (["resnet18", "--hardware", "tpu-like", "--mode", "inference", "--constraint", "OQ<=3"], "no dimension 'OQ'"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4,K=5"], "K is given twice"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=100000000000000"], "largest size"),
        (["conv", "--hardware", "tpu-like", "--dims", "K=4", "--mapping", "missing.yaml"], "cannot be read"),
        (
            [
                "conv",
                "--hardware",
                "edge-tpu",
                "--core",
                "simd",
                "--dims",
                "K=4",
                "--set",
                "cores.simd.vector.only=[add]",
            ],
            "no core with an array",
        ),
        (["resnet17", "--hardware", "tpu-like"], "resnet18"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: list[str], message: str) -> None:
    with pytest.raises(MonetError, match=message):
        runner.invoke(app, arguments, catch_exceptions=False)
