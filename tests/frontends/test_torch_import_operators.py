"""Single ATen operators through the reader: value and gradients against PyTorch, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from monet.errors import UnsupportedOperators
from monet.frontends.torch import load_module
from monet.graph.counts import saved_bytes
from monet.graph.verify import verify
from monet.training.step import training_step
from tests import torch_oracle

Function = Callable[[Tensor], Tensor]


class Around(nn.Module):
    """The function of a trained tensor, so that gradients flow through it; its sum is squared by the loss."""

    def __init__(self, function: Function, shape: tuple[int, ...], positive: bool = False) -> None:
        super().__init__()
        start = torch.randn(shape, generator=torch.Generator().manual_seed(4))
        self.weight = nn.Parameter(start.abs() + 0.5 if positive else start)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.weight + x)


def check(function: Function, shape: tuple[int, ...] = (2, 4, 6), positive: bool = False) -> None:
    module = Around(function, shape, positive)
    inputs = (torch.zeros(shape),)
    graph = verify(load_module(module, inputs))
    step = verify(training_step(graph, loss="mse"))
    errors = torch_oracle.compare_step(module.double(), step, (inputs[0].double(),), "sgd", "mse")
    assert max(errors.values()) <= 1e-5, errors


def in_place(name: str) -> Function:
    return lambda x: getattr(x * 1.0, name)()


UNARY: dict[str, Function] = {
    **{
        name: getattr(F, name)
        for name in (
            "relu",
            "relu6",
            "hardtanh",
            "gelu",
            "silu",
            "mish",
            "elu",
            "selu",
            "celu",
            "leaky_relu",
            "softplus",
            "softsign",
            "hardswish",
            "hardsigmoid",
            "logsigmoid",
            "tanhshrink",
            "softshrink",
            "hardshrink",
            "glu",
        )
    },
    **{
        name: getattr(torch, name)
        for name in (
            "sigmoid",
            "tanh",
            "exp",
            "erf",
            "sin",
            "cos",
            "abs",
            "neg",
            "square",
            "expm1",
            "exp2",
            "clone",
            "ravel",
            "positive",
        )
    },
    "floor": lambda x: x * torch.floor(x),
    "sign": lambda x: x * torch.sign(x),
    "celu_2": lambda x: F.celu(x, 2.0),
    "elu_3": lambda x: F.elu(x, 3.0),
    "softplus_2": lambda x: F.softplus(x, beta=2),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "threshold": lambda x: F.threshold(x, 0.1, 0.3),
    "relu_": in_place("relu_"),
    "tanh_": in_place("tanh_"),
    "sigmoid_": in_place("sigmoid_"),
    "exp_": in_place("exp_"),
    "leaky_relu_": lambda x: F.leaky_relu(x * 1.0, 0.2, inplace=True),
    "hardswish_": lambda x: F.hardswish(x * 1.0, True),
    "relu6_": lambda x: F.relu6(x * 1.0, True),
    "elu_": lambda x: F.elu(x * 1.0, 1.0, True),
    "prelu_one": lambda x: F.prelu(x, x.mean().reshape(1)),
    "prelu_many": lambda x: F.prelu(x, x.mean((0, 2))),
}

POSITIVE: dict[str, Function] = {
    **{name: getattr(torch, name) for name in ("log", "sqrt", "rsqrt", "reciprocal", "log1p", "log2", "log10")},
    "pow_half": lambda x: x**0.5,
    "pow_minus": lambda x: x**-1.5,
    "pow_tensor": lambda x: x ** x.mean(-1, keepdim=True),
    "base": lambda x: 2.0**x,
    "over": lambda x: 3.0 / x,
    "norm": lambda x: F.normalize(x, dim=-1),
}

ARITHMETIC: dict[str, Function] = {
    "add": lambda x: x + 2,
    "radd": lambda x: 2 + x,
    "sub": lambda x: x - 0.5,
    "rsub": lambda x: 1 - x,
    "mul": lambda x: 3 * x,
    "div": lambda x: x / 7,
    "add_alpha": lambda x: torch.add(x, x * x, alpha=0.3),
    "sub_alpha": lambda x: torch.sub(x, x * x, alpha=2),
    "pow2": lambda x: x**2,
    "pow3": lambda x: x.pow(3),
    "broadcast": lambda x: x * x[:, :1] - x[0],
    "iadd": lambda x: (x * 1).add_(x),
    "imul": lambda x: (x * 1).mul_(3.0),
    "isub": lambda x: (x * 1).sub_(x * x),
    "idiv": lambda x: (x * 1).div_(4),
    "imul_tensor": lambda x: (x * 1).mul_(x),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x * x + 1),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "lerp_tensor": lambda x: torch.lerp(x, x * x, torch.sigmoid(x)),
    "maximum": lambda x: torch.maximum(x, x[:, :1] * 0.5),
    "minimum": lambda x: torch.minimum(x, x.mean()),
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "clamp_min": lambda x: x.clamp(min=0.1),
    "clamp_max": lambda x: x.clamp(max=0.2),
    "clamp_tie": lambda x: F.relu(x).clamp(min=0),
    "clamp_tensor": lambda x: x.clamp(min=x.mean()),
    "where": lambda x: torch.where(x > 0, x, x * x),
    "where_number": lambda x: torch.where(x > 0.1, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x < 0, 2.0),
    "masked_fill_": lambda x: (x * 1).masked_fill_(x < 0, 0.0),
    "floor_divide": lambda x: x * (torch.arange(6) // 2),
    "remainder": lambda x: x * (torch.arange(6) % 4),
    "compare": lambda x: x * ((x >= 0) & (x <= 1) | ~(x != x)).float(),
    "bool_mul": lambda x: x * (x > 0),
    "int_div": lambda x: x * (torch.arange(6) / 4),
    "trunc": lambda x: x * torch.div(torch.arange(-3, 3), 2, rounding_mode="trunc"),
    "detach": lambda x: x * x.detach(),
    "no_grad": lambda x: x * _without_gradient(x),
    "isnan": lambda x: x.masked_fill(torch.isnan(x), 0),
    "xor": lambda x: x * ((x > 0) ^ (x > 1)).to(x.dtype),
    "logical_not": lambda x: x * torch.logical_not(x > 0).to(x.dtype),
}


def _without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.tanh(x)


SHAPES: dict[str, Function] = {
    "view": lambda x: x.view(4, -1),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 3)),
    "permute": lambda x: x.permute(2, 0, 1) * x[0, 0, 0],
    "transpose_reshape": lambda x: x.transpose(1, 2).reshape(2, 24),
    "t": lambda x: x[0].t(),
    "mT": lambda x: x.mT,
    "squeeze": lambda x: x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(-1) * x[..., None],
    "expand": lambda x: x[:, :1].expand(2, 5, 6),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat_lead": lambda x: x[0].repeat(3, 1, 2),
    "tile": lambda x: torch.tile(x, (2, 2)),
    "repeat_interleave": lambda x: x.repeat_interleave(3, dim=1),
    "contiguous": lambda x: x.transpose(0, 1).contiguous().view(4, 12),
    "movedim": lambda x: x.movedim(0, 2),
    "cat": lambda x: torch.cat([x, x * 2, x[:1]], 0),
    "stack": lambda x: torch.stack([x, x * x], 1),
    "split": lambda x: torch.mul(*x.split(3, dim=2)),
    "split_sizes": lambda x: x.split([1, 5], 2)[1],
    "chunk": lambda x: x.chunk(4, 2)[2],
    "tensor_split": lambda x: torch.tensor_split(x, 4, dim=2)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "select": lambda x: x[:, -1],
    "slice": lambda x: x[:, 1:, ::2],
    "narrow": lambda x: x.narrow(2, 1, 3),
    "ellipsis": lambda x: x[..., None, 2],
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=3.0),
    "crop": lambda x: F.pad(x, (-1, 0)),
    "reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, 1), mode="replicate"),
    "flip": lambda x: x.flip(1, 2),
    "roll": lambda x: x.roll((1, -2), (1, 2)),
    "roll_flat": lambda x: x.roll(5),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, :, None], 2),
    "tril": lambda x: x.tril(-1),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x[:, None], 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x[..., None], 2),
    "triu": lambda x: x.triu(1),
    "assign": lambda x: _assigned(x),
    "view_inplace": lambda x: _viewed(x),
    "fill_like": lambda x: x + torch.full_like(x, 2.0),
    "new_zeros": lambda x: torch.cat([x, x.new_zeros(2, 1, 6)], 1),
    "eye": lambda x: x @ torch.eye(6).to(x.dtype),
    "ones": lambda x: x * torch.ones(6),
    "linspace": lambda x: x * torch.linspace(0, 1, 6),
    "meshgrid": lambda x: x[0, :3] * torch.meshgrid(torch.arange(3.0), torch.arange(6.0), indexing="ij")[1],
    "to": lambda x: x.to(torch.float64).to(x.dtype),
    "type_as": lambda x: x * torch.arange(6).type_as(x),
    "constant": lambda x: x * torch.tensor([1.0, 2, 3, 4, 5, 6]),
    "scalar_constant": lambda x: x * torch.tensor(2.5),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[:1])[1],
}


def _assigned(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:3] = 2 * x[:, :2]
    y[:, 0] = 1.0
    y[0].mul_(2)
    return y


def _viewed(x: Tensor) -> Tensor:
    y = x * 1
    y.view(-1).relu_()
    return y + y.transpose(1, 2).sum()


REDUCTIONS: dict[str, Function] = {
    "sum": lambda x: x.sum(),
    "sum_dim": lambda x: x.sum((0, 2)),
    "mean": lambda x: x.mean(),
    "mean_dim": lambda x: x.mean(1, True),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin((1, 2)),
    "max": lambda x: x.max(),
    "max_dim": lambda x: x.max(1)[0],
    "min_dim": lambda x: x.min(-1, keepdim=True)[0],
    "var": lambda x: x.var(-1),
    "var_biased": lambda x: x.var((1, 2), unbiased=False),
    "std": lambda x: x.std(-1, keepdim=True),
    "norm": lambda x: x.norm(dim=1),
    "norm1": lambda x: torch.linalg.vector_norm(x, 1, dim=-1),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, math.inf, dim=-1),
    "logsumexp": lambda x: x.logsumexp(1),
    "var_mean": lambda x: torch.mul(*torch.var_mean(x, -1)),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "cumsum": lambda x: x.cumsum(1),
    "argmax": lambda x: x * x.argmax(-1, keepdim=True),
    "argmin": lambda x: x * x.argmin(),
    "topk": lambda x: torch.mul(*x.topk(2, 1)),
    "topk_smallest": lambda x: x.topk(3, largest=False)[0],
    "sort": lambda x: x.sort()[0].cumsum(-1),
    "sort_descending": lambda x: torch.mul(*torch.sort(x, stable=True, dim=1, descending=True)),
    "argsort": lambda x: x * x.argsort(1),
    "any": lambda x: x * (x > 1).any(-1, keepdim=True),
    "all": lambda x: x * (x > -1).all(),
}

LOOKUPS: dict[str, Function] = {
    "index_select": lambda x: x.index_select(1, torch.tensor([0, 2, 2])),
    "gather": lambda x: x.gather(2, (x[:, :3] > 0).long()),
    "index": lambda x: x[:, torch.tensor([1, 1, 3])],
    "index_negative": lambda x: x[:, torch.tensor([-1, 0])],
    "index_two": lambda x: x[torch.arange(2), torch.tensor([3, 1])],
    "index_list": lambda x: x[..., [0, 2]],
    "embedding": lambda x: F.embedding(torch.tensor([[0, 3], [3, 1]]), x[0]),
    "one_hot": lambda x: x[0, :3] * F.one_hot(torch.tensor([0, 5, 1]), 6),
    "embedding_padding": lambda x: F.embedding(torch.tensor([0, 3, 3, 1]), x[0], padding_idx=3),
    "bag_sum": lambda x: F.embedding_bag(torch.tensor([[0, 3], [3, 1], [2, 2]]), x[0], mode="sum"),
    "bag_mean": lambda x: F.embedding_bag(torch.tensor([0, 3, 3, 1]), x[0], torch.tensor([0, 2])),
    "bag_max": lambda x: F.embedding_bag(torch.tensor([[0, 3], [1, 2]]), x[0], mode="max"),
    "bag_weighted": lambda x: F.embedding_bag(
        torch.tensor([[0, 3], [1, 2]]), x[0], mode="sum", per_sample_weights=x[1, :2, :2]
    ),
    "scatter_add": lambda x: x.scatter_add(1, (x[:, :3, :5] > 0).long(), x[:, :3, :5].exp()),
    "scatter_add_": lambda x: x.new_zeros(2, 3, 6).scatter_add_(1, (x > 0).long(), x),
    "scatter": lambda x: x.scatter(2, torch.tensor([[[1, 0], [3, 5]]]), x[:1, :2, :2].exp()),
    "scatter_value": lambda x: x.scatter(2, torch.tensor([[[1, 0], [3, 5]]]), 0.5),
    "scatter_rows": lambda x: x.new_zeros(2, 3, 6).scatter_add(1, (x[0, :, :1] > 0).long().expand(2, 4, 6), x),
    "scatter_rows_stored": lambda x: x.scatter(2, torch.tensor([4, 1]).expand(2, 4, 2), x[..., :2].exp()),
    "scatter_reduce": lambda x: x.scatter_reduce(1, (x > 0).long(), x.exp(), "sum"),
    "scatter_reduce_anew": lambda x: x.scatter_reduce(1, (x > 0).long(), x.exp(), "sum", include_self=False),
    "index_add": lambda x: x.index_add(1, torch.tensor([0, 2, 2]), x[:, 1:].exp(), alpha=3),
    "index_add_": lambda x: x.new_zeros(3, 6).index_add_(0, torch.tensor([0, 2, 2, 1]), x[0]),
    "index_copy": lambda x: x.index_copy(2, torch.tensor([4, 1]), x[..., :2].exp()),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([3, 1]), 2.0),
    "index_put": lambda x: x.index_put((torch.tensor([0, 1]), torch.tensor([-1, 2])), x[0, 0].exp()),
    "index_put_add": lambda x: x.index_put((torch.tensor([0, 0]),), x.exp(), accumulate=True),
    "mixture": lambda x: mixture(x),
    "index_put_mask": lambda x: x.index_put((x[..., 0] > 0,), x.new_full((), 3.0)),
}


def mixture(x: Tensor) -> Tensor:
    """Routing of a mixture of experts: the two best scores of each token, written back to their places."""
    scores, experts = x.softmax(-1).topk(2)
    return torch.zeros_like(x).scatter(-1, experts, scores / scores.sum(-1, keepdim=True)) @ x.mT


KEEPING_PLACES: dict[str, Function] = {  # positions that depend on data
    "gather": lambda x: x.gather(2, (x[:, :3] > 0).long()),
    "scatter_rows": lambda x: x.scatter_add(1, (x[0, :, :1] > 0).long().expand(2, 4, 6), x.exp()),
    "scatter_add": lambda x: x.scatter_add(1, (x > 0).long(), x.exp()),
    "scatter": lambda x: x.scatter(1, (x > 0).long(), x.exp()),
    "index_add": lambda x: x.index_add(1, (x[0, :, 0] > 0).long(), x.exp()),
    "index_copy": lambda x: x.index_copy(1, (x[0, :, 0] > 0).long(), x.exp()),
    "topk": lambda x: x.topk(2, 1)[0],
    "sort": lambda x: x.sort(1)[0],
    "mixture": mixture,
}

PRODUCTS: dict[str, Function] = {
    "bilinear": lambda x: F.bilinear(x, x * 2, x[0, :3, :, None] * x[1, 0], x[0, 0, :3]),
    "cosine": lambda x: F.cosine_similarity(x, x * x, dim=-1),
    "mm": lambda x: x[0] @ x[1].t(),
    "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)),
    "addmm": lambda x: torch.addmm(x[0, 0, :4], x[0], x[1].t()),
    "addmm_scaled": lambda x: torch.addmm(x[0, :, :4], x[0], x[1].t(), beta=0.5, alpha=2),
    "baddbmm": lambda x: torch.baddbmm(x[:, :, :4], x, x.mT, alpha=0.5),
    "matmul_left": lambda x: x[0, :, :4] @ x,
    "matmul_vector": lambda x: x @ x[0, 0],
    "vector_matmul": lambda x: x[0, :, 0] @ x,
    "matmul_broadcast": lambda x: x[:, None] @ x[None].mT,
    "dot": lambda x: x[0, 0] @ x[1, 1],
    "outer": lambda x: torch.outer(x[0, 0], x[1, 0]),
    "einsum_outer": lambda x: torch.einsum("bi,bj->bij", x[:, 0], x[:, 1]),
    "einsum_sum": lambda x: torch.einsum("bij->j", x),
    "einsum_three": lambda x: torch.einsum("bij,bkj,k->bi", x, x, x[0, :, 0]),
    "einsum_implicit": lambda x: torch.einsum("bij,kj", x, x[0]),
    "einsum_ellipsis": lambda x: torch.einsum("...ij,...kj->...ik", x, x),
    "linear_transposed": lambda x: F.linear(x.transpose(0, 1), x[0]),
}

IMAGES: dict[str, Function] = {  # on (2, 4, 8, 8)
    "conv_same_even": lambda x: F.conv2d(x, x[:, :, :2, :2], padding="same"),
    "conv_same_dilated": lambda x: F.conv2d(x, x[:, :, :3, :2], padding="same", dilation=(2, 3)),
    "conv_stride": lambda x: F.conv2d(x, x[:, :2, :3, :3], stride=2, padding=1, groups=2),
    "conv1d": lambda x: F.conv1d(x[:, 0], x[0, :, :, :3], dilation=2),
    "conv3d": lambda x: F.conv3d(x[:, None], x[:, None, :3, :3, :3], padding=1),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x[:, 0], x[0, 0][:, None, :3], stride=2),
    "conv_transpose": lambda x: F.conv_transpose2d(x, x[0, :, None, :3, :3], stride=2, padding=1, output_padding=1),
    "conv_transpose_groups": lambda x: F.conv_transpose2d(x, x[0, :, None, :3, :3], groups=4, dilation=2),
    "conv_unbatched": lambda x: F.conv2d(x[0], x[:, :, :3, :3]),
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max_pool1d": lambda x: F.max_pool1d(x[:, 0], 2),
    "max_pool3d": lambda x: F.max_pool3d(x, 2),
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "avg_pool_ceil": lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True),
    "avg_pool1d": lambda x: F.avg_pool1d(x[:, 0], 2),
    "adaptive_avg": lambda x: F.adaptive_avg_pool2d(x, (4, 2)),
    "adaptive_avg_one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, 4),
    "adaptive_avg1d": lambda x: F.adaptive_avg_pool1d(x[:, 0], 4),
    "adaptive_uneven": lambda x: F.adaptive_avg_pool2d(x, (3, 7)),
    "adaptive_mixed": lambda x: F.adaptive_avg_pool2d(x[:, :, :2], (7, 4)),
    "adaptive_uneven1d": lambda x: F.adaptive_avg_pool1d(x[0], 5),
    "adaptive_uneven3d": lambda x: F.adaptive_avg_pool3d(x, (3, 5, 8)),
    "adaptive_grow": lambda x: F.adaptive_avg_pool2d(x, 16),
    "unfold": lambda x: F.unfold(x, (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1)),
    "unfold_unbatched": lambda x: F.unfold(x[0], 2, stride=2),
    "fold": lambda x: F.fold(x.reshape(2, 16, 16), (7, 7), (2, 2), padding=1, stride=2),
    "fold_overlapping": lambda x: F.fold(x[..., 0].reshape(2, 8, 4), (5, 2), (4, 1), padding=(0, 0)),
    "unfold_axis": lambda x: x.unfold(2, 3, 2),
    "unfold_patches": lambda x: x.unfold(2, 2, 2).unfold(3, 3, 3),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest_size": lambda x: F.interpolate(x, size=(12, 5)),
    "bilinear": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "bilinear_aligned": lambda x: F.interpolate(x, size=(11, 6), mode="bilinear", align_corners=True),
    "linear": lambda x: F.interpolate(x[:, 0], scale_factor=2, mode="linear"),
    "batch_norm_plain": lambda x: F.batch_norm(x, None, None, training=True),
    "instance_norm": lambda x: F.instance_norm(x, weight=x.mean((0, 2, 3)), bias=x[0, :, 0, 0]),
    "group_norm": lambda x: F.group_norm(x, 2, x.mean((0, 2, 3)), x[0, :, 0, 0]),
    "layer_norm": lambda x: F.layer_norm(x, (8, 8)),
    "rms_norm": lambda x: F.rms_norm(x, (8,), x[0, 0, 0]),
    "layer_norm_affine": lambda x: F.layer_norm(x, (8,), x[0, 0, 0], x[0, 0, 1]),
    "dropout2d": lambda x: F.dropout2d(x, 0.0),
    "local": lambda x: x * F.avg_pool2d(x, 3, 1, 1),
}

ATTENTION: dict[str, Function] = {  # on (2, 4, 8, 8)
    "sdpa": lambda x: F.scaled_dot_product_attention(x, x * 2, x),
    "causal": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "causal_uneven": lambda x: F.scaled_dot_product_attention(x[:, :, :5], x, x, is_causal=True),
    "scale": lambda x: F.scaled_dot_product_attention(x, x, x, scale=0.3),
    "bool_mask": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=torch.ones(8, 8, dtype=torch.bool).tril(2)
    ),
    "float_mask": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=x[:, :1]),
    "grouped": lambda x: F.scaled_dot_product_attention(x, x[:, :2], x[:, 1:3], enable_gqa=True),
}

LOSSES: dict[str, Function] = {
    "cross_entropy": lambda x: F.cross_entropy(x, torch.tensor([[0, 1, 2, 3, 1, 0]] * 2)),
    "cross_entropy_sum": lambda x: F.cross_entropy(x[0], torch.tensor([0, 5, 2, 3]), reduction="sum"),
    "cross_entropy_each": lambda x: F.cross_entropy(x[0], torch.tensor([0, 5, 2, 3]), reduction="none"),
    "smoothed": lambda x: F.cross_entropy(x[0], torch.tensor([0, 5, 2, 3]), label_smoothing=0.2),
    "soft_labels": lambda x: F.cross_entropy(x[0], torch.full((4, 6), 1 / 6)),
    "nll": lambda x: F.nll_loss(x[0].log_softmax(1), torch.tensor([0, 5, 2, 3])),
    "mse": lambda x: F.mse_loss(x, torch.ones(2, 4, 6)),
    "mse_both": lambda x: F.mse_loss(x, x * x),
    "l1": lambda x: F.l1_loss(x, torch.ones(2, 4, 6)),
    "mse_sum": lambda x: F.mse_loss(x, x.detach() * 2, reduction="sum"),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, torch.ones(2, 4, 6), beta=0.7),
    "huber": lambda x: F.huber_loss(x, torch.ones_like(x), delta=0.7),
    "bce_logits": lambda x: F.binary_cross_entropy_with_logits(x, torch.full((2, 4, 6), 0.3)),
    "bce": lambda x: F.binary_cross_entropy(x.sigmoid(), torch.full_like(x, 0.3)),
    "kl": lambda x: F.kl_div(x.log_softmax(-1), torch.full((2, 4, 6), 1 / 6), reduction="batchmean"),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str) -> None:
    check(UNARY[name])


@pytest.mark.parametrize("name", POSITIVE)
def test_functions_of_positive_numbers(name: str) -> None:
    check(POSITIVE[name], positive=True)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str) -> None:
    check(ARITHMETIC[name])


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    check(SHAPES[name])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    check(REDUCTIONS[name])


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookups(name: str) -> None:
    check(LOOKUPS[name])


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    check(PRODUCTS[name])


@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str) -> None:
    check(IMAGES[name], (2, 4, 8, 8))


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    check(ATTENTION[name], (2, 4, 8, 8))


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    check(LOSSES[name])


def test_weight_norm() -> None:
    module = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    inputs = (torch.randn(5, 4, generator=torch.Generator().manual_seed(0)),)
    step = training_step(load_module(module, inputs), loss="mse")
    errors = torch_oracle.compare_step(module.double(), step, (inputs[0].double(),), "sgd", "mse")
    assert max(errors.values()) <= 1e-5


@pytest.mark.parametrize(
    "name",
    ["relu", "gelu", "silu", "mish", "elu", "leaky_relu", "softplus", "hardswish", "hardsigmoid", "glu", "relu6"],
)
def test_activations_keep_what_torch_keeps(name: str) -> None:
    module, inputs = Around(getattr(F, name), (2, 4, 6)), (torch.zeros(2, 4, 6),)
    step = training_step(load_module(module, inputs), loss="sum")
    assert saved_bytes(step) == torch_oracle.saved_bytes(module, inputs, "sum")


@pytest.mark.parametrize("name", ["adaptive_avg", "adaptive_uneven", "adaptive_uneven1d", "adaptive_grow"])
def test_adaptive_averages_keep_what_torch_keeps(name: str) -> None:
    module, inputs = Around(IMAGES[name], (2, 4, 8, 8)), (torch.zeros(2, 4, 8, 8),)
    step = training_step(load_module(module, inputs), loss="sum")
    assert saved_bytes(step) == torch_oracle.saved_bytes(module, inputs, "sum")


@pytest.mark.parametrize("name", KEEPING_PLACES)
def test_places_are_kept_as_torch_keeps_them(name: str) -> None:
    module, inputs = Around(KEEPING_PLACES[name], (2, 4, 6)), (torch.zeros(2, 4, 6),)
    step = training_step(load_module(module, inputs), loss="sum")
    assert saved_bytes(step) == torch_oracle.saved_bytes(module, inputs, "sum")


def test_positions_of_whole_slices_are_recognised() -> None:
    graph = load_module(Around(LOOKUPS["scatter_rows"], (2, 4, 6)), (torch.zeros(2, 4, 6),))
    assert "index_add" in {op.kind for op in graph.ops}


def test_dropout_keeps_a_mask() -> None:
    graph = load_module(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Dropout1d(0.2)), (torch.randn(2, 3, 4),))
    assert [op.attrs["p"] for op in graph.ops if op.kind == "dropout"] == [0.5, 0.2]


def test_all_unsupported_operators_are_listed_once() -> None:
    def function(x: Tensor) -> Tensor:
        y = torch.erfinv(x.sigmoid()) + torch.erfinv(x.tanh() * 0.5)
        return torch.fft.fft(y).abs() + torch.lgamma(x) + torch.cumprod(y, 0)

    with pytest.raises(UnsupportedOperators) as caught:
        load_module(Around(function, (2, 4)), (torch.zeros(2, 4),), "odd")
    assert caught.value.missing["erfinv.default"] == (2, "erfinv")
    assert {"lgamma.default", "cumprod.default", "fft_fft.default"} <= set(caught.value.missing)
