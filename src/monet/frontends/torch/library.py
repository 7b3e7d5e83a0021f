"""The optional library itself: imported on first use, with an install hint when it is missing."""

from __future__ import annotations

from typing import Any

from monet.errors import MonetError

_NAMES = {
    "float64": "fp64",
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint8": "uint8",
    "bool": "bool",
}


def require_torch() -> Any:
    """The torch library, or an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise MonetError("reading a PyTorch module needs torch: pip install 'monet-train[torch]'") from None
    return torch


def dtype_name(dtype: Any) -> str:
    """monet's name of a torch dtype; empty if there is none (complex and quantised types)."""
    return _NAMES.get(str(dtype).removeprefix("torch."), "")


def torch_dtype(name: str) -> Any:
    """The torch dtype of one of monet's names, or of torch's own; None if there is none."""
    own = {ours: theirs for theirs, ours in _NAMES.items()}
    spelled = own.get(name, name)
    return getattr(require_torch(), spelled) if spelled in _NAMES else None
