"""Every entry of the operator table, asked everything that other stages ask of it. A new entry is picked up by itself,
and asks for a case of its own in ``onnx_cases``."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import monet
from monet import training_step
from monet.formats import FORMATS
from monet.frontends.onnx.operators import RULES
from monet.graph import KINDS, Call, Family, Graph, GraphBuilder, LoopNest, OpKind
from monet.graph.counts import call_of
from monet.graph.kind import Dimensions, displaced, kind_named, pointwise
from monet.graph.loop_nest import Operand
from monet.graph.verify import verify
from monet.hardware.functions import DEFAULT_CYCLES
from monet.numerics import execute
from monet.report.onnx import to_model
from monet.schedule.planning.splits import disjoint_dims
from monet.schedule.workload import operator_of
from monet.transforms.lora import add_lora
from tests.report.onnx_cases import Case, all_cases

Array = np.ndarray[Any, Any]
ALL = all_cases()
EACH = 4  # cases of a kind, the smallest: dependences are looked at element by element


def smallest() -> list[Case]:
    found: dict[str, list[Case]] = {}
    for case in ALL:
        found.setdefault(case.kind, []).append(case)
    size = {id(case): sum(int(np.prod(one.shape)) for one in case.operands) for same in found.values() for case in same}
    return [case for same in found.values() for case in sorted(same, key=lambda case: size[id(case)])[:EACH]]


CASES = smallest()
EXECUTED = [case for case in CASES if KINDS[case.kind].family is not Family.VIEW]
MATRIX = (Family.CONVOLUTION, Family.MATMUL)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
every_executed = pytest.mark.parametrize("case", EXECUTED, ids=lambda case: case.kind)


def applied(case: Case) -> tuple[Graph, Call]:
    graph = case.graph("fp64")
    return graph, call_of(graph, graph.ops[0])


def arguments(case: Case) -> list[Array]:
    arrays = [np.asarray(array, np.float64 if array.dtype.kind == "f" else None) for array in case.values().values()]
    if case.kind == "reduce_extreme_gradient":  # its last operand is the extreme itself
        arrays[2] = arrays[1].max(axis=1)
    if case.kind == "max_pool_gradient":  # positions lie in their windows
        wide = np.random.default_rng(1).random(case.attrs["shape"])
        arrays[1] = np.asarray(KINDS["max_pool"].evaluate(applied(case)[1].attrs, wide)[1])
    return arrays


def evaluated(case: Case, arrays: list[Array]) -> tuple[Array, ...]:
    with np.errstate(invalid="ignore"):  # no extreme is left where the only one was moved
        out = KINDS[case.kind].evaluate(applied(case)[1].attrs, *arrays)
    return tuple(map(np.asarray, out)) if isinstance(out, tuple) else (np.asarray(out),)


def test_every_entry_has_a_case() -> None:
    """Operators between ranks are run by all of them, in tests/distributed."""
    assert {case.kind for case in CASES} == {kind.name for kind in KINDS.values() if kind.of_one_device}


# --- an entry says everything, or is refused --------------------------------------------------------------------------


def entry(**changes: Any) -> OpKind:
    relu = KINDS["relu"]
    given = {"nest": relu.nest, "dimensions": pointwise, "work": relu.work, "onnx": ("Relu",), **changes}
    return OpKind("new", changes.pop("family", Family.VECTOR), relu.infer, relu.evaluate, **given)


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ({"nest": None}, "a loop nest"),
        ({"dimensions": None}, "a rule of its dimensions"),
        ({"work": KINDS["concat"].work}, "a work rule"),
        ({"onnx": ()}, "its ONNX operators, or why there are none"),
        ({"no_onnx": "both"}, "its ONNX operators, or why there are none"),
    ],
)
def test_an_entry_that_leaves_something_open_is_refused(left_out: dict[str, Any], message: str) -> None:
    entry()
    with pytest.raises(ValueError, match=f"'new' needs {message}"):
        entry(**left_out)


# --- shapes, values, gradients ----------------------------------------------------------------------------------------


@every_case
def test_shape_rule_and_meaning_agree(case: Case) -> None:
    _, call = applied(case)
    found = evaluated(case, arguments(case))
    assert [array.shape for array in found] == [tensor.shape for tensor in call.outputs]
    for array, tensor in zip(found, call.outputs, strict=True):
        if not FORMATS[tensor.dtype].is_float:  # of what the executor does not convert, kinds of numbers agree
            assert array.dtype.kind in ("b", "i", "u"), tensor


DIFFERENTIABLE = [
    case
    for case in CASES
    if KINDS[case.kind].gradient and any(one.dtype == "fp32" for one in case.operands) and case.kind != "cast"
]


def step_of(case: Case, in_place: bool) -> tuple[Graph, str]:
    """A training step that weights the first result and sums it; every float operand is trained."""
    builder = GraphBuilder(case.kind)
    names = []
    for slot, operand in enumerate(case.operands):
        is_float = operand.dtype == "fp32"
        make = builder.parameter if is_float else builder.input
        names.append(make(f"x{slot}", operand.shape, "fp64" if is_float else operand.dtype))
    if in_place:
        names[0] = builder.emit("scale", names[0], factor=1.0)
    attrs = {key: "fp64" if key == "dtype" else value for key, value in case.attrs.items()}
    attrs |= {"value": 0.5} if attrs.get("value") == -np.inf else {}
    out = builder.emit(case.kind, *names, inplace=in_place, **attrs)
    weighting = builder.input("weighting", builder.tensors[out].shape, "fp64")
    graph = builder.build([builder.emit("mul", out, weighting)])
    return training_step(graph, loss="sum", precision="fp64"), out


@pytest.mark.parametrize("in_place", [False, True], ids=["", "in place"])
@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=lambda case: case.kind)
def test_gradient_is_the_slope(case: Case, in_place: bool) -> None:
    """Along random directions, in every operand at once: the loss moves as the gradients say."""
    if in_place and not KINDS[case.kind].in_place:
        pytest.skip("never runs in place")
    step, out = step_of(case, in_place)
    verify(step)  # nothing reads what was overwritten
    assert (step.tensors[out].storage != out) == in_place or KINDS[case.kind].family is Family.VIEW
    generator = np.random.default_rng(3)
    values = {f"x{slot}": array for slot, array in enumerate(arguments(case))}
    values["weighting"] = generator.standard_normal(step.tensors["weighting"].shape)
    gradients = execute(step, values, want=[step.loss, *step.gradients.values()])
    trained = {name: gradients[grad] for name, grad in step.gradients.items() if name in values}
    assert trained
    for _ in range(3):
        way = {name: generator.standard_normal(values[name].shape) for name in trained}
        ends = []
        for small in (1e-6, -1e-6):
            moved = values | {name: values[name] + small * way[name] for name in way}
            ends.append(float(execute(step, moved, want=[step.loss])[step.loss]))
        slope = (ends[0] - ends[1]) / 2e-6
        told = sum(float((trained[name] * way[name]).sum()) for name in trained)
        assert told == pytest.approx(slope, rel=1e-5, abs=1e-6)


# --- nests and dimensions: what a result depends on -------------------------------------------------------------------


def moved(array: Array) -> Iterator[tuple[int, Array]]:
    """The array with one element changed, for every element."""
    for place in range(array.size):
        other = array.copy()
        flat = other.reshape(-1)
        flat[place] = not flat[place] if array.dtype.kind == "b" else flat[place] + 1
        yield place, other


KNOWN: dict[tuple[int, int], dict[int, tuple[Array, ...]]] = {}


def dependences(case: Case, slot: int) -> dict[int, tuple[Array, ...]]:
    """By element of an operand: which elements of every result depend on it."""
    found = KNOWN.setdefault((id(case), slot), {})
    if found:
        return found
    arrays = arguments(case)
    plain = evaluated(case, arrays)
    for place, other in moved(arrays[slot]):
        results = zip(plain, evaluated(case, [*arrays[:slot], other, *arrays[slot + 1 :]]), strict=True)
        found[place] = tuple(
            np.flatnonzero(~np.isclose(a.ravel(), b.ravel(), rtol=0, atol=1e-12, equal_nan=True)) for a, b in results
        )
    return found


def touched(operand: Operand, nest: LoopNest, fixed: dict[str, int], shape: tuple[int, ...] = ()) -> Array:
    """Elements of an operand that the nest reaches with some dimensions fixed; an axis that no dimension moves is
    looked up, so any of it."""
    sizes = [range(size) if name not in fixed else (fixed[name],) for name, size in nest.dims]
    full = shape or operand.shape
    free = [range(length) if not one.terms else (0,) for one, length in zip(operand.indices, full, strict=True)]
    hit = np.zeros(full, bool)
    wanted = [name for name, _ in nest.dims]
    for point in itertools.product(
        *(r if name in operand.dims else (0,) for name, r in zip(wanted, sizes, strict=True))
    ):
        at = dict(zip(wanted, point, strict=True))
        place = [one.offset + sum(f * at[name] for name, f in one.terms) for one in operand.indices]
        for extra in itertools.product(*free):
            where = tuple(a + b for a, b in zip(place, extra, strict=True))
            if all(0 <= a < n for a, n in zip(where, full, strict=True)):
                hit[where] = True
    return hit.ravel()


def integers(case: Case, slot: int) -> bool:
    return case.operands[slot].dtype not in ("fp32", "bool", "bit")


@every_executed
def test_nest_touches_all_that_is_read(case: Case) -> None:
    """An element whose change changes the result is one that the nest reads; what is retained is never read."""
    kind, (_, call) = KINDS[case.kind], applied(case)
    assert kind.nest is not None
    nest = kind.nest(call)
    by_slot = {operand.slot: operand for operand in nest.operands}
    for slot in range(len(case.operands)):
        bias = kind.family in MATRIX and slot == 2  # is added to results as they leave
        untouched = slot in (*kind.retained, *kind.awaited)
        assert (slot in by_slot) != (bias or untouched), f"operand {slot}"
        if integers(case, slot):
            continue  # positions; what they do to the result is data
        counts = {place: len(results[0]) for place, results in dependences(case, slot).items()}
        if slot in kind.retained:
            assert not any(counts.values())
        elif slot in by_slot:
            reached = touched(by_slot[slot], nest, {}, call.inputs[slot].shape if by_slot[slot].picks else ())
            assert not [place for place, count in counts.items() if count and not reached[place]]


@every_executed
def test_parts_are_independent(case: Case) -> None:
    """Along every dimension that may be cut, results of one position depend on what the nest reads there, no more.
    Results that are summed over it have a test of their own."""
    graph, call = applied(case)
    operator = operator_of(graph, graph.ops[0], 0)
    assert operator is not None
    if KINDS[case.kind].dimensions is displaced:
        pytest.skip("the nest says how much is read, not from where")
    group = FORMATS[call.out.dtype].group
    if group and group.tensor_bits:
        pytest.skip("the scale of the tensor is taken as known beforehand")
    nest = operator.nest
    for out, dim in itertools.product(nest.writes, sorted(disjoint_dims(operator) | operator.summed)):
        result = out.slot - len(call.inputs)
        if dim not in out.dims and (dim in operator.summed or nest.sizes[dim] == 1):
            continue
        for operand in nest.reads:
            if integers(case, operand.slot) or operand.slot in KINDS[case.kind].retained:
                continue
            results = dependences(case, operand.slot)
            shape, grain = call.inputs[operand.slot].shape if operand.picks else (), nest.grain.get(dim, 1)
            for first in range(0, nest.sizes[dim], grain):  # positions that stay together
                here = [{dim: position} for position in range(first, min(first + grain, nest.sizes[dim]))]
                made = np.any([touched(out, nest, fixed) for fixed in here], axis=0)
                read = np.any([touched(operand, nest, fixed, shape) for fixed in here], axis=0)
                for place, changed in results.items():
                    assert read[place] or not made[changed[result]].any(), (dim, first, operand.name, place)


@every_executed
def test_what_is_summed_over_adds_up(case: Case) -> None:
    """Where a cut of a reduced dimension owes an addition, results are sums of what its positions make: what a change
    at one of them does is the same whatever is at another."""
    graph, call = applied(case)
    operator = operator_of(graph, graph.ops[0], 0)
    assert operator is not None
    if not operator.summed:
        return
    assert operator.dimensions.combine == "add"
    nest, arrays = operator.nest, arguments(case)
    random = np.random.default_rng(7)
    other = [array if integers(case, n) else array + random.normal(size=array.shape) for n, array in enumerate(arrays)]

    def changed(*positions: int) -> list[Array]:
        mixed = [np.array(array) for array in arrays]
        for operand, position in itertools.product(nest.reads, positions):
            if dim in operand.dims:
                shape = call.inputs[operand.slot].shape
                here = touched(operand, nest, {dim: position}, shape if operand.picks else ())
                elsewhere = touched(operand, nest, {dim: 1 - position}, shape if operand.picks else ())
                mine = (here & ~elsewhere).reshape(shape)
                mixed[operand.slot] = np.where(mine, other[operand.slot], mixed[operand.slot])
        return mixed

    for dim in sorted(dim for dim in operator.summed if nest.sizes[dim] > 1):
        neither, first, second, both = (evaluated(case, changed(*at)) for at in ((), (0,), (1,), (0, 1)))
        for out in nest.writes:
            if dim not in out.dims:
                n = out.slot - len(call.inputs)
                np.testing.assert_allclose(both[n] - first[n], second[n] - neither[n], atol=1e-9, err_msg=dim)


@every_executed
def test_extent_is_what_statistics_are_taken_over(case: Case) -> None:
    graph, call = applied(case)
    operator = operator_of(graph, graph.ops[0], 0)
    assert operator is not None
    dims: Dimensions = operator.dimensions
    assert (dims.taps | dims.whole) <= set(operator.nest.sizes) | {"FX", "FY", "FZ"}
    if dims.passes == 1:
        assert dims.extent == 0
    elif call.out.shape == call.inputs[0].shape:  # not the gradient of parameters alone
        assert max(len(results[0]) for results in dependences(case, 0).values()) == dims.extent


# --- functions, running values, narrow forms, adapters, positions -----------------------------------------------------


@every_case
def test_vector_functions_are_known_to_the_hardware(case: Case) -> None:
    _, call = applied(case)
    work = KINDS[case.kind].work(call)
    assert set(work) <= set(DEFAULT_CYCLES)
    assert all(isinstance(count, int) and count >= 0 for count in work.values())


@every_case
def test_running_values_are_renewed_in_place(case: Case) -> None:
    """Buffers that an operator overwrites are those that a recomputation leaves alone."""
    kind, (_, call) = KINDS[case.kind], applied(case)
    outputs = kind.infer(call.inputs, call.attrs)
    renewed = {place for place, output in enumerate(outputs) if output.role == "buffer"}
    assert renewed == {place for place in kind.once if place < len(outputs)}
    assert all(outputs[place].alias == place for place in renewed)


def test_forms_that_compact_saving_takes_exist() -> None:
    forms = [kind.mask for kind in KINDS.values() if kind.mask]
    assert forms
    for form in forms:
        assert {form.kind, form.gradient, form.reader} <= set(KINDS)
    narrow = {case.kind for case in CASES if (rule := KINDS[case.kind].narrow) and rule(applied(case)[1].attrs)}
    assert narrow == {"max_pool", "dropout"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.low_rank], ids=lambda kind: kind.name)
def test_adapters_fit_their_layer(kind: OpKind) -> None:
    """Both paths give the same shape, and with a zero second factor the model computes what it did."""
    cases = [case for case in ALL if case.kind == kind.name and len(case.operands[0].shape) > 1]
    assert cases
    for case in cases:
        builder = GraphBuilder("layer")
        x = builder.input("x", case.operands[0].shape, "fp64")
        weights = [builder.parameter(f"w{i}", one.shape, "fp64") for i, one in enumerate(case.operands[1:])]
        plain = builder.build([builder.emit(kind.name, x, *weights, **case.attrs)])
        adapted = add_lora(plain, min(2, case.operands[1].shape[0]), heads=True)
        shapes = {name: tensor.shape for name, tensor in adapted.tensors.items() if tensor.trainable}
        assert len(shapes) == 2
        arrays = dict(zip(("x", "w0", "w1"), arguments(case), strict=False))
        values = arrays | {name: np.full(shape, 0.5 * ("lora_a" in name)) for name, shape in shapes.items()}
        expected = execute(plain, arrays, want=plain.outputs)[plain.outputs[0]]
        np.testing.assert_allclose(execute(adapted, values, want=adapted.outputs)[adapted.outputs[0]], expected)


@pytest.mark.parametrize("case", [case for case in CASES if KINDS[case.kind].positions], ids=lambda case: case.kind)
def test_positions_reach_to_the_end_and_no_further(case: Case) -> None:
    rule, (_, call), arrays = KINDS[case.kind].positions, applied(case), arguments(case)
    assert rule is not None
    evaluated(case, [arrays[0], np.full_like(arrays[1], rule(call) - 1), *arrays[2:]])
    with pytest.raises(IndexError):
        evaluated(case, [arrays[0], np.full_like(arrays[1], rule(call)), *arrays[2:]])


# --- files: a kind comes from the operators it names, or says why from none -------------------------------------------


def one_node(op: str, operands: dict[str, Array], opset: int, outputs: int = 1, **attrs: Any) -> onnx.ModelProto:
    """A file with one operator, for kinds that the exporter writes in another way."""
    first, *rest = operands
    x = onnx.helper.make_tensor_value_info(first, onnx.TensorProto.FLOAT, operands[first].shape)
    names = [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(op, list(operands), names, **attrs)
    graph = onnx.helper.make_graph(
        [node], op, [x], [onnx.helper.make_tensor_value_info("y0", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(operands[name], name) for name in rest],
    )  # fmt: skip
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


def f32(*shape: int) -> Array:
    return np.random.default_rng(0).random(shape, np.float32)


IMAGE, CHANNELS = f32(2, 4, 5, 5), f32(4)
BY_HAND = {  # the exporter writes these with statistics, or for another opset
    "batch_norm": one_node(
        "BatchNormalization", {"x": IMAGE, "w": CHANNELS, "b": CHANNELS, "m": CHANNELS, "v": CHANNELS}, 17
    ),
    "group_norm": one_node("GroupNormalization", {"x": IMAGE, "w": CHANNELS, "b": CHANNELS}, 21, num_groups=2),
    "rms_norm": one_node("RMSNormalization", {"x": f32(2, 3, 4), "w": f32(4)}, 23),
    "dropout": one_node("Dropout", {"x": IMAGE, "r": np.asarray(0.3, np.float32), "t": np.asarray(True)}, 17),
    "lstm_cell": one_node("LSTM", {"x": f32(5, 2, 3), "w": f32(1, 16, 3), "r": f32(1, 16, 4)}, 17, hidden_size=4),
    "gru_cell": one_node(
        "GRU", {"x": f32(5, 2, 3), "w": f32(1, 12, 3), "r": f32(1, 12, 4)}, 17, hidden_size=4, linear_before_reset=1
    ),
}


def exported(case: Case) -> onnx.ModelProto:
    """The case as a file; one without operands is added to an input, as files need one."""
    if case.operands:
        return to_model(case.graph())
    builder = GraphBuilder(case.kind)
    made = builder.emit(case.kind, **case.attrs)
    shape, dtype = builder.tensors[made].shape, builder.tensors[made].dtype
    x = builder.input("x", shape, "fp32" if dtype == "bool" else dtype)
    taken = ("masked_fill", {"value": -1.0}) if dtype == "bool" else ("add", {})
    return to_model(builder.build([builder.emit(taken[0], x, made, **taken[1])]))


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.onnx], ids=lambda kind: kind.name)
def test_a_kind_comes_back_from_a_file(kind: OpKind, tmp_path: Path) -> None:
    files = [BY_HAND[kind.name]] if kind.name in BY_HAND else [exported(c) for c in ALL if c.kind == kind.name]
    assert set(kind.onnx) <= set(RULES)
    for number, model in enumerate(files):
        path = tmp_path / f"{number}.onnx"
        onnx.save(model, path)
        if kind.name in {op.kind for op in monet.load_model(str(path)).ops}:
            return
    pytest.fail(f"no file with {' or '.join(kind.onnx)} imports as {kind.name}")


def test_both_importers_make_what_files_name() -> None:
    """A kind that ONNX files name is also one that a rule of the PyTorch importer emits."""
    folder = Path(monet.__file__).parent / "frontends"
    sources = [*(folder / "torch").rglob("*.py"), folder / "recurrent.py"]
    nodes = (node for path in sources for node in ast.walk(ast.parse(path.read_text())))
    written = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert not [kind.name for kind in KINDS.values() if kind.onnx and kind.name not in written]


def test_a_case_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above would see a softmax that is cut along its axis."""
    case = next(case for case in CASES if case.kind == "softmax")
    graph, _ = applied(case)
    free = replace(kind_named("softmax"), dimensions=lambda call, nest: Dimensions())
    monkeypatch.setitem(KINDS, "softmax", free)
    cut = operator_of(graph, graph.ops[0], 0)
    monkeypatch.undo()
    operator = operator_of(graph, graph.ops[0], 0)
    assert cut is not None
    assert operator is not None
    assert cut.splittable - operator.splittable == {"A1"}


def test_excerpts_of_the_guide_are_in_the_files() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs/adding-an-operator.md").read_text()
    excerpts = re.findall(r"^`(src/\S+\.py)`:\n```(?:python|text)\n(.*?)```$", text, re.MULTILINE | re.DOTALL)
    assert len(excerpts) == text.count("```") // 2 > 5
    for path, excerpt in excerpts:
        lines = set((root / path).read_text().splitlines())
        assert not [line for line in excerpt.splitlines() if line not in lines], path
    for path in re.findall(r"`((?:src|tests)/\S+)`", text):
        assert (root / path).exists(), path
