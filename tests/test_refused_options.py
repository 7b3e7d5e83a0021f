"""Options that would be passed over, or mean something else than was written, are refused in words that help."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monet.cli import app
from monet.errors import MonetError, nearest
from monet.formats import FORMATS
from monet.graph import GraphBuilder
from monet.training.step import training_step
from tests.search.spaces import small_space

REFUSED = {
    "checkpoint mlp-cartpole --budget 50": "a number alone is neither bytes nor a share; write 50MB, or 50%",
    "checkpoint mlp-cartpole --budget 0.5": "write 0.5MB, or 50%",
    "checkpoint mlp-cartpole --save-schedule s.yaml": "--save-schedule: has no effect with --cost flops",
    "checkpoint mlp-cartpole --hardware a100 --cost flops": "--hardware: has no effect with --cost flops",
    "checkpoint mlp-cartpole --seed 3": "--seed: has no effect unless a population evolves",
    "checkpoint mlp-cartpole --method per-block --budget 1MB": "--budget: has no effect on the plan of --method",
    "graph mlp-cartpole --json ''": "--json '': the text is empty",
    "graph mlp-cartpole --json - --text -": "only one of them can go to standard output",
    "map linear --hardware edge-tpu --dims K=4 --batch 2": "--batch: has no effect on one operator",
    "explore fusemax --front-reports 2": "--front-reports: has no effect without --report",
    "graph mlp-cartpole --lora 1000": "--lora 1000: no layer that gets an adapter has a rank above 500",
    "graph mlp-cartpole --lora 1000000": "--lora 1000000: at most 65,536 is allowed",
    "graph mlp-cartpole --lora-targets 0": "there are no adapters: give their rank",
    "graph mlp-cartpole --lora 2 --lora-targets 2,9": "--lora-targets '9': matches no linear layer or convolution",
    "graph mlp-cartpole --lora 2 --lora-targets 6*": "the head gets one only by its name: 6",
    "distribute mlp --system edge-ethernet --batch 4 --shard ,": "--shard ',': at least one is needed of none, states",
    "distribute mlp --system edge-ethernet": "--batch: samples of a step over all replicas are needed",
    "run mlp --system edge-ethernet --shard states": "--shard 'states': has no effect with data=1; leave it out",
    "mine mlp --template edge --range rows=8 --range rows=16": "--range 'rows=16': rows is given twice",
    "mine mlp --template edge --area inf": "--area inf: a finite number is needed",
    "mine mlp --template edge --store x.sqlite --json x.sqlite": "two things cannot be written to one file",
    "mine mlp --template edge --store x.sqlite --json x.sqlite-fused": "two things cannot be written to one file",
    "explore fusemax --store x.sqlite --json ./x.sqlite": "two things cannot be written to one file",
    "mine mlp --template edge --joint batch=2 --joint batch=4": "--joint 'batch=4': batch is given twice",
    "mine mlp --template edge --system edge-ethernet --stages 2 --finalists 3": "--finalists: has no effect with",
    "run mlp-cartpole --hardware tests/chips": "tests/chips: is a folder; name a file in it: ",
    "run mlp-cartpole --hardware a100 --precision fp8": "allowed are fp64, fp32, tf32, bf16, fp16, int16, int8",
}


@pytest.mark.parametrize("command", REFUSED)
def test_refused(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    with pytest.raises(MonetError) as caught:
        CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
    assert REFUSED[command] in str(caught.value)
    assert "did you mean 'fp64'" not in str(caught.value)


def test_suggestions_make_sense() -> None:
    assert nearest("fp8", FORMATS) == "did you mean 'fp8_e4m3' or 'fp8_e5m2'?"
    assert nearest("fp8", ("fp64", "fp32", "fp16")) == "allowed: fp16, fp32, fp64"
    assert nearest("resnet17", ("resnet18", "resnet50")) == "did you mean 'resnet18'?"
    assert nearest("tpo", ("tpu-a", "tpu-b", "vgg")) == "allowed: tpu-a, tpu-b, vgg"


def test_a_network_without_parameters_is_said_to_have_none() -> None:
    builder = GraphBuilder("plain")
    plain = builder.build([builder.emit("relu", builder.input("x", (2, 3), "fp32"))])
    with pytest.raises(MonetError, match="plain: it has no parameters, so nothing is trained; --mode inference"):
        training_step(plain)


def test_a_space_is_told_of_its_keys_as_it_writes_them() -> None:
    with pytest.raises(MonetError, match="unknown key; did you mean 'set'") as caught:
        small_space(sett={})
    assert "set_values" not in str(caught.value)
    with pytest.raises(MonetError, match="set: input should be a valid dictionary"):
        small_space(set=3)


@pytest.mark.parametrize("name", ["stride", "dilation"])
def test_windows_move_forward(name: str) -> None:
    builder = GraphBuilder("windows")
    x, w = builder.input("x", (1, 2, 8, 8), "fp32"), builder.parameter("w", (4, 2, 3, 3), "fp32")
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": ((0, 0), (0, 0))} | {name: (1, -1)}
    pool = {"kernel": (2, 2), "ceil": False, "index_dtype": "int64"}
    with pytest.raises(MonetError, match=rf"a {name} of \[1, -1\]: at least 1"):
        builder.emit("conv", x, w, groups=1, **attrs)
    with pytest.raises(MonetError, match=rf"a {name} of \[1, -1\]: at least 1"):
        builder.emit("max_pool", x, **attrs, **pool)
