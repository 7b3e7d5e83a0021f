"""``monet checkpoint``: JSON, tables, files and errors of a user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monet.cli import app
from monet.commands.checkpoint import choices_of
from monet.errors import MonetError
from monet.transforms.checkpoint_plan import load_checkpoint_plan


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["checkpoint", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def test_json_has_the_plan_its_price_and_its_proof(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    values = json.loads(run("resnet18", "--cost", "flops", "--budget", "50%", "--json", "-", "--save-plan", str(path)))
    assert values["kept_bytes"] <= values["budget_bytes"] == values["keep_all_bytes"] // 2
    assert 100 * values["recompute_over_forward"] == pytest.approx(0.14, abs=0.01)
    assert values["proved_optimal"]
    assert values["gap"] <= 1e-5
    assert values["peak"]["bytes"] < values["plain_peak"]["bytes"]
    assert [one["kept_bytes"] for one in values["front"]] == [values["kept_bytes"]]
    names = {one["method"] for one in values["baselines"]}
    assert names == {"keep-all", "recompute-all", "sqrt-segments", "per-block", "cheap-operators"}
    assert load_checkpoint_plan(str(path)).to_dict() == values["plan"]


def test_the_front_falls_and_the_page_draws_it(tmp_path: Path) -> None:
    page = tmp_path / "front.html"
    out = run("mlp-robot", "--batch", "64", "--pareto", "--report", str(page))
    assert "Exact front" in out
    values = json.loads(run("mlp-robot", "--batch", "64", "--pareto", "--json", "-"))
    front = [(one["kept_bytes"], one["recompute_over_forward"]) for one in values["front"]]
    assert len(front) > 4
    assert front == sorted(front, key=lambda one: (-one[0], one[1]))
    text = page.read_text()
    assert "proved least" in text
    assert "sqrt-segments" in text


def test_a_baseline_is_shown_beside_the_optimum_at_its_bytes() -> None:
    values = json.loads(run("resnet18", "--image", "64", "--method", "sqrt-segments", "--json", "-"))
    assert values["method"] == "sqrt-segments"
    assert values["gap"] > 0
    assert not values["proved_optimal"]


def test_narrowing_lowers_the_price() -> None:
    plain = json.loads(run("resnet18", "--image", "64", "--budget", "60%", "--json", "-"))
    narrow = json.loads(
        run("resnet18", "--image", "64", "--budget", "60%", "--json", "-", "--choices", "keep,recompute,narrow")
    )
    assert narrow["plan"]["narrow"]
    assert narrow["recompute_over_forward"] < plain["recompute_over_forward"]
    only = json.loads(run("resnet18", "--image", "64", "--budget", "80%", "--json", "-", "--choices", "keep,narrow"))
    assert set(only["plan"]) == {"narrow"}


def test_run_applies_a_plan_and_rerun_repeats_it(tmp_path: Path) -> None:
    plan, result = str(tmp_path / "plan.yaml"), str(tmp_path / "result.json")
    run("mlp-robot", "--batch", "64", "--budget", "30%", "--save-plan", plan)
    arguments = ["mlp-robot", "--batch", "64", "--hardware", "edge-tpu", "--checkpoint", plan, "--json", result]
    assert CliRunner().invoke(app, ["run", *arguments]).exit_code == 0
    values = json.loads(Path(result).read_text())
    assert values["inputs"]["checkpoint"] == load_checkpoint_plan(plan).to_dict()
    assert any(one["name"].endswith("/again") for one in values["operators"])
    again = CliRunner().invoke(app, ["rerun", result])
    assert again.exit_code == 0
    assert "equal" in again.stdout
    inference = CliRunner().invoke(app, ["run", *arguments, "--mode", "inference"])
    assert "inference keeps nothing" in str(inference.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget", "12XB"), "--budget '12XB'"),
        (("--budget", "-5%"), "--budget '-5%'"),
        (("--choices", "keep,recomput"), "did you mean 'recompute'"),
        (("--choices", "recompute"), "keep and at least one of"),
        (("--choices", "keep,offload"), "depends on a link"),
        (("--method", "per-blok"), "did you mean 'per-block'"),
        (("--cost", "flop"), "did you mean 'flops'"),
    ],
)
def test_errors_name_what_was_given_and_what_is_allowed(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(MonetError, match=message):
        run("mlp-robot", *arguments)


def test_choices() -> None:
    assert choices_of("keep, recompute,keep") == ("keep", "recompute")


def test_the_budget_may_bound_the_peak_over_time() -> None:
    values = json.loads(run("mlp-robot", "--batch", "64", "--memory", "peak", "--budget", "90%", "--json", "-"))
    assert values["peak"]["bytes"] <= values["budget_bytes"] < values["plain_peak"]["bytes"]
    assert values["proved_optimal"]
    assert values["timeline"]["proved_for_schedules"]
    assert values["timeline"]["solved_by"] == "intervals"
    assert "a plan is what the transform makes" in values["timeline"]["proved_means"]
    assert all(one["gap"] is None for one in values["baselines"])
    text = " ".join(run("mlp-robot", "--batch", "64", "--memory", "peak", "--budget", "90%").split())
    assert "outputs under 0.1 % of the plain peak are kept" in text
    with pytest.raises(MonetError, match="--memory 'peek'"):
        run("mlp-robot", "--memory", "peek")


def test_a_deep_network_is_a_chain_of_blocks_with_its_gap(tmp_path: Path) -> None:
    page = tmp_path / "peak.html"
    asked = ("gpt2-small", "--sequence", "32", "--memory", "peak", "--budget", "90%")
    values = json.loads(run(*asked, "--json", "-", "--report", str(page)))
    assert values["timeline"]["solved_by"] == "chain of blocks"
    assert values["timeline"]["nodes"] > 200
    assert not values["proved_optimal"]
    assert values["gap"] > 0
    assert "peak of activations" in page.read_text()
    text = " ".join(run(*asked).split())
    assert "a chain of blocks" in text
    assert f"gap {100 * values['gap']:.2f} points" in text


@pytest.mark.parametrize(
    "mode",
    [
        ("--budget", "60%"),
        ("--pareto",),
        ("--method", "ga", "--effort", "1"),
        ("--method", "per-block"),
        ("--memory", "peak", "--budget", "90%"),
        ("--hardware", "edge-tpu", "--effort", "1"),
        ("--hardware", "edge-tpu", "--method", "exact"),
    ],
)
def test_every_mode_has_the_same_keys(mode: tuple[str, ...]) -> None:
    values = json.loads(run("mlp-robot", "--batch", "64", *mode, "--json", "-"))
    wanted = {"kept_bytes", "recompute_over_forward", "proved_optimal", "gap", "plan", "peak"}
    if "--hardware" in mode:
        wanted |= {"latency_s", "energy_j", "memory_peak_bytes", "dram_bytes"}
    assert values["front"]
    for one in (values, *values["front"]):
        assert wanted <= set(one)
        assert one["peak"]["operator"]
        assert one["peak"]["bytes"] > 0


@pytest.mark.parametrize(
    "mode",
    [
        ("--memory", "peak", "--budget", "5%"),
        ("--choices", "keep,narrow", "--budget", "1%"),
        ("--hardware", "edge-tpu", "--effort", "1", "--budget", "1kB"),
    ],
)
def test_an_impossible_budget_is_a_result_with_a_reason(mode: tuple[str, ...]) -> None:
    asked = ["checkpoint", "mlp-robot", "--batch", "64", *mode]
    result = CliRunner().invoke(app, [*asked, "--json", "-"])
    assert result.exit_code == 3
    values = json.loads(result.stdout)
    assert values["feasible"] is False
    assert {"kept_bytes", "recompute_over_forward", "proved_optimal", "gap", "front"} <= set(values)
    assert values["floor_operator"]
    assert values["bytes_short"] > 0
    assert f"{values['bytes_short']:,}" in values["reason"]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 3
    assert "impossible: " in shown.stderr
