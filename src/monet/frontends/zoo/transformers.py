"""Transformers: GPT-2 and GPT-3, BERT, Llama 2, ViT, and the MONET paper's small GPT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monet.errors import ModelError
from monet.frontends.zoo.layers import Layers
from monet.frontends.zoo.parameters import Family, choice, probability, probability_or, repeats, switch, whole, whole_or

if TYPE_CHECKING:
    from monet.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Transformer(Family):
    """What all of them have."""

    layers: int = repeats(12, "blocks")
    hidden: int = whole(768, "width of a token")
    heads: int = whole(12, "attention heads; divide hidden")
    intermediate: int | None = whole_or("4·hidden", "width inside the feed-forward part of a block")

    @property
    def feed_forward(self) -> int:
        """Width inside the feed-forward part of a block."""
        return self.intermediate or 4 * self.hidden

    def check(self) -> None:
        """Heads are equal parts of a token, and there is a learned position for every token."""
        if self.hidden % self.heads:
            raise ModelError(f"heads={self.heads} does not divide hidden={self.hidden}")
        positions, sequence = getattr(self, "positions", 0), getattr(self, "sequence", 0)
        if positions and sequence > positions:
            raise ModelError(f"sequence={sequence} is longer than positions={positions}")


def self_attention(net: Layers, x: str, heads: int, causal: bool, dropout: float = 0.0) -> str:
    """Attention with one joint projection for query, key and value, and an output projection."""
    width = net.shape(x)[-1]
    with net.scope("attn"):
        joint = net.linear("qkv", x, 3 * width)
        query, key, value = (net.heads(part, heads) for part in net.split(joint, (width,) * 3, 2))
        return net.linear("proj", net.merge_heads(net.attention(query, key, value, causal, dropout)), width)


def _tokens(net: Layers, batch: int, sequence: int) -> str:
    return net.builder.input("tokens", (batch, sequence), "int64")


def _positions(net: Layers, sequence: int, limit: int, width: int, name: str) -> str:
    """Learned positions: the row numbers are made anew each step and kept for the table's gradient."""
    rows = net.builder.emit("iota", name=f"{name}.rows", size=sequence, dtype="int64")
    return net.embedding(name, rows, limit, width)[0]


@dataclass(frozen=True, kw_only=True)
class Gpt(Transformer):
    """GPT-2 (Radford et al. 2019): pre-norm blocks, tanh GELU, head tied to the token table."""

    vocabulary: int = whole(50257, "tokens that are told apart")
    positions: int = whole(1024, "learned positions: the longest sequence")
    sequence: int = whole(1024, "tokens, if --sequence is not given")
    activation: str = choice("gelu", ("gelu", "relu"), "of the feed-forward part: tanh GELU, or ReLU as in OPT")
    tied: bool = switch(True, "the head shares the token table")
    dropout: float = probability(0.0, "of the embedding and of what every block adds")
    attention_dropout: float | None = probability_or("dropout", "of the attention probabilities")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net, width, p = Layers(name), self.hidden, self.dropout
        inner = p if self.attention_dropout is None else self.attention_dropout
        x, table = net.embedding("wte", _tokens(net, batch, self.sequence), self.vocabulary, width)
        x = net.dropout("drop", net.add(x, _positions(net, self.sequence, self.positions, width, "wpe"), "embed"), p)
        for layer in range(self.layers):
            with net.scope(f"h.{layer}"):
                y = self_attention(net, net.layer_norm("ln_1", x), self.heads, causal=True, dropout=inner)
                x = net.add(x, net.dropout("attn.dropout", y, p), "add1")
                y = net.linear("mlp.c_fc", net.layer_norm("ln_2", x), self.feed_forward)
                relu = self.activation == "relu"
                y = net.relu(y, "mlp.relu", inplace=False) if relu else net.gelu(y, tanh=True, name="mlp.gelu")
                y = net.linear("mlp.c_proj", y, width)
                x = net.add(x, net.dropout("mlp.dropout", y, p), "add2")
        x = net.layer_norm("ln_f", x)
        if not self.tied:
            return net.build(net.linear("lm_head", x, self.vocabulary, bias=False))
        return net.build(net.builder.emit("linear", x, table, name="lm_head", transpose=False))


@dataclass(frozen=True, kw_only=True)
class PaperGpt(Transformer):
    """The small GPT of the MONET paper's released graphs: ReLU, biases, no norms, a head of its own; 4 × 512, 4 heads.

    Unlike the released file every layer has its own weights and the embeddings are trained.
    """

    layers: int = repeats(4, "blocks")
    hidden: int = whole(512, "width of a token")
    heads: int = whole(4, "attention heads; divide hidden")
    intermediate: int | None = whole(1376, "width inside the feed-forward part of a block")
    vocabulary: int = whole(4000, "tokens that are told apart")
    sequence: int = whole(256, "tokens, if --sequence is not given; 256 positions or as many as this")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net, width = Layers(name), self.hidden
        x, _ = net.embedding("wte", _tokens(net, batch, self.sequence), self.vocabulary, width)
        x = net.add(x, _positions(net, self.sequence, max(256, self.sequence), width, "wpe"), "embed")
        for layer in range(self.layers):
            with net.scope(f"h.{layer}"):
                x = net.add(x, self_attention(net, x, self.heads, causal=True), "add1")
                y = net.relu(net.linear("mlp.fc", x, self.feed_forward), "mlp.relu", inplace=False)
                x = net.add(x, net.linear("mlp.proj", y, width), "add2")
        return net.build(net.linear("lm_head", x, self.vocabulary))


@dataclass(frozen=True, kw_only=True)
class Bert(Transformer):
    """BERT (Devlin et al. 2019) with pooler and a classification head."""

    vocabulary: int = whole(30522, "tokens that are told apart")
    positions: int = whole(512, "learned positions: the longest sequence")
    sequence: int = whole(128, "tokens, if --sequence is not given")
    classes: int = whole(2, "outputs of the classifier")
    dropout: float = probability(0.0, "of the embedding, of what every block adds, before the classifier")
    attention_dropout: float | None = probability_or("dropout", "of the attention probabilities")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net, width, p = Layers(name), self.hidden, self.dropout
        x = self._embedded(net, batch)
        for layer in range(self.layers):
            with net.scope(f"encoder.layer.{layer}"):
                with net.scope("attention"):
                    y = net.dropout("output.dropout", net.linear("output.dense", self._attended(net, x), width), p)
                    x = net.layer_norm("output.LayerNorm", net.add(y, x, "output.add"), 1e-12)
                y = net.gelu(net.linear("intermediate.dense", x, self.feed_forward), name="intermediate.gelu")
                y = net.dropout("output.dropout", net.linear("output.dense", y, width), p)
                x = net.layer_norm("output.LayerNorm", net.add(y, x, "output.add"), 1e-12)
        pooled = net.activation("tanh", net.linear("pooler.dense", net.select(x, 1, 0), width), "pooler.tanh")
        return net.build(net.linear("classifier", net.dropout("dropout", pooled, p), self.classes))

    def _embedded(self, net: Layers, batch: int) -> str:
        shape, width = (batch, self.sequence), self.hidden
        tokens = _tokens(net, *shape)
        with net.scope("embeddings"):
            x, _ = net.embedding("word_embeddings", tokens, self.vocabulary, width)
            kinds = net.builder.emit("fill", name="token_types", shape=shape, value=0, dtype="int64")
            x = net.add(x, net.embedding("token_type_embeddings", kinds, 2, width)[0], "add_types")
            rows = _positions(net, self.sequence, self.positions, width, "position_embeddings")
            x = net.layer_norm("LayerNorm", net.add(x, rows, "add_positions"), 1e-12)
            return net.dropout("dropout", x, self.dropout)

    def _attended(self, net: Layers, x: str) -> str:
        inner = self.dropout if self.attention_dropout is None else self.attention_dropout
        parts = ("query", "key", "value")
        query, key, value = (net.heads(net.linear(part, x, self.hidden), self.heads) for part in parts)
        return net.merge_heads(net.attention(query, key, value, False, inner))


@dataclass(frozen=True, kw_only=True)
class Llama(Transformer):
    """Llama 2 (Touvron et al. 2023): RMSNorm, rotary positions, SwiGLU; grouped queries where kv_heads < heads."""

    layers: int = repeats(32, "blocks")
    hidden: int = whole(4096, "width of a token")
    heads: int = whole(32, "attention heads; divide hidden in even parts")
    kv_heads: int | None = whole_or("heads", "heads of keys and values; divide heads")
    intermediate: int | None = whole_or("⅔·4·hidden", "width of the gate; ⅔·4·hidden goes up to a multiple of 256")
    vocabulary: int = whole(32000, "tokens that are told apart")
    sequence: int = whole(4096, "tokens, if --sequence is not given")
    dropout: float = probability(0.0, "of the attention probabilities, the only place Llama has it")

    @property
    def feed_forward(self) -> int:
        """Width of the gate; not given, by the rule of Llama's own code."""
        return self.intermediate or -(-(8 * self.hidden // 3) // 256) * 256

    def check(self) -> None:
        """Rotary positions turn pairs, and every key head serves equally many query heads."""
        super().check()
        if self.hidden // self.heads % 2:
            raise ModelError(f"hidden={self.hidden} in heads={self.heads} parts is odd; rotary positions turn pairs")
        if self.kv_heads and self.heads % self.kv_heads:
            raise ModelError(f"kv_heads={self.kv_heads} does not divide heads={self.heads}")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net, width = Layers(name), self.hidden
        x, _ = net.embedding("embed_tokens", _tokens(net, batch, self.sequence), self.vocabulary, width)
        tables = _rotary_tables(net, self.sequence, width // self.heads)
        for layer in range(self.layers):
            with net.scope(f"layers.{layer}"):
                x = net.add(x, self._attended(net, net.rms_norm("input_layernorm", x), tables), "add1")
                y = net.rms_norm("post_attention_layernorm", x)
                with net.scope("mlp"):
                    gate = net.activation("silu", net.linear("gate_proj", y, self.feed_forward, bias=False), "act")
                    up = net.linear("up_proj", y, self.feed_forward, bias=False)
                    y = net.linear("down_proj", net.builder.emit("mul", gate, up, name="mul"), width, bias=False)
                x = net.add(x, y, "add2")
        return net.build(net.linear("lm_head", net.rms_norm("norm", x), self.vocabulary, bias=False))

    def _attended(self, net: Layers, x: str, tables: tuple[str, str]) -> str:
        shared, size = self.kv_heads or self.heads, self.hidden // self.heads
        emit = net.builder.emit
        with net.scope("self_attn"):
            query = net.heads(net.linear("q_proj", x, self.hidden, bias=False), self.heads)
            key = net.heads(net.linear("k_proj", x, shared * size, bias=False), shared)
            value = net.heads(net.linear("v_proj", x, shared * size, bias=False), shared)
            query = emit("rotary", query, *tables, name="q_rotary", inverse=False)
            key = emit("rotary", key, *tables, name="k_rotary", inverse=False)
            key, value = (_share_heads(net, part, self.heads) for part in (key, value))
            y = net.merge_heads(net.attention(query, key, value, True, self.dropout))
            return net.linear("o_proj", y, self.hidden, bias=False)


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
    import numpy as np

    frequencies = np.power(10000.0, -np.arange(0, width, 2) / width)
    angles = np.arange(sequence)[:, None] * frequencies[None, :]
    with net.scope("rotary"):
        cos = net.builder.constant("cos", np.cos(angles), "fp32")
        sin = net.builder.constant("sin", np.sin(angles), "fp32")
    return cos, sin


@dataclass(frozen=True, kw_only=True)
class Vit(Transformer):
    """Vision transformer (Dosovitskiy et al. 2021), classified from the class token."""

    patch: int = whole(16, "side of a patch; divides image")
    image: int = whole(224, "side of the image, if --image is not given")
    classes: int = whole(1000, "outputs of the classifier")
    dropout: float = probability(0.0, "of the embedding, inside the feed-forward part, of what every block adds")
    attention_dropout: float | None = probability_or("dropout", "of the attention probabilities")
    attention: bool = switch(True, "no: blocks are their feed-forward part alone")
    input_gradient: bool = switch(False, "training works out the gradient of the image too")

    def check(self) -> None:
        """An image is cut into whole patches."""
        super().check()
        if self.image % self.patch:
            raise ModelError(f"image={self.image} is not a multiple of patch={self.patch}")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net, width, p = Layers(name), self.hidden, self.dropout
        inner = p if self.attention_dropout is None else self.attention_dropout
        x = net.dropout("encoder.dropout", self._embedded(net, batch), p)
        for layer in range(self.layers):
            with net.scope(f"encoder.layers.{layer}"):
                if self.attention:
                    y = self_attention(net, net.layer_norm("ln_1", x, 1e-6), self.heads, causal=False, dropout=inner)
                    x = net.add(x, net.dropout("dropout", y, p), "add1")
                y = net.linear("mlp.0", net.layer_norm("ln_2", x, 1e-6), self.feed_forward)
                y = net.linear("mlp.3", net.dropout("mlp.2", net.gelu(y, name="mlp.1"), p), width)
                x = net.add(x, net.dropout("mlp.4", y, p), "add2")
        x = net.select(net.layer_norm("encoder.ln", x, 1e-6), 1, 0)
        return net.build(net.linear("heads.head", x, self.classes))

    def _embedded(self, net: Layers, batch: int) -> str:
        width, tokens = self.hidden, (self.image // self.patch) ** 2
        x = net.builder.input("image", (batch, 3, self.image, self.image), differentiated=self.input_gradient)
        x = net.conv("conv_proj", x, width, self.patch, self.patch, bias=True)
        x = net.transpose(net.reshape(x, batch, width, tokens), 0, 2, 1)
        token = net.builder.parameter("class_token", (1, 1, width))
        token = net.builder.emit("expand", token, shape=(batch, 1, width))
        x = net.builder.emit("concat", token, x, axis=1)
        return net.add(x, net.builder.parameter("encoder.pos_embedding", (1, tokens + 1, width)), "encoder.embed")
