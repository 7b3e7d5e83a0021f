"""The optional library itself: imported on first use, with an install hint when it is missing."""

from __future__ import annotations

from typing import Any

from monet.errors import MonetError
from monet.formats import FORMATS

_NAMES = {number_format.torch: name for name, number_format in FORMATS.items() if number_format.torch}


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
    spelled = (FORMATS[name].torch if name in FORMATS else "") or name
    return getattr(require_torch(), spelled) if spelled in _NAMES else None
