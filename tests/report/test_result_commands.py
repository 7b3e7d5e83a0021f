"""explain, diff, rerun: what they say, their JSON, their exit codes, and clear errors for bad files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from monet.commands.diff import diff
from monet.commands.explain import change_text, explain
from monet.commands.rerun import differences, rerun
from monet.commands.sensitivity import changes, effects
from monet.errors import MonetError
from monet.hardware import load_description
from monet.report.difference import info as difference_info
from monet.report.difference import row as difference_row
from monet.report.difference import unequal
from monet.report.explanation import info as explanation_info
from monet.report.result_file import read_result, write_result
from monet.request import Request
from monet.schedule.result import Result
from tests.report.small import infeasible, other, small

app = typer.Typer()
for command in (explain, diff, rerun):
    app.command(command.__name__)(command)
runner = CliRunner()


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Result:
    """A result that can be rerun: the evaluation is that of a small schedule, its time set by the DRAM's bandwidth."""

    def evaluate(self: Request, graph: object = None) -> Result:
        base = small()
        speed = self.accelerator().dram.bandwidth_bytes_per_s / 6.4e9
        return dataclasses.replace(base, latency_s=base.latency_s / speed, inputs=self.to_json())

    monkeypatch.setattr(Request, "evaluate", evaluate)
    return Request("mlp-cartpole", "edge-tpu", batch=1).evaluate()


@pytest.fixture
def file(evaluated: Result, tmp_path: Path) -> str:
    write_result(evaluated, str(tmp_path / "result.json"))
    return str(tmp_path / "result.json")


def test_a_result_survives_its_file(file: str, evaluated: Result) -> None:
    again = read_result(file)
    assert again.to_json() == json.loads(json.dumps(evaluated.to_json()))


def test_a_result_of_the_first_release_is_read_and_written_as_it_was() -> None:
    path = Path(__file__).parent / "data" / "result-0.1.0.json"
    read, written = read_result(str(path)).to_json(), json.loads(path.read_text())
    bounds = written["bounds"]  # its longest chain was one of them; they knew no ports or links
    written |= {"longest_chain_s": bounds.pop("critical_path_s"), "copies": []}  # no format shared scales
    written["hardware_summary"]["endpoints"] = []  # nothing was outside of the chip
    written["operators"] = [row | {"padding_macs": 0} for row in written["operators"]]
    assert read | {"bounds": {name: read["bounds"][name] for name in bounds}} == written


def test_explain_names_the_time_the_path_and_the_parameter(file: str) -> None:
    shown = runner.invoke(app, ["explain", file])
    assert shown.exit_code == 0, shown.output
    for words in ("lower bound", "useful compute", "Critical path", "Busiest resources", "twice as large"):
        assert words in shown.output
    rows = [line for line in shown.output.splitlines() if line.startswith(("dram.", "clock_hz", "cores.", "network."))]
    assert rows[0].startswith(("clock_hz", "dram.dram.bandwidth"))  # the DRAM is clocked with the chip
    assert "−50.00 %" in rows[0]


def test_explain_as_json(file: str) -> None:
    shown = runner.invoke(app, ["explain", file, "--json", "-"])
    values = json.loads(shown.stdout)
    assert sum(values["time_partition"].values()) == pytest.approx(1)
    best = {row["parameter"]: row["latency_ratio"] for row in values["what_if"]}
    assert best["dram.dram.bandwidth_bits_per_cycle"] == pytest.approx(0.5)
    assert best["cores.simd.vector.lanes"] == 1.0


def test_explain_without_inputs_says_so(tmp_path: Path) -> None:
    write_result(small(), str(tmp_path / "plain.json"))
    shown = runner.invoke(app, ["explain", str(tmp_path / "plain.json")])
    assert shown.exit_code == 0
    assert "does not record its inputs" in " ".join(shown.output.split())


def test_every_doubling_is_a_valid_description() -> None:
    request = Request("mlp-cartpole", "edge-tpu")
    found = changes(load_description("edge-tpu"))
    assert {"clock_hz", "cores.pe.mesh.x", "cores.pe.axes.lanes.size", "network.noc.bandwidth_bits_per_cycle"} <= {
        change.path for change in found
    }
    before = request.accelerator()
    for change in found:
        assert dataclasses.replace(request, set={change.path: change.after}).accelerator() != before, change.path


def test_a_change_that_does_not_fit_is_kept_with_its_reason(evaluated: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Request, graph: object = None) -> Result:
        if "clock_hz" in self.set:
            raise MonetError("too fast\nfor this")
        return evaluated

    monkeypatch.setattr(Request, "evaluate", refuse)
    last = effects(Request.of(evaluated), evaluated)[-1]
    assert (last.change.path, last.latency, last.reason) == ("clock_hz", None, "too fast")


def test_rerun_is_equal_or_says_what_differs(file: str, evaluated: Result, tmp_path: Path) -> None:
    shown = runner.invoke(app, ["rerun", file])
    assert shown.exit_code == 0, shown.output
    assert "equal" in shown.output
    changed = dataclasses.replace(evaluated, energy_j=1.0)
    write_result(changed, str(tmp_path / "changed.json"))
    shown = runner.invoke(app, ["rerun", str(tmp_path / "changed.json"), "--report", str(tmp_path / "again.html")])
    assert shown.exit_code == 1
    assert "energy_j: 1.0 →" in shown.output
    assert (tmp_path / "again.html").exists()


def test_wall_time_is_not_a_difference(evaluated: Result) -> None:
    assert differences(evaluated, dataclasses.replace(evaluated, seconds_to_evaluate=99.0)) == []


def test_diff_by_phase_operator_and_level(tmp_path: Path) -> None:
    for name, result in (("a", small()), ("b", other())):
        write_result(result, str(tmp_path / f"{name}.json"))
    paths = [str(tmp_path / f"{name}.json") for name in "ab"]
    shown = runner.invoke(app, ["diff", *paths])
    assert shown.exit_code == 0, shown.output
    for words in ("Headline", "Phases", "Energy by level", "Operators:", "backward"):
        assert words in shown.output
    same = runner.invoke(app, ["diff", paths[0], paths[0]])
    assert "Nothing differs." in same.output
    values = json.loads(runner.invoke(app, ["diff", *paths, "--json", "-"]).stdout)
    assert {row["name"] for row in values["energy_by_level"]} == {*small().energy_breakdown.by_level}


def test_diff_matches_operators_by_name() -> None:
    first, second = small(), other()
    found = difference_info(first, second)["operators"]
    names = [{row.name for row in result.operators} for result in (first, second)]
    assert found["only_first"]
    assert found["same"]
    assert set(found["only_first"]) == names[0] - names[1]
    assert found["same"] + len(found["changed"]) == len(names[0] & names[1])


def test_figures_are_second_over_first() -> None:
    """Twice the latency is a ratio of 2; from nothing there is none."""
    assert difference_row("latency", "s", 2.0, 4.0).ratio == 2.0
    assert difference_row("latency", "s", 0.0, 4.0).ratio is None


def test_the_operator_whose_time_changed_most_comes_first() -> None:
    first = small()
    slower = [dataclasses.replace(operator, latency_s=operator.latency_s + place * 1e-6)
              for place, operator in enumerate(first.operators)]  # fmt: skip
    found = difference_info(first, dataclasses.replace(first, operators=tuple(slower)))["operators"]["changed"]
    assert [operator.name for operator in found] == [operator.name for operator in reversed(first.operators[1:])]


def test_places_that_differ_are_named() -> None:
    first = {"a": [1, {"b": 2}], "c": 3}
    assert unequal(first, {"a": [1, {"b": 5}], "d": 4}) == [("a[1].b", 2, 5), ("c", 3, None), ("d", None, 4)]
    assert unequal({"a": [1]}, {"a": [1, 2]}) == [("a (length)", 1, 2)]
    assert len(unequal(list(range(1000)), [0] * 1000, limit=7)) == 7


@pytest.mark.parametrize("arguments", [["explain"], ["rerun"], ["diff"]])
@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot read"), ("{", "not JSON"), ("[1]", "not a result"), ('{"model": "x"}', "latency_s")],
)
def test_bad_files_are_clear_errors(arguments: list[str], content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content)
    files = [str(path)] * (2 if arguments == ["diff"] else 1)
    error = runner.invoke(app, [*arguments, *files]).exception
    assert isinstance(error, MonetError)
    assert message in str(error)


def test_a_damaged_result_is_a_clear_error(tmp_path: Path) -> None:
    values = small().to_json()
    values["timeline"] = {"start": []}
    (tmp_path / "damaged.json").write_text(json.dumps(values))
    with pytest.raises(MonetError, match="damaged"):
        read_result(str(tmp_path / "damaged.json"))


def test_an_infeasible_result_has_no_time_to_explain(tmp_path: Path) -> None:
    write_result(infeasible(), str(tmp_path / "no.json"))
    assert "infeasible" in str(runner.invoke(app, ["explain", str(tmp_path / "no.json")]).exception)


def test_explanation_is_plain_data() -> None:
    values = explanation_info(small())
    assert json.loads(json.dumps(values)) == values


@pytest.mark.parametrize(("ratio", "text"), [(0.5, "−50.00 %"), (1.0, "±0"), (1.25, "+25.00 %"), (None, "")])
def test_changes_read_well(ratio: float | None, text: str) -> None:
    assert change_text(ratio) == text


def test_explain_and_diff_write_pages(file: str, evaluated: Result, tmp_path: Path) -> None:
    changed = dataclasses.replace(evaluated, latency_s=2 * evaluated.latency_s)
    write_result(changed, str(tmp_path / "other.json"))
    for command, words in (
        (["explain", file, "--no-what-if"], ("Why it takes this long", "Busiest resources", "not asked for")),
        (["diff", file, str(tmp_path / "other.json")], ("What changed", "Headline", "+100.00 %")),
    ):
        page = tmp_path / f"{command[0]}.html"
        done = CliRunner().invoke(app, [*command, "--report", str(page)], catch_exceptions=False)
        assert done.exit_code == 0
        text = page.read_text(encoding="utf-8")
        assert all(word in text for word in words)
        assert "https://" not in text
