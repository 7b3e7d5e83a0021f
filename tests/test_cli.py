"""The command line as a user meets it: output, JSON, files, exit codes, no tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from monet.cli import command_named
from monet.commands import COMMANDS
from monet.errors import nearest


def monet(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-m", "monet.cli", *arguments], capture_output=True, text=True, cwd=cwd, env=environment
    )


def test_summary_is_readable() -> None:
    result = monet("graph", "resnet18", "--optimizer", "adam")
    assert result.returncode == 0
    for words in ("11,689,512 parameters", "input gradient", "weight gradient", "21.62 MB", "Heaviest layers"):
        assert words in result.stdout


def test_json_has_the_promised_keys() -> None:
    result = monet("graph", "resnet18", "--batch", "8", "--optimizer", "adam", "--json", "-")
    summary = json.loads(result.stdout)
    columns = {"forward", "input_gradient", "weight_gradient", "backward", "total"}
    assert set(summary["macs"]) == set(summary["flops"]) == columns
    assert summary["flops"]["total"] == 2 * summary["macs"]["total"]
    assert summary["parameters"] == 11_689_512
    assert summary["optimizer_state_bytes"] == 8 * 11_689_512 + 4 * 62
    assert summary["saved_for_backward_bytes"] == 172_692_228
    assert set(summary["operators"]) == {"forward", "loss", "backward", "update"}
    assert {"name", "bytes", "kept_by"} <= set(summary["largest_saved"][0])


def test_inference_has_no_backward() -> None:
    summary = json.loads(monet("graph", "resnet18", "--mode", "inference", "--json", "-").stdout)
    assert summary["operators"] == {"forward": 68, "loss": 0, "backward": 0, "update": 0}
    assert summary["saved_for_backward_bytes"] == 0


def test_models_lists_the_zoo() -> None:
    names = {row["name"] for row in json.loads(monet("models", "--json", "-").stdout)}
    assert {"resnet18", "gpt3-175b", "unet", "llama2-7b", "mlp-cartpole", "lstm-lm"} <= names


def test_text_and_files(tmp_path: Path) -> None:
    result = monet("graph", "mlp-cartpole", "--text", "step.txt", "--json", "step.json", cwd=tmp_path)
    assert result.returncode == 0
    assert (tmp_path / "step.txt").read_text().startswith("graph mlp-cartpole {")
    assert json.loads((tmp_path / "step.json").read_text())["model"] == "mlp-cartpole"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step.json", "step.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["graph", "resnet19"], "did you mean 'resnet18'?"),
        (["graph", "nowhere/model.onnx"], "nowhere/model.onnx"),
        (["graph", "model.py"], "model.py:make_model"),
        (["graph", "resnet18", "--batch", "-1"], "--batch -1"),
        (["graph", "resnet18", "--batch", "0"], "--batch 0"),
        (["graph", "resnet18", "--sequence", "8"], "no such size"),
        (["graph", "gpt2-small", "--sequence", "2048"], "positions=1024"),
        (["graph", "vit-b16", "--image", "100"], "not a multiple"),
        (["graph", "unet", "--image", "100"], "multiple of 16"),
        (["graph", "resnet18", "--image", "8"], "batch norm"),
        (["graph", "resnet18", "--optimizer", "adan"], "did you mean 'adam'?"),
        (["graph", "resnet18", "--precision", "fp8"], "--precision 'fp8': allowed are fp64, fp32"),
        (["graph", "resnet18", "--loss", "mes"], "did you mean 'mse'?"),
        (["graph", "resnet18", "--micro-batches", "3", "--batch", "8"], "must divide"),
        (["graph", "resnet18", "--attention", "fused"], "no attention found"),
        (["graph", "resnet18", "--json", "missing/dir/x.json"], "there is no folder"),
        (["graph", "resnet18", "--mode", "train"], "training, inference"),
        (["graph", "resnet18", "--learning-rate", "nan"], "--learning-rate nan"),
        (["graph", "resnet18", "--weight-decay", "-1"], "--weight-decay -1"),
        (["graph", "resnet18", "--clip-norm", "nan"], "--clip-norm nan"),
        (["graph", "resnet18", "--input", "1x3x8x8"], "only a torch module"),
        (["graph", "resnet18", "--dimension", "N=4"], "only an ONNX file"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = monet(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_module_that_fails_gives_one_line(tmp_path: Path) -> None:
    lines = (
        "from torch import nn, randn",
        "class Mismatch(nn.Module):",
        "    def forward(self, x):",
        "        return x[:, :3] + x",
        "def make():",
        "    return Mismatch(), (randn(2, 4),)",
    )
    (tmp_path / "model.py").write_text("\n".join(lines))
    result = monet("graph", "model.py:make", cwd=tmp_path)
    assert result.returncode == 2
    assert "torch.export failed" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_unknown_option_exits_with_two() -> None:
    assert monet("graph", "resnet18", "--bach", "4").returncode == 2


def test_version() -> None:
    assert monet("--version").stdout.startswith("monet ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fuse", "mlp-robot", "--hardware", "edge-tpu", "--report", "nowhere/page.html"), "no folder 'nowhere'"),
        (("fuse", "mlp-robot", "--hardware", "edge-tpu", "--json", "-", "--save-plan", "-"), "only one of them"),
        (("allocate", "mlp-robot", "--hardware", "edge-tpu", "--report", "-"), "--report -: this goes to a file"),
        (("explore", "edge-tpu", "--json", "."), "that is a folder"),
        (("checkpoint", "mlp-robot", "--save-plan", "nowhere/plan.yaml"), "no folder 'nowhere'"),
        (("run", "mlp-robot", "--hardware", "edge-tpu", "--trace", "-"), "--trace -: this goes to a file"),
        (("reproduce", "fusion", "--report", "/proc/page.html"), "/proc"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_search(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    result = monet(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_fusion_that_is_no_file_is_told_the_names() -> None:
    result = monet("run", "mlp-robot", "--hardware", "edge-tpu", "--fusion", "autoo")
    assert result.returncode == 2
    assert "allowed are auto, none, or a YAML file with a plan; did you mean 'auto'?" in result.stderr


def test_a_hint_does_not_list_every_operator_of_a_network() -> None:
    hint = nearest("zzz", [f"conv{number}" for number in range(500)])
    assert hint.endswith("and 420 more")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    assert COMMANDS[name][1] == command_named(name).help


def test_help_imports_no_command() -> None:
    code = "import sys, monet.cli; monet.cli.app(['--help'], standalone_mode=False); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("imported", "unneeded"),
    [
        ("monet.cli", {"numpy", "monet.graph", "monet.hardware", "rich.table"}),
        ("monet.commands.run", {"numba", "scipy", "monet.report.html", "monet.search"}),
        ("monet.hardware", {"numpy", "monet.graph", "monet.compiled"}),
        ("monet.schedule.engine", {"numba", "scipy", "monet.frontends"}),
    ],
)
def test_a_part_starts_without_what_it_does_not_need(imported: str, unneeded: set[str]) -> None:
    code = f"import sys, {imported}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert imported in loaded
    assert unneeded.isdisjoint(loaded)


def test_numba_is_kept_from_loading_blas_in_our_own_process_only() -> None:
    code = "import sys, {}; from monet import compiled; compiled._import_numba(); print(*sys.modules)"
    for imported, loads in (("monet.commands", False), ("monet.mapping", True)):
        call = [sys.executable, "-c", code.format(imported)]
        loaded = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
        assert ("scipy.linalg.cython_blas" in loaded) == loads


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", ["keep-all", "per-block"])
def test_lora_of_gpt2_small_on_an_a100(checkpoint: str) -> None:
    options = ("--lora", "8", "--lora-targets", "*.attn.qkv,*.attn.proj", "--precision", "bf16", "--sequence", "64")
    done = monet("run", "gpt2-small", "--hardware", "a100", *options, "--checkpoint", checkpoint, "--json", "-")
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result["feasible"]
    again = {row["name"] for row in result["operators"] if row["recompute"]}
    assert bool(again) == (checkpoint == "per-block")
    updated = {row["name"] for row in result["operators"] if row["phase"] == "update"}
    assert updated
    assert all("lora" in name and ".attn." in name for name in updated)


INTERRUPTED_IN_A_DESTRUCTOR = """
import signal, time
from monet import cli

class Half:
    def __init__(self, error): self.error = error
    def __del__(self):
        signal.raise_signal(signal.SIGINT) if self.error is None else exec("raise self.error")

signal.signal(signal.SIGINT, cli._interrupted)
try:
    Half(None)
    time.sleep(10)
    print("lost")
except KeyboardInterrupt:
    print("interrupted")
Half(AttributeError("half-made"))
"""


def test_an_interrupt_in_a_destructor_is_not_lost_and_half_made_objects_are_silent() -> None:
    code = [sys.executable, "-c", INTERRUPTED_IN_A_DESTRUCTOR]
    result = subprocess.run(code, capture_output=True, text=True, timeout=30)
    assert (result.stdout, result.stderr) == ("interrupted\n", "")
