"""The exact static optimum against PyTorch's ``activation_memory_budget``, at the bytes that PyTorch then keeps.

    python benchmarks/checkpoint_torch.py [network ...]

AOTAutograd traces forward and backward of the same network together, its min-cut partitioner is given a memory budget,
and what its forward graph hands to its backward graph is counted: storages once, views of parameters and inputs (it
saves transposed weights) not at all. Its extra work is what its backward graph multiplies beyond that of budget 1.
Ours is the optimum in as many bytes, twice: counting products and convolutions only, which is what PyTorch's figure
counts and what is compared, and counting one operation per element that is written again as well.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import tests.zoo_reference as reference
import torch
from torch import nn
from torch._functorch import config
from torch._functorch.aot_autograd import aot_function, make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.flop_counter import flop_registry

from monet import load_model, training_step
from monet.graph.counts import macs_of
from monet.search.checkpoint.static import best_under
from monet.transforms.checkpoint_problem import problem_of

BUDGETS = (0.5, 0.25, 0.1)
WORSE = 0.2  # points of forward work that ours may lie above


def _image() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(1, 3, 224, 224), torch.zeros(1, dtype=torch.int64)


def _tokens(batch: int, length: int, vocabulary: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(0, vocabulary, (batch, length))
    return tokens, tokens


Network = tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, torch.Tensor]], str, dict[str, int]]
NETWORKS: dict[str, Network] = {
    "resnet18_b1_224": (lambda: reference.ResNet((2, 2, 2, 2), False, 1000), _image, "resnet18", {}),
    "mlp_robot_b4096": (
        lambda: reference.mlp(48, 512, 256, 128, 12, elu=True),
        lambda: (torch.randn(4096, 48), torch.randn(4096, 12)),
        "mlp-robot",
        {"batch": 4096},
    ),
    "gpt2mini_b1_s256": (
        lambda: reference.Gpt2(6, 384, 6, 50257, 1024),
        lambda: _tokens(1, 256, 50257),
        "gpt2-mini",
        {"sequence": 256},
    ),
    "gpt2small_b1_s256": (
        lambda: reference.Gpt2(12, 768, 12, 50257, 1024),
        lambda: _tokens(1, 256, 50257),
        "gpt2-small",
        {"sequence": 256},
    ),
    "bertbase_b1_s128": (
        lambda: reference.Bert(12, 768, 12, 30522),
        lambda: (_tokens(1, 128, 30522)[0], torch.zeros(1, dtype=torch.int64)),
        "bert-base",
        {"sequence": 128},
    ),
}


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The loss each network is trained with."""
    if target.is_floating_point():
        return nn.functional.mse_loss(output, target)
    return nn.functional.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))


def partitioned(module: nn.Module, sample: tuple[torch.Tensor, torch.Tensor], budget: float) -> tuple[Any, Any]:
    """The forward and backward graphs that the partitioner makes under a budget."""
    graphs: list[tuple[Any, Any]] = []
    names, values = zip(*module.named_parameters(), *module.named_buffers(), strict=True)

    def partition(joint: Any, inputs: Any, **options: Any) -> tuple[Any, Any]:
        graphs.append(min_cut_rematerialization_partition(joint, inputs, **options))
        return graphs[-1]

    def step(values: list[torch.Tensor], x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return loss_of(torch.func.functional_call(module, dict(zip(names, values, strict=True)), (x,)), target)

    def as_it_is(graph: Any, _: Any) -> Any:
        return make_boxed_func(graph.forward)

    with config.patch(activation_memory_budget=budget):
        aot_function(step, fw_compiler=as_it_is, bw_compiler=as_it_is, partition_fn=partition)(list(values), *sample)
    return graphs[0]


VIEWS = ("t", "view", "_unsafe_view", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select",
         "detach", "alias", "reshape", "split", "as_strided")  # fmt: skip


def base_of(node: Any) -> Any:
    """The node that owns the storage of ``node``."""
    while node.op == "call_function":
        name = getattr(getattr(node.target, "_overloadpacket", None), "__name__", "")
        from_view = name in VIEWS
        if not from_view and getattr(node.target, "__name__", "") == "getitem":
            maker = node.args[0]
            from_view = getattr(getattr(maker.target, "_overloadpacket", None), "__name__", "") in VIEWS
        if not from_view:
            break
        node = node.args[0]
    return node


def kept_bytes(forward: Any, backward: Any) -> int:
    """Bytes that the forward graph hands to the backward graph."""
    wanted = {node.name for node in backward.graph.nodes if node.op == "placeholder"}
    output = next(node for node in forward.graph.nodes if node.op == "output")
    bases = {base_of(node) for node in output.args[0] if getattr(node, "name", None) in wanted}
    values = [node.meta["val"] for node in bases if node.op != "placeholder"]
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))


def flops(graph: Any) -> int:
    """FLOPs of products and convolutions, as PyTorch's counter has them."""
    total = 0
    for node in graph.graph.nodes:
        packet = getattr(node.target, "_overloadpacket", None)
        if node.op == "call_function" and packet in flop_registry:
            arguments = torch.fx.node.map_arg(node.args, lambda one: one.meta["val"])
            keywords = torch.fx.node.map_arg(node.kwargs, lambda one: one.meta["val"])
            total += flop_registry[packet](*arguments, **keywords, out_val=node.meta["val"])
    return total


def compare(name: str) -> bool:
    """Print the rows of one network; whether every one is within ``WORSE``."""
    make, inputs, model, sizes = NETWORKS[name]
    torch.manual_seed(0)
    module, sample = make(), inputs()
    step = training_step(load_model(model, **sizes))
    problem, products = problem_of(step), problem_of(step, lambda graph, op: 2 * macs_of(graph, op))
    forward, backward = partitioned(module, sample, 1.0)
    plain = flops(backward)
    work = flops(forward)
    print(f"{name}: torch keeps {kept_bytes(forward, backward):,} bytes at budget 1, ours {problem.keep_all_bytes:,}")
    good = True
    for budget in BUDGETS:
        forward, backward = partitioned(module, sample, budget)
        kept, extra = kept_bytes(forward, backward), (flops(backward) - plain) / work
        start = time.process_time()
        best = best_under(problem, kept)
        seconds = time.process_time() - start
        same = best_under(products, kept)
        at_budget = best_under(problem, int(budget * problem.keep_all_bytes))
        difference = 100 * (same.share - extra)
        good &= difference <= WORSE
        verdict = "" if difference <= WORSE else " WORSE"
        print(f"  budget {budget:4}: kept {kept / 1e6:8.2f} MB  torch {100 * extra:6.2f} %", end="  ")
        print(f"ours {100 * same.share:6.2f} % ({difference:+.2f} points{verdict})", end="; ")
        print(f"with elements {100 * best.share:.2f} %, {seconds:.2f} s", end="; ")
        print(f"at the budget itself {100 * at_budget.share:.2f} % in {at_budget.kept_bytes / 1e6:.2f} MB", flush=True)
    return good


if __name__ == "__main__":
    asked = sys.argv[1:] or list(NETWORKS)
    print("never worse by more than", WORSE, "points:", all(list(map(compare, asked))))
