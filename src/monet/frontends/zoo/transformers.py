"""Language models: GPT-2 and GPT-3, BERT, Llama 2, and the MONET paper's small GPT."""

from __future__ import annotations

import numpy as np

from monet.frontends.zoo.layers import Layers
from monet.graph import Graph


def self_attention(net: Layers, x: str, heads: int, causal: bool) -> str:
    """Attention with one joint projection for query, key and value, and an output projection."""
    width = net.shape(x)[-1]
    with net.scope("attn"):
        joint = net.linear("qkv", x, 3 * width)
        query, key, value = (net.heads(part, heads) for part in net.split(joint, (width,) * 3, 2))
        return net.linear("proj", net.merge_heads(net.attention(query, key, value, causal)), width)


def _tokens(net: Layers, batch: int, sequence: int) -> str:
    return net.builder.input("tokens", (batch, sequence), "int64")


def _positions(net: Layers, sequence: int, limit: int, width: int, name: str) -> str:
    """Learned positions: the row numbers are made anew each step and kept for the table's gradient."""
    from monet.errors import ModelError

    if sequence > limit:
        raise ModelError(f"{net.builder.name} has {limit} positions; --sequence {sequence} is too long")
    rows = net.builder.emit("iota", name=f"{name}.rows", size=sequence, dtype="int64")
    return net.embedding(name, rows, limit, width)[0]


def gpt2(
    name: str, batch: int, sequence: int, *, depth: int, width: int, heads: int, vocabulary: int = 50257,
    positions: int = 1024,
) -> Graph:  # fmt: skip
    """GPT-2 (Radford et al. 2019): pre-norm blocks, tanh GELU, head tied to the token table; no dropout."""
    net = Layers(name)
    x, table = net.embedding("wte", _tokens(net, batch, sequence), vocabulary, width)
    x = net.add(x, _positions(net, sequence, positions, width, "wpe"), "embed")
    for layer in range(depth):
        with net.scope(f"h.{layer}"):
            x = net.add(x, self_attention(net, net.layer_norm("ln_1", x), heads, causal=True), "add1")
            y = net.linear("mlp.c_fc", net.layer_norm("ln_2", x), 4 * width)
            x = net.add(x, net.linear("mlp.c_proj", net.gelu(y, tanh=True, name="mlp.gelu"), width), "add2")
    x = net.layer_norm("ln_f", x)
    return net.builder.build([net.builder.emit("linear", x, table, name="lm_head", transpose=False)])


def gpt_paper(name: str, batch: int, sequence: int) -> Graph:
    """The small GPT of the MONET paper's released graphs: ReLU, biases, no norms, a head of its own; 4 × 512, 4 heads.

    Unlike the released file every layer has its own weights and the embeddings are trained.
    """
    net = Layers(name)
    width, hidden, vocabulary = 512, 1376, 4000
    x, _ = net.embedding("wte", _tokens(net, batch, sequence), vocabulary, width)
    x = net.add(x, _positions(net, sequence, max(256, sequence), width, "wpe"), "embed")
    for layer in range(4):
        with net.scope(f"h.{layer}"):
            x = net.add(x, self_attention(net, x, 4, causal=True), "add1")
            y = net.relu(net.linear("mlp.fc", x, hidden), "mlp.relu", inplace=False)
            x = net.add(x, net.linear("mlp.proj", y, width), "add2")
    return net.builder.build([net.linear("lm_head", x, vocabulary)])


def bert(
    name: str, batch: int, sequence: int, *, depth: int, width: int, heads: int, classes: int = 2,
    vocabulary: int = 30522,
) -> Graph:  # fmt: skip
    """BERT (Devlin et al. 2019) with pooler and a classification head; no dropout."""
    net = Layers(name)
    emit = net.builder.emit
    tokens = _tokens(net, batch, sequence)
    with net.scope("embeddings"):
        x, _ = net.embedding("word_embeddings", tokens, vocabulary, width)
        kinds = emit("fill", name="token_types", shape=(batch, sequence), value=0, dtype="int64")
        x = net.add(x, net.embedding("token_type_embeddings", kinds, 2, width)[0], "add_types")
        x = net.add(x, _positions(net, sequence, 512, width, "position_embeddings"), "add_positions")
        x = net.layer_norm("LayerNorm", x, 1e-12)
    for layer in range(depth):
        with net.scope(f"encoder.layer.{layer}"):
            with net.scope("attention"):
                query, key, value = (net.heads(net.linear(part, x, width), heads) for part in ("query", "key", "value"))
                y = net.linear("output.dense", net.merge_heads(net.attention(query, key, value, False)), width)
                x = net.layer_norm("output.LayerNorm", net.add(y, x, "output.add"), 1e-12)
            y = net.gelu(net.linear("intermediate.dense", x, 4 * width), name="intermediate.gelu")
            y = net.linear("output.dense", y, width)
            x = net.layer_norm("output.LayerNorm", net.add(y, x, "output.add"), 1e-12)
    pooled = net.activation("tanh", net.linear("pooler.dense", net.select(x, 1, 0), width), "pooler.tanh")
    return net.builder.build([net.linear("classifier", pooled, classes)])


def llama(
    name: str, batch: int, sequence: int, *, depth: int, width: int, heads: int, key_heads: int, hidden: int,
    vocabulary: int = 32000,
) -> Graph:  # fmt: skip
    """Llama 2 (Touvron et al. 2023): RMSNorm, rotary positions, SwiGLU; grouped queries where key_heads < heads."""
    net = Layers(name)
    emit = net.builder.emit
    x, _ = net.embedding("embed_tokens", _tokens(net, batch, sequence), vocabulary, width)
    cos, sin = _rotary_tables(net, sequence, width // heads)
    for layer in range(depth):
        with net.scope(f"layers.{layer}"):
            y = net.rms_norm("input_layernorm", x)
            with net.scope("self_attn"):
                size = width // heads
                query = net.heads(net.linear("q_proj", y, width, bias=False), heads)
                key = net.heads(net.linear("k_proj", y, key_heads * size, bias=False), key_heads)
                value = net.heads(net.linear("v_proj", y, key_heads * size, bias=False), key_heads)
                query = emit("rotary", query, cos, sin, name="q_rotary", inverse=False)
                key = emit("rotary", key, cos, sin, name="k_rotary", inverse=False)
                key, value = (_share_heads(net, part, heads) for part in (key, value))
                y = net.merge_heads(net.attention(query, key, value, True))
                y = net.linear("o_proj", y, width, bias=False)
            x = net.add(x, y, "add1")
            y = net.rms_norm("post_attention_layernorm", x)
            with net.scope("mlp"):
                gate = net.activation("silu", net.linear("gate_proj", y, hidden, bias=False), "act")
                y = emit("mul", gate, net.linear("up_proj", y, hidden, bias=False), name="mul")
                y = net.linear("down_proj", y, width, bias=False)
            x = net.add(x, y, "add2")
    return net.builder.build([net.linear("lm_head", net.rms_norm("norm", x), vocabulary, bias=False)])


def _share_heads(net: Layers, x: str, heads: int) -> str:
    """Each key head serves several query heads: expand (a view), then merge the axes (a copy)."""
    batch, groups, tokens, width = net.shape(x)
    if groups == heads:
        return x
    x = net.reshape(x, batch, groups, 1, tokens, width)
    x = net.builder.emit("expand", x, shape=(batch, groups, heads // groups, tokens, width))
    return net.reshape(x, batch, heads, tokens, width)


def _rotary_tables(net: Layers, sequence: int, width: int) -> tuple[str, str]:
    """cos and sin of position × base^(-2i/width), base 10,000 (Su et al. 2021)."""
    frequencies = np.power(10000.0, -np.arange(0, width, 2) / width)
    angles = np.arange(sequence)[:, None] * frequencies[None, :]
    with net.scope("rotary"):
        cos = net.builder.constant("cos", np.cos(angles), "fp32")
        sin = net.builder.constant("sin", np.sin(angles), "fp32")
    return cos, sin
