"""Small models: multi-layer perceptrons and an LSTM language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from monet.frontends.zoo.layers import Layers
from monet.frontends.zoo.parameters import Family, choice, probability, repeats, switch, whole, wholes

if TYPE_CHECKING:
    from monet.graph import Graph

_ATTRIBUTES: dict[str, dict[str, Any]] = {"elu": {"alpha": 1.0}, "gelu": {"approximate": False}}


@dataclass(frozen=True, kw_only=True)
class Mlp(Family):
    """A multi-layer perceptron with an activation after every layer but the last, trained on squared error."""

    widths: tuple[int, ...] = wholes((32, 256, 256, 8), "inputs, hidden layers and outputs", least=2)
    activation: str = choice("silu", ("silu", "elu", "relu", "gelu", "tanh"), "after every layer but the last")
    dropout: float = probability(0.0, "after every activation")
    input_gradient: bool = switch(False, "training works out the gradient of the input too")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        net = Layers(name)
        net.builder.usual_loss = "mse"
        x = net.builder.input("state", (batch, self.widths[0]), differentiated=self.input_gradient)
        attrs = _ATTRIBUTES.get(self.activation, {})
        for layer, width in enumerate(self.widths[1:]):
            x = net.linear(str(2 * layer), x, width)
            if layer < len(self.widths) - 2:
                x = net.activation(self.activation, x, str(2 * layer + 1), **attrs)
                x = net.dropout(f"{2 * layer + 1}.dropout", x, self.dropout)
        return net.build(x)


@dataclass(frozen=True, kw_only=True)
class Lstm(Family):
    """An LSTM language model; as it stands the medium size of Zaremba et al. 2014, without its dropout."""

    layers: int = repeats(2, "LSTM layers")
    hidden: int = whole(650, "width of a layer and of the embedding")
    vocabulary: int = whole(10000, "tokens that are told apart")
    sequence: int = repeats(35, "tokens, if --sequence is not given")
    dropout: float = probability(0.0, "between the layers")

    def build(self, name: str, batch: int) -> Graph:
        """The forward graph."""
        from monet.frontends.recurrent import CellWeights, unroll, zero_state

        net, width = Layers(name), self.hidden
        tokens = net.builder.input("tokens", (self.sequence, batch), "int64")
        x, _ = net.embedding("encoder", tokens, self.vocabulary, width)
        for layer in range(self.layers):
            x = net.dropout(f"rnn.dropout{layer}", x, self.dropout if layer else 0.0)
            with net.scope("rnn"):
                weights = CellWeights(
                    net.builder.parameter(f"weight_ih_l{layer}", (4 * width, net.shape(x)[-1])),
                    net.builder.parameter(f"weight_hh_l{layer}", (4 * width, width)),
                    net.builder.parameter(f"bias_ih_l{layer}", (4 * width,)),
                    net.builder.parameter(f"bias_hh_l{layer}", (4 * width,)),
                )
            with net.scope(f"rnn.layer{layer}"):
                x, _ = unroll(net.builder, "lstm", x, weights, zero_state(net.builder, "lstm", batch, width, "fp32"))
        return net.build(net.linear("decoder", x, self.vocabulary))
