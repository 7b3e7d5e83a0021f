"""Descriptions: short forms, derivation, overrides, and every kind of bad input, reported all together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from monet.errors import MonetError
from monet.hardware import DescriptionError, HardwareError, load_description, load_hardware, replace, schema
from monet.hardware.check import port_of
from monet.hardware.core import Flow
from monet.hardware.document import parse_document
from monet.hardware.loading import describe, describe_text
from monet.hardware.resolve import resolve
from monet.hardware.technology import Technology

TEXT = """
name: tiny
node_nm: 28
clock_hz: 1 GHz
cores:
  pe:
    kind: matrix
    mesh: 2x3
    axes:
      k: {size: 4, multicast: [I]}
      c: {size: 8, reduce: true}
    rates: [int8]
    memories:
      - {name: rf, operands: [W], per: mac, size_bytes: 8, bandwidth_bits_per_cycle: 8}
      - {name: sram, size_bytes: 64 KiB, bandwidth_bits_per_cycle: 256}
  big:
    use: pe
    memories: [{name: sram, size_bytes: 128 KiB}]
dram:
  main: {kind: LPDDR4, capacity_bytes: 1 GiB}
network:
  noc: {mesh: pe, bandwidth_bits_per_cycle: 32}
  bus: {bus: [pe, big, main], hub: main, bandwidth_bits_per_cycle: 64}
"""


def changed(**edits: Any) -> str:
    """The tiny description's text with pieces replaced; every piece must occur."""
    text = TEXT
    for old, new in edits.get("edits", {}).items():
        assert old in text
        text = text.replace(old, new)
    return text


def problems(edits: dict[str, str]) -> dict[str, str]:
    with pytest.raises(DescriptionError) as caught:
        describe_text(changed(edits=edits), "tiny.yaml")
    assert isinstance(caught.value, MonetError)
    return {problem.path: str(problem) for problem in caught.value.problems}


def test_short_forms_are_written_out() -> None:
    accelerator = resolve(describe_text(TEXT))
    assert len(accelerator.cores) == 7
    assert accelerator.cores[0].name == "pe[0,0]"
    assert accelerator.cores[5].position == (1, 2)
    core = accelerator.designs["pe"]
    assert core.level("rf").instances == 32
    assert core.level("rf").shared_along == ()
    assert core.level("sram").shared_along == ("k", "c")
    assert core.level("sram").operands == ("I", "W", "O")
    assert core.rate("int8", "int8").accumulator == "int32"
    assert core.accumulator_level == "sram"
    assert sum(link.name.startswith("noc") for link in accelerator.links) == 3 * 1 + 2 * 2
    assert accelerator.dram.bandwidth_bytes_per_s == pytest.approx(6.4e9)


def test_use_inherits_all_but_the_copies_and_merges_memories_by_name() -> None:
    accelerator = resolve(describe_text(TEXT))
    assert [one.name for one in accelerator.cores if one.template == "big"] == ["big"]
    assert accelerator.designs["big"].level("sram").size_bytes == 128 << 10
    assert accelerator.designs["big"].level("rf") == accelerator.designs["pe"].level("rf")


def test_a_core_can_be_used_from_a_preset() -> None:
    text = changed(edits={"    use: pe\n    memories: [{name: sram, size_bytes: 128 KiB}]": "    use: tpu-like:tensor"})
    assert resolve(describe_text(text)).designs["big"] == load_hardware("tpu-like").designs["tensor"]


def test_equal_designs_are_equal_whatever_they_are_called() -> None:
    accelerator = resolve(describe_text(changed(edits={"    memories: [{name: sram, size_bytes: 128 KiB}]\n": ""})))
    assert accelerator.designs["pe"] == accelerator.designs["big"]


def test_mesh_routes_go_x_first_and_never_through_dram() -> None:
    accelerator = resolve(describe_text(TEXT))
    names = [accelerator.links[i].endpoints for i in accelerator.route("pe[0,0]", "pe[1,2]")]
    assert names == [("pe[0,0]", "pe[1,0]"), ("pe[1,0]", "pe[1,1]"), ("pe[1,1]", "pe[1,2]")]
    assert [accelerator.links[i].name for i in accelerator.route("main", "big")] == ["bus"]
    with pytest.raises(HardwareError, match=r"no path from big to pe\[0,0\]"):
        accelerator.route("big", "pe[0,0]")


def test_all_problems_are_reported_together_with_path_value_and_what_is_allowed() -> None:
    found = problems(
        {
            "size_bytes: 64 KiB, bandwidth_bits_per_cycle: 256": "size_bytes: 64 Kbytes, bandwidth_bits_per_cycle: 256",
            "rates: [int8]": "rates: [imt8]",
            "bandwidth_bits_per_cycle: 64": "bandwidth_bits_per_cycle: 0",
            "clock_hz": "clok_hz",
            "kind: LPDDR4": "kind: LPDR4",
        }
    )
    assert "'64 Kbytes'" in found["cores.pe.memories.1.size_bytes"]
    assert "'2 MiB'" in found["cores.pe.memories.1.size_bytes"]
    assert "did you mean 'int8'" in found["cores.pe.rates"]
    assert "greater than 0" in found["network.bus.bandwidth_bits_per_cycle"]
    assert "did you mean 'clock_hz'" in found["clok_hz"]
    assert found["clock_hz"].endswith("is required")
    assert "did you mean 'LPDDR4'" in found["dram.main.kind"]


def test_problems_of_fields_and_of_the_whole_are_reported_in_one_go() -> None:
    found = problems({"size_bytes: 8,": "size_bytes: 0,", "bus: [pe, big, main]": "bus: [pe, bigg, main]"})
    assert "greater than 0" in found["cores.pe.memories.0.size_bytes"]
    assert "did you mean 'big'" in found["network.bus.bus"]
    assert "no path to memory" in found["cores.big"]


@pytest.mark.parametrize(
    ("edits", "path", "message"),
    [
        ({"bus: [pe, big, main]": "bus: [pe, main]"}, "cores.big", "no path to memory"),
        ({"256}": "0}"}, "cores.pe.memories.1.bandwidth_bits_per_cycle", "greater than 0"),
        ({"per: mac": "per: [kk]"}, "cores.pe.memories.0.per", "did you mean 'k'"),
        ({"multicast: [I]": "multicast: [O]"}, "cores.pe.axes.k.multicast.0", "must be one of 'I' or 'W'"),
        ({"name: rf": "name: sram"}, "cores.pe.memories.1.name", "two levels"),
        ({"mesh: 2x3": "mesh: 2by3"}, "cores.pe.mesh", "written '4x4'"),
        ({"{mesh: pe": "{mesh: big"}, "network.noc.mesh", "not laid out as a mesh"),
        ({"reduce: true": "reduce: true, dims: [Q]"}, "cores.pe.axes.c.dims", "unknown loop dimension 'Q'"),
        ({"use: pe": "use: pee"}, "cores.big.use", "did you mean 'pe'"),
        ({"use: pe": "use: big"}, "cores.big.use", "in a circle"),
        ({"rates: [int8]": "rates: {int8: {products_per_cycle: 1.5}}"},
         "cores.pe.rates.int8.products_per_cycle", "whole"),
        ({"rates: [int8]": "rates: [int88]"}, "cores.pe.rates", "unknown number format 'int88'; did you mean 'int8'"),
        ({"rates: [int8]": "rates: [mxfp8_e4m3]"}, "cores.pe.rates.mxfp8_e4m3.energy_j", "must be given"),
        ({"rates: [int8]": "rates: [\"mxint8[8x4]\"]"}, "cores.pe.rates", "a group is 1x16, 1x32, 8x8, 16x16 or 32x32"),
        ({"rates: [int8]": "rates: {int8: {accumulator: bit}}"}, "cores.pe.rates.int8.accumulator", "cannot hold sums"),
        ({"kind: matrix": "kind: vector"}, "cores.pe.vector", "needs its lanes"),
        ({"kind: LPDDR4": "kind: custom"}, "dram.main", "must also give latency_s"),
        ({"network:": "  side: {kind: LPDDR4, capacity_bytes: 1 GiB}\nnetwork:"}, "dram.side", "no part of the net"),
        ({"node_nm: 28": "node_nm: 1"}, "node_nm", "greater than or equal to 3"),
        ({"size_bytes: 64 KiB, bandwidth_bits_per_cycle: 256": "size_bytes: 64 KiB"},
         "cores.pe.memories.1", "give bandwidth"),
        ({"size_bytes: 8,": "size_bytes: 8, ports: 1r,"}, "cores.pe.memories.0.ports", "no write port carries W.fill"),
        ({"hub: main": "hub: noc"}, "network.bus", "hub must be a member"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_where_it_stands(edits: dict[str, str], path: str, message: str) -> None:
    found = problems(edits)
    assert path in found, found
    assert message in found[path]


def test_an_operand_without_memory_is_refused() -> None:
    assert (
        "no level holds operand O"
        in problems({"name: sram, size_bytes: 64": "name: sram, operands: [I], size_bytes: 64"})["cores.pe.memories"]
    )


def test_a_memory_without_ports_is_refused() -> None:
    given = {"name: sram, size_bytes: 64": "name: sram, ports: [], size_bytes: 64"}
    assert any("ports is empty" in problem for problem in problems(given).values())


def test_yaml_mistakes_are_located() -> None:
    with pytest.raises(HardwareError, match=r"tiny.yaml: line \d+, column \d+: the key 'kind' is written twice"):
        describe_text(changed(edits={"    kind: matrix": "    kind: matrix\n    kind: matrix"}), "tiny.yaml")
    with pytest.raises(HardwareError, match=r"tiny.yaml: line 1, column \d+: a list or mapping cannot be a key"):
        describe_text("{[a]: 1}", "tiny.yaml")
    with pytest.raises(HardwareError, match="line 2"):
        describe_text("name: x\n  bad: [", "tiny.yaml")
    with pytest.raises(HardwareError, match="is a mapping"):
        describe_text("- 1", "tiny.yaml")


def test_unknown_names_and_files(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match="did you mean 'edge-tpu'"):
        load_hardware("edge-tpuu")
    with pytest.raises(HardwareError, match="no such file"):
        load_hardware(tmp_path / "absent.yaml")
    path = tmp_path / "tiny.yaml"
    path.write_text(TEXT, encoding="utf-8")
    assert load_hardware(path).name == "tiny"


def test_overrides_set_paths_by_name_or_index_and_leave_the_original_alone() -> None:
    description = describe_text(TEXT)
    by_name = replace(description, "cores.pe.memories.sram.size_bytes", "1 MiB")
    by_index = replace(description, "cores.pe.memories.1.size_bytes", 1 << 20)
    assert resolve(by_name) == resolve(by_index)
    assert description.cores["pe"].memories[1].size_bytes == 64 << 10
    assert len(resolve(replace(description, "cores.pe.mesh.x", 5)).cores) == 16
    faster = resolve(replace(description, "clock_hz", "2 GHz"))
    assert faster.clock_hz == 2e9


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("cores.pee.mesh.x", "did you mean 'pe'"),
        ("cores.pe.memories.sramm.size_bytes", "did you mean 'sram'"),
        ("speed", "no parameter 'speed'"),
        ("cores.pe.memories.sram.size_byte", "did you mean 'size_bytes'"),
        ("cores.pe.kind.deep", "single value"),
    ],
)
def test_bad_overrides_are_refused(path: str, message: str) -> None:
    with pytest.raises(HardwareError, match=message):
        describe(describe_text(TEXT)._document, "tiny", {path: 1})


def test_given_figures_win_over_derived_ones() -> None:
    given = changed(edits={"size_bytes: 64 KiB,": "size_bytes: 64 KiB, read_energy_j: 5 pJ, area_m2: 2 mm2,"})
    level = resolve(describe_text(given)).designs["pe"].level("sram")
    assert level.read_energy_j == pytest.approx(5e-12)
    assert level.area_m2 == pytest.approx(2e-6)
    assert level.leakage_w == pytest.approx(2e-6 * 1e3)
    assert level.write_energy_j == resolve(describe_text(TEXT)).designs["pe"].level("sram").write_energy_j


def test_modes_keep_sizes_and_change_wires() -> None:
    core = load_hardware("eyeriss").designs["array"]
    default, across = core.modes
    assert [axis.size for axis in default.axes] == [axis.size for axis in across.axes] == [12, 14]
    assert default.axes[1].multicast == {"W"}
    assert across.axes[1].multicast == {"I"}
    assert core.mode_switch_cycles > 0


def test_lanes_at_twice_the_rate_take_twice_the_area() -> None:
    def area(rates: str) -> float:
        text = changed(edits={"rates: [int8]\n": f"rates: [int8]\n    vector: {{lanes: 16, dtypes: {rates}}}\n"})
        return resolve(describe_text(text)).designs["pe"].compute_area_m2

    lane = Technology(28).area_m2("mac", "fp32", "fp32", "fp32")
    array = resolve(describe_text(TEXT)).designs["pe"].compute_area_m2
    assert area("[fp32]") - array == pytest.approx(16 * lane)
    assert area("{fp32: {elements_per_cycle: 2}}") - array == pytest.approx(2 * 16 * lane)
    assert area("{fp32: {}, int8: {elements_per_cycle: 2}}") - array == pytest.approx(16 * lane)  # it does both
    assert area("{fp32: {elements_per_cycle: 0.5}}") - array == pytest.approx(0.5 * 16 * lane)


def test_lookups_never_guess() -> None:
    core = load_hardware("tpu-like").designs["tensor"]
    with pytest.raises(HardwareError, match="no rate for fp32×fp32; it supports: int8×int8"):
        core.rate("fp32", "fp32")
    vector = load_hardware("edge-tpu").designs["pooling"]
    with pytest.raises(HardwareError, match="cannot do the function 'exp'"):
        vector.function_cycles("exp")
    assert vector.function_cycles("max") == 1


def test_lanes_compute_in_the_widest_float_they_have() -> None:
    core = load_hardware("edge-tpu").designs["simd"]
    assert core.lane_rate("int64", "bf16", "fp32").dtype == "fp32"
    assert core.lane_rate("fp64", "int32", "bf16").dtype == "bf16"  # no rate for fp64
    assert core.lane_rate("bool", "int64").dtype == "bool"
    with pytest.raises(HardwareError, match="no rate for fp64; they support: int8"):
        core.lane_rate("fp64")
    assert core.cannot_multiply("fp32", "fp32").startswith("the array has no rate for fp32×fp32")
    array = load_hardware("edge-tpu").designs["pe"]
    assert array.cannot_multiply("fp32", "fp32") == ""


def test_the_schema_covers_the_short_forms() -> None:
    published = schema()
    assert published["additionalProperties"] is False
    level = published["$defs"]["LevelModel"]["properties"]
    assert {"type": "string", "pattern": r"^(\d+r)?(\d+w)?(\d+rw)?$"} in level["ports"]["anyOf"]
    core = published["$defs"]["CoreModel"]["properties"]
    assert any(option.get("pattern") == r"^\d+x\d+$" for option in core["mesh"]["anyOf"])


def test_a_description_made_from_a_preset_round_trips() -> None:
    description = load_description("edge-tpu")
    assert resolve(replace(description, "clock_hz", 800e6)) == resolve(description)


def test_a_parameter_that_sets_nothing_is_refused() -> None:
    text = TEXT.replace("cores:\n", "parameters:\n  size: {sets: cores.pe.memories.ram.size_bytes}\ncores:\n", 1)
    with pytest.raises(DescriptionError, match=r"parameters\.size\.sets: cannot set .* no item 'ram'"):
        describe_text(text)


def test_on_and_off_are_names_and_true_is_not() -> None:
    document = parse_document("dram: {off: {a: true, b: False, c: yes}}", "chip.yaml")
    assert document == {"dram": {"off": {"a": True, "b": False, "c": "yes"}}}


@pytest.mark.parametrize(("field", "value", "why"), [
    ("policy", "lru", "which is always managed"), ("resident", ["weights"], "whose tiles need it"),
])  # fmt: skip
def test_what_a_core_works_in_is_no_cache(field: str, value: Any, why: str) -> None:
    chip = Path(__file__).parents[1] / "chips" / "shared-l1.yaml"
    with pytest.raises(MonetError, match=rf"memories\.l1\.{field}\b.*it is a level of cores\.\w+, {why}"):
        load_hardware(chip, {f"memories.l1.{field}": value})


def test_a_flow_takes_the_port_that_lists_it_else_one_open_to_all() -> None:
    """By operand, by flow, or by both together; of ports open to all, the first faces the array, the last faces up."""
    listed = [("read", ["I"]), ("read", ["W.feed"]), ("read_write", ["drain"]), ("write", None), ("write", None)]
    ports: Any = [SimpleNamespace(direction=direction, carries=carries) for direction, carries in listed]
    found = {(slot, flow): port_of(ports, slot, flow) for slot in "IWO" for flow in Flow}
    assert {key: place for key, place in found.items() if key[1].is_read} == {
        ("I", Flow.FEED): 0, ("I", Flow.DRAIN): 0, ("W", Flow.FEED): 1, ("W", Flow.DRAIN): 2, ("O", Flow.FEED): None,
        ("O", Flow.DRAIN): 2,
    }  # fmt: skip
    assert {key: place for key, place in found.items() if not key[1].is_read} == {
        (slot, flow): place for slot in "IWO" for flow, place in ((Flow.COLLECT, 3), (Flow.FILL, 4))
    }
