"""Where a value is read: the operand of a layer that holds its weights, seen directly or through layout operators.

One table for every stored value of a file, whether an initializer, a constant, a fill, or an input that was stripped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

NORMS = ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization")
LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
WEIGHT_SLOTS = {
    *((op, slot) for op in ("Conv", "ConvTranspose", "Gemm", *NORMS) for slot in (1, 2)), ("MatMul", 1), ("PRelu", 1),
    *((op, slot) for op in ("LSTM", "GRU", "RNN") for slot in (1, 2, 3)),
}  # fmt: skip
STATISTICS = {("BatchNormalization", 3), ("BatchNormalization", 4)}
LAYOUT = ("Identity", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Cast")


@dataclass(frozen=True, slots=True)
class Reader:
    """An operator that reads a value, and at which of its operands."""

    op: str
    slot: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def place(self) -> tuple[str, int]:
        """Operator and operand, as the tables name them."""
        return self.op, self.slot


class Places:
    """Who reads and who writes every value of a file. ``stored`` are the values that are there before it runs."""

    def __init__(
        self, nodes: Iterable[tuple[str, tuple[str, ...], tuple[str, ...]]], stored: Collection[str] = ()
    ) -> None:
        self._stored = stored
        self._readers: dict[str, list[Reader]] = defaultdict(list)
        self._writers: dict[str, Reader] = {}
        for op, inputs, outputs in nodes:
            for slot, name in enumerate(inputs):
                self._readers[name].append(Reader(op, slot, inputs, outputs))
            self._writers.update({name: Reader(op, -1, inputs, outputs) for name in outputs})

    def readers(self, name: str) -> tuple[Reader, ...]:
        """Everyone who reads a value."""
        return tuple(self._readers.get(name, ()))

    def is_weight(self, reader: Reader) -> bool:
        """Whether an operand is that of a layer's weights, or the bias or scale that an operator of its own adds."""
        if reader.place in WEIGHT_SLOTS:
            return True
        if reader.op == "Mul":
            return self._rescales(reader)
        return reader.op == "Add" and self._is_bias(reader)

    def is_rescaled(self, norm: Reader) -> bool:
        """Whether a batch norm is followed by a scale of its own, which then is what is trained.

        Caffe has two layers, a norm without parameters and a scale with a shift; converted, the norm is given ones and
        zeros. To train both would be to train a product.
        """
        followers = self._readers.get(norm.outputs[0], []) if norm.op == "BatchNormalization" else []
        return len(followers) == 1 and followers[0].op == "Mul" and self._is_stored(_other(followers[0]))

    def _rescales(self, reader: Reader) -> bool:
        maker = self._writers.get(_other(reader))
        return maker is not None and self.is_rescaled(maker)

    def _is_bias(self, reader: Reader) -> bool:
        maker = self._writers.get(_other(reader))
        if maker is None or len(self._readers[maker.outputs[0]]) != 1:
            return False
        if maker.op == "Mul":
            return any(self._rescales(Reader("Mul", slot, maker.inputs, maker.outputs)) for slot in (0, 1))
        return maker.op in LAYERS and len(maker.inputs) == 2 and self._is_stored(maker.inputs[1])

    def _is_stored(self, name: str) -> bool:
        """Whether a value is stored, perhaps in another layout."""
        while name not in self._stored:
            maker = self._writers.get(name)
            if maker is None or maker.op not in LAYOUT:
                return False
            name = maker.inputs[0]
        return True

    def seen_through_layout(self, name: str) -> tuple[Reader, ...]:
        """Who reads a value, directly or in another layout."""
        found: list[Reader] = []
        for reader in self.readers(name):
            through = reader.op in LAYOUT and reader.slot == 0 and reader.outputs
            found.extend(self.seen_through_layout(reader.outputs[0]) if through else (reader,))
        return tuple(found)


def _other(reader: Reader) -> str:
    """The other operand of an operator with two."""
    return reader.inputs[1 - reader.slot] if len(reader.inputs) == 2 else ""
