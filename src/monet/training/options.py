"""How a model is trained: the options of ``training_step``, declared once for every place that takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from monet.errors import OptionError
from monet.options import option, read_options

if TYPE_CHECKING:
    from monet.training.optimizers import Optimizer


FUSED = ("fused-lse", "fused-scores")  # the one that keeps least first
ATTENTION = ("explicit", "fused", *FUSED, "auto")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a model is trained. Empty values mean: as the model and the framework would have it.

    Of ``training_step`` itself, ``micro_batches`` are passes at the model's batch size; a request divides its batch.
    """

    # fmt: off
    loss: str = option(
        "", group="training", choices="monet.training.losses:LOSSES",
        help="cross-entropy, mse or sum.", usual="as the model is trained",
    )
    class_axis: int | None = option(None, group="training", help="Axis of the output that holds the classes.")
    optimizer: str | Optimizer = option(
        "sgd", group="training", choices="monet.training.optimizers:OPTIMIZERS", help="sgd, momentum, adam or adamw."
    )
    learning_rate: float | None = option(None, group="training", minimum=0, help="Step size of the optimizer.")
    weight_decay: float | None = option(None, group="training", minimum=0, help="Weight decay of the optimizer.")
    clip_norm: float | None = option(None, group="training", above=0, help="Clip gradients to this global norm.")
    micro_batches: int = option(
        1, group="training", minimum=1, maximum=2**16, unit="passes", formerly="accumulate",
        help="Split the batch and accumulate gradients over so many passes.",
    )
    precision: str | Mapping[str, Any] = option(
        "", group="training", choices="monet.transforms.precision:POLICIES", file="a YAML file with a policy",
        help="fp32, tf32 (fp32 that products read as TF32), bf16 or fp16 (mixed, fp32 master weights), fp64; mxfp8, mxfp8-e5m2, mxfp8-mixed, mxfp6, mxfp6-e2m3, mxfp4, mxint8, nvfp4, mx9, mx6, mx4 (operands of products; mxfp8-square: in square groups, and so of all), or a YAML file; int16, int8 (inference).",
        usual="fp32",
    )
    freeze: tuple[str, ...] = option((), group="training", help="Do not train parameters that match this pattern.")
    lora: int = option(
        0, group="training", minimum=0, maximum=2**16, help="Rank of low-rank adapters; everything else is frozen."
    )
    lora_targets: tuple[str, ...] = option(
        (), group="training", separator=",", usual="all but the head",
        help="Layers that get adapters: patterns such as *.query,*.value, divided by commas.",
    )
    attention: str = option(
        "", group="training", choices=ATTENTION,
        help="explicit: in its parts; fused: one operator; fused-lse: that keeps the log-sum-exp for backward; fused-scores: and the scores. Of fused-lse and fused-scores, fused is what is faster on the hardware; auto, of all three.",
        usual="as the model says",
    )
    saved: str = option(
        "framework", group="training", choices=("framework", "compact"),
        help="framework: what PyTorch keeps; compact: 1-bit masks, 1-byte indices.",
    )
    # fmt: on

    def __post_init__(self) -> None:
        read_options(self)
        if self.lora_targets and not self.lora:
            raise OptionError(
                "lora_targets", ",".join(self.lora_targets), "there are no adapters: give their rank, lora"
            )


def left_to_hardware(attention: str) -> tuple[str, ...]:
    """The implementations of attention of which the hardware's fastest is asked for; none if one is named."""
    return {"fused": FUSED, "auto": (*FUSED, "explicit")}.get(attention, ())


def without_hardware(attention: str) -> str:
    """The implementation of attention where no hardware says which: fused attention keeps least then."""
    return FUSED[0] if attention == "fused" else attention


def training_values(options: TrainingOptions) -> dict[str, Any]:
    """The training options alone, by name."""
    return {field.name: getattr(options, field.name) for field in fields(TrainingOptions)}
