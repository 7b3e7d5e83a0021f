"""Formats as a knob: the error of gradients, policies in spaces and beside checkpoint plans, copies in results."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import monet
from monet.cli import app
from monet.errors import MonetError
from monet.formats import FORMATS
from monet.graph import Graph
from monet.numerics import execute, random_values
from monet.numerics.gradient_error import gradient_error
from monet.numerics.learning import initial_values
from monet.report.html.page import page
from monet.report.info.quantisation import copies, quantising
from monet.report.quantities import count
from monet.report.terminal import render
from monet.schedule.measurement.copies import wide_products
from monet.schedule.result import Result
from monet.search.hardware.evaluation import evaluate
from monet.search.hardware.objectives import parse_objective, shown
from monet.search.hardware.space import load_space

MLP = "mlp:widths=24-40-40-12"
SPACE = """
name: formats
hardware: snax-mx
parameters: {{format: {{sets: workloads.learning.precision, values: [mxint8-square, mxfp4-square]}}}}
constraints: [{constraint}]
workloads: {{learning: {{model: "mlp:widths=24-40-40-12", batch: 32}}}}
objectives: [learning.energy, {objective}]
"""


def step_in(precision: Any) -> Graph:
    return monet.Request(MLP, batch=32, precision=precision).graph()


def shown_of(result: Result) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(render(result))
    return console.export_text()


def test_the_error_is_the_distance_of_all_gradients() -> None:
    narrow, exact = step_in("mxfp4"), step_in("fp32")
    given = initial_values(exact) | {name: random_values(exact)[name] for name in exact.inputs}
    ours, theirs = execute(narrow, given), execute(exact, given)
    pairs = [(ours[narrow.gradients[name]], theirs[exact.gradients[name]]) for name in exact.gradients]
    flat = [np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1)]
    expected = np.linalg.norm(flat[0] - flat[1]) / np.linalg.norm(flat[1])
    assert gradient_error(narrow, exact) == pytest.approx(expected, rel=1e-3)  # fp32 sums against exact ones
    assert gradient_error(exact, exact) == 0.0
    errors = [gradient_error(step_in(name), exact) for name in ("bf16", "mxint8", "mxfp8", "mxfp4")]
    assert 0 < errors[1] < errors[2] < errors[3] < 1
    with pytest.raises(MonetError, match="no gradients"):
        gradient_error(monet.Request(MLP, mode="inference").graph(), exact)


def test_a_space_judges_formats_by_their_error(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE.format(constraint="", objective="learning.gradient_error"))
    space = load_space(path)
    records = {name: evaluate(space.text, {"format": name}) for name in ("mxint8-square", "mxfp4-square")}
    for name, record in records.items():
        assert record.ok, record.reason
        assert record.metrics["learning.gradient_error"] == gradient_error(step_in(name), step_in("fp32"))
    judged = [space.judged(record.metrics, space.objectives) for record in records.values()]
    assert judged[0][1] < judged[1][1]
    assert shown(space.objectives[1], 0.0213) == "2.13 %"
    path.write_text(SPACE.format(constraint="learning.gradient_error <= 0.03", objective="area"))
    narrow = evaluate(load_space(path).text, {"format": "mxfp4-square"})
    assert not narrow.ok
    assert "gradient_error" in narrow.reason
    path.write_text(SPACE.format(constraint="", objective="area"))
    assert "learning.gradient_error" not in evaluate(load_space(path).text, {"format": "mxfp4-square"}).metrics
    assert load_space(path).meaning != space.meaning
    with pytest.raises(MonetError, match="inference has no gradients"):
        parse_objective("gradient_error", {"one": "inference"})


def test_checkpoint_compares_policies() -> None:
    given = ["checkpoint", MLP, "--batch", "32", "--budget", "50%", "--policies", "fp32,mxfp8-square,mxfp4-square"]
    outcome = CliRunner().invoke(app, [*given, "--json", "-"])
    assert outcome.exit_code == 0, outcome.output
    rows = {row["policy"]: row for row in json.loads(outcome.output)["policies"]}
    assert rows["fp32"]["gradient_error"] == 0.0
    assert rows["fp32"]["on_front"]
    assert rows["mxfp4-square"]["kept_bytes"] < rows["mxfp8-square"]["kept_bytes"]
    alone = CliRunner().invoke(app, [*given[:-2], "--precision", "mxfp8-square", "--json", "-"])
    assert json.loads(alone.output)["plan"] == rows["mxfp8-square"]["plan"]
    for more, said in (
        (["--precision", "bf16"], "--precision"),
        (["--policies", "mxfp8-squar"], "did you mean 'mxfp8-square'"),
    ):
        refused = CliRunner().invoke(app, [*given, *more])
        assert said in str(refused.exception)


def test_recomputed_copies_give_the_same_gradients() -> None:
    """Stochastic rounding too: a copy that is made again has the draws of the first."""
    policy = {"like": "mxfp4", "stochastic": ["input", "weight", "gradient"]}
    plain = step_in(policy)
    again = monet.Request(MLP, batch=32, precision=policy, checkpoint="recompute-all").graph()
    assert any(op.recompute and op.kind == "quantize" for op in again.ops)
    values = random_values(plain)
    ours, theirs = execute(again, values), execute(plain, values)
    for name, gradient in plain.gradients.items():
        assert np.array_equal(ours[again.gradients[name]], theirs[gradient])


def test_a_result_explains_what_quantising_takes() -> None:
    result = monet.Request(MLP, "snax-mx", batch=30, precision="mxfp8-square").evaluate()
    assert result.feasible, result.reason
    made = {row.operator: row for row in result.copies}
    operators = [row for row in result.operators if row.kind == "quantize"]
    assert made.keys() == {row.name for row in operators}
    assert all(row.output_bytes == made[row.name].bytes for row in operators)
    held = FORMATS["mxfp8_e4m3[8x8]"]
    weight = next(row for row in result.copies if row.value == "4.weight")
    assert weight.bytes == held.bytes_of((12, 40))  # padded to 16 × 40
    assert weight.padding_bytes == 10 * 65 - 488  # ten groups; 480 elements of 8 1/8 bits
    by_kind = {row.of: row for row in copies(result)}
    assert by_kind["weights"].count == by_kind["weights"].values == 3
    assert sum(row.bytes for row in by_kind.values()) == sum(row.bytes for row in result.copies)
    spent = quantising(result)
    assert spent.energy_j == pytest.approx(sum(row.energy_j for row in operators))
    assert 0 < spent.busy_share < 1
    assert Result.from_json(json.loads(json.dumps(result.to_json()))).copies == result.copies
    assert "Narrow copies of operands" in shown_of(result)
    assert "Quantising: 9 operators" in shown_of(result)
    assert "3 of 3 weights in mxfp8_e4m3[8x8]" in page(result)
    # batch 30 in 32, outputs 12 in 16; no gradient of the first layer's inputs
    filling = 2 * 2 * 24 * 40 + 3 * 2 * 40 * 40 + 3 * (32 * 16 - 30 * 12) * 40
    assert sum(row.padding_macs for row in result.operators) == filling
    assert f"Padding: {count(filling)} multiply-accumulates" in shown_of(result)
    assert "Narrow copies" not in shown_of(monet.Request(MLP, "edge-tpu", batch=30).evaluate())


@pytest.mark.parametrize(
    ("hardware", "precision", "said"),
    [
        ("mx-square", "mxfp8", "mxfp8_e4m3[1x32]×mxfp8_e4m3[1x32]; policies that it can: mxfp8-square, "),
        ("mx-square", "mxfp6", "did you mean 'mxfp6-e2m3-square' or 'mxfp6-square'?"),
        ("snax-mx", "mxfp8-mixed", "no core of snax-mx multiplies mxfp8_e5m2[1x32]×mxfp8_e4m3[1x32]"),
        ("edge-tpu", "mxint8", "its arrays have int8×int8, bf16×bf16"),
    ],
)
def test_formats_that_no_core_multiplies(hardware: str, precision: str, said: str) -> None:
    outcome = CliRunner().invoke(app, ["run", MLP, "--hardware", hardware, "--precision", precision])
    assert isinstance(outcome.exception, MonetError)
    assert said in str(outcome.exception)


def test_a_result_names_layers_that_stay_wide() -> None:
    result = monet.Request(MLP, "snax-mx", batch=8, precision={"like": "mxfp8", "exempt": ["first"]}).evaluate()
    assert "products stay wide in 0: exempt, or wide in the policy" in result.notes
    net = monet.Request("mobilenetv2", precision="mxfp8-square", mode="inference").graph()
    (note,) = wide_products(net)
    assert note.startswith("products stay wide in features.1.conv.0.0, features.2.conv.1.0, ")
    assert "and 13 more: channels of a convolution's groups" in note
    assert wide_products(monet.Request(MLP, batch=8).graph()) == ()
