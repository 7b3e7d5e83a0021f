"""Systems: what is built in loads, what is wrong is said with its path, documents mean the same elsewhere."""

import json

import pytest

from monet.distributed.systems.system import load_system, system_from_text, system_names, system_schema, system_text
from monet.distributed.systems.topology import ALGORITHMS, TOPOLOGIES
from monet.errors import MonetError
from monet.hardware.document import parse_document

SMALL = """
name: pair
devices: edge-tpu
network:
  wire: {size: 2, bandwidth_bytes_per_s: 1 GB/s, latency_s: 1 us}
"""


@pytest.mark.parametrize("name", system_names())
def test_a_preset_loads_has_sources_and_fits_the_schema(name):
    system = load_system(name)
    assert system.name == name
    assert system.about
    assert system.source
    assert load_system(parse_document(system_text(name), name)).levels == system.levels


def test_the_schema_names_every_key_and_choice():
    schema = system_schema()
    level = schema["$defs"]["LevelModel"]
    assert schema["required"] == ["name", "devices", "network"]
    assert set(level["required"]) == {"size", "bandwidth_bytes_per_s", "latency_s"}
    assert level["properties"]["topology"]["enum"] == list(TOPOLOGIES)
    assert level["properties"]["algorithms"]["items"]["enum"] == list(ALGORITHMS)


def test_a_system_is_its_document():
    system = load_system("edge-ethernet")
    again = load_system(json.loads(json.dumps(dict(system.document))))
    assert (again.levels, again.size) == (system.levels, system.size)
    assert again.devices[0].accelerator == system.devices[0].accelerator


def test_nodes_share_their_port():
    system = load_system("dgx-a100")
    inner, outer = system.spans(1, 16, 16)
    assert (inner.members, outer.members, outer.below) == ((8,), (2,), 8)
    assert outer.device_bandwidth_bytes_per_s == 12.5e9  # 800 Gb/s over eight devices
    inner, outer = system.spans(8, 4, 32)
    assert (inner.members, outer.members, outer.below) == ((1,), (4,), 1)
    inner, outer = system.spans(2, 8, 16)
    assert (inner.members, inner.steps, outer.members) == ((4,), (2,), (2,))
    assert system.spans(1, 2, 2)[1].device_bandwidth_bytes_per_s == 25e9  # one port of a node that is not full


def test_two_kinds_of_devices_follow_each_other():
    text = SMALL.replace(
        "devices: edge-tpu", "devices: [{hardware: edge-tpu, count: 1}, {hardware: tpu-like, count: 1}]"
    )
    system = system_from_text(text)
    assert [part.accelerator.name for part in system.kinds(0, 2)] == ["edge-tpu", "tpu-like"]
    assert [part.accelerator.name for part in system.kinds(1, 1)] == ["tpu-like"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("size: 2", "size: 2x2", "network.wire: size 2x2: a switch has 1 dimension"),
        ("size: 2", "sizes: 2", "did you mean 'size'"),
        ("bandwidth_bytes_per_s: 1 GB/s", "bandwidth_bytes_per_s: 1 GHz", "network.wire.bandwidth_bytes_per_s"),
        ("latency_s: 1 us", "latency_s: 1 us, topology: rings", "must be one of"),
        ("latency_s: 1 us", "latency_s: 1 us, algorithms: [rin]", "did you mean 'ring'"),
        ("latency_s: 1 us", "latency_s: 1 us, efficiency: {1 MB: 2}", "network.wire.efficiency"),
        ("devices: edge-tpu", "devices: edge-tpo", "devices.0.hardware: no hardware called 'edge-tpo'; did you mean"),
        (
            "devices: edge-tpu",
            "devices: {hardware: edge-tpu, count: 3}",
            "3 devices, but the network has room for 2: 1",
        ),
    ],
)
def test_what_is_wrong_is_said(old, new, said):
    with pytest.raises(MonetError, match="problem") as caught:
        system_from_text(SMALL.replace(old, new), "pair.yaml")
    assert said in str(caught.value)


def test_the_nearest_name_is_named():
    with pytest.raises(MonetError, match="did you mean 'dgx-a100'"):
        load_system("dgx-a10")
