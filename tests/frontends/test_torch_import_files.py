"""``mymodel.py:make_model``: what the function may return, how inputs are described, and one clear error each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from monet.errors import ModelError, MonetError
from monet.frontends.torch import load_module, load_python

SOURCE = """
import torch
from torch import nn
import sizes

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(10, sizes.WIDTH), nn.Linear(sizes.WIDTH, 3)

    def forward(self, ids, scale):
        return self.head(self.table(ids) * scale)

def make_model():
    return Net()

def make_with_inputs():
    return Net(), (torch.zeros(2, 5, dtype=torch.long), torch.ones(1))

def make_with_attribute():
    net = nn.Linear(4, 3)
    net.example_inputs = torch.zeros(2, 4)
    return net

def make_nothing():
    return 3

def make_trouble():
    raise RuntimeError("no weights here\\nand more")

constant = 3
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "sizes.py").write_text("WIDTH = 4\n")
    path = tmp_path / "net.py"
    path.write_text(SOURCE)
    return path


def shapes(graph: object) -> list[tuple[int, ...]]:
    return [graph.tensors[name].shape for name in graph.inputs]  # type: ignore[attr-defined]


def test_inputs_from_the_function_from_an_attribute_and_from_text(source: Path) -> None:
    assert shapes(load_python(f"{source}:make_with_inputs")) == [(2, 5), (1,)]
    assert shapes(load_python(f"{source}:make_with_attribute")) == [(2, 4)]
    graph = load_python(f"{source}:make_model", inputs=["3x7:int64", "1"])
    assert shapes(graph) == [(3, 7), (1,)]
    assert graph.tensors[graph.outputs[0]].shape == (3, 7, 3)
    assert graph.name == "make_model"


def test_batch_is_changed_where_inputs_share_it(source: Path) -> None:
    assert shapes(load_python(f"{source}:make_with_inputs", batch=6)) == [(6, 5), (1,)]


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ("{folder}/nett.py:make_model", {}, "no such file.*did you mean.*net.py"),
        ("{file}", {}, "FILE.py:FUNCTION"),
        ("{file}:make_modle", {}, "no function 'make_modle'; did you mean 'make_model'"),
        ("{file}:constant", {}, "is int, not a function"),
        ("{file}:make_nothing", {}, "returned int, expected a torch.nn.Module"),
        ("{file}:make_trouble", {}, r"RuntimeError: no weights here \(line 29\)$"),
        ("{file}:make_model", {}, "inputs are not known"),
        ("{file}:make_model", {"inputs": ["2x0:int64"]}, "at least 1"),
        ("{file}:make_model", {"inputs": ["2xtwo"]}, "sizes joined by x"),
        ("{file}:make_model", {"inputs": ["2x5:int46"]}, "did you mean 'int16' or 'int64'"),
        ("{file}:make_model", {"inputs": ["2x5:int64"]}, "torch.export failed"),
        ("{file}:make_with_inputs", {"batch": -1}, "batch=-1"),
    ],
)  # fmt: skip
def test_one_clear_error(source: Path, given: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(MonetError, match=says) as caught:
        load_python(given.format(file=source, folder=source.parent), **options)  # type: ignore[arg-type]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert "Traceback" not in str(caught.value)


def test_a_file_that_cannot_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import torch\n\ndef make(:\n")
    with pytest.raises(ModelError, match=r"broken.py: cannot be imported: SyntaxError: .*\(line 3\)"):
        load_python(f"{path}:make")
    path.write_text("import no_such_library\n")
    with pytest.raises(ModelError, match=r"ModuleNotFoundError.*no_such_library"):
        load_python(f"{path}:make")


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) if x.sum() > 0 else self.two(x)


def test_control_flow_on_data_is_named() -> None:
    with pytest.raises(ModelError, match="depends on the values of tensors"):
        load_module(Branch(), (torch.randn(2, 4),), "branch")


def test_not_a_module() -> None:
    with pytest.raises(ModelError, match=r"expected a torch.nn.Module, got function"):
        load_module(lambda x: x, (torch.randn(2),))


def test_complex_numbers_are_unsupported_not_a_crash() -> None:
    class Rotary(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.view_as_real(torch.view_as_complex(x) * 2).flatten(1)

    with pytest.raises(ModelError, match="view_as_complex"):
        load_module(Rotary(), (torch.randn(3, 2),))


def test_monet_works_without_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import monet.frontends.torch as reader\n"
        "from monet.errors import MonetError\n"
        "try: reader.load_python('x.py:f')\n"
        "except MonetError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'monet-train[torch]'" in done.stdout
