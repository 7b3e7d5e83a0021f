"""Results out: tables, JSON, ONNX."""
