"""What a module calls fused is fused: bytes kept for the backward pass against autograd's saved-tensor hooks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from monet.frontends.torch import load_module
from monet.graph.counts import saved_bytes as kept
from monet.graph.verify import verify
from monet.training.step import training_step
from tests.torch_oracle import compare_step, saved_bytes

WITHIN = 8  # bytes
X = (torch.randn(2, 16, 32, generator=torch.Generator().manual_seed(1)),)


class Attention(nn.Module):
    """A norm and attention whose keys have fewer heads, masked as ``kind`` says."""

    def __init__(self, heads: int = 4, groups: int = 4, kind: str = "", norm: type[nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.heads, self.kind, width = heads, kind, 32 // heads
        self.q, self.k, self.v = (nn.Linear(32, count * width, bias=False) for count in (heads, groups, groups))
        self.norm, self.out = norm(32), nn.Linear(32, 32)
        self.bias = nn.Parameter(torch.randn(1, heads, 16, 16)) if kind == "trained bias" else None

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        y = self.norm(x)
        q, k, v = (
            part(y).view(batch, tokens, -1, 32 // self.heads).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        seen = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        masks = {"boolean": seen, "numbers": torch.zeros(1, 1, tokens, tokens).masked_fill(~seen, -1e9)}
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=self.bias if self.bias is not None else masks.get(self.kind),
            dropout_p=0.1 if self.kind == "dropout" else 0.0, is_causal=self.kind == "causal",
            enable_gqa=k.shape[1] < q.shape[1],
        )  # fmt: skip
        return x + self.out(y.transpose(1, 2).reshape(batch, tokens, 32))


def _encoder(**options: object) -> nn.Module:
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **{"dropout": 0.0, **options})


MODULES = {
    "plain": lambda: Attention(),
    "causal": lambda: Attention(kind="causal"),
    "boolean mask": lambda: Attention(kind="boolean"),
    "mask of numbers": lambda: Attention(kind="numbers"),
    "trained bias": lambda: Attention(kind="trained bias"),
    "dropout": lambda: Attention(kind="dropout"),
    "grouped queries": lambda: Attention(groups=2, kind="causal"),
    "one key head": lambda: Attention(groups=1),
    "rms norm": lambda: Attention(groups=2, norm=nn.RMSNorm),
    "two layers": lambda: nn.Sequential(Attention(norm=nn.RMSNorm, kind="causal"), nn.GELU(), Attention(groups=2)),
    "encoder": lambda: _encoder(),
    "encoder, norm first, gelu": lambda: _encoder(norm_first=True, activation="gelu"),
    "encoder with dropout": lambda: _encoder(dropout=0.1),
}


@pytest.mark.parametrize("name", MODULES)
def test_as_many_bytes_are_kept_as_autograd_keeps(name: str) -> None:
    torch.manual_seed(0)
    module = MODULES[name]().train()
    with torch.backends.mkldnn.flags(enabled=False):
        theirs = saved_bytes(module, X, "mse")
    step = training_step(load_module(module, X), loss="mse")
    fused = sum(op.kind == "attention" for op in step.ops)
    assert bool(fused) == (name not in ("trained bias", "dropout", "encoder with dropout"))
    assert abs(kept(step) - theirs) <= WITHIN


@pytest.mark.parametrize("attention", ["", "explicit", "fused"])
def test_the_option_decides_and_the_gradients_stay(attention: str) -> None:
    torch.manual_seed(0)
    module = Attention(groups=2, kind="causal")
    graph = load_module(module, X)
    step = verify(training_step(graph, loss="mse", attention=attention))
    kinds = {op.kind for op in step.ops}
    assert ("softmax" in kinds) == (attention == "explicit")
    assert ("attention" in kinds) == (attention != "explicit")
    errors = compare_step(module.double(), step, tuple(x.double() for x in X), "sgd", "mse")
    assert max(errors.values()) <= 1e-12, errors


@pytest.mark.parametrize("kind", ["", "boolean", "trained bias"])
@pytest.mark.parametrize("groups", [1, 2])
def test_losses_and_gradients_with_fewer_key_heads(kind: str, groups: int) -> None:
    """Fused, or written out where a module's attention cannot be: which queries share a key is PyTorch's."""
    torch.manual_seed(0)
    module = Attention(groups=groups, kind=kind)
    step = verify(training_step(load_module(module, X), loss="mse"))
    errors = compare_step(module.double(), step, tuple(x.double() for x in X), "sgd", "mse")
    assert max(errors.values()) <= 1e-12, errors
