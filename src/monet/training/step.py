"""training_step: forward graph in, one whole training step out (forward, loss, backward, update)."""

from __future__ import annotations

from typing import Any

from monet.errors import MonetError, OptionError
from monet.formats import FORMATS
from monet.graph import Graph, GraphBuilder, Op, Phase
from monet.graph.rewrite import copy_root, prune, replay_op, with_roots
from monet.training.differentiate import differentiate
from monet.training.losses import attach_loss
from monet.training.optimizers import Optimizer, emit_clip, emit_update, optimizer_named
from monet.training.options import TrainingOptions, training_values, without_hardware
from monet.transforms.attention import fuse_attention, write_out_attention
from monet.transforms.compact import compact_saved
from monet.transforms.freeze import freeze as freeze_parameters
from monet.transforms.lora import add_lora
from monet.transforms.narrow_reads import narrow_reads
from monet.transforms.precision import POLICIES, Precision, precision_named, precision_values, set_precision
from monet.transforms.quantise_products import quantise_products


def prepare(model: Graph, options: TrainingOptions) -> Graph:
    """The forward graph with everything applied that changes it before differentiation: what inference runs."""
    policy = precision_named(options.precision or "fp32")
    if options.attention == "fused-scores":
        raise OptionError("attention", options.attention, "inference keeps nothing for a backward pass; fused-lse does")
    graph = _multiplied(prepared_forward(model, options, policy), policy)
    return graph.made_by(model.recipe.trained("inference", _recorded(options, policy))) if model.recipe else graph


def _recorded(options: TrainingOptions, policy: Precision) -> dict[str, Any]:
    """The options that make a graph again: with the implementation of attention that was taken."""
    taken = without_hardware(options.attention)
    return {**training_values(options), "precision": precision_values(policy), "attention": taken}


def prepared_forward(model: Graph, options: TrainingOptions, policy: Precision) -> Graph:
    """The forward graph that is differentiated: attention, frozen parameters, adapters and formats as asked for."""
    if options.attention == "auto":
        raise OptionError("attention", "auto", "takes what is done first on given hardware, and here is none; name one")
    if options.attention == "explicit":
        model = write_out_attention(model)
    elif options.attention:
        model = fuse_attention(model, keep_scores=options.attention == "fused-scores")
    if options.freeze:
        model = freeze_parameters(model, options.freeze)
    if options.lora:
        model = add_lora(model, options.lora, patterns=options.lora_targets or ("*",))
    return set_precision(model, policy)


def _multiplied(graph: Graph, policy: Precision) -> Graph:
    """A graph with the operands of its products as a policy says."""
    if policy.read:
        return narrow_reads(graph, policy.working, policy.read)
    return quantise_products(graph, policy.products) if policy.products else graph


def training_step(model: Graph, options: TrainingOptions | None = None, **settings: object) -> Graph:
    """One training step of ``model``. Options may be given as keywords: ``training_step(model, optimizer="adam")``."""
    options = options or TrainingOptions(**settings)  # type: ignore[arg-type]
    forward, policy = trained_forward(model, options)
    trained = [tensor.name for tensor in forward.parameters if tensor.trainable]
    builder, gradients, losses, outputs = _passes(forward, options, trained)
    _update(builder, options, policy, {name: gradients[name] for name in trained if name in gradients})
    step = finished(prune(builder.build([*outputs, *losses], losses[-1], gradients)), options, policy)
    return step.made_by(model.recipe.trained("training", _recorded(options, policy))) if model.recipe else step


def finished(step: Graph, options: TrainingOptions, policy: Precision) -> Graph:
    """A differentiated graph with formats of products and narrow saved tensors as asked for."""
    step = _multiplied(step, policy)
    return compact_saved(step) if options.saved == "compact" else step


def trained_forward(model: Graph, options: TrainingOptions) -> tuple[Graph, Precision]:
    """The forward graph that is differentiated, and its formats; raises if it cannot be trained."""
    policy = precision_named(options.precision or "fp32")
    if not policy.trainable:
        names = [known.name for known in POLICIES.values() if known.trainable]
        raise OptionError("precision", policy.name, f"is for inference; train in {', '.join(names)}")
    if model.parameters and not any(FORMATS[tensor.dtype].is_float for tensor in model.parameters):
        kinds = ", ".join(sorted({tensor.dtype for tensor in model.parameters}))
        raise OptionError("mode", "training", f"{model.name} is for inference (its parameters are {kinds})")
    if not model.outputs:
        raise MonetError(f"{model.name}: the model has no output to attach a loss to")
    forward = prepared_forward(model, options, policy)
    if not any(tensor.trainable for tensor in forward.parameters):
        why = "every parameter is frozen" if forward.parameters else "it has no parameters"
        raise MonetError(f"{model.name}: {why}, so nothing is trained; --mode inference costs its forward pass")
    return forward, policy


def _passes(
    forward: Graph, options: TrainingOptions, trained: list[str]
) -> tuple[GraphBuilder, dict[str, str], list[str], list[str]]:
    """Forward, loss and backward of every micro-batch, gradients accumulated in place over them."""
    count = options.micro_batches
    builder = GraphBuilder.resume(forward) if count == 1 else with_roots(forward)[0]
    latest = {name: name for name in forward.tensors if name not in forward.producer}
    gradients: dict[str, str] = {}
    losses, outputs = [], []
    for number in range(count):
        ops, renamed = (list(forward.ops), latest) if count == 1 else _replay_forward(builder, forward, latest, number)
        output = renamed.get(forward.outputs[0], forward.outputs[0])
        start = len(builder.ops)
        with builder.at(Phase.LOSS, micro_batch=number):
            label = f"label.{number}" if number else "label"
            loss = attach_loss(builder, output, options.loss or forward.usual_loss, options.class_axis, label)
        ops += builder.ops[start:]
        with builder.at(Phase.BACKWARD, "loss", "loss", number):
            seed = builder.emit("fill", name="seed", shape=(), value=1.0 / count, dtype=builder.tensors[loss].dtype)
        inputs = [renamed.get(name, name) for name in forward.inputs if forward.tensors[name].trainable]
        found = differentiate(builder, ops, loss, [*trained, *inputs], seed, number)
        for parameter, gradient in found.items():
            gradients[parameter] = _add(builder, gradients.get(parameter), gradient, parameter, number)
        losses.append(loss)
        outputs.append(output)
    return builder, gradients, losses, outputs


def _replay_forward(
    builder: GraphBuilder, forward: Graph, latest: dict[str, str], number: int
) -> tuple[list[Op], dict[str, str]]:
    """The forward operators once more, on inputs of their own and on the running statistics left by the last pass."""
    renamed = dict(latest)
    if number:
        for name in forward.inputs:
            renamed[name] = copy_root(builder, forward, forward.tensors[name], f"{name}.{number}")
    start = len(builder.ops)
    with builder.at(Phase.FORWARD, micro_batch=number):
        for op in forward.ops:
            replay_op(builder, forward, op, renamed)
    for root, name in forward.updated.items():
        latest[root] = renamed[name]
    return builder.ops[start:], renamed


def _add(builder: GraphBuilder, earlier: str | None, gradient: str, parameter: str, number: int) -> str:
    if earlier is None:
        return gradient
    with builder.at(Phase.BACKWARD, parameter.rpartition(".")[0] or parameter, parameter, number):
        total = builder.emit("add", earlier, gradient, name="accumulate", inplace=True)
    builder.mark_gradient(total, parameter)
    return total


def optimizer_of(options: TrainingOptions) -> Optimizer:
    """The optimizer that the options name, with their settings."""
    optimizer = options.optimizer
    if isinstance(optimizer, Optimizer):
        return optimizer
    return optimizer_named(optimizer, rate=options.learning_rate, decay=options.weight_decay)


def _update(builder: GraphBuilder, options: TrainingOptions, precision: Precision, gradients: dict[str, str]) -> None:
    optimizer = optimizer_of(options)
    clip = emit_clip(builder, list(gradients.values()), options.clip_norm) if options.clip_norm is not None else None
    for parameter, gradient in gradients.items():
        emit_update(builder, optimizer, parameter, gradient, precision.master, clip)
