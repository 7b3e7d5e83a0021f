"""A result does not depend on what was evaluated before, in this process or in another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.mapping.cost_store import CostStore
from monet.schedule.evaluation import evaluate
from monet.training.step import training_step

SMALL = "resnet:blocks=1,width=32,stem=cifar,classes=10,image=16"
# each differs from another in one thing: the model, the core, what lies outside of it, the plan
CASES = {
    "mlp": ("mlp-robot", "edge-tpu", {}, "auto"),
    "convolutions": (SMALL, "edge-tpu", {}, "auto"),
    "unfused": (SMALL, "edge-tpu", {}, "none"),
    "less memory": (SMALL, "edge-tpu", {"cores.pe.memories.sram.size_bytes": 300_000}, "auto"),
    "slower DRAM": (SMALL, "edge-tpu", {"dram.dram.bandwidth_bits_per_cycle": 33}, "auto"),
    "other cores": (SMALL, "tpu-like-quad", {}, "auto"),
}


def figures(case: str, store: CostStore | None = None) -> dict[str, object]:
    """Everything that a result says, but how long it took."""
    model, hardware, overrides, fusion = CASES[case]
    result = evaluate(training_step(load_model(model)), load_hardware(hardware, overrides), fusion=fusion, store=store)
    said = json.loads(json.dumps(result.to_json()))
    del said["seconds_to_evaluate"]
    return dict(said)


def in_a_process_of_its_own(case: str) -> subprocess.Popen[str]:
    program = (
        "import json, sys; from tests.schedule.test_independence import figures\n"
        "print(json.dumps(figures(sys.argv[1])))"
    )
    environment = os.environ | {"MONET_CACHE": "off", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", program, case], env=environment, stdout=subprocess.PIPE, text=True)


def test_a_result_is_the_same_after_any_other_and_in_a_process_of_its_own() -> None:
    running = {case: in_a_process_of_its_own(case) for case in ("less memory",)}
    alone = {case: figures(case, CostStore()) for case in CASES}
    assert len({json.dumps(one) for one in alone.values()}) == len(CASES)  # they do differ
    used = CostStore()
    cases = list(CASES)
    for case in (*cases, *reversed(cases)):  # each after several others
        assert figures(case, used) == alone[case], case
    used.clear()
    for case in cases[1:2]:
        assert figures(case, used) == alone[case], case
    for case, process in running.items():
        assert json.loads(process.communicate()[0]) == alone[case]
