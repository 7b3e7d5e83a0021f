"""Translation: GNMT, recurrent encoder and decoder with attention between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monet.errors import ModelError
from monet.frontends.zoo.layers import Layers
from monet.frontends.zoo.parameters import Family, probability, repeats, whole

if TYPE_CHECKING:
    from monet.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Gnmt(Family):
    """GNMT (Wu et al. 2016, arXiv 1609.08144): eight LSTM layers each side, the encoder's first in both directions,
    residuals from the third on, additive attention. As the MLPerf benchmark has it, the first decoder layer asks for
    the context of the same step, which all layers above it read, and both languages share one table."""

    encoder_layers: int = repeats(8, "encoder layers, the first in both directions")
    decoder_layers: int = repeats(8, "decoder layers")
    hidden: int = whole(1024, "width of a layer and of the embedding")
    vocabulary: int = whole(32000, "word pieces of both languages")
    sequence: int = repeats(50, "word pieces on either side, if --sequence is not given")
    dropout: float = probability(0.0, "before every layer")

    def check(self) -> None:
        """The first decoder layer asks, others read."""
        if self.encoder_layers < 2 or self.decoder_layers < 2:
            raise ModelError("encoder_layers and decoder_layers: at least 2 each")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net = Layers(name)
        sides = [net.builder.input(side, (self.sequence, batch), "int64") for side in ("source", "target")]
        with net.scope("embedding"):
            table = net.builder.parameter("weight", (self.vocabulary, self.hidden))
        source, target = (net.builder.emit("embedding", table, side, name="embedding") for side in sides)
        return net.build(
            net.linear("classifier", self._decoded(net, target, self._encoded(net, source)), self.vocabulary)
        )

    def _encoded(self, net: Layers, x: str) -> str:
        for layer in range(self.encoder_layers):
            name = f"encoder.layers.{layer}"
            y = net.dropout(f"{name}.dropout", x, self.dropout)
            y = self._lstm(net, name, y, both_ways=layer == 0)
            x = net.add(x, y, f"{name}.residual") if layer >= 2 else y
        return x

    def _decoded(self, net: Layers, x: str, encoded: str) -> str:
        """What the last layer gives; the layers above the first read its attention."""
        x = self._lstm(net, "decoder.layers.0", net.dropout("decoder.layers.0.dropout", x, self.dropout))
        context = self._attention(net, x, encoded)
        for layer in range(1, self.decoder_layers):
            name = f"decoder.layers.{layer}"
            y = net.builder.emit("concat", net.dropout(f"{name}.dropout", x, self.dropout), context, axis=2)
            y = self._lstm(net, name, y)
            x = net.add(x, y, f"{name}.residual") if layer >= 2 else y
        return x

    def _lstm(self, net: Layers, name: str, x: str, both_ways: bool = False) -> str:
        """A layer over all steps; outputs of two directions side by side."""
        from monet.frontends.recurrent import CellWeights, unroll, zero_state

        width, batch = self.hidden, net.shape(x)[1]
        found = []
        for suffix in ("", "_reverse") if both_ways else ("",):
            with net.scope(name):
                sizes = {"ih": (4 * width, net.shape(x)[-1]), "hh": (4 * width, width)}
                weights = [net.builder.parameter(f"weight_{part}_l0{suffix}", size) for part, size in sizes.items()]
                biases = [net.builder.parameter(f"bias_{part}_l0{suffix}", (4 * width,)) for part in sizes]
                state = zero_state(net.builder, "lstm", batch, width, "fp32")
                found.append(unroll(net.builder, "lstm", x, CellWeights(*weights, *biases), state, bool(suffix))[0])
        return net.builder.emit("concat", *found, axis=2) if both_ways else found[0]

    def _attention(self, net: Layers, query: str, keys: str) -> str:
        """Additive attention (Bahdanau et al. 2015) of every target step over all source steps."""
        steps, batch, width = net.shape(query)
        with net.scope("attention"):
            asked = net.reshape(net.linear("query", query, width, bias=False), steps, 1, batch, width)
            offered = net.reshape(net.linear("key", keys, width), 1, self.sequence, batch, width)
            both = net.activation("tanh", net.add(asked, offered, "both"), "tanh")
            scores = net.reshape(net.linear("score", both, 1, bias=False), steps, self.sequence, batch)
            weights = net.builder.emit("softmax", net.transpose(scores, 2, 0, 1), axis=-1)
            values = net.transpose(keys, 1, 0, 2)
            context = net.builder.emit("matmul", weights, values, name="context", transpose_a=False, transpose_b=False)
            return net.transpose(context, 1, 0, 2)
