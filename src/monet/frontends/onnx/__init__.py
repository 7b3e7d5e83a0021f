"""Models from ONNX files: ``load_onnx`` reads a file into a forward graph, ``onnx_values`` reads its weights."""

from monet.frontends.onnx.reader import load_onnx, onnx_values

__all__ = ["load_onnx", "onnx_values"]
