"""Export of graphs, whole training steps included, as ONNX models that other tools can open and run."""

from monet.report.onnx.export import export_onnx
from monet.report.onnx.model import to_model

__all__ = ["export_onnx", "to_model"]
