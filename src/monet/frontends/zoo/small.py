"""Small models: robot-dynamics multi-layer perceptrons and an LSTM language model."""

from __future__ import annotations

from typing import Any

from monet.frontends.recurrent import CellWeights, unroll, zero_state
from monet.frontends.zoo.layers import Layers
from monet.graph import Graph


def mlp(name: str, batch: int, *, sizes: tuple[int, ...], activation: str) -> Graph:
    """A multi-layer perceptron with ``activation`` after every layer but the last, trained on squared error."""
    net = Layers(name)
    net.builder.usual_loss = "mse"
    x = net.builder.input("state", (batch, sizes[0]))
    attrs: dict[str, Any] = {"alpha": 1.0} if activation == "elu" else {}
    for layer, width in enumerate(sizes[1:]):
        x = net.linear(str(2 * layer), x, width)
        if layer < len(sizes) - 2:
            x = net.activation(activation, x, str(2 * layer + 1), **attrs)
    return net.builder.build([x])


def lstm_lm(
    name: str, batch: int, sequence: int, *, depth: int = 2, width: int = 650, vocabulary: int = 10000
) -> Graph:
    """An LSTM language model of the medium size of Zaremba et al. 2014: two layers of 650, 35 steps, no dropout."""
    net = Layers(name)
    tokens = net.builder.input("tokens", (sequence, batch), "int64")
    x, _ = net.embedding("encoder", tokens, vocabulary, width)
    for layer in range(depth):
        with net.scope("rnn"):
            weights = CellWeights(
                net.builder.parameter(f"weight_ih_l{layer}", (4 * width, net.shape(x)[-1])),
                net.builder.parameter(f"weight_hh_l{layer}", (4 * width, width)),
                net.builder.parameter(f"bias_ih_l{layer}", (4 * width,)),
                net.builder.parameter(f"bias_hh_l{layer}", (4 * width,)),
            )
        with net.scope(f"rnn.layer{layer}"):
            x, _ = unroll(net.builder, "lstm", x, weights, zero_state(net.builder, "lstm", batch, width, "fp32"))
    return net.builder.build([net.linear("decoder", x, vocabulary)])
