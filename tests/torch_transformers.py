"""Small transformers in the style of well-known ones: GPT-2, BERT, ViT, Llama, T5, and the framework's own layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class CausalAttention(nn.Module):
    """GPT-2's: one joint projection, and a mask kept as a buffer; or the framework's fused attention."""

    def __init__(self, width: int, heads: int, block: int, sdpa: bool) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.sdpa = heads, sdpa
        self.attn_dropout = nn.Dropout(0.0)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.size()
        q, k, v = self.c_attn(x).split(width, dim=2)
        q, k, v = (y.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for y in (q, k, v))
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
            y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))


class Gpt2(nn.Module):
    def __init__(self, sdpa: bool, vocabulary: int = 20, width: int = 16, length: int = 12) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.ln_1, self.ln_2, self.ln_f = (nn.LayerNorm(width) for _ in range(3))
        self.attn = CausalAttention(width, 4, length, sdpa)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx: Tensor) -> Tensor:
        x = self.wte(idx) + self.wpe(torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device))
        x = x + self.attn(self.ln_1(x))
        x = x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))
        return self.lm_head(self.ln_f(x))


class Bert(nn.Module):
    """Padding mask from an attention mask, token types made anew, pooler, padding row in the table."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(20, width, padding_idx=0)
        self.positions, self.types = nn.Embedding(16, width), nn.Embedding(2, width)
        self.query, self.key, self.value, self.dense = (nn.Linear(width, width) for _ in range(4))
        self.norm0, self.norm1, self.norm2 = (nn.LayerNorm(width, eps=1e-12) for _ in range(3))
        self.up, self.down = nn.Linear(width, 32), nn.Linear(32, width)
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, 2)
        self.heads = heads
        self.register_buffer("position_ids", torch.arange(16).expand((1, -1)))

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.size()[:-1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        types = torch.zeros(ids.size(), dtype=torch.long)
        x = self.words(ids) + self.types(types) + self.positions(self.position_ids[:, : ids.size(1)])
        x = self.norm0(x)
        extended = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        scores = torch.matmul(self.split(self.query(x)), self.split(self.key(x)).transpose(-1, -2))
        scores = scores / math.sqrt(8) + extended
        y = torch.matmul(nn.functional.softmax(scores, dim=-1), self.split(self.value(x)))
        y = y.permute(0, 2, 1, 3).contiguous()
        x = self.norm1(self.dense(y.view(*y.size()[:-2], -1)) + x)
        x = self.norm2(self.down(F.gelu(self.up(x))) + x)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class Vit(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj, self.head = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).reshape(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        att = ((q * (width // 4) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(batch, length, width))
        return self.head(self.norm2(x)[:, 0])


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate_half(x: Tensor) -> Tensor:
    left, right = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-right, left), dim=-1)


class Llama(nn.Module):
    """Rotary positions from primitives, grouped-query attention, SwiGLU, norm from primitives or the framework's."""

    def __init__(self, sdpa: bool, width: int = 16, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        size = width // heads
        self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, groups * size, bias=False)
        self.v, self.o = nn.Linear(width, groups * size, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 24, bias=False), nn.Linear(width, 24, bias=False)
        self.down, self.head = nn.Linear(24, width, bias=False), nn.Linear(width, 20, bias=False)
        norm = (lambda: nn.RMSNorm(width, eps=1e-6)) if sdpa else (lambda: RmsNorm(width))
        self.norm1, self.norm2, self.norm3 = norm(), norm(), norm()
        self.register_buffer("inv_freq", 1.0 / (10000 ** (torch.arange(0, size, 2).float() / size)), persistent=True)
        self.heads, self.groups, self.size, self.sdpa = heads, groups, size, sdpa

    def attend(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = (p(x).view(batch, length, self.groups, self.size).transpose(1, 2) for p in (self.k, self.v))
        angles = torch.outer(torch.arange(length).to(x.dtype), self.inv_freq)
        table = torch.cat((angles, angles), dim=-1)
        cos, sin = table.cos(), table.sin()
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k, v = (
                y[:, :, None].expand(batch, self.groups, self.heads // self.groups, length, self.size)
                .reshape(batch, self.heads, length, self.size) for y in (k, v)
            )  # fmt: skip
            scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.size)
            scores = scores + torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
            y = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.o(y.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = x + self.attend(self.norm1(x))
        y = self.norm2(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.head(self.norm3(x))


class T5(nn.Module):
    """Relative position buckets looked up in a trained table and added to the scores."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.embed, self.bias = nn.Embedding(20, width), nn.Embedding(8, heads)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.norm, self.heads = RmsNorm(width), heads

    def buckets(self, length: int) -> Tensor:
        context, memory = torch.arange(length)[:, None], torch.arange(length)[None, :]
        distance = memory - context
        result = (distance > 0).to(torch.long) * 4
        distance = torch.abs(distance)
        large = 2 + (torch.log(distance.float() / 2) / math.log(4) * 2).to(torch.long)
        large = torch.min(large, torch.full_like(large, 3))
        return result + torch.where(distance < 2, distance, large)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        y = self.norm(x)
        batch, length, width = y.shape
        q, k, v = (p(y).view(batch, length, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores += self.bias(self.buckets(length)).permute([2, 0, 1]).unsqueeze(0)
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        y = torch.matmul(weights, v).transpose(1, 2).contiguous().view(batch, -1, width)
        return F.linear(x + self.o(y), self.embed.weight)


class EncoderDecoder(nn.Module):
    """The framework's own transformer layers, both kinds."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True), 1, nn.LayerNorm(width)
        )
        self.decoder = nn.TransformerDecoderLayer(width, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, 20)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.encoder(self.embed(source))
        length = target.shape[1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
        return self.head(self.decoder(self.embed(target), memory, tgt_mask=mask))


class WeightedAttention(nn.Module):
    """nn.MultiheadAttention that returns its weights, which keeps it explicit; sequence first."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = self.attention(x, x, x)
        return self.head(y), weights


class Einsum(nn.Module):
    """Attention in index notation, with relative values in a table."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.qkv = nn.Parameter(torch.randn(3, 2, width, 4) * 0.3)
        self.relative = nn.Parameter(torch.randn(5, 4) * 0.3)
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = torch.einsum("bnc,thcd->tbhnd", x, self.qkv)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) + torch.einsum("b h i d, j d -> b h i j", q, self.relative)
        y = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        return self.out(y.permute(0, 2, 1, 3).flatten(2))


class Swin(nn.Module):
    """Shifted windows: rolled images, a mask written region by region, a position table looked up by pairs."""

    def __init__(self, width: int = 8, window: int = 4, heads: int = 2) -> None:
        super().__init__()
        self.window, self.shift, self.heads = window, window // 2, heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))
        self.reduction, self.head = nn.Linear(4 * width, 2 * width, bias=False), nn.Linear(2 * width, 5)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        offsets = (grid[:, :, None] - grid[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("pairs", offsets[..., 0] * (2 * window - 1) + offsets[..., 1])

    def mask(self, x: Tensor, height: int, width: int) -> Tensor:
        window, regions = self.window, x.new_zeros((height, width))
        cuts = ((0, -window), (-window, -self.shift), (-self.shift, None))
        for number, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
            regions[rows[0] : rows[1], columns[0] : columns[1]] = number
        regions = regions.view(height // window, window, width // window, window)
        regions = regions.permute(0, 2, 1, 3).reshape(-1, window * window)
        other = regions.unsqueeze(1) - regions.unsqueeze(2)
        return other.masked_fill(other != 0, -100.0).masked_fill(other == 0, 0.0)

    def attend(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        w, heads = self.window, self.heads
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = (
            x.view(batch, height // w, w, width // w, w, channels)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(-1, w * w, channels)
        )
        q, k, v = self.qkv(x).reshape(-1, w * w, 3, heads, channels // heads).permute(2, 0, 3, 1, 4)
        bias = self.table[self.pairs.view(-1)].view(w * w, w * w, -1).permute(2, 0, 1).contiguous()
        scores = (q * (channels // heads) ** -0.5) @ k.transpose(-2, -1) + bias.unsqueeze(0)
        scores = scores.view(batch, -1, heads, w * w, w * w) + self.mask(x, height, width)[None, :, None]
        weights = F.softmax(scores.view(-1, heads, w * w, w * w), dim=-1)
        x = self.proj(weights.matmul(v).transpose(1, 2).reshape(-1, w * w, channels))
        x = x.view(batch, height // w, width // w, w, w, channels).permute(0, 1, 3, 2, 4, 5)
        return torch.roll(x.reshape(batch, height, width, channels), (self.shift, self.shift), (1, 2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        x = torch.cat([x[:, r::2, c::2, :] for c in (0, 1) for r in (0, 1)], -1)
        return self.head(self.reduction(x).mean((1, 2)))


class Clip(nn.Module):
    """Two towers and their contrastive loss, computed inside."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(6, 4), nn.Embedding(20, 4)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        image, text = F.normalize(self.image(x), dim=-1), self.text(ids)
        text = text[torch.arange(ids.shape[0]), ids.argmax(dim=-1)]
        text = text / text.norm(dim=-1, keepdim=True)
        logits = self.scale.exp() * image @ text.t()
        labels = torch.arange(logits.shape[0])
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


class Conformer(nn.Module):
    """A convolution module with a gated linear unit, and attention that returns no weights."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 2, batch_first=True)
        self.point1, self.point2 = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depth, self.batch_norm = nn.Conv1d(width, width, 3, padding="same", groups=width), nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = F.glu(self.point1(self.norm(x).transpose(1, 2)), dim=1)
        x = x + self.point2(F.silu(self.batch_norm(self.depth(y)))).transpose(1, 2)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(x)
