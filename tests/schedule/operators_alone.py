"""Operators alone, cut out of training steps of one layer, and a roofline for each, worked out by hand.

The roofline knows nothing of the mapper and the scheduler. Per design of core it takes the largest of

* arithmetic: products over all positions that the wires of the array allow to work at once (as if sizes divided well),
  or over all lanes; other functions over all lanes,
* every port of the cores' memories, which all operands pass once on the way in or out and once to the array or the
  lanes (twice where a norm takes its statistics first); of every product lanes read at least one input anew, as
  nothing stays in their registers,
* every channel: DRAM, links and buses, which all operands pass once (twice, where the extent of a norm does not fit),

and of all designs that can run the operator the least. The time until the first word and after the last is added.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from monet.frontends.zoo.layers import Layers
from monet.graph import Graph, GraphBuilder
from monet.graph.loop_nest import Operand
from monet.graph.op import Op
from monet.graph.tensor import Tensor
from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.core import Axis, Core, Flow
from monet.hardware.loading import load_hardware
from monet.schedule.evaluation import evaluate
from monet.schedule.workload import Operator, workload_of
from monet.training.step import training_step

# --- one operator, cut out --------------------------------------------------------------------------------------------


def alone(graph: Graph, op: Op) -> Graph:
    """A graph of one operator; all it reads lies in DRAM."""
    builder = GraphBuilder(op.name)
    for name in dict.fromkeys(op.inputs):
        tensor = graph.tensors[name]
        builder.root(name, tensor.shape, tensor.dtype, tensor.role)
    return builder.build(builder.emit_all(op.kind, *op.inputs, name=f"alone.{op.kind}", **op.attrs))


@dataclass(frozen=True)
class Layer:
    """A layer as a forward graph, and the kinds of its training step that are looked at."""

    name: str
    build: Callable[[Layers], str]
    kinds: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = (("loss", "mse"),)

    def operators(self, precision: str) -> Iterator[tuple[str, Graph]]:
        """(name, graph) of every kind asked for, the largest of each."""
        net = Layers(self.name)
        step = training_step(net.build(self.build(net)), precision=precision, **dict(self.options))
        for kind in self.kinds:
            found = [op for op in step.ops if op.kind == kind]
            assert found, f"{self.name}: no {kind} among {sorted({op.kind for op in step.ops})}"
            largest = max(found, key=lambda op: sum(step.tensors[name].elements for name in (*op.inputs, *op.outputs)))
            yield f"{self.name}: {kind}", alone(step, largest)


CONV = ("conv", "conv_transpose", "conv_weight_gradient")


def conv(
    batch: int,
    channels: int,
    size: int,
    out: int,
    window: int,
    stride: int = 1,
    groups: int = 1,
    kinds: tuple[str, ...] = CONV,
) -> Layer:
    """A convolution with its gradients; its input is a parameter, so that the gradient of it is asked for."""

    def build(net: Layers) -> str:
        x = net.builder.parameter("x", (batch, channels, size, size))
        return net.conv("conv", x, out, window, stride, window // 2, groups)

    words = f"{window}×{window}" + (f" stride {stride}" if stride > 1 else "")
    kind = "" if groups == 1 else "depthwise " if groups == channels == out else f"in {groups} groups "
    name = f"{kind}{words}, {channels}→{out}, {batch}×{size}²"
    return Layer(name, build, kinds)


def on(shape: tuple[int, ...], name: str, build: Callable[[Layers, str], str], *kinds: str, **options: str) -> Layer:
    """A layer on a tensor of a shape."""
    words = f"{name}, {'×'.join(map(str, shape))}"
    given = tuple(({"loss": "mse"} | options).items())
    return Layer(words, lambda net: build(net, net.builder.parameter("x", shape)), kinds, given)


def _attention(net: Layers, x: str) -> str:
    batch, heads, rows, width = net.shape(x)
    keys, values = (net.builder.parameter(name, (batch, heads, rows, width)) for name in ("k", "v"))
    return net.attention(x, keys, values, causal=False, dropout=0.0)


def _tokens(batch: int, vocabulary: int, width: int) -> Callable[[Layers], str]:
    return lambda net: net.embedding("table", net.builder.input("tokens", (batch, 256), "int64"), vocabulary, width)[0]


def layers(batch: int) -> tuple[Layer, ...]:
    """The layers that are looked at, with so many samples."""
    image, tokens, heads = (batch, 64, 56, 56), (batch, 256, 768), (batch, 12, 256, 64)
    return (
        conv(batch, 64, 56, 64, 3),
        conv(batch, 3, 224, 64, 7, 2, kinds=("conv", "conv_weight_gradient")),  # nobody asks for an image's gradient
        conv(batch, 64, 56, 128, 3, 2),
        conv(batch, 64, 56, 128, 1, 2),
        conv(batch, 256, 14, 512, 1),
        conv(batch, 512, 7, 512, 3),
        conv(batch, 96, 56, 96, 3, 1, 96),
        conv(batch, 96, 112, 96, 3, 2, 96),
        conv(batch, 384, 14, 384, 5, 1, 384),
        conv(batch, 128, 28, 128, 3, 1, 32),
        on(tokens, "linear to 3072", lambda net, x: net.linear("fc", x, 3072), "linear", "linear_weight_gradient"),
        on((16 * batch, 2048), "linear to 1000", lambda net, x: net.linear("fc", x, 1000), "linear",
           "linear_weight_gradient"),
        on(heads, "explicit attention", _attention, "matmul", "softmax", "softmax_gradient"),
        on(heads, "fused attention", _attention, "attention", "attention_gradient", attention="fused"),
        on(image, "batch norm", lambda net, x: net.batch_norm("bn", x), "batch_norm", "batch_norm_gradient"),
        on(tokens, "layer norm", lambda net, x: net.layer_norm("ln", x), "layer_norm", "layer_norm_gradient"),
        on(image, "ReLU", lambda net, x: net.relu(x, inplace=False), "relu", "relu_gradient"),
        on(tokens, "GELU", lambda net, x: net.gelu(x), "gelu", "gelu_gradient"),
        on(image, "pool 3×3 stride 2", lambda net, x: net.max_pool("pool", x, 3, 2, 1), "max_pool",
           "max_pool_gradient"),
        on((batch, 512, 7, 7), "global mean", lambda net, x: net.global_average(x), "reduce_mean"),
        on((1024 * batch, 256), "cross-entropy", lambda net, x: x, "nll_loss", "nll_loss_gradient", "log_softmax",
           "log_softmax_gradient", loss="cross-entropy"),
        Layer(f"{256 * batch} tokens of 8192", _tokens(batch, 8192, 768), ("embedding", "embedding_gradient")),
        on(image, "residual", lambda net, x: net.add(x, net.builder.parameter("y", net.shape(x))), "add"),
        on(tokens, "RMS norm", lambda net, x: net.rms_norm("norm", x), "rms_norm", "rms_norm_gradient"),
        on(tokens, "SiLU", lambda net, x: net.activation("silu", x), "silu", "silu_gradient"),
        on(tokens, "tanh", lambda net, x: net.activation("tanh", x), "tanh", "tanh_gradient"),
        on(tokens, "dropout", lambda net, x: net.dropout("drop", x, 0.1), "dropout"),
        on((1024, 1024), "momentum", lambda net, x: x, "momentum_update", optimizer="momentum"),
        on((1024, 1024), "SGD", lambda net, x: x, "sgd_update"),
        on((1024, 1024), "AdamW", lambda net, x: x, "adam_update", optimizer="adamw"),
    )  # fmt: skip


# Samples by preset: enough that an operator takes longer than its first tile's way in and its last one's way out.
BATCHES = {"edge-tpu": 4, "fusemax": 4, "simba": 4, "micro-npu": 4, "tpu-v3": 32, "a100": 32}


# --- the roofline -----------------------------------------------------------------------------------------------------

# Which operand each dimension of a product indexes: a first input, b second input, o output. In an input gradient C
# and the positions of what is read (OY, OX: as many as the products of a tap) index the output, taps and K are summed.
INDEXES = {
    "conv": {"N": "ao", "G": "abo", "K": "bo", "C": "ab", "OY": "ao", "OX": "ao", "FY": "ab", "FX": "ab"},
    "conv_transpose": {"N": "ao", "G": "abo", "K": "ab", "C": "bo", "OY": "ao", "OX": "ao", "FY": "ab", "FX": "ab"},
    "conv_weight_gradient": {
        "N": "ab", "G": "abo", "K": "bo", "C": "ao", "OY": "ab", "OX": "ab", "FY": "ao", "FX": "ao"
    },
    "linear": {"N": "ao", "K": "bo", "C": "ab"},
    "linear_weight_gradient": {"N": "ab", "K": "bo", "C": "ao"},
    "matmul": {"B0": "abo", "B1": "abo", "N": "ao", "K": "bo", "C": "ab"},
}  # fmt: skip


def _bits(operator: Operator, operand: Operand, tensor: Tensor) -> float:
    """Bits of an operand that an operator touches: a stride wider than the window leaves the rest alone, a look-up all
    rows but those that it looks up, and a loss by class all but one value of each row."""
    elements, sizes, kind = tensor.elements, operator.nest.sizes, operator.op.kind
    if kind == "embedding" and operand is operator.operands[0][0]:
        rows = operator.operands[1][1].elements
        elements = min(elements, rows * tensor.shape[-1])
    if kind == "nll_loss" and operand is operator.operands[0][0]:
        elements = operator.operands[1][1].elements
    if kind.startswith("conv") and operand.name == "x":
        for axis, length in zip("YX", tensor.shape[2:], strict=True):
            elements = elements // length * min(length, sizes[f"O{axis}"] * sizes[f"F{axis}"])
    return elements * tensor.bits_per_element


def _inside(operator: Operator) -> float:
    """Share of the products that lie inside the tensor, not in the padding."""
    share, sizes = 1.0, operator.nest.sizes
    if operator.op.kind.startswith("conv"):
        length = next(tensor.shape[2:] for operand, tensor in operator.operands if operand.name == "x")
        for axis, size, stride, pad in zip(
            "YX", length, operator.op.attrs["stride"], operator.op.attrs["padding"], strict=True
        ):
            places = [
                0 <= stride * out + tap - pad[0] < size
                for out in range(sizes[f"O{axis}"])
                for tap in range(sizes[f"F{axis}"])
            ]
            share *= sum(places) / len(places)
    return share


def _at_once(axis: Axis, dims: dict[str, int], indexes: dict[str, str], slot: dict[str, str]) -> float:
    """Positions of an axis that work at once on average, if operand ``slot[x]`` lies in slot x: those dimensions that
    the wires allow, at most three of them cut into equal parts that fit."""
    legal = [
        size
        for dim, size in dims.items()
        if size > 1
        and (axis.dims is None or dim in axis.dims)
        and not any(slot[name] in indexes[dim] for name in axis.multicast)
        and axis.reduce == ("o" not in indexes[dim])
    ]
    return max((_used(axis.size, chosen) for chosen in itertools.permutations(legal, min(3, len(legal)))), default=1.0)


@cache
def _used(room: int, sizes: tuple[int, ...]) -> float:
    """Positions in use on average with some dimensions side by side, the last as wide as the others leave room for."""
    if not sizes:
        return 1.0
    first, *rest = sizes
    if not rest:
        return first / -(-first // min(first, room))
    parts = {-(-first // steps) for steps in range(1, first + 1) if -(-first // steps) <= room}
    return max(first / -(-first // part) * _used(room // part, tuple(rest)) for part in parts)


def _array_cycles(
    core: Core, kind: str, sizes: dict[str, int], types: list[str], bits: list[float], inside: float, cores: int,
    memories: int,
) -> float:  # fmt: skip
    """Least cycles of the array of a core for its share of some products: all positions that can work at once; and an
    input without a level below the memory is read in every step, once for all positions that it is multicast to.
    ``memories``: how many there are, which cores may share."""
    indexes, products = INDEXES[kind], math.prod(sizes.values())
    share, through = products / cores, products * inside / memories
    width = dict(zip("ab", bits, strict=True))
    best = math.inf
    for order, mode in itertools.product(("ab", "ba") if core.swappable_inputs else ("ab",), core.modes):
        slot = {"I": order[0], "W": order[1], "O": "o"}
        used = {axis.name: _at_once(axis, sizes, indexes, slot) for axis in mode.axes}
        read: dict[str, float] = {}
        for name in "IW":
            if len(core.levels_of(name)) == 1:
                port = core.top(name).port_for(name, Flow.FEED)
                times = through / math.prod(used[axis.name] for axis in mode.axes if name in axis.multicast)
                read[port.name] = read.get(port.name, 0.0) + times * width[slot[name]] / port.bandwidth_bits_per_cycle
        for rate in core.rates:
            if sorted(rate.inputs) == sorted(types):
                at_once = math.prod(used.values()) * rate.products_per_step
                best = min(best, max(share / at_once * rate.cycles_per_step, *read.values(), 0.0))
    return best


def _lane_cycles(operator: Operator, core: Core) -> float:
    """Cycles of a core's lanes for all functions of an operator; infinite if they have not all."""
    functions = dict(core.functions)
    if not core.lanes or any(name not in functions for name, _ in operator.work):
        return math.inf
    types = {operand.dtype for operand, _ in operator.operands}
    rates = [rate.elements_per_cycle for rate in core.vector_rates if rate.dtype in types]
    if not rates:
        return math.inf
    work = dict(operator.work) or {"copy": sum(tensor.elements for o, tensor in operator.operands if o.written)}
    return sum(functions[name] * count for name, count in work.items()) / (core.lanes * max(rates))


def _port_cycles(operator: Operator, core: Core, on_lanes: bool, memories: int) -> float:
    """Cycles of the busiest port of the outermost memory of cores, of which there are so many."""
    busy: dict[tuple[str, str], float] = {}
    for operand, tensor in operator.operands:
        bits = _bits(operator, operand, tensor) / memories
        slot = "O" if operand.written else "I"
        near = Flow.COLLECT if operand.written else Flow.FEED
        far = Flow.DRAIN if operand.written else Flow.FILL
        passes = operator.dimensions.passes if not operand.written and len(tensor.shape) > 1 else 1
        for flow, times in ((near, passes), (far, 1)):
            port = core.top(slot).port_for(slot, flow)
            key = core.top(slot).name, port.name
            busy[key] = busy.get(key, 0.0) + times * bits / port.bandwidth_bits_per_cycle / core.top(slot).instances
    if on_lanes and operator.macs:  # one input of every product
        narrow = min(operand.bits_per_element for operand in operator.nest.reads[:2])
        port = core.top("I").port_for("I", Flow.FEED)
        products = operator.macs * _inside(operator) / memories
        busy["products", port.name] = products * narrow / port.bandwidth_bits_per_cycle
    return max(busy.values())


def _channel_seconds(operator: Operator, accelerator: Accelerator, cores: list[CoreInstance], again: int) -> float:
    """Seconds of the busiest of DRAM and all links, if every operand passes once; inputs ``again`` where a norm cannot
    keep what it has read."""
    read = sum(_bits(operator, o, tensor) * again for o, tensor in operator.operands if not o.written)
    written = sum(_bits(operator, o, tensor) for o, tensor in operator.operands if o.written)
    dram = accelerator.dram
    bursts = operator.operands[1][1].elements * 8 * dram.burst_bytes if operator.op.kind == "nll_loss" else 0
    busy = [(read + written + bursts) / dram.bandwidth_bits_per_s]  # of a loss by class, a burst for each value
    ways = [(accelerator.route(dram.name, c.endpoint), accelerator.route(c.endpoint, dram.name)) for c in cores]
    for number, link in enumerate(accelerator.links):
        share = [sum(number in way[side] for way in ways) / len(ways) for side in (0, 1)]
        bits = share[0] * read, share[1] * written
        together = link.is_bus or link.shared_directions
        busy.append((sum(bits) if together else max(bits)) / link.bandwidth_bits_per_s)
    return max(busy)


def _attention_cycles(operator: Operator, accelerator: Accelerator, cores: list[CoreInstance]) -> float:
    """All products on the arrays of a design, beside them all else on their own lanes or those on the same memories."""
    core, query, sizes = cores[0].core, operator.nest.reads[0], operator.nest.sizes
    memories = {name for c in cores for _, name in c.memories}
    beside = [c for c in accelerator.cores if c.core.lanes and memories & {name for _, name in c.memories}]
    if not beside or not core.modes:
        return math.inf
    lanes, width, rows, keys = beside[0].core, query.shape[-1], sizes["N"], sizes["C"]
    shapes = [(rows, keys, width), (rows, width, keys)]  # scores; their sum of values
    if operator.op.kind == "attention_gradient":  # and dP, dV, dQ, dK
        shapes = [(rows, keys, width)] * 2 + [(keys, width, rows)] * 2 + [(rows, width, keys)]
    heads = operator.macs // sum(math.prod(shape) for shape in shapes)
    products = [dict(zip(("N", "K", "C"), shape, strict=True)) for shape in shapes]
    given = [query.dtype] * 2, [query.bits_per_element] * 2, 1.0, len(cores), _memories(cores)
    array = heads * sum(_array_cycles(core, "linear", product, *given) for product in products)
    speed = max((rate.elements_per_cycle for rate in lanes.vector_rates if rate.dtype == query.dtype), default=1.0)
    work = sum(dict(lanes.functions)[name] * count for name, count in operator.lane_work)
    return max(array, work / (speed * lanes.lanes * len(beside)))


def _memories(cores: list[CoreInstance]) -> int:
    return len({dict(core.memories).get("O", core.name) for core in cores})


def roofline_s(operator: Operator, accelerator: Accelerator) -> float:
    """The least time of an operator alone on any design of core, all its cores together."""
    designs: dict[Core, list[CoreInstance]] = {}
    for instance in accelerator.cores:
        bare = replace(instance.core, levels=tuple(replace(level, memory="") for level in instance.core.levels))
        designs.setdefault(bare, []).append(instance)
    return min(_on_design(operator, accelerator, cores) for cores in designs.values())


def _on_design(operator: Operator, accelerator: Accelerator, cores: list[CoreInstance]) -> float:
    core, many, memories = cores[0].core, len(cores), _memories(cores)
    extent = operator.dimensions.extent * max(o.bits_per_element for o in operator.nest.operands)
    shared = [memory.size_bytes for memory in accelerator.memories if not memory.cores]  # between cores and DRAM
    again = operator.dimensions.passes if extent > max(core.top("I").total_bytes, *shared, 0) * 4 else 1
    cycles = max(_lane_cycles(operator, core) / many, _port_cycles(operator, core, True, memories))
    if operator.is_attention:
        cycles = _attention_cycles(operator, accelerator, cores)
    elif operator.is_matrix and core.modes:
        reads = operator.nest.reads[:2]
        given = [o.dtype for o in reads], [o.bits_per_element for o in reads], _inside(operator), many, memories
        array = _array_cycles(core, operator.op.kind, operator.nest.sizes, *given)
        on_array = max(array, _port_cycles(operator, core, False, memories))
        cycles = min(cycles, on_array)
    inside = (cycles + core.dispatch_cycles) / core.clock_hz
    return max(inside, _channel_seconds(operator, accelerator, cores, again)) + 2 * accelerator.dram.latency_s


# --- both -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """An operator alone on an accelerator."""

    hardware: str
    operator: str
    seconds: float
    roofline_s: float
    core: str

    @property
    def ratio(self) -> float:
        """How many times the roofline it takes."""
        return self.seconds / self.roofline_s


@cache
def hardware(name: str) -> Accelerator:
    """A preset."""
    return load_hardware(name)


def rows(name: str, wanted: str = "") -> Iterator[Row]:
    """Every operator alone on a preset; of layers whose name holds ``wanted``. What cannot run there is left out: fused
    attention where array and lanes share no memory, and what is larger than DRAM."""
    accelerator = hardware(name)
    for layer in layers(BATCHES[name]):
        for words, graph in layer.operators("bf16") if wanted in layer.name else ():
            (operator,) = workload_of(graph).operators
            least = roofline_s(operator, accelerator)
            if (
                math.isinf(least)
                or sum(tensor.bytes for _, tensor in operator.operands) > accelerator.dram.capacity_bytes
            ):
                continue
            result = evaluate(graph, accelerator)
            assert result.feasible, (name, words, result.reason)
            row = result.operators[0]
            cores = row.cores[0] + (f" and {len(row.cores) - 1} more" if len(row.cores) > 1 else "")
            yield Row(name, words, result.latency_s, least, cores)
