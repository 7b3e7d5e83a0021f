"""The zoo's families written in PyTorch with the zoo's parameter names: oracle for gradients, FLOPs, saved bytes."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class BasicBlock(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut(channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return F.relu(out, inplace=True)


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(channels, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = F.relu(self.bn2(self.conv2(out)), inplace=True)
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return F.relu(out, inplace=True)


def shortcut(channels: int, out: int, stride: int) -> nn.Module | None:
    if stride == 1 and channels == out:
        return None
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))


class ResNet(nn.Module):
    def __init__(
        self, blocks: tuple[int, ...], bottleneck: bool, classes: int = 1000, cifar: bool = False, width: int = 64,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dropout = dropout
        self.cifar = cifar
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False) if cifar else nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels, kind = width, Bottleneck if bottleneck else BasicBlock
        for stage, count in enumerate(blocks):
            layers = []
            for position in range(count):
                layers.append(kind(channels, width << stage, 2 if stage and not position else 1))
                channels = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.stages = len(blocks)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        if not self.cifar:
            x = self.maxpool(x)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(drop(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1), self.dropout))


class Vgg(nn.Module):
    def __init__(self, blocks: tuple[int, ...], width: int, hidden: int, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for stage, count in enumerate(blocks):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width << min(stage, 3), 3, 1, 1), nn.ReLU(inplace=True)]
                channels = width << min(stage, 3)
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 49, hidden), nn.ReLU(True), Drop(dropout), nn.Linear(hidden, hidden), nn.ReLU(True),
            Drop(dropout), nn.Linear(hidden, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(self.features(x), (7, 7)), 1))


def unit(channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(channels, out, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU6())


class Inverted(nn.Module):
    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        layers: list[nn.Module] = [unit(channels, hidden, 1)] if expansion > 1 else []
        layers += [unit(hidden, hidden, 3, stride, hidden), nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv = nn.Sequential(*layers)
        self.residual = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    SETTING = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self, classes: int = 1000, dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = [unit(3, 32, 3, 2)]
        channels = 32
        for expansion, out, repeats, stride in self.SETTING:
            for repeat in range(repeats):
                layers.append(Inverted(channels, out, stride if not repeat else 1, expansion))
                channels = out
        layers.append(unit(channels, 1280, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(Drop(dropout), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))


def double(channels: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(True),
        nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(True),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, width: int = 64, classes: int = 2, levels: int = 4) -> None:
        super().__init__()
        self.levels = levels
        channels = 3
        for level in range(levels):
            setattr(self, f"down{level}", double(channels, width << level))
            channels = width << level
        self.bottom = double(channels, width << levels)
        for level in reversed(range(levels)):
            setattr(self, f"up{level}", nn.ConvTranspose2d(width << (level + 1), width << level, 2, 2))
            setattr(self, f"merge{level}", double(width << (level + 1), width << level))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for level in range(self.levels):
            x = getattr(self, f"down{level}")(x)
            skips.append(x)
            x = F.max_pool2d(x, 2, 2)
        x = self.bottom(x)
        for level in reversed(range(self.levels)):
            x = torch.cat([skips[level], getattr(self, f"up{level}")(x)], 1)
            x = getattr(self, f"merge{level}")(x)
        return self.head(x)


def drop(x: Tensor, p: float) -> Tensor:
    """Dropout; none at all for a probability of zero, as the zoo has it."""
    return F.dropout(x, p) if p else x


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        q, k, v = (part.view(b, s, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(w, dim=2))
        return self.proj(attend(q, k, v, self.causal, self.dropout).transpose(1, 2).reshape(b, s, w))


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout: float = 0.0) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(mask, -math.inf)
    return drop(scores.softmax(-1), dropout) @ v


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int, names: tuple[str, str], tanh: bool) -> None:
        super().__init__()
        self.names, self.tanh = names, tanh
        setattr(self, names[0], nn.Linear(width, hidden))
        setattr(self, names[1], nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        first, second = (getattr(self, name) for name in self.names)
        return second(F.gelu(first(x), approximate="tanh" if self.tanh else "none"))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = SelfAttention(width, heads, True, dropout)
        self.mlp = Mlp(width, 4 * width, ("c_fc", "c_proj"), True)

    def forward(self, x: Tensor) -> Tensor:
        x = x + drop(self.attn(self.ln_1(x)), self.dropout)
        return x + drop(self.mlp(self.ln_2(x)), self.dropout)


class Gpt2(nn.Module):
    def __init__(
        self, depth: int, width: int, heads: int, vocabulary: int = 50257, positions: int = 1024,
        dropout: float = 0.0, tied: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dropout = dropout
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(GptBlock(width, heads, dropout) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = None if tied else nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])), self.dropout)
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight) if self.lm_head is None else self.lm_head(self.ln_f(x))


class PaperMlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc, self.proj = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(F.relu(self.fc(x)))


class PaperBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp = SelfAttention(512, 4, True), PaperMlp(512, 1376)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(x)
        return x + self.mlp(x)


class GptPaper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(4000, 512), nn.Embedding(256, 512)
        self.h = nn.ModuleList(PaperBlock() for _ in range(4))
        self.lm_head = nn.Linear(512, 4000)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(x)


class BertOutput(nn.Module):
    def __init__(self, hidden: int, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.dense, self.LayerNorm = nn.Linear(hidden, width), nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(drop(self.dense(x), self.dropout) + residual)


class BertAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = BertOutput(width, width, dropout)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        parts = (layer(x) for layer in (self.query, self.key, self.value))
        q, k, v = (part.view(b, s, self.heads, -1).transpose(1, 2) for part in parts)
        return self.output(attend(q, k, v, False, self.dropout).transpose(1, 2).reshape(b, s, w), x)


class BertLayer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = BertAttention(width, heads, dropout)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = BertOutput(4 * width, width, dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Bert(nn.Module):
    def __init__(self, depth: int, width: int, heads: int, vocabulary: int = 30522, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(vocabulary, width),
                "token_type_embeddings": nn.Embedding(2, width),
                "position_embeddings": nn.Embedding(512, width),
                "LayerNorm": nn.LayerNorm(width, eps=1e-12),
            }
        )
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(BertLayer(width, heads, dropout) for _ in range(depth))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})
        self.classifier = nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        tables = self.embeddings
        x = tables["word_embeddings"](tokens) + tables["token_type_embeddings"](torch.zeros_like(tokens))
        x = x + tables["position_embeddings"](torch.arange(tokens.shape[1]))
        x = drop(tables["LayerNorm"](x), self.dropout)
        for layer in self.encoder["layer"]:
            x = layer(x)
        return self.classifier(drop(torch.tanh(self.pooler["dense"](x[:, 0])), self.dropout))


class VitLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = SelfAttention(width, heads, False, dropout)
        self.mlp = nn.ModuleDict({"0": nn.Linear(width, hidden), "3": nn.Linear(hidden, width)})

    def forward(self, x: Tensor) -> Tensor:
        x = x + drop(self.attn(self.ln_1(x)), self.dropout)
        y = drop(F.gelu(self.mlp["0"](self.ln_2(x))), self.dropout)
        return x + drop(self.mlp["3"](y), self.dropout)


class Encoder(nn.Module):
    def __init__(self, tokens: int, width: int, depth: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.pos_embedding = nn.Parameter(torch.zeros(1, tokens + 1, width))
        self.layers = nn.ModuleList(VitLayer(width, heads, hidden, dropout) for _ in range(depth))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        x = drop(x + self.pos_embedding, self.dropout)
        for layer in self.layers:
            x = layer(x)
        return self.ln(x)


class Vit(nn.Module):
    def __init__(
        self, image: int, patch: int, width: int, depth: int, heads: int, hidden: int, classes: int,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.encoder = Encoder((image // patch) ** 2, width, depth, heads, hidden, dropout)
        self.heads = nn.ModuleDict({"head": nn.Linear(width, classes)})

    def forward(self, image: Tensor) -> Tensor:
        x = self.conv_proj(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1)
        return self.heads["head"](self.encoder(x)[:, 0])


class LlamaAttention(nn.Module):
    def __init__(self, width: int, heads: int, key_heads: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.heads, self.key_heads, size = heads, key_heads, width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, key_heads * size, bias=False)
        self.v_proj = nn.Linear(width, key_heads * size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        q, k, v = (
            layer(x).view(b, s, -1, w // self.heads).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q), rotate(k)
        k, v = (part.repeat_interleave(self.heads // self.key_heads, 1) for part in (k, v))
        return self.o_proj(attend(q, k, v, True, self.dropout).transpose(1, 2).reshape(b, s, w))


def rotate(x: Tensor) -> Tensor:
    size = x.shape[-1]
    frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., : size // 2], x[..., size // 2 :]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


class LlamaMlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, key_heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(width, eps=1e-5)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=1e-5)
        self.self_attn, self.mlp = LlamaAttention(width, heads, key_heads, dropout), LlamaMlp(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(
        self, depth: int, width: int, heads: int, key_heads: int, hidden: int, vocabulary: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, key_heads, hidden, dropout) for _ in range(depth))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


class LstmLm(nn.Module):
    def __init__(self, depth: int, width: int, vocabulary: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.encoder, self.rnn = nn.Embedding(vocabulary, width), nn.LSTM(width, width, depth)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        if not self.dropout:
            return self.decoder(self.rnn(self.encoder(tokens))[0])
        x, width = self.encoder(tokens), self.rnn.hidden_size
        for layer in range(self.rnn.num_layers):  # one layer at a time: the framework's own dropout is out of reach
            state = 2 * [x.new_zeros(1, x.shape[1], width)]
            weights = [
                getattr(self.rnn, f"{part}_l{layer}") for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            x = torch.lstm(drop(x, self.dropout if layer else 0.0), state, weights, True, 1, 0.0, True, False, False)[0]
        return self.decoder(x)


class Gnmt(nn.Module):
    def __init__(self, encoders: int, decoders: int, width: int, vocabulary: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.ModuleDict({"layers": nn.ModuleList()})
        self.encoder["layers"].append(nn.LSTM(width, width, bidirectional=True))
        self.encoder["layers"].append(nn.LSTM(2 * width, width))
        self.encoder["layers"].extend(nn.LSTM(width, width) for _ in range(encoders - 2))
        self.decoder = nn.ModuleDict({"layers": nn.ModuleList([nn.LSTM(width, width)])})
        self.decoder["layers"].extend(nn.LSTM(2 * width, width) for _ in range(decoders - 1))
        parts = {"query": nn.Linear(width, width, bias=False), "key": nn.Linear(width, width)}
        self.attention = nn.ModuleDict({**parts, "score": nn.Linear(width, 1, bias=False)})
        self.classifier = nn.Linear(width, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x = self.embedding(source)
        y = self.embedding(target)
        for number, layer in enumerate(self.encoder["layers"]):
            z = layer(drop(x, self.dropout))[0]
            x = x + z if number >= 2 else z
        y = self.decoder["layers"][0](drop(y, self.dropout))[0]
        asked, offered = self.attention["query"](y)[:, None], self.attention["key"](x)[None]
        scores = self.attention["score"](torch.tanh(asked + offered))[..., 0]
        context = torch.einsum("tsb,sbw->tbw", scores.softmax(1), x)
        for number, layer in enumerate(self.decoder["layers"][1:]):
            z = layer(torch.cat((drop(y, self.dropout), context), 2))[0]
            y = y + z if number >= 1 else z
        return self.classifier(y)


class Drop(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.p)


def mlp(*sizes: int, elu: bool, dropout: float = 0.0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for position, (width, out) in enumerate(pairwise(sizes)):
        layers.append(nn.Linear(width, out))
        if position < len(sizes) - 2:
            layers.append(nn.Sequential(nn.ELU() if elu else nn.SiLU(), Drop(dropout)))
    return nn.Sequential(*layers)
