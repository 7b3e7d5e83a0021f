"""Small torch modules in the style of well-known networks. ``make`` gives (module, inputs, loss) by name."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

Case = tuple[nn.Module, tuple[Tensor, ...], str]


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def tokens(*shape: int, vocabulary: int = 20) -> Tensor:
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(3))


# --- image networks -------------------------------------------------------------------------------------------------


class BasicBlock(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        out = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block: type[nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        self.layer1 = block(8, 8, 1)
        self.layer2 = block(8 * (4 if block is Bottleneck else 1), 12, 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(12 * (4 if block is Bottleneck else 1), 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.avgpool(self.layer2(self.layer1(self.stem(x)))), 1))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, gate: nn.Module) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, 4, 1)
        self.fc2 = nn.Conv2d(4, channels, 1)
        self.activation, self.scale_activation = nn.ReLU(), gate

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x


class InvertedResidual(nn.Module):
    """MobileNetV2 with ReLU6, V3 with hard swish and squeeze-excite, EfficientNet with SiLU."""

    def __init__(self, channels: int, out: int, stride: int, style: str) -> None:
        super().__init__()
        hidden = 3 * channels
        activation = {"v2": nn.ReLU6(inplace=True), "v3": nn.Hardswish(inplace=True), "mb": nn.SiLU(inplace=True)}[
            style
        ]
        gate = {"v2": None, "v3": nn.Hardsigmoid(), "mb": nn.Sigmoid()}[style]
        parts: list[nn.Module] = [nn.Conv2d(channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), activation]
        parts += [
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            activation,
        ]
        if gate is not None:
            parts.append(SqueezeExcite(hidden, gate))
        parts += [nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv = nn.Sequential(*parts)
        self.residual = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNet(nn.Module):
    def __init__(self, style: str) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
            InvertedResidual(8, 8, 1, style), InvertedResidual(8, 12, 2, style),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(12, 5))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(8 + 4 * layer) for layer in range(3)])
        self.convs = nn.ModuleList([nn.Conv2d(8 + 4 * layer, 4, 3, padding=1, bias=False) for layer in range(3)])
        self.transition = nn.Sequential(
            nn.BatchNorm2d(20), nn.ReLU(inplace=True), nn.Conv2d(20, 10, 1), nn.AvgPool2d(2, 2)
        )
        self.classifier = nn.Linear(10, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.conv0(x)]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            features.append(conv(F.relu(norm(torch.cat(features, 1)), inplace=True)))
        x = F.relu(self.transition(torch.cat(features, 1)), inplace=True)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.b1 = nn.Conv2d(3, 4, 1)
        self.b2 = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 6, (1, 5), padding=(0, 2)))
        self.b3 = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding="same", dilation=2))
        self.b4 = nn.Conv2d(3, 2, 1)
        self.fc = nn.Linear(16 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)
        x = torch.cat([self.b1(x), self.b2(x), self.b3(x), self.b4(pooled)], 1)
        x = F.max_pool2d(F.relu(x), 3, 2, ceil_mode=True)
        return self.fc(F.adaptive_avg_pool2d(x, 2).flatten(1))


class ShuffleNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.branch = nn.Sequential(
            nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3, 1, 1, groups=4, bias=False), nn.BatchNorm2d(4),
            nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
        )  # fmt: skip
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.stem(x).chunk(2, dim=1)
        x = torch.cat((left, self.branch(right)), dim=1)
        batch, channels, height, width = x.size()
        x = x.view(batch, 2, channels // 2, height, width)
        x = torch.transpose(x, 1, 2).contiguous().view(batch, channels, height, width)
        return self.fc(x.mean([2, 3]))


class UNet(nn.Module):
    def __init__(self, upsample: bool) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(inplace=True))
        self.deep = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        )
        if upsample:
            self.up: nn.Module = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(8, 4, 1)
            )
        else:
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x)
        up = self.up(self.deep(skip))
        rows, columns = skip.size(2) - up.size(2), skip.size(3) - up.size(3)
        up = F.pad(up, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.last(torch.cat([skip, up], dim=1))


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), LayerNorm2d(8, eps=1e-6))
        self.blocks = nn.Sequential(ConvNeXtBlock(8), ConvNeXtBlock(8))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.stem(x)).mean([-2, -1])))


class MlpMixer(nn.Module):
    def __init__(self, patches: int = 16, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.token = nn.Sequential(nn.Linear(patches, 12), nn.GELU(), nn.Linear(12, patches))
        self.channel = nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Linear(12, width))
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = x + self.token(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channel(self.norm2(x))
        return self.head(x.mean(dim=1))


class Generator(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Unflatten(1, (6, 1, 1)),
            nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
            nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1), nn.Tanh(),
        )  # fmt: skip


class Discriminator(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(4, 8, 4, 2, 1, bias=False), nn.InstanceNorm2d(8), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(8, 1, 4), nn.Flatten(), nn.Sigmoid(),
        )  # fmt: skip


class Autoencoder(nn.Module):
    """Trained on its own reconstruction: the loss is inside."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.PReLU(4), nn.Conv2d(4, 6, 3, 2, 1), nn.ELU())
        self.decoder = nn.Sequential(nn.ConvTranspose2d(6, 4, 2, 2), nn.Softplus(), nn.ConvTranspose2d(4, 1, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        return F.mse_loss(self.decoder(self.encoder(x)), x)


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2, padding_mode="reflect")
        self.conv2 = nn.Conv2d(6, 4, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        up = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.shuffle(self.conv2(torch.tanh(self.conv1(x)))) + up


# --- transformers -----------------------------------------------------------------------------------------------------


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


# --- recurrent --------------------------------------------------------------------------------------------------------


class RecurrentLm(nn.Module):
    def __init__(
        self, kind: type[nn.RNNBase], bidirectional: bool = False, batch_first: bool = False, layers: int = 2
    ) -> None:
        super().__init__()
        self.encoder = nn.Embedding(20, 6)
        self.rnn = kind(6, 5, layers, bidirectional=bidirectional, batch_first=batch_first)
        self.decoder = nn.Linear(10 if bidirectional else 5, 20)

    def forward(self, ids: Tensor) -> Tensor:
        return self.decoder(self.rnn(self.encoder(ids))[0])


class Cells(nn.Module):
    """Cells stepped by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.head = nn.LSTMCell(4, 5), nn.GRUCell(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = c = g = torch.zeros(x.shape[1], 5, dtype=x.dtype)
        outputs = []
        for row in x:
            h, c = self.lstm(row, (h, c))
            g = self.gru(h, g)
            outputs.append(g)
        return self.head(torch.stack(outputs))


def _x(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (image(*shape),)


def _ids(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (tokens(*shape),)


_BUILDERS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, ...]], str]] = {
    "resnet_basic": (lambda: ResNet(BasicBlock), _x(2, 3, 32, 32), "cross-entropy"),
    "resnet_bottleneck": (lambda: ResNet(Bottleneck), _x(2, 3, 32, 32), "cross-entropy"),
    "mobilenet_v2": (lambda: MobileNet("v2"), _x(2, 3, 16, 16), "cross-entropy"),
    "mobilenet_v3": (lambda: MobileNet("v3"), _x(2, 3, 16, 16), "cross-entropy"),
    "efficientnet": (lambda: MobileNet("mb"), _x(2, 3, 16, 16), "cross-entropy"),
    "densenet": (DenseNet, _x(2, 3, 8, 8), "cross-entropy"),
    "inception": (Inception, _x(2, 3, 8, 8), "cross-entropy"),
    "shufflenet": (ShuffleNet, _x(2, 3, 16, 16), "cross-entropy"),
    "unet": (lambda: UNet(upsample=False), _x(2, 3, 16, 16), "cross-entropy"),
    "unet_bilinear": (lambda: UNet(upsample=True), _x(2, 3, 16, 16), "cross-entropy"),
    "convnext": (ConvNeXt, _x(2, 3, 32, 32), "cross-entropy"),
    "mlp_mixer": (MlpMixer, _x(2, 3, 16, 16), "cross-entropy"),
    "gan_generator": (Generator, _x(2, 6), "mse"),
    "gan_discriminator": (Discriminator, _x(2, 3, 16, 16), "mse"),
    "autoencoder": (Autoencoder, _x(2, 1, 8, 8), "sum"),
    "super_resolution": (SuperResolution, _x(2, 1, 8, 8), "mse"),
    "gpt2": (lambda: Gpt2(sdpa=False), _ids(2, 10), "cross-entropy"),
    "gpt2_batch1": (lambda: Gpt2(sdpa=False), _ids(1, 10), "cross-entropy"),
    "gpt2_sdpa": (lambda: Gpt2(sdpa=True), _ids(2, 10), "cross-entropy"),
    "bert": (Bert, lambda: (tokens(2, 10), tokens(2, 10, vocabulary=2)), "cross-entropy"),
    "vit": (Vit, _x(2, 3, 16, 16), "cross-entropy"),
    "llama": (lambda: Llama(sdpa=False), _ids(2, 10), "cross-entropy"),
    "llama_sdpa": (lambda: Llama(sdpa=True), _ids(2, 10), "cross-entropy"),
    "t5": (T5, _ids(2, 10), "cross-entropy"),
    "encoder_decoder": (EncoderDecoder, lambda: (tokens(2, 7), tokens(2, 5)), "cross-entropy"),
    "weighted_attention": (WeightedAttention, _x(5, 2, 8), "cross-entropy"),
    "einsum": (Einsum, _x(2, 5, 8), "cross-entropy"),
    "lstm": (lambda: RecurrentLm(nn.LSTM), _ids(6, 3), "cross-entropy"),
    "lstm_both_ways": (lambda: RecurrentLm(nn.LSTM, True, True), _ids(3, 6), "cross-entropy"),
    "gru": (lambda: RecurrentLm(nn.GRU, batch_first=True), _ids(3, 6), "cross-entropy"),
    "gru_both_ways": (lambda: RecurrentLm(nn.GRU, True), _ids(6, 3), "cross-entropy"),
    "rnn": (lambda: RecurrentLm(nn.RNN, layers=1), _ids(6, 3), "cross-entropy"),
    "cells": (Cells, _x(4, 3, 4), "cross-entropy"),
}  # fmt: skip

MODELS = tuple(_BUILDERS)


def make(name: str) -> Case:
    """A module with seeded weights, its inputs, and the loss it is trained with."""
    torch.manual_seed(0)
    build, inputs, loss = _BUILDERS[name]
    return build(), inputs(), loss
